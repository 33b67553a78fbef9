import { createHash, createHmac, randomBytes } from 'node:crypto'
import { generate } from 'otplib'
import { expect } from 'vitest'
import { AUDIENCE, JWKS_PATH, startIssuer } from '../../server/src/identity/foreign-tokens/issuer.fixture.ts'
import { newAuthenticator } from '../../server/test/harness/authenticator.ts'
import { call, eventually, type Service, type Tenant } from '../../server/test/harness/harness.ts'
import type { HalfkeyClient } from '../src/client.ts'
import type { SignedIn } from '../src/models.ts'

/** A client that calls for a user. */
export type ClientOf = (accessToken: string) => HalfkeyClient

const BOT_TOKEN = '110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw'

/** A page of the app's: where passkeys are made. */
const originOf = (service: Service) => new URL(service.url).origin.replace('127.0.0.1', 'localhost')

/** Signs up and in by passkey, through the client. */
export async function usePasskeys(service: Service, client: HalfkeyClient, clientOf: ClientOf): Promise<SignedIn> {
  const { passkeys } = client.auth
  const authenticator = newAuthenticator()
  const asked = await passkeys.registerOptions({ email: 'grace@example.com' })
  const credential = authenticator.create(asked.publicKey, originOf(service))
  const made = await passkeys.registerVerify({ challengeId: asked.challengeId, credential, deviceName: 'Laptop' })
  expect(made).toMatchObject({ isNewUser: true, user: { email: 'grace@example.com' } })
  const login = await passkeys.loginOptions({ email: 'grace@example.com' })
  const assertion = authenticator.get(login.publicKey, originOf(service))
  const signedIn = await passkeys.loginVerify({ challengeId: login.challengeId, credential: assertion })
  expect(signedIn).toMatchObject({ isNewUser: false, user: { id: made.user.id } })
  const mine = clientOf(signedIn.accessToken).auth.passkeys
  const again = await mine.loginOptions()
  const proof = authenticator.get(again.publicKey, originOf(service))
  const proven = await mine.prove({ challengeId: again.challengeId, credential: proof })
  expect((await clientOf(proven.accessToken).users.me()).id).toBe(made.user.id)
  const [passkey] = (await mine.list()).data
  expect(passkey).toMatchObject({ name: 'Laptop' })
  const id = passkey?.id as string
  expect((await mine.rename(id, 'Old laptop')).name).toBe('Old laptop')
  expect((await client.users.passkeys(made.user.id)).data.map((one) => one.id)).toEqual([id])
  await expect(mine.remove(id)).rejects.toMatchObject({ code: 'last_sign_in_method' })
  return signedIn
}

/** Refreshes, lists and ends sessions. */
export async function useSessions(client: HalfkeyClient, clientOf: ClientOf, signedIn: SignedIn): Promise<void> {
  const next = await client.auth.refresh(signedIn.refreshToken)
  const mine = clientOf(next.accessToken).auth
  expect((await mine.idToken()).expiresInSeconds).toBe(600)
  const sessions = (await mine.sessions.list()).data
  expect(sessions.find((one) => one.current)?.id).toBe(signedIn.sessionId)
  expect((await client.users.sessions(signedIn.user.id)).total).toBe(sessions.length)
  const other = sessions.find((one) => !one.current)?.id as string
  expect((await mine.sessions.end(other)).status).toBe('revoked')
  expect(await mine.logOut()).toEqual({ revoked: 1 })
  await expect(mine.sessions.list()).rejects.toMatchObject({ code: 'session_revoked' })
}

/** Trades a code of the hosted page for a session. */
export async function useHostedPage(
  service: Service,
  tenant: Tenant,
  client: HalfkeyClient,
  accessToken: string,
): Promise<SignedIn> {
  const redirectUri = 'https://shop.example.com/signed-in'
  await client.apps.update(tenant.appId, { allowedRedirectUrls: [redirectUri] })
  const codeVerifier = randomBytes(32).toString('base64url')
  const codeChallenge = createHash('sha256').update(codeVerifier).digest('base64url')
  const answer = await call(service.url, 'POST', '/signin/api/code', {
    body: { redirectUri, codeChallenge },
    headers: { 'x-halfkey-app': tenant.appId, authorization: `Bearer ${accessToken}` },
  })
  return client.auth.exchange({ code: answer.body.data.code, codeVerifier, redirectUri })
}

/** Signs in by Telegram's login widget. */
export async function useMessenger(tenant: Tenant, client: HalfkeyClient): Promise<void> {
  await client.apps.update(tenant.appId, { messenger: { botUsername: 'shop_login_bot', botToken: BOT_TOKEN } })
  expect(await client.auth.messenger.widgetConfig()).toMatchObject({ provider: 'telegram', botId: '110201543' })
  const fields = { auth_date: Math.floor(Date.now() / 1000), first_name: 'Ada', id: 4242 }
  const text = Object.entries(fields).map(([name, value]) => `${name}=${value}`)
  const key = createHash('sha256').update(BOT_TOKEN).digest()
  const hash = createHmac('sha256', key).update(text.sort().join('\n')).digest('hex')
  expect(await client.auth.messenger.verify({ ...fields, hash })).toMatchObject({
    isNewUser: true,
    user: { name: 'Ada' },
  })
}

/** Trusts an issuer, signs in by its tokens, and links and unlinks identities. */
export async function useIssuers(
  service: Service,
  tenant: Tenant,
  client: HalfkeyClient,
  clientOf: ClientOf,
): Promise<void> {
  const login = await startIssuer(service)
  const { issuers } = client.apps
  const jwksUri = `${login.url}${JWKS_PATH}`
  const { id } = await issuers.create(tenant.appId, { issuer: login.url, jwksUri, audiences: ['else'] })
  const issuer = await issuers.update(tenant.appId, id, { audiences: [AUDIENCE] })
  expect(await issuers.get(tenant.appId, id)).toEqual(issuer)
  expect((await issuers.list(tenant.appId)).data).toEqual([issuer])
  const signedIn = await client.auth.exchangeToken({
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token: await login.token({ claims: { sub: 'ada' } }),
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
  })
  expect(signedIn.isNewUser).toBe(true)
  const { identities } = clientOf(signedIn.accessToken).auth
  const linked = await identities.link({
    subject_token: await login.token({ claims: { sub: 'lovelace' } }),
    subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
  })
  expect((await identities.list()).data.map(({ subject }) => subject)).toEqual(['lovelace', 'ada'])
  expect((await client.users.identities(signedIn.user.id)).total).toBe(2)
  expect(await identities.unlink(linked.id)).toEqual(linked)
  expect((await issuers.remove(tenant.appId, id)).id).toBe(id)
  await login.close()
}

/** Signs in by a code out of the mailbox for development, and links the address of a user who has none. */
export async function useEmail(
  service: Service,
  tenant: Tenant,
  client: HalfkeyClient,
  clientOf: ClientOf,
): Promise<void> {
  await client.apps.update(tenant.appId, { email: { enabled: true } })
  const codeFor = (address: string, purpose?: string) =>
    eventually('the email', async () => {
      const mails: { to: string; purpose: string; code: string }[] = (await call(service.url, 'GET', '/dev/mail.json'))
        .body
      return mails.find((mail) => mail.to === address && (purpose ?? mail.purpose) === mail.purpose)?.code
    })
  const { email } = client.auth
  const { challengeId } = await email.start({ email: 'codes@example.com' })
  const signedIn = await email.verify({ challengeId, code: await codeFor('codes@example.com') })
  expect(signedIn).toMatchObject({ isNewUser: true, user: { email: 'codes@example.com', emailVerified: true } })
  const guest = await client.guests.create()
  const { accessToken } = await clientOf(guest.accessToken).guests.convert(guest.id, { externalId: 'codes' })
  const mine = clientOf(accessToken).auth.email
  const asked = await mine.start({ email: 'linked@example.com', purpose: 'link' })
  const linked = await mine.link({ challengeId: asked.challengeId, code: await codeFor('linked@example.com') })
  expect(linked).toMatchObject({ id: guest.userId, email: 'linked@example.com', emailVerified: true })
  const begun = await mine.start({ email: 'changed@example.com', purpose: 'change' })
  const changed = await mine.change({
    challengeId: begun.challengeId,
    code: await codeFor('changed@example.com'),
    currentChallengeId: begun.currentChallengeId as string,
    currentCode: await codeFor('linked@example.com', 'change_current'),
  })
  expect(changed).toMatchObject({ id: guest.userId, email: 'changed@example.com' })
  await client.apps.update(tenant.appId, { emailRecovery: { enabled: true } })
  const lost = await email.start({ email: 'changed@example.com', purpose: 'recovery' })
  const code = await codeFor('changed@example.com', 'recovery')
  await expect(email.recover({ challengeId: lost.challengeId, code })).rejects.toMatchObject({
    code: 'recovery_not_needed',
  })
  await expect(mine.cancelRecovery()).rejects.toMatchObject({ code: 'not_found' })
  expect((await mine.recoveries()).total).toBe(0)
  expect((await client.users.recoveries(guest.userId)).data).toEqual([])
  // What was sent is noted after the mailbox has it.
  const sent = await eventually('all emails are sent', async () => {
    const page = await client.emails.list({ status: 'sent' })
    return page.total >= 5 && page.data
  })
  expect(sent.map(({ address }) => address)).toEqual([
    'changed@example.com',
    expect.stringMatching(/^(linked|changed)@/),
    expect.stringMatching(/^(linked|changed)@/),
    'linked@example.com',
    'codes@example.com',
  ])
}

/** Begins as a guest, and becomes a user with a second factor. */
export async function useGuestsAndMfa(client: HalfkeyClient, clientOf: ClientOf): Promise<void> {
  const guest = await client.guests.create({ ttlMinutes: 5 })
  expect((await client.guests.list({ status: 'active' })).data.map((one) => one.id)).toContain(guest.id)
  expect((await client.guests.get(guest.id)).status).toBe('active')
  const converted = await clientOf(guest.accessToken).guests.convert(guest.id, { email: 'guest@example.com' })
  expect(converted.user.id).toBe(guest.userId)
  const { id } = await client.guests.create()
  expect((await client.guests.expire(id)).status).toBe('expired')
  expect((await client.guests.cleanUp({ dryRun: true })).expired).toBe(0)

  const { mfa } = clientOf(converted.accessToken)
  const { secret } = await mfa.setUp()
  const code = (steps: number) => generate({ secret, epoch: Math.floor(Date.now() / 1000) + steps * 30 })
  expect((await mfa.verifySetUp({ code: await code(0) })).recoveryCodes).toHaveLength(10)
  expect(await mfa.status()).toMatchObject({ enabled: true, recoveryCodesRemaining: 10 })
  const { challengeId } = await mfa.challenge()
  expect(await mfa.verify({ challengeId, code: await code(1) })).toMatchObject({ verified: true })
  expect(await mfa.disable()).toMatchObject({ enabled: false })
}
