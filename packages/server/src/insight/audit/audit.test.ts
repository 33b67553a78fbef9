import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { signUp } from '../../../test/harness/authenticator.ts'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type CallOptions, eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { bearer, newTestApp } from '../../identity/passkeys/test-app.fixture.ts'
import { newApp, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { AUDIT_ACTIONS, actionsOf } from '../../platform/events/audit-actions.ts'
import { EVENT_CATALOGUE, EVENT_TYPES } from '../../platform/events/event-catalogue.ts'
import { newId } from '../../platform/ids.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'
import { sha256 } from '../../platform/security/crypto.ts'
import { rotateIdentityKey } from '../../platform/security/identity-key.ts'
import { rotateSigningKey } from '../../platform/security/signing-keys.ts'
import { actOfEvent } from './act.ts'
import { type AuditRecord, hashEntry } from './chain.ts'
import type { AuditEntry } from './schema.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const find = async (tenant: Tenant, query: string, options?: CallOptions): Promise<AuditEntry | undefined> =>
  (await tenant.get(`/audit-log?page_size=1&${query}`, options)).body.data[0]
/** The newest entry that a query finds, once it is there. */
const entry = (tenant: Tenant, query: string, options?: CallOptions) =>
  eventually(`an entry for ${query}`, () => find(tenant, query, options))

/** The whole log, the newest first. */
async function whole(tenant: Tenant): Promise<AuditEntry[]> {
  const all: AuditEntry[] = []
  for (let page = 1; ; page += 1) {
    const { body } = await tenant.get(`/audit-log?page_size=100&page=${page}`)
    all.push(...body.data)
    if (!body.hasMore) return all
  }
}

/** Does something that leaves an entry, and waits until all that was done before is in the log. */
async function settled(tenant: Tenant): Promise<void> {
  const app = await newApp(tenant)
  await entry(tenant, `action=app.created&target=${app}`)
  const hook = await tenant.post('/webhooks', { url: 'http://127.0.0.2:49150/hook', events: ['app.deleted'] })
  await entry(tenant, `target=${hook.body.data.id}`)
}

describe('an entry', () => {
  test('says who did what to what, from where, and follows the one before', async () => {
    const tenant = await service.newTenant()
    const headers = { 'x-request-id': 'req-audit-1' }
    const user = (await tenant.post('/users', { email: 'ada@example.com', name: 'Ada' }, { headers })).body.data
    const made = await entry(tenant, `target=${user.id}`)
    const keyId = (await tenant.get('/api-keys')).body.data[0].id
    expect(made).toEqual({
      id: expect.stringMatching(/^aud_[0-9a-z]{26}$/),
      seq: expect.any(Number),
      at: user.createdAt,
      actor: keyId,
      action: 'user.created',
      target: user.id,
      userId: user.id,
      keyId,
      appId: tenant.appId,
      address: '127.0.0.1',
      requestId: 'req-audit-1',
      eventId: expect.stringMatching(/^evt_/),
      hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      previousHash: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
    const [event] = await service.sql<{ type: string }>('select type from events where id = $1', [made.eventId])
    expect(event?.type).toBe('user.created')
    const log = await whole(tenant)
    expect(log.map(({ seq }) => seq)).toEqual(log.map((_, at) => log.length - at))
    const oldest = async (query: string) => (await tenant.get(`/audit-log?sort=seq&page_size=1&${query}`)).body.data[0]
    expect(await oldest('')).toEqual(log.at(-1))
    expect(await oldest('page=2')).toEqual(log.at(-2))
    expect(await oldest(`page=${log.length}`)).toEqual(log[0])
    const byKey = log.filter(({ actor }) => actor === keyId)
    expect(await oldest(`actor=${keyId}`)).toEqual(byKey.at(-1))
    expect(await oldest(`actor=${keyId}&page=${byKey.length}`)).toEqual(byKey[0])
    for (const [at, one] of log.entries()) expect(one.previousHash).toBe(log[at + 1]?.hash ?? null)
  })

  test.each(EVENT_TYPES)('of %s names a record, and holds nothing else of what the event tells', (type) => {
    const { data } = EVENT_CATALOGUE[type]
    const [tenantId, id] = [newId('ten'), newId('evt')]
    const [body, createdAt] = [JSON.stringify({ id, type, data }), new Date()]
    const context = { actor: 'system' }
    const act = actOfEvent(tenantId, { seq: 1, id, appId: null, type, body, createdAt, context })
    expect(act.target).toMatch(/^[a-z]+_[0-9a-z]{26}$/)
    expect(act.userId).toBe('userId' in data ? data.userId : null)
    const ids = Object.values(data).filter((value) => typeof value === 'string' && /^[a-z]+_[0-9a-z]{26}$/.test(value))
    const known = new Set<unknown>([...ids, tenantId, id, act.id, type, createdAt.toISOString(), 'system', null])
    expect(Object.values(act).filter((value) => !known.has(value))).toEqual([])
  })

  test('names the user who acts, be it by a session, by signing in, or by a server in their name', async () => {
    const tenant = await service.newTenant()
    const person = await signInAs(service, tenant)
    const signedIn = await entry(tenant, `action=user.signed_in&actor=${person.userId}`)
    expect(signedIn).toMatchObject({ target: person.sessionId, userId: person.userId })
    await person.post('/users/me/wallet', {})
    expect(await entry(tenant, `action=wallet.created&actor=${person.userId}`)).toMatchObject({
      userId: person.userId,
      keyId: expect.stringMatching(/^key_/),
    })
    const other = (await tenant.post('/users', {})).body.data.id
    await tenant.post('/users/me/wallet', {}, { headers: { 'x-user-id': other } })
    expect(await entry(tenant, `action=wallet.created&actor=${other}`)).toMatchObject({ userId: other })
    const ofUser = (await tenant.get(`/audit-log?user_id=${other}`)).body
    expect(ofUser.data.map(({ action }: { action: string }) => action)).toEqual(
      expect.arrayContaining(['wallet.created', 'user.created']),
    )
    expect(new Set(ofUser.data.map(({ userId }: { userId: string }) => userId))).toEqual(new Set([other]))
    expect((await tenant.get(`/audit-log?user_id=${other}&action=user.*`)).body.total).toBe(1)
    expect((await (await service.newTenant()).get(`/audit-log?user_id=${other}`)).body.total).toBe(0)
  })

  test('names the delegated session that a transaction was made by', async () => {
    const tenant = await service.newTenant()
    const headers = { 'x-user-id': await tenant.userId() }
    const wallet = (await tenant.post('/users/me/wallet', {}, { headers })).body.data
    const policy = { allow: [{ templateId: 'Note:Note' }] }
    const session = (await tenant.post('/delegated-sessions', { policy }, { headers })).body.data
    const run = (templateId: string) => {
      const commands = [{ create: { templateId, arguments: { author: wallet.partyId, text: 'Hello' } } }]
      return tenant.post(`/delegated-sessions/${session.id}/execute`, { commands })
    }
    const done = await run('Note:Note')
    expect(done.status, done.text).toBe(200)
    const completed = await entry(tenant, `action=tx.completed&actor=${session.id}`)
    expect(completed).toMatchObject({ target: done.body.data.transactionId, userId: await tenant.userId() })
    expect((await run('Token:Holding')).status).toBe(403)
    expect(await entry(tenant, `action=delegated_session.denied&actor=${session.id}`)).toMatchObject({
      target: session.id,
    })
  })

  test('is there of what is no event, with its effect or not at all', async () => {
    const tenant = await service.newTenant()
    const hook = (await tenant.post('/webhooks', { url: 'http://127.0.0.2:49150/x', events: ['*'] })).body.data
    await tenant.patch(`/webhooks/${hook.id}`, {})
    await tenant.patch(`/webhooks/${hook.id}`, { description: 'mine' })
    await tenant.post(`/webhooks/${hook.id}/rotate`, {})
    await tenant.delete(`/webhooks/${hook.id}`)
    const refused = await tenant.post('/webhooks', { url: 'http://10.0.0.1/x', events: ['*'] })
    expect(refused.status).toBe(400)
    expect((await tenant.patch(`/webhooks/${hook.id}`, { description: 'gone' })).status).toBe(404)
    const headers = { 'x-user-id': await tenant.userId() }
    const wallet = (await tenant.post('/users/me/wallet', {}, { headers })).body.data
    await tenant.post(`/wallets/${wallet.id}/unfreeze`)
    await tenant.post(`/wallets/${wallet.id}/freeze`)
    await tenant.post(`/wallets/${wallet.id}/unfreeze`)
    await entry(tenant, 'action=wallet.unfrozen')
    await settled(tenant)
    const log = (await whole(tenant)).reverse()
    const of = (target: string) => log.flatMap((one) => (one.target === target ? [one.action] : []))
    expect(of(hook.id)).toEqual(['webhook.created', 'webhook.updated', 'webhook.secret_rotated', 'webhook.deleted'])
    expect(of(wallet.id).filter((action) => action === 'wallet.unfrozen')).toHaveLength(1)
    expect(of(tenant.tenantId)).toEqual(['tenant.created'])
    const deleted = log.find((one) => one.action === 'webhook.deleted')
    expect(deleted).toMatchObject({ eventId: null, actor: deleted?.keyId, address: '127.0.0.1' })
    expect(log.filter((one) => one.action === 'webhook.created')).toHaveLength(2)
  })

  test('is there of a renamed passkey, a registered domain and a template', async () => {
    const app = await newTestApp(service)
    const { tenant } = app
    const ada = await signUp(app.browser, { email: 'ada@example.com' })
    const passkeyId = (await app.send('GET', '/auth/passkeys', undefined, bearer(ada))).body.data[0].id
    for (const name of ['Phone', 'Phone', 'Laptop'])
      expect((await app.send('PATCH', `/auth/passkeys/${passkeyId}`, { name }, bearer(ada))).status).toBe(200)
    const domain = (await tenant.post('/custom-domains', { domain: 'login.audit.example' })).body.data.id
    expect((await tenant.post('/custom-domains', { domain: 'login.audit.example' })).status).toBe(409)
    const template = { templateId: 'Shop:Thing', fields: { shop: { type: 'party' } }, signatories: ['shop'] }
    expect((await tenant.post('/templates', template)).status).toBe(201)
    expect((await tenant.post('/templates', template)).status).toBe(409)
    await entry(tenant, 'action=template.created')
    await settled(tenant)
    const log = (await whole(tenant)).reverse()
    const of = (target: string) => log.filter((one) => one.target === target && one.eventId === null)
    const actions = (target: string) => of(target).map(({ action }) => action)
    expect(actions(passkeyId)).toEqual(['passkey.renamed', 'passkey.renamed'])
    expect(of(passkeyId)[0]).toMatchObject({ actor: ada.user.id, userId: ada.user.id, appId: tenant.appId })
    expect(actions(domain)).toEqual(['custom_domain.registered'])
    expect(actions('Shop:Thing')).toEqual(['template.created'])
  })

  test('is there of dead letters that were sent again or deleted', async () => {
    const failing = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1ms' })
    const tenant = await failing.newTenant()
    const hook = (await tenant.post('/webhooks', { url: 'http://127.0.0.2:49150/x', events: ['user.created'] })).body
      .data.id
    const deadLetters = () => tenant.get(`/webhooks/${hook}/deliveries?status=dead_letter`)
    const dead = async () => {
      await tenant.post('/users', {})
      return eventually('a dead letter', async () => (await deadLetters()).body.data[0]?.id as string | undefined)
    }
    const first = await dead()
    expect((await tenant.post(`/webhooks/${hook}/deliveries/${first}/retry`)).status).toBe(200)
    const since = new Date(Date.now() - 3_600_000).toISOString()
    expect((await tenant.post(`/webhooks/${hook}/recover`, { since })).status).toBe(201)
    expect((await tenant.post(`/webhooks/${hook}/deliveries/bulk`, { action: 'retry', filter: {} })).status).toBe(201)
    await tenant.post('/users', {})
    // The jobs that send again may just have taken what was dead.
    await eventually('dead letters are purged', async () => {
      const purged = await tenant.delete(`/webhooks/${hook}/deliveries?status=dead_letter`)
      return purged.body.data.purged > 0
    })
    await entry(tenant, 'action=webhook.dead_letters_purged')
    const of = async (target: string) =>
      (await tenant.get(`/audit-log?sort=seq&target=${target}`)).body.data.map(({ action }: AuditEntry) => action)
    expect(await of(first)).toContain('webhook.delivery_retried')
    const retried = ['webhook.dead_letters_retried', 'webhook.dead_letters_retried']
    expect(await of(hook)).toEqual(['webhook.created', ...retried, 'webhook.dead_letters_purged'])
    await failing.stop()
  })

  test('is in every tenant’s log of a rotation of the installation’s keys', async () => {
    const tenants = [await service.newTenant(), await service.newTenant()]
    const { id } = await rotateSigningKey(service.deps, { revoke: false })
    await rotateIdentityKey(service.deps, { compromised: false })
    for (const tenant of tenants) {
      expect(await entry(tenant, 'action=installation.signing_key_rotated')).toMatchObject({ actor: 'cli', target: id })
      expect(await entry(tenant, 'action=installation.identity_key_rotated')).toMatchObject({ actor: 'cli' })
      expect((await tenant.get('/audit-log?action=installation.*')).body.total).toBe(2)
    }
  })

  test('is there once for each of twenty parallel writes, and none for a replay or a failure', async () => {
    const tenant = await service.newTenant()
    const create = (n: number) =>
      tenant.post('/users', { externalId: `x${n % 15}` }, { headers: { 'idempotency-key': `k${n}` } })
    const answers = await Promise.all(Array.from({ length: 25 }, (_, n) => create(n)))
    await Promise.all(Array.from({ length: 25 }, (_, n) => create(n)))
    const made = answers.flatMap(({ status, body }) => (status === 201 ? [body.data.id] : []))
    expect(made).toHaveLength(15)
    await settled(tenant)
    const log = (await tenant.get('/audit-log?action=user.created&page_size=100')).body.data as AuditEntry[]
    expect(log.map(({ target }) => target).sort()).toEqual(made.sort())
    expect((await whole(tenant)).map(({ seq }) => seq).reverse()).toEqual((await whole(tenant)).map((_, at) => at + 1))
  })
})

test('an entry is hashed in the form of RFC 8785, whatever stands in it', () => {
  const record: Omit<AuditRecord, 'hash'> = {
    seq: 9_007_199_254_740_991,
    id: 'aud_1',
    at: '2026-11-21T08:30:00.000Z',
    actor: 'first start',
    keyId: null,
    action: 'user.created',
    target: '"quoted"\\ \u0001\u007f\u2028 é 🙂 </script>',
    userId: '',
    appId: null,
    eventId: null,
    requestId: '~!@#$%^&*()',
    address: '2001:db8::1',
    addressSalt: 'ab'.repeat(16),
    addressHash: 'cd'.repeat(32),
    previousHash: null,
  }
  const { address: _, addressSalt: __, ...chained } = record
  const canonical = canonicalJson({ format: 'halfkey-audit-entry/1', tenantId: 'ten_1', ...chained })
  expect(hashEntry('ten_1', record)).toBe(sha256(canonical).toString('hex'))
  expect(hashEntry('ten_2', record)).not.toBe(hashEntry('ten_1', record))
})

describe('the list', () => {
  let tenant: Tenant
  let bound: string
  let person: Awaited<ReturnType<typeof signInAs>>
  let log: AuditEntry[]
  beforeAll(async () => {
    tenant = await service.newTenant()
    const appId = await newApp(tenant)
    bound = await tenant.newKey({ scopes: ['audit:read', 'users:write'], appId })
    const second = await tenant.newKey({ scopes: ['*'] })
    person = await signInAs(service, tenant)
    for (let day = 0; day < 3; day += 1) {
      for (let n = 0; n < 4; n += 1) {
        await tenant.post('/users', {}, { key: n % 2 === 0 ? tenant.key : second })
        const user = await tenant.post('/users', { appId })
        await tenant.patch(`/users/${user.body.data.id}`, { name: 'Ada' })
        service.advance(3_600_000)
      }
      await signInAs(service, tenant, { userId: person.userId })
      await settled(tenant)
      service.advance(86_400_000)
    }
    log = await whole(tenant)
  })

  const cases = () => {
    const [first] = log.filter((one) => one.action === 'user.updated')
    const times = [0.25, 0.5, 0.6].map((part) => `since=${log[Math.floor(log.length * part)]?.at}`)
    const keys = [...new Set(log.map((one) => one.actor))]
    const actors = ['', `actor=${person.userId}`, ...keys.map((actor) => `actor=${actor}`), 'actor=usr_none']
    const actions = ['', 'action=user.created', 'action=user.*', 'action=webhook.*', 'action=mfa.*']
    const targets = ['', `target=${first?.target}`]
    times.push('', 'since=2000-01-01T00:00:00Z', 'since=9999-12-31T23:59:59.999-23:59')
    return actors.flatMap((actor) =>
      actions.flatMap((action) =>
        targets.flatMap((target) =>
          times.map((since) => [actor, action, target, since].filter((part) => part !== '').join('&')),
        ),
      ),
    )
  }

  const fits = (query: string, appId: string | null) => (one: AuditEntry) => {
    const { actor, action, target, since } = Object.fromEntries(new URLSearchParams(query))
    return (
      (appId === null || one.appId === appId) &&
      (actor === undefined || one.actor === actor) &&
      (action === undefined || actionsOf(action).includes(one.action)) &&
      (target === undefined || one.target === target) &&
      (since === undefined || Date.parse(one.at) >= Date.parse(since))
    )
  }

  test('filters by any combination, with exact totals and pages that meet, for keys of an app too', async () => {
    const boundApp = (await tenant.get('/api-keys?page_size=100')).body.data.find(
      (key: { scopes: string[] }) => key.scopes.includes('users:write') && key.scopes.length === 2,
    ).appId
    expect(boundApp).toMatch(/^app_/)
    expect(log.length).toBeGreaterThan(50)
    let found = 0
    for (const [key, appId] of [
      [tenant.key, null],
      [bound, boundApp],
    ]) {
      for (const query of cases()) {
        const wanted = log.filter(fits(query, appId))
        found += wanted.length
        const size = 7
        const last = Math.max(1, Math.ceil(wanted.length / size))
        for (const page of new Set([1, 2, Math.max(1, last - 1), last, last + 1])) {
          const { status, body, text } = await tenant.get(`/audit-log?page_size=${size}&page=${page}&${query}`, { key })
          const context = `${query} page ${page} ${text.slice(0, 300)}`
          expect(status, context).toBe(200)
          expect(body.data, context).toEqual(wanted.slice((page - 1) * size, page * size))
          expect([body.total, body.page, body.pageSize], context).toEqual([wanted.length, page, size])
          expect(body.hasMore, context).toBe(page * size < wanted.length)
        }
      }
    }
    expect(found).toBeGreaterThan(500)
  })

  test("shows nothing of another tenant's, whatever is asked for", async () => {
    const other = await service.newTenant()
    const theirs = await entry(tenant, 'action=user.created')
    for (const query of [`target=${theirs.target}`, `actor=${theirs.actor}`, `since=${theirs.at}&action=user.*`]) {
      const { body } = await other.get(`/audit-log?${query}`)
      expect([body.data, body.total]).toEqual([[], 0])
    }
    await entry(other, 'action=tenant.created')
    for (const one of await whole(other)) expect(log.map(({ id }) => id)).not.toContain(one.id)
  })

  test.each([
    ['action=user', 'action'],
    ['action=user.create', 'action'],
    ['action=*', 'action'],
    ['action=', 'action'],
    ['action=us%25.*', 'action'],
    ['since=yesterday', 'since'],
    ['since=2026-11-21', 'since'],
    ['since=2026-11-21T08:30:00', 'since'],
    ['since=1795250000', 'since'],
    ['actor=', 'actor'],
    [`actor=${'a'.repeat(101)}`, 'actor'],
    ['actor=a%00', 'actor'],
    ['target=', 'target'],
    [`target=${'a'.repeat(10_000)}`, 'target'],
    ['actor=a&actor=b', 'actor'],
    ['page=0', 'page'],
    ['page_size=101', 'page_size'],
    ['app_id=app_1', 'app_id'],
    ['until=2026-11-21T08:30:00Z', 'until'],
  ])('refuses %s and names the parameter', async (query, field) => {
    const [detail] = expectRefusal(await tenant.get(`/audit-log?${query}`), 'validation_failed', query)
    expect(detail.field).toBe(field)
  })

  test('takes every action and hostile texts as nothing but texts', async () => {
    for (const action of AUDIT_ACTIONS)
      expect((await tenant.get(`/audit-log?action=${action}`)).status, action).toBe(200)
    for (const text of ["' OR 1=1 --", '%25', '_', '\\', '*', 'é', '🙂', '-1'])
      for (const name of ['actor', 'target']) {
        const { status, body } = await tenant.get(
          `/audit-log?${name}=${text.startsWith('%') ? text : encodeURIComponent(text)}`,
        )
        expect([status, body.total]).toEqual([200, 0])
      }
    expect((await tenant.get('/audit-log?page=9999999')).body).toMatchObject({ data: [], hasMore: false })
  })

  test('is for secret keys that may read it', async () => {
    const weak = await tenant.newKey({ scopes: ['users:write', 'webhooks:write', 'tenant:read'] })
    const publishable = await tenant.newKey({ publishable: true })
    expectError(await tenant.get('/audit-log', { key: null }), 401, 'api_key_missing')
    expectError(await tenant.get('/audit-log', { key: weak }), 403, 'insufficient_scope')
    expectError(await tenant.get('/audit-log', { key: publishable }), 403, 'key_type_not_allowed')
    for (const method of ['POST', 'PATCH', 'DELETE'])
      expectError(await tenant.call(method, '/audit-log', { body: {} }), 404, 'not_found')
  })
})

describe('what is personal', () => {
  const addressesOf = async (tenant: Tenant) =>
    service.sql<{ user_id: string | null; action: string; address: string | null; address_salt: Buffer | null }>(
      'select user_id, action, address, address_salt from audit_entries where tenant_id = $1 order by seq',
      [tenant.tenantId],
    )

  test('is not in the log but for the address, wherever it was in an event', async () => {
    const tenant = await service.newTenant()
    const user = await tenant.post('/users', {
      email: 'Countess@Lovelace.example',
      name: 'Ada Byron',
      externalId: 'ext-77',
    })
    await tenant.patch(`/users/${user.body.data.id}`, { name: 'Ada King', email: 'ada@king.example' })
    await settled(tenant)
    const rows = await service.sql<{ text: string }>(
      'select to_jsonb(e)::text as text from audit_entries e where tenant_id = $1',
      [tenant.tenantId],
    )
    expect(rows.length).toBeGreaterThan(3)
    for (const { text } of rows) expect(text).not.toMatch(/lovelace|byron|king|ext-77/i)
  })

  test("a deleted user's addresses go from all their entries, later ones too, and from nobody else's", async () => {
    const tenant = await service.newTenant()
    const [gone, stays] = [await signInAs(service, tenant), await signInAs(service, tenant)]
    await gone.post('/users/me/wallet', {})
    await settled(tenant)
    expect(
      (await addressesOf(tenant)).filter((row) => row.user_id === gone.userId && row.address !== null).length,
    ).toBe(4)
    expect((await tenant.delete(`/users/${gone.userId}`)).status).toBe(200)
    const deleted = await entry(tenant, `action=user.deleted&target=${gone.userId}`)
    expect(deleted).toMatchObject({ address: null, actor: expect.stringMatching(/^key_/) })
    // What comes late, such as the outcome of a transaction.
    await service.sql(
      `with e as (insert into events select tenant_id, $2, app_id, 'wallet.failed', body, created_at, context from events
         where tenant_id = $1 and id = $3 returning *)
       insert into outbox (tenant_id, event_id, app_id, type) select tenant_id, id, app_id, type from e`,
      [tenant.tenantId, newId('evt'), deleted.eventId],
    )
    await entry(tenant, 'action=wallet.failed')
    for (const row of await addressesOf(tenant)) {
      const isGone = row.user_id === gone.userId
      expect([row.address === null, row.address_salt === null], JSON.stringify(row)).toEqual(
        row.user_id === stays.userId
          ? [false, false]
          : isGone
            ? [true, true]
            : [row.address === null, row.address === null],
      )
    }
    expect((await addressesOf(tenant)).filter((row) => row.address !== null).length).toBeGreaterThan(2)
  })

  test('an app that is deleted with its users takes their addresses along', async () => {
    const tenant = await service.newTenant()
    const appId = await newApp(tenant)
    const person = await signInAs(service, tenant, { appId })
    await entry(tenant, `action=user.signed_in&actor=${person.userId}`)
    expect((await tenant.delete(`/apps/${appId}?force=true`)).status).toBe(200)
    const deleted = await entry(tenant, `action=app.deleted&target=${appId}`)
    expect(deleted.address).toBe('127.0.0.1')
    const rows = await addressesOf(tenant)
    expect(rows.filter((row) => row.user_id === person.userId).map((row) => row.address)).toEqual([null, null])
  })
})
