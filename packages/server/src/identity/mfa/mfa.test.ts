import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { dump, eventsOf, newApp, personOf, publishableKey, signInAs } from '../sessions/sessions.fixture.ts'
import { answerWith, challengeOf, codeNow, enrol, MINUTE_MS, moveOn, stepUp, wrongCode } from './mfa.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const OFF = { enabled: false, methods: [], recoveryCodesRemaining: 0, enabledAt: null }
const PARALLEL = 20

describe('setting a second factor up', () => {
  test('answers a secret of 160 bits, its URL and its QR code, and nothing is enabled yet', async () => {
    const tenant = await service.newTenant()
    const appId = await newApp(tenant, { name: 'Shop: Berlin & Co' })
    const ada = await signInAs(service, tenant, { appId, email: 'ada@example.com', name: 'Ada' })
    const answer = await ada.post('/mfa/setup')
    expect(answer.status, answer.text).toBe(200)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    const { secret, otpauthUrl, qrSvg, expiresAt } = answer.body.data
    expect(secret).toMatch(/^[A-Z2-7]{32}$/)
    const url = new URL(otpauthUrl)
    expect(decodeURIComponent(url.pathname)).toBe('/Shop Berlin & Co:ada@example.com')
    expect(Object.fromEntries(url.searchParams)).toMatchObject({ issuer: 'Shop Berlin & Co', secret, digits: '6' })
    expect(Date.parse(expiresAt) - service.deps.now().getTime()).toBeCloseTo(10 * MINUTE_MS, -5)
    expect(qrSvg).toMatch(
      /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" viewBox="0 0 \d+ \d+"[^>]*><path fill="#ffffff"/,
    )
    expect(qrSvg).not.toMatch(/href|<script|<image|<style|url\(|@import|<!/i)
    expect((await ada.get('/mfa/status')).body.data).toEqual(OFF)
    expect((await tenant.get(`/users/${ada.userId}`)).body.data.mfaEnabled).toBe(false)
    expectError(await ada.post('/mfa/challenge'), 409, 'mfa_not_enabled')
  })

  test('names the entry by the email, else the name, else the id of the user', async () => {
    const tenant = await service.newTenant()
    const labelOf = async (who: object) => {
      const person = await signInAs(service, tenant, who)
      const { otpauthUrl } = (await person.post('/mfa/setup')).body.data
      return [decodeURIComponent(new URL(otpauthUrl).pathname).split(':')[1], person.userId]
    }
    expect((await labelOf({ email: 'a+b@example.com', name: 'Ada' }))[0]).toBe('a+b@example.com')
    expect((await labelOf({ name: 'Ada L' }))[0]).toBe('Ada L')
    const [label, id] = await labelOf({})
    expect(label).toBe(id)
  })

  test('is completed by the first code, and answers ten recovery codes of 80 bits', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const { secret } = (await ada.post('/mfa/setup')).body.data
    const answer = await ada.post('/mfa/verify-setup', { code: await codeNow(service, secret) })
    expect(answer.status, answer.text).toBe(200)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    const { recoveryCodes } = answer.body.data
    expect(new Set(recoveryCodes).size).toBe(10)
    for (const code of recoveryCodes) expect(code).toMatch(/^[0-9a-hjkmnp-tv-z]{4}(-[0-9a-hjkmnp-tv-z]{4}){3}$/)
    const status = (await ada.get('/mfa/status')).body.data
    expect(status).toEqual({
      enabled: true,
      methods: ['totp', 'recovery_code'],
      recoveryCodesRemaining: 10,
      enabledAt: expect.stringMatching(/Z$/),
    })
    expect((await tenant.get(`/users/${ada.userId}`)).body.data.mfaEnabled).toBe(true)
    expect(await eventsOf(service, tenant, 'mfa.enabled')).toEqual([{ userId: ada.userId }])
  })

  test('a second set-up replaces the pending one, whose codes no longer count', async () => {
    const ada = await signInAs(service, await service.newTenant())
    const first = (await ada.post('/mfa/setup')).body.data
    const second = (await ada.post('/mfa/setup')).body.data
    expect(second.secret).not.toBe(first.secret)
    const stale = await ada.post('/mfa/verify-setup', { code: await codeNow(service, first.secret) })
    expect(expectRefusal(stale, 'invalid_code')[0]).toMatchObject({ field: 'code', attemptsRemaining: 4 })
    const right = await ada.post('/mfa/verify-setup', { code: await codeNow(service, second.secret) })
    expect(right.status).toBe(200)
  })

  test('an active factor is never replaced by a set-up', async () => {
    const ada = await signInAs(service, await service.newTenant())
    const factor = await enrol(service, ada)
    expectError(await ada.post('/mfa/setup'), 409, 'mfa_already_enabled')
    const again = await ada.post('/mfa/verify-setup', { code: await codeNow(service, factor.secret) })
    expectError(again, 409, 'mfa_already_enabled')
    await stepUp(service, ada, factor)
    const spent = await answerWith(ada, { recoveryCode: factor.recoveryCodes[0] as string })
    expect(spent.status).toBe(200)
  })

  test('by many first codes at once happens once, with one set of recovery codes', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const { secret } = (await ada.post('/mfa/setup')).body.data
    const code = await codeNow(service, secret)
    const verified = await Promise.all(Array.from({ length: PARALLEL }, () => ada.post('/mfa/verify-setup', { code })))
    expect(verified.filter((answer) => answer.status === 200)).toHaveLength(1)
    expect(verified.filter((answer) => answer.body.code === 'mfa_already_enabled')).toHaveLength(PARALLEL - 1)
    expect(await eventsOf(service, tenant, 'mfa.enabled')).toHaveLength(1)
    const stored = await service.sql('select 1 from recovery_codes where user_id = $1', [ada.userId])
    expect(stored).toHaveLength(10)
  })

  test('is not replaced by a set-up that runs at the same moment as its first code', async () => {
    const tenant = await service.newTenant()
    for (let round = 0; round < 5; round += 1) {
      const ada = await signInAs(service, tenant)
      const { secret } = (await ada.post('/mfa/setup')).body.data
      const code = await codeNow(service, secret)
      const answers = await Promise.all([
        ...Array.from({ length: PARALLEL }, () => ada.post('/mfa/setup')),
        ada.post('/mfa/verify-setup', { code }),
      ])
      const enabled = answers.at(-1)?.status === 200
      expect((await ada.get('/mfa/status')).body.data.enabled).toBe(enabled)
      moveOn(service, 1)
      if (enabled) await stepUp(service, ada, { secret })
    }
  })

  test('there is nothing to complete before a set-up, nor after ten minutes', async () => {
    const ada = await signInAs(service, await service.newTenant())
    expectError(await ada.post('/mfa/verify-setup', { code: '000000' }), 409, 'mfa_setup_not_started')
    const { secret } = (await ada.post('/mfa/setup')).body.data
    service.advance(10 * MINUTE_MS)
    const late = await ada.post('/mfa/verify-setup', { code: await codeNow(service, secret) })
    expectError(late, 410, 'mfa_setup_expired')
    expect((await ada.get('/mfa/status')).body.data).toEqual(OFF)
  })

  test('needs a sign-in within five minutes: a stolen token does not enrol a factor of its own', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    service.advance(5 * MINUTE_MS + 1000)
    expectError(await ada.post('/mfa/setup'), 403, 'reauthentication_required')
    const refreshed = await tenant.post('/auth/refresh', { refreshToken: ada.refreshToken })
    const later = personOf(service.url, ada.key, ada, refreshed.body.data)
    // Refreshing is no sign-in.
    expectError(await later.post('/mfa/setup'), 403, 'reauthentication_required')
    const again = await signInAs(service, tenant, { userId: ada.userId })
    expect((await again.post('/mfa/setup')).status).toBe(200)
    expectError(await ada.post('/mfa/setup'), 403, 'reauthentication_required')
  })

  test('wrong first codes count for the lock, which a new set-up does not lift', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const { secret } = (await ada.post('/mfa/setup')).body.data
    const wrong = await wrongCode(service, secret)
    for (let left = 4; left >= 0; left -= 1) {
      const [detail] = expectRefusal(await ada.post('/mfa/verify-setup', { code: wrong }), 'invalid_code')
      expect(detail.attemptsRemaining).toBe(left)
    }
    expectError(await ada.post('/mfa/verify-setup', { code: await codeNow(service, secret) }), 429, 'mfa_locked')
    const next = (await ada.post('/mfa/setup')).body.data
    expectError(await ada.post('/mfa/verify-setup', { code: await codeNow(service, next.secret) }), 429, 'mfa_locked')
    expect(await eventsOf(service, tenant, 'mfa.locked')).toHaveLength(1)
    service.advance(15 * MINUTE_MS)
    const again = await signInAs(service, tenant, { userId: ada.userId })
    await enrol(service, again)
  })

  test('a guest can have a second factor too', async () => {
    const tenant = await service.newTenant()
    const key = await publishableKey(tenant)
    const made = (await tenant.post('/guests', {}, { key })).body.data
    const guest = personOf(service.url, key, { userId: made.userId, appId: tenant.appId }, made)
    const factor = await enrol(service, guest)
    await stepUp(service, guest, factor)
  })
})

describe('what is stored', () => {
  test('of secrets and codes a database dump and the log hold nothing that is of use', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const keyed = (name: string) => ({ headers: { 'idempotency-key': name } })
    const { secret } = (await ada.post('/mfa/setup', undefined, keyed('setup'))).body.data
    const repeated = await ada.post('/mfa/setup', undefined, keyed('setup'))
    expect(repeated.body.data.secret).toBe(secret)
    const code = await codeNow(service, secret)
    const { recoveryCodes } = (await ada.post('/mfa/verify-setup', { code }, keyed('first'))).body.data
    moveOn(service, 1)
    const verified = await answerWith(ada, { code: await codeNow(service, secret) })
    const spent = recoveryCodes[0] as string
    expect((await answerWith(ada, { recoveryCode: spent })).status).toBe(200)
    expectRefusal(await answerWith(ada, { recoveryCode: spent }), 'invalid_code')
    const raw = Buffer.from(base32Bytes(secret))
    const secrets = [
      secret,
      raw.toString('hex'),
      raw.toString('base64'),
      verified.body.data.accessToken.split('.')[2],
      ...recoveryCodes,
      ...recoveryCodes.map((each: string) => each.replaceAll('-', '')),
    ]
    const texts = { dump: await dump(service), log: service.logs() }
    expect(texts.dump).toContain(ada.userId)
    for (const [place, text] of Object.entries(texts))
      for (const each of secrets) expect(text.includes(each), `${place}: ${each}`).toBe(false)
  })

  function base32Bytes(text: string): number[] {
    const bits = [...text].map((each) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(each).toString(2).padStart(5, '0'))
    return (bits.join('').match(/.{8}/g) as string[]).map((byte) => Number.parseInt(byte, 2))
  }

  test("a sealed secret that is moved to another user's row opens for nobody", async () => {
    const tenant = await service.newTenant()
    const [ada, eve] = [await signInAs(service, tenant), await signInAs(service, tenant)]
    const [, theirs] = [await enrol(service, ada), await enrol(service, eve)]
    await service.sql(
      'update mfa_factors set secret_sealed = (select secret_sealed from mfa_factors where user_id = $1) where user_id = $2',
      [eve.userId, ada.userId],
    )
    expectError(await ada.post('/mfa/challenge'), 500, 'record_tampered')
    // Even if the MACs said otherwise.
    await service.recode()
    const answer = await answerWith(ada, { code: await codeNow(service, theirs.secret) })
    expectError(answer, 500, 'internal_error')
  })
})

describe('disabling it', () => {
  test('takes a fresh verification, and leaves nothing of the factor', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const factor = await enrol(service, ada)
    const open = await challengeOf(ada)
    service.advance(5 * MINUTE_MS)
    expectError(await ada.delete('/mfa'), 403, 'mfa_required')
    await stepUp(service, ada, factor)
    const answer = await ada.delete('/mfa')
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body.data).toEqual(OFF)
    expect((await ada.get('/mfa/status')).body.data).toEqual(OFF)
    expect((await tenant.get(`/users/${ada.userId}`)).body.data.mfaEnabled).toBe(false)
    expect(await eventsOf(service, tenant, 'mfa.disabled')).toEqual([{ userId: ada.userId }])
    expectError(await ada.delete('/mfa'), 409, 'mfa_not_enabled')
    const late = await ada.post('/mfa/verify', { challengeId: open, code: await codeNow(service, factor.secret) })
    expectError(late, 409, 'mfa_not_enabled')
    const rows = await service.sql(
      'select 1 from mfa_factors where user_id = $1 union all select 1 from recovery_codes where user_id = $1',
      [ada.userId],
    )
    expect(rows).toEqual([])
  })

  test('and set up again, it is another factor: no old code or recovery code counts, and nothing is verified', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const old = await enrol(service, ada)
    const other = await signInAs(service, tenant, { userId: ada.userId })
    await stepUp(service, other, old)
    await stepUp(service, ada, old)
    expect((await ada.delete('/mfa')).status).toBe(200)
    const again = await signInAs(service, tenant, { userId: ada.userId })
    const factor = await enrol(service, again)
    // What the sessions had verified was the old factor.
    for (const session of [ada, other]) expectError(await session.delete('/mfa'), 403, 'mfa_required')
    expectRefusal(await answerWith(ada, { code: await codeNow(service, old.secret) }), 'invalid_code')
    expectRefusal(await answerWith(ada, { recoveryCode: old.recoveryCodes[0] as string }), 'invalid_code')
    await stepUp(service, ada, factor)
  })

  test('many times at once happens once', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    await enrol(service, ada)
    const answers = await Promise.all(Array.from({ length: PARALLEL }, () => ada.delete('/mfa')))
    expect(answers.filter((answer) => answer.status === 200)).toHaveLength(1)
    expect(answers.filter((answer) => answer.body.code === 'mfa_not_enabled')).toHaveLength(PARALLEL - 1)
    expect(await eventsOf(service, tenant, 'mfa.disabled')).toHaveLength(1)
  })

  test('a user who is deleted in the middle of it all goes with the factor', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const factor = await enrol(service, ada)
    const wrong = await wrongCode(service, factor.secret)
    const challengeId = await challengeOf(ada)
    const [deleted, ...answers] = await Promise.all([
      tenant.delete(`/users/${ada.userId}`),
      ...Array.from({ length: PARALLEL }, () => ada.post('/mfa/verify', { challengeId, code: wrong })),
      ada.delete('/mfa'),
    ])
    expect(deleted?.status).toBe(200)
    // 409: the user went between the look at the session and that at the factor.
    for (const answer of answers) expect([200, 400, 401, 409, 429], answer.text).toContain(answer.status)
    expect(await service.sql('select 1 from mfa_factors where user_id = $1', [ada.userId])).toEqual([])
  })
})

describe('what is asked', () => {
  test('a code is six digits; anything else is refused without being counted', async () => {
    const ada = await signInAs(service, await service.newTenant())
    const factor = await enrol(service, ada)
    const challengeId = await challengeOf(ada)
    const wrong = [
      '',
      '12345',
      '1234567',
      '12 345',
      'abcdef',
      '123456\n',
      '１２３４５６',
      '-12345',
      '1e5000',
      123456,
      null,
      {},
    ]
    for (const code of wrong) {
      for (const [path, body] of [
        ['/mfa/verify', { challengeId, code }],
        ['/mfa/verify-setup', { code }],
      ] as const)
        expect(expectRefusal(await ada.post(path, body), 'validation_failed')[0].field, `${code}`).toBe('code')
    }
    await stepUp(service, ada, factor)
  })

  test('exactly one of code and recoveryCode answers a challenge', async () => {
    const ada = await signInAs(service, await service.newTenant())
    const factor = await enrol(service, ada)
    const challengeId = await challengeOf(ada)
    const [code, recoveryCode] = [await codeNow(service, factor.secret), factor.recoveryCodes[0]]
    for (const proof of [{}, { code, recoveryCode }])
      expect(expectRefusal(await ada.post('/mfa/verify', { challengeId, ...proof }), 'validation_failed')).toHaveLength(
        1,
      )
    const [detail] = expectRefusal(await ada.post('/mfa/verify', { code }), 'validation_failed')
    expect(detail.field).toBe('challengeId')
    expect((await ada.get('/mfa/status')).body.data.recoveryCodesRemaining).toBe(10)
    await stepUp(service, ada, factor)
  })

  test('a purpose is told back, of at most 100 characters', async () => {
    const ada = await signInAs(service, await service.newTenant())
    await enrol(service, ada)
    const asked = async (body?: object) => (await ada.post('/mfa/challenge', body)).body.data
    expect(await asked()).toEqual({
      challengeId: expect.stringMatching(/^chl_/),
      methods: ['totp', 'recovery_code'],
      purpose: null,
      expiresAt: expect.stringMatching(/Z$/),
    })
    expect((await asked({ purpose: 'withdrawal' })).purpose).toBe('withdrawal')
    for (const purpose of ['', 'x'.repeat(101), 7]) {
      const [detail] = expectRefusal(await ada.post('/mfa/challenge', { purpose }), 'validation_failed')
      expect(detail.field).toBe('purpose')
    }
  })
})
