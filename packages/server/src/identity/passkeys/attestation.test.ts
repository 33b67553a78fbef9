import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ORIGIN } from '../../../test/harness/authenticator.ts'
import { expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { BE, BS, cbor, type Forger, forgeCreation, type Lies, newForger, UP, UV } from './forged.fixture.ts'
import { bearer, newTestApp } from './test-app.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

describe('an attestation is refused, in the same words whatever is wrong with it:', () => {
  const withKey = (by: Forger, change: Record<number, number | Uint8Array | undefined>) => {
    const cose = new Map(by.cose)
    for (const [label, value] of Object.entries(change))
      if (value === undefined) cose.delete(Number(label))
      else cose.set(Number(label), value)
    return cose
  }
  const es256 = newForger()
  const rs256 = newForger('RS256')
  const eddsa = newForger('EdDSA')
  const none = (authData: Uint8Array) =>
    cbor(
      new Map<string, never>([
        ['fmt', 'none'],
        ['attStmt', new Map()],
        ['authData', authData],
      ] as never),
    )
  const lies: Record<string, [Lies, Forger?]> = {
    'another challenge': [{ challenge: randomBytes(32).toString('base64url') }],
    'the type of a login': [{ type: 'webauthn.get' }],
    'another origin': [{ origin: 'https://evil.example' }],
    'another port than the challenge’s': [{ origin: 'http://localhost:3001' }],
    'an origin that begins like the right one': [{ origin: `${ORIGIN}.evil.example` }],
    'an origin that is none': [{ clientData: { origin: null } }],
    'a frame of another site': [{ clientData: { crossOrigin: true } }],
    'a frame of another site that is named': [{ clientData: { topOrigin: 'https://evil.example' } }],
    'the hash of another relying party': [{ rpId: 'evil.example' }],
    'no user presence': [{ flags: UV }],
    'no user verification': [{ flags: UP }],
    'a backup of what cannot be backed up': [{ flags: UP | UV | BS }],
    'an id that is not the attested one': [{ attestedId: randomBytes(32) }],
    'a rawId that is not the id': [{ rawId: randomBytes(32) }],
    'an algorithm that was not offered (ES384)': [{ cose: withKey(es256, { 3: -35 }) }],
    'an algorithm that was not offered (ES256K)': [{ cose: withKey(es256, { 3: -47, [-1]: 8 }) }],
    'an algorithm that was not offered (RS1)': [{ cose: withKey(rs256, { 3: -65535 }) }, rs256],
    'no algorithm': [{ cose: withKey(es256, { 3: undefined }) }],
    'a key without its y': [{ cose: withKey(es256, { [-3]: undefined }) }],
    'a point that is not on the curve': [{ cose: withKey(es256, { [-3]: new Uint8Array(32).fill(1) }) }],
    'another curve than the algorithm’s': [{ cose: withKey(es256, { [-1]: 2 }) }],
    'a key of another kind than its algorithm': [{ cose: withKey(eddsa, { 3: -7 }) }, eddsa],
    'an RSA modulus of 1024 bits': [{ cose: withKey(rs256, { [-1]: new Uint8Array(128).fill(0xab) }) }, rs256],
    'an RSA modulus that would take long': [{ cose: withKey(rs256, { [-1]: new Uint8Array(2048).fill(0xab) }) }, rs256],
    'an RSA exponent that would take long': [{ cose: withKey(rs256, { [-2]: new Uint8Array(256).fill(0xab) }) }, rs256],
    'an unknown attestation format': [{ fmt: 'mine' }],
    'a statement where there is to be none': [{ attStmt: new Map([['sig', new Uint8Array(8)]]) }],
    'a self attestation by nobody': [
      {
        fmt: 'packed',
        attStmt: new Map<string, never>([
          ['alg', -7],
          ['sig', new Uint8Array(70)],
        ] as never),
      },
    ],
    'truncated CBOR': [{ attestationObject: Buffer.from('a363666d74646e6f6e6567617474', 'hex') }],
    'CBOR that announces 2^64 - 1 entries': [{ attestationObject: Buffer.from('bbffffffffffffffff00', 'hex') }],
    'CBOR that announces a list of 2^32 - 1': [{ attestationObject: Buffer.from('9affffffff00', 'hex') }],
    'CBOR nested 50 000 deep': [{ attestationObject: Buffer.alloc(50_000, 0x81) }],
    'no CBOR': [{ attestationObject: Buffer.from('not CBOR') }],
    'CBOR of another thing': [{ attestationObject: cbor('text') }],
    'authenticator data of no length': [{ attestationObject: none(new Uint8Array(0)) }],
    'authenticator data without a credential': [{ attestationObject: none(new Uint8Array(37).fill(5)) }],
  }

  test.each(Object.entries(lies))('%s', async (_, [lie, by]) => {
    const app = await newTestApp(service)
    const asked = await app.askToRegister()
    const credential = forgeCreation(by ?? es256, asked.publicKey, lie)
    const startedAt = performance.now()
    const answer = await app.register(asked.challengeId, credential)
    expect(performance.now() - startedAt).toBeLessThan(10_000)
    expectRefusal(answer, 'attestation_invalid')
    expect(answer.body.details).toEqual([
      {
        field: 'credential',
        code: 'attestation_invalid',
        message: 'Could not be verified.',
        docs: expect.stringMatching(/\/docs\/errors\/attestation_invalid$/),
      },
    ])
    expect([await app.count('users'), await app.count('passkeys'), await app.events()]).toEqual([0, 0, []])
  })

  test('…while the same credentials, unspoilt, are taken', async () => {
    for (const by of [newForger(), newForger('RS256'), newForger('EdDSA')]) {
      const app = await newTestApp(service)
      const asked = await app.askToRegister()
      const credential = forgeCreation(by, asked.publicKey, { flags: UP | UV | BE | BS })
      expect((await app.register(asked.challengeId, credential)).status).toBe(200)
    }
  })
})

test('a maker’s attestation that came unasked is not looked at, whatever is in it', async () => {
  const app = await newTestApp(service)
  const attStmt = new Map<string, never>([['x5c', [new Uint8Array(Buffer.from('no certificate'))]]] as never)
  for (const fmt of ['packed', 'tpm', 'apple', 'android-key', 'android-safetynet', 'fido-u2f', 'compound']) {
    const asked = await app.askToRegister()
    const credential = forgeCreation(newForger(), asked.publicKey, { fmt, attStmt })
    const answer = await app.register(asked.challengeId, credential)
    expect(answer.status, `${fmt} ${answer.text}`).toBe(200)
  }
})

test('a malformed credential is 400 that names the field, and does not use up the challenge', async () => {
  const app = await newTestApp(service)
  const { challengeId, publicKey } = await app.askToRegister()
  const right = forgeCreation(newForger(), publicKey)
  const wrong: [string, object][] = [
    ['credential.id', { ...right, id: 'not base64url!' }],
    ['credential.id', { ...right, id: 'A' }],
    ['credential.id', { ...right, id: 'A'.repeat(2000) }],
    ['credential.rawId', { ...right, rawId: 7 }],
    ['credential.type', { ...right, type: 'password' }],
    ['credential.response', { ...right, response: null }],
    ['credential.response.clientDataJSON', { ...right, response: { ...right.response, clientDataJSON: '{}' } }],
    ['credential.response.attestationObject', { ...right, response: { ...right.response, attestationObject: [] } }],
    ['credential.response.signature', { ...right, response: { ...right.response, signature: 'AAAA' } }],
    ['credential.userId', { ...right, userId: 'usr_x' }],
  ]
  for (const [field, credential] of wrong) {
    const details = expectRefusal(await app.register(challengeId, credential), 'validation_failed', field)
    expect(details.map((detail) => detail.field)).toContain(field)
  }
  const [detail] = expectRefusal(
    await app.send('POST', '/auth/passkey/register-verify', { challengeId, credential: right, deviceName: ' ' }),
    'validation_failed',
  )
  expect(detail.field).toBe('deviceName')
  const asBrowsersSend = {
    ...right,
    authenticatorAttachment: 'platform',
    clientExtensionResults: { credProps: { rk: true }, somethingNew: [{ deep: null }] },
    response: {
      ...right.response,
      publicKey: null,
      publicKeyAlgorithm: -7,
      authenticatorData: 'AAAA',
      transports: ['internal', 'a-new-one', 'internal', 'NO SUCH'],
    },
  }
  const answer = await app.register(challengeId, asBrowsersSend)
  expect(answer.status, answer.text).toBe(200)
  const listed = await app.send('GET', '/auth/passkeys', undefined, bearer(answer.body.data))
  expect(listed.body.data[0].transports).toEqual(['a-new-one', 'internal'])
})
