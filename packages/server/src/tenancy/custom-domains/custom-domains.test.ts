import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { newDomainName } from '../../../test/matrix/requests.ts'
import { loadConfig } from '../../config.ts'
import { newId } from '../../platform/ids.ts'
import {
  eventsOf,
  type Registered,
  registered,
  type Stage,
  startStage,
  stateOf,
  verified,
  verify,
} from './custom-domains.fixture.ts'

let stage: Stage
beforeAll(async () => {
  stage = await startStage({ HALFKEY_DOMAIN_TARGET: 'edge.halfkey.example' })
})
afterAll(() => stage.stop())

const newTenant = () => stage.service.newTenant()
const events = (tenant: Parameters<typeof eventsOf>[1]) => eventsOf(stage.service, tenant)

describe('registering', () => {
  test('answers the records to set, pending until the first is seen', async () => {
    const tenant = await newTenant()
    const domain = newDomainName()
    const answer = await tenant.post('/custom-domains', { domain })
    expect(answer.status, answer.text).toBe(201)
    expect(answer.body.data).toEqual({
      id: expect.stringMatching(/^dom_[0-9a-z]{26}$/),
      domain,
      appId: tenant.appId,
      status: 'pending',
      verification: {
        type: 'TXT',
        name: `_halfkey.${domain}`,
        value: expect.stringMatching(/^halfkey-verification=[0-9a-f]{48}$/),
      },
      target: { type: 'CNAME', name: domain, value: 'edge.halfkey.example' },
      lastCheckedAt: null,
      missingSince: null,
      error: null,
      createdAt: expect.any(String),
      updatedAt: expect.any(String),
    })
    expect(await stateOf(tenant, answer.body.data)).toEqual(answer.body.data)
    expect(await events(tenant)).toEqual([])
  })

  test('a domain is one in every spelling, once a tenant', async () => {
    const tenant = await newTenant()
    const { domain } = await registered(tenant, { domain: '  WWW.Bücher.Example. ' })
    expect(domain).toBe('www.xn--bcher-kva.example')
    for (const spelling of ['www.bücher.example', 'WWW.BÜCHER.EXAMPLE', domain, domain.toUpperCase(), `${domain}.`]) {
      const answer = await tenant.post('/custom-domains', { domain: spelling })
      expectError(answer, 409, 'already_exists', spelling)
      expect(answer.body.details[0].field).toBe('domain')
    }
  })

  test('of 20 registrations at once one succeeds', async () => {
    const tenant = await newTenant()
    const domain = newDomainName()
    const answers = await Promise.all(Array.from({ length: 20 }, () => tenant.post('/custom-domains', { domain })))
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
    for (const answer of answers) if (answer.status !== 201) expectError(answer, 409, 'already_exists')
    expect((await tenant.get('/custom-domains')).body.total).toBe(1)
  })

  test('a tenant may have so many domains and no more', async () => {
    const tenant = await newTenant()
    await stage.service.sql(
      `insert into custom_domains (tenant_id, id, app_id, domain, status, token, created_at, updated_at)
       select $1, 'dom_' || n, $2, 'd' || n || '.example.com', 'pending', 'x', now(), now() from generate_series(1, 1000) n`,
      [tenant.tenantId, tenant.appId],
    )
    const answer = await tenant.post('/custom-domains', { domain: newDomainName() })
    expectError(answer, 409, 'domain_limit_reached')
    expect(answer.body.details[0].limit).toBe(1_000)
    expect((await tenant.delete('/custom-domains?domain=d1.example.com')).status).toBe(200)
    expect((await tenant.post('/custom-domains', { domain: newDomainName() })).status).toBe(201)
  })

  test('the app is the one that is named, else the default one, and a bound key’s own', async () => {
    const tenant = await newTenant()
    const other = (await tenant.post('/apps', { name: 'Other' })).body.data.id
    const bound = { key: await tenant.newKey({ scopes: ['custom_domains:write'], appId: other }) }
    const appIdOf = async (body: object, options = {}) =>
      (await tenant.post('/custom-domains', { domain: newDomainName(), ...body }, options)).body.data?.appId
    expect(await appIdOf({})).toBe(tenant.appId)
    expect(await appIdOf({ appId: other })).toBe(other)
    expect(await appIdOf({}, bound)).toBe(other)
    const foreign = (await newTenant()).appId
    for (const [appId, options] of [
      [newId('app'), {}],
      ['x', {}],
      [foreign, {}],
      [tenant.appId, bound],
    ] as const) {
      const answer = await tenant.post('/custom-domains', { domain: newDomainName(), appId }, options)
      expectError(answer, 404, 'not_found', appId)
      expect(answer.body.details[0].field).toBe('appId')
    }
  })

  test('a name that another tenant has verified is refused; one that is only pending there is not', async () => {
    const [first, second] = [await newTenant(), await newTenant()]
    const pending = await registered(first)
    await registered(second, { domain: pending.domain })
    const theirs = await verified(stage, first)
    expectError(await second.post('/custom-domains', { domain: theirs.domain }), 409, 'domain_taken')
    expect((await second.get('/custom-domains')).body.total).toBe(1)
  })
})

describe('reading', () => {
  test('a list shows the newest first, narrowed by status and app', async () => {
    const tenant = await newTenant()
    const other = (await tenant.post('/apps', { name: 'Other' })).body.data.id
    const [first, second] = [await verified(stage, tenant), await registered(tenant)]
    const third = await registered(tenant, { appId: other })
    const list = async (query: string, options = {}) => {
      const { body, text, status } = await tenant.get(`/custom-domains${query}`, options)
      expect(status, text).toBe(200)
      expect(body.total).toBe(body.data.length + (body.hasMore ? 1 : 0))
      return body.data.map(({ id }: Registered) => id)
    }
    expect(await list('')).toEqual([third.id, second.id, first.id])
    expect(await list('?page_size=2')).toEqual([third.id, second.id])
    expect(await list('?status=verified')).toEqual([first.id])
    expect(await list('?status=pending')).toEqual([third.id, second.id])
    expect(await list('?status=failed')).toEqual([])
    expect(await list(`?app_id=${other}`)).toEqual([third.id])
    const bound = { key: await tenant.newKey({ scopes: ['custom_domains:read'], appId: other }) }
    expect(await list('', bound)).toEqual([third.id])
    expectError(await tenant.get(`/custom-domains?app_id=${tenant.appId}`, bound), 404, 'not_found')
    expectRefusal(await tenant.get('/custom-domains?status=lost'), 'validation_failed')
  })
})

describe('whose it is', () => {
  test('another tenant’s and another app’s domain is as good as none: not read, verified or removed', async () => {
    const [tenant, stranger] = [await newTenant(), await newTenant()]
    const other = (await tenant.post('/apps', { name: 'Other' })).body.data.id
    const made = await registered(tenant)
    stage.dns.set(made.record, [{ type: 'TXT', text: made.token }])
    const bound = await tenant.newKey({ scopes: ['*'], appId: other })
    const none = { domain: newDomainName() }
    const reference = await verify(tenant, none)
    expectError(reference, 404, 'not_found')
    expect(reference.body.details[0].field).toBe('domain')
    for (const key of [stranger.key, bound]) {
      expect((await verify(tenant, made, { key })).text).toBe(reference.text)
      expect((await tenant.delete(`/custom-domains?domain=${made.domain}`, { key })).text).toBe(reference.text)
      expectError(await tenant.get(`/custom-domains/${made.id}`, { key }), 404, 'not_found')
    }
    expect((await stateOf(tenant, made)).status).toBe('pending')
    expect(stage.dns.questions.some(({ name }) => name === made.record)).toBe(false)
  })

  test('another tenant’s token proves nothing', async () => {
    const [mine, theirs] = [await newTenant(), await newTenant()]
    const made = await registered(mine)
    const same = await registered(theirs, { domain: made.domain })
    expect(same.token).not.toBe(made.token)
    stage.dns.set(made.record, [{ type: 'TXT', text: same.token }])
    expectRefusal(await verify(mine, made), 'dns_record_missing')
    expect((await verify(theirs, same)).status).toBe(200)
  })

  test('of two tenants that prove a domain at once one has it, and the other is told so', async () => {
    const tenants = await Promise.all(Array.from({ length: 5 }, newTenant))
    const domain = newDomainName()
    const made = await Promise.all(tenants.map((tenant) => registered(tenant, { domain })))
    stage.dns.set(
      `_halfkey.${domain}`,
      made.map(({ token }) => ({ type: 'TXT', text: token })),
    )
    const answers = await Promise.all(
      tenants.flatMap((tenant) => Array.from({ length: 5 }, () => verify(tenant, { domain }))),
    )
    const winners = tenants.filter((_, index) => answers[index * 5]?.status === 200)
    expect(winners).toHaveLength(1)
    for (const [index, tenant] of tenants.entries()) {
      const own = answers.slice(index * 5, index * 5 + 5)
      if (tenant === winners[0]) {
        expect(own.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
        expect(await events(tenant)).toHaveLength(1)
        continue
      }
      for (const answer of own) expectError(answer, 409, 'domain_taken')
      expect(await stateOf(tenant, made[index] as Registered)).toMatchObject({
        status: 'pending',
        error: 'domain_taken',
      })
      expect(await events(tenant)).toEqual([])
    }
  })

  test('a domain that was removed can be another tenant’s', async () => {
    const [first, second] = [await newTenant(), await newTenant()]
    const made = await verified(stage, first)
    expect((await first.delete(`/custom-domains?domain=${made.domain}`)).status).toBe(200)
    await verified(stage, second, { domain: made.domain })
  })
})

describe('removing', () => {
  test('answers the final state, tells of it once, and leaves nothing', async () => {
    const tenant = await newTenant()
    const made = await verified(stage, tenant)
    const answer = await tenant.delete('/custom-domains', { body: { domain: `${made.domain.toUpperCase()}.` } })
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body.data).toMatchObject({ id: made.id, domain: made.domain, status: 'verified' })
    expectError(await tenant.delete(`/custom-domains?domain=${made.domain}`), 404, 'not_found')
    expectError(await tenant.get(`/custom-domains/${made.id}`), 404, 'not_found')
    const data = { domainId: made.id, domain: made.domain }
    expect(await events(tenant)).toEqual([
      ['custom_domain.verified', data],
      ['custom_domain.removed', data],
    ])
  })

  test('takes the name from the query or the body, or the same from both', async () => {
    const tenant = await newTenant()
    const [one, two] = [await registered(tenant), await registered(tenant)]
    const remove = (query: string, body?: object) =>
      tenant.delete(`/custom-domains${query}`, body === undefined ? {} : { body })
    for (const answer of [await remove(''), await remove('', {})])
      expect(expectRefusal(answer, 'validation_failed')).toEqual([
        expect.objectContaining({ field: 'domain', code: 'required' }),
      ])
    const both = await remove(`?domain=${one.domain}`, { domain: two.domain })
    expect(expectRefusal(both, 'validation_failed')[0]).toMatchObject({ field: 'domain', code: 'ambiguous' })
    expect(expectRefusal(await remove('?domain=https://x.example'), 'validation_failed')[0].field).toBe('domain')
    expect((await tenant.get('/custom-domains')).body.total).toBe(2)
    expect((await remove(`?domain=${one.domain}`, { domain: one.domain.toUpperCase() })).status).toBe(200)
  })

  test('of 20 removals at once one succeeds', async () => {
    const tenant = await newTenant()
    const made = await registered(tenant)
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => tenant.delete(`/custom-domains?domain=${made.domain}`)),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array.from({ length: 19 }, () => 404)])
    expect(await events(tenant)).toHaveLength(1)
  })

  test('registered again, it needs a new record', async () => {
    const tenant = await newTenant()
    const before = await verified(stage, tenant)
    await tenant.delete(`/custom-domains?domain=${before.domain}`)
    const after = await registered(tenant, { domain: before.domain })
    expect([after.id, after.token]).not.toEqual([before.id, before.token])
    const [detail] = expectRefusal(await verify(tenant, after), 'dns_record_missing')
    expect([detail.expected, detail.observed]).toEqual([after.token, [before.token]])
    stage.dns.set(after.record, [{ type: 'TXT', text: after.token }])
    expect((await verify(tenant, after)).status).toBe(200)
  })

  test('its app takes a domain along', async () => {
    const tenant = await newTenant()
    const app = (await tenant.post('/apps', { name: 'Other' })).body.data.id
    const made = await verified(stage, tenant, { appId: app })
    expect((await tenant.delete(`/apps/${app}`)).status).toBe(200)
    expectError(await tenant.get(`/custom-domains/${made.id}`), 404, 'not_found')
    await verified(stage, await newTenant(), { domain: made.domain })
  })
})

test('a target that is no host name is refused at the start, and what is one is kept as domains are', () => {
  for (const target of ['https://edge.example.com', 'edge.example.com/', 'edge.example.com:443', '203.0.113.7', 'a b'])
    expect(() => loadConfig({ HALFKEY_DOMAIN_TARGET: target }), target).toThrow(/HALFKEY_DOMAIN_TARGET must be/)
  expect(loadConfig({ HALFKEY_DOMAIN_TARGET: 'Edge.Example.com.' }).domainTarget).toBe('edge.example.com')
})
