import { createHmac, createPublicKey, type JsonWebKey } from 'node:crypto'
import { exportSPKI, generateKeyPair, type JWK } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import {
  AUDIENCE,
  exchange,
  exchangeBody,
  newSubject,
  refusalOf,
  startIssuer,
  type TestIssuer,
  trust,
} from './issuer.fixture.ts'

let service: Service
let tenant: Tenant
let issuer: TestIssuer

beforeAll(async () => {
  service = await startService()
  tenant = await service.newTenant()
  issuer = await startIssuer(service, 'RS256')
  await trust(tenant, issuer, { algorithms: ['RS256', 'ES256'] })
})
afterAll(async () => {
  await issuer.close()
  await service.stop()
})

const seconds = (delta = 0) => Math.floor(service.deps.now().getTime() / 1000) + delta
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const goodClaims = () => ({ iss: issuer.url, aud: AUDIENCE, sub: newSubject(), iat: seconds(), exp: seconds(300) })
const kidOf = () => issuer.keys[0]?.kid as string

/** A token put together by hand, with any header, signed by `signer` over its first two parts. */
function compose(header: object, claims: unknown, signer: (signed: string) => string = () => ''): string {
  const signed = `${encode(header)}.${encode(claims)}`
  return `${signed}.${signer(signed)}`
}

/** Why a token is refused; nobody may have been created by it. */
async function refused(token: string, body: object = {}): Promise<string> {
  const before = await service.sql('select id from users')
  const answer = await tenant.post('/auth/token/exchange', exchangeBody(token, body))
  expect(answer.status, answer.text).not.toBe(200)
  expect((await service.sql('select id from users')).length).toBe(before.length)
  return refusalOf(answer)
}

test('the token that the others are made of is good', async () => {
  expect((await exchange(service, tenant, await issuer.token())).status).toBe(200)
})

describe('the signature', () => {
  test('must be there: alg none is no algorithm, in any spelling', async () => {
    for (const alg of ['none', 'None', 'NONE', 'nOnE', '', 'null']) {
      for (const kid of [kidOf(), undefined])
        expect(await refused(compose({ alg, kid, typ: 'JWT' }, goodClaims())), alg).toBe('token_algorithm')
    }
    expect(await refused(compose({ alg: 'RS256', kid: kidOf() }, goodClaims()))).toBe('token_signature')
  })

  test('cannot be an HMAC by what is public: the key as PEM, as JWK or as its parts', async () => {
    const jwk = issuer.keys[0] as JWK
    const key = createPublicKey({ key: jwk as JsonWebKey, format: 'jwk' })
    const secrets = [await exportSPKI(key), (await exportSPKI(key)).trim(), JSON.stringify(jwk), jwk.n as string, '']
    for (const alg of ['HS256', 'HS384', 'HS512', 'RS256'])
      for (const secret of secrets) {
        const hash = alg === 'RS256' ? 'sha256' : `sha${alg.slice(2)}`
        const signer = (signed: string) => createHmac(hash, secret).update(signed).digest('base64url')
        const reason = alg === 'RS256' ? 'token_signature' : 'token_algorithm'
        expect(await refused(compose({ alg, kid: kidOf(), typ: 'JWT' }, goodClaims(), signer)), alg).toBe(reason)
      }
  })

  test('counts for the very bytes that came', async () => {
    const [header, payload, signature] = (await issuer.token()).split('.') as [string, string, string]
    const other = encode({ ...JSON.parse(Buffer.from(payload, 'base64url').toString()), sub: 'admin' })
    const flipped = Buffer.from(signature, 'base64url')
    flipped[0] = (flipped[0] as number) ^ 1
    expect(await refused(`${header}.${other}.${signature}`)).toBe('token_signature')
    expect(await refused(`${header}.${payload}.${flipped.toString('base64url')}`)).toBe('token_signature')
    expect(await refused(`${header}.${payload}.`)).toBe('token_signature')
    for (const token of [
      `${header}.${payload}`,
      `${header}.${payload}.${signature}.x`,
      `${header}..${signature}`,
      'x',
      '..',
      '{}',
    ])
      expect(await refused(token), token.slice(0, 20)).toBe('token_malformed')
  })

  test('by an algorithm that the issuer’s record does not name is refused, though the key could make it', async () => {
    const other = await startIssuer(service, 'PS256')
    await trust(tenant, other, { algorithms: ['RS256'] })
    expect(await refused(await other.token())).toBe('token_algorithm')
    // A key is for the one algorithm that its publisher says.
    const mixed = await startIssuer(service, 'RS256')
    await trust(tenant, mixed, { algorithms: ['RS256', 'PS256'] })
    ;(mixed.keys[0] as JWK).alg = 'PS256'
    expect(await refused(await mixed.token())).toBe('token_key')
    await other.close()
    await mixed.close()
  })
})

describe('the header', () => {
  test('brings no key and says nothing of where one is', async () => {
    const mine = await generateKeyPair('RS256', { extractable: true })
    const attacker = await startIssuer(service, 'RS256')
    const jwk = attacker.keys[0] as JWK
    const at = `${attacker.url}/jwks.json`
    for (const member of [{ jwk }, { jku: at }, { x5u: at }, { x5c: ['MIIB'] }]) {
      const header = { ...member, kid: jwk.kid as string }
      expect(await refused(await attacker.token({ claims: { iss: issuer.url }, header }))).toBe('token_malformed')
      expect(await refused(await issuer.token({ header: member, key: mine.privateKey }))).toBe('token_malformed')
    }
    expect(attacker.requests).toEqual([])
    await attacker.close()
  })

  test('demands nothing that is not understood', async () => {
    // Composed by hand: no library signs these.
    const [, payload, signature] = (await issuer.token()).split('.') as [string, string, string]
    for (const more of [
      { crit: ['exp'] },
      { crit: [] },
      { b64: false, crit: ['b64'] },
      { zip: 'DEF' },
      { b64: true },
    ]) {
      const header = encode({ alg: 'RS256', kid: kidOf(), ...more })
      expect(await refused(`${header}.${payload}.${signature}`)).toBe('token_malformed')
    }
  })

  test('names a key, which is never a path, a query or an object', async () => {
    const mine = await generateKeyPair('RS256', { extractable: true })
    const names = [
      '../../../../dev/null',
      '/etc/passwd',
      "' or 1=1 --",
      'http://127.0.0.1/',
      '',
      '__proto__',
      '\u0000',
      '*',
    ]
    for (const kid of names) {
      expect(await refused(await issuer.token({ header: { kid }, key: mine.privateKey })), kid).toBe('token_key')
    }
    for (const kid of [7, null, {}, ['a'], 'x'.repeat(513)])
      expect(await refused(compose({ alg: 'RS256', kid }, goodClaims()))).toBe('token_malformed')
    for (const header of [{ alg: 7 }, { alg: ['RS256'] }, {}, 7, null, [], 'x'])
      expect(await refused(compose(header as object, goodClaims()))).toBe('token_malformed')
  })

  test('says that the token is one for signing in: other kinds are refused, of whichever use', async () => {
    for (const typ of ['logout+jwt', 'dpop+jwt', 'secevent+jwt', 'JWE', 'application/logout+jwt', 'x', '__proto__'])
      expect(await refused(await issuer.token({ header: { typ } })), typ).toBe('token_type')
    for (const typ of ['JWT', 'jwt', 'at+jwt', 'application/at+jwt'])
      expect((await exchange(service, tenant, await issuer.token({ header: { typ } }))).status, typ).toBe(200)
    const idToken = { subject_token_type: 'urn:ietf:params:oauth:token-type:id_token' }
    expect(await refused(await issuer.token({ header: { typ: 'at+jwt' } }), idToken)).toBe('token_type')
    const backChannel = { events: { 'http://schemas.openid.net/event/backchannel-logout': {} } }
    expect(await refused(await issuer.token({ claims: backChannel }))).toBe('token_type')
    const bound = { cnf: { jkt: '0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I' } }
    expect(await refused(await issuer.token({ claims: bound }))).toBe('token_type')
  })
})

describe('the claims', () => {
  test('name the issuer to the letter, and one of the app’s audiences', async () => {
    for (const iss of [`${issuer.url}/`, issuer.url.toUpperCase(), issuer.url.slice(0, -1), undefined, [issuer.url], 7])
      expect(await refused(await issuer.token({ claims: { iss } })), String(iss)).toBe('token_issuer')
    for (const aud of ['other', [], ['other'], `${AUDIENCE} `, AUDIENCE.toUpperCase(), undefined, '', 7, {}])
      expect(await refused(await issuer.token({ claims: { aud } })), String(aud)).toBe('token_audience')
    const several = await issuer.token({ claims: { aud: ['other', AUDIENCE] } })
    expect((await exchange(service, tenant, several)).status).toBe(200)
  })

  test('give the time in which it is accepted, with half a minute for clocks that differ', async () => {
    const times: [Record<string, unknown>, string][] = [
      [{ exp: seconds(-31) }, 'token_expired'],
      [{ iat: seconds(-3_700), exp: seconds(300) }, 'token_expired'],
      [{ nbf: seconds(40) }, 'token_not_yet_valid'],
      [{ iat: seconds(40) }, 'token_not_yet_valid'],
      [{ iat: seconds(86_400 * 365) }, 'token_not_yet_valid'],
      [{ exp: undefined }, 'token_claims'],
      [{ iat: undefined }, 'token_claims'],
      [{ exp: String(seconds(300)) }, 'token_claims'],
      [{ iat: String(seconds()) }, 'token_claims'],
      [{ nbf: {} }, 'token_claims'],
    ]
    for (const [claims, reason] of times)
      expect(await refused(await issuer.token({ claims })), JSON.stringify(claims)).toBe(reason)
    for (const claims of [{ exp: seconds(-20) }, { nbf: seconds(20) }, { iat: seconds(20) }, { exp: 1e300 }])
      expect((await exchange(service, tenant, await issuer.token({ claims }))).status, JSON.stringify(claims)).toBe(200)
  })

  test('that are no object, or are JSON that means two things, sign nobody in as another', async () => {
    for (const claims of ['x', 7, null, [], [goodClaims()]])
      expect(await refused(compose({ alg: 'RS256', kid: kidOf() }, claims, () => 'c2ln'))).toBe('token_malformed')
    const deep = `${'{"a":'.repeat(3_000)}1${'}'.repeat(3_000)}`
    const signed = `${encode({ alg: 'RS256' })}.${Buffer.from(deep).toString('base64url')}.c2ln`
    expect(['token_issuer', 'token_malformed', '400 validation_failed']).toContain(await refused(signed))
  })
})
