import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { fail } from '../../http/errors.ts'
import { ShareError } from './threshold.ts'
import type { Operations } from './threshold-operations.ts'
import type { Answered, Asked } from './threshold-thread.ts'

/** Threads for threshold arithmetic: some milliseconds each, which the event loop has not got. */
export interface Threads {
  /** @throws ShareError, and 429 where too many wait */
  run<Name extends keyof Operations>(
    operation: Name,
    ...input: Parameters<Operations[Name]>
  ): Promise<ReturnType<Operations[Name]>>
  /** The same in a thread that ends with it, and takes what it knew along; as many of them at once as of the others. */
  runAlone: Threads['run']
  close(): Promise<void>
}

const THREADS_MAX = 4
/** A second's work for two threads. */
const WAITING_MAX = 200
/** The same where each begins a thread of its own, 200 ms. */
const WAITING_ALONE_MAX = 10

/** As `.ts` where the source runs, as `.js` where the build does. */
const MODULE = new URL(`./threshold-thread${import.meta.url.slice(import.meta.url.lastIndexOf('.'))}`, import.meta.url)

interface Call {
  asked: Asked
  resolve(result: unknown): void
  reject(error: unknown): void
  /** When it is settled: whether the thread lives on. */
  done(lives: boolean): void
}

function settle({ resolve, reject }: Call, answered: Answered): void {
  if ('result' in answered) resolve(answered.result)
  else if ('refused' in answered) {
    const { code, message, indices } = answered.refused
    reject(new ShareError(code, message, indices))
  } else reject(new Error(answered.failed))
}

/** A thread that does one call at a time, and keeps no process alive while it does none. */
function beginThread(ended: (thread: Worker) => void) {
  const worker = new Worker(MODULE)
  worker.unref()
  let call: Call | undefined
  const finish = (lives: boolean, act: (call: Call) => void) => {
    const finished = call
    call = undefined
    worker.unref()
    if (finished === undefined) return
    act(finished)
    finished.done(lives)
  }
  worker.on('message', (answered: Answered) => finish(true, (done) => settle(done, answered)))
  worker.on('error', (error) => finish(false, ({ reject }) => reject(error)))
  worker.on('exit', () => {
    ended(worker)
    finish(false, ({ reject }) => reject(new Error('a thread for arithmetic ended')))
  })
  return {
    worker,
    take(next: Call) {
      call = next
      worker.ref()
      worker.postMessage(next.asked)
    },
  }
}

type Thread = ReturnType<typeof beginThread>

/** Threads that begin when they are first needed. */
export function createThreads(): Threads {
  const size = Math.min(THREADS_MAX, Math.max(1, availableParallelism() - 1))
  const workers = new Set<Worker>()
  const waiting: Call[] = []
  const waitingAlone: Call[] = []
  const idle: Thread[] = []
  let busy = 0
  let alone = 0
  let calls = 0

  function begin(): Thread {
    const thread = beginThread((worker) => {
      workers.delete(worker)
      const at = idle.findIndex((each) => each.worker === worker)
      if (at >= 0) idle.splice(at, 1)
    })
    workers.add(thread.worker)
    return thread
  }

  function next(): void {
    while (busy < size && waiting.length > 0) {
      const thread = idle.pop() ?? begin()
      const call = waiting.shift() as Call
      busy += 1
      thread.take({
        ...call,
        done(lives) {
          busy -= 1
          if (lives) idle.push(thread)
          next()
        },
      })
    }
  }

  function nextAlone(): void {
    while (alone < size && waitingAlone.length > 0) {
      const thread = begin()
      const call = waitingAlone.shift() as Call
      alone += 1
      thread.take({
        ...call,
        done() {
          alone -= 1
          void thread.worker.terminate()
          nextAlone()
        },
      })
    }
  }

  function ask(operation: Asked['operation'], input: unknown[], go: (call: Call) => void): Promise<never> {
    calls += 1
    const asked = { id: calls, operation, input }
    return new Promise((resolve, reject) => {
      go({ asked, resolve: resolve as Call['resolve'], reject, done() {} })
    })
  }

  return {
    async run(operation, ...input) {
      if (waiting.length >= WAITING_MAX) throw fail('rate_limited', [], { 'retry-after': '1' })
      return ask(operation, input, (call) => {
        waiting.push(call)
        next()
      })
    },
    async runAlone(operation, ...input) {
      if (waitingAlone.length >= WAITING_ALONE_MAX) throw fail('rate_limited', [], { 'retry-after': '1' })
      return ask(operation, input, (call) => {
        waitingAlone.push(call)
        nextAlone()
      })
    },
    async close() {
      // Else each thread that ends would make room for another one.
      for (const { reject } of [...waiting.splice(0), ...waitingAlone.splice(0)])
        reject(new Error('the threads for arithmetic are closed'))
      await Promise.all([...workers].map((worker) => worker.terminate()))
    },
  }
}
