import { afterAll, beforeAll, expect, test } from 'vitest'
import { newAuthenticator, register } from '../../../test/harness/authenticator.ts'
import { expectError } from '../../../test/harness/envelope.ts'
import { eventually } from '../../../test/harness/harness.ts'
import { type MailingService, startMailing, wrongFor } from '../email-sign-in/email.fixture.ts'
import { personOf, publishableKey, signInAs } from '../sessions/sessions.fixture.ts'
import { cancelTokenIn, HOUR_MS, latest, newRecoveryApp } from './recovery.fixture.ts'

let mailing: MailingService
beforeAll(async () => {
  mailing = await startMailing({ HALFKEY_RECORDS: 'enforced' })
})
afterAll(() => mailing.stop())

/** A recovery whose wait is over, and the challenge of its passkey. */
async function ready(email: string) {
  const app = await newRecoveryApp(mailing)
  const asked = await app.requested(email)
  await app.wait(email)
  const answer = await app.recover(email)
  expect(answer.status, answer.text).toBe(200)
  expect(answer.body.data.recovery.status).toBe('ready')
  return { app, ...asked, registration: answer.body.data.registration }
}

test('what is answered to a start says nothing about who has the address, and only confirmed ones get a code', async () => {
  const testCodes = [{ email: 'review@example.com', code: '424242' }]
  const app = await newRecoveryApp(mailing)
  await app.tenant.patch(`/apps/${app.tenant.appId}`, { email: { testCodes } })
  await app.account('known@example.com')
  await app.tenant.post('/users', { email: 'named@example.com' })
  const reviewed = await app.start('review@example.com')
  expect((await app.verify(reviewed.body.data.challengeId, '424242')).status).toBe(200)
  const shapes = []
  for (const email of ['known@example.com', 'named@example.com', 'review@example.com', 'nobody@example.com']) {
    const started = await app.start(email, { purpose: 'recovery' })
    const { challengeId } = started.body.data
    const answers = [started]
    for (const code of ['424242', wrongFor('424242')])
      answers.push(await app.tenant.post('/auth/email/recovery', { challengeId, code }, { key: app.key }))
    shapes.push(
      answers.map(({ status, text }) => [status, text.replace(/chl_\w+/g, 'chl').replace(/\d{4}-[\dT:.-]+Z/g, 'time')]),
    )
  }
  for (const shape of shapes) expect(shape).toEqual(shapes[0])
  await mailing.smtp.next('known@example.com')
  const sent = await eventually('the emails', async () => {
    const { data } = (await app.tenant.get('/emails?page_size=50')).body
    const found = data.filter(({ purpose }: { purpose: string }) => purpose === 'recovery')
    return found.some(({ status }: { status: string }) => status === 'queued') ? undefined : found
  })
  expect(sent.map(({ address, status }: Record<string, string>) => `${address} ${status}`).sort()).toEqual([
    'known@example.com sent',
    'named@example.com skipped',
    'nobody@example.com skipped',
    'review@example.com skipped',
  ])
})

test('a code is for one purpose, one app and one use', async () => {
  const app = await newRecoveryApp(mailing)
  await app.account('purpose@example.com')
  const recover = (challengeId: string, code: string, key = app.key) =>
    app.tenant.post('/auth/email/recovery', { challengeId, code }, { key })
  const signIn = await app.ask('purpose@example.com')
  expectError(await recover(signIn.challengeId, signIn.code), 404, 'not_found')
  const { challengeId, code } = await app.ask('purpose@example.com', { purpose: 'recovery' })
  expectError(await app.verify(challengeId, code), 404, 'not_found')
  const otherApp = (await app.tenant.post('/apps', { name: 'Two' })).body.data.id
  expectError(await recover(challengeId, code, await publishableKey(app.tenant, otherApp)), 404, 'not_found')
  const other = await mailing.service.newTenant()
  expectError(await other.post('/auth/email/recovery', { challengeId, code }), 404, 'not_found')
  const answers = await Promise.all([1, 2, 3, 4].map(() => recover(challengeId, code)))
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 410, 410, 410])
  const linkUrl = `http://localhost:${mailing.service.deps.config.port}/signin?app=${app.tenant.appId}`
  expectError(await app.start('purpose@example.com', { purpose: 'recovery', linkUrl }), 400, 'validation_failed')
})

test('a recovery cannot wait for a passkey that is yet to come', async () => {
  const { service } = mailing
  const app = await newRecoveryApp(mailing)
  const signedIn = await app.signIn('early@example.com')
  const refused = await app.recover('early@example.com')
  expectError(refused, 409, 'recovery_not_needed')
  expect(refused.body.details[0].code).toBe('no_passkey')
  const who = { userId: signedIn.user.id, appId: signedIn.user.appId }
  const weak = personOf(service.url, app.key, who, signedIn)
  await register({ url: service.url, key: app.key }, {}, { headers: weak.bearer })
  const { recovery } = (await app.recover('early@example.com')).body.data
  expect(recovery.status).toBe('pending')
  // The owner is there, and adds another one.
  const strong = await signInAs(service, app.tenant, { userId: who.userId })
  await register({ url: service.url, key: app.key }, {}, { headers: strong.bearer, authenticator: newAuthenticator() })
  expect(await latest(app, who.userId)).toMatchObject({ status: 'canceled', endedBy: 'passkey' })
})

test('of parallel completions one has a passkey, and a challenge of one that was canceled has none', async () => {
  const { app, registration, person, recoveryId } = await ready('parallel@example.com')
  const second = (await app.recover('parallel@example.com')).body.data.registration
  const answers = await Promise.all([app.complete(registration), app.complete(second)])
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 410])
  expect(await latest(app, person.userId)).toMatchObject({ id: recoveryId, status: 'completed' })
  expectError(await app.complete(registration), 410, 'challenge_expired')

  const other = await ready('late@example.com')
  const key = other.app.key
  const token = cancelTokenIn(other.notice)
  expect((await other.app.tenant.post('/auth/email/recovery/cancel', { token }, { key })).status).toBe(200)
  expectError(await other.app.complete(other.registration), 410, 'challenge_expired')
  expect((await other.app.tenant.get(`/users/${other.person.userId}/passkeys`)).body.data).toHaveLength(1)
})

test('a link of another app or tenant cancels nothing, nor does another user', async () => {
  const app = await newRecoveryApp(mailing)
  const { notice, person } = await app.requested('linked@example.com')
  const token = cancelTokenIn(notice)
  const other = await mailing.service.newTenant()
  expectError(await other.post('/auth/email/recovery/cancel', { token }), 404, 'not_found')
  const otherApp = (await app.tenant.post('/apps', { name: 'Two' })).body.data.id
  const key = await publishableKey(app.tenant, otherApp)
  expectError(await app.tenant.post('/auth/email/recovery/cancel', { token }, { key }), 404, 'not_found')
  const mallory = await signInAs(mailing.service, app.tenant)
  expectError(await mallory.post('/auth/email/recovery/cancel', {}), 404, 'not_found')
  expect((await mallory.get('/auth/email/recoveries')).body.data).toEqual([])
  for (const wrong of ['', 'x', 'rcv_01jb2m7x9kq4t8v6w0r3s5y1zw', `${token}x`, token.toUpperCase(), '𝒳'.repeat(50)])
    expect((await app.tenant.post('/auth/email/recovery/cancel', { token: wrong })).status, wrong).toBeOneOf([400, 404])
  expectError(await other.get(`/users/${person.userId}/recoveries`), 404, 'not_found')
  expect((await latest(app, person.userId)).status).toBe('pending')
})

test('a new address waits anew, and the old one gets nowhere', async () => {
  const { app, registration, person } = await ready('old@example.com')
  await app.tenant.patch(`/users/${person.userId}`, { email: 'new@example.com' })
  expectError(await app.complete(registration), 410, 'challenge_expired')
  const old = await app.start('old@example.com', { purpose: 'recovery' })
  expect(old.status).toBe(200)
  // Nor is an address recovered that its user never confirmed.
  await app.start('new@example.com', { purpose: 'recovery' })
  expect((await app.tenant.get('/emails')).body.data[0]).toMatchObject({
    address: 'new@example.com',
    status: 'skipped',
  })
})

test('an account can be asked for three times in thirty days', async () => {
  const app = await newRecoveryApp(mailing)
  const { person } = await app.account('tired@example.com')
  for (let time = 0; time < 3; time += 1) {
    expect((await app.recover('tired@example.com')).status).toBe(200)
    await mailing.smtp.next('tired@example.com')
    const strong = await signInAs(mailing.service, app.tenant, { userId: person.userId })
    expect((await strong.post('/auth/email/recovery/cancel', {})).status).toBe(200)
    mailing.service.advance(HOUR_MS)
  }
  const refused = await app.recover('tired@example.com')
  expectError(refused, 429, 'rate_limited')
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(29 * 24 * 3_600)
})

test('one that nobody came for within a week expires, and the next one waits again', async () => {
  const { app, person, registration } = await ready('slow@example.com')
  mailing.service.advance(8 * 24 * HOUR_MS)
  mailing.service.deps.wake.tasks()
  const again = (await app.recover('slow@example.com')).body.data
  expect(again.recovery.status).toBe('pending')
  const list = (await app.tenant.get(`/users/${person.userId}/recoveries`)).body.data
  expect(list.map(({ status }: { status: string }) => status)).toEqual(['pending', 'expired'])
  expectError(await app.complete(registration), 410, 'challenge_expired')
})

test('an app that turns it off completes none', async () => {
  const { app, registration } = await ready('off@example.com')
  await app.tenant.patch(`/apps/${app.tenant.appId}`, { emailRecovery: { enabled: false } })
  expectError(await app.complete(registration), 404, 'email_recovery_disabled')
  expectError(await app.start('off@example.com', { purpose: 'recovery' }), 404, 'email_recovery_disabled')
  for (const waitHours of [23, 721, 24.5, '72'])
    expectError(
      await app.tenant.patch(`/apps/${app.tenant.appId}`, { emailRecovery: { waitHours } }),
      400,
      'validation_failed',
    )
})

test('one whose notices are held back never becomes ready', async () => {
  const { service } = mailing
  const app = await newRecoveryApp(mailing)
  const { recoveryId } = await app.requested('silent@example.com')
  // When a notice is due is not in the row's MAC.
  await service.sql('update email_recoveries set due_at = null where id = $1', [recoveryId])
  service.advance(80 * HOUR_MS)
  const { recovery, registration } = (await app.recover('silent@example.com')).body.data
  expect(recovery).toMatchObject({ id: recoveryId, status: 'pending' })
  expect(registration).toBeNull()
})

test('a frozen wallet stays frozen', async () => {
  const { app, registration, person } = await ready('frozen@example.com')
  const headers = { 'x-user-id': person.userId }
  const wallet = (await app.tenant.post('/users/me/wallet', {}, { headers })).body.data.id
  await app.tenant.post(`/wallets/${wallet}/freeze`, {})
  expect((await app.complete(registration)).status).toBe(200)
  expect((await app.tenant.get(`/wallets/${wallet}`)).body.data.status).toBe('frozen')
})

test('a row that was changed or put back in the database opens nothing', async () => {
  const { service } = mailing
  const app = await newRecoveryApp(mailing)
  const { person, recoveryId } = await app.requested('rows@example.com')
  const columns = 'status, available_at, expires_at, told_at, reminded_at, due_at, version, mac'
  const [before] = await service.sql<{ mac: Buffer }>(`select ${columns} from email_recoveries where id = $1`, [
    recoveryId,
  ])
  const put = (row: object) =>
    service.sql(
      `update email_recoveries set (${columns}) = (select ${columns} from jsonb_populate_record(null::email_recoveries, $2))
       where id = $1`,
      [recoveryId, JSON.stringify(row)],
    )
  const asJson = { ...before, mac: `\\x${before?.mac.toString('hex')}` }
  await put({ ...asJson, available_at: new Date(0), told_at: new Date(0), reminded_at: new Date(0), due_at: null })
  expectError(await app.recover('rows@example.com'), 500, 'record_tampered')

  await put(asJson)
  const strong = await signInAs(service, app.tenant, { userId: person.userId })
  expect((await strong.post('/auth/email/recovery/cancel', {})).status).toBe(200)
  await put(asJson)
  service.deps.db.records.forgetVersions()
  expectError(await app.recover('rows@example.com'), 500, 'record_tampered')
  await strong.post('/auth/email/recovery/cancel', {})

  // A worker that finds one ends it.
  const other = await app.requested('worker@example.com')
  await service.sql(
    "update email_recoveries set available_at = now() - interval '9 days', due_at = now() where id = $1",
    [other.recoveryId],
  )
  service.advance(HOUR_MS)
  service.deps.wake.tasks()
  await eventually('the end', async () => {
    const rows = await service.sql<{ status: string; ended_by: string }>(
      'select status, ended_by from email_recoveries where id = $1',
      [other.recoveryId],
    )
    return (rows[0]?.status === 'canceled' && rows[0].ended_by === 'tampered') || undefined
  })
})
