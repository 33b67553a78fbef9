import { readFileSync, statSync } from 'node:fs'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Authenticator, logIn, newAuthenticator, signUp } from '../../../test/harness/authenticator.ts'
import { eventually, newDatabase, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { answer, type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import {
  expectStatus,
  holdingsOf,
  newHolder,
  newSession,
  sessionOf,
  transfer,
  transfers,
} from '../../delegation/delegated.fixture.ts'
import { newGuest } from '../../identity/guests/guests.fixture.ts'
import { newShop, type Shop, widget } from '../../identity/messenger/messenger.fixture.ts'
import { answerWith, codeNow, type Enrolled, enrol, moveOn } from '../../identity/mfa/mfa.fixture.ts'
import { type Person, publishableKey, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { newSharedWallet, type SplitWallet, spellingsOf } from '../../keys/key-shares/key-shares.fixture.ts'
import { expectSigns, release } from '../../keys/recovery/recovery.fixture.ts'
import { joinShares } from '../../platform/security/threshold/threshold.ts'
import {
  comparable,
  contentOf,
  exportTo,
  fillEmptyTables,
  halfkey,
  importFrom,
  newWorkbench,
  tenantAt,
} from './transfer.fixture.ts'

const bench = newWorkbench()

/** Everything of a tenant that the old installation has, and what its users and servers hold. */
interface Old {
  tenant: Tenant
  shop: Shop
  publishable: string
  authenticator: Authenticator
  userId: string
  factor: Enrolled
  bob: Person
  shared: SplitWallet
  session: { id: string; token: string; contractId: string }
  hook: { id: string; secret: string }
  deadLetter: { webhookId: string; id: string; eventId: string }
  leased: { webhookId: string; eventId: string }
}

let receiver: Receiver
let database: Awaited<ReturnType<typeof newDatabase>>
let before: Service
let after: Service
let old: Old
let moved: Tenant
let file: string
let keyFile: string
let unsent: string

/** Users who can sign in in every way, wallets of each kind, a delegated session. */
async function fill(service: Service): Promise<Omit<Old, 'hook' | 'deadLetter' | 'leased'>> {
  const shop = await newShop(service)
  const { tenant } = shop
  const publishable = await publishableKey(tenant)
  const authenticator = newAuthenticator()
  const ada = await signUp({ url: service.url, key: publishable }, { email: 'ada@example.com' }, { authenticator })
  expectStatus(await shop.verify(widget(shop.token, { id: '77', first_name: 'Eve', auth_date: shop.date() })), 200)
  const bob = await signInAs(service, tenant, { email: 'bob@example.com' })
  const factor = await enrol(service, bob)
  await newGuest(tenant)
  const shared = await newSharedWallet(service, tenant)
  const holder = await newHolder(tenant)
  const contractId = await holder.receive('10')
  const session = await newSession(service, tenant, holder, { policy: transfers(holder, '5') })
  expectStatus(await session.execute({ commands: [transfer(contractId, '2')], commandId: 'before' }), 200)
  const [left] = await holdingsOf(session)
  return {
    tenant,
    shop,
    publishable,
    authenticator,
    userId: ada.user.id,
    factor,
    bob,
    shared,
    session: { id: session.id, token: session.token, contractId: left?.contractId as string },
  }
}

const newHook = async (tenant: Tenant, path: string, events: string[]) =>
  expectStatus(await tenant.post('/webhooks', { url: `${receiver.url}/${path}`, events }), 201) as {
    id: string
    secret: string
  }

async function deliveryOf(tenant: Tenant, webhookId: string, status: string) {
  return eventually(`a delivery that is ${status}`, async () => {
    const page = await tenant.get(`/webhooks/${webhookId}/deliveries?status=${status}`)
    return page.body.data[0] as { id: string; eventId: string } | undefined
  })
}

beforeAll(async () => {
  receiver = await startReceiver((received, response) =>
    answer(received.path === '/works' ? 200 : 500)(received, response, null as never),
  )
  database = await newDatabase()
  keyFile = bench.newKey()
  const settings = { DATABASE_URL: database.url, HALFKEY_KEK_FILE: bench.newKey('old.kek') }
  // A process that delivers, whose receivers fail; then one that doesn't, so that something stays unsent.
  const delivering = await startService({ ...settings, HALFKEY_WEBHOOK_RETRY_DELAYS: '1s' })
  const made = await fill(delivering)
  const { tenant } = made
  const hook = await newHook(tenant, 'works', ['user.created'])
  const failing = await newHook(tenant, 'fails', ['app.created'])
  expectStatus(await tenant.post('/apps', { name: 'Second' }), 201)
  const dead = await deliveryOf(tenant, failing.id, 'dead_letter')
  const lost = await newHook(tenant, 'late', ['app.deleted'])
  const spare = expectStatus(await tenant.post('/apps', { name: 'Third' }), 201)
  await delivering.stop()

  before = await startService({ ...settings, HALFKEY_WEBHOOK_RETRY_DELAYS: '1h' })
  before.advance(delivering.deps.now().getTime() - before.deps.now().getTime())
  const here = tenantAt(before, tenant)
  expectStatus(await here.delete(`/apps/${spare.id}`), 200)
  const pending = await eventually('its first attempt has failed', async () => {
    const [one] = (await here.get(`/webhooks/${lost.id}/deliveries`)).body.data
    return one?.attempts.length > 0 && (one as { id: string; eventId: string })
  })
  await before.stop()

  before = await startService({ ...settings, HALFKEY_ROLE: 'api' })
  before.advance(delivering.deps.now().getTime() - before.deps.now().getTime())
  // As if a worker was sending it just now.
  await before.sql(
    `update deliveries set lease_id = 'gone/1', lease_until = now() + interval '1 hour', next_at = now() where id = $1`,
    [pending.id],
  )
  const at = tenantAt(before, tenant)
  await before.sql(
    `insert into custom_domains (tenant_id, id, app_id, domain, status, token, verified_at, created_at, updated_at)
    values ($1, 'dom_00000000000000000000000000', $2, 'id.example.com', 'verified', 'x', now(), now(), now())`,
    [tenant.tenantId, tenant.appId],
  )
  unsent = expectStatus(await at.post('/users', { email: 'unsent@example.com' }), 201).id
  old = {
    ...made,
    hook,
    deadLetter: { webhookId: failing.id, id: dead.id, eventId: dead.eventId },
    leased: { webhookId: lost.id, eventId: pending.eventId },
  }

  file = bench.path('tenant.halfkey')
  await exportTo(before, tenant.tenantId, file, keyFile)
  after = await startService()
  after.advance(before.deps.now().getTime() - after.deps.now().getTime())
  receiver.behave(answer(200))
  const imported = await importFrom(after, file, keyFile)
  expect(imported.exitCode, imported.err).toBe(0)
  moved = tenantAt(after, tenant)
}, 120_000)

afterAll(async () => {
  await after?.stop()
  await before?.stop()
  await database?.drop()
  await receiver?.close()
  bench.remove()
})

test('keys of old work in the new installation, which has another key-encryption key', async () => {
  expect(readFileSync(after.deps.config.kekFile as string)).not.toEqual(readFileSync(bench.path('old.kek')))
  const tenant = expectStatus(await moved.get('/tenant'), 200)
  expect(tenant.id).toBe(old.tenant.tenantId)
  expect((await moved.get('/users?search=ada@example.com')).body.data[0].id).toBe(old.userId)
})

test('a user signs in with the passkey of old', async () => {
  const signedIn = await logIn({ url: after.url, key: old.publishable }, old.authenticator)
  expect(signedIn).toMatchObject({ isNewUser: false, user: { id: old.userId } })
})

test('a bot token of old lets a user sign in by messenger, and a payload that was used stays used', async () => {
  const payload = widget(old.shop.token, { id: '77', first_name: 'Eve', auth_date: old.shop.date() - 5 })
  const first = expectStatus(await moved.post('/auth/messenger/verify', payload), 200)
  expect(first).toMatchObject({ isNewUser: false, user: { name: 'Eve' } })
  const kept = await before.sql<{ n: number }>(
    'select count(*)::int as n from messenger_payloads where tenant_id = $1',
    [old.tenant.tenantId],
  )
  expect(kept[0]?.n).toBeGreaterThan(0)
})

test('tokens of the old installation are refused, and a second factor of old is accepted', async () => {
  const refused = await moved.get('/auth/sessions', { key: old.publishable, headers: old.bob.bearer })
  expect(refused.status).toBe(401)
  const again = await moved.post('/auth/refresh', { refreshToken: old.bob.refreshToken }, { key: old.publishable })
  expect(again.status).toBe(401)
  const bob = await signInAs(after, moved, { userId: old.bob.userId })
  moveOn(after, 2)
  expect((await answerWith(bob, { code: await codeNow(after, old.factor.secret) })).status).toBe(200)
  expect((await answerWith(bob, { recoveryCode: old.factor.recoveryCodes[0] as string })).status).toBe(200)
})

test("a shared wallet's key is recovered: the service's share is released to who has another", async () => {
  const owner = await signInAs(after, moved, { userId: old.shared.person.userId })
  const { share } = await release({ ...old.shared, person: owner })
  const scalar = joinShares(old.shared.sharing, [share, old.shared.share(2)])
  expect(Buffer.from(scalar).equals(Buffer.from(old.shared.scalar))).toBe(true)
  expectSigns(old.shared, scalar)
})

test('a delegated session of old moves tokens, and what it spent before counts', async () => {
  const session = sessionOf(after.url, old.publishable, old.session)
  const again = await session.execute({ commands: [transfer(old.session.contractId, '4')], commandId: 'too-much' })
  expect(again.body.code).toBe('spend_limit_exceeded')
  const done = expectStatus(
    await session.execute({ commands: [transfer(old.session.contractId, '3')], commandId: 'after' }),
    200,
  )
  expect(done).toMatchObject({ status: 'completed', remaining: { spend: [{ remaining: '0' }] } })
  expect((await holdingsOf(session)).map((one) => one.amount)).toEqual(['5'])
  const offsets = await after.sql<{ offset: number; command_id: string }>(
    'select "offset"::int as offset, command_id from ledger_updates where tenant_id = $1 order by "offset"',
    [old.tenant.tenantId],
  )
  expect(offsets.at(-1)?.command_id).toContain('after')
})

test('what was pending in the old installation is delivered by the new one, with the same event id', async () => {
  const created = await receiver.until(
    'the event that nobody had fanned out',
    ({ path, event }) => path === '/works' && event.data?.userId === unsent,
  )
  const events = await before.sql<{ id: string }>(
    `select id from events where tenant_id = $1 and type = 'user.created' and body like $2`,
    [old.tenant.tenantId, `%${unsent}%`],
  )
  expect(created.event.id).toBe(events[0]?.id)
  // The first attempt was the old installation's.
  const sent = await receiver.count(
    'the delivery that a worker of the old one was sending',
    2,
    ({ path, event }) => path === '/late' && event.id === old.leased.eventId,
  )
  expect(new Set(sent.map(({ body }) => body)).size).toBe(1)
})

test('a new event is signed with the secret of old', async () => {
  const user = expectStatus(await moved.post('/users', { email: 'new@example.com' }), 201)
  const got = await receiver.until(
    'the new event',
    ({ path, event }) => path === '/works' && event.data?.userId === user.id,
  )
  expect(() => new Webhook(old.hook.secret).verify(got.body, got.headers)).not.toThrow()
})

test('dead letters are there and can be retried', async () => {
  const { webhookId, id, eventId } = old.deadLetter
  const found = expectStatus(await moved.get(`/webhooks/${webhookId}/deliveries/${id}`), 200)
  expect(found).toMatchObject({ status: 'dead_letter', eventId })
  expect(found.attempts).toHaveLength(2)
  expectStatus(await moved.post(`/webhooks/${webhookId}/deliveries/${id}/retry`), 200)
  await receiver.count('the retry', 3, ({ path, event }) => path === '/fails' && event.id === eventId)
  await eventually('it succeeded', async () => {
    const page = await moved.get(`/webhooks/${webhookId}/deliveries/${id}`)
    return page.body.data.status === 'succeeded'
  })
})

test('a custom domain stays verified', async () => {
  const rows = await after.sql(`select status, domain from custom_domains where tenant_id = $1`, [old.tenant.tenantId])
  expect(rows).toEqual([{ status: 'verified', domain: 'id.example.com' }])
})

test('the audit chain of old still fits, and goes on', async () => {
  const entries = async (service: Service) =>
    service.sql<{ seq: number; hash: string }>(
      `select seq::int, encode(hash, 'hex') as hash from audit_entries where tenant_id = $1 order by seq`,
      [old.tenant.tenantId],
    )
  const here = await eventually('the chain goes on', async () => {
    const [was, is] = [await entries(before), await entries(after)]
    return is.length > was.length && is
  })
  const was = await entries(before)
  expect(was.length).toBeGreaterThan(5)
  expect(here.slice(0, was.length)).toEqual(was)
  const verified = await halfkey(after, 'audit', 'verify', '--tenant', old.tenant.tenantId)
  expect(verified.exitCode, verified.err + verified.out).toBe(0)
})

test('an export of the import is the same, in every row of every table', async () => {
  const quiet = await startService({ HALFKEY_ROLE: 'api' })
  try {
    await fillEmptyTables(before, old.tenant.tenantId)
    await before.recode(old.tenant.tenantId)
    const [first, second] = [bench.path('first.halfkey'), bench.path('second.halfkey')]
    await exportTo(before, old.tenant.tenantId, first, keyFile)
    const imported = await importFrom(quiet, first, keyFile)
    expect(imported.exitCode, imported.err).toBe(0)
    await exportTo(quiet, old.tenant.tenantId, second, keyFile)
    const content = await comparable(first, keyFile)
    expect(await comparable(second, keyFile)).toEqual(content)
    expect(Object.keys(content).filter((name) => content[name]?.length === 0)).toEqual([])
  } finally {
    await quiet.stop()
  }
})

test('the file is for its owner alone, and shows nothing of the tenant but its id', async () => {
  expect(statSync(file).mode & 0o777).toBe(0o600)
  const bytes = readFileSync(file)
  expect(bytes.includes(old.tenant.tenantId)).toBe(true)
  const secrets = [
    'ada@example.com',
    old.userId,
    old.hook.id,
    old.hook.secret,
    old.factor.secret,
    old.shop.token,
    'id.example.com',
  ]
  for (const secret of [...secrets, ...spellingsOf(old.shared.share(1).scalar)])
    expect(bytes.includes(secret), secret).toBe(false)
  const { rows } = await contentOf(file, keyFile)
  const text = [...rows.values()].flat().join('\n')
  // Even opened, what was sealed is sealed.
  for (const secret of [old.hook.secret, old.factor.secret, old.shop.token, ...spellingsOf(old.shared.share(1).scalar)])
    expect(text.includes(secret)).toBe(false)
})
