import type { RequestListener } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { call, type Service, startService } from '../../../test/harness/harness.ts'
import { expectStatus } from '../delegated.fixture.ts'
import {
  authorize,
  begin,
  type Clients,
  details,
  page,
  parameters,
  REDIRECT,
  request,
  type Scene,
  startClients,
  token,
} from './connect.fixture.ts'

let service: Service
let clients: Clients
let all: Scene
beforeAll(async () => {
  ;[service, clients] = await Promise.all([startService({ HALFKEY_ROLE: 'api' }), startClients()])
  all = await begin(service, clients)
})
afterAll(async () => {
  clients.stop()
  await service.stop()
})

/** Nobody is sent anywhere, and the page may not be framed. */
async function expectRefused(change: Record<string, string | null>, words: string | RegExp): Promise<void> {
  const answer = await authorize(all, change)
  expect(answer.status, answer.text).toBe(400)
  expect(answer.text).toMatch(words)
  expect(answer.headers.get('location')).toBeNull()
  expect(answer.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
}

describe('a request is refused on a page of our own, without a redirect,', () => {
  const policy = () => details(all)[0]?.policy
  const wrong: [string, Record<string, string | null>, RegExp][] = [
    ['for tokens without a code', { response_type: 'token' }, /response_type/],
    ['without PKCE', { code_challenge: null }, /code_challenge/],
    ['with plain PKCE', { code_challenge_method: 'plain' }, /S256/],
    ['without a method, which would be plain', { code_challenge_method: null }, /S256/],
    ['without a resource', { resource: null }, /resource/],
    ['for another resource', { resource: 'https://other.example.com/mcp' }, /resource/],
    ['without a client', { client_id: null }, /client_id/],
    ['without a redirect', { redirect_uri: null }, /redirect_uri/],
    ['to a redirect with a fragment', { redirect_uri: `${REDIRECT}#x` }, /redirect_uri/],
    ['to a page that runs a script', { redirect_uri: 'javascript:alert(1)' }, /redirect_uri/],
    ['to http', { redirect_uri: 'http://agent.example.com/callback' }, /redirect_uri/],
    ['to a redirect that the client does not name', { redirect_uri: 'https://agent.example.com/' }, /redirect_uri/],
    ['to one that looks like loopback', { redirect_uri: 'http://localhost:1@evil.example/' }, /redirect_uri/],
    ['with a huge state', { state: 'x'.repeat(2_001) }, /state/],
    ['with a state that has characters outside of ASCII', { state: 'é' }, /state/],
    ['with a NUL', { state: '\0' }, /NUL/],
    ['with a NUL in a parameter that means nothing', { whatever: 'a\0' }, /NUL/],
    ['with a signed request object', { request: 'x' }, /request/],
    ['with an answer in a fragment', { response_mode: 'fragment' }, /response_mode/],
    ['with details that are no JSON', { authorization_details: '{' }, /authorization_details/],
    ['with details of another type', { authorization_details: '[{"type":"payment"}]' }, /authorization_details/],
    ['with no details in the list', { authorization_details: '[]' }, /authorization_details/],
  ]
  test.each(wrong)('%s', (_, change, words) => expectRefused(change, words))

  test('with a policy that no session can have', async () => {
    const broken = [
      details(all, '10', { policy: { allow: [] } }),
      details(all, '10', { policy: { ...policy(), spend: [{ asset: { issuer: 'x', symbol: 'y' }, amount: '1' }] } }),
      details(all, '1e3'),
      details(all, '10', { expiresInSeconds: 31 * 86_400 }),
      details(all, '10', { serverExecute: true }),
      [...details(all), ...details(all)],
    ]
    for (const one of broken)
      await expectRefused({ authorization_details: JSON.stringify(one) }, /authorization_details/)
  })

  test('with a parameter that is there twice', async () => {
    const query = `${parameters(all)}&redirect_uri=${encodeURIComponent('https://evil.example/')}`
    const answer = await call(service.url, 'GET', `/oauth/${all.tenant.appId}/authorize?${query}`)
    expect([answer.status, /twice/.test(answer.text)]).toEqual([400, true])
  })
})

const sent =
  (type: string, body: string): RequestListener =>
  (_, response) =>
    response.writeHead(200, { 'content-type': type }).end(body)

describe("a client's metadata", () => {
  const refused: [string, () => string, RegExp][] = [
    ['names another client', () => clients.publish({ client_id: 'https://other.example.com/c' }), /another client_id/],
    [
      'names another redirect',
      () => clients.publish({ redirect_uris: ['https://other.example.com/'] }),
      /redirect_uri/,
    ],
    ['has no redirect', () => clients.publish({ redirect_uris: [] }), /redirect_uris/],
    ['has redirects that are no texts', () => clients.publish({ redirect_uris: [{}] }), /not text/],
    ['asks for a secret', () => clients.publish({ token_endpoint_auth_method: 'client_secret_basic' }), /secret/],
    ['is huge', () => clients.publish({ padding: 'x'.repeat(20_000) }), /bytes/],
    ['is not JSON', () => clients.answer(sent('application/json', '<html>')), /not JSON/],
    ['is no object', () => clients.answer(sent('application/cid+json; charset=utf-8', 'null')), /JSON object/],
    ['is another kind of file', () => clients.answer(sent('text/html', 'null')), /not served as JSON/],
    [
      'is behind a redirect',
      () => clients.answer((_, response) => response.writeHead(302, { location: all.clientId }).end()),
      /could not be read/,
    ],
    ['is not there', () => clients.answer((_, response) => response.writeHead(404).end()), /could not be read/],
  ]
  test.each(refused)('that %s lets nobody connect', (_, client, words) => expectRefused({ client_id: client() }, words))

  test.each([
    'shop',
    'http://agent.example.com/client.json',
    'https://agent.example.com',
    'https://agent.example.com/',
    'https://agent.example.com/a/../client.json',
    'https://agent.example.com/client.json#x',
    'https://agent.example.com/client.json?x',
    'https://user@agent.example.com/client.json',
    'https://169.254.169.254/latest/meta-data',
    'https://10.0.0.1/client.json',
  ])('is not looked for at %s', (clientId) => expectRefused({ client_id: clientId }, /client_id/))

  test('that cannot be read says nothing of what is at its address', async () => {
    const page = async (client_id: string) => {
      const { status, text } = await authorize(all, { client_id })
      expect(status).toBe(400)
      return text.slice(text.indexOf('client_id'), text.indexOf('could not be read') + 30)
    }
    const broken = clients.answer((_, response) => response.destroy())
    const texts = await Promise.all(
      ['https://127.0.0.1:1/c', 'https://10.0.0.1/c', 'https://nobody.invalid/c', broken].map(page),
    )
    expect(new Set(texts).size).toBe(1)
    expect(service.logs()).toContain(broken)
  })

  test('is not looked for at a host that is too long to be shown whole', () =>
    expectRefused({ client_id: `https://${'a'.repeat(60)}.${'b'.repeat(60)}.example.com/c` }, /host has more than 100/))

  test('is read once for a while, however many ask at once', async () => {
    const clientId = clients.publish()
    await Promise.all(Array.from({ length: 5 }, () => request(all, { client_id: clientId })))
    expect(clients.asked(clientId)).toBe(1)
  })

  test('cannot make its name look like something else', async () => {
    const clientId = clients.publish({ client_name: `Pay‮Pal\u0000\n  ${'x'.repeat(200)}` })
    const { client } = expectStatus(await page(all, 'GET', await request(all, { client_id: clientId })), 200)
    expect(client.name).toBe(`PayPal ${'x'.repeat(73)}`)
    const nameless = clients.publish({ client_name: { evil: true } })
    const asked = expectStatus(await page(all, 'GET', await request(all, { client_id: nameless })), 200)
    expect(asked.client.name).toBeNull()
  })
})

describe('a redirect to loopback', () => {
  const named = 'http://127.0.0.1/callback'
  test('may have any port, and nothing else that differs (RFC 8252, section 7.3)', async () => {
    const clientId = clients.publish({ redirect_uris: [named] })
    const ask = (redirect_uri: string) => authorize(all, { client_id: clientId, redirect_uri })
    for (const uri of [named, 'http://127.0.0.1:5051/callback', 'http://127.0.0.1:65535/callback'])
      expect((await ask(uri)).status, uri).toBe(302)
    for (const uri of [
      'http://127.0.0.1:5051/other',
      'http://127.0.0.1:5051/callback?x=1',
      'http://localhost:5051/callback',
      'http://[::1]:5051/callback',
      'http://127.0.0.2:5051/callback',
      'https://127.0.0.1:5051/callback',
      'http://127.0.0.1:99999/callback',
    ])
      expect((await ask(uri)).status, uri).toBe(400)
  })
})

describe('the token endpoint', () => {
  test('takes a form from a public client, and says what is wrong as OAuth does', async () => {
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    const post = (raw: string, headers: Record<string, string> = form) =>
      call(service.url, 'POST', `/oauth/${all.tenant.appId}/token`, { raw, headers })
    const wrong: [string, Record<string, string> | undefined, string][] = [
      ['{}', { 'content-type': 'application/json' }, 'invalid_request'],
      ['', form, 'invalid_request'],
      ['client_id=x', form, 'unsupported_grant_type'],
      ['grant_type=password&client_id=x', form, 'unsupported_grant_type'],
      ['grant_type=__proto__&client_id=x', form, 'unsupported_grant_type'],
      ['grant_type=refresh_token', form, 'invalid_request'],
      ['grant_type=refresh_token&grant_type=refresh_token', form, 'invalid_request'],
      ['grant_type=refresh_token&client_id=x&client_secret=y', form, 'invalid_client'],
      ['grant_type=refresh_token&client_id=x', { ...form, authorization: 'Basic eDp5' }, 'invalid_client'],
      ['grant_type=authorization_code&client_id=x&code=agc_x', form, 'invalid_request'],
      ['grant_type=refresh_token&client_id=x&refresh_token=agr_x', form, 'invalid_grant'],
      [`grant_type=refresh_token&client_id=${'x'.repeat(20_000)}`, form, 'invalid_request'],
    ]
    for (const [raw, headers, error] of wrong) {
      const answer = await post(raw, headers)
      expect([raw.slice(0, 60), answer.status, answer.body.error]).toEqual([raw.slice(0, 60), 400, error])
      expect(answer.headers.get('cache-control')).toBe('no-store')
    }
  })

  test('does not take a session token, or a token of another kind', async () => {
    const given = { grant_type: 'refresh_token', client_id: all.clientId }
    for (const refresh_token of ['dst_x', all.ada.person.refreshToken, `agc_${'x'.repeat(49)}`])
      expect((await token(all, { ...given, refresh_token })).body.error).toBe('invalid_grant')
  })
})

test('calls to the /mcp of an app are limited before their token is looked up', async () => {
  const limited = await startService({
    HALFKEY_ROLE: 'api',
    HALFKEY_RATE_LIMITS: 'on',
    HALFKEY_RATE_LIMIT_SECRET: '1/5',
  })
  try {
    const statuses: number[] = []
    for (let n = 0; n < 8; n += 1) {
      const headers = { authorization: `Bearer aga_${'x'.repeat(49)}` }
      const path = '/mcp/app_01jb2m7x9kq4t8v6w0r3s5y1zb'
      statuses.push((await call(limited.url, 'POST', path, { body: {}, headers })).status)
    }
    expect([statuses[0], statuses.at(-1)]).toEqual([401, 429])
  } finally {
    await limited.stop()
  }
})
