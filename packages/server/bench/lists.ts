// Lists over a million users, one request at a time: pages and searches, each with its exact total.
import { median, medianSpread, ms, spread, spreadText, whole } from './figures.ts'
import { fillUsers, type Population, SHARE_OF_SECOND_APP, search } from './lists/population.ts'
import type { Outcome } from './main.ts'
import { type Watched, watchCpu } from './proc.ts'
import { cpuText, type Row, step } from './report.ts'
import { type Bed, memoryText, openBed, type Service } from './service.ts'
import { call, firstTenant } from './tenant.ts'

const PAGE_SIZE = 20
const FIRST_MAX_MS = 15
const DEEP_MAX_MS = 80
const SELECTIVE_MAX_MS = 100
const BROAD_MAX_MS = 1_500
const RUNS = 3
/** A run ends after so long, once it has enough requests for a percentile. */
const RUN_MAX_MS = 12_000
const REQUESTS_MIN = 20

interface Case {
  what: string
  query: Record<string, string>
  /** Of the p99, milliseconds. */
  maxMs: number
  /** The users that it finds, by plain SQL: what `total` must say. Aliased `u`. */
  where: string
  values: unknown[]
  /** Which page; `middle` has the most to skip. */
  page: 'first' | 'middle' | 'last'
  requests: number
}

interface Stage {
  bed: Bed
  service: Service
  watched: Watched
  population: Population
}

interface Page {
  total: number
  data: unknown[]
}

function pageOf(each: Case, total: number): number {
  const pages = Math.max(1, Math.ceil(total / PAGE_SIZE))
  return each.page === 'first' ? 1 : each.page === 'last' ? pages : Math.max(1, Math.floor(pages / 2))
}

/** The plainest statements that answer the same, outside the service. */
async function rawMs(stage: Stage, each: Case, skip: number): Promise<number> {
  const durations: number[] = []
  for (let turn = 0; turn < Math.min(10, each.requests); turn += 1) {
    const startedAt = performance.now()
    await stage.bed.sql(
      `select u.* from users u where ${each.where} order by u.id desc offset ${skip} limit ${PAGE_SIZE}`,
      each.values,
    )
    durations.push(performance.now() - startedAt)
  }
  return median(durations)
}

async function measure(stage: Stage, each: Case): Promise<Row> {
  step(each.what)
  const { bed } = stage
  const [counted] = await bed.sql<{ n: number }>(
    `select count(*)::int as n from users u where ${each.where}`,
    each.values,
  )
  const expected = counted?.n ?? Number.NaN
  const page = pageOf(each, expected)
  const query = new URLSearchParams({ ...each.query, page: String(page), page_size: String(PAGE_SIZE) })
  const rowsExpected = Math.min(PAGE_SIZE, Math.max(0, expected - (page - 1) * PAGE_SIZE))
  let wrong = 0
  const runs: number[][] = []
  const cpu: ReturnType<ReturnType<typeof watchCpu>>[] = []
  for (let run = 0; run < RUNS; run += 1) {
    const durations: number[] = []
    const stop = watchCpu(stage.watched)
    const overAt = performance.now() + RUN_MAX_MS
    for (let turn = 0; turn < each.requests; turn += 1) {
      const startedAt = performance.now()
      if (startedAt > overAt && turn >= REQUESTS_MIN) break
      const answer = await call<Page>(stage, 'GET', `/users?${query}`)
      durations.push(performance.now() - startedAt)
      if (answer.total !== expected || answer.data.length !== rowsExpected) wrong += 1
    }
    runs.push(durations)
    cpu.push(stop())
  }
  const taken = medianSpread(runs.map(spread))
  return {
    what: `${each.what}: ${whole(expected)} hits, page ${whole(page)}`,
    measured: `p99 ${ms(taken.p99)}${wrong === 0 ? ', every total exact' : `, **${wrong} answers wrong**`}`,
    floor: `p99 < ${ms(each.maxMs)}, exact`,
    holds: taken.p99 < each.maxMs && wrong === 0,
    raw: `${ms(await rawMs(stage, each, (page - 1) * PAGE_SIZE))}: one plain offset/limit statement, without the total`,
    runs: `${runs.map((durations) => ms(spread(durations).p99)).join(', ')} (${runs.map((durations) => durations.length).join(', ')} requests)`,
    times: spreadText(taken),
    cpu: cpuText(cpu),
  }
}

function pageCases({ tenantId, otherAppId }: Population, requests: number): Case[] {
  const all = { where: 'u.tenant_id = $1', values: [tenantId] }
  const app = { where: 'u.tenant_id = $1 and u.app_id = $2', values: [tenantId, otherAppId] }
  const level = { where: 'u.tenant_id = $1 and u.trust_level = $2', values: [tenantId, 'shared'] }
  const usual = { where: 'u.tenant_id = $1 and u.trust_level = $2', values: [tenantId, 'embedded'] }
  const rare = {
    where: 'u.tenant_id = $1 and u.app_id = $2 and u.trust_level = $3',
    values: [tenantId, otherAppId, 'self_custody'],
  }
  const page = (
    what: string,
    filter: Pick<Case, 'where' | 'values'>,
    query: Case['query'],
    which: Case['page'],
  ): Case => {
    const maxMs = which === 'first' ? FIRST_MAX_MS : DEEP_MAX_MS
    return { what: `${what}, ${which} page`, ...filter, query, page: which, maxMs, requests }
  }
  const pages = (what: string, filter: Pick<Case, 'where' | 'values'>, query: Case['query']) =>
    (['first', 'middle', 'last'] as const).map((which) => page(what, filter, query, which))
  return [
    ...pages('all users', all, {}),
    ...pages(`one app's (${SHARE_OF_SECOND_APP * 100} %)`, app, { app_id: otherAppId }),
    ...pages('trust level shared', level, { trust_level: 'shared' }),
    ...pages('trust level embedded', usual, { trust_level: 'embedded' }),
    ...pages('app and trust level self_custody', rare, { app_id: otherAppId, trust_level: 'self_custody' }),
  ]
}

async function searchCases(stage: Stage, requests: number): Promise<Case[]> {
  const terms = await search(stage.bed, stage.population)
  return terms.map(({ what, term, hits, page }) => {
    const selective = hits <= 10_000 && term.length >= 3
    return {
      what: `search “${term}” (${what}), ${page} page`,
      query: { search: term },
      where: `u.tenant_id = $1 and position($2 in u.search_text) > 0`,
      values: [stage.population.tenantId, term],
      page,
      maxMs: selective ? SELECTIVE_MAX_MS : BROAD_MAX_MS,
      requests: selective ? requests : Math.ceil(requests / 10),
    }
  })
}

/** `npm run bench -- lists`; `only` is `pages` or `search`. */
export async function lists(quick: boolean, only: string | undefined): Promise<Outcome> {
  const bed = await openBed()
  try {
    const service = await bed.start()
    const users = quick ? 100_000 : 1_000_000
    const { tenantId, appId } = await firstTenant(bed)
    const { data: other } = await call<{ data: { id: string } }>({ bed, service }, 'POST', '/apps', { name: 'Second' })
    const population: Population = { users, tenantId, appId, otherAppId: other.id }
    const tookMs = await fillUsers(bed, population)
    const watched: Watched = { service: { pid: service.pid }, PostgreSQL: { pid: bed.postgresPid, family: true } }
    const stage: Stage = { bed, service, watched, population }
    const requests = quick ? 40 : 200
    const cases: Case[] = []
    if (only !== 'search') cases.push(...pageCases(population, requests))
    if (only !== 'pages') cases.push(...(await searchCases(stage, requests)))
    // The plans and the compiled routes of a service that has been up for a while.
    for (let turn = 0; turn < 50; turn += 1) await call(stage, 'GET', '/users')
    const rows: Row[] = []
    for (const each of cases) rows.push(await measure(stage, each))
    const facts = [
      `PostgreSQL ${bed.postgresVersion} (embedded), ${whole(users)} users written in ${ms(tookMs)}, vacuumed and analysed; ${RUNS} runs, one request at a time, medians; service ${memoryText(service)}`,
      `logged: ${JSON.stringify(bed.complaints())}`,
    ]
    return { facts, rows }
  } finally {
    await bed.close()
  }
}
