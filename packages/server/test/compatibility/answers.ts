import { type Answer, call } from '../harness/harness.ts'
import type { Answers } from './fixture.ts'

// biome-ignore lint/suspicious/noExplicitAny: looked into by path; the contract is what the tests state
type Json = any

const PAGE = 'page_size=100'
/** Lists and records of the tenant. */
const PATHS = [
  '/tenant',
  `/apps?${PAGE}`,
  `/users?${PAGE}`,
  `/wallets?${PAGE}`,
  `/guests?${PAGE}`,
  `/delegated-sessions?${PAGE}`,
  `/transactions?${PAGE}`,
  `/templates?${PAGE}`,
  `/api-keys?${PAGE}`,
  `/webhooks?${PAGE}`,
  `/custom-domains?${PAGE}`,
  `/audit-log?${PAGE}`,
  '/events?limit=1000',
  '/analytics?period=7d',
  '/billing/usage',
]

/** What is read of each record of a list. */
const RECORD_PATHS: Record<string, (id: string) => string[]> = {
  users: (id) => [`/users/${id}/passkeys?${PAGE}`, `/users/${id}/sessions?${PAGE}`],
  wallets: (id) => [`/wallets/${id}`, `/wallets/${id}/custody`],
  guests: (id) => [`/guests/${id}`],
  'delegated-sessions': (id) => [`/delegated-sessions/${id}`],
  transactions: (id) => [`/transactions/${id}`],
  webhooks: (id) => [`/webhooks/${id}/deliveries?${PAGE}`],
  'custom-domains': (id) => [`/custom-domains/${id}`, `/custom-domains/${id}/plan`],
}

/** Follows from which process answers and when. */
const VOLATILE = new Set(['lastUsedAt', 'docs'])

function lasting(value: Json): Json {
  if (Array.isArray(value)) return value.map(lasting)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => !VOLATILE.has(name))
      .map(([name, inner]) => [name, lasting(inner)]),
  )
}

function dataOf(path: string, { status, body, text }: Answer): Json {
  if (status !== 200) throw new Error(`GET ${path}: ${status} ${text}`)
  return lasting(body.data)
}

/** Reads everything of a tenant over HTTP, and a job that it had, if any. @throws Error where something is refused */
export async function readAnswers(url: string, key: string, jobId: string | null): Promise<Answers> {
  const answers: Answers = {}
  const read = async (path: string): Promise<Json> => {
    answers[path] = dataOf(path, await call(url, 'GET', `/v1${path}`, { key }))
    return answers[path]
  }
  for (const path of [...PATHS, ...(jobId === null ? [] : [`/jobs/${jobId}`])]) {
    const data = await read(path)
    const more = RECORD_PATHS[path.slice(1).split('?')[0] as string]
    if (more !== undefined) for (const { id } of data) for (const inner of more(id)) await read(inner)
  }
  for (const [path, data] of Object.entries(answers)) {
    const webhook = /^\/webhooks\/(\w+)\/deliveries\?/.exec(path)?.[1]
    if (webhook !== undefined) for (const { id } of data as Json) await read(`/webhooks/${webhook}/deliveries/${id}`)
  }
  return answers
}

/** Answers without their texts for people, which a later release may put better. */
export const withoutTexts = (answers: unknown) =>
  JSON.parse(JSON.stringify(answers, (name, value) => (['how', 'text'].includes(name) ? '' : value)))
