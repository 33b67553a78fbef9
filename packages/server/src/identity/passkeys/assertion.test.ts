import { createHash, createPrivateKey, randomBytes, sign } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ORIGIN } from '../../../test/harness/authenticator.ts'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService } from '../../../test/harness/harness.ts'
import { BE, type Forger, forgeAssertion, forgeCreation, type Lies, newForger, UP, UV } from './forged.fixture.ts'
import { newTestApp, type TestApp } from './test-app.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

/** Two users of an app, each with a passkey in the attacker's hands: Eve's is the attacker's own. */
interface Scene {
  app: TestApp
  ada: { forger: Forger; userId: string }
  eve: { forger: Forger; userId: string }
}

async function newScene(algorithm: 'ES256' | 'EdDSA' | 'RS256' = 'ES256'): Promise<Scene> {
  const app = await newTestApp(service)
  const user = async (email: string) => {
    const forger = newForger(algorithm)
    const asked = await app.askToRegister({ email })
    const answer = await app.register(asked.challengeId, forgeCreation(forger, asked.publicKey))
    return { forger, userId: answer.body.data.user.id as string }
  }
  return { app, ada: await user('ada@example.com'), eve: await user('eve@example.com') }
}

// biome-ignore lint/suspicious/noExplicitAny: options as they came over the wire
async function ask(app: TestApp, query = ''): Promise<any> {
  return (await app.send('GET', `/auth/passkey/login-options${query}`)).body.data
}

const verify = (app: TestApp, challengeId: string, credential: unknown): Promise<Answer> =>
  app.send('POST', '/auth/passkey/login-verify', { challengeId, credential })

const text = (value: string) => Buffer.from(value).toString('base64url')
const BODY = {
  error: 'This passkey could not be verified. Start again.',
  code: 'assertion_invalid',
  details: [
    {
      field: 'credential',
      code: 'assertion_invalid',
      message: 'Could not be verified.',
      docs: expect.stringMatching(/\/docs\/errors\/assertion_invalid$/),
    },
  ],
}

describe('an assertion is refused, in the same words whatever is wrong with it:', () => {
  const lies: Record<string, Lies> = {
    'another challenge': { challenge: randomBytes(32).toString('base64url') },
    'no challenge': { challenge: '' },
    'the type of a registration': { type: 'webauthn.create' },
    'another origin': { origin: 'https://evil.example' },
    'another port than the challenge’s': { origin: 'http://localhost:3001' },
    'another scheme than the challenge’s': { origin: 'https://localhost:3000' },
    'an origin with a path': { origin: `${ORIGIN}/` },
    'an origin that is a list': { clientData: { origin: [ORIGIN] } },
    'a frame of another site': { clientData: { crossOrigin: true } },
    'a frame of another site, as text': { clientData: { crossOrigin: 'false' } },
    'a frame of a site that is named': { clientData: { crossOrigin: true, topOrigin: ORIGIN } },
    'the hash of another relying party': { rpId: 'evil.example' },
    'the hash of a parent of the relying party': { rpId: '' },
    'no user presence': { flags: UV },
    'no user verification': { flags: UP },
    'neither of them': { flags: 0 },
    'a backup eligibility that the passkey did not have': { flags: UP | UV | BE },
    'attested data that is not there': { flags: UP | UV | 64 },
    'extensions that are not there': { flags: UP | UV | 128 },
    'a signature of nothing': { signature: randomBytes(70) },
    'an empty DER signature': { signature: Buffer.from('3000', 'hex') },
    'a signature of zeros': { signature: Buffer.from('3006020100020100', 'hex') },
    'authenticator data that is too short': { authenticatorData: Buffer.alloc(36, 5) },
    'authenticator data with leftovers': { authenticatorData: Buffer.alloc(38, 5) },
    'no user handle': { userHandle: null },
    'a user handle of nobody': { userHandle: text('usr_00000000000000000000000000') },
    'a user handle that goes on': { userHandle: text('usr_') },
    'the id of nobody': { id: randomBytes(32) },
    'a rawId that is not the id': { rawId: randomBytes(32) },
  }

  test.each(Object.entries(lies))('%s', async (_, lie) => {
    const { app, ada } = await newScene()
    const before = [await app.count('sessions'), (await app.events()).length]
    const asked = await ask(app)
    const answer = await verify(app, asked.challengeId, forgeAssertion(ada.forger, asked.publicKey, ada.userId, lie))
    expectError(answer, 401, 'assertion_invalid')
    expect(answer.body).toEqual(BODY)
    expect([await app.count('sessions'), (await app.events()).length]).toEqual(before)
    const [row] = await service.sql('select last_used_at, sign_count from passkeys where user_id = $1', [ada.userId])
    expect(row).toEqual({ last_used_at: null, sign_count: '0' })
  })

  test.each(['ES256', 'EdDSA', 'RS256'] as const)('one flipped bit anywhere (%s)', async (algorithm) => {
    const { app, ada } = await newScene(algorithm)
    for (const part of ['signature', 'authenticatorData', 'clientDataJSON']) {
      const asked = await ask(app)
      const credential = forgeAssertion(ada.forger, asked.publicKey, ada.userId)
      const bytes = Buffer.from(credential.response[part], 'base64url')
      const at = bytes.length - 3
      bytes[at] = (bytes[at] as number) ^ 1
      credential.response[part] = bytes.toString('base64url')
      expect((await verify(app, asked.challengeId, credential)).body, part).toEqual(BODY)
    }
  })

  test('one’s own passkey under another’s id, or with another’s user handle', async () => {
    const { app, ada, eve } = await newScene()
    const attempts: [Forger, string | null, Lies][] = [
      [eve.forger, ada.userId, {}],
      [eve.forger, ada.userId, { id: ada.forger.id }],
      [eve.forger, eve.userId, { id: ada.forger.id }],
      [eve.forger, eve.userId, { id: eve.forger.id, rawId: ada.forger.id }],
      [eve.forger, eve.userId, { id: ada.forger.id, rawId: eve.forger.id }],
      [ada.forger, eve.userId, {}],
    ]
    for (const [by, userId, lie] of attempts) {
      const asked = await ask(app)
      expect((await verify(app, asked.challengeId, forgeAssertion(by, asked.publicKey, userId, lie))).body).toEqual(
        BODY,
      )
    }
    expect(await app.count('sessions')).toBe(2)
  })

  test('one’s own passkey for a challenge that asks for another’s, with or without a user handle', async () => {
    const { app, ada, eve } = await newScene()
    for (const userId of [eve.userId, ada.userId, null]) {
      const asked = await ask(app, '?email=ada@example.com')
      const credential = forgeAssertion(eve.forger, asked.publicKey, userId)
      expect((await verify(app, asked.challengeId, credential)).body).toEqual(BODY)
    }
    const asked = await ask(app, '?email=ada@example.com')
    const answer = await verify(app, asked.challengeId, forgeAssertion(ada.forger, asked.publicKey, null))
    expect(answer.status, 'such a challenge knows its user').toBe(200)
  })

  test('any passkey for a challenge that was made for an email of nobody', async () => {
    const { app, ada } = await newScene()
    for (const userId of [ada.userId, null]) {
      const asked = await ask(app, '?email=nobody@example.com')
      const id = Buffer.from(asked.publicKey.allowCredentials[0].id, 'base64url')
      const attempts = [{}, { id }]
      for (const lie of attempts) {
        const challenge = lie === attempts[0] ? asked : await ask(app, '?email=nobody@example.com')
        const credential = forgeAssertion(ada.forger, challenge.publicKey, userId, lie)
        expect((await verify(app, challenge.challengeId, credential)).body).toEqual(BODY)
      }
    }
  })

  test('the decoy’s own key, which is public', async () => {
    const { app, ada } = await newScene()
    const asked = await ask(app, '?email=nobody@example.com')
    const id = Buffer.from(asked.publicKey.allowCredentials[0].id, 'base64url')
    // The private key of the generator of P-256 is 1.
    const privateKey = createPrivateKey({
      format: 'jwk',
      key: {
        kty: 'EC',
        crv: 'P-256',
        d: Buffer.concat([Buffer.alloc(31), Buffer.from([1])]).toString('base64url'),
        x: 'axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY',
        y: 'T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU',
      },
    })
    for (const userId of [ada.userId, null]) {
      const challenge = userId === null ? asked : await ask(app)
      const credential = forgeAssertion({ ...ada.forger, id, privateKey }, challenge.publicKey, userId)
      expect((await verify(app, challenge.challengeId, credential)).body).toEqual(BODY)
    }
  })

  test('a passkey that its user has removed, and one of another app or tenant', async () => {
    const { app, ada, eve } = await newScene()
    const other = await newScene()
    const appId = (await app.tenant.post('/apps', { name: 'Other' })).body.data.id
    await service.sql('delete from passkeys where user_id = $1', [ada.userId])
    const removed = await ask(app)
    const [first, second] = [
      await ask(app),
      (await app.tenant.get(`/auth/passkey/login-options?app_id=${appId}`)).body.data,
    ]
    const answers = [
      await verify(app, removed.challengeId, forgeAssertion(ada.forger, removed.publicKey, ada.userId)),
      await verify(app, first.challengeId, forgeAssertion(other.ada.forger, first.publicKey, other.ada.userId)),
      await app.tenant.post('/auth/passkey/login-verify', {
        challengeId: second.challengeId,
        credential: forgeAssertion(eve.forger, second.publicKey, eve.userId),
      }),
    ]
    for (const answer of answers) expect(answer.body).toEqual(BODY)
  })

  test('a registration’s answer where a login’s is asked for', async () => {
    const { app, ada } = await newScene()
    const [asked, registration] = [await ask(app), await app.askToRegister()]
    const made = forgeCreation(ada.forger, { ...registration.publicKey, challenge: asked.publicKey.challenge })
    const { response, ...rest } = forgeAssertion(ada.forger, asked.publicKey, ada.userId)
    const credential = { ...rest, response: { ...response, clientDataJSON: made.response.clientDataJSON } }
    expect((await verify(app, asked.challengeId, credential)).body).toEqual(BODY)
    const whole = await verify(app, (await ask(app)).challengeId, made)
    expectRefusal(whole, 'validation_failed')
  })
})

test('client data counts to the byte: reordered and repeated members are what was signed', async () => {
  const { app, ada } = await newScene()
  const asked = await ask(app)
  const credential = forgeAssertion(ada.forger, asked.publicKey, ada.userId)
  const client = Buffer.from(credential.response.clientDataJSON, 'base64url').toString()
  const twice = client.replace('{', `{"origin":"https://evil.example",`)
  const data = Buffer.from(credential.response.authenticatorData, 'base64url')
  const hash = createHash('sha256').update(twice).digest()
  credential.response.clientDataJSON = text(twice)
  credential.response.signature = sign('sha256', Buffer.concat([data, hash]), ada.forger.privateKey).toString(
    'base64url',
  )
  // The last member counts, as in every browser's parser: what is checked is what is read.
  expect((await verify(app, asked.challengeId, credential)).status).toBe(200)
  const other = await ask(app)
  const lying = forgeAssertion(ada.forger, other.publicKey, ada.userId)
  lying.response.clientDataJSON = text(
    Buffer.from(lying.response.clientDataJSON, 'base64url')
      .toString()
      .replace(/\}$/, ',"origin":"https://evil.example"}'),
  )
  expect((await verify(app, other.challengeId, lying)).body).toEqual(BODY)
})

test('a user who need not be verified has one method less', async () => {
  const { app, ada } = await newScene()
  await app.tenant.patch(`/apps/${app.tenant.appId}`, { passkey: { userVerification: 'discouraged' } })
  const asked = await ask(app)
  await app.tenant.patch(`/apps/${app.tenant.appId}`, { passkey: { userVerification: 'required' } })
  const credential = forgeAssertion(ada.forger, asked.publicKey, ada.userId, { flags: UP })
  const answer = await verify(app, asked.challengeId, credential)
  expect(answer.status, 'what counts is what was asked for').toBe(200)
  const [session] = await service.sql('select amr from sessions where id = $1', [answer.body.data.sessionId])
  expect(session).toEqual({ amr: ['hwk'] })
})

test('a malformed credential is 400 that names the field, and does not use up the challenge', async () => {
  const { app, ada } = await newScene()
  const asked = await ask(app)
  const right = forgeAssertion(ada.forger, asked.publicKey, ada.userId)
  const wrong: [string, object | string | null][] = [
    ['credential', null],
    ['credential', 'x'],
    ['credential.id', { ...right, id: `${right.id}=` }],
    ['credential.id', { ...right, id: [right.id] }],
    ['credential.rawId', { ...right, rawId: undefined }],
    ['credential.type', { ...right, type: 'public-keys' }],
    ['credential.response.userHandle', { ...right, response: { ...right.response, userHandle: 'A'.repeat(88) } }],
    ['credential.response.signature', { ...right, response: { ...right.response, signature: null } }],
    ['credential.response.authenticatorData', { ...right, response: { ...right.response, authenticatorData: '' } }],
    ['credential.response.more', { ...right, response: { ...right.response, more: 1 } }],
  ]
  for (const [field, credential] of wrong) {
    const details = expectRefusal(await verify(app, asked.challengeId, credential), 'validation_failed', field)
    expect(details.map((detail) => detail.field)).toContain(field)
  }
  const asBrowsersSend = {
    ...right,
    authenticatorAttachment: null,
    clientExtensionResults: { prf: { results: { first: 'AAAA' } } },
  }
  const answer = await verify(app, asked.challengeId, asBrowsersSend)
  expect(answer.status, answer.text).toBe(200)
})

test('no log line has a token, a signature or client data', async () => {
  const logs = service.logs()
  expect(logs).toContain('login-verify')
  expect(logs).not.toMatch(/eyJ|hk_rt_|clientDataJSON|signature/)
})
