import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, call, type Service, startService } from '../../../test/harness/harness.ts'
import type { Id } from '../../platform/ids.ts'
import { createChallenge } from '../../platform/security/challenges.ts'
import { eventsOf, newApp, personOf, signInAs } from '../sessions/sessions.fixture.ts'
import {
  type Actor,
  answerWith,
  challengeOf,
  codeNow,
  enrol,
  MINUTE_MS,
  moveOn,
  stepUp,
  wrongCode,
} from './mfa.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const PARALLEL = 20

/** A user with a second factor. */
async function newEnrolled() {
  const tenant = await service.newTenant()
  const ada = await signInAs(service, tenant)
  return { tenant, ada, factor: await enrol(service, ada) }
}

const countOf = (answers: Answer[], code: string) => answers.filter((answer) => answer.body.code === code).length
const won = (answers: Answer[]) => answers.filter((answer) => answer.status === 200)

/** Five wrong codes. */
async function lock(actor: Actor, secret: string): Promise<void> {
  const code = await wrongCode(service, secret)
  for (let left = 4; left >= 0; left -= 1) {
    const [detail] = expectRefusal(await answerWith(actor, { code }), 'invalid_code')
    expect(detail).toMatchObject({ field: 'code', attemptsRemaining: left })
  }
}

describe('a code', () => {
  test('is verified for the session, whose new access token says so', async () => {
    const { ada, factor } = await newEnrolled()
    const answer = await answerWith(ada, { code: await codeNow(service, factor.secret) })
    expect(answer.status, answer.text).toBe(200)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(answer.body.data).toEqual({
      verified: true,
      accessToken: expect.any(String),
      expiresInSeconds: 900,
      mfaExpiresAt: expect.stringMatching(/Z$/),
    })
    const { accessToken, mfaExpiresAt } = answer.body.data
    expect(Date.parse(mfaExpiresAt) - service.deps.now().getTime()).toBeCloseTo(5 * MINUTE_MS, -5)
    const claims = JSON.parse(Buffer.from(accessToken.split('.')[1], 'base64url').toString())
    expect(claims).toMatchObject({ sub: ada.userId, sid: ada.sessionId, aud: ada.appId })
    expect([...claims.amr].sort()).toEqual(['hwk', 'mfa', 'otp', 'user'])
    const later = personOf(service.url, ada.key, ada, { ...ada, accessToken })
    const [session] = (await later.get('/auth/sessions')).body.data
    expect(session).toMatchObject({ id: ada.sessionId, current: true, mfaVerifiedAt: expect.stringMatching(/Z$/) })
  })

  test('counts once, for whatever challenge, session or server', async () => {
    const { tenant, ada, factor } = await newEnrolled()
    const code = await codeNow(service, factor.secret)
    expect((await answerWith(ada, { code })).status).toBe(200)
    const other = await signInAs(service, tenant, { userId: ada.userId })
    const headers = { 'x-user-id': ada.userId }
    const server: Actor = {
      get: (path) => tenant.get(path, { headers }),
      post: (path, body) => tenant.post(path, body, { headers }),
      delete: (path) => tenant.delete(path, { headers }),
    }
    for (const actor of [ada, other, server]) expectRefusal(await answerWith(actor, { code }), 'invalid_code')
  })

  test('counts in the step before and after its own, not further off', async () => {
    const { ada, factor } = await newEnrolled()
    for (const steps of [-2, 2])
      expectRefusal(await answerWith(ada, { code: await codeNow(service, factor.secret, steps) }), 'invalid_code')
    expect((await answerWith(ada, { code: await codeNow(service, factor.secret, -1) })).status).toBe(200)
    moveOn(service, 3)
    expect((await answerWith(ada, { code: await codeNow(service, factor.secret, 1) })).status).toBe(200)
  })

  test('does not count after a later one: the trailing window is no second chance', async () => {
    const { ada, factor } = await newEnrolled()
    const [before, now, next] = await Promise.all([-1, 0, 1].map((steps) => codeNow(service, factor.secret, steps)))
    expect((await answerWith(ada, { code: next as string })).status).toBe(200)
    for (const code of [before, now, next])
      expectRefusal(await answerWith(ada, { code: code as string }), 'invalid_code')
  })

  test('that completed the set-up is used up by that', async () => {
    const ada = await signInAs(service, await service.newTenant())
    const { secret } = (await ada.post('/mfa/setup')).body.data
    const code = await codeNow(service, secret)
    expect((await ada.post('/mfa/verify-setup', { code })).status).toBe(200)
    expectRefusal(await answerWith(ada, { code }), 'invalid_code')
    moveOn(service, 1)
    await stepUp(service, ada, { secret })
  })

  test('sent many times at once counts once', async () => {
    const { ada, factor } = await newEnrolled()
    const code = await codeNow(service, factor.secret)
    const challenges = await Promise.all(Array.from({ length: PARALLEL }, () => challengeOf(ada)))
    const answers = await Promise.all(challenges.map((challengeId) => ada.post('/mfa/verify', { challengeId, code })))
    expect(won(answers)).toHaveLength(1)
    expect(countOf(answers, 'invalid_code')).toBeLessThanOrEqual(5)
  })

  test('under an Idempotency-Key is answered once, and the answer repeated', async () => {
    const { ada, factor } = await newEnrolled()
    const body = { challengeId: await challengeOf(ada), code: await codeNow(service, factor.secret) }
    const asked = () => ada.post('/mfa/verify', body, { headers: { 'idempotency-key': 'once' } })
    const first = await asked()
    const again = await asked()
    expect(again.text).toBe(first.text)
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect(again.headers.get('cache-control')).toBe('no-store')
  })
})

describe('a challenge', () => {
  test('is answered by nobody but its user, in its app, and no other kind of challenge is one', async () => {
    const { tenant, ada, factor } = await newEnrolled()
    const eve = await signInAs(service, tenant)
    const elsewhere = await signInAs(service, tenant, { appId: await newApp(tenant) })
    const stranger = await signInAs(service, await service.newTenant())
    const theirs = [eve, elsewhere, stranger]
    for (const each of theirs) await enrol(service, each)
    const passkey = await createChallenge(service.deps.db, service.deps.now(), {
      tenantId: tenant.tenantId as Id<'ten'>,
      appId: ada.appId as Id<'app'>,
      kind: 'passkey_registration',
      userId: ada.userId as Id<'usr'>,
      data: {},
    })
    const ids = [
      ...(await Promise.all(theirs.map(challengeOf))),
      passkey.id,
      'chl_x',
      '',
      ada.userId,
      `chl_${'0'.repeat(26)}`,
    ]
    const code = await codeNow(service, factor.secret)
    const texts = new Set<string>()
    for (const challengeId of ids) {
      const answer = await ada.post('/mfa/verify', { challengeId, code })
      expectError(answer, 404, 'not_found', challengeId)
      expect(answer.body.details[0].field).toBe('challengeId')
      texts.add(answer.text)
    }
    expect(texts.size).toBe(1)
    // None of that was a guess.
    const answer = await answerWith(ada, { code })
    expect(answer.status, answer.text).toBe(200)
  })

  test('may be answered again after a wrong code, and once rightly', async () => {
    const { ada, factor } = await newEnrolled()
    const challengeId = await challengeOf(ada)
    const wrong = await wrongCode(service, factor.secret)
    expectRefusal(await ada.post('/mfa/verify', { challengeId, code: wrong }), 'invalid_code')
    const code = await codeNow(service, factor.secret)
    expect((await ada.post('/mfa/verify', { challengeId, code })).status).toBe(200)
    moveOn(service, 1)
    const next = await codeNow(service, factor.secret)
    expectError(await ada.post('/mfa/verify', { challengeId, code: next }), 410, 'challenge_expired')
    const [recoveryCode] = factor.recoveryCodes
    expectError(await ada.post('/mfa/verify', { challengeId, recoveryCode }), 410, 'challenge_expired')
    // What was refused for the challenge's sake is not used up.
    expect((await answerWith(ada, { code: next })).status).toBe(200)
  })

  test('ends after five minutes', async () => {
    const { ada, factor } = await newEnrolled()
    const challengeId = await challengeOf(ada)
    service.advance(5 * MINUTE_MS)
    const code = await codeNow(service, factor.secret)
    expectError(await ada.post('/mfa/verify', { challengeId, code }), 410, 'challenge_expired')
  })

  test('answered many times at once is answered once, and the rest are no guesses', async () => {
    const { ada, factor } = await newEnrolled()
    const challengeId = await challengeOf(ada)
    const code = await codeNow(service, factor.secret)
    const answers = await Promise.all(
      Array.from({ length: PARALLEL }, () => ada.post('/mfa/verify', { challengeId, code })),
    )
    expect(won(answers)).toHaveLength(1)
    expect(countOf(answers, 'challenge_expired')).toBe(PARALLEL - 1)
  })

  test('can only be made by a user with a second factor, for whom alone others are not found', async () => {
    const { tenant } = await newEnrolled()
    const eve = await signInAs(service, tenant)
    expectError(await eve.post('/mfa/challenge'), 409, 'mfa_not_enabled')
    expectError(await eve.post('/mfa/verify', { challengeId: 'chl_x', code: '000000' }), 404, 'not_found')
  })
})

describe('guessing', () => {
  test('of a hundred guesses at once, however spread, at most five are heard', async () => {
    const { tenant, ada, factor } = await newEnrolled()
    const sessions = await Promise.all(
      Array.from({ length: 4 }, () => signInAs(service, tenant, { userId: ada.userId })),
    )
    const challenges = await Promise.all(Array.from({ length: 10 }, () => challengeOf(ada)))
    const wrong = await wrongCode(service, factor.secret)
    const right = await codeNow(service, factor.secret)
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, index) => {
        const body = { challengeId: challenges[index % 10], code: index < 95 ? wrong : right }
        const headers: Record<string, string> = index % 3 === 0 ? { 'idempotency-key': `guess ${index}` } : {}
        if (index % 5 === 4)
          return tenant.post('/mfa/verify', body, { headers: { ...headers, 'x-user-id': ada.userId } })
        return (sessions[index % 4] as Actor).post('/mfa/verify', body, { headers })
      }),
    )
    const heard = countOf(answers, 'invalid_code') + won(answers).length
    // A right one among them forgives the wrong ones before it.
    expect(heard).toBeLessThanOrEqual(won(answers).length > 0 ? 10 : 5)
    expect(heard + countOf(answers, 'mfa_locked') + countOf(answers, 'challenge_expired')).toBe(100)
    expect(await eventsOf(service, tenant, 'mfa.locked')).toHaveLength(1)
  })

  test('of a hundred wrong codes at once exactly five are heard, and the lock is told once', async () => {
    const { tenant, ada, factor } = await newEnrolled()
    const challengeId = await challengeOf(ada)
    const code = await wrongCode(service, factor.secret)
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, index) =>
        ada.post('/mfa/verify', { challengeId, code }, { headers: { 'idempotency-key': `guess ${index}` } }),
      ),
    )
    expect(countOf(answers, 'invalid_code')).toBe(5)
    expect(countOf(answers, 'mfa_locked')).toBe(95)
    const [event, ...more] = await eventsOf(service, tenant, 'mfa.locked')
    expect(more).toEqual([])
    expect(event).toEqual({ userId: ada.userId, lockedUntil: expect.stringMatching(/Z$/) })
  })

  test('a locked user is told how long, and the right code is not heard either', async () => {
    const { tenant, ada, factor } = await newEnrolled()
    await lock(ada, factor.secret)
    const code = await codeNow(service, factor.secret)
    const other = await signInAs(service, tenant, { userId: ada.userId })
    for (const proof of [{ code }, { recoveryCode: factor.recoveryCodes[0] as string }]) {
      for (const session of [ada, other]) {
        const answer = await answerWith(session, proof)
        expectError(answer, 429, 'mfa_locked')
        const seconds = Number(answer.headers.get('retry-after'))
        expect(seconds).toBeGreaterThan(14 * 60)
        expect(seconds).toBeLessThanOrEqual(15 * 60)
        const until = Date.parse(answer.body.details[0].lockedUntil) - service.deps.now().getTime()
        expect(Math.abs(until - seconds * 1000)).toBeLessThan(20_000)
      }
    }
    expect((await ada.get('/mfa/status')).body.data.recoveryCodesRemaining).toBe(10)
  })

  test('after 15 minutes, and not before, the owner gets in, and again five can be tried', async () => {
    const { tenant, ada, factor } = await newEnrolled()
    await lock(ada, factor.secret)
    service.advance(14 * MINUTE_MS)
    const later = await signInAs(service, tenant, { userId: ada.userId })
    expectError(await answerWith(later, { code: await codeNow(service, factor.secret) }), 429, 'mfa_locked')
    service.advance(MINUTE_MS)
    await stepUp(service, later, factor)
    await lock(later, factor.secret)
    expectError(await answerWith(later, { code: await codeNow(service, factor.secret) }), 429, 'mfa_locked')
  })

  test('nobody else is locked, and every process knows the lock', async () => {
    const { tenant, ada, factor } = await newEnrolled()
    const eve = await signInAs(service, tenant)
    const theirs = await enrol(service, eve)
    await lock(ada, factor.secret)
    await stepUp(service, eve, theirs)
    const { kekFile } = service.deps.config
    const second = await startService({ DATABASE_URL: service.databaseUrl, HALFKEY_KEK_FILE: kekFile as string })
    try {
      second.advance(service.deps.now().getTime() - Date.now())
      const body = { challengeId: await challengeOf(ada), code: await codeNow(service, factor.secret) }
      const headers = { 'x-user-id': ada.userId }
      const answer = await call(second.url, 'POST', '/v1/mfa/verify', { key: tenant.key, body, headers })
      expectError(answer, 429, 'mfa_locked')
    } finally {
      await second.stop()
    }
  })

  test('a right code forgives the wrong ones before it', async () => {
    const { ada, factor } = await newEnrolled()
    const code = await wrongCode(service, factor.secret)
    for (let round = 0; round < 3; round += 1) {
      for (let guess = 0; guess < 4; guess += 1) expectRefusal(await answerWith(ada, { code }), 'invalid_code')
      await stepUp(service, ada, factor)
    }
  })
})

describe('a recovery code', () => {
  test('verifies once, in whatever form it is typed', async () => {
    const { tenant, ada, factor } = await newEnrolled()
    const forms = [
      (text: string) => text,
      (text: string) => text.toUpperCase(),
      (text: string) => text.replaceAll('-', ''),
      (text: string) => ` ${text.replaceAll('-', ' ')} `,
      (text: string) => text.replaceAll('0', 'o').replaceAll('1', 'l'),
      (text: string) => text.toUpperCase().replaceAll('0', 'O').replaceAll('1', 'I'),
    ]
    // Those with most zeros and ones come last, to be typed with their look-alikes.
    const lookalikes = (code: string) => code.replace(/[^01]/g, '').length
    const codes = factor.recoveryCodes.toSorted((a, b) => lookalikes(a) - lookalikes(b)).slice(-forms.length)
    for (const [index, form] of forms.entries()) {
      const recoveryCode = codes[index] as string
      const answer = await answerWith(ada, { recoveryCode: form(recoveryCode) })
      expect(answer.status, form(recoveryCode)).toBe(200)
      const [detail] = expectRefusal(await answerWith(ada, { recoveryCode }), 'invalid_code')
      expect(detail.field).toBe('recoveryCode')
    }
    expect(await eventsOf(service, tenant, 'mfa.recovery_code_used')).toEqual(
      forms.map((_, index) => ({ userId: ada.userId, recoveryCodesRemaining: 9 - index })),
    )
  })

  test('is named in the amr of the session as what it is: something known', async () => {
    const { ada, factor } = await newEnrolled()
    const answer = await answerWith(ada, { recoveryCode: factor.recoveryCodes[0] as string })
    const claims = JSON.parse(Buffer.from(answer.body.data.accessToken.split('.')[1], 'base64url').toString())
    expect(claims.amr).toEqual(expect.arrayContaining(['kba', 'mfa']))
  })

  test("that is another user's, or none, is wrong and counts as a guess", async () => {
    const { tenant, ada, factor } = await newEnrolled()
    const eve = await signInAs(service, tenant)
    const theirs = await enrol(service, eve)
    const wrong = [
      theirs.recoveryCodes[0] as string,
      'x',
      '0000-0000-0000-0000',
      factor.secret,
      `${factor.recoveryCodes[0]}0`,
    ]
    for (const recoveryCode of wrong) expectRefusal(await answerWith(ada, { recoveryCode }), 'invalid_code')
    expectError(await answerWith(ada, { recoveryCode: factor.recoveryCodes[0] as string }), 429, 'mfa_locked')
    // Hers still is.
    expect((await answerWith(eve, { recoveryCode: theirs.recoveryCodes[0] as string })).status).toBe(200)
  })

  test('sent many times at once counts once', async () => {
    const { tenant, ada, factor } = await newEnrolled()
    const challenges = await Promise.all(Array.from({ length: PARALLEL }, () => challengeOf(ada)))
    const answers = await Promise.all(
      challenges.map((challengeId) => ada.post('/mfa/verify', { challengeId, recoveryCode: factor.recoveryCodes[0] })),
    )
    expect(won(answers)).toHaveLength(1)
    expect(await eventsOf(service, tenant, 'mfa.recovery_code_used')).toHaveLength(1)
  })

  test('is offered only while some are left', async () => {
    const { ada, factor } = await newEnrolled()
    for (const recoveryCode of factor.recoveryCodes) expect((await answerWith(ada, { recoveryCode })).status).toBe(200)
    expect((await ada.get('/mfa/status')).body.data).toMatchObject({
      enabled: true,
      methods: ['totp'],
      recoveryCodesRemaining: 0,
    })
    expect((await ada.post('/mfa/challenge')).body.data.methods).toEqual(['totp'])
  })
})
