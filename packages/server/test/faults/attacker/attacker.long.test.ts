import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { recordKinds } from '../../../src/app.ts'
import { runCli } from '../../../src/operations/cli/cli.ts'
import { newDatabase, type Service, startService } from '../../harness/harness.ts'
import { Database } from './database.ts'
import { startMail } from './features.ts'
import { allMoves, type Move, make, random } from './moves.ts'
import { PUBLIC_URL, type Stage, setStage } from './stage.ts'
import { walk } from './walk.ts'

// An attacker with write access to the database, accounts of their own in two tenants, and the power to restart processes. They
// do to rows whatever SQL can do, start the service anew, and try every way to what is not theirs.

const SEED = Number(process.env.HALFKEY_ATTACK_SEED ?? '20261123')
const [PART = 0, PARTS = 1] = (process.env.HALFKEY_ATTACK_PART ?? '').split('/').map(Number)
/** Tries by chance, pairs among them. Each part of `npm run faults -- attacker` makes a part of all single moves besides. */
const TRIES = PART > 0 ? 40 : 160

/** Tables of which a deleted row is missed, because a record lists it, and those of which an earlier row is refused, too. */
const LISTED = ['passkeys', 'identities', 'mfa_factors', 'recovery_codes']
/**
 * Records whose own earlier row, with its MAC, is believed by a process that has not seen a later one, and of which the floor holds no
 * versions: what SECURITY.md says of them. Everything else gains nothing. The floor holds nothing of a row that was deleted.
 */
const ROLLED_BACK = ['app_issuers', 'app_providers', 'sessions', 'users', 'wallets']

/** More rows than any table has that were others in the attacker's copy: all of them are put back, whatever the seed. */
const ROWS_MAX = 40

/** Tables in which the attacker finds nothing but a row of their own, because nothing that they could use is ever in them. */
let planted: string[]

let base: Awaited<ReturnType<typeof newDatabase>>
let folder: string
let database: Database
let stage: Stage
let mail: Awaited<ReturnType<typeof startMail>>

const settings = () => ({
  DATABASE_URL: base.url,
  HALFKEY_KEK_FILE: join(folder, 'kek.key'),
  HALFKEY_PUBLIC_URL: PUBLIC_URL,
  HALFKEY_ROLE: 'api',
  ...mail.settings,
})

/** The service as the attacker restarted it, at the moment at which the stage was set: what it knows has not expired. */
async function restarted(): Promise<Service> {
  const service = await startService(settings())
  service.advance(stage.endedAt.getTime() - Date.now())
  return service
}

beforeAll(async () => {
  base = await newDatabase('migrated')
  folder = mkdtempSync(join(tmpdir(), 'hk-attacker-'))
  mail = await startMail()
  const made = await startService({ DATABASE_URL: base.url, HALFKEY_PUBLIC_URL: PUBLIC_URL, ...mail.settings })
  for (const name of ['kek.key', 'kek.key.records']) copyFileSync(join(made.dataDir, name), join(folder, name))
  database = new Database(base.url)
  await database.open()
  stage = await setStage(made, () => database.copyTo('earlier'), mail)
  await made.stop()
  await database.unbind()
  await database.noteEmpty('earlier', 'public')
  planted = database.tables.filter(({ isEmpty }) => isEmpty).map(({ name }) => name)
  await database.plant({ tenant_id: stage.shop.tenantId, app_id: stage.shop.appId })
  await database.copyTo('present')
})
afterAll(async () => {
  await stage?.features.close()
  await database.close()
  await base.drop()
  rmSync(folder, { recursive: true, force: true })
})

/** Whether one of the commands that look for changes finds one. */
async function isFound(service: Service, tables: readonly string[]): Promise<boolean> {
  const commands = [['records', 'verify']]
  if (tables.some((name) => /^(ledger_|tenants)/.test(name))) commands.push(['ledger', 'verify'])
  if (tables.some((name) => /^(audit_|events|feed|tenants)/.test(name))) commands.push(['audit', 'verify'])
  const openDeps = async () => ({ deps: service.deps, close: async () => {} })
  for (const args of commands) if ((await runCli(args, { openDeps, out: () => {}, err: () => {} })) !== 0) return true
  return false
}

interface Tried {
  /** Those that changed a row. */
  moves: Move[]
  gained: string[]
  detected: boolean
}

/** @param recode gives what was changed the right MACs, as if there were none */
async function attempt(moves: readonly Move[], next: (below: number) => number, recode = false): Promise<Tried> {
  const done: Move[] = []
  for (const move of moves) if (await make(database, move, next)) done.push(move)
  // The second may have taken the first back.
  const made: Move[] = []
  for (const move of done) if (await database.differs(move.table, 'present')) made.push(move)
  if (made.length === 0) return { moves: made, gained: [], detected: false }
  let service: Service
  try {
    service = await restarted()
  } catch {
    // It does not start on such a database: nobody gets anything, and everybody sees it.
    await database.putBack('present')
    return { moves: made, gained: [], detected: true }
  }
  try {
    if (recode) await service.recode()
    const { gained, refused } = await walk(service, stage)
    const tables = made.map(({ table }) => table.name)
    return { moves: made, gained, detected: refused || (await isFound(service, tables)) }
  } finally {
    await service.stop()
    await database.putBack('present')
  }
}

const kinds = new Map(recordKinds.map((kind) => [kind.table, kind]))

/** Whether a move changes what a MAC or a list covers. */
function isAuthority({ kind, table, column }: Move): boolean {
  const record = kinds.get(table.name)
  if (kind === 'delete' || kind === 'restore') return LISTED.includes(table.name)
  // An ended transaction has no MAC, and all of them have ended here.
  if (record === undefined || record.only !== undefined) return false
  return column === null || !(column.name in record.notAuthority)
}

const told = ({ moves }: Pick<Tried, 'moves'>) =>
  moves.map(({ kind, table, column }) => `${kind} ${table.name}${column === null ? '' : `.${column.name}`}`).join(' + ')

test('every table has a row to change, and those that say who may do what have genuine ones', () => {
  for (const table of planted) expect([...kinds.keys()]).not.toContain(table)
  // The others are what a real service writes.
  expect(planted.length).toBeLessThan(database.tables.length / 6)
})

test('nothing changed, nothing is open and nothing is found', async () => {
  const service = await restarted()
  try {
    expect(await walk(service, stage)).toEqual({ gained: [], refused: false })
    expect(await isFound(service, ['ledger_updates', 'audit_entries'])).toBe(false)
  } finally {
    await service.stop()
    await database.putBack('present')
  }
})

test('without MACs, what the attacker does gains something: the ways are open', async () => {
  const next = random(SEED)
  const moves = allMoves(database.tables).filter(({ kind, table }) => kind === 'restore' && kinds.has(table.name))
  const gains = new Set<string>()
  for (const move of moves) {
    const everyRow = Array<Move>(ROWS_MAX).fill(move)
    for (const gain of (await attempt(everyRow, next, true)).gained) gains.add(gain)
  }
  for (const gain of [
    'a session of a suspended user',
    'a frozen wallet',
    'a revoked session',
    'a sign-in by a removed passkey',
    'a sign-in by an issuer that is trusted no more',
    'a guest whose time was ended',
  ])
    expect([...gains]).toContain(gain)
})

test(`whatever the attacker does to rows, singly and in pairs, gains nothing and is found (seed ${SEED})`, async () => {
  const next = random(SEED + PART)
  const single = allMoves(database.tables)
  const picked = () => single[next(single.length)] as Move
  const tries = single.filter((_, at) => PART > 0 && at % PARTS === PART - 1).map((move) => [move])
  for (let n = 0; n < TRIES; n += 1) tries.push(n % 2 === 0 ? [picked()] : [picked(), picked()])
  const all: Tried[] = []
  for (const moves of tries) all.push(await attempt(moves, next))
  const made = all.filter(({ moves }) => moves.length > 0)
  const rolledBack = made.filter(({ moves }) =>
    moves.some(({ kind, table }) => kind === 'restore' && ROLLED_BACK.includes(table.name)),
  )
  const touching = made.filter(({ moves }) => moves.some(isAuthority))
  const columns = database.tables.reduce((sum, table) => sum + table.columns.length, 0)
  const regained = rolledBack.filter((tried) => tried.gained.length > 0).length
  process.stdout.write(
    `attacker, seed ${SEED}, part ${PART}: ${database.tables.length} tables, ${columns} columns, ${single.length} moves; ${made.length} tries changed ` +
      `rows, ${touching.length} of them authority; ${rolledBack.length} put an earlier record back, ${regained} of them gained by it\n`,
  )
  const gained = made.filter((tried) => tried.gained.length > 0 && !rolledBack.includes(tried))
  expect(gained.map((tried) => `${told(tried)}: ${tried.gained.join(', ')}`)).toEqual([])
  expect(touching.filter(({ detected }) => !detected).map(told)).toEqual([])
  // A program that hardly touches authority would prove nothing. How many do depends on which rows there are.
  expect(touching.length).toBeGreaterThan(TRIES / 8)
}, 3_600_000)
