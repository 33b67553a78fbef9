import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { logIn } from '../../../test/harness/authenticator.ts'
import { expectError } from '../../../test/harness/envelope.ts'
import { eventually } from '../../../test/harness/harness.ts'
import { newSharedWallet } from '../../keys/key-shares/key-shares.fixture.ts'
import { newId } from '../../platform/ids.ts'
import { hmacSha256Bytes } from '../../platform/security/crypto.ts'
import { rotateSigningKey } from '../../platform/security/signing-keys.ts'
import { type MailingService, startMailing } from '../email-sign-in/email.fixture.ts'
import { enrol } from '../mfa/mfa.fixture.ts'
import { eventsOf, personOf, signInAs } from '../sessions/sessions.fixture.ts'
import { cancelTokenIn, HOUR_MS, latest, newRecoveryApp } from './recovery.fixture.ts'

let mailing: MailingService
beforeAll(async () => {
  mailing = await startMailing()
})
afterAll(() => mailing.stop())

test('after the wait, told of twice, a code gives the account a new passkey, and everybody else is signed out', async () => {
  const { service } = mailing
  const app = await newRecoveryApp(mailing)
  const { person, notice, recoveryId, availableAt } = await app.requested('ada1@example.com')
  const { walletId } = await newSharedWallet(service, app.tenant, { person })
  const custody = (await app.tenant.get(`/wallets/${walletId}/custody`)).body.data
  expect(custody.canSignIn).toContainEqual({
    who: 'email_recovery',
    issuer: null,
    reachesKey: true,
    how: expect.stringContaining('72 hours apart'),
  })
  expect(notice.parts['text/plain']).toContain('stop it here')
  expect(Date.parse(availableAt)).toBeGreaterThan(service.deps.now().getTime() + 71 * HOUR_MS)
  const reminder = await app.wait('ada1@example.com')
  expect(cancelTokenIn(reminder)).toBe(cancelTokenIn(notice))

  const ready = await app.recover('ada1@example.com')
  expect(ready.body.data.recovery).toMatchObject({ id: recoveryId, status: 'ready', availableAt })
  const completed = await app.complete(ready.body.data.registration)
  expect(completed.status, completed.text).toBe(200)
  expect(completed.body.data).toMatchObject({ isNewUser: false, user: { id: person.userId } })
  const recovered = personOf(service.url, app.key, person, completed.body.data)

  // The new passkey is one like any other; the old one stays until its owner removes it.
  expect((await recovered.get(`/mpc/shares/${walletId}`)).status).toBe(200)
  expect((await recovered.get('/auth/passkeys')).body.data).toHaveLength(2)
  const sessions = (await app.tenant.get(`/users/${person.userId}/sessions`)).body.data
  expect(sessions.map(({ id }: { id: string }) => id)).toEqual([completed.body.data.sessionId])
  const done = await mailing.smtp.next('ada1@example.com')
  expect(done.parts['text/plain']).toContain('has a new passkey')
  expect(done.parts['text/plain']).not.toContain('cancel_recovery')
  const { passkeyId } = await latest(app, person.userId)
  const about = { userId: person.userId, recoveryId }
  expect(await eventsOf(service, app.tenant, 'user.recovery_requested')).toEqual([{ ...about, availableAt }])
  expect(await eventsOf(service, app.tenant, 'user.recovery_reminder')).toEqual([{ ...about, availableAt }])
  expect(await eventsOf(service, app.tenant, 'user.recovery_completed')).toEqual([{ ...about, passkeyId }])
})

test('before the wait is over, further codes return how it is going, and shorten nothing', async () => {
  const app = await newRecoveryApp(mailing)
  const { recoveryId, availableAt } = await app.requested('ada2@example.com')
  // Not a later setting either.
  await app.tenant.patch(`/apps/${app.tenant.appId}`, { emailRecovery: { waitHours: 24 } })
  for (const hours of [58, 1, 12]) {
    mailing.service.advance(hours * HOUR_MS)
    mailing.service.deps.wake.tasks()
    if (hours === 1) await mailing.smtp.next('ada2@example.com')
    const again = await app.recover('ada2@example.com')
    expect(again.body.data.recovery).toMatchObject({ id: recoveryId, status: 'pending', availableAt })
    expect(again.body.data.registration).toBeNull()
  }
})

test('a reminder that comes late moves the end, so that twelve hours are left', async () => {
  const { service, smtp } = mailing
  const app = await newRecoveryApp(mailing)
  await app.requested('ada3@example.com')
  // Nobody worked for ten days, or the clock leapt.
  service.advance(240 * HOUR_MS)
  service.deps.wake.tasks()
  await smtp.next('ada3@example.com')
  const early = (await app.recover('ada3@example.com')).body.data
  expect(early.registration).toBeNull()
  expect(Date.parse(early.recovery.availableAt)).toBeGreaterThan(service.deps.now().getTime() + 11 * HOUR_MS)
  service.advance(12 * HOUR_MS)
  expect((await app.recover('ada3@example.com')).body.data.recovery.status).toBe('ready')
})

test('a first notice that comes late moves the end by as much: the whole wait is left', async () => {
  const { service, smtp } = mailing
  const app = await newRecoveryApp(mailing)
  const { person, recoveryId } = await app.requested('late@example.com')
  // As if no worker had run since: the row is as it was inserted, in another time.
  await service.sql(
    `update email_recoveries set told_at = null, due_at = null, available_at = available_at - interval '60 hours',
      expires_at = expires_at - interval '60 hours', created_at = created_at - interval '60 hours' where id = $1`,
    [recoveryId],
  )
  await service.recode()
  // Due only now: a worker would end a row that it finds between the two.
  await service.sql('update email_recoveries set due_at = created_at where id = $1', [recoveryId])
  service.deps.wake.tasks()
  await smtp.next('late@example.com')
  const { availableAt } = await latest(app, person.userId)
  expect(Date.parse(availableAt)).toBeGreaterThan(service.deps.now().getTime() + 71 * HOUR_MS)
})

describe('a pending recovery is canceled', () => {
  test('by the link of a notice from before all keys of tokens were revoked', async () => {
    const app = await newRecoveryApp(mailing)
    const { notice, recoveryId } = await app.requested('ada-revoked@example.com')
    const { deps } = mailing.service
    const { id } = await rotateSigningKey(deps, { revoke: true })
    await eventually('no key from before counts', async () => (await deps.signingKeys.oldest()).id === id)
    const body = { token: cancelTokenIn(notice) }
    const canceled = await app.tenant.post('/auth/email/recovery/cancel', body, { key: app.key })
    expect(canceled.status, canceled.text).toBe(200)
    expect(canceled.body.data).toMatchObject({ id: recoveryId, status: 'canceled', endedBy: 'link' })
    const stranger = await newRecoveryApp(mailing)
    expectError(
      await stranger.tenant.post('/auth/email/recovery/cancel', body, { key: stranger.key }),
      404,
      'not_found',
    )
  })

  test('by the link of a notice from a release whose links followed from the oldest key of tokens', async () => {
    const app = await newRecoveryApp(mailing)
    const { recoveryId } = await app.requested('ada-earlier@example.com')
    const { refreshKey } = await mailing.service.deps.signingKeys.oldest()
    const tag = hmacSha256Bytes(refreshKey, `halfkey/v1/recovery-cancel ${recoveryId}`).toString('base64url')
    const cancel = (id: string) =>
      app.tenant.post('/auth/email/recovery/cancel', { token: `${id}.${tag}` }, { key: app.key })
    expectError(await cancel(newId('rcv')), 404, 'not_found')
    expect((await cancel(recoveryId)).body.data).toMatchObject({ id: recoveryId, status: 'canceled', endedBy: 'link' })
  })

  test('by the link of a notice, once, and opening the link alone does nothing', async () => {
    const app = await newRecoveryApp(mailing)
    const { notice, person, recoveryId } = await app.requested('ada4@example.com')
    const token = cancelTokenIn(notice)
    const cancel = (body: object) => app.tenant.post('/auth/email/recovery/cancel', body, { key: app.key })
    expectError(await cancel({}), 401, 'session_missing')
    expectError(await cancel({ token: `${token.slice(0, -2)}xx` }), 404, 'not_found')
    expect((await latest(app, person.userId)).status).toBe('pending')
    for (let time = 0; time < 2; time += 1) {
      const canceled = await cancel({ token })
      expect(canceled.status, canceled.text).toBe(200)
      expect(canceled.body.data).toMatchObject({ id: recoveryId, status: 'canceled', endedBy: 'link' })
    }
    expect(await eventsOf(mailing.service, app.tenant, 'user.recovery_canceled')).toEqual([
      { userId: person.userId, recoveryId, by: 'link' },
    ])
  })

  test('by the user in any session, and by a server for them', async () => {
    const app = await newRecoveryApp(mailing)
    const { person } = await app.requested('ada5@example.com')
    expect((await person.get('/auth/email/recoveries')).body.data[0].status).toBe('pending')
    expect((await person.post('/auth/email/recovery/cancel', {})).body.data.endedBy).toBe('session')
    expectError(await person.post('/auth/email/recovery/cancel', {}), 404, 'not_found')
    expect((await app.recover('ada5@example.com')).body.data.recovery.status).toBe('pending')
    const headers = { 'x-user-id': person.userId }
    expect((await app.tenant.post('/auth/email/recovery/cancel', {}, { headers })).body.data.status).toBe('canceled')
  })

  test('by a sign-in with a passkey, and by a passkey that is added', async () => {
    const app = await newRecoveryApp(mailing)
    const { person, authenticator } = await app.requested('ada6@example.com')
    await logIn({ url: mailing.service.url, key: app.key }, authenticator)
    expect(await latest(app, person.userId)).toMatchObject({ status: 'canceled', endedBy: 'passkey' })
  })

  test('by a suspension, and by another address', async () => {
    const app = await newRecoveryApp(mailing)
    const { person } = await app.requested('ada7@example.com')
    const patch = (body: object) => app.tenant.patch(`/users/${person.userId}`, body)
    await patch({ status: 'suspended' })
    expect(await latest(app, person.userId)).toMatchObject({ status: 'canceled', endedBy: 'suspended' })
    const suspended = await app.recover('ada7@example.com')
    expectError(suspended, 403, 'user_suspended')
    await patch({ status: 'active' })
    expect((await app.recover('ada7@example.com')).status).toBe(200)
    await patch({ email: 'grace@example.com' })
    expect(await latest(app, person.userId)).toMatchObject({ status: 'canceled', endedBy: 'email_changed' })
  })
})

test('an account with a second factor is not recovered by waiting, nor one that got it meanwhile', async () => {
  const { service } = mailing
  const app = await newRecoveryApp(mailing)
  const { person } = await app.requested('ada8@example.com')
  await app.wait('ada8@example.com')
  const ready = await app.recover('ada8@example.com')
  await enrol(service, await signInAs(service, app.tenant, { userId: person.userId }))
  expectError(await app.complete(ready.body.data.registration), 410, 'challenge_expired')
  const refused = await app.recover('ada8@example.com')
  expectError(refused, 409, 'recovery_not_needed')
  expect(refused.body.details[0].code).toBe('second_factor')
  // It ended: it does not go on once the factor is gone.
  expect(await latest(app, person.userId)).toMatchObject({ status: 'canceled', endedBy: 'second_factor' })
})
