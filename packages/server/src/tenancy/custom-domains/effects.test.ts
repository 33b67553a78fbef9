import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { logIn, loginOptions, loginVerify, newAuthenticator, signUp } from '../../../test/harness/authenticator.ts'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { requestText, sendBytes } from '../../../test/harness/raw-http.ts'
import { newDomainName } from '../../../test/matrix/requests.ts'
import { registered, type Stage, startStage, verified, verify } from './custom-domains.fixture.ts'

const HOUR_MS = 3_600_000
/** What another process may go on believing, and a margin for a slow machine. */
const ELSEWHERE_MS = 2_500

let stage: Stage
let other: Service
beforeAll(async () => {
  stage = await startStage({ HALFKEY_PUBLIC_URL: 'https://id.halfkey.example', HALFKEY_INSECURE_DEV: '1' })
  other = await startService({
    DATABASE_URL: stage.service.databaseUrl,
    HALFKEY_KEK_FILE: `${stage.service.dataDir}/kek.key`,
    HALFKEY_DNS_SERVERS: stage.dns.address,
    HALFKEY_PUBLIC_URL: 'https://id.halfkey.example',
    HALFKEY_INSECURE_DEV: '1',
    HALFKEY_ROLE: 'api',
  })
})
afterAll(async () => {
  await other.stop()
  await stage.stop()
})

const remove = async (tenant: Tenant, { domain }: { domain: string }) => {
  const answer = await tenant.delete(`/custom-domains?domain=${domain}`)
  expect(answer.status, answer.text).toBe(200)
}

/** Whether a page at `origin` may use the key, at either process. */
async function mayUse(key: string, origin: string, at: { url: string } = stage.service): Promise<boolean> {
  const answer = await call(at.url, 'GET', '/v1/healthz', { key, headers: { origin } })
  if (answer.status === 200) return true
  expectError(answer, 403, 'origin_not_allowed')
  return false
}

/** A tenant with an app that names no origins, its publishable key, and a domain of it. */
async function newSite() {
  const tenant = await stage.service.newTenant()
  const key = await tenant.newKey({ publishable: true })
  const made = await verified(stage, tenant)
  return { tenant, key, made, origin: `https://${made.domain}` }
}

describe('the origin of a verified domain', () => {
  test('is allowed for its app’s publishable keys from the moment it is verified, and refused when removed', async () => {
    const tenant = await stage.service.newTenant()
    const key = await tenant.newKey({ publishable: true })
    const made = await registered(tenant)
    const origin = `https://${made.domain}`
    expect(await mayUse(key, origin)).toBe(false)
    expect(await mayUse(key, origin, other)).toBe(false)
    stage.dns.set(made.record, [{ type: 'TXT', text: made.token }])
    expect((await verify(tenant, made)).status).toBe(200)
    expect(await mayUse(key, origin)).toBe(true)
    await eventually('the other process knows it', () => mayUse(key, origin, other), ELSEWHERE_MS)
    await remove(tenant, made)
    expect(await mayUse(key, origin)).toBe(false)
    await eventually('the other process knows', async () => !(await mayUse(key, origin, other)), ELSEWHERE_MS)
  })

  test('is that very one: by https, on its port, of its app and tenant', async () => {
    const { tenant, key, made, origin } = await newSite()
    for (const near of [
      `http://${made.domain}`,
      `${origin}:8443`,
      `https://sub.${made.domain}`,
      `https://x${made.domain}`,
      `${origin}.evil.example`,
      origin.toUpperCase(),
      'null',
    ])
      expect(await mayUse(key, near), near).toBe(false)
    const app = (await tenant.post('/apps', { name: 'Other' })).body.data.id
    expect(await mayUse(await tenant.newKey({ publishable: true, appId: app }), origin)).toBe(false)
    const stranger = await stage.service.newTenant()
    expect(await mayUse(await stranger.newKey({ publishable: true }), origin)).toBe(false)
    // What the app is allowed besides stays as it is: in development, loopback.
    expect(await mayUse(key, 'http://localhost:3000')).toBe(true)
  })

  test('is remembered once for all keys of an app, of which there may be many', async () => {
    const { tenant, key, origin } = await newSite()
    const keys = [
      key,
      await tenant.newKey({ publishable: true }),
      await tenant.newKey({ scopes: ['*'], appId: tenant.appId }),
    ]
    // Between two of them all may be forgotten, as it is now and then.
    await eventually('one list for all', async () => {
      const [first, ...more] = await Promise.all(keys.map((one) => stage.service.deps.auth.authenticate(one)))
      expect(first?.domainOrigins).toEqual([origin])
      return more.every((holder) => holder?.domainOrigins === first?.domainOrigins)
    })
  })

  test('is refused when the domain has failed', async () => {
    const { key, made, origin } = await newSite()
    expect(await mayUse(key, origin)).toBe(true)
    stage.dns.set(made.record, 'NXDOMAIN')
    for (const ms of [24 * HOUR_MS, 72 * HOUR_MS]) {
      stage.service.advance(ms)
      await eventually('it is looked at', async () => {
        const [row] = await stage.service.sql<{ n: number }>(
          'select 1 as n from custom_domains where id = $1 and last_checked_at > $2',
          [made.id, new Date(stage.service.deps.now().getTime() - HOUR_MS)],
        )
        return row
      })
    }
    await eventually('it has failed', async () => !(await mayUse(key, origin)))
    await eventually('the other process knows', async () => !(await mayUse(key, origin, other)), ELSEWHERE_MS)
  })

  test('is one for passkeys: made and used there, by browsers and servers, and no longer when it is removed', async () => {
    const { tenant, key, made, origin } = await newSite()
    await tenant.patch(`/apps/${tenant.appId}`, {
      passkey: { rpId: 'example.com' },
      allowedOrigins: ['https://x.example'],
    })
    const browser = { url: stage.service.url, key }
    const { authenticator, user } = await signUp(browser, {}, { origin })
    expect((await logIn(browser, authenticator, {}, { origin })).user.id).toBe(user.id)
    expect((await logIn(tenant, authenticator, {}, { origin })).user.id).toBe(user.id)
    const asked = await Promise.all([1, 2].map(() => loginOptions(tenant, {}, { origin })))
    const registering = (await tenant.post('/auth/passkey/register-options', {})).body.data
    await remove(tenant, made)
    const [first, second] = asked.map(({ challengeId, publicKey }) => ({
      challengeId,
      credential: authenticator.get(publicKey, origin),
    }))
    // By the header a browser sends, and by what the authenticator has signed.
    const refused = await loginVerify(browser, first?.challengeId, first?.credential, { origin })
    expectError(refused, 403, 'origin_not_allowed')
    expectError(await loginVerify(tenant, second?.challengeId, second?.credential), 401, 'assertion_invalid')
    const credential = newAuthenticator().create(registering.publicKey, origin)
    const { challengeId } = registering
    const attested = await tenant.post('/auth/passkey/register-verify', { challengeId, credential })
    expectError(attested, 400, 'attestation_invalid')
  })
})

describe('the hosted page', () => {
  const visit = (appId: string, headers: Record<string, string>) =>
    call(stage.service.url, 'POST', '/signin/api/auth/passkey/register-options', {
      body: {},
      headers: { 'x-halfkey-app': appId, ...headers },
    })

  test('works on a verified domain of its app, and on no other', async () => {
    const { tenant, made, origin } = await newSite()
    const site = { origin, 'sec-fetch-site': 'same-origin' }
    expect((await visit(tenant.appId, site)).status).toBe(200)
    expectError(await visit(tenant.appId, { ...site, 'sec-fetch-site': 'cross-site' }), 403, 'origin_not_allowed')
    const stranger = await stage.service.newTenant()
    expectError(await visit(stranger.appId, site), 403, 'origin_not_allowed')
    expectError(await visit('app_none', site), 403, 'origin_not_allowed')
    expectError(await visit(tenant.appId, { ...site, origin: `http://${made.domain}` }), 403, 'origin_not_allowed')
    await remove(tenant, made)
    expectError(await visit(tenant.appId, site), 403, 'origin_not_allowed')
  })

  test('shows no other app on a verified domain, as if there were none', async () => {
    const { tenant, made } = await newSite()
    const stranger = await stage.service.newTenant()
    const second = (await tenant.post('/apps', { name: 'Second' })).body.data.id
    // In development any other Host is led to the public URL's.
    const production = await startService({
      DATABASE_URL: stage.service.databaseUrl,
      HALFKEY_KEK_FILE: `${stage.service.dataDir}/kek.key`,
      HALFKEY_PUBLIC_URL: 'https://id.halfkey.example',
      HALFKEY_ENV: 'production',
      HALFKEY_RATE_LIMITS: 'on',
      HALFKEY_ROLE: 'api',
    })
    onTestFinished(() => production.stop())
    const shown = (appId: string, host: string) => getAs(production.url, host, `/signin?app=${appId}`)
    expect((await shown(tenant.appId, made.domain)).status).toBe(200)
    const none = await shown('app_none', made.domain)
    expect(none.status).toBe(404)
    for (const appId of [stranger.appId, second])
      for (const host of [made.domain, `${made.domain}:443`, made.domain.toUpperCase(), `${made.domain}.`]) {
        const answer = await shown(appId, host)
        expect([answer.status, answer.body], host).toEqual([404, none.body])
      }
    expect((await shown(stranger.appId, 'id.halfkey.example')).status).toBe(200)
    expect((await shown(stranger.appId, newDomainName())).status).toBe(200)
    await remove(tenant, made)
    expect((await shown(stranger.appId, made.domain)).status).toBe(200)
  })
})

/** A GET with a Host of the test's choice, which `fetch` does not let one choose. */
async function getAs(url: string, host: string, path: string) {
  const [answer] = await sendBytes(url, [requestText(`GET ${path}`, { host })], ({ length }) => length === 1)
  if (answer === undefined) throw new Error('no answer')
  return answer
}

describe('/.well-known/webauthn', () => {
  const origins = async (rpId: string, at: { url: string } = stage.service) =>
    JSON.parse((await getAs(at.url, rpId, '/.well-known/webauthn')).body).origins

  test('names verified domains of the apps with that relying party, at once and only as long as they are', async () => {
    const tenant = await stage.service.newTenant()
    const rpId = newDomainName()
    const allowedOrigins = ['https://shop.example.org']
    await tenant.patch(`/apps/${tenant.appId}`, { passkey: { rpId }, allowedOrigins })
    expect(await origins(rpId)).toEqual(allowedOrigins)
    expect(await origins(rpId, other)).toEqual(allowedOrigins)
    const pending = await registered(tenant)
    const made = await verified(stage, tenant)
    const both = [...allowedOrigins, `https://${made.domain}`].sort()
    expect(await origins(rpId)).toEqual(both)
    expect(await origins(rpId)).not.toContain(`https://${pending.domain}`)
    const same = async (expected: string[]) => (await origins(rpId, other)).join() === expected.join()
    await eventually('the other process knows it', () => same(both), ELSEWHERE_MS)
    await remove(tenant, made)
    expect(await origins(rpId)).toEqual(allowedOrigins)
    await eventually('the other process knows', () => same(allowedOrigins), ELSEWHERE_MS)
  })

  test('names no domain of a tenant that does not speak for the relying party', async () => {
    const [owner, stranger] = [await stage.service.newTenant(), await stage.service.newTenant()]
    const rpId = newDomainName()
    for (const tenant of [owner, stranger]) await tenant.patch(`/apps/${tenant.appId}`, { passkey: { rpId } })
    await verified(stage, stranger)
    expect(await origins(rpId)).toEqual([])
  })

  test('speaks for who has verified its host, whoever named it as a relying party before', async () => {
    const [owner, squatter] = [await stage.service.newTenant(), await stage.service.newTenant()]
    const rpId = newDomainName()
    const name = (tenant: Tenant, allowedOrigins: string[]) =>
      tenant.patch(`/apps/${tenant.appId}`, { passkey: { rpId }, allowedOrigins })
    await name(squatter, ['https://evil.example.org'])
    expect(await origins(rpId)).toEqual(['https://evil.example.org'])
    const made = await verified(stage, owner, { domain: rpId })
    expect(await origins(rpId)).toEqual([])
    await name(owner, ['https://shop.example.org'])
    expect(await origins(rpId)).toEqual([`https://${rpId}`, 'https://shop.example.org'])
    await remove(owner, made)
    expect(await origins(rpId)).toEqual(['https://evil.example.org'])
  })
})

describe('the on-demand TLS question', () => {
  const ask = (query: string, at: { url: string } = stage.service) => call(at.url, 'GET', `/tls/allowed${query}`)
  const statusOf = async (domain: string, at?: { url: string }) => (await ask(`?domain=${domain}`, at)).status

  test('is yes for verified domains and the service’s own host, no for all else, and tells no more', async () => {
    const tenant = await stage.service.newTenant()
    const pending = await registered(tenant)
    const made = await verified(stage, tenant)
    for (const domain of [made.domain, made.domain.toUpperCase(), `${made.domain}.`, 'id.halfkey.example'])
      expect(await statusOf(domain), domain).toBe(200)
    const no = await ask(`?domain=${newDomainName()}`)
    expect(no.status).toBe(404)
    for (const query of [
      `?domain=${pending.domain}`,
      `?domain=sub.${made.domain}`,
      '?domain=x.id.halfkey.example',
      '',
      '?domain=',
      '?domain=%00',
      '?domain=%zz',
      `?domain=${'a'.repeat(9_000)}`,
      "?domain='%20or%201=1",
      `?domain=${made.domain}&domain=${made.domain}`,
      `?Domain=${made.domain}`,
      '?domain=*',
      '?domain=127.0.0.1',
    ]) {
      const answer = await ask(query)
      expect([answer.status, answer.text], query).toEqual([404, no.text])
    }
  })

  test('changes at once with the domain, and within a second in another process', async () => {
    const tenant = await stage.service.newTenant()
    const made = await registered(tenant)
    stage.dns.set(made.record, [{ type: 'TXT', text: made.token }])
    for (const at of [stage.service, other]) expect(await statusOf(made.domain, at)).toBe(404)
    await verify(tenant, made)
    expect(await statusOf(made.domain)).toBe(200)
    const answers = (status: number) => async () => (await statusOf(made.domain, other)) === status
    await eventually('the other process says yes', answers(200), ELSEWHERE_MS)
    await remove(tenant, made)
    expect(await statusOf(made.domain)).toBe(404)
    await eventually('the other process says no', answers(404), ELSEWHERE_MS)
  })

  test('needs no key, and is asked by any Host of a proxy beside the service, in development too', async () => {
    const plain = await startService({ HALFKEY_DNS_SERVERS: stage.dns.address })
    try {
      const tenant = await plain.newTenant()
      const made = await verified({ dns: stage.dns }, tenant)
      for (const host of ['localhost', '127.0.0.1:8080', 'host.docker.internal:8080', made.domain])
        expect((await getAs(plain.url, host, `/tls/allowed?domain=${made.domain}`)).status, host).toBe(200)
      expect((await getAs(plain.url, made.domain, '/.well-known/webauthn')).status).toBe(400)
    } finally {
      await plain.stop()
    }
  })

  test('costs a query for each name at most, and withstands many made-up ones', async () => {
    const names = Array.from({ length: 300 }, newDomainName)
    const answers = await Promise.all([...names, ...names].map((name) => statusOf(name)))
    expect(new Set(answers)).toEqual(new Set([404]))
    const tenant = await stage.service.newTenant()
    const made = await verified(stage, tenant)
    expect(await statusOf(made.domain)).toBe(200)
  })
})
