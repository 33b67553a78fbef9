import type { Logger } from '../observability/log.ts'

/** Shares one run of `work` among all callers that arrive while it runs. */
export function singleFlight<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined
  return () => {
    running ??= work().finally(() => {
      running = undefined
    })
    return running
  }
}

/** Work that repeats in the background. */
export interface Poller {
  /** Runs the work at once, and then periodically. */
  start(): void
  /** Waits for the run under way. */
  stop(): Promise<void>
}

/** Repeats `work`, with a pause after each run; logs `failure` when it fails. Keeps no process alive. */
export function createPoller(options: {
  pauseMs: number
  work: () => Promise<void>
  log: Logger
  failure: string
}): Poller {
  const { pauseMs, work, log, failure } = options
  let stopped = true
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> = Promise.resolve()

  async function run(): Promise<void> {
    await work().catch((error: unknown) => log.warn({ err: error }, failure))
    if (stopped) return
    timer = setTimeout(begin, pauseMs)
    timer.unref()
  }
  function begin(): void {
    running = run()
  }
  return {
    start() {
      stopped = false
      begin()
    },
    async stop() {
      stopped = true
      clearTimeout(timer)
      await running
    },
  }
}
