// An app's own events without subscribers: published one a request, and in batches.
import type { BareOptions } from './child/bare.ts'
import type { Load, LoadResult } from './child/load.ts'
import { startHelper } from './children.ts'
import { median, medianSpread, spreadText, whole } from './figures.ts'
import type { Outcome } from './main.ts'
import { type Watched, watchCpu } from './proc.ts'
import { cpuText, type Row, step } from './report.ts'
import { memoryText, openBed } from './service.ts'
import { call, firstTenant } from './tenant.ts'

const SINGLE_MIN = 3_000
const BATCHED_MIN = 5_000
const BATCH = 100
const RUNS = 3
const API_CONNECTIONS = 30
const SCHEMA = {
  type: 'object',
  required: ['invoiceId', 'total'],
  properties: { invoiceId: { type: 'string' }, total: { type: 'string', pattern: '^\\d+\\.\\d{2}$' } },
}

const eventOf = (type: string) => ({ type, data: { invoiceId: 'inv_1', total: '25.00' } })

interface Case {
  what: string
  /** Of one request. */
  events: number
  connections: number
  request: { path: string; body: string }
  min?: number
}

const batchOf = (type: string) => ({
  path: '/v1/events/batch',
  body: JSON.stringify({ events: Array.from({ length: BATCH }, () => eventOf(type)) }),
})

const CASES: Case[] = [
  {
    what: 'POST /v1/events, 32 connections',
    events: 1,
    connections: 32,
    request: { path: '/v1/events', body: JSON.stringify(eventOf('acme.plain')) },
    min: SINGLE_MIN,
  },
  {
    what: `POST /v1/events/batch, ${BATCH} events each, 8 connections`,
    events: BATCH,
    connections: 8,
    request: batchOf('acme.plain'),
    min: BATCHED_MIN,
  },
  {
    what: 'the same, of a type with a schema',
    events: BATCH,
    connections: 8,
    request: batchOf('acme.checked'),
    min: BATCHED_MIN,
  },
]

type Run = LoadResult & { cpu: ReturnType<ReturnType<typeof watchCpu>> }

function rowOf({ what, events, min = 0 }: Case, runs: readonly Run[], raw: string): Row {
  const perSecond = runs.map((run) => run.perSecond * events)
  const errors = runs.reduce((sum, run) => sum + run.errors, 0)
  for (const { firstError } of runs) if (firstError !== null) step(`first error: ${firstError}`)
  return {
    what,
    measured: `${whole(median(perSecond))} events/s, ${errors} errors`,
    floor: `≥ ${whole(min)}/s, no errors`,
    holds: median(perSecond) >= min && errors === 0,
    raw,
    runs: perSecond.map(whole).join(', '),
    times: spreadText(medianSpread(runs.map((run) => run.latencyMs))),
    cpu: cpuText(runs.map((run) => run.cpu)),
  }
}

/** `npm run bench -- events` */
export async function events(quick: boolean): Promise<Outcome> {
  const bed = await openBed()
  const [load, bare] = [startHelper('load'), startHelper('bare')] as const
  const forMs = quick ? 3_000 : 10_000
  try {
    const service = await bed.start()
    const tenant = await firstTenant(bed)
    const target = { bed, service }
    await call(target, 'POST', '/event-types', { name: 'acme.plain' })
    await call(target, 'POST', '/event-types', { name: 'acme.checked', schema: SCHEMA })
    await bed.sql('create table bench_users (like users including all)')
    const options: BareOptions = { connection: bed.connection, connections: API_CONNECTIONS, ...tenant }
    const barePort = await bare.call<number>('open', options)
    const watched: Watched = {
      service: { pid: service.pid },
      PostgreSQL: { pid: bed.postgresPid, family: true },
      load: { pid: load.pid },
    }
    const run = async (part: Pick<Load, 'port' | 'connections' | 'same' | 'post'>): Promise<Run> => {
      const stop = watchCpu(watched)
      const full: Load = { key: bed.key, warmUpMs: 1_000, forMs, expectedStatus: 201, ...part }
      const result = await load.call<LoadResult>('run', full)
      return { ...result, cpu: stop() }
    }
    step('raw limit')
    const limit = await run({ port: barePort, connections: 32, post: { path: '/users', tag: `${process.pid}` } })
    const raw = `${whole(limit.perSecond)}/s: bare Fastify, one insert into a copy of the table of users`
    const rows: Row[] = []
    let acknowledged = 0
    for (const each of CASES) {
      const runs: Run[] = []
      for (let turn = 0; turn < RUNS; turn += 1) {
        step(`${each.what}, run ${turn + 1}`)
        runs.push(await run({ port: service.port, connections: each.connections, same: each.request }))
      }
      rows.push(rowOf(each, runs, raw))
      acknowledged += each.events * runs.reduce((sum, { succeeded }) => sum + succeeded, 0)
    }
    const [stored] = await bed.sql<{ n: number }>(`select count(*)::int as n from events where type like 'acme.%'`)
    rows.push({
      what: 'events that were acknowledged, and are in the database',
      measured: `${whole(acknowledged)}, ${whole(stored?.n ?? 0)}`,
      floor: 'none missing',
      holds: (stored?.n ?? 0) >= acknowledged,
    })
    const facts = [
      `PostgreSQL ${bed.postgresVersion} (embedded), service ${memoryText(service)}, ${RUNS} runs of ${forMs / 1000} s a figure, medians; no webhook`,
      `logged: ${JSON.stringify(bed.complaints())}`,
    ]
    return { facts, rows }
  } finally {
    for (const helper of [load, bare]) await helper.end()
    await bed.close()
  }
}
