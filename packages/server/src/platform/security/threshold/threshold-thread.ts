// A thread of `threads.ts`: does one operation after the other.
import { parentPort } from 'node:worker_threads'
import { ShareError } from './threshold.ts'
import { operations } from './threshold-operations.ts'

/** What a thread is asked. */
export interface Asked {
  operation: keyof typeof operations
  input: unknown[]
}

/** The thread's reply: a result, or the reason of a failure. */
export type Answered =
  | { result: unknown }
  | { refused: { code: ShareError['code']; message: string; indices: readonly number[] } }
  | { failed: string }

function answer({ operation, input }: Asked): Answered {
  try {
    const run = operations[operation] as (...args: unknown[]) => unknown
    return { result: run(...input) }
  } catch (error) {
    if (!(error instanceof ShareError)) return { failed: (error as Error).message }
    const { code, message, indices } = error
    return { refused: { code, message, indices } }
  }
}

/**
 * Overwrites the bytes in what came or went: a message is a copy, and this thread lives on. What came brings along whatever
 * else its bytes stood among.
 */
function wipe(value: unknown): void {
  if (ArrayBuffer.isView(value)) new Uint8Array(value.buffer).fill(0)
  else if (typeof value === 'object' && value !== null) for (const each of Object.values(value)) wipe(each)
}

parentPort?.on('message', (asked: Asked) => {
  const answered = answer(asked)
  parentPort?.postMessage(answered)
  wipe(asked.input)
  wipe(answered)
})
