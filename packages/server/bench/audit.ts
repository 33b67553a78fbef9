// The audit log's reach: what it adds to a write, how late an entry is, and what reading costs once there are many.
import { Pool } from 'undici'
import { newId } from '../src/platform/ids.ts'
import { startHelper } from './children.ts'
import { median, medianSpread, pause, spread, spreadText, whole } from './figures.ts'
import type { Outcome } from './main.ts'
import { errorsOf, type Measured, measure, type Run } from './measure.ts'
import { cpuText, type Row, step } from './report.ts'
import { type Bed, memoryText, openBed } from './service.ts'
import { call, firstTenant, forEachOf } from './tenant.ts'

const CONNECTIONS = 32
/** As many as leave the machine room: what a write costs shows in its duration then. */
const STEADY = 500
const RATIO_MIN = 0.9
const READ_P99_MAX_MS = 50
const CALLS = 200

interface Stage extends Measured {
  tenantId: string
  pairs: number
}

let tags = 0

/** Whether events become entries: a cursor that is ahead of everything has nothing to follow. */
async function setFollowing(bed: Bed, following: boolean): Promise<void> {
  await bed.sql(
    `update feed_cursors c set seq = case when $1 then (select seq from feed_heads h where h.tenant_id = c.tenant_id)
       else 9000000000000000 end where follower = 'audit'`,
    [following],
  )
}

async function untilEntered(bed: Bed): Promise<number> {
  const startedAt = performance.now()
  const behind = `select from feed_heads h join feed_cursors c using (tenant_id) where c.follower = 'audit' and c.seq < h.seq`
  while ((await bed.sql(behind)).length > 0) await pause(20)
  return performance.now() - startedAt
}

interface Pair {
  off: Run
  on: Run
  lagMs: number
}

async function runPairs(stage: Stage, perSecond: number | undefined): Promise<Pair[]> {
  const run = async (following: boolean) => {
    await setFollowing(stage.bed, following)
    tags += 1
    const post = { path: '/v1/users', tag: `${process.pid}-${tags}` }
    const load = { connections: CONNECTIONS, warmUpMs: 2_000, expectedStatus: 201, post }
    return measure(stage, perSecond === undefined ? load : { ...load, perSecond })
  }
  const pairs: Pair[] = []
  for (let pair = 0; pair < stage.pairs; pair += 1) {
    step(`POST /users ${perSecond ?? 'as many as it takes'}, pair ${pair + 1}`)
    // By turns, so that neither always meets the larger tables.
    const first = await run(pair % 2 === 0)
    const lagFirst = await untilEntered(stage.bed)
    const second = await run(pair % 2 !== 0)
    const lagSecond = await untilEntered(stage.bed)
    pairs.push(
      pair % 2 === 0 ? { on: first, off: second, lagMs: lagFirst } : { on: second, off: first, lagMs: lagSecond },
    )
  }
  await setFollowing(stage.bed, true)
  return pairs
}

const onRuns = (pairs: readonly Pair[]) => pairs.map(({ on }) => on)
const offRuns = (pairs: readonly Pair[]) => pairs.map(({ off }) => off)
const times = (runs: readonly Run[]) => spreadText(medianSpread(runs.map((run) => run.latencyMs)))
const cpuOf = (runs: readonly Run[]) => cpuText(runs.map((run) => run.cpu))

function pairRows(full: readonly Pair[], steady: readonly Pair[]): Row[] {
  const ratios = full.map(({ on, off }) => on.perSecond / off.perSecond)
  const cpu = ({ cpu: { bySeconds }, answered }: Run) =>
    ((bySeconds.service ?? Number.NaN) + (bySeconds.PostgreSQL ?? Number.NaN)) / answered
  const dearer = steady.map(({ on, off }) => cpu(on) / cpu(off))
  const slower = steady.map(({ on, off }) => on.latencyMs.p50 / off.latencyMs.p50)
  const errors = errorsOf([...onRuns(full), ...offRuns(full), ...onRuns(steady), ...offRuns(steady)])
  const perSecond = (runs: readonly Run[]) => median(runs.map((run) => run.perSecond))
  return [
    {
      what: `POST /v1/users, ${CONNECTIONS} connections, with the audit log against without, in pairs`,
      measured: `${median(ratios).toFixed(2)} (${whole(perSecond(onRuns(full)))}/s against ${whole(perSecond(offRuns(full)))}/s), ${errors} errors; entries were all there ${whole(median(full.map(({ lagMs }) => lagMs)))} ms after the events`,
      floor: `≥ ${RATIO_MIN}`,
      holds: median(ratios) >= RATIO_MIN && errors === 0,
      runs: ratios.map((ratio) => ratio.toFixed(2)).join(', '),
      times: `with ${times(onRuns(full))}; without ${times(offRuns(full))}`,
      cpu: `with ${cpuOf(onRuns(full))}; without ${cpuOf(offRuns(full))}`,
    },
    {
      what: `the same at ${STEADY}/s: CPU time of service and PostgreSQL for a write, the entry included`,
      measured: `× ${median(dearer).toFixed(2)} (${(1e6 * median(onRuns(steady).map(cpu))).toFixed(0)} µs against ${(1e6 * median(offRuns(steady).map(cpu))).toFixed(0)} µs)`,
      floor: '≤ 1.10',
      holds: median(dearer) <= 1.1,
      runs: dearer.map((each) => each.toFixed(2)).join(', '),
    },
    {
      what: `the same at ${STEADY}/s: how much longer a write takes, p50`,
      measured: `× ${median(slower).toFixed(2)}`,
      floor: '≤ 1.10',
      holds: median(slower) <= 1.1,
      runs: slower.map((each) => each.toFixed(2)).join(', '),
      times: `with ${times(onRuns(steady))}; without ${times(offRuns(steady))}`,
      cpu: `with ${cpuOf(onRuns(steady))}; without ${cpuOf(offRuns(steady))}`,
    },
  ]
}

/** From the answer of a write to its entry in the list. */
async function latencyRow(stage: Stage, n: number): Promise<Row> {
  const late: number[] = []
  for (let at = 0; at < n; at += 1) {
    const { data } = await call<{ data: { id: string } }>(stage, 'POST', '/users', {})
    const answeredAt = performance.now()
    while ((await call<{ total: number }>(stage, 'GET', `/audit-log?target=${data.id}`)).total === 0) await pause(5)
    late.push(performance.now() - answeredAt)
    await pause(Math.random() * 1_000)
  }
  return { what: 'from the answer to the entry, idle service', measured: spreadText(spread(late)) }
}

/** Fills the log of the tenant up to `n` entries, which need not be a chain: only reading is measured on them. */
async function fill(stage: Stage, n: number): Promise<void> {
  step(`filling up to ${whole(n)} entries`)
  const { bed, tenantId } = stage
  await bed.sql(
    `insert into audit_entries (tenant_id, seq, id, at, actor, action, target, app_id, hash)
     select $1, h.seq + i, 'aud_' || i, h.signed_at + i * interval '1 second',
       case when i % 10 = 0 then $3 else 'usr_' || (i % 50000) end, case when i % 3 = 0 then 'user.updated' else 'user.signed_in' end,
       'ses_' || i, 'app_filled', '\\x00' from audit_heads h, generate_series(1, $2 - h.seq) as i where h.tenant_id = $1`,
    [tenantId, n, newId('key')],
  )
  await bed.sql(
    `insert into audit_counts
     select tenant_id, hours, date_trunc(case hours when 24 then 'day' else 'hour' end, at, 'UTC'), app_id, action,
       case when actor like 'usr%' then '' else actor end, count(*)
     from audit_entries, unnest(array[24, 1]) as hours where tenant_id = $1 and app_id = 'app_filled' group by 1, 2, 3, 4, 5, 6`,
    [tenantId],
  )
  await bed.sql('update audit_heads set seq = $2 where tenant_id = $1', [tenantId, n])
  await bed.sql('vacuum analyze audit_entries')
}

async function readRows(stage: Stage, n: number): Promise<Row[]> {
  await fill(stage, n)
  const pool = new Pool(`http://127.0.0.1:${stage.service.port}`, { connections: 1, allowH2: false })
  const [key] = await stage.bed.sql<{ actor: string }>(
    "select actor from audit_entries where actor like 'key%' order by seq desc limit 1",
  )
  const [middle] = await stage.bed.sql<{ at: Date }>('select at from audit_entries where seq = $1', [n / 2])
  const queries: [string, string][] = [
    ['newest page', ''],
    ['page in the middle', `page=${n / 40}`],
    ['of a user', 'actor=usr_77'],
    ['of a key', `actor=${key?.actor}`],
    ['of a key, page in the middle', `actor=${key?.actor}&page=${n / 400}`],
    ['of a family', 'action=user.*'],
    ['of a rare family', 'action=billing.*'],
    ['of one record', 'target=ses_77'],
    ['since the middle', `since=${middle?.at.toISOString()}`],
    ['of a key and a family, since the middle', `actor=${key?.actor}&action=user.*&since=${middle?.at.toISOString()}`],
  ]
  const rows: Row[] = []
  for (const [what, query] of queries) {
    const took: number[] = []
    await forEachOf(1, async () => {
      for (let at = 0; at < CALLS; at += 1) {
        const startedAt = performance.now()
        const answer = await pool.request({
          method: 'GET',
          path: `/v1/audit-log?${query}`,
          headers: { 'x-api-key': stage.bed.key },
        })
        await answer.body.text()
        if (answer.statusCode !== 200) throw new Error(`${query}: ${answer.statusCode}`)
        took.push(performance.now() - startedAt)
      }
    })
    const { p99 } = spread(took)
    rows.push({
      what: `GET /v1/audit-log, ${whole(n)} entries: ${what}`,
      measured: spreadText(spread(took)),
      floor: `p99 ≤ ${READ_P99_MAX_MS} ms`,
      holds: p99 <= READ_P99_MAX_MS,
    })
  }
  await pool.close()
  return rows
}

/** `npm run bench -- audit` */
export async function audit(quick: boolean): Promise<Outcome> {
  const bed = await openBed()
  const load = startHelper('load')
  try {
    const service = await bed.start()
    const { tenantId } = await firstTenant(bed)
    const watched = {
      service: { pid: service.pid },
      PostgreSQL: { pid: bed.postgresPid, family: true },
      load: { pid: load.pid },
    }
    const stage: Stage = { bed, service, load, watched, tenantId, pairs: quick ? 2 : 5, forMs: quick ? 3_000 : 8_000 }
    await call(stage, 'POST', '/users', {})
    await pause(2_000)
    const late = await latencyRow(stage, quick ? 5 : 30)
    const rows = pairRows(await runPairs(stage, undefined), await runPairs(stage, STEADY))
    rows.push(late, ...(await readRows(stage, quick ? 200_000 : 1_000_000)))
    const facts = [
      `PostgreSQL ${bed.postgresVersion} (embedded), service ${memoryText(service)}, ${stage.pairs} pairs of ${stage.forMs / 1000} s a figure, medians`,
      `logged: ${JSON.stringify(bed.complaints())}`,
    ]
    return { facts, rows }
  } finally {
    await load.end()
    await bed.close()
  }
}
