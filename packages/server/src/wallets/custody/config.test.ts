import { compactVerify, createLocalJWKSet, type JSONWebKeySet } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { dump, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { newSplitWallet, sealedShare } from '../../keys/key-shares/key-shares.fixture.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'
import { HPKE_SUITE } from '../../platform/security/threshold/threshold.ts'

const DAY_MS = 86_400_000

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const configOf = async (tenant: Tenant) => {
  const answer = await tenant.get('/mpc/config')
  expect(answer.status, answer.text).toBe(200)
  return answer.body.data
}

describe('the keys to seal shares to', () => {
  test('are one and the same for whoever asks first, and name the tenant that seals are bound to', async () => {
    const tenant = await service.newTenant()
    const key = await tenant.newKey({ publishable: true })
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => tenant.get('/mpc/config', n % 2 === 0 ? { key } : {})),
    )
    for (const answer of answers) expect([answer.status, answer.text]).toEqual([200, answers[0]?.text])
    const [first] = answers as [(typeof answers)[0]]
    const { suite, tenantId, keys } = first.body.data
    expect([suite, tenantId]).toEqual([HPKE_SUITE, tenant.tenantId])
    expect(keys).toEqual([
      {
        kid: expect.stringMatching(/^[0-9a-f]{16}$/),
        publicKey: expect.stringMatching(/^[0-9a-f]{64}$/),
        notAfter: expect.stringMatching(/Z$/),
      },
    ])
    const [row] = await service.sql<{ n: number }>('select count(*)::int as n from encryption_keys')
    expect(row?.n).toBe(1)
  })

  test('are signed by a key of the service that others check access tokens by', async () => {
    const { signature, ...told } = await configOf(await service.newTenant())
    const jwks = (await (await fetch(`${service.url}/.well-known/jwks.json`)).json()) as JSONWebKeySet
    const payload = Buffer.from(canonicalJson(told)).toString('base64url')
    const { protectedHeader } = await compactVerify(signature.replace('..', `.${payload}.`), createLocalJWKSet(jwks))
    expect(protectedHeader).toMatchObject({ alg: 'EdDSA', typ: 'halfkey-mpc-config' })
    const other = Buffer.from(canonicalJson({ ...told, tenantId: 'ten_other' })).toString('base64url')
    await expect(compactVerify(signature.replace('..', `.${other}.`), createLocalJWKSet(jwks))).rejects.toThrow(
      'signature',
    )
  })

  test('are private keys nowhere in clear', async () => {
    await configOf(await service.newTenant())
    const [row] = await service.sql<{ private_key_sealed: Buffer }>('select private_key_sealed from encryption_keys')
    // Sealed: longer than the 32 bytes by the wrapped key and what opens it.
    expect(row?.private_key_sealed.length).toBeGreaterThan(100)
    expect(await dump(service)).toContain(row?.private_key_sealed.toString('hex') as string)
  })

  // Last, for it moves the clock.
  test('change in time: a new one comes first at 60 days, the old one opens until 90, and nothing after', async () => {
    const tenant = await service.newTenant()
    const [first] = (await configOf(tenant)).keys
    const split = await newSplitWallet(service, tenant)
    const body = await sealedShare(split, 1)
    expect(body.sealed.kid).toBe(first.kid)
    service.advance(61 * DAY_MS)
    const keys = (await configOf(tenant)).keys
    expect(keys).toHaveLength(2)
    expect(keys[1]).toEqual(first)
    const later = await signInAs(service, tenant, { userId: split.person.userId })
    expect((await later.post('/mpc/shares', body)).status).toBe(201)
    service.advance(30 * DAY_MS)
    expect((await configOf(tenant)).keys.map(({ kid }: { kid: string }) => kid)).toEqual([keys[0].kid])
    const last = await signInAs(service, tenant, { userId: split.person.userId })
    expectError(await last.post('/mpc/shares', body), 400, 'validation_failed', 'sealed.kid')
  })
})
