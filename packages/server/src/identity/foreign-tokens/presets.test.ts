import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PRESETS } from '../../../../dashboard/src/pages/settings/issuers/presets.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { exchange, JWKS_PATH, refusalOf, startIssuer, type TestIssuer } from './issuer.fixture.ts'

/** The JSON of the guide's sections, in order: the settings of each product by its example. */
const guide = readFileSync(new URL('../../../../../docs/login-providers.md', import.meta.url), 'utf8')
const bodies = [...guide.matchAll(/^```json\n([\s\S]*?)^```$/gm)].map(([, json]) => JSON.parse(json as string))

interface Documented {
  alg: string
  header?: Record<string, unknown>
  /** As the product's public documentation shows them, without the times. */
  claims: Record<string, unknown>
  /** Of the new user. */
  user: { email: string | null; name: string | null }
}

const ADA = { email: 'ada@example.com', name: 'Ada Lovelace' }

/** A token of each product, by the preset's id. */
const TOKENS: Record<string, Documented> = {
  auth0: {
    alg: 'RS256',
    header: { typ: 'JWT' },
    claims: {
      nickname: 'ada',
      ...ADA,
      email_verified: true,
      iss: 'https://example.eu.auth0.com/',
      aud: 'mF2tk3bQ0aXc7Zp9vL4sY8nD1eR6uH5w',
      sub: 'auth0|5f7c8ec7c33c6c004bbafe82',
      sid: 'h3k2',
      nonce: 'n-0S6_WzA2Mj',
    },
    user: ADA,
  },
  clerk: {
    alg: 'RS256',
    header: { typ: 'JWT', cat: 'cl_B7d4PD222AAA' },
    claims: {
      iss: 'https://clerk.example.com',
      aud: 'halfkey',
      azp: 'https://example.com',
      ...ADA,
      email_verified: true,
      jti: '0b3a9c2a',
      sub: 'user_2NNEqL2nrIRdJ194ndJqAHwEfxC',
    },
    user: ADA,
  },
  supabase: {
    alg: 'ES256',
    header: { typ: 'JWT' },
    claims: {
      iss: 'https://abcdefghijklmnopqrst.supabase.co/auth/v1',
      aud: 'authenticated',
      sub: '123e4567-e89b-12d3-a456-426614174000',
      role: 'authenticated',
      aal: 'aal1',
      session_id: 'd0b6',
      email: 'ada@example.com',
      phone: '',
      is_anonymous: false,
      amr: [{ method: 'password', timestamp: 1_640_991_600 }],
      user_metadata: { email_verified: true, full_name: 'Ada Lovelace' },
    },
    user: { email: null, name: null },
  },
  firebase: {
    alg: 'RS256',
    header: { typ: 'JWT' },
    claims: {
      ...ADA,
      iss: 'https://securetoken.google.com/shop-1a2b3',
      aud: 'shop-1a2b3',
      user_id: 'Zt7Qm3',
      sub: 'Zt7Qm3',
      email_verified: true,
      firebase: { identities: { email: ['ada@example.com'] }, sign_in_provider: 'password' },
    },
    user: ADA,
  },
  'better-auth': {
    alg: 'EdDSA',
    claims: {
      ...ADA,
      emailVerified: true,
      image: null,
      id: 'h6Vn2',
      sub: 'h6Vn2',
      iss: 'https://shop.example.com',
      aud: 'https://shop.example.com',
    },
    user: ADA,
  },
  keycloak: {
    alg: 'RS256',
    header: { typ: 'JWT' },
    claims: {
      jti: 'a1b2c3d4-8f0f-4f2c-9d2a-4c5f1c0b7c9e',
      iss: 'https://keycloak.example.com/realms/shop',
      aud: 'shop-web',
      sub: '6c1d2b1c-8a4e-4d57-9a0a-0a3c1a2f6b77',
      typ: 'ID',
      azp: 'shop-web',
      sid: '4e1b',
      acr: '1',
      ...ADA,
      email_verified: true,
      preferred_username: 'ada',
    },
    user: ADA,
  },
}

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

test('the guide has the settings that the dashboard fills in, product by product', () => {
  const filled = PRESETS.map(({ address, audience, settings }) => settings(address.example, audience?.example ?? ''))
  expect(bodies).toEqual(filled)
  const names = PRESETS.map(({ name }) => name)
  expect([...guide.matchAll(/^## (.*)$/gm)].map(([, title]) => title)).toEqual(names)
  expect(Object.keys(TOKENS)).toEqual(PRESETS.map(({ id }) => id))
})

describe('a token as the product documents it signs in with the preset of', () => {
  test.each(PRESETS.map((preset, at) => [preset.id, bodies[at]] as const))('%s', async (id, body) => {
    const { alg, header = {}, claims, user } = TOKENS[id] as Documented
    const tenant = await service.newTenant()
    // A stand-in publishes the keys. The product's name is what its tokens say, and no address that anybody asks.
    const standIn = await startIssuer(service, alg)
    await trustPreset(tenant, standIn, body)
    const token = (more: object = {}) => standIn.token({ claims: { ...claims, ...more }, header })
    const answer = await exchange(service, tenant, await token())
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body.data.user).toMatchObject({ ...user, emailVerified: user.email !== null })
    for (const [more, reason] of [
      [{ aud: 'https://elsewhere.example.com' }, 'token_audience'],
      [{ iss: `${claims.iss as string}x` }, 'token_issuer'],
      [{ iss: (claims.iss as string).replace(/\/?$/, (end) => (end === '/' ? '' : '/')) }, 'token_issuer'],
    ] as const)
      expect(refusalOf(await exchange(service, tenant, await token(more)))).toBe(reason)
    await standIn.close()
  })
})

/** The preset, with the stand-in's addresses in the place of the product's. */
async function trustPreset(tenant: Tenant, standIn: TestIssuer, body: { discovery?: string; issuer: string }) {
  const source =
    body.discovery === undefined
      ? { jwksUri: `${standIn.url}${JWKS_PATH}` }
      : { discovery: standIn.describedAs(body.issuer) }
  const answer = await tenant.post(`/apps/${tenant.appId}/issuers`, { ...body, ...source })
  expect(answer.status, answer.text).toBe(201)
}
