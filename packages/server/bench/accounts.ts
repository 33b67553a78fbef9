// Whether the time of an answer tells if there is an account: the same call for accounts that are there and for ones that
// are not, in turn, one after the other.
import { randomBytes } from 'node:crypto'
import { Pool } from 'undici'
import { newId } from '../src/platform/ids.ts'
import { median, ms, whole } from './figures.ts'
import type { Outcome } from './main.ts'
import { type Row, step } from './report.ts'
import { type Bed, openBed, type Service } from './service.ts'
import { assertion, type Passkey, preparePasskeys } from './sign-in.ts'
import { firstTenant } from './tenant.ts'

const PASSKEYS = 200
const WARM_UP = 200
/** How far from a coin's toss a guess by the time of one answer may be. */
const BIAS_MAX = 0.05

interface Stage {
  bed: Bed
  service: Service
  pool: Pool
  passkeys: Passkey[]
  pairs: number
}

interface Answer {
  tookMs: number
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: looked into by path
  body: any
  /** The names in the body, and how long its texts are: what an onlooker could go by. */
  shape: string
}

function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shapeOf)
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, shapeOf(inner)]))
  return typeof value === 'string' ? value.length : typeof value
}

async function ask(stage: Stage, method: 'GET' | 'POST', path: string, body?: object): Promise<Answer> {
  const startedAt = performance.now()
  const answer = await stage.pool.request({
    method,
    path: `/v1${path}`,
    headers: { 'x-api-key': stage.bed.key, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await answer.body.text()
  const tookMs = performance.now() - startedAt
  const parsed = JSON.parse(text)
  return {
    tookMs,
    status: answer.statusCode,
    body: parsed,
    shape: JSON.stringify([answer.statusCode, shapeOf(parsed)]),
  }
}

/** How often, of two answers drawn at random, the one of an account took longer: 0.5 if time tells nothing. */
function chanceOfLonger(known: readonly number[], unknown: readonly number[]): number {
  const sorted = Float64Array.from(unknown).sort()
  let below = 0
  for (const value of known) {
    let low = 0
    let high = sorted.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((sorted[middle] as number) < value) low = middle + 1
      else high = middle
    }
    below += low
  }
  return below / (known.length * unknown.length)
}

/** One kind of call, for an account that is there (an index) and for one that is not (null). */
type Call = (stage: Stage, account: number | null) => Promise<Answer>

async function compare(stage: Stage, what: string, call: Call): Promise<Row> {
  step(what)
  const known: number[] = []
  const unknown: number[] = []
  const shapes = new Set<string>()
  for (let pair = -WARM_UP; pair < stage.pairs; pair += 1) {
    // Which of the two comes first must not tell either.
    const order = pair % 2 === 0 ? [true, false] : [false, true]
    for (const isKnown of order) {
      const answer = await call(stage, isKnown ? (pair + WARM_UP) % stage.passkeys.length : null)
      shapes.add(answer.shape)
      if (pair >= 0) (isKnown ? known : unknown).push(answer.tookMs)
    }
  }
  const chance = chanceOfLonger(known, unknown)
  return {
    what: `${what}, ${whole(stage.pairs)} of each`,
    measured: `a guess by the time is right ${(100 * Math.max(chance, 1 - chance)).toFixed(1)} % of the time; ${shapes.size} form${shapes.size === 1 ? '' : 's'} of answer`,
    floor: `≤ ${(100 * (0.5 + BIAS_MAX)).toFixed(0)} %, one form`,
    holds: Math.abs(chance - 0.5) <= BIAS_MAX && shapes.size === 1,
    times: `p50 with an account ${ms(median(known))}, without ${ms(median(unknown))}`,
  }
}

const emailOf = (stage: Stage, account: number | null) =>
  `${account === null ? newId('usr') : (stage.passkeys[account] as Passkey).userId}@example.com`

const options: Call = (stage, account) =>
  ask(stage, 'GET', `/auth/passkey/login-options?email=${encodeURIComponent(emailOf(stage, account))}`)

/** A wrong answer to the options of an email, by the credential that they name. */
const wrongAnswer: Call = async (stage, account) => {
  const asked = await options(stage, account)
  const { challengeId, publicKey } = asked.body.data
  const [passkey] = stage.passkeys as [Passkey]
  const forged = { ...passkey, credentialId: publicKey.allowCredentials[0].id as string }
  const credential = assertion(forged, publicKey.challenge, `http://localhost:${stage.service.port}`)
  // Signed by another passkey's key, and of one length, whatever the signature's numbers.
  credential.response.signature = randomBytes(70).toString('base64url')
  const { userHandle: _, ...response } = credential.response
  return ask(stage, 'POST', '/auth/passkey/login-verify', { challengeId, credential: { ...credential, response } })
}

const registerOptions: Call = (stage, account) =>
  ask(stage, 'POST', '/auth/passkey/register-options', { email: emailOf(stage, account) })

/** `npm run bench -- accounts` */
export async function accounts(quick: boolean): Promise<Outcome> {
  const bed = await openBed()
  try {
    const service = await bed.start()
    const passkeys = await preparePasskeys(bed, await firstTenant(bed), PASSKEYS)
    const pool = new Pool(`http://127.0.0.1:${service.port}`, { connections: 1, allowH2: false })
    const stage: Stage = { bed, service, pool, passkeys, pairs: quick ? 1_000 : 5_000 }
    const rows = [
      await compare(stage, 'login options for an email', options),
      await compare(stage, 'a wrong answer to them', wrongAnswer),
      await compare(stage, 'registration options for an email', registerOptions),
    ]
    await pool.close()
    return { facts: [`PostgreSQL ${bed.postgresVersion} (embedded), one connection, known and unknown in turn`], rows }
  } finally {
    await bed.close()
  }
}
