// The API's reach: GET against a bare route of the same framework, POST with and without a subscribed webhook.

import type { BareOptions } from './child/bare.ts'
import type { Load, LoadResult } from './child/load.ts'
import type { InWindow, Received, Window } from './child/receiver.ts'
import { type Helper, startHelper } from './children.ts'
import { median, medianSpread, pause, spreadText, whole } from './figures.ts'
import type { Outcome } from './main.ts'
import { type Watched, watchCpu } from './proc.ts'
import { cpuText, type Row, step } from './report.ts'
import { type Bed, memoryText, openBed, type Service } from './service.ts'
import { call, firstTenant } from './tenant.ts'

const GET_RATIO_MIN = 0.6
const POST_MIN = 2_500
const DELIVERED_MIN = 2_000
const USERS = 10_000
const CONNECTIONS = 32
/** As many as the service’s API pool has by default: 40 less 8 of the engine, 2 of the probes and 1 of the signing keys. */
const API_CONNECTIONS = 29

interface Stage {
  bed: Bed
  service: Service
  tenant: { tenantId: string; appId: string }
  load: Helper
  receiver: Helper
  bare: Helper
  barePort: number
  runs: number
  forMs: number
  watched: Watched
}

interface Run extends LoadResult {
  cpu: ReturnType<ReturnType<typeof watchCpu>>
}

let tags = 0

async function measure(stage: Stage, load: Pick<Load, 'port' | 'expectedStatus' | 'paths' | 'post'>): Promise<Run> {
  const stop = watchCpu(stage.watched)
  const full: Load = { key: stage.bed.key, connections: CONNECTIONS, warmUpMs: 1_000, forMs: stage.forMs, ...load }
  const stopSampling = await stage.bed.sample()
  const result = await stage.load.call<LoadResult>('run', full)
  await stopSampling()
  return { ...result, cpu: stop() }
}

const perSecond = (runs: readonly Run[]) => median(runs.map((run) => run.perSecond))
const runsText = (runs: readonly { perSecond: number }[]) => runs.map((run) => whole(run.perSecond)).join(', ')
const times = (runs: readonly Run[]) => spreadText(medianSpread(runs.map((run) => run.latencyMs)))
const cpuOf = (runs: readonly Run[]) => cpuText(runs.map((run) => run.cpu))
const errorsOf = (runs: readonly Run[]) => runs.reduce((sum, run) => sum + run.errors, 0)

function firstErrors(runs: readonly Run[]): void {
  for (const run of runs) if (run.firstError !== null) step(`first error: ${run.firstError}`)
}

async function getRows(stage: Stage): Promise<Row[]> {
  const ids = await stage.bed.sql<{ id: string }>('select id from users order by random() limit 10000')
  const service: Run[] = []
  const bare: Run[] = []
  for (let run = 0; run < stage.runs; run += 1) {
    step(`GET /users/:id, run ${run + 1}`)
    bare.push(
      await measure(stage, { port: stage.barePort, expectedStatus: 200, paths: ids.map(({ id }) => `/users/${id}`) }),
    )
    service.push(
      await measure(stage, {
        port: stage.service.port,
        expectedStatus: 200,
        paths: ids.map(({ id }) => `/v1/users/${id}`),
      }),
    )
  }
  firstErrors([...service, ...bare])
  const ratios = service.map((run, at) => run.perSecond / (bare[at] as Run).perSecond)
  const raw = `${whole(perSecond(bare))}/s (${runsText(bare)}; ${times(bare)}; CPU ${cpuOf(bare)})`
  return [
    {
      what: `GET /v1/users/:id, ${CONNECTIONS} connections, against a bare Fastify route with the same statement`,
      measured: `${median(ratios).toFixed(2)} of the bare route, ${errorsOf(service)} errors`,
      floor: `≥ ${GET_RATIO_MIN}`,
      holds: median(ratios) >= GET_RATIO_MIN && errorsOf(service) === 0,
      raw,
      runs: ratios.map((ratio) => ratio.toFixed(2)).join(', '),
    },
    {
      what: 'GET /v1/users/:id, requests/s',
      measured: `${whole(perSecond(service))}/s`,
      runs: runsText(service),
      times: times(service),
      cpu: cpuOf(service),
    },
  ]
}

const post = (stage: Stage, port: number, path: string) => {
  tags += 1
  return measure(stage, { port, expectedStatus: 201, post: { path, tag: `${process.pid}-${tags}` } })
}

async function plainPostRow(stage: Stage): Promise<{ row: Row; raw: string }> {
  const service: Run[] = []
  const bare: Run[] = []
  for (let run = 0; run < stage.runs; run += 1) {
    step(`POST /users without webhook, run ${run + 1}`)
    bare.push(await post(stage, stage.barePort, '/users'))
    service.push(await post(stage, stage.service.port, '/v1/users'))
  }
  firstErrors([...service, ...bare])
  const raw = `${whole(perSecond(bare))}/s, bare Fastify, one insert into a copy of the table (CPU ${cpuOf(bare)})`
  const row: Row = {
    what: 'POST /v1/users without a webhook',
    measured: `${whole(perSecond(service))}/s, ${errorsOf(service)} errors`,
    raw,
    runs: runsText(service),
    times: times(service),
    cpu: cpuOf(service),
  }
  return { row, raw }
}

interface Delivering extends Run {
  arrived: InWindow
  missing: number
  repeated: number
  settledMs: number
}

/** Waits until all are there, or none comes for a while. */
async function untilDelivered(receiver: Helper, expected: number): Promise<Received> {
  let last = -1
  let lastAt = performance.now()
  for (;;) {
    const received = await receiver.call<Received>('received')
    if (received.distinct >= expected) return received
    if (received.distinct !== last) lastAt = performance.now()
    else if (performance.now() - lastAt > 20_000) return received
    last = received.distinct
    await pause(50)
  }
}

async function postAndDeliver(stage: Stage): Promise<Delivering> {
  await stage.receiver.call('reset')
  const run = await post(stage, stage.service.port, '/v1/users')
  const endedAt = Date.now()
  const window: Window = { fromMs: run.fromMs, toMs: run.toMs, prefix: '/' }
  await untilDelivered(stage.receiver, run.succeeded)
  // Whatever came twice has had the time to.
  await pause(500)
  const received = await stage.receiver.call<Received>('received')
  return {
    ...run,
    arrived: await stage.receiver.call<InWindow>('window', window),
    missing: run.succeeded - received.distinct,
    repeated: received.repeated,
    settledMs: Math.max(0, received.lastAt - endedAt),
  }
}

async function deliveringRows(stage: Stage, raw: string): Promise<Row[]> {
  const [port] = await stage.receiver.call<number[]>('open', 1)
  await call(stage, 'POST', '/webhooks', { url: `http://127.0.0.1:${port}/hook`, events: ['user.created'] })
  const runs: Delivering[] = []
  for (let run = 0; run < stage.runs; run += 1) {
    step(`POST /users with one webhook, run ${run + 1}`)
    runs.push(await postAndDeliver(stage))
  }
  firstErrors(runs)
  const delivered = runs.map((run) => (run.arrived.count / stage.forMs) * 1000)
  const sum = (pick: (run: Delivering) => number) => runs.reduce((total, run) => total + pick(run), 0)
  const exact = sum((run) => Math.abs(run.missing)) === 0
  const succeeded = sum((run) => run.succeeded)
  return [
    {
      what: 'POST /v1/users with one subscribed webhook',
      measured: `${whole(perSecond(runs))}/s, ${errorsOf(runs)} errors`,
      floor: `≥ ${whole(POST_MIN)}/s, no errors`,
      holds: perSecond(runs) >= POST_MIN && errorsOf(runs) === 0,
      raw,
      runs: runsText(runs),
      times: times(runs),
      cpu: cpuOf(runs),
    },
    {
      what: 'deliveries arriving in the same time',
      measured: `${whole(median(delivered))}/s; of ${whole(succeeded)} in all ${sum((run) => run.missing)} missing, ${sum((run) => run.repeated)} repeated; the last ${whole(median(runs.map((run) => run.settledMs)))} ms after the last request`,
      floor: `≥ ${whole(DELIVERED_MIN)}/s, none missing`,
      holds: median(delivered) >= DELIVERED_MIN && exact,
      runs: delivered.map(whole).join(', '),
      times: `from the request to the arrival: ${spreadText(medianSpread(runs.map((run) => run.arrived.latencyMs)))}`,
    },
  ]
}

async function prepare(bed: Bed, stage: Pick<Stage, 'service' | 'tenant'>): Promise<void> {
  const { tenantId, appId } = stage.tenant
  await bed.sql('create table bench_users (like users including all)')
  // As many rows as a look-up needs to be one: made by the service, so that they are what it makes.
  const base = { bed, service: stage.service }
  const { data } = await call<{ data: { id: string } }>(base, 'POST', '/users', {
    email: 'first@example.com',
    name: 'First User',
  })
  await bed.sql(
    `insert into users (tenant_id, id, app_id, email, email_key, name, party_id, search_text, created_at, updated_at)
     select $1, substr($3, 1, 22) || lpad(to_hex(n), 8, '0'), $2, 'u' || n || '@example.com', 'u' || n || '@example.com', 'User ' || n,
       substr($3, 1, 22) || lpad(to_hex(n), 8, '0') || '::bench', 'u' || n, now(), now() from generate_series(1, $4::int) n`,
    [tenantId, appId, data.id, USERS],
  )
  await bed.sealRecords()
  await bed.sql('vacuum analyze users')
  await bed.checkpoint()
}

/** `npm run bench -- api` */
export async function api(quick: boolean): Promise<Outcome> {
  const bed = await openBed()
  const helpers = [startHelper('load'), startHelper('receiver'), startHelper('bare')] as const
  const [load, receiver, bare] = helpers
  try {
    const service = await bed.start()
    const tenant = await firstTenant(bed)
    await prepare(bed, { service, tenant })
    const options: BareOptions = { connection: bed.connection, connections: API_CONNECTIONS, ...tenant }
    const barePort = await bare.call<number>('open', options)
    const watched: Watched = {
      service: { pid: service.pid },
      bare: { pid: bare.pid },
      PostgreSQL: { pid: bed.postgresPid, family: true },
      load: { pid: load.pid },
      receiver: { pid: receiver.pid },
    }
    const stage: Stage = {
      bed,
      service,
      tenant,
      load,
      receiver,
      bare,
      barePort,
      runs: 3,
      forMs: quick ? 3_000 : 10_000,
      watched,
    }
    const rows = await getRows(stage)
    const plain = await plainPostRow(stage)
    rows.push(plain.row, ...(await deliveringRows(stage, plain.raw)))
    const facts = [
      `PostgreSQL ${bed.postgresVersion} (embedded), service ${memoryText(service)}, ${stage.runs} runs of ${stage.forMs / 1000} s a figure, medians`,
      `logged: ${JSON.stringify(bed.complaints())}`,
    ]
    return { facts, rows }
  } finally {
    for (const helper of helpers) await helper.end()
    await bed.close()
  }
}
