// What single calls cost: CPU seconds of the service and of PostgreSQL per 1,000 of them, and bytes that the database grows by.
// A webhook gets the events of the last kind only: docs/sizing.md counts with these figures.

import type { Load } from './child/load.ts'
import { type Helper, startHelper } from './children.ts'
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

const EVENT_TYPE = 'acme.measured'
/** Events a second: so few that their deliveries keep up, and are over soon after the last request. */
const EVENTS_A_SECOND = 800
/** Tables whose rows go after the retention period, by deletion. */
const PASSING = ['events', 'deliveries', 'attempts', 'outbox']

interface Stage extends Measured {
  receiver: Helper
  passkeys: Passkey[]
  holders: Holder[]
}

type Kind = 'execute' | 'login-verify' | 'GET' | 'GET by a user' | 'POST' | 'event'

const WHAT: Record<Kind, string> = {
  execute: `POST …/execute, ${SESSIONS} sessions`,
  'login-verify': 'POST /v1/auth/passkey/login-verify',
  GET: 'GET /v1/users/:id with an API key',
  'GET by a user': 'GET /v1/users/me with an access token',
  POST: 'POST /v1/users',
  event: 'POST /v1/events, and its delivery to one webhook',
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
    case 'event': {
      const body = JSON.stringify({ type: EVENT_TYPE, data: { invoiceId: 'inv_1', total: '25.00' } })
      return { expectedStatus: 201, perSecond: EVENTS_A_SECOND, same: { path: '/v1/events', body } }
    }
  }
}

/** Webhooks for the last kind: made only then, because they would get the events of the others, too. */
async function prepareDelivery(stage: Stage): Promise<void> {
  const [port] = await stage.receiver.call<number[]>('open', 1)
  await call(stage, 'POST', '/event-types', { name: EVENT_TYPE })
  await call(stage, 'POST', '/webhooks', { url: `http://127.0.0.1:${port}/hook`, events: [EVENT_TYPE] })
}

/** Bytes of tables and indexes. What PostgreSQL can use again counts, its log does not. */
interface Size {
  all: number
  /** Of the tables that hold events and deliveries. */
  passing: number
}

interface Grown extends Run {
  grown: Size
}

async function sizeOf({ bed }: Stage): Promise<Size> {
  const [row] = await bed.sql<{ all: string; passing: string }>(
    `select pg_database_size(current_database()) as all,
       (select sum(pg_total_relation_size(oid)) from pg_class where relname = any($1) and relkind in ('r', 'p')) as passing`,
    [PASSING],
  )
  return { all: Number(row?.all), passing: Number(row?.passing) }
}

async function measureGrowth(stage: Stage, load: Partial<Load>): Promise<Grown> {
  const before = await sizeOf(stage)
  const run = await measure(stage, { connections: CONNECTIONS, warmUpMs: WARM_UP_MS, ...load })
  const after = await sizeOf(stage)
  return { ...run, grown: { all: after.all - before.all, passing: after.passing - before.passing } }
}

/** CPU milliseconds a call, which are seconds per 1,000. */
function costRow(kind: Kind, runs: readonly Grown[]): Row {
  const perCall = ({ cpu, succeeded }: Run, ...names: string[]) =>
    (names.reduce((sum, name) => sum + (cpu.bySeconds[name] ?? Number.NaN), 0) / succeeded) * 1000
  const of = (...names: string[]) => median(runs.map((run) => perCall(run, ...names))).toFixed(3)
  const bytes = (sizes: (grown: Size) => number) =>
    whole(median(runs.map(({ grown, succeeded }) => sizes(grown) / succeeded)))
  return {
    what: WHAT[kind],
    measured: `${of('service', 'PostgreSQL')} CPU s per 1 000 calls, ${errorsOf(runs)} errors; bytes a call: ${bytes(({ all, passing }) => all - passing)} stay, ${bytes(({ passing }) => passing)} go with its events`,
    runs: runs.map((run) => perCall(run, 'service', 'PostgreSQL').toFixed(3)).join(', '),
    cpu: `service ${of('service')}, PostgreSQL ${of('PostgreSQL')} per 1 000`,
  }
}

/** `npm run bench -- cost` */
export async function cost(quick: boolean, only: string | undefined): Promise<Outcome> {
  const bed = await openBed()
  const [load, receiver] = [startHelper('load'), startHelper('receiver')] as const
  try {
    const service = await bed.start()
    const tenant = await firstTenant(bed)
    const passkeys = await preparePasskeys(bed, tenant, PASSKEYS)
    const watched = {
      service: { pid: service.pid },
      PostgreSQL: { pid: bed.postgresPid, family: true },
      load: { pid: load.pid },
      receiver: { pid: receiver.pid },
    }
    const forMs = quick ? 3_000 : 8_000
    const stage: Stage = { bed, service, load, receiver, forMs, watched, passkeys, holders: [] }
    await forEachOf(SESSIONS, async () => void stage.holders.push(await newHolder(stage, actingFor(stage))))
    const rows: Row[] = []
    for (const kind of Object.keys(WHAT) as Kind[]) {
      if (only !== undefined && only !== kind) continue
      if (kind === 'event') await prepareDelivery(stage)
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
    for (const helper of [load, receiver]) await helper.end()
    await bed.close()
  }
}
