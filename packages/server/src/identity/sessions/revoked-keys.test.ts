import { createHash, randomBytes } from 'node:crypto'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { signIn } from '../../../test/matrix/requests.ts'
import { rotateSigningKey } from '../../platform/security/signing-keys.ts'

const REDIRECT = 'https://shop.example.com/signed-in'

let service: Service
let tenant: Tenant
beforeEach(async () => {
  service = await startService()
  tenant = await service.newTenant()
  await tenant.patch(`/apps/${tenant.appId}`, { allowedRedirectUrls: [REDIRECT] })
})
afterEach(() => service.stop())

const revokeKeys = () => rotateSigningKey(service.deps, { revoke: true })

/** What the hosted page gives the app for a session, with what the app proves itself by. */
async function codeOf(accessToken: string) {
  const codeVerifier = randomBytes(32).toString('base64url')
  const codeChallenge = createHash('sha256').update(codeVerifier).digest('base64url')
  const { status, body } = await call(service.url, 'POST', '/signin/api/code', {
    body: { redirectUri: REDIRECT, codeChallenge },
    headers: { 'x-halfkey-app': tenant.appId, authorization: `Bearer ${accessToken}` },
  })
  expect(status).toBe(200)
  return { code: body.data.code as string, codeVerifier, redirectUri: REDIRECT }
}

/** The keys are revoked between the check of what is presented and the making of its tokens, once. */
function revokeMeanwhile(): void {
  const { signingKeys } = service.deps
  const { current } = signingKeys
  signingKeys.current = async () => {
    signingKeys.current = current
    await revokeKeys()
    return current()
  }
}

test('a code that was made before all signing keys were revoked gets no tokens by their successor', async () => {
  const { accessToken } = await signIn(service, tenant)
  const exchange = await codeOf(accessToken)
  await revokeKeys()
  expectError(await tenant.post('/auth/exchange', exchange), 400, 'code_invalid')
})

test('neither does one that is exchanged at that very moment', async () => {
  const { accessToken } = await signIn(service, tenant)
  const exchange = await codeOf(accessToken)
  revokeMeanwhile()
  expectError(await tenant.post('/auth/exchange', exchange), 400, 'code_invalid')
})

test('neither does a refresh token that is used at that very moment', async () => {
  const { refreshToken } = await signIn(service, tenant)
  revokeMeanwhile()
  expectError(await tenant.post('/auth/refresh', { refreshToken }), 401, 'session_invalid')
})

test('an access token that has been used is refused as well', async () => {
  const { accessToken } = await signIn(service, tenant)
  const use = () => tenant.get('/auth/sessions', { headers: { authorization: `Bearer ${accessToken}` } })
  expect((await use()).status).toBe(200)
  await revokeKeys()
  expectError(await use(), 401, 'session_invalid')
})

test('a code outlives a rotation that revokes nothing', async () => {
  const { accessToken } = await signIn(service, tenant)
  const exchange = await codeOf(accessToken)
  await rotateSigningKey(service.deps, { revoke: false })
  expect((await tenant.post('/auth/exchange', exchange)).status).toBe(200)
})
