import { readFileSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { PRICES, startStripeFake } from '../../../test/harness/stripe-fake.ts'
import { newHolder } from '../../delegation/delegated.fixture.ts'
import { newSharedWallet } from '../../keys/key-shares/key-shares.fixture.ts'
import { newCustomer } from '../../tenancy/billing/billing.fixture.ts'
import type { Manifest } from './lines.ts'
import { craft, exportTo, halfkey, importFrom, newWorkbench, tenantAt } from './transfer.fixture.ts'

/*
 * Who has the transfer key can write a file. What it says about its own tenant is its own affair; it must not reach
 * another tenant's things, nor stop what is done for all tenants together, nor bring what has to be paid for.
 */

const bench = newWorkbench()
type Row = Record<string, string | null>

let before: Service
let after: Service
let tenant: Tenant
let file: string
let keyFile: string
let sharedKey: string

beforeAll(async () => {
  before = await startService({ HALFKEY_ROLE: 'api' })
  after = await startService()
  tenant = await before.newTenant()
  const holder = await newHolder(tenant)
  await holder.receive('10')
  await newSharedWallet(before, tenant)
  const other = await newSharedWallet(after, after.admin)
  const [row] = await after.sql<{ key: string }>(
    `select encode(public_key, 'hex') as key from wallets where tenant_id = $1 and user_id = $2`,
    [after.admin.tenantId, other.person.userId],
  )
  sharedKey = `\\x${row?.key}`
  const hook = await tenant.post('/webhooks', { url: 'http://127.0.0.1:19999/hook', events: ['*'] })
  expect(hook.status).toBe(201)
  keyFile = bench.newKey()
  file = bench.path('tenant.halfkey')
  await exportTo(before, tenant.tenantId, file, keyFile)
}, 180_000)

afterAll(async () => {
  await after?.stop()
  await before?.stop()
  bench.remove()
})

/** A file whose rows of a table are other ones. */
function rewritten(tables: Record<string, (rows: Row[]) => Row[]>, from = file): Promise<string> {
  return craft(from, keyFile, {
    change(manifest: Manifest, rows) {
      for (const [name, change] of Object.entries(tables)) {
        const table = manifest.tables.find((each) => each.name === name) as Manifest['tables'][number]
        const names = table.columns.map((column) => column.name)
        const old = (rows.get(name) ?? []).map((line) => {
          const values = JSON.parse(line) as (string | null)[]
          return Object.fromEntries(names.map((column, at) => [column, values[at] ?? null]))
        })
        const fresh = change(old)
        table.rows = fresh.length
        rows.set(
          name,
          fresh.map((row) => JSON.stringify(names.map((column) => row[column] ?? null))),
        )
      }
    },
  })
}

const each = (change: Row) => (rows: Row[]) => rows.map((row) => ({ ...row, ...change }))
const added = (row: Row) => (rows: Row[]) => [...rows, row]

async function expectRefused(path: string, words: RegExp): Promise<void> {
  const { exitCode, err } = await importFrom(after, path, keyFile, '--dry-run')
  expect([exitCode, err]).toEqual([1, expect.stringMatching(words)])
}

const NOW = '2026-11-21 12:00:00+00'
const increment = { app_id: null, metric: 'api_requests', n: '1', at: NOW }
const done = { status: 'dead_letter', cycle: '0', retry: '0', attempts: '1', test: 'f', created_at: NOW, done_at: NOW }
const pending = { cycle: '0', retry: '0', attempts: '0', leases_lost: '0', next_at: NOW, created_at: NOW }
const delivery = { webhook_id: 'wh_1', id: 'dlv_1', event_id: 'evt_1', event_type: 'app.created' }

describe('a file does not stop what is done for all tenants together', () => {
  test('by counts that cannot be added up, or of what is not counted', async () => {
    const wrong = [
      { n: '9223372036854775807' },
      { n: '-1' },
      { at: 'infinity' },
      { metric: 'x' },
      { metric: 'toString' },
    ]
    for (const change of wrong)
      await expectRefused(
        await rewritten({ counter_increments: added({ ...increment, ...change }) }),
        /no service writes:\n {2}counter_increments: /,
      )
    const meter = { meter: 'apiRequests', period_start: NOW, used: '9223372036854775807', announced: '0' }
    await expectRefused(await rewritten({ usage_meters: added(meter) }), /usage_meters: numbers or times/)
  })

  test('by a feed that ends before its last event', async () => {
    const heads = { feed_heads: (): Row[] => [{ seq: '1' }] }
    const event = { seq: '2', event_id: 'evt_00000000000000000000000000' }
    await expectRefused(await rewritten({ ...heads, feed: added(event) }), /feed: events beyond the end/)
    await expectRefused(await rewritten({ feed_heads: () => [], feed: added(event) }), /feed: events beyond the end/)
    await expectRefused(await rewritten({ feed_heads: () => [{ seq: '9223372036854775807' }] }), /feed_heads: numbers/)
  })

  test('by deliveries that are both finished and unfinished, or that stand in strange lanes', async () => {
    const both = {
      lanes: added({ id: 'wh_1', webhook_id: 'wh_1', held: 'f', slow: 'f', timeouts: '0' }),
      deliveries: added({ ...delivery, ...pending, lane_id: 'wh_1' }),
      deliveries_done: added({ ...delivery, ...done }),
    }
    await expectRefused(await rewritten(both), /deliveries: deliveries that are both finished and unfinished/)
    const strange = { deliveries: added({ ...delivery, ...pending, lane_id: 'wh_2' }) }
    await expectRefused(await rewritten(strange), /deliveries: deliveries in lanes/)
  })

  test("by an erased user's event that cannot be taken apart", async () => {
    for (const body of ['{', 'null', '""', '{"data":null}'])
      await expectRefused(await rewritten({ events: each({ body }) }), /an event with an invalid body/)
  })

  test('by offsets that leave the ledger no more', async () => {
    const top = { created_offset: '9223372036854775000' }
    await expectRefused(await rewritten({ ledger_contracts: each(top) }), /ledger_contracts: numbers/)
    await expectRefused(
      await rewritten({ ledger_updates: each({ offset: '9007199254740991' }) }),
      /ledger_updates: numbers/,
    )
  })
})

describe("a file does not reach another tenant's things", () => {
  test('a key that is shared here is no other wallet’s', async () => {
    for (const custody of ['shared', 'self_custody'])
      await expectRefused(
        await rewritten({ wallets: each({ custody, public_key: sharedKey }) }),
        /already exist here:(\n.*)*\n {2}wallets \(public_key\): wal_/,
      )
  })

  test('an import of users is not taken for one of a tenant, nor discarded', async () => {
    const id = 'b'.repeat(64)
    await after.sql(
      `insert into imports (id, tenant_id, state, created_at) values ($1, $2, '{"events":true}', now())`,
      [id, tenant.tenantId],
    )
    expect(await halfkey(after, 'import', '--discard', id)).toMatchObject({
      exitCode: 1,
      err: expect.stringContaining('There is no import'),
    })
    expect(await importFrom(after, file, keyFile, '--dry-run')).toMatchObject({ exitCode: 0 })
    expect(await after.sql('delete from imports where id = $1 returning id', [id])).toHaveLength(1)
  })
})

test('a header that somebody without the key has changed is not believed: nothing is begun by it', async () => {
  const bytes = readFileSync(file).toString('latin1')
  const ways = [
    bytes.replace(tenant.tenantId, `ten_${'0'.repeat(26)}`),
    bytes.replace(/"createdAt":"2/, '"createdAt":"1'),
  ]
  for (const way of ways) {
    const path = bench.path('header.halfkey')
    writeFileSync(path, way, 'latin1')
    const { exitCode, err } = await importFrom(after, path, keyFile)
    expect([exitCode, err]).toEqual([1, expect.stringMatching(/changed or damaged|its header/)])
  }
  expect(await after.sql('select 1 from imports')).toEqual([])
  expect(await after.sql(`select 1 from pg_namespace where nspname like 'halfkey_import_%'`)).toEqual([])
})

test('what a file says is told without what a terminal would obey', async () => {
  const path = await rewritten({ users: each({ created_at: 'x\u001b]0;y\u0007' }) })
  const { exitCode, err } = await importFrom(after, path, keyFile, '--dry-run')
  expect([exitCode, err]).toEqual([1, expect.stringMatching(/x\?\]0;y\?/)])
})

test('wallets on a ledger that is not configured are refused, and the ledger is named', async () => {
  await expectRefused(
    await rewritten({ wallets: each({ ledger: 'canton-main' }) }),
    /ledgers that are not configured here:\n {2}canton-main\n/,
  )
})

test('a lease does not move: what was being sent is free at once, whoever held it', async () => {
  const api = await startService({ HALFKEY_ROLE: 'api' })
  onTestFinished(() => api.stop())
  // Its worker seems to live here, too.
  await api.sql(`insert into workers (id, started_at, heartbeat_at) values ('gone', now(), now() + interval '1 hour')`)
  const mine = await before.newTenant()
  const hook = (await mine.post('/webhooks', { url: 'http://127.0.0.1:19999/hook', events: ['*'] })).body.data.id
  await before.sql(
    `insert into deliveries (tenant_id, webhook_id, id, lane_id, event_id, event_type, next_at, lease_id, lease_until, created_at)
    values ($1, $2, 'dlv_1', $2, 'evt_1', 'app.created', now(), 'gone/1', now() + interval '1 day', now())`,
    [mine.tenantId, hook],
  )
  await before.sql(`update lanes set due_at = 'infinity', floor_at = 'infinity', saturated = true where id = $1`, [
    hook,
  ])
  const out = bench.path('leased.halfkey')
  await exportTo(before, mine.tenantId, out, keyFile)
  expect(await importFrom(api, out, keyFile)).toMatchObject({ exitCode: 0 })
  expect(await api.sql('select lease_id, lease_until from deliveries where webhook_id = $1', [hook])).toEqual([
    { lease_id: null, lease_until: null },
  ])
  const [lane] = await api.sql(
    `select due_at <= now() as due, floor_at = '-infinity' as all, saturated from lanes where id = $1`,
    [hook],
  )
  expect(lane).toEqual({ due: true, all: true, saturated: false })
})

test('a custom domain that a file calls verified is looked at, whatever the file says of when', async () => {
  const api = await startService({ HALFKEY_ROLE: 'api' })
  onTestFinished(() => api.stop())
  const mine = await before.newTenant()
  await before.sql(
    `insert into custom_domains (tenant_id, id, app_id, domain, status, token, next_check_at, missing_since, verified_at, created_at, updated_at)
    values ($1, 'dom_1', $2, 'id.example.net', 'verified', 'x', null, '2999-01-01', now(), now(), now())`,
    [mine.tenantId, mine.appId],
  )
  const out = bench.path('domain.halfkey')
  await exportTo(before, mine.tenantId, out, keyFile)
  expect(await importFrom(api, out, keyFile)).toMatchObject({ exitCode: 0 })
  const rows = await api.sql(
    'select status, next_check_at <= now() as due, missing_since from custom_domains where tenant_id = $1',
    [mine.tenantId],
  )
  expect(rows).toEqual([{ status: 'verified', due: true, missing_since: null }])
})

test('a migration that is applied while an import is at work stops it before anything is live', async () => {
  let at: Service | undefined
  const migrated = async () => {
    await at?.sql(`insert into migrations (name, checksum) values ('9999_later.sql', 'x') on conflict do nothing`)
  }
  at = await startService(
    { HALFKEY_ROLE: 'api' },
    { failpoint: async (step) => (step === 'import portion staged' ? migrated() : undefined) },
  )
  onTestFinished(async () => at?.stop())
  const { exitCode, err } = await importFrom(at, file, keyFile)
  expect([exitCode, err]).toEqual([1, expect.stringContaining('schema of this database has changed')])
  expect((await tenantAt(at, tenant).get('/tenant')).status).toBe(401)
})

test('a file brings no plan: what is paid for the processor says, at once', async () => {
  const stripe = await startStripeFake()
  onTestFinished(() => stripe.close())
  const [from, to] = [await startService(stripe.settings), await startService(stripe.settings)]
  onTestFinished(async () => {
    await from.stop()
    await to.stop()
  })
  const [payer, free] = [await newCustomer(from, stripe), await from.newTenant()]
  stripe.subscribe(payer.customer, { price: PRICES.pro })
  const out = async (of: Tenant, subscriptions: (rows: Row[]) => Row[]) => {
    const path = bench.path(`${of.tenantId}.halfkey`)
    await from.sql(`update tenants set plan = 'scale' where id = $1`, [of.tenantId])
    await exportTo(from, of.tenantId, path, keyFile)
    return rewritten({ subscriptions }, path)
  }
  const forged = {
    customer_id: 'cus_forged',
    subscription_id: 'sub_1',
    status: 'active',
    version: '7',
    created_at: NOW,
  }
  const files = [
    await out(payer, (rows) => rows),
    await out(free, () => []),
    await out(await from.newTenant(), () => [forged]),
  ]
  for (const path of files) expect(await importFrom(to, path, keyFile)).toMatchObject({ exitCode: 0 })
  const plans = await to.sql<{ plan: string }>(`select plan from tenants where id <> $1 and plan in ('pro', 'scale')`, [
    to.admin.tenantId,
  ])
  expect(plans).toEqual([{ plan: 'pro' }])
  expect((await tenantAt(to, payer).get('/billing/usage')).body.data.plan).toBe('pro')
  expect((await tenantAt(to, free).get('/billing/usage')).body.data.plan).toBe('free')
})
