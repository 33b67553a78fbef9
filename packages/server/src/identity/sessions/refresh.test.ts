import { createPrivateKey } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { settingsFor } from '../../../test/harness/environment.ts'
import { type Answer, newDatabase, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { query } from '../../../test/harness/service-process.ts'
import { type Id, newId } from '../../platform/ids.ts'
import { open } from '../../platform/security/crypto.ts'
import { bearer, newGuest } from '../guests/guests.fixture.ts'
import { newRefreshToken } from './refresh-token-format.ts'
import { dump, eventsOf, newApp, type Person, personOf, publishableKey, signInAs } from './sessions.fixture.ts'

/** Its clocks are set forward on every 15 March, at 7 o'clock UTC. */
const ZONE = 'EST5EDT,J74,J305'

let service: Service
let database: Awaited<ReturnType<typeof newDatabase>>
beforeAll(async () => {
  database = await newDatabase('migrated')
  await query(
    { connectionString: database.url },
    `alter database ${new URL(database.url).pathname.slice(1)} set timezone = '${ZONE}'`,
  )
  service = await startService(settingsFor(database.url))
})
afterAll(async () => {
  await service.stop()
  await database.drop()
})

const PARALLEL = 20
const DAY_MS = 24 * 3_600_000

const refresh = (tenant: Tenant, refreshToken: unknown, key = tenant.key, headers: Record<string, string> = {}) =>
  tenant.post('/auth/refresh', { refreshToken }, { key, headers })

/** The next tokens. */
async function refreshed(tenant: Tenant, refreshToken: string): Promise<Person> {
  const answer = await refresh(tenant, refreshToken)
  expect(answer.status, answer.text).toBe(200)
  return answer.body.data
}

const isLive = async (person: Person, accessToken = person.accessToken) =>
  (await personOf(service.url, person.key, person, { ...person, accessToken }).get('/auth/sessions')).status === 200

const reuses = (tenant: Tenant) => eventsOf(service, tenant, 'session.reuse_detected')

describe('a refresh token', () => {
  test('is traded for the next one and a new access token of the same session', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    service.advance(20 * 60_000)
    const answer = await refresh(tenant, ada.refreshToken, ada.key)
    expect(answer.status, answer.text).toBe(200)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(answer.body.data).toEqual({
      accessToken: expect.stringMatching(/^ey/),
      refreshToken: expect.stringMatching(/^hk_rt_/),
      tokenType: 'Bearer',
      expiresInSeconds: 900,
      sessionId: ada.sessionId,
    })
    expect(answer.body.data.refreshToken).not.toBe(ada.refreshToken)
    expect(await isLive(ada)).toBe(false)
    expect(await isLive(ada, answer.body.data.accessToken)).toBe(true)
    const claims = JSON.parse(Buffer.from(answer.body.data.accessToken.split('.')[1], 'base64url').toString())
    // When the user signed in, not when the token was made.
    expect(claims.iat - claims.auth_time).toBeGreaterThanOrEqual(20 * 60)
  })

  test('answers the same successor again for 30 seconds, should the answer be lost', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const first = await refreshed(tenant, ada.refreshToken)
    service.advance(20_000)
    const again = await refreshed(tenant, ada.refreshToken)
    expect(again.refreshToken).toBe(first.refreshToken)
    for (const { accessToken } of [first, again]) expect(await isLive(ada, accessToken)).toBe(true)
    await refreshed(tenant, first.refreshToken)
    expect(await reuses(tenant)).toEqual([])
  })

  test('after 30 seconds is a theft: the session ends, whoever holds what of it', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const next = await refreshed(tenant, ada.refreshToken)
    service.advance(31_000)
    expectError(await refresh(tenant, ada.refreshToken), 401, 'session_revoked')
    for (const accessToken of [ada.accessToken, next.accessToken]) expect(await isLive(ada, accessToken)).toBe(false)
    expectError(await refresh(tenant, next.refreshToken), 401, 'session_revoked')
    expect(await reuses(tenant)).toEqual([{ sessionId: ada.sessionId, userId: ada.userId }])
  })

  test('after its successor was used is a theft, be it within the 30 seconds', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const second = await refreshed(tenant, ada.refreshToken)
    const third = await refreshed(tenant, second.refreshToken)
    const other = await signInAs(service, tenant, { userId: ada.userId })
    expectError(await refresh(tenant, ada.refreshToken), 401, 'session_revoked')
    expect(await isLive(ada, third.accessToken)).toBe(false)
    expect(await isLive(other)).toBe(true)
    // The event is told once, however often the thief tries.
    for (const { refreshToken } of [ada, second, third])
      expectError(await refresh(tenant, refreshToken), 401, 'session_revoked')
    expect(await reuses(tenant)).toEqual([{ sessionId: ada.sessionId, userId: ada.userId }])
    expect(await eventsOf(service, tenant, 'session.revoked')).toEqual([])
  })

  test('ends 30 days after its last use, or when its app says', async () => {
    const tenant = await service.newTenant()
    const appId = await newApp(tenant, { sessions: { refreshTokenDays: 1 } })
    const ada = await signInAs(service, tenant)
    const brief = await signInAs(service, tenant, { appId })
    service.advance(DAY_MS)
    expectError(await refresh(tenant, brief.refreshToken), 401, 'session_expired')
    service.advance(28 * DAY_MS)
    const next = await refreshed(tenant, ada.refreshToken)
    service.advance(29 * DAY_MS)
    const last = await refreshed(tenant, next.refreshToken)
    service.advance(30 * DAY_MS)
    expectError(await refresh(tenant, last.refreshToken), 401, 'session_expired')
    expect(await reuses(tenant)).toEqual([])
  })

  test("lasts whole days of 24 hours, whatever the database's time zone makes of the day", async () => {
    const year = service.deps.now().getUTCFullYear()
    const eves = [year, year + 1].map((each) => Date.parse(`${each}-03-14T18:00Z`) - service.deps.now().getTime())
    service.advance(eves.find((ms) => ms > 0) as number)
    expect(await service.sql(`select current_setting('timezone') as zone`)).toEqual([{ zone: ZONE }])
    const tenant = await service.newTenant()
    const appId = await newApp(tenant, { sessions: { refreshTokenDays: 1 } })
    const ada = await signInAs(service, tenant, { appId })
    const advanced = await refreshed(tenant, (await signInAs(service, tenant, { appId })).refreshToken)
    const guest = await newGuest(tenant, { appId })
    const converted = await tenant.post(
      `/guests/${guest.id}/convert`,
      { externalId: 'c-1' },
      { key: await publishableKey(tenant, appId), headers: bearer(guest) },
    )
    expect(converted.status, converted.text).toBe(200)
    const tokens = [ada.refreshToken, advanced.refreshToken, converted.body.data.refreshToken]
    service.advance(DAY_MS - 30 * 60_000)
    for (const token of tokens) await refreshed(tenant, token)
    service.advance(DAY_MS + 1_000)
    for (const token of tokens) expectError(await refresh(tenant, token), 401, 'session_expired')
  })
})

describe('many at once', () => {
  test('refreshes with one token have one successor, and the session lives', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const answers = await Promise.all(
      Array.from({ length: PARALLEL }, () => refresh(tenant, ada.refreshToken, ada.key)),
    )
    for (const answer of answers) expect(answer.status, answer.text).toBe(200)
    const successors = new Set(answers.map((answer) => answer.body.data.refreshToken))
    expect(successors.size).toBe(1)
    await refreshed(tenant, [...successors][0] as string)
    expect(await reuses(tenant)).toEqual([])
  })

  test('a thief and the owner end the session, in whatever order they come, once', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const second = await refreshed(tenant, ada.refreshToken)
    const tokens = Array.from({ length: PARALLEL }, (_, index) => (index % 2 === 0 ? ada : second).refreshToken)
    const answers = await Promise.all(tokens.map((token) => refresh(tenant, token, ada.key)))
    for (const answer of answers) expect([200, 401], answer.text).toContain(answer.status)
    // The old one after its successor was used, if not in this moment then now.
    expectError(await refresh(tenant, ada.refreshToken), 401, 'session_revoked')
    const handedOut = answers.filter((answer) => answer.status === 200).map((answer) => answer.body.data.accessToken)
    for (const accessToken of handedOut) expect(await isLive(ada, accessToken)).toBe(false)
    expect(await reuses(tenant)).toHaveLength(1)
  })

  test('a log-out among refreshes ends the session for good', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const [out, ...answers] = await Promise.all([
      ada.post('/auth/logout'),
      ...Array.from({ length: PARALLEL }, () => refresh(tenant, ada.refreshToken, ada.key)),
    ])
    expect(out?.body.data).toEqual({ revoked: 1 })
    const won = answers.filter((answer: Answer) => answer.status === 200)
    for (const answer of won) {
      expect(await isLive(ada, answer.body.data.accessToken)).toBe(false)
      expectError(await refresh(tenant, answer.body.data.refreshToken), 401, 'session_revoked')
    }
    for (const answer of answers) if (answer.status !== 200) expectError(answer, 401, 'session_revoked')
  })
})

describe('a made-up refresh token', () => {
  /** By name; none is ours. */
  async function forgeries(ada: Person, other: Person): Promise<Record<string, unknown>> {
    const { refreshToken } = ada
    const [head, session, generation, mac] = refreshToken.split('.') as [string, string, string, string]
    const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    // The last character's two lowest bits are none of the MAC's.
    const twin = mac.slice(0, -1) + ALPHABET[ALPHABET.indexOf(mac.at(-1) as string) ^ 1]
    return {
      'another mac': [head, session, generation, 'A'.repeat(43)].join('.'),
      "another session's mac": [head, session, generation, other.refreshToken.split('.')[3]].join('.'),
      'another text of the same mac': [head, session, generation, twin].join('.'),
      'no mac': [head, session, generation].join('.'),
      'an empty mac': [head, session, generation, ''].join('.'),
      'an earlier generation of no mac': [head, session, '0', mac.toLowerCase()].join('.'),
      'the next generation': [head, session, '1', mac].join('.'),
      'a zero in front': [head, session, '00', mac].join('.'),
      'a negative generation': [head, session, '-1', mac].join('.'),
      'an unknown session': [head, newId('ses'), generation, mac].join('.'),
      'an unknown key': [`hk_rt_${'A'.repeat(16)}`, session, generation, mac].join('.'),
      'a space': `${refreshToken} `,
      'a line': `${refreshToken}\n`,
      'another prefix': refreshToken.replace('hk_rt_', 'hk_xx_'),
      'an access token': ada.accessToken.slice(0, 1024),
      SQL: "' or 1=1 --",
      'the session id': ada.sessionId,
      'one of the future': await newRefreshToken(service.deps, {
        sessionId: ada.sessionId as Id<'ses'>,
        generation: 7,
      }),
      'one of a session that is gone': await newRefreshToken(service.deps, { sessionId: newId('ses'), generation: 0 }),
    }
  }

  test('changes nothing: neither is the session over, nor is its token used', async () => {
    const tenant = await service.newTenant()
    const [ada, other] = [await signInAs(service, tenant), await signInAs(service, tenant)]
    const texts = new Set<string>()
    for (const [what, token] of Object.entries(await forgeries(ada, other))) {
      const answer = await refresh(tenant, token, ada.key)
      expectError(answer, 401, 'session_invalid', what)
      texts.add(answer.text)
    }
    expect(texts.size).toBe(1)
    expect(await isLive(ada)).toBe(true)
    await refreshed(tenant, ada.refreshToken)
    expect(await reuses(tenant)).toEqual([])
  })

  test('that is none at all is a 400 which names the field', async () => {
    const tenant = await service.newTenant()
    for (const refreshToken of [undefined, null, '', 7, {}, ['x'], 'x'.repeat(1025)]) {
      const [detail] = expectRefusal(
        await refresh(tenant, refreshToken),
        'validation_failed',
        JSON.stringify(refreshToken),
      )
      expect(detail.field).toBe('refreshToken')
    }
  })

  test("with the key of another app or tenant is none, and a used one ends nobody's session", async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const stranger = await service.newTenant()
    const otherApp = await newApp(tenant)
    const next = await refreshed(tenant, ada.refreshToken)
    service.advance(60_000)
    const keys = [
      await publishableKey(tenant, otherApp),
      await tenant.newKey({ scopes: ['auth:write'], appId: otherApp }),
      stranger.key,
      await publishableKey(stranger),
    ]
    for (const key of keys)
      for (const token of [ada.refreshToken, next.refreshToken])
        expectError(await refresh(tenant, token, key), 401, 'session_invalid')
    expect(await isLive(ada, next.accessToken)).toBe(true)
    await refreshed(tenant, next.refreshToken)
  })
})

describe('an Idempotency-Key', () => {
  test('answers the same tokens again', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const headers = { 'idempotency-key': 'once' }
    const first = await refresh(tenant, ada.refreshToken, tenant.key, headers)
    service.advance(60_000)
    const again = await refresh(tenant, ada.refreshToken, tenant.key, headers)
    expect(again.text).toBe(first.text)
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect(await isLive(ada, first.body.data.accessToken)).toBe(true)
  })

  test('does not save a session whose token was used twice', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const next = await refreshed(tenant, ada.refreshToken)
    service.advance(60_000)
    const answer = await refresh(tenant, ada.refreshToken, tenant.key, { 'idempotency-key': 'theft' })
    expectError(answer, 401, 'session_revoked')
    expect(await isLive(ada, next.accessToken)).toBe(false)
    expectError(await refresh(tenant, next.refreshToken), 401, 'session_revoked')
    expect(await reuses(tenant)).toHaveLength(1)
  })
})

test('a database dump and the log hold no token, nor what makes one', async () => {
  const tenant = await service.newTenant()
  const ada = await signInAs(service, tenant)
  const keyed = await refresh(tenant, ada.refreshToken, tenant.key, { 'idempotency-key': 'kept' })
  const next = await refreshed(tenant, keyed.body.data.refreshToken)
  const key = await service.deps.signingKeys.current()
  const secret = key.refreshKey.export()
  const [row] = await service.sql<{ private_key_sealed: Buffer }>('select * from signing_keys where id = $1', [key.id])
  const pkcs8 = await open(service.deps.keys, row?.private_key_sealed as Buffer, ['signing key', 'private', key.id])
  const { d } = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' }).export({ format: 'jwk' })
  const secrets = [
    ...[ada, keyed.body.data, next].flatMap(({ refreshToken, accessToken }) => [
      refreshToken.split('.')[3],
      accessToken.split('.')[2],
    ]),
    secret.toString('hex'),
    secret.toString('base64'),
    Buffer.from(d as string, 'base64url').toString('hex'),
    d,
  ]
  const texts = { dump: await dump(service), log: service.logs() }
  expect(texts.dump).toContain(ada.sessionId)
  for (const [place, text] of Object.entries(texts))
    for (const each of secrets) expect(text.includes(each as string), place).toBe(false)
})
