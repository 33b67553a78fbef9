// GET /analytics over a long history, and how fast events are folded into it.
import { median, medianSpread, ms, pause, spread, spreadText, whole } from './figures.ts'
import type { Outcome } from './main.ts'
import { type Watched, watchCpu } from './proc.ts'
import { cpuText, type Row, step } from './report.ts'
import { type Bed, memoryText, openBed, type Service } from './service.ts'
import { call, firstTenant } from './tenant.ts'

const QUERY_MAX_MS = 15
const DAYS = 90
const RUNS = 3
const FOLDED_A_SECOND_MIN = 5_000
const FOLD_MAX_MS = 120_000

interface Stage {
  bed: Bed
  service: Service
  watched: Watched
  tenantId: string
  appId: string
}

/** A row for each day of each app and of the tenant, and one for each user who was ever active. */
async function fillHistory({ bed, tenantId, appId }: Stage, apps: number, users: number): Promise<void> {
  step(`${whole(apps)} apps for ${DAYS} days, ${whole(users)} users`)
  await bed.sql(
    `insert into analytics_daily (tenant_id, app_id, day, new_users, active_users, last_active_users, sign_ins_passkey, api_requests)
     select $1, app_id, (now() at time zone 'UTC')::date - n, 100, 1000, 90, 800, 100000
     from (select '' union all select $2 union all select 'app_' || g from generate_series(2, $3::int) g) as a(app_id), generate_series(0, $4::int - 1) n
     on conflict do nothing`,
    [tenantId, appId, apps, DAYS],
  )
  await bed.sql(
    `insert into analytics_active_users (tenant_id, user_id, app_id, last_day, days)
     select $1, 'usr_' || lpad(g::text, 26, '0'), $2, (now() at time zone 'UTC')::date - 1 - (g % 89), 1 from generate_series(1, $3::int) g`,
    [tenantId, appId, users],
  )
  await bed.sql('vacuum analyze analytics_daily')
  await bed.sql('vacuum analyze analytics_active_users')
  await bed.checkpoint()
}

async function measureQuery(stage: Stage, what: string, query: string, requests: number): Promise<Row> {
  step(what)
  const runs: number[][] = []
  const cpu: ReturnType<ReturnType<typeof watchCpu>>[] = []
  let wrong = 0
  for (let run = 0; run < RUNS; run += 1) {
    const stop = watchCpu(stage.watched)
    const durations: number[] = []
    for (let turn = 0; turn < requests; turn += 1) {
      const startedAt = performance.now()
      const { data } = await call<{ data: { series: unknown[] } }>(stage, 'GET', `/analytics?period=90d${query}`)
      durations.push(performance.now() - startedAt)
      if (data.series.length !== DAYS) wrong += 1
    }
    runs.push(durations)
    cpu.push(stop())
  }
  const taken = medianSpread(runs.map(spread))
  return {
    what: `GET /analytics, 90 days, ${what}`,
    measured: `p99 ${ms(taken.p99)}${wrong === 0 ? '' : `, **${wrong} answers wrong**`}`,
    floor: `p99 < ${ms(QUERY_MAX_MS)}`,
    holds: taken.p99 < QUERY_MAX_MS && wrong === 0,
    runs: runs.map((durations) => ms(spread(durations).p99)).join(', '),
    times: spreadText(taken),
    cpu: cpuText(cpu),
  }
}

/** Sign-ins of as many users as there are, as business transactions write them; then how long until all are folded. */
async function measureFolding(stage: Stage, events: number, users: number): Promise<Row> {
  const { bed, tenantId, appId } = stage
  const rates: number[] = []
  const cpu: ReturnType<ReturnType<typeof watchCpu>>[] = []
  for (let run = 0; run < RUNS; run += 1) {
    step(`folding ${whole(events)} events, run ${run + 1}`)
    const stop = watchCpu(stage.watched)
    const [before] = await bed.sql<{ seq: number }>(
      'select coalesce(max(seq), 0)::int as seq from feed_cursors where tenant_id = $1 and follower = $2',
      [tenantId, 'analytics'],
    )
    const startedAt = performance.now()
    // Straight into the feed: the fan-out before it is not what is measured.
    await bed.sql(
      `with made as (
         select 'evt_' || lpad((extract(epoch from clock_timestamp()) * 1000)::bigint::text, 14, '0') || lpad(g::text, 12, '0') as id, g,
           'usr_' || lpad((1 + abs(hashint8extended(g, $5)) % $4::bigint)::text, 26, '0') as user_id from generate_series(1, $3::int) g),
       head as (
         insert into feed_heads as h (tenant_id, seq) values ($1, $3) on conflict (tenant_id) do update set seq = h.seq + $3 returning seq),
       stored as (
         insert into events (tenant_id, id, app_id, type, body, created_at, context)
         select $1, id, $2, 'user.signed_in', json_build_object('data', json_build_object('userId', user_id, 'method', 'passkey'))::text, now(),
           '{"actor":"key_of_nobody"}' from made)
       insert into feed (tenant_id, seq, event_id) select $1, head.seq - $3 + g, id from made, head`,
      [tenantId, appId, events, users, run],
    )
    const writtenAt = performance.now()
    for (;;) {
      const [now] = await bed.sql<{ seq: number }>(
        'select coalesce(max(seq), 0)::int as seq from feed_cursors where tenant_id = $1 and follower = $2',
        [tenantId, 'analytics'],
      )
      if ((now?.seq ?? 0) >= (before?.seq ?? 0) + events) break
      if (performance.now() - writtenAt > FOLD_MAX_MS) throw new Error('the events were not folded in time')
      await pause(20)
    }
    step(`written in ${ms(writtenAt - startedAt)}`)
    rates.push((events * 1_000) / (performance.now() - writtenAt))
    cpu.push(stop())
  }
  const rate = median(rates)
  return {
    what: `folding sign-ins of ${whole(users)} users, beside the other followers`,
    measured: `${whole(rate)} events/s`,
    floor: `≥ ${whole(FOLDED_A_SECOND_MIN)}/s`,
    holds: rate >= FOLDED_A_SECOND_MIN,
    runs: rates.map(whole).join(', '),
    cpu: cpuText(cpu),
  }
}

/** `npm run bench -- analytics`; `only` is `query` or `fold`. */
export async function analytics(quick: boolean, only: string | undefined): Promise<Outcome> {
  const bed = await openBed()
  try {
    const service = await bed.start()
    const watched: Watched = { service: { pid: service.pid }, PostgreSQL: { pid: bed.postgresPid, family: true } }
    const stage: Stage = { bed, service, watched, ...(await firstTenant(bed)) }
    const users = quick ? 100_000 : 1_000_000
    const requests = quick ? 200 : 1_000
    const rows: Row[] = []
    // The plans and the compiled routes of a service that has been up for a while.
    for (let turn = 0; turn < 100; turn += 1) await call(stage, 'GET', '/analytics?period=90d')
    if (only !== 'fold') rows.push(await measureQuery(stage, 'of a tenant with nothing', '', requests))
    const apps = 1_000
    await fillHistory(stage, apps, users)
    if (only !== 'fold') {
      const history = `history of ${whole(users)} users and ${whole(apps)} apps`
      rows.push(await measureQuery(stage, `all apps, ${history}`, '', requests))
      rows.push(await measureQuery(stage, `one app, ${history}`, `&app_id=${stage.appId}`, requests))
    }
    if (only !== 'query') rows.push(await measureFolding(stage, quick ? 50_000 : 200_000, users))
    const facts = [
      `PostgreSQL ${bed.postgresVersion} (embedded); ${RUNS} runs, one request at a time, medians; service ${memoryText(service)}`,
      `logged: ${JSON.stringify(bed.complaints())}`,
    ]
    return { facts, rows }
  } finally {
    await bed.close()
  }
}
