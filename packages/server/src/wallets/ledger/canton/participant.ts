import { z } from 'zod'
import { createTokens } from './access-token.ts'
import { createSend, type HttpAnswer, UnreadAnswer } from './http.ts'
import type { CantonSettings } from './settings.ts'

const CAUSE_CHARS_MAX = 500

/** `JsCantonError` of the JSON Ledger API, as far as it is read. */
const Refusal = z.object({
  code: z.string(),
  cause: z.string(),
  errorCategory: z.number().optional(),
  definiteAnswer: z.boolean().nullish(),
})

/** A participant refused, or did not answer. */
export class ParticipantError extends Error {
  /** Null without an answer. */
  readonly status: number | null
  /** Canton's error code id, such as `CONTRACT_NOT_FOUND`; empty if the answer has none. */
  readonly code: string
  /** Canton's error category, 1 to 14. */
  readonly category: number | null
  /** Whether the participant says that nothing happened. */
  readonly definite: boolean
  /** Why the answer to this question cannot be read, where less of it might be; null otherwise. */
  readonly unread: 'oversize' | 'timeout' | null

  constructor(
    message: string,
    about: {
      status?: number
      code?: string
      category?: number
      definite?: boolean
      unread?: 'oversize' | 'timeout' | null
    } = {},
  ) {
    super(message)
    this.status = about.status ?? null
    this.code = about.code ?? ''
    this.category = about.category ?? null
    this.definite = about.definite ?? false
    this.unread = about.unread ?? (about.status === 413 ? 'oversize' : null)
  }
}

/** A participant's JSON Ledger API. All methods @throw ParticipantError. */
export interface Participant {
  get<T>(path: string, shape: z.ZodType<T>): Promise<T>
  /** `maxMs`: how long each of its requests may take, where that is less than the settings say. */
  post<T>(path: string, body: object, shape: z.ZodType<T>, maxMs?: number): Promise<T>
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}

function refusalOf({ status, body }: HttpAnswer): ParticipantError {
  const read = Refusal.safeParse(parsed(body))
  if (!read.success) return new ParticipantError(`The participant answered with status ${status}.`, { status })
  const { code, cause, errorCategory, definiteAnswer } = read.data
  return new ParticipantError(`${code}: ${cause}`.slice(0, CAUSE_CHARS_MAX), {
    status,
    code,
    ...(errorCategory === undefined ? {} : { category: errorCategory }),
    definite: definiteAnswer === true,
  })
}

/** @throws LedgerSettingsError if a certificate cannot be read */
export function createParticipant(settings: CantonSettings): Participant {
  const send = createSend(settings)
  const tokens = createTokens(send, settings)

  type Question = { method: 'GET' | 'POST'; path: string; body?: string; maxMs?: number }
  async function once({ method, path, body, maxMs }: Question, token: string | null) {
    try {
      return await send({
        method,
        url: settings.url + path,
        ...(maxMs === undefined ? {} : { maxMs }),
        headers: {
          accept: 'application/json',
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        },
        ...(body === undefined ? {} : { body }),
      })
    } catch (error) {
      const unread = error instanceof UnreadAnswer ? error.why : null
      throw Object.assign(new ParticipantError('The participant did not answer.', { unread }), { cause: error })
    }
  }

  async function tokenOf(): Promise<string | null> {
    try {
      return await tokens.get()
    } catch (error) {
      // Nothing was asked yet.
      const told = new ParticipantError('There is no token for the participant.', { category: 1, definite: true })
      throw Object.assign(told, { cause: error })
    }
  }

  async function call<T>(question: Question, shape: z.ZodType<T>) {
    const token = await tokenOf()
    let answer = await once(question, token)
    if (answer.status === 401 && token !== null) {
      tokens.refused(token)
      answer = await once(question, await tokenOf())
    }
    if (answer.status !== 200) throw refusalOf(answer)
    const read = shape.safeParse(parsed(answer.body))
    if (read.success) return read.data
    throw new ParticipantError(`The participant's answer to ${question.path} is not what its API describes.`)
  }

  return {
    get: (path, shape) => call({ method: 'GET', path }, shape),
    post: (path, body, shape, maxMs) =>
      call({ method: 'POST', path, body: JSON.stringify(body), ...(maxMs === undefined ? {} : { maxMs }) }, shape),
  }
}
