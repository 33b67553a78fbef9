import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newLink, openAsOperator, openPage } from '../../../test/harness/dashboard-page.ts'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { newId } from '../../platform/ids.ts'
import type { Role } from '../../platform/security/roles/roles.ts'
import { invited, opens, type SignedIn, signedIn } from './members.fixture.ts'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

let service: Service
/** Another process on the same database. */
let second: Service
let tenant: Tenant
beforeAll(async () => {
  service = await startService()
  const { kekFile } = service.deps.config
  second = await startService({ DATABASE_URL: service.databaseUrl, HALFKEY_KEK_FILE: kekFile as string })
  tenant = await service.newTenant()
})
afterAll(async () => {
  await second.stop()
  await service.stop()
})

const person = (role: Role = 'viewer') => ({ email: `${newId('job')}@example.com`, role })
const as = (role: Role, of = tenant, more: { appIds?: string[] } = {}): Promise<SignedIn> =>
  signedIn(service, of, role, more)
const newAppOf = async (of: Tenant) => (await of.post('/apps', { name: 'Other' })).body.data.id as string
const detailOf = (answer: { body: { details: { code: string }[] } }) => answer.body.details[0]?.code

describe('an invitation', () => {
  test('signs in once, makes the member active, and shows who they are', async () => {
    const { id, email, link } = await invited(service, tenant, 'developer')
    expect((await tenant.get(`/members/${id}`)).body.data).toMatchObject({ status: 'invited', invitedBy: 'cli' })
    const answer = await opens(service, link.url)
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body.data).toMatchObject({
      via: 'member',
      member: { id, email, name: email, role: 'developer' },
      tenant: { id: tenant.tenantId },
      tenants: [{ id: tenant.tenantId }],
      apps: null,
      appId: null,
    })
    expect(answer.body.data.scopes).not.toContain('*')
    expect((await tenant.get(`/members/${id}`)).body.data).toMatchObject({
      status: 'active',
      lastSignedInAt: expect.any(String),
    })
    expectError(await opens(service, link.url), 401, 'dashboard_link_invalid')
  })

  test('is over after seven days, and a new one ends it', async () => {
    const { id, link } = await invited(service, tenant, 'viewer')
    const again = await tenant.post(`/members/${id}/link`)
    expect(again.status, again.text).toBe(201)
    expect(Date.parse(again.body.data.link.expiresAt) - Date.now()).toBeGreaterThan(6 * DAY_MS)
    expectError(await opens(service, link.url), 401, 'dashboard_link_invalid')
    service.advance(7 * DAY_MS + MINUTE_MS)
    expectError(await opens(service, again.body.data.link.url), 401, 'dashboard_link_invalid')
  })

  test('that a member no longer needs signs nobody in as them: not whoever sent it', async () => {
    const { id, link } = await invited(service, tenant, 'viewer')
    const { url } = (await tenant.post(`/members/${id}/link`)).body.data.link
    expectError(await opens(service, link.url), 401, 'dashboard_link_invalid')
    // As if the member had come in by another way meanwhile.
    await service.sql(`update members set status = 'active' where id = $1`, [id])
    await service.recode(tenant.tenantId)
    expectError(await opens(service, url), 401, 'dashboard_link_invalid')
  })

  test('claimed by many at once in two processes signs in one of them', async () => {
    const { link } = await invited(service, tenant, 'viewer')
    const answers = await Promise.all(Array.from({ length: 10 }, (_, at) => opens(at % 2 ? service : second, link.url)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(9)
  })

  test('is stored as a hash, and its token is in no log', async () => {
    const made = await tenant.post('/members', person())
    const token = made.body.data.link.url.split('#link=')[1] as string
    expect(made.headers.get('cache-control')).toBe('no-store')
    const rows = await service.sql<{ row: string }>('select row_to_json(l)::text as row from dashboard_links l')
    expect(JSON.stringify(rows)).not.toContain(token)
    expect(service.logs()).not.toContain(token)
    expect(JSON.stringify((await tenant.get('/members')).body)).not.toContain('"link":')
  })
})

describe('a member is refused', () => {
  test.each([
    [{ email: 'no address' }, 'email'],
    [{ email: 'a@b.example\r\nbcc: c@d.example' }, 'email'],
    [{ role: 'root' }, 'role'],
    [{ role: 'OWNER' }, 'role'],
    [{ name: ' ' }, 'name'],
    [{ appIds: [] }, 'appIds'],
    [{ status: 'active' }, 'status'],
    [{ tenantId: 'ten_1' }, 'tenantId'],
    [{ role: 'admin', appIds: ['app_1'] }, 'appIds'],
  ])('with %j', async (more, field) => {
    const answer = await tenant.post('/members', { ...person(), ...more })
    expectError(answer, 400, 'validation_failed')
    expect(answer.body.details[0].field).toBe(field)
  })

  test('with an app of another tenant, or the email of another member in any spelling', async () => {
    const stranger = await service.newTenant()
    expectError(await tenant.post('/members', { ...person(), appIds: [stranger.appId] }), 404, 'not_found')
    const { email } = (await tenant.post('/members', person())).body.data
    expectError(await tenant.post('/members', { email: email.toUpperCase(), role: 'viewer' }), 409, 'already_exists')
    expect((await stranger.post('/members', { email, role: 'viewer' })).status).toBe(201)
  })

  test('by one of two invitations at once', async () => {
    const body = person()
    const answers = await Promise.all([1, 2, 3].map(() => tenant.post('/members', body)))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409, 409])
  })
})

describe('nobody gives more than they have', () => {
  test('a member gives roles up to their own, and touches nobody above them', async () => {
    const own = await service.newTenant()
    const [owner, admin, developer] = [await as('owner', own), await as('admin', own), await as('developer', own)]
    const above = await admin.page.call('POST', '/members', { body: person('owner') })
    expectError(above, 403, 'insufficient_scope')
    expect(detailOf(above)).toBe('wider_than_own')
    for (const role of ['admin', 'viewer'] as const)
      expect((await admin.page.call('POST', '/members', { body: person(role) })).status).toBe(201)
    for (const [method, body] of [
      ['PATCH', { role: 'viewer' }],
      ['PATCH', { name: 'Eve' }],
      ['DELETE', undefined],
    ] as const)
      expectError(await admin.page.call(method, `/members/${owner.id}`, { body }), 403, 'insufficient_scope')
    expectError(await admin.page.call('POST', `/members/${owner.id}/link`), 403, 'insufficient_scope')
    const raised = await admin.page.call('PATCH', `/members/${developer.id}`, { body: { role: 'owner' } })
    expect(detailOf(raised)).toBe('wider_than_own')
    expectError(await developer.page.call('POST', '/members', { body: person() }), 403, 'insufficient_scope')
    expect((await own.get(`/members/${developer.id}`)).body.data.role).toBe('developer')
  })

  test('nobody changes their own role or apps, but their name', async () => {
    const own = await service.newTenant()
    const [owner, admin] = [await as('owner', own), await as('admin', own)]
    await as('owner', own)
    for (const { id, page } of [owner, admin]) {
      expectError(await page.call('PATCH', `/members/${id}`, { body: { role: 'viewer' } }), 409, 'own_rights')
      expect((await page.call('PATCH', `/members/${id}`, { body: { name: 'Ada' } })).body.data.name).toBe('Ada')
    }
    const raised = await admin.page.call('PATCH', `/members/${admin.id}`, { body: { role: 'owner' } })
    expect(raised.status).not.toBe(200)
    expect((await own.get(`/members/${admin.id}`)).body.data.role).toBe('admin')
  })

  test('an admin makes no sign-in link for an active member, whom it would let them act as; an owner does', async () => {
    const own = await service.newTenant()
    const [owner, admin, viewer] = [await as('owner', own), await as('admin', own), await as('viewer', own)]
    const refused = await admin.page.call('POST', `/members/${viewer.id}/link`)
    expectError(refused, 403, 'insufficient_scope')
    expectError(await own.post(`/members/${viewer.id}/link`), 403, 'insufficient_scope')
    const made = await owner.page.call('POST', `/members/${viewer.id}/link`)
    expect(Date.parse(made.body.data.link.expiresAt) - service.deps.now().getTime()).toBeLessThanOrEqual(30 * MINUTE_MS)
    expect((await opens(service, made.body.data.link.url)).body.data.member.id).toBe(viewer.id)
  })

  test('an API key makes no owner, changes none, and gives no scopes that it does not have', async () => {
    const own = await service.newTenant()
    const owner = await as('owner', own)
    for (const answer of [
      await own.post('/members', person('owner')),
      await own.patch(`/members/${owner.id}`, { role: 'viewer' }),
      await own.delete(`/members/${owner.id}`),
      await own.post(`/members/${owner.id}/link`),
    ])
      expect(detailOf(answer), answer.text).toBe('wider_than_own')
    expect((await own.post('/members', person('admin'))).status).toBe(201)
    const narrow = await own.newKey({ scopes: ['members:write', 'apps:read', 'analytics:read', 'tenant:read'] })
    expectError(await own.post('/members', person('viewer'), { key: narrow }), 403, 'insufficient_scope')
    const wide = {
      scopes: [
        'members:write',
        'apps:read',
        'analytics:read',
        'tenant:read',
        'event_types:read',
        'custom_domains:read',
      ],
    }
    const key = await own.newKey(wide)
    expect((await own.post('/members', person('viewer'), { key })).status).toBe(201)
    expectError(await own.post('/members', person('support'), { key }), 403, 'insufficient_scope')
  })

  test('a key that a member makes has no more than their role, and remembers who made it', async () => {
    const { id, page } = await as('developer')
    const key = (scopes: string[]) => ({ name: 'Backend', type: 'secret', scopes })
    for (const scopes of [['*'], ['users:write'], ['users:act_as'], ['members:write']])
      expectError(await page.call('POST', '/api-keys', { body: key(scopes) }), 403, 'insufficient_scope')
    const made = await page.call('POST', '/api-keys', { body: key(['webhooks:write']) })
    expect(made.body.data).toMatchObject({ createdBy: id })
    const [first] = (await tenant.get('/api-keys?sort=createdAt&page_size=1')).body.data
    expect((await tenant.get(`/api-keys/${first.id}`)).body.data.createdBy).toMatch(/^(cli|first start)$/)
  })
})

describe('the last active owner', () => {
  test('stays one, whoever asks; an invited owner does not count', async () => {
    const own = await service.newTenant()
    const { id, page } = await as('owner', own)
    const operator = await openAsOperator(service, own.tenantId)
    const there = { headers: { 'x-halfkey-tenant': own.tenantId } }
    await invited(service, own, 'owner')
    expectError(await page.call('DELETE', `/members/${id}`), 409, 'last_owner')
    expectError(await operator.call('DELETE', `/members/${id}`, there), 409, 'last_owner')
    expectError(
      await operator.call('PATCH', `/members/${id}`, { ...there, body: { role: 'admin' } }),
      409,
      'last_owner',
    )
    await as('owner', own)
    expect((await page.call('DELETE', `/members/${id}`)).status).toBe(200)
    expectError(await page.call('GET', '/tenant'), 401, 'session_invalid')
  })

  test('is left when owners remove and lower each other at once, in two processes', async () => {
    const own = await service.newTenant()
    const [ada, bob] = [await as('owner', own), await as('owner', own)]
    const bobElsewhere = await openPage(second, {
      link: (await ada.page.call('POST', `/members/${bob.id}/link`)).body.data.link.url.split('#link=')[1],
    })
    const answers = await Promise.all([
      ada.page.call('DELETE', `/members/${bob.id}`),
      bobElsewhere.call('PATCH', `/members/${ada.id}`, { body: { role: 'viewer' } }),
      bobElsewhere.call('DELETE', `/members/${ada.id}`),
      ada.page.call('PATCH', `/members/${bob.id}`, { body: { role: 'viewer' } }),
    ])
    expect(answers.filter(({ status }) => status >= 500).map(({ text }) => text)).toEqual([])
    const owners = (await own.get('/members?role=owner&status=active')).body
    expect(owners.total).toBeGreaterThanOrEqual(1)
  })
})

describe('a session follows its member', () => {
  test('it ends with their removal at once, in every process, and so do their links', async () => {
    const own = await service.newTenant()
    const { id, page } = await as('developer', own)
    const elsewhere = { cookie: page.cookie, host: `localhost:${new URL(second.url).port}` }
    const there = () => call(second.url, 'GET', '/dashboard/api/users', { headers: elsewhere })
    expect((await there()).status).toBe(200)
    const { link } = await invited(service, own, 'viewer')
    const [pending] = (await own.get('/members?status=invited')).body.data
    expect((await own.delete(`/members/${id}`)).body.data.status).toBe('removed')
    expect((await own.delete(`/members/${pending.id}`)).status).toBe(200)
    expectError(await there(), 401, 'session_invalid')
    expectError(await page.call('GET', '/session'), 401, 'session_invalid')
    expectError(await opens(service, link.url), 401, 'dashboard_link_invalid')
    expectError(await own.patch(`/members/${id}`, { name: 'x' }), 409, 'member_removed')
    expectError(await own.post(`/members/${id}/link`), 409, 'member_removed')
    expect((await own.delete(`/members/${id}`)).status).toBe(200)
    // Invited again, they are somebody else: no session of before comes back.
    const { email } = (await own.get(`/members/${id}`)).body.data
    const again = await own.post('/members', { email, role: 'viewer' })
    expect(again.status, again.text).toBe(201)
    expect(again.body.data.id).not.toBe(id)
    expectError(await page.call('GET', '/session'), 401, 'session_invalid')
  })

  test('another role counts with the next call, in every process', async () => {
    const own = await service.newTenant()
    const { id, page } = await as('admin', own)
    const body = { name: 'Ada' }
    expect((await page.call('POST', '/users', { body })).status).toBe(201)
    expect((await own.patch(`/members/${id}`, { role: 'support' })).status).toBe(200)
    const refused = await page.call('POST', '/users', { body })
    expect(detailOf(refused)).toBe('role_not_allowed')
    const headers = { cookie: page.cookie, host: `localhost:${new URL(second.url).port}` }
    expect((await call(second.url, 'GET', '/dashboard/api/users', { headers })).status).toBe(200)
    expectError(await call(second.url, 'GET', '/dashboard/api/webhooks', { headers }), 403, 'insufficient_scope')
    // What was answered to the greater role is not answered again.
    expect((await page.call('GET', '/session')).body.data.member.role).toBe('support')
  })

  test('a read that waits ends with the right to it', async () => {
    const own = await service.newTenant()
    const { id, page } = await as('developer', own)
    const before = (await own.post('/users', {})).body.data.id
    // An event that is still on its way would end the wait with what the member may read.
    const feed = (await eventually('the feed has the user, and nothing is on its way', async () => {
      const coming = await service.sql('select 1 from outbox where tenant_id = $1', [own.tenantId])
      const { data } = (await page.call('GET', '/events?last=100')).body
      return coming.length === 0 && JSON.stringify(data.events).includes(before) && data
    })) as { nextCursor: string }
    const waiting = page.call('GET', `/events?wait=20&after=${encodeURIComponent(feed.nextCursor)}`)
    expect((await own.patch(`/members/${id}`, { role: 'viewer' })).status).toBe(200)
    const { body } = await own.post('/users', { email: `${newId('job')}@example.com` })
    const answer = await waiting
    expect([401, 403]).toContain(answer.status)
    expect(answer.text).not.toContain(body.data.id)
  })

  test('an answer that was kept for a repeat is not given to a lesser role', async () => {
    const own = await service.newTenant()
    const { id, page } = await as('admin', own)
    const headers = { 'idempotency-key': newId('job') }
    const body = { name: 'Backend', type: 'secret', scopes: ['users:read'] }
    expect((await page.call('POST', '/api-keys', { body, headers })).status).toBe(201)
    await own.patch(`/members/${id}`, { role: 'support' })
    const repeat = await page.call('POST', '/api-keys', { body, headers })
    expectError(repeat, 403, 'insufficient_scope')
    expect(repeat.text).not.toContain('hk_sk_')
  })

  test('the page of a member shows their tenant alone', async () => {
    const { page } = await as('owner')
    const stranger = await service.newTenant()
    const headers = { 'x-halfkey-tenant': stranger.tenantId }
    for (const path of ['/session', '/users', '/members'])
      expectError(await page.call('GET', path, { headers }), 404, 'not_found')
  })
})

describe('a step-up', () => {
  test('is asked for what is sensitive five minutes after the sign-in, and for exports', async () => {
    const own = await startService()
    try {
      const its = await own.newTenant()
      const { page } = await signedIn(own, its, 'owner')
      const body = { name: 'Backend', type: 'secret', scopes: ['users:read'] }
      const csv = { headers: { accept: 'text/csv' } }
      expect((await page.call('POST', '/api-keys', { body })).status).toBe(201)
      expect((await page.call('GET', '/users', csv)).status).toBe(200)
      own.advance(5 * MINUTE_MS + 1_000)
      expectError(await page.call('POST', '/api-keys', { body }), 403, 'reauthentication_required')
      expectError(await page.call('POST', '/members', { body: person() }), 403, 'reauthentication_required')
      expectError(await page.call('GET', '/users', csv), 403, 'reauthentication_required')
      // The same in pages of JSON.
      for (const query of ['page=11&page_size=100', 'page=51', 'page=9999999'])
        expectError(await page.call('GET', `/users?${query}`), 403, 'reauthentication_required')
      for (const query of ['page=10&page_size=100', 'page=50'])
        expect((await page.call('GET', `/users?${query}`)).status, query).toBe(200)
      expect((await its.get('/users?page=11&page_size=100')).status).toBe(200)
      expect((await page.call('GET', '/users')).status).toBe(200)
      // The operator's own link is for recovery.
      const operator = await openPage(own, { link: await newLink(own, its.tenantId) })
      own.advance(6 * MINUTE_MS)
      expect((await operator.call('POST', '/api-keys', { body })).status).toBe(201)
    } finally {
      await own.stop()
    }
  })

  test('does not let support take lists away', async () => {
    const { page } = await as('support')
    expectError(await page.call('GET', '/users', { headers: { accept: 'text/csv' } }), 403, 'insufficient_scope')
    expectError(await page.call('GET', '/users?page=11&page_size=100'), 403, 'insufficient_scope')
    expect((await page.call('GET', '/users?page=10&page_size=100')).status).toBe(200)
  })
})

describe('a member acts for nobody else', () => {
  test('no role names a user or a delegated session, on any call', async () => {
    const userId = await tenant.userId()
    const { page } = await as('owner')
    for (const headers of [{ 'x-user-id': userId }, { authorization: 'Bearer dst_x' }])
      for (const [method, path] of [
        ['GET', '/users/me'],
        ['GET', '/users'],
        ['GET', '/approvals'],
        ['POST', '/delegated-sessions'],
      ] as const)
        expect(detailOf(await page.call(method, path, { headers })), path).toMatch(/role_not_allowed|required|unknown/)
    expectError(await page.call('GET', '/approvals', { headers: { 'x-user-id': userId } }), 403, 'insufficient_scope')
  })
})

describe('a member with some apps', () => {
  test('sees one of them at a time and nothing of others, in lists, filters, ids, feeds and figures', async () => {
    const own = await service.newTenant()
    const [mine, alsoMine, theirs] = [await newAppOf(own), await newAppOf(own), own.appId]
    const users = Object.fromEntries(
      await Promise.all(
        [mine, alsoMine, theirs].map(async (appId) => [appId, (await own.post('/users', { appId })).body.data.id]),
      ),
    )
    const hook = { url: 'http://127.0.0.2:49150/hook', events: ['user.created'] }
    const everybodys = (await own.post('/webhooks', hook)).body.data.id
    await own.post('/api-keys', { name: 'x', type: 'secret', scopes: ['*'], appId: theirs })
    const { id, page } = await as('developer', own, { appIds: [mine, alsoMine] })
    expect(page.session).toMatchObject({ appId: mine, defaultAppId: mine })
    expect(page.session.apps.map((app: { id: string }) => app.id).toSorted()).toEqual([mine, alsoMine].toSorted())
    const inApp = (appId: string) => ({ headers: { 'x-halfkey-app': appId } })
    const listed = async (path: string, options = {}) =>
      (await page.call('GET', path, options)).body.data as { id: string }[]
    expect((await listed('/users')).map((user) => user.id)).toEqual([users[mine]])
    expect((await listed('/users', inApp(alsoMine))).map((user) => user.id)).toEqual([users[alsoMine]])
    expect((await listed('/apps')).map((app) => app.id)).toEqual([mine])
    for (const path of [
      `/users?app_id=${theirs}`,
      `/users/${users[theirs]}`,
      `/apps/${theirs}`,
      `/webhooks/${everybodys}`,
      `/analytics?app_id=${theirs}`,
    ])
      expectError(await page.call('GET', path), 404, 'not_found', path)
    for (const path of ['/webhooks', '/api-keys', '/audit-log'])
      expect(JSON.stringify(await listed(path)), path).not.toContain(theirs)
    const told = async (by: Pick<Tenant, 'get'>) => (await by.get('/events?last=100')).text
    const everyone = [mine, alsoMine, theirs].map((appId) => users[appId])
    await eventually('the feed has all users', async () => {
      const text = await told(own)
      return everyone.every((id) => text.includes(id))
    })
    const feed = await page.call('GET', '/events?last=100')
    expect(feed.text).toContain(users[mine])
    expect(feed.text).not.toContain(users[theirs])
    for (const wrong of [theirs, newId('app'), 'x', ''])
      expectError(await page.call('GET', '/users', inApp(wrong)), 404, 'not_found', wrong)
    for (const [method, path, body] of [
      ['GET', '/members', undefined],
      ['POST', '/apps', { name: 'x' }],
      ['DELETE', `/apps/${mine}`, undefined],
    ] as const)
      expectError(await page.call(method, path, { body }), 403, 'insufficient_scope', path)
    const key = { name: 'k', type: 'secret', scopes: ['users:read'] }
    expect((await page.call('POST', '/api-keys', { body: key })).body.data.appId).toBe(mine)
    expect((await page.call('POST', '/api-keys', { body: { ...key, appId: null } })).status).not.toBe(201)
    // An app that is taken away is gone with the next call.
    await own.patch(`/members/${id}`, { appIds: [alsoMine] })
    expectError(await page.call('GET', '/users', inApp(mine)), 404, 'not_found')
    expect((await listed('/users')).map((user) => user.id)).toEqual([users[alsoMine]])
  })

  test('whose only app is deleted sees nothing', async () => {
    const own = await service.newTenant()
    const appId = await newAppOf(own)
    const { page } = await as('support', own, { appIds: [appId] })
    await own.post('/users', {})
    expect((await own.delete(`/apps/${appId}`)).status).toBe(200)
    expect((await page.call('GET', '/users')).body).toMatchObject({ data: [], total: 0 })
    expect((await page.call('GET', '/apps')).body.total).toBe(0)
  })
})

describe('what support and viewers do not see', () => {
  test('is every secret: keys, webhooks, and the fixed codes of test addresses', async () => {
    const own = await service.newTenant()
    await own.patch(`/apps/${own.appId}`, {
      email: {
        testCodes: [{ email: 'review@example.com', code: '123456' }],
        webhookUrl: 'https://mail.example.com/hook?token=s3cr3t',
        webhookSecret: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
      },
    })
    for (const role of ['viewer', 'support'] as const) {
      const { page } = await as(role, own)
      for (const path of ['/api-keys', '/webhooks', '/members', '/events', '/billing/usage'])
        expect(detailOf(await page.call('GET', path)), path).toBe('role_not_allowed')
      for (const path of ['/apps', `/apps/${own.appId}`]) {
        const answer = await page.call('GET', path)
        expect(answer.status).toBe(200)
        expect(answer.text, path).not.toMatch(/123456|s3cr3t/)
      }
    }
    expect((await own.get(`/apps/${own.appId}`)).text).toContain('123456')
    expect((await (await as('developer', own)).page.call('GET', `/apps/${own.appId}`)).text).toContain('123456')
  })
})

describe('the audit log', () => {
  test('names the member for what they do, and who invited, changed and removed whom', async () => {
    const own = await service.newTenant()
    const { id, page } = await as('owner', own)
    const made = await page.call('POST', '/members', { body: person('viewer') })
    const theirs = made.body.data.id
    await page.call('PATCH', `/members/${theirs}`, { body: { role: 'support' } })
    await page.call('POST', `/members/${theirs}/link`)
    await page.call('DELETE', `/members/${theirs}`)
    await page.call('POST', '/users', { body: { name: 'Ada' } })
    const wanted = ['member.invited', 'member.updated', 'member.link_created', 'member.removed', 'user.created']
    const entries = await eventually('the acts are in the log', async () => {
      const { data } = (await own.get(`/audit-log?actor=${id}`)).body
      const actions = data.map(({ action }: { action: string }) => action)
      return wanted.every((action) => actions.includes(action)) && data
    })
    for (const entry of entries) expect(entry.keyId).toBeNull()
    const joined = (await own.get('/audit-log?action=member.joined')).body.data
    expect(joined).toMatchObject([{ actor: id, target: id }])
    expect(made.body.data.invitedBy).toBe(id)
  })
})

describe('records', () => {
  test.each([`role = 'owner'`, `app_ids = null`, `status = 'active'`, `email = 'eve@example.com'`, 'mac = null'])(
    'a member whose row was changed with %s signs in no more',
    async (change) => {
      const own = await service.newTenant()
      const { id, page } = await signedIn(service, own, 'viewer', { appIds: [own.appId] })
      if (change.startsWith('status')) expect((await own.delete(`/members/${id}`)).status).toBe(200)
      await service.sql(`update members set ${change} where id = $1`, [id])
      const answer = await page.call('GET', '/apps')
      // Of a removed member the session is gone, too.
      if (change.startsWith('status')) expectError(answer, 401, 'session_invalid')
      else expectError(answer, 500, 'record_tampered')
      if (change !== 'mac = null') expectError(await own.get(`/members/${id}`), 500, 'record_tampered')
    },
  )

  test('a session is not moved to another member, nor its step-up renewed', async () => {
    const [owner, viewer] = [await as('owner'), await as('viewer')]
    await service.sql('update dashboard_sessions set member_id = $1 where member_id = $2', [owner.id, viewer.id])
    expectError(await viewer.page.call('GET', '/apps'), 500, 'record_tampered')
    await service.sql('update dashboard_sessions set verified_at = verified_at + $1::interval', ['1 hour'])
    expectError(await owner.page.call('GET', '/apps'), 500, 'record_tampered')
  })
})
