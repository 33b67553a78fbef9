import { Worker } from 'node:worker_threads'
import { fail } from '../http/errors.ts'
import type { Logger } from '../observability/log.ts'
import type { Answer, Question, Refusal, Subject, Verdict } from './schema-thread.ts'

/**
 * Schemas that strangers write, in JSON Schema 2020-12. They run in a thread of their own, interpreted, with counted steps
 * and patterns in RE2, so that neither a schema nor data against it can hold up requests.
 */
export interface JsonSchemas {
  /** Why a schema cannot be used; null if it can. @throws rate_limited */
  check(schema: object): Promise<Refusal | null>
  /** What is wrong with data, in the order of the subjects. @throws rate_limited */
  validate(subjects: Subject[]): Promise<Verdict[]>
  close(): Promise<void>
}

const WAITING_MAX = 1_000
/** Much longer than one question may take, which its steps limit. */
const STALL_MS = 5_000

/** As `.ts` where the source runs, as `.js` where the build does. */
const MODULE = new URL(`./schema-thread${import.meta.url.slice(import.meta.url.lastIndexOf('.'))}`, import.meta.url)

const MEMORY_MIB_MAX = 256

const busy = () => fail('rate_limited', [], { 'retry-after': '1' })

/** Starts its thread when it is first needed, and again when it stopped. */
export function createJsonSchemas(log: Logger): JsonSchemas {
  const waiting = new Map<number, PromiseWithResolvers<Answer>>()
  let worker: Worker | null = null
  let last = 0
  let stall: NodeJS.Timeout | undefined
  let closed = false

  function giveUp(error: unknown): void {
    log.error({ err: error }, 'the thread for schemas stopped')
    end()
  }

  /** Ends the thread. What it has not answered may be sent again. */
  function end(): void {
    const ending = worker
    worker = null
    clearTimeout(stall)
    for (const call of waiting.values()) call.reject(busy())
    waiting.clear()
    void ending?.terminate()
  }

  function watch(): void {
    clearTimeout(stall)
    if (waiting.size === 0) {
      worker?.unref()
      return
    }
    worker?.ref()
    stall = setTimeout(() => giveUp(new Error('no answer')), STALL_MS)
  }

  function begin(): Worker {
    if (closed) throw new Error('the thread for schemas is closed')
    const begun = new Worker(MODULE, { resourceLimits: { maxOldGenerationSizeMb: MEMORY_MIB_MAX } })
    begun.on('message', ({ id, answer }: { id: number; answer: Answer }) => {
      waiting.get(id)?.resolve(answer)
      waiting.delete(id)
      watch()
    })
    begun.on('error', giveUp)
    begun.on('exit', (code) => {
      if (worker === begun) giveUp(new Error(`exit code ${code}`))
    })
    return begun
  }

  async function ask(question: Question): Promise<Answer> {
    if (waiting.size >= WAITING_MAX) throw busy()
    worker ??= begin()
    last += 1
    const call = Promise.withResolvers<Answer>()
    waiting.set(last, call)
    worker.postMessage({ id: last, question })
    if (waiting.size === 1) watch()
    const answer = await call.promise
    if ('failed' in answer) throw new Error(`a schema could not be used: ${answer.failed}`)
    return answer
  }

  return {
    async check(schema) {
      const answer = await ask({ check: JSON.stringify(schema) })
      return (answer as { refusal: Refusal | null }).refusal
    },
    async validate(subjects) {
      const answer = await ask({ validate: subjects })
      if ('refusal' in answer) throw new Error(`a stored schema was refused: ${answer.refusal?.message}`)
      return (answer as { verdicts: Verdict[] }).verdicts
    },
    async close() {
      closed = true
      end()
    },
  }
}
