import { createHash, createPublicKey, verify } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../../../test/harness/envelope.ts'
import { type Service, startService, toMidMonth } from '../../../../../test/harness/harness.ts'
import { dump } from '../../../../identity/sessions/sessions.fixture.ts'
import { canonicalJson } from '../../../../platform/security/canonical-json.ts'
import { identityKey, rotateIdentityKey } from '../../../../platform/security/identity-key.ts'
import { runCli } from '../../cli.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
  toMidMonth(service)
})
afterAll(() => service.stop())

async function halfkey(...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []]
  const exitCode = await runCli(args, {
    openDeps: async () => ({ deps: service.deps, close: async () => {} }),
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
  })
  expect([exitCode, err]).toEqual([0, []])
  return out
}

/** Computed apart from the service's code, as the reference of the API describes it. */
const pinOf = (publicKey: string) =>
  `hk_pin_${createHash('sha256').update('halfkey/v1/identity-pin\0').update(Buffer.from(publicKey, 'hex')).digest('base64url')}`

function isSigned(publicKey: string, statement: object, signature: string): boolean {
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(publicKey, 'hex').toString('base64url') }
  const key = createPublicKey({ key: jwk, format: 'jwk' })
  return verify(null, Buffer.from(canonicalJson(statement)), key, Buffer.from(signature, 'hex'))
}

const configOf = async () => {
  const { signature: _, identity, ...sealing } = (await service.admin.get('/mpc/config')).body.data
  return { identity, sealing }
}

const DAY_MS = 86_400_000

describe('the identity key of an installation', () => {
  test('signs the keys to seal to, the tenant and an end at midnight in a week', async () => {
    const { identity, sealing } = await configOf()
    const { publicKey, signature, notAfter, pin, previous } = identity
    expect([pin, previous]).toEqual([pinOf(publicKey), null])
    const statement = { ...sealing, notAfter, purpose: 'halfkey/v1/mpc-config' }
    expect(sealing.tenantId).toBe(service.admin.tenantId)
    expect(isSigned(publicKey, statement, signature)).toBe(true)
    expect(isSigned(publicKey, { ...statement, tenantId: 'ten_other' }, signature)).toBe(false)
    const left = Date.parse(notAfter) - service.deps.now().getTime()
    expect([left >= 7 * DAY_MS, left <= 8 * DAY_MS, notAfter.endsWith('T00:00:00.000Z')]).toEqual([true, true, true])
  })

  test('has the pin that the start shows, and that `keys pin` prints', async () => {
    const { identity } = await configOf()
    expect(service.running.pin).toBe(identity.pin)
    expect(await halfkey('keys', 'pin')).toEqual([identity.pin])
    expect(JSON.parse((await halfkey('keys', 'pin', '--json'))[0] as string)).toEqual({
      pin: identity.pin,
      publicKey: identity.publicKey,
      previousPin: null,
    })
  })

  test('is one key, whoever asks first, and sealed', async () => {
    await service.sql('delete from identity_keys')
    const keys = await Promise.all(Array.from({ length: 10 }, () => identityKey(service.deps)))
    expect(new Set(keys.map(({ pin }) => pin)).size).toBe(1)
    const rows = await service.sql<{ position: number; private_key_sealed: Buffer }>('select * from identity_keys')
    expect(rows.map(({ position }) => position)).toEqual([1])
    expect(rows[0]?.private_key_sealed.length).toBeGreaterThan(100)
    expect(await dump(service)).toContain(rows[0]?.private_key_sealed.toString('hex'))
  })

  test('whose public part was changed in the database signs nothing', async () => {
    const [row] = await service.sql<{ public_key: Buffer }>('select public_key from identity_keys')
    await service.sql('update identity_keys set public_key = $1', [Buffer.alloc(32, 7)])
    expectError(await service.admin.get('/mpc/config'), 500, 'internal_error')
    await service.sql('update identity_keys set public_key = $1', [row?.public_key])
    expect((await service.admin.get('/mpc/config')).status).toBe(200)
  })
})

describe('keys rotate-identity', () => {
  test('makes a key that the old one signs, destroys the old one, and is used by running processes at once', async () => {
    const before = (await configOf()).identity
    const [pin, next] = await halfkey('keys', 'rotate-identity')
    const { identity } = await configOf()
    expect(identity.pin).toBe(pin)
    expect(next).toContain(before.pin)
    const { publicKey: from, signature } = identity.previous
    expect(from).toBe(before.publicKey)
    const statement = { from, to: identity.publicKey, purpose: 'halfkey/v1/identity-rotation' }
    expect(isSigned(from, statement, signature)).toBe(true)
    expect(await halfkey('keys', 'pin')).toEqual([pin, expect.stringContaining(before.pin)])
    const rows = await service.sql('select position, private_key_sealed is null as gone from identity_keys order by 1')
    expect(rows).toEqual([
      { position: 1, gone: true },
      { position: 2, gone: false },
    ])
  })

  test('with --compromised makes a key that no other one signed', async () => {
    const before = (await configOf()).identity
    const [pin, next] = await halfkey('keys', 'rotate-identity', '--compromised')
    const { identity } = await configOf()
    expect([identity.pin, identity.previous]).toEqual([pin, null])
    expect(identity.pin).not.toBe(before.pin)
    expect(next).toMatch(/refuse/)
    expect(await halfkey('keys', 'pin')).toEqual([pin])
  })

  test('at the same time by several processes has one winner', async () => {
    const [count] = await service.sql<{ n: number }>('select count(*)::int as n from identity_keys')
    const ends = await Promise.allSettled(
      Array.from({ length: 5 }, () => rotateIdentityKey(service.deps, { compromised: false })),
    )
    const done = ends.filter(({ status }) => status === 'fulfilled').length
    expect(done).toBeGreaterThanOrEqual(1)
    for (const end of ends)
      if (end.status === 'rejected') expect(end.reason.message).toContain('rotated by another process')
    const rows = await service.sql<{ live: boolean }>(
      'select private_key_sealed is not null as live from identity_keys order by position',
    )
    expect(rows.length).toBe((count?.n ?? 0) + done)
    expect(rows.map(({ live }) => live)).toEqual([...Array(rows.length - 1).fill(false), true])
    const { identity } = await configOf()
    expect(isSigned(identity.publicKey, {}, identity.signature)).toBe(false)
    expect(identity.previous).not.toBeNull()
  })
})
