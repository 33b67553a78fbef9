import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import pLimit, { type LimitFunction } from 'p-limit'
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
/** The same if each starts its own thread: 200 ms. */
const WAITING_ALONE_MAX = 10

/** As `.ts` where the source runs, as `.js` where the build does. */
const MODULE = new URL(`./threshold-thread${import.meta.url.slice(import.meta.url.lastIndexOf('.'))}`, import.meta.url)

/** A thread that does one call at a time, and keeps no process alive while it does none. */
function beginThread(ended: () => void) {
  const worker = new Worker(MODULE)
  worker.unref()
  let call: PromiseWithResolvers<unknown> | undefined
  const fail = (error: Error) => {
    ended()
    call?.reject(error)
  }
  worker.on('message', (answered: Answered) => {
    if ('result' in answered) return call?.resolve(answered.result)
    if ('failed' in answered) return call?.reject(new Error(answered.failed))
    const { code, message, indices } = answered.refused
    call?.reject(new ShareError(code, message, indices))
  })
  worker.on('error', fail)
  worker.on('exit', () => fail(new Error('a thread for arithmetic stopped')))
  return {
    async run(asked: Asked): Promise<never> {
      call = Promise.withResolvers()
      worker.ref()
      try {
        worker.postMessage(asked)
        return (await call.promise) as never
      } finally {
        call = undefined
        worker.unref()
      }
    },
    end: () => worker.terminate(),
  }
}

type Thread = ReturnType<typeof beginThread>

function refuseBeyond(waitingMax: number, queue: LimitFunction): void {
  if (queue.pendingCount >= waitingMax) throw fail('rate_limited', [], { 'retry-after': '1' })
}

/** Threads that begin when they are first needed. */
export function createThreads(): Threads {
  const size = Math.min(THREADS_MAX, Math.max(1, availableParallelism() - 1))
  const threads = new Set<Thread>()
  const idle = new Set<Thread>()
  const inThread = pLimit(size)
  const inOwnThread = pLimit(size)
  let closed = false

  function begin(): Thread {
    if (closed) throw new Error('the threads for arithmetic are closed')
    const thread = beginThread(() => {
      threads.delete(thread)
      idle.delete(thread)
    })
    threads.add(thread)
    return thread
  }

  return {
    async run(operation, ...input) {
      refuseBeyond(WAITING_MAX, inThread)
      return inThread(async () => {
        const [thread = begin()] = idle
        idle.delete(thread)
        try {
          return await thread.run({ operation, input })
        } finally {
          if (threads.has(thread)) idle.add(thread)
        }
      })
    },
    async runAlone(operation, ...input) {
      refuseBeyond(WAITING_ALONE_MAX, inOwnThread)
      return inOwnThread(async () => {
        const thread = begin()
        try {
          return await thread.run({ operation, input })
        } finally {
          void thread.end()
        }
      })
    },
    async close() {
      closed = true
      await Promise.all([...threads].map((thread) => thread.end()))
    },
  }
}
