// One claim of 64 by itself, with a million rows behind one of the due lanes, and a million events in the outbox.

import { type Claimed, claim } from '../../src/delivery/engine/claim.ts'
import { complete, type Outcome } from '../../src/delivery/engine/complete.ts'
import { ASYNC_COMMIT_SETTINGS } from '../../src/delivery/engine/worker.ts'
import { type Database, sql } from '../../src/platform/db/db.ts'
import { openDatabase } from '../../src/platform/db/pool.ts'
import type { Publisher } from '../../src/platform/events/events.ts'
import { newId } from '../../src/platform/ids.ts'
import { openLog } from '../../src/platform/observability/log.ts'
import { ms, spread, spreadText, whole } from '../figures.ts'
import { type Row, step } from '../report.ts'
import { addBacklog, clear, type Stage } from './stage.ts'

const CLAIM_MAX_MS = 5
const ROWS = 64
const LANE_CAP = 8
/** A tenant's share of a process's sends. */
const TENANT_ROOM = 1_024
const WARM_UP = 10
const YEAR_MS = 365 * 86_400_000

/** The dead endpoint's are to be tried again later, so that its lane comes back for more at every claim. */
function outcome(row: Claimed, dead: string): Outcome {
  const failed = row.webhook_id === dead
  return {
    row,
    startedAtMs: Date.now(),
    durationMs: 1,
    statusCode: failed ? 503 : 200,
    error: failed ? 'status 503' : null,
    responseSnippet: '',
    timedOut: false,
    batchMax: null,
    next: failed ? { kind: 'retry', inMs: 3_600_000 } : { kind: 'succeeded' },
  }
}

interface Claims {
  claimMs: number[]
  emptyMs: number[]
  rows: number
  ofBacklog: number
}

/** Claims again and again; what was claimed is completed in between, untimed, so that each claim finds lanes with room. */
async function claimMany(db: Database, dead: string, claims: number, aheadRows: number): Promise<Claims> {
  const publisher: Publisher = { now: () => new Date(), wake: { outbox: () => {} } }
  const workerId = newId('job')
  const done: Claims = { claimMs: [], emptyMs: [], rows: 0, ofBacklog: 0 }
  for (let turn = -WARM_UP; turn < claims; turn += 1) {
    const emptyAt = performance.now()
    await db.tx(async (tx) => {
      for (let statement = 0; statement < 3; statement += 1) await tx.run(sql`select 1`)
    })
    const startedAt = performance.now()
    const limits = {
      capOf: () => LANE_CAP,
      free: ROWS,
      withoutTenants: [],
      withoutSlow: false,
      roomOf: () => TENANT_ROOM,
      ahead: () => aheadRows,
    }
    const claimed = await claim(db, workerId, limits)
    const endedAt = performance.now()
    const outcomes = claimed.rows.map((row) => outcome(row, dead))
    await complete({ db, asyncCommit: db }, publisher, outcomes, YEAR_MS)
    if (turn < 0) continue
    done.emptyMs.push(startedAt - emptyAt)
    done.claimMs.push(endedAt - startedAt)
    done.rows += claimed.rows.length
    done.ofBacklog += claimed.rows.filter((row) => row.webhook_id === dead).length
  }
  return done
}

function claimRow(stage: Stage, what: string, done: Claims): Row {
  const taken = spread(done.claimMs)
  const each = done.rows / taken.count
  return {
    what,
    measured: `median ${ms(taken.p50)}; ${each.toFixed(1)} rows a claim, ${(done.ofBacklog / taken.count).toFixed(1)} of them the backlog's`,
    floor: `< ${CLAIM_MAX_MS} ms`,
    holds: taken.p50 < CLAIM_MAX_MS && each > ROWS * 0.9,
    raw: `${ms(spread(done.emptyMs).p50)}: a transaction of three empty statements`,
    runs: `${taken.count} claims, ${stage.endpoints.length} lanes due`,
    times: spreadText(taken),
  }
}

/** Events that nobody has fanned out, which no claim may look at. */
async function fillOutbox(stage: Stage, count: number): Promise<void> {
  await stage.bed.sql(
    'insert into outbox (tenant_id, event_id, app_id, type) select tenant_id, id, app_id, type from events order by id limit $1',
    [count],
  )
  await stage.bed.sql('vacuum analyze outbox')
  await stage.bed.checkpoint()
}

export async function claiming(stage: Stage): Promise<Row[]> {
  const backlog = stage.quick ? 200_000 : 1_000_000
  const claims = stage.quick ? 100 : 500
  const [dead, ...healthy] = stage.endpoints
  if (dead === undefined) return []
  await clear(stage)
  step(`writing a backlog of ${whole(backlog)}`)
  await addBacklog(stage, [dead], backlog)
  await addBacklog(stage, healthy, 2 * (claims + WARM_UP) * ROWS)
  await fillOutbox(stage, backlog)
  const { log } = openLog('error')
  const db = openDatabase({
    connection: stage.bed.connection,
    connectionsMax: 4,
    applicationName: 'bench claim',
    log,
    settings: ASYNC_COMMIT_SETTINGS,
  })
  step('claiming')
  const what = `claim of ${ROWS} behind a backlog of ${whole(backlog)} and an outbox of as many`
  const rows = [
    claimRow(stage, `${what}, ${LANE_CAP} a lane`, await claimMany(db, dead.webhookId, claims, 0)),
    claimRow(stage, `${what}, leased ahead`, await claimMany(db, dead.webhookId, claims, ROWS)),
  ]
  await db.close()
  return rows
}
