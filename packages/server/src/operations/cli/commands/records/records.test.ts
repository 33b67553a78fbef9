import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, type TestContext, test } from 'vitest'
import { expectError } from '../../../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../../../../../test/harness/harness.ts'
import {
  expectStatus,
  type Holder,
  newHolder,
  newSession,
  type Session,
  sessionOf,
  transfer,
  transfers,
} from '../../../../delegation/delegated.fixture.ts'
import { newSharedWallet, type SplitWallet } from '../../../../keys/key-shares/key-shares.fixture.ts'
import { release } from '../../../../keys/recovery/recovery.fixture.ts'
import { open, seal } from '../../../../platform/security/crypto.ts'
import { openKeyFile } from '../../../../platform/security/key-provider.ts'
import { openNewSeal } from '../../../../wallets/custody/share-seal.ts'
import type { ShareRow } from '../../../../wallets/custody/store.ts'
import type { WalletRow } from '../../../../wallets/wallets/store.ts'
import { WALLET_RECORD } from '../../../../wallets/wallets/wallet-record.ts'
import { runCli } from '../../cli.ts'

/** A command, in the process of a service. */
async function halfkey(service: Pick<Service, 'deps'>, ...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []]
  const exitCode = await runCli(args, {
    openDeps: async () => ({ deps: service.deps, close: async () => {} }),
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
  })
  return { exitCode, out: out.join('\n'), err: err.join('\n') }
}

const TABLES = [
  'api_keys',
  'passkeys',
  'wallets',
  'key_shares',
  'delegated_sessions',
  'transactions',
  'dashboard_links',
  'dashboard_sessions',
  'users',
]

/** A copy of a key file, in a folder of its own where no mark is. */
function copyOfKey(context: TestContext, service: Service): string {
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-kek-'))
  context.onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'kek.key')
  copyFileSync(service.deps.config.kekFile as string, file)
  return file
}

interface Legacy {
  /** Accepts records without a MAC. */
  service: Service
  /** Of the installation's beginning. */
  first: Service
  tenant: Tenant
  holder: Holder
  session: Session
  split: SplitWallet
  mark: string
}

/** An installation as an upgrade from a release without MACs leaves it. */
async function upgraded(
  context: TestContext,
  options: { failpoint?: (step: string) => Promise<void> } = {},
): Promise<Legacy> {
  const first = await startService({ HALFKEY_ROLE: 'api' })
  context.onTestFinished(() => first.stop())
  const tenant = await first.newTenant()
  const holder = await newHolder(tenant)
  await holder.receive('100')
  const session = await newSession(first, tenant, holder, { policy: transfers(holder, '50') })
  const split = await newSharedWallet(first, tenant)
  for (const table of TABLES) await first.sql(`update ${table} set mac = null`)
  await first.sql('update users set credentials = null, factor_version = null')
  await first.sql('update wallets set sessions = null')
  const { deps } = first
  for (const row of await first.sql<ShareRow>('select * from key_shares where share_sealed is not null')) {
    const scalar = (await openNewSeal(deps, row.share_sealed as Buffer, row, 'shared')) as Buffer
    const old = ['key share', row.tenant_id, row.wallet_id, String(row.index), String(row.generation)]
    await first.sql('update key_shares set share_sealed = $2 where id = $1', [
      row.id,
      await seal(deps.keys, scalar, old),
    ])
  }
  const kekFile = copyOfKey(context, first)
  const service = await startService(
    { DATABASE_URL: first.databaseUrl, HALFKEY_KEK_FILE: kekFile, HALFKEY_ROLE: 'api' },
    options,
  )
  context.onTestFinished(() => service.stop())
  return { service, first, tenant, holder, session, split, mark: `${kekFile}.records` }
}

const there = ({ service, session }: Legacy): Session => sessionOf(service.url, session.by.key as string, session)
const missing = async ({ first }: Pick<Legacy, 'first'>) => {
  const counts = TABLES.map((table) => {
    const open = table === 'transactions' ? `and status not in ('completed', 'failed')` : ''
    return first.sql<{ n: number }>(`select count(*)::int as n from ${table} where mac is null ${open}`)
  })
  return (await Promise.all(counts)).reduce((sum, [row]) => sum + (row?.n ?? 0), 0)
}

async function holding({ first, holder }: Legacy): Promise<string> {
  const [row] = await first.sql<{ id: string }>(
    `select contract_id as id from ledger_contracts where archived_offset is null and arguments ->> 'owner' = $1`,
    [holder.party],
  )
  return row?.id as string
}

test('after an upgrade, records without a MAC count until they are enforced, and never after it', async (context) => {
  const legacy = await upgraded(context)
  const { service, split } = legacy
  expect(service.logs()).toContain('halfkey records enforce')
  const session = there(legacy)
  expectStatus(await session.execute({ commands: [transfer(await holding(legacy), '1')] }), 200)
  const before = await missing(legacy)
  expect(before).toBeGreaterThan(5)
  const done = await halfkey(service, 'records', 'enforce')
  expect(done.exitCode, done.err).toBe(0)
  expect(done.out).toContain(`Sealed ${before} records and 1 key share`)
  expect([await missing(legacy), existsSync(legacy.mark)]).toEqual([0, true])
  // Everything works as before, the service's share too.
  expectStatus(await session.execute({ commands: [transfer(await holding(legacy), '1')] }), 200)
  await release(split)
  const [row] = await legacy.first.sql<ShareRow>('select * from key_shares where share_sealed is not null')
  const old = ['key share', split.tenant.tenantId, split.walletId, '1', '1']
  await expect(open(service.deps.keys, row?.share_sealed as Buffer, old)).rejects.toThrow()
  // Records list what belongs to them, as new ones do.
  expect((await halfkey(service, 'records', 'verify')).exitCode).toBe(0)
  const [listed] = await legacy.first.sql<{ sessions: string }>(`select sessions from wallets where sessions <> ''`)
  expect(listed?.sessions).toBe(session.id)
  // Without a MAC, nothing counts any more: in this process at once.
  await legacy.first.sql('update delegated_sessions set mac = null where id = $1', [session.id])
  expectError(await session.execute({ commands: [transfer(await holding(legacy), '1')] }), 500, 'record_tampered')
  expect((await halfkey(service, 'records', 'enforce')).exitCode).toBe(1)
  expect(await missing(legacy)).toBe(1)
  expect((await halfkey(service, 'records', 'enforce', '--accept-missing')).exitCode).toBe(0)
  expectStatus(await session.execute({ commands: [transfer(await holding(legacy), '1')] }), 200)
})

test('a mark of the first release refuses what had MACs then, and accepts what came later until it is enforced', async (context) => {
  const legacy = await upgraded(context)
  const { first, service, holder, tenant } = legacy
  await first.recode()
  const LATER = ['users', 'sessions', 'mfa_factors', 'server_verifications', 'ledger_templates']
  for (const table of LATER) await first.sql(`update ${table} set mac = null`)
  await first.sql('update users set credentials = null, factor_version = null')
  // In that release, a wallet's MAC covered no list.
  for (const row of await first.sql<WalletRow>('select * from wallets')) {
    const mac = await first.deps.db.records.mac(WALLET_RECORD, { ...row, sessions: null })
    await first.sql('update wallets set sessions = null, mac = $2 where id = $1', [row.id, mac])
  }
  writeFileSync(legacy.mark, 'Every record of this installation carries a MAC.\n')
  await eventually('the mark is seen', async () => (await service.deps.enforcement.generation()) === 1)
  const session = there(legacy)
  expectStatus(await session.execute({ commands: [transfer(await holding(legacy), '1')] }), 200)
  expect((await halfkey(service, 'records', 'verify')).out).toContain('run halfkey records enforce')
  // What had a MAC in that release still needs it, and is not given one.
  const [wallet] = await first.sql<{ mac: Buffer }>('select mac from wallets where id = $1', [holder.walletId])
  await first.sql('update wallets set mac = null where id = $1', [holder.walletId])
  expectError(await session.execute({ commands: [transfer(await holding(legacy), '1')] }), 500, 'record_tampered')
  const refused = await halfkey(service, 'records', 'enforce')
  expect([refused.exitCode, refused.err]).toEqual([1, expect.stringContaining('1 record without a MAC')])
  await first.sql('update wallets set mac = $2 where id = $1', [holder.walletId, wallet?.mac])
  const done = await halfkey(service, 'records', 'enforce')
  expect(done.exitCode, done.err).toBe(0)
  expect(readFileSync(legacy.mark, 'utf8')).toMatch(/^Generation 3$/m)
  expect((await halfkey(service, 'records', 'verify')).out).toMatch(/checked, 0 of them changed\.$/)
  expectStatus(await session.execute({ commands: [transfer(await holding(legacy), '1')] }), 200)
  for (const table of LATER) expect(await first.sql(`select from ${table} where mac is null`), table).toEqual([])
  await first.sql('update users set mac = null where tenant_id = $1', [tenant.tenantId])
  expect((await halfkey(service, 'records', 'verify')).exitCode).toBe(1)
})

test('a database whose users have no MACs yet is not enforced by a setting alone', async (context) => {
  const { first } = await upgraded(context)
  await first.recode()
  await first.sql('update users set mac = null')
  const settings = {
    DATABASE_URL: first.databaseUrl,
    HALFKEY_KEK_FILE: copyOfKey(context, first),
    HALFKEY_RECORDS: 'enforced',
  }
  await expect(startService(settings)).rejects.toThrow('rows of users have no MACs yet')
})

test('an interrupted enforcement changes nothing for good and is finished by the next run', async (context) => {
  let steps = 0
  const failpoint = async (step: string) => {
    if (step !== 'records sealed') return
    steps += 1
    if (steps === 3) throw new Error('cut off')
  }
  const legacy = await upgraded(context, { failpoint })
  const before = await missing(legacy)
  expect((await halfkey(legacy.service, 'records', 'enforce')).exitCode).toBe(1)
  const left = await missing(legacy)
  expect(left).toBeGreaterThan(0)
  expect(left).toBeLessThan(before)
  expect(existsSync(legacy.mark)).toBe(false)
  const done = await halfkey(legacy.service, 'records', 'enforce')
  expect(done.out, done.err).toContain(`Sealed ${left} records`)
  expect([await missing(legacy), existsSync(legacy.mark)]).toEqual([0, true])
})

test('nothing is enforced over a record that does not verify: it is named, and by verify too', async (context) => {
  const legacy = await upgraded(context)
  const { first, service, session } = legacy
  await first.recode(legacy.tenant.tenantId)
  await first.sql(
    'update delegated_sessions set max_uses = 5, mac = set_byte(mac, 5, 255 - get_byte(mac, 5)) where id = $1',
    [session.id],
  )
  const refused = await halfkey(service, 'records', 'enforce')
  expect(refused.exitCode).toBe(1)
  expect(refused.err).toContain(`delegated_session ${session.id} of ${legacy.tenant.tenantId}`)
  expect(existsSync(legacy.mark)).toBe(false)
  const verified = await halfkey(service, 'records', 'verify')
  expect(verified.exitCode).toBe(1)
  expect(verified.out).toContain(`delegated_session ${session.id} of ${legacy.tenant.tenantId}`)
  expect(verified.out).toMatch(/\d+ records checked, 1 of them changed/)
  const parsed = JSON.parse((await halfkey(service, 'records', 'verify', '--json')).out)
  expect(parsed.bad).toEqual([{ kind: 'delegated_session', tenantId: legacy.tenant.tenantId, id: session.id }])
  await first.recode(legacy.tenant.tenantId)
  expect((await halfkey(service, 'records', 'enforce')).exitCode).toBe(0)
  expect((await halfkey(service, 'records', 'verify')).out).toMatch(/checked, 0 of them changed\.$/)
})

test('a new installation is enforced from its first start, and a mark that cannot be written is said', async (context) => {
  const service = await startService({ HALFKEY_ROLE: 'api' })
  context.onTestFinished(() => service.stop())
  expect(existsSync(`${service.deps.config.kekFile}.records`)).toBe(true)
  expect(await service.deps.enforcement.isEnforced()).toBe(true)
  expect(service.logs()).not.toContain('records enforce')
})

test('records of a database that has no MACs at all are not enforced by a setting alone', async (context) => {
  const { first } = await upgraded(context)
  const settings = {
    DATABASE_URL: first.databaseUrl,
    HALFKEY_KEK_FILE: copyOfKey(context, first),
    HALFKEY_RECORDS: 'enforced',
  }
  await expect(startService(settings)).rejects.toThrow('halfkey records enforce')
})

test('an exported tenant has no changed record', async (context) => {
  const legacy = await upgraded(context)
  const { first, service, tenant } = legacy
  await first.recode()
  await first.sql('update wallets set mac = set_byte(mac, 5, 255 - get_byte(mac, 5)) where id = $1', [
    legacy.holder.walletId,
  ])
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-export-'))
  context.onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const key = join(folder, 'transfer.key')
  await openKeyFile(key, { create: true })
  const out = join(folder, 'tenant.export')
  const args = ['export', '--tenant', tenant.tenantId, '--out', out, '--key-file', key]
  const done = await halfkey(service, ...args)
  expect(done.exitCode).toBe(1)
  expect(done.err).toContain(`wallet ${legacy.holder.walletId}`)
  expect(existsSync(out)).toBe(false)
})
