import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import {
  type Answer,
  call,
  refillsNothing,
  type Service,
  startService,
  type Tenant,
} from '../../../test/harness/harness.ts'
import { type Person, personOf, signInAs } from '../sessions/sessions.fixture.ts'
import { type Actor, answerWith, challengeOf, codeNow, enrol, MINUTE_MS, stepUp, wrongCode } from './mfa.fixture.ts'

let service: Service
/** With rate limits, of which those for accounts are the narrowest. */
let limited: Service
beforeAll(async () => {
  service = await startService()
  limited = await startService({ HALFKEY_RATE_LIMITS: 'on', HALFKEY_RATE_LIMIT_ACCOUNT: '1/5' })
  refillsNothing(limited, 'rateLimitAccount')
})
afterAll(async () => {
  await service.stop()
  await limited.stop()
})

/** A server that acts for a user. */
function serverFor(tenant: Tenant, userId: string, key = tenant.key): Actor {
  const options = { key, headers: { 'x-user-id': userId } }
  return {
    get: (path) => tenant.get(path, options),
    post: (path, body) => tenant.post(path, body, options),
    delete: (path) => tenant.delete(path, options),
  }
}

const REDIRECT = 'https://shop.example.com/signed-in'
const CODE_CHALLENGE = createHash('sha256').update('x'.repeat(43)).digest('base64url')

/** Asks for something that needs a step-up: the code by which the hosted page hands a session over. */
async function sensitive(tenant: Tenant, person: Person): Promise<Answer> {
  const path = `/apps/${tenant.appId}`
  await tenant.patch(path, { allowedRedirectUrls: [REDIRECT] })
  return call(service.url, 'POST', '/signin/api/code', {
    body: { redirectUri: REDIRECT, codeChallenge: CODE_CHALLENGE },
    headers: { ...person.bearer, 'x-halfkey-app': tenant.appId },
  })
}

const setPolicy = async (tenant: Tenant, mfa: object) => {
  const answer = await tenant.patch(`/apps/${tenant.appId}`, { mfa })
  expect(answer.status, answer.text).toBe(200)
}

describe('a verification', () => {
  test('counts for five minutes, in the session that it was made in and no other', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const factor = await enrol(service, ada)
    const other = await signInAs(service, tenant, { userId: ada.userId })
    // Completing the set-up was a verification.
    expect((await sensitive(tenant, ada)).status).toBe(200)
    expectError(await sensitive(tenant, other), 403, 'mfa_required')
    expectError(await other.delete('/mfa'), 403, 'mfa_required')
    const server = serverFor(tenant, ada.userId)
    expectError(await server.delete('/mfa'), 403, 'mfa_required')
    service.advance(5 * MINUTE_MS + 1000)
    expectError(await sensitive(tenant, ada), 403, 'mfa_required')
    await stepUp(service, other, factor)
    expect((await sensitive(tenant, other)).status).toBe(200)
    expectError(await sensitive(tenant, ada), 403, 'mfa_required')
    expectError(await server.delete('/mfa'), 403, 'mfa_required')
    service.advance(5 * MINUTE_MS)
    expectError(await sensitive(tenant, other), 403, 'mfa_required')
  })

  test('outlives a refresh of its session', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    await enrol(service, ada)
    const tokens = (await tenant.post('/auth/refresh', { refreshToken: ada.refreshToken })).body.data
    const refreshed = personOf(service.url, ada.key, ada, tokens)
    expect((await sensitive(tenant, refreshed)).status).toBe(200)
    const claims = JSON.parse(Buffer.from(tokens.accessToken.split('.')[1], 'base64url').toString())
    expect(claims.amr).toEqual(expect.arrayContaining(['otp', 'mfa']))
  })

  test('is not what a signature in a token says: the session itself is asked', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const factor = await enrol(service, ada)
    const { accessToken } = (await stepUp(service, ada, factor)).body.data
    service.advance(5 * MINUTE_MS)
    const stronger = personOf(service.url, ada.key, ada, { ...ada, accessToken })
    expectError(await stronger.delete('/mfa'), 403, 'mfa_required')
  })
})

describe('the policy of the app', () => {
  test('if_enrolled: who has a factor verifies it, who has none needs a sign-in within five minutes', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    expect((await sensitive(tenant, ada)).status).toBe(200)
    service.advance(5 * MINUTE_MS + 1000)
    expectError(await sensitive(tenant, ada), 403, 'reauthentication_required')
    const again = await signInAs(service, tenant, { userId: ada.userId })
    await enrol(service, again)
    // A fresh sign-in does not stand in for the factor.
    const fresh = await signInAs(service, tenant, { userId: ada.userId })
    expectError(await sensitive(tenant, fresh), 403, 'mfa_required')
  })

  test('always: who has no factor sets one up first, and can', async () => {
    const tenant = await service.newTenant()
    await setPolicy(tenant, { policy: 'always' })
    const ada = await signInAs(service, tenant)
    expectError(await sensitive(tenant, ada), 403, 'mfa_enrollment_required')
    await enrol(service, ada)
    expect((await sensitive(tenant, ada)).status).toBe(200)
  })

  test('never: no factor is asked for, but a fresh sign-in is, and disabling a factor takes that factor', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const factor = await enrol(service, ada)
    await setPolicy(tenant, { policy: 'never' })
    const fresh = await signInAs(service, tenant, { userId: ada.userId })
    expect((await sensitive(tenant, fresh)).status).toBe(200)
    expectError(await fresh.delete('/mfa'), 403, 'mfa_required')
    await stepUp(service, fresh, factor)
    service.advance(5 * MINUTE_MS)
    expectError(await sensitive(tenant, fresh), 403, 'reauthentication_required')
    expectError(await fresh.delete('/mfa'), 403, 'mfa_required')
  })
})

describe('a server that acts for a user', () => {
  test('sets up, verifies for its own key and that user alone, gets no token, and disables', async () => {
    const tenant = await service.newTenant()
    const userId = await tenant.userId()
    const server = serverFor(tenant, userId)
    const factor = await enrol(service, server)
    expect((await server.get('/mfa/status')).body.data).toMatchObject({ enabled: true, recoveryCodesRemaining: 10 })
    const answer = await stepUp(service, server, factor)
    expect(answer.body.data).toEqual({
      verified: true,
      accessToken: null,
      expiresInSeconds: null,
      mfaExpiresAt: expect.stringMatching(/Z$/),
    })
    const otherKey = await tenant.newKey({ scopes: ['users:act_as'] })
    expectError(await serverFor(tenant, userId, otherKey).delete('/mfa'), 403, 'mfa_required')
    const eve = await signInAs(service, tenant)
    await enrol(service, eve)
    expectError(await serverFor(tenant, eve.userId).delete('/mfa'), 403, 'mfa_required')
    service.advance(3 * MINUTE_MS)
    expect((await server.delete('/mfa')).body.data.enabled).toBe(false)
  })

  test('verifies for five minutes and no longer', async () => {
    const tenant = await service.newTenant()
    const server = serverFor(tenant, await tenant.userId())
    const factor = await enrol(service, server)
    await stepUp(service, server, factor)
    service.advance(5 * MINUTE_MS)
    expectError(await server.delete('/mfa'), 403, 'mfa_required')
    await stepUp(service, server, factor)
    expect((await server.delete('/mfa')).status).toBe(200)
  })

  test('needs no sign-in of the user to set a factor up, unless the app enforces that for servers', async () => {
    const tenant = await service.newTenant()
    await setPolicy(tenant, { enforceForServer: true })
    const server = serverFor(tenant, await tenant.userId())
    expectError(await server.post('/mfa/setup'), 403, 'reauthentication_required')
    await setPolicy(tenant, { enforceForServer: false })
    expect((await server.post('/mfa/setup')).status).toBe(200)
  })

  test('is trusted with what needs a step-up, unless the app says otherwise: then its own counts, for five minutes', async () => {
    const tenant = await service.newTenant()
    const userId = await tenant.userId()
    const server = serverFor(tenant, userId)
    const other = serverFor(tenant, userId, await tenant.newKey({ scopes: ['users:act_as', 'auth:write'] }))
    const factor = await enrol(service, server)
    service.advance(5 * MINUTE_MS)
    const addPasskey = (actor: Actor) => actor.post('/auth/passkey/register-options', {})
    expect((await addPasskey(server)).status).toBe(200)
    await setPolicy(tenant, { enforceForServer: true })
    expectError(await addPasskey(server), 403, 'mfa_required')
    await stepUp(service, server, factor)
    expect((await addPasskey(server)).status).toBe(200)
    expectError(await addPasskey(other), 403, 'mfa_required')
    expectError(
      await addPasskey(serverFor(tenant, (await signInAs(service, tenant)).userId)),
      403,
      'reauthentication_required',
    )
    service.advance(5 * MINUTE_MS)
    expectError(await addPasskey(server), 403, 'mfa_required')
    await setPolicy(tenant, { policy: 'always' })
    expectError(
      await addPasskey(serverFor(tenant, (await signInAs(service, tenant)).userId)),
      403,
      'mfa_enrollment_required',
    )
  })

  test("a challenge is the user's, not the caller's: a server may answer it, and so may a session", async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const factor = await enrol(service, ada)
    const challengeId = await challengeOf(serverFor(tenant, ada.userId))
    const code = await codeNow(service, factor.secret)
    expect((await ada.post('/mfa/verify', { challengeId, code })).body.data.accessToken).toMatch(/^ey/)
  })
})

describe('the rate limit of an account', () => {
  test('counts verifications of a user, whoever makes them, and spares other users', async () => {
    const tenant = await limited.newTenant()
    const [ada, eve] = [await signInAs(limited, tenant), await signInAs(limited, tenant)]
    const body = { challengeId: 'chl_x', code: '000000' }
    const answers: Answer[] = []
    for (let index = 0; index < 8; index += 1) {
      const actor = index % 2 === 0 ? ada : serverFor(tenant, ada.userId)
      answers.push(await actor.post('/mfa/verify', body))
    }
    expect(answers.slice(0, 5).map((answer) => answer.status)).toEqual([404, 404, 404, 404, 404])
    for (const answer of answers.slice(5)) {
      expectError(answer, 429, 'rate_limited')
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    }
    expectError(await ada.post('/mfa/verify-setup', { code: '000000' }), 429, 'rate_limited')
    expectError(await eve.post('/mfa/verify', body), 404, 'not_found')
    // What can't be guessed at goes on.
    expect((await ada.get('/mfa/status')).status).toBe(200)
  })

  test('what is limited is neither heard nor counted as a guess', async () => {
    const tenant = await limited.newTenant()
    const ada = await signInAs(limited, tenant)
    const { secret } = (await ada.post('/mfa/setup')).body.data
    const code = await codeNow(limited, secret)
    const wrong = await wrongCode(limited, secret)
    for (let guess = 0; guess < 4; guess += 1)
      expectRefusal(await ada.post('/mfa/verify-setup', { code: wrong }), 'invalid_code')
    expect((await ada.post('/mfa/verify-setup', { code })).status).toBe(200)
    expectError(await answerWith(ada, { code: await codeNow(limited, secret, 1) }), 429, 'rate_limited')
    const [row] = await limited.sql<{ failures: number }>('select failures from mfa_factors where user_id = $1', [
      ada.userId,
    ])
    expect(row?.failures).toBe(0)
  })
})
