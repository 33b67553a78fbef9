// What single calls cost: CPU seconds of the service and of PostgreSQL per 1,000 of them, and bytes that the database grows by.

import type { Load } from './child/load.ts'
import { startHelper } from './children.ts'
import { actingFor, chainsOf, type Holder, newHolder, SESSIONS } from './execute.ts'
import { median, whole } from './figures.ts'
import type { Outcome } from './main.ts'
import { errorsOf, type Measured, measure, type Run } from './measure.ts'
import { type Row, step } from './report.ts'
import { memoryText, openBed } from './service.ts'
import { logins, type Passkey, preparePasskeys } from './sign-in.ts'
import { call, firstTenant, forEachOf } from './tenant.ts'

const PASSKEYS = 1_000
const CONNECTIONS = 32
/** Code is compiled, and PostgreSQL knows its tables. */
const WARM_UP_MS = 3_000
/** Challenges made for each second. If they run out, the run is over sooner. */
const LOGINS_A_SECOND = 1_500

interface Stage extends Measured {
  passkeys: Passkey[]
  holders: Holder[]
}

type Kind = 'execute' | 'login-verify' | 'GET' | 'GET by a user' | 'POST'

const WHAT: Record<Kind, string> = {
  execute: `POST …/execute, ${SESSIONS} sessions`,
  'login-verify': 'POST /v1/auth/passkey/login-verify',
  GET: 'GET /v1/users/:id with an API key',
  'GET by a user': 'GET /v1/users/me with an access token',
  POST: 'POST /v1/users',
}

let tags = 0

async function accessToken(stage: Stage): Promise<string> {
  const [body = ''] = await logins(stage, 1)
  const login = await call<{ data: { accessToken: string } }>(
    stage,
    'POST',
    '/auth/passkey/login-verify',
    JSON.parse(body),
  )
  return login.data.accessToken
}

/** What the generator does for calls of a kind. */
async function loadOf(stage: Stage, kind: Kind): Promise<Partial<Load>> {
  const count = Math.ceil((LOGINS_A_SECOND * (stage.forMs + WARM_UP_MS)) / 1000)
  switch (kind) {
    case 'execute':
      return { connections: SESSIONS, chains: await chainsOf(stage, stage.holders) }
    case 'login-verify':
      return { bodies: { path: '/v1/auth/passkey/login-verify', list: await logins(stage, count) } }
    case 'GET':
      return { paths: stage.passkeys.map(({ userId }) => `/v1/users/${userId}`) }
    case 'GET by a user':
      return { paths: ['/v1/users/me'], token: await accessToken(stage) }
    case 'POST':
      tags += 1
      return { expectedStatus: 201, post: { path: '/v1/users', tag: `${process.pid}-${tags}` } }
  }
}

interface Grown extends Run {
  /** By how many bytes the tables and indexes grew. What PostgreSQL can use again counts, its log does not. */
  bytes: number
}

async function measureGrowth(stage: Stage, load: Partial<Load>): Promise<Grown> {
  const size = async () => {
    const [row] = await stage.bed.sql<{ bytes: string }>('select pg_database_size(current_database()) as bytes')
    return Number(row?.bytes)
  }
  const before = await size()
  const run = await measure(stage, { connections: CONNECTIONS, warmUpMs: WARM_UP_MS, ...load })
  return { ...run, bytes: (await size()) - before }
}

/** CPU milliseconds a call, which are seconds per 1,000. */
function costRow(kind: Kind, runs: readonly Grown[]): Row {
  const perCall = ({ cpu, succeeded }: Run, ...names: string[]) =>
    (names.reduce((sum, name) => sum + (cpu.bySeconds[name] ?? Number.NaN), 0) / succeeded) * 1000
  const of = (...names: string[]) => median(runs.map((run) => perCall(run, ...names))).toFixed(3)
  const bytes = whole(median(runs.map((run) => run.bytes / run.succeeded)))
  return {
    what: WHAT[kind],
    measured: `${of('service', 'PostgreSQL')} CPU s per 1 000 calls, ${errorsOf(runs)} errors; ${bytes} bytes a call`,
    runs: runs.map((run) => perCall(run, 'service', 'PostgreSQL').toFixed(3)).join(', '),
    cpu: `service ${of('service')}, PostgreSQL ${of('PostgreSQL')} per 1 000`,
  }
}

/** `npm run bench -- cost` */
export async function cost(quick: boolean, only: string | undefined): Promise<Outcome> {
  const bed = await openBed()
  const load = startHelper('load')
  try {
    const service = await bed.start()
    const tenant = await firstTenant(bed)
    const passkeys = await preparePasskeys(bed, tenant, PASSKEYS)
    const watched = {
      service: { pid: service.pid },
      PostgreSQL: { pid: bed.postgresPid, family: true },
      load: { pid: load.pid },
    }
    const stage: Stage = { bed, service, load, forMs: quick ? 3_000 : 8_000, watched, passkeys, holders: [] }
    await forEachOf(SESSIONS, async () => void stage.holders.push(await newHolder(stage, actingFor(stage))))
    const rows: Row[] = []
    for (const kind of Object.keys(WHAT) as Kind[]) {
      if (only !== undefined && only !== kind) continue
      const runs: Grown[] = []
      for (let run = 0; run < (quick ? 1 : 3); run += 1) {
        step(`${kind}, run ${run + 1}`)
        runs.push(await measureGrowth(stage, await loadOf(stage, kind)))
      }
      rows.push(costRow(kind, runs))
    }
    const facts = [
      `PostgreSQL ${bed.postgresVersion} (embedded), service ${memoryText(service)}, medians`,
      `logged: ${JSON.stringify(bed.complaints())}`,
    ]
    return { facts, rows }
  } finally {
    await load.end()
    await bed.close()
  }
}
