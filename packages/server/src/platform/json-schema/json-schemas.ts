import { Worker } from 'node:worker_threads'
import { fail } from '../http/errors.ts'
import type { Id } from '../ids.ts'
import type { Logger } from '../observability/log.ts'
import type { Answer, Question, Refusal, Subject, Verdict } from './schema-thread.ts'

/**
 * Schemas that strangers write, in JSON Schema 2020-12. They run in a thread of their own, interpreted, with counted steps
 * and patterns in RE2, so that neither a schema nor data against it can hold up requests. Tenants take turns: one that
 * asks for much work waits behind its own questions, not in front of the others'.
 */
export interface JsonSchemas {
  /** Why a schema cannot be used; null if it can. @throws rate_limited */
  check(tenantId: Id<'ten'>, schema: object): Promise<Refusal | null>
  /** What is wrong with data, in the order of the subjects. @throws rate_limited */
  validate(tenantId: Id<'ten'>, subjects: readonly Subject[]): Promise<Verdict[]>
  close(): Promise<void>
}

/** Questions of one tenant. */
const WAITING_MAX = 1_000
/** Much longer than one question may take, which its steps limit. */
const STALL_MS = 5_000
const SUBJECTS_A_QUESTION = 16
/** A question that has reached it takes no further subject. */
const CHARACTERS_A_QUESTION = 64 * 1024

/** As `.ts` where the source runs, as `.js` where the build does. */
const MODULE = new URL(`./schema-thread${import.meta.url.slice(import.meta.url.lastIndexOf('.'))}`, import.meta.url)

const MEMORY_MIB_MAX = 256

const busy = () => fail('rate_limited', [], { 'retry-after': '1' })

interface Waiting extends PromiseWithResolvers<Answer> {
  question: Question
}

/** Questions by tenant, in the order in which the tenants have their turn. */
function createTurns() {
  const byTenant = new Map<string, Waiting[]>()
  return {
    /** @throws rate_limited */
    add(tenantId: string, waiting: Waiting): void {
      const own = byTenant.get(tenantId) ?? []
      if (own.length >= WAITING_MAX) throw busy()
      own.push(waiting)
      byTenant.set(tenantId, own)
    },
    next(): Waiting | undefined {
      const [turn] = byTenant
      if (turn === undefined) return undefined
      const [tenantId, own] = turn
      const first = own.shift()
      byTenant.delete(tenantId)
      if (own.length > 0) byTenant.set(tenantId, own)
      return first
    },
  }
}

function questionsOf(subjects: readonly Subject[]): Subject[][] {
  const questions: Subject[][] = []
  let room = 0
  for (const subject of subjects) {
    const last = questions.at(-1)
    if (last === undefined || room <= 0 || last.length === SUBJECTS_A_QUESTION) {
      questions.push([subject])
      room = CHARACTERS_A_QUESTION
    } else last.push(subject)
    room -= subject.data.length
  }
  return questions
}

/** Starts its thread when it is first needed, and again when it stopped. */
export function createJsonSchemas(log: Logger): JsonSchemas {
  const turns = createTurns()
  let worker: Worker | null = null
  /** What the thread works on. */
  let asked: Waiting | undefined
  let stall: NodeJS.Timeout | undefined
  let closed = false

  /** Ends the thread and refuses what it works on; the rest is for the next thread. */
  function end(): void {
    const ending = worker
    worker = null
    clearTimeout(stall)
    asked?.reject(busy())
    asked = undefined
    void ending?.terminate()
  }

  function giveUp(error: unknown): void {
    log.error({ err: error }, 'the thread for schemas stopped')
    end()
    askNext()
  }

  function begin(): Worker {
    const begun = new Worker(MODULE, { resourceLimits: { maxOldGenerationSizeMb: MEMORY_MIB_MAX } })
    begun.on('message', (answer: Answer) => {
      clearTimeout(stall)
      asked?.resolve(answer)
      asked = undefined
      askNext()
    })
    begun.on('error', giveUp)
    begun.on('exit', (code) => {
      if (worker === begun) giveUp(new Error(`exit code ${code}`))
    })
    return begun
  }

  function askNext(): void {
    if (asked !== undefined) return
    asked = turns.next()
    if (asked === undefined) {
      worker?.unref()
      return
    }
    worker ??= begin()
    worker.ref()
    worker.postMessage(asked.question)
    stall = setTimeout(() => giveUp(new Error('no answer')), STALL_MS)
  }

  async function ask(tenantId: string, question: Question): Promise<Answer> {
    if (closed) throw new Error('the thread for schemas is closed')
    const waiting = { ...Promise.withResolvers<Answer>(), question }
    turns.add(tenantId, waiting)
    askNext()
    const answer = await waiting.promise
    if ('failed' in answer) throw new Error(`a schema could not be used: ${answer.failed}`)
    return answer
  }

  async function validate(tenantId: string, subjects: Subject[]): Promise<Verdict[]> {
    const answer = await ask(tenantId, { validate: subjects })
    if ('refusal' in answer) throw new Error(`a stored schema was refused: ${answer.refusal?.message}`)
    return (answer as { verdicts: Verdict[] }).verdicts
  }

  return {
    async check(tenantId, schema) {
      const answer = await ask(tenantId, { check: JSON.stringify(schema) })
      return (answer as { refusal: Refusal | null }).refusal
    },
    async validate(tenantId, subjects) {
      const verdicts = await Promise.all(questionsOf(subjects).map((question) => validate(tenantId, question)))
      return verdicts.flat()
    },
    async close() {
      closed = true
      end()
      for (let waiting = turns.next(); waiting !== undefined; waiting = turns.next()) waiting.reject(busy())
    },
  }
}
