// Delegated execution's reach: transactions a second over many sessions and on one, contract queries, policy evaluation.
import { generateKeyPairSync, randomBytes, sign, verify } from 'node:crypto'
import pg from 'pg'
import { compile, decideCommands } from '../src/delegation/policy/policy.ts'
import type { Load } from './child/load.ts'
import { startHelper } from './children.ts'
import { median, medianSpread, spread, spreadText, whole } from './figures.ts'
import type { Outcome } from './main.ts'
import { errorsOf, type Measured, measure, type Run } from './measure.ts'
import type { Watched } from './proc.ts'
import { cpuText, type Row, step } from './report.ts'
import { memoryText, openBed } from './service.ts'
import { call, firstTenant, forEachOf } from './tenant.ts'

const MANY_MIN = 900
const ONE_MIN = 200
const QUERY_MIN = 2_000
const P99_MAX_MS = 60
const FIRST_PAGE_MAX_MS = 20
const POLICY_MAX_MS = 0.2
/** After a checkpoint PostgreSQL writes each page whole when it first changes: some seconds of every five minutes. */
const WARM_UP_MS = 5_000
export const SESSIONS = 50
const ONE_CONNECTIONS = 8
const CONTRACTS = 100_000
const RULES = 100
const BOB = `bob::1220${'b0'.repeat(32)}`

export interface Holder {
  userId: string
  party: string
  issuer: string
  session: { id: string; token: string }
}

interface Stage extends Measured {
  tenantId: string
  runs: number
}

async function dripTo(stage: Measured, userId: string): Promise<string> {
  const body = { userId, symbol: 'USDX', amount: '1000000' }
  return (await call<{ data: { contractId: string } }>(stage, 'POST', '/dev/faucet', body)).data.contractId
}

/** A user with a wallet and a session that may transfer, with a cap that is counted and never reached. */
export async function newHolder(
  stage: Measured,
  fetchAs: (userId: string, path: string, body: object) => Promise<unknown>,
): Promise<Holder> {
  const { data: user } = await call<{ data: { id: string; partyId: string } }>(stage, 'POST', '/users', {})
  await fetchAs(user.id, '/users/me/wallet', {})
  const issuer = `issuer::${user.partyId.split('::')[1]}`
  const policy = {
    allow: [{ templateId: 'Token:Holding', actions: ['exercise'], choices: ['Transfer'] }],
    spend: [{ asset: { issuer, symbol: 'USDX' }, amount: '1000000000' }],
    query: { templateIds: ['Token:Holding'] },
  }
  const made = (await fetchAs(user.id, '/delegated-sessions', { policy, expiresInSeconds: 86_400 })) as {
    data: Holder['session']
  }
  return { userId: user.id, party: user.partyId, issuer, session: made.data }
}

/** A call by a server that acts for a user. */
export const actingFor = (stage: Measured) => async (userId: string, path: string, body: object) => {
  const answer = await fetch(`http://127.0.0.1:${stage.service.port}/v1${path}`, {
    method: 'POST',
    headers: { 'x-api-key': stage.bed.key, 'x-user-id': userId, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!answer.ok) throw new Error(`POST ${path}: ${answer.status} ${await answer.text()}`)
  return answer.json()
}

const measureHere = (stage: Stage, load: Partial<Load>) =>
  measure(stage, { connections: SESSIONS, warmUpMs: WARM_UP_MS, ...load })

function rateRow(what: string, min: number, runs: readonly Run[], raw?: string): Row {
  const rate = median(runs.map((run) => run.perSecond))
  return {
    what,
    measured: `${whole(rate)}/s, ${errorsOf(runs)} errors`,
    floor: `≥ ${whole(min)}/s, no errors`,
    holds: rate >= min && errorsOf(runs) === 0,
    ...(raw === undefined ? {} : { raw }),
    runs: runs.map((run) => whole(run.perSecond)).join(', '),
    times: spreadText(medianSpread(runs.map((run) => run.latencyMs))),
    cpu: cpuText(runs.map((run) => run.cpu)),
  }
}

const halfRow = (what: string, half: Run): Row => ({
  what: `${what}, at half of that (${whole(half.perSecond)}/s)`,
  measured: spreadText(half.latencyMs),
  floor: `p99 < ${P99_MAX_MS} ms`,
  holds: half.latencyMs.p99 < P99_MAX_MS && half.errors === 0,
  cpu: cpuText([half.cpu]),
})

type Chain = NonNullable<Load['chains']>[number]

/** Chains of transfers, each from a holding of its own, so that no run spends what another has spent. */
export async function chainsOf(stage: Measured, holders: readonly Holder[]): Promise<Chain[]> {
  const chains: Chain[] = []
  await forEachOf(holders.length, async (index) => {
    const { userId, session } = holders[index] as Holder
    const path = `/v1/delegated-sessions/${session.id}/execute`
    chains.push({ path, token: session.token, contractId: await dripTo(stage, userId), receiver: BOB })
  })
  return chains
}

async function executeRows(
  stage: Stage,
  what: string,
  holders: readonly Holder[],
  min: number,
  raw?: string,
): Promise<Row[]> {
  const connections = holders.length
  const runs: Run[] = []
  for (let run = 0; run < stage.runs; run += 1) {
    step(`${what}, run ${run + 1}`)
    runs.push(await measureHere(stage, { connections, chains: await chainsOf(stage, holders) }))
  }
  const perSecond = median(runs.map((run) => run.perSecond)) / 2
  const half = await measureHere(stage, { connections, chains: await chainsOf(stage, holders), perSecond })
  return [rateRow(what, min, runs, raw), halfRow(what, half)]
}

/** Rows that one transfer leaves, written by one bare statement a transaction, without anything around it. */
async function bareWrites(stage: Stage): Promise<number> {
  await stage.bed.sql('create table bench_rows (id bigserial primary key, kind int, body text)')
  const pool = new pg.Pool({ ...stage.bed.connection, max: 12 })
  const body = 'x'.repeat(400)
  let count = 0
  const overAt = performance.now() + stage.forMs
  const statement = {
    name: 'bare',
    text: 'insert into bench_rows (kind, body) select n, $1 from generate_series(1, 12) n',
    values: [body],
  }
  await Promise.all(
    Array.from({ length: 12 }, async () => {
      while (performance.now() < overAt) {
        await pool.query(statement)
        count += 1
      }
    }),
  )
  await pool.end()
  await stage.bed.sql('drop table bench_rows')
  return (count / stage.forMs) * 1000
}

const TABLES = ['users', 'wallets', 'delegated_sessions', 'transactions', 'events', 'outbox']
const LEDGER_TABLES = ['ledger_contracts', 'ledger_stakes', 'ledger_updates']

/** As in a service that has run for a minute: code compiled, and tables that PostgreSQL knows. */
async function warmUp(stage: Stage, holders: readonly Holder[]): Promise<void> {
  step('warming up')
  await measureHere(stage, { connections: holders.length, chains: await chainsOf(stage, holders) })
  for (const table of [...TABLES, ...LEDGER_TABLES]) await stage.bed.sql(`vacuum analyze ${table}`)
}

/** Pairs of one Ed25519 signature and its verification a second, one after the other: what no execution can do without. */
function bareSignatures(forMs: number): number {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const digest = randomBytes(32)
  let count = 0
  const startedAt = performance.now()
  while (performance.now() - startedAt < forMs) {
    if (!verify(null, digest, publicKey, sign(null, digest, privateKey))) throw new Error('no signature')
    count += 1
  }
  return (count / forMs) * 1000
}

async function queryRows(stage: Stage, holder: Holder): Promise<Row[]> {
  const path = `/v1/delegated-sessions/${holder.session.id}/query`
  const runs: Run[] = []
  for (let run = 0; run < stage.runs; run += 1) {
    step(`query, run ${run + 1}`)
    const list = Array.from({ length: 100_000 }, () => '{}')
    runs.push(await measureHere(stage, { connections: 32, token: holder.session.token, bodies: { path, list } }))
  }
  return [rateRow('POST …/query, first page of 20, 32 connections', QUERY_MIN, runs)]
}

/** How long the first page takes for a wallet with very many contracts. */
async function firstPageRow(stage: Stage, holder: Holder): Promise<Row> {
  step(`a wallet with ${whole(CONTRACTS)} contracts`)
  const body = { issuer: holder.issuer, owner: holder.party, symbol: 'USDX', amount: '1' }
  await stage.bed.sql(
    `with made as (
       select '00' || encode(sha256(n::text::bytea), 'hex') as id, nextval('ledger_offsets') as at from generate_series(1, ${CONTRACTS}) n),
     contracts as (
       insert into ledger_contracts (tenant_id, contract_id, template_id, arguments, signatories, observers, created_offset)
       select $1, id, 'Token:Holding', $2, array[$3], array[$4], at from made)
     insert into ledger_stakes (tenant_id, party, template_id, created_offset, contract_id)
     select $1, party, 'Token:Holding', at, id from made, unnest(array[$3, $4]) party`,
    [stage.tenantId, JSON.stringify(body), holder.issuer, holder.party],
  )
  const path = `/v1/delegated-sessions/${holder.session.id}/query`
  const list = Array.from({ length: 300 }, () => '{"limit":100}')
  const run = await measureHere(stage, {
    connections: 1,
    token: holder.session.token,
    bodies: { path, list },
    warmUpMs: 0,
  })
  return {
    what: `POST …/query, first page of 100 of ${whole(CONTRACTS)} contracts, one at a time`,
    measured: spreadText(run.latencyMs),
    floor: `p99 < ${FIRST_PAGE_MAX_MS} ms`,
    holds: run.latencyMs.p99 < FIRST_PAGE_MAX_MS && run.errors === 0,
  }
}

/** A policy whose last of a hundred rules decides. */
function policyRow(): Row {
  const rule = (n: number) => ({
    templateId: 'Token:Holding',
    actions: ['exercise' as const],
    choices: ['Transfer'],
    where: [
      {
        path: 'receiver',
        op: 'in' as const,
        value: [`nobody${n}::1220${'00'.repeat(32)}`, n === RULES - 1 ? BOB : 'x'],
      },
    ],
  })
  const policy = compile({ allow: Array.from({ length: RULES }, (_, n) => rule(n)) })
  const given = { receiver: BOB, amount: '3' }
  const command = {
    exercise: { templateId: 'Token:Holding', contractId: `00${'0'.repeat(64)}`, choice: 'Transfer', arguments: given },
  }
  const times: number[] = []
  for (let n = 0; n < 20_000; n += 1) {
    const startedAt = performance.now()
    if (!decideCommands(policy, [command]).allowed) throw new Error('the policy denies')
    times.push(performance.now() - startedAt)
  }
  const { p50, p99 } = spread(times.slice(1_000))
  return {
    what: `policy of ${RULES} rules on one command, the last rule deciding`,
    measured: `p50 ${(p50 * 1000).toFixed(1)} µs, p99 ${(p99 * 1000).toFixed(1)} µs`,
    floor: `p99 < ${POLICY_MAX_MS * 1000} µs`,
    holds: p99 < POLICY_MAX_MS,
  }
}

/** `npm run bench -- execute` */
export async function execute(quick: boolean): Promise<Outcome> {
  const bed = await openBed()
  const load = startHelper('load')
  try {
    const service = await bed.start()
    const { tenantId } = await firstTenant(bed)
    const watched: Watched = {
      service: { pid: service.pid },
      PostgreSQL: { pid: bed.postgresPid, family: true },
      load: { pid: load.pid },
    }
    const stage: Stage = { bed, service, tenantId, load, runs: quick ? 1 : 3, forMs: quick ? 4_000 : 8_000, watched }
    const holders: Holder[] = []
    await forEachOf(SESSIONS, async () => void holders.push(await newHolder(stage, actingFor(stage))))
    const [first] = holders as [Holder]
    const raw = await bareWrites(stage)
    await warmUp(stage, holders)
    const many = await executeRows(
      stage,
      `POST …/execute, ${SESSIONS} sessions`,
      holders,
      MANY_MIN,
      `${whole(raw)}/s: 12 rows, one bare statement each time`,
    )
    const one = await executeRows(
      stage,
      `POST …/execute, one session, ${ONE_CONNECTIONS} connections`,
      Array(ONE_CONNECTIONS).fill(first),
      ONE_MIN,
    )
    const query = await queryRows(stage, holders.at(-1) as Holder)
    const firstPage = await firstPageRow(stage, holders.at(-1) as Holder)
    const facts = [
      `PostgreSQL ${bed.postgresVersion} (embedded), service ${memoryText(service)}, ${stage.runs} runs of ${stage.forMs / 1000} s a figure, medians`,
      `bare Ed25519 signatures, each verified, in one thread: ${whole(bareSignatures(1_000))}/s`,
      `logged: ${JSON.stringify(bed.complaints())}`,
    ]
    return { facts, rows: [...many, ...one, ...query, firstPage, policyRow()] }
  } finally {
    await load.end()
    await bed.close()
  }
}
