import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { type Id, newId } from '../../platform/ids.ts'
import { rotateSigningKey } from '../../platform/security/signing-keys.ts'
import { eventsOf, newApp, type Person, personOf, signInAs } from './sessions.fixture.ts'

let service: Service
/** Another process on the same database, which users reach under the same address. */
let second: Service
beforeAll(async () => {
  const settings = { HALFKEY_PUBLIC_URL: 'http://localhost:8080' }
  service = await startService(settings)
  const { kekFile } = service.deps.config
  second = await startService({ ...settings, DATABASE_URL: service.databaseUrl, HALFKEY_KEK_FILE: kekFile as string })
})
afterAll(async () => {
  await second.stop()
  await service.stop()
})

const PARALLEL = 20
/** What is revoked is refused everywhere by then. */
const EVERYWHERE_MS = 1_000

/** The same person, calling the other process. */
const inSecond = (person: Person) => personOf(second.url, person.key, person, person)

const isLive = async (person: Person) => (await person.get('/auth/sessions')).status === 200

/** Refused with this at once where it was ended, and within a second in the other process. */
async function expectOver(person: Person, status: number, code: string): Promise<void> {
  expectError(await person.get('/auth/sessions'), status, code)
  const there = inSecond(person)
  const refused = await eventually(
    'the other process refuses it',
    async () => {
      const answer = await there.get('/auth/sessions')
      return answer.status !== 200 && answer
    },
    EVERYWHERE_MS,
  )
  expectError(refused, status, code)
}

/** Both processes have served them. */
async function newPeople(tenant: Tenant, count: number, userId?: string): Promise<Person[]> {
  const people: Person[] = []
  for (let index = 0; index < count; index += 1)
    people.push(await signInAs(service, tenant, userId === undefined ? {} : { userId }))
  for (const person of people) expect([await isLive(person), await isLive(inSecond(person))]).toEqual([true, true])
  return people
}

const refresh = (tenant: Tenant, { refreshToken }: Person) => tenant.post('/auth/refresh', { refreshToken })

describe('logging out', () => {
  test('ends the session at once, in the other process within a second, and no other', async () => {
    const tenant = await service.newTenant()
    const [ada] = (await newPeople(tenant, 1)) as [Person]
    const [other] = (await newPeople(tenant, 1, ada.userId)) as [Person]
    expect((await ada.post('/auth/logout')).body.data).toEqual({ revoked: 1 })
    await expectOver(ada, 401, 'session_revoked')
    expectError(await refresh(tenant, ada), 401, 'session_revoked')
    expectError(await ada.post('/auth/logout'), 401, 'session_revoked')
    expect(await isLive(other)).toBe(true)
    expect(await eventsOf(service, tenant, 'session.revoked')).toEqual([
      { sessionId: ada.sessionId, userId: ada.userId },
    ])
  })

  test('everywhere ends all of the user, and nobody else', async () => {
    const tenant = await service.newTenant()
    const [ada, eve] = (await newPeople(tenant, 2)) as [Person, Person]
    const others = await newPeople(tenant, 3, ada.userId)
    expect((await ada.post('/auth/logout', { everywhere: true })).body.data).toEqual({ revoked: 4 })
    for (const session of [ada, ...others]) await expectOver(session, 401, 'session_revoked')
    expect(await isLive(eve)).toBe(true)
    expect(await eventsOf(service, tenant, 'session.revoked')).toHaveLength(4)
  })

  test('by a server ends all of the user', async () => {
    const tenant = await service.newTenant()
    const [ada] = (await newPeople(tenant, 1)) as [Person]
    await newPeople(tenant, 1, ada.userId)
    const headers = { 'x-user-id': ada.userId }
    expect((await tenant.post('/auth/logout', {}, { headers })).body.data).toEqual({ revoked: 2 })
    expect((await tenant.post('/auth/logout', {}, { headers })).body.data).toEqual({ revoked: 0 })
    await expectOver(ada, 401, 'session_revoked')
  })

  test('many times at once ends a session once', async () => {
    const tenant = await service.newTenant()
    const [ada] = (await newPeople(tenant, 1)) as [Person]
    const answers = await Promise.all(Array.from({ length: PARALLEL }, () => ada.post('/auth/logout')))
    expect(answers.filter((answer) => answer.body.data?.revoked === 1)).toHaveLength(1)
    expect(await eventsOf(service, tenant, 'session.revoked')).toHaveLength(1)
  })
})

describe('the list of sessions', () => {
  test('shows the user their live ones, newest first, and which of them calls', async () => {
    const tenant = await service.newTenant()
    const [ada, eve] = (await newPeople(tenant, 2)) as [Person, Person]
    const others = await newPeople(tenant, 2, ada.userId)
    await others[0]?.post('/auth/logout')
    const answer = await ada.get('/auth/sessions')
    expect(answer.body).toMatchObject({ total: 2, page: 1, pageSize: 20, hasMore: false })
    expect(answer.body.data.map((each: { id: string; current: boolean }) => [each.id, each.current])).toEqual([
      [others[1]?.sessionId, false],
      [ada.sessionId, true],
    ])
    expect(answer.body.data[1]).toEqual({
      id: ada.sessionId,
      userId: ada.userId,
      appId: tenant.appId,
      current: true,
      methods: ['hwk', 'user'],
      status: 'active',
      signedInAt: expect.stringMatching(/Z$/),
      mfaVerifiedAt: null,
      userAgent: 'test',
      address: '203.0.113.7',
      expiresAt: expect.stringMatching(/Z$/),
      createdAt: expect.stringMatching(/Z$/),
      updatedAt: expect.stringMatching(/Z$/),
    })
    const seen = await tenant.get(`/users/${ada.userId}/sessions`)
    expect(seen.body.data.map((each: { id: string; current: boolean }) => [each.id, each.current])).toEqual([
      [others[1]?.sessionId, false],
      [ada.sessionId, false],
    ])
    expect((await eve.get('/auth/sessions')).body.data.map((each: { id: string }) => each.id)).toEqual([eve.sessionId])
  })

  test('has pages', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const ids = [ada.sessionId]
    for (let index = 0; index < 4; index += 1)
      ids.unshift((await signInAs(service, tenant, { userId: ada.userId })).sessionId)
    for (const path of ['/auth/sessions', `/users/${ada.userId}/sessions`]) {
      const asked = path.startsWith('/users') ? tenant : ada
      const found: string[] = []
      for (const page of [1, 2, 3, 4]) {
        const { body } = await asked.get(`${path}?page=${page}&page_size=2`)
        expect(body).toMatchObject({ total: 5, page, pageSize: 2, hasMore: page < 3 })
        found.push(...body.data.map((each: { id: string }) => each.id))
      }
      expect(found).toEqual(ids)
    }
  })

  test('shows the ended ones on request, and says how each ended', async () => {
    const tenant = await service.newTenant()
    const [ada] = (await newPeople(tenant, 1)) as [Person]
    const [gone] = (await newPeople(tenant, 1, ada.userId)) as [Person]
    await gone.post('/auth/logout')
    const listed = async (status: string) =>
      (await tenant.get(`/users/${ada.userId}/sessions?status=${status}`)).body.data.map(
        (each: { id: string; status: string }) => [each.id, each.status],
      )
    expect(await listed('ended')).toEqual([[gone.sessionId, 'revoked']])
    expect(await listed('active')).toEqual([[ada.sessionId, 'active']])
    expect((await ada.get('/auth/sessions?status=ended')).body.total).toBe(1)
    expectError(await ada.get('/auth/sessions?status=all'), 400, 'validation_failed')
  })

  test('of a user is for keys that see the user', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const stranger = await service.newTenant()
    const path = `/users/${ada.userId}/sessions`
    const unknown = await tenant.get(`/users/${newId('usr')}/sessions`)
    expectError(unknown, 404, 'not_found')
    const bound = await tenant.newKey({ scopes: ['users:read'], appId: await newApp(tenant) })
    for (const key of [stranger.key, bound]) expect((await tenant.get(path, { key })).text).toBe(unknown.text)
    expectError(await tenant.get(path, { key: ada.key, headers: ada.bearer }), 403, 'key_type_not_allowed')
  })
})

describe('ending one session', () => {
  test('ends that one at once, and again answers it as it is', async () => {
    const tenant = await service.newTenant()
    const [ada] = (await newPeople(tenant, 1)) as [Person]
    const [phone] = (await newPeople(tenant, 1, ada.userId)) as [Person]
    const answer = await ada.delete(`/auth/sessions/${phone.sessionId}`)
    expect(answer.status).toBe(200)
    expect(answer.body.data).toMatchObject({ id: phone.sessionId, status: 'revoked', current: false })
    await expectOver(phone, 401, 'session_revoked')
    expect((await ada.delete(`/auth/sessions/${phone.sessionId}`)).body).toEqual(answer.body)
    expect(await eventsOf(service, tenant, 'session.revoked')).toHaveLength(1)
    const own = await ada.delete(`/auth/sessions/${ada.sessionId}`)
    expect(own.body.data).toMatchObject({ status: 'revoked', current: true })
    await expectOver(ada, 401, 'session_revoked')
  })

  test("of another user's finds nothing, and ends nothing", async () => {
    const tenant = await service.newTenant()
    const [ada, eve] = (await newPeople(tenant, 2)) as [Person, Person]
    const stranger = await signInAs(service, await service.newTenant())
    const reference = await ada.delete(`/auth/sessions/${newId('ses')}`)
    expectError(reference, 404, 'not_found')
    for (const id of [eve.sessionId, stranger.sessionId, 'none', ada.userId])
      expect((await ada.delete(`/auth/sessions/${id}`)).text).toBe(reference.text)
    expect([await isLive(eve), await isLive(stranger)]).toEqual([true, true])
  })
})

describe('a user who', () => {
  test('is suspended is signed out everywhere, told so, and not signed in again by being reinstated', async () => {
    const tenant = await service.newTenant()
    const [ada] = (await newPeople(tenant, 1)) as [Person]
    expect((await tenant.patch(`/users/${ada.userId}`, { status: 'suspended' })).status).toBe(200)
    await expectOver(ada, 403, 'user_suspended')
    expectError(await refresh(tenant, ada), 403, 'user_suspended')
    const headers = { 'x-user-id': ada.userId }
    expectError(await tenant.get('/auth/sessions', { headers }), 403, 'user_suspended')
    await expect(signInAs(service, tenant, { userId: ada.userId })).rejects.toMatchObject({ code: 'user_suspended' })
    await tenant.patch(`/users/${ada.userId}`, { status: 'active' })
    await expectOver(ada, 401, 'session_revoked')
    expectError(await refresh(tenant, ada), 401, 'session_revoked')
    expect(await isLive(await signInAs(service, tenant, { userId: ada.userId }))).toBe(true)
  })

  test('is suspended while signing in many times keeps no session', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const attempts = await Promise.allSettled([
      ...Array.from({ length: PARALLEL }, () => signInAs(service, tenant, { userId: ada.userId })),
      tenant.patch(`/users/${ada.userId}`, { status: 'suspended' }),
    ])
    const sessions = attempts.flatMap((attempt) =>
      attempt.status === 'fulfilled' && 'accessToken' in attempt.value ? [attempt.value] : [],
    )
    for (const session of [ada, ...sessions]) expectError(await session.get('/auth/sessions'), 403, 'user_suspended')
    const open = await service.sql('select 1 from sessions where user_id = $1 and revoked_at is null', [ada.userId])
    expect(open).toEqual([])
  })

  test('is deleted is signed out everywhere', async () => {
    const tenant = await service.newTenant()
    const [ada] = (await newPeople(tenant, 1)) as [Person]
    expect((await tenant.delete(`/users/${ada.userId}`)).status).toBe(200)
    await expectOver(ada, 401, 'session_revoked')
    expectError(await refresh(tenant, ada), 401, 'session_invalid')
  })

  test('goes with a deleted app is signed out everywhere, also where the key is not of the app', async () => {
    const tenant = await service.newTenant()
    const appId = await newApp(tenant)
    const bound = await signInAs(service, tenant, { appId })
    const wide = personOf(service.url, tenant.key, bound, bound)
    expect([await isLive(wide), await isLive(inSecond(wide))]).toEqual([true, true])
    expect((await tenant.delete(`/apps/${appId}?force=true`)).status).toBe(200)
    await expectOver(wide, 401, 'session_revoked')
    expectError(await bound.get('/auth/sessions'), 401, 'api_key_invalid')
    expectError(await refresh(tenant, bound), 401, 'session_invalid')
  })
})

describe('a revocation', () => {
  test('of many sessions at once is known in both processes, whichever of them ended it', async () => {
    const tenant = await service.newTenant()
    const people = await newPeople(tenant, PARALLEL)
    await Promise.all(people.map((each, index) => (index % 2 === 0 ? each : inSecond(each)).post('/auth/logout')))
    for (const [index, each] of people.entries()) {
      const there = personOf(index % 2 === 0 ? second.url : service.url, each.key, each, each)
      await eventually('it is refused', async () => !(await isLive(there)), EVERYWHERE_MS)
    }
  })

  test('is known to a process that starts afterwards', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    await ada.post('/auth/logout')
    const { kekFile } = service.deps.config
    const third = await startService({
      HALFKEY_PUBLIC_URL: 'http://localhost:8080',
      DATABASE_URL: service.databaseUrl,
      HALFKEY_KEK_FILE: kekFile as string,
    })
    try {
      const there = personOf(third.url, ada.key, ada, ada)
      expectError(await there.get('/auth/sessions'), 401, 'session_revoked')
    } finally {
      await third.stop()
    }
  })
})

test('processes that start at once on a database without a signing key make one', async () => {
  await service.sql('delete from signing_keys')
  const tenant = await service.newTenant()
  await eventually('both have read anew', async () => {
    const kids = await Promise.all([service, second].map(async (each) => (await each.deps.signingKeys.current()).id))
    const rows = await service.sql<{ id: string }>('select id from signing_keys')
    return rows.length > 0 && kids.every((kid) => kid === rows[0]?.id)
  })
  expect(await service.sql('select 1 from signing_keys')).toHaveLength(1)
  const ada = await signInAs(service, tenant)
  expect([await isLive(ada), await isLive(inSecond(ada))]).toEqual([true, true])
})

describe('a new signing key', () => {
  const kidOf = ({ accessToken }: Pick<Person, 'accessToken'>) =>
    JSON.parse(Buffer.from(accessToken.split('.')[0] as string, 'base64url').toString()).kid as string
  const published = async (of: Service): Promise<string[]> => {
    const answer = await fetch(`${of.url}/.well-known/jwks.json`)
    return ((await answer.json()) as { keys: { kid: string }[] }).keys.map((key) => key.kid)
  }
  const signsWith = (kid: string, tenant: Tenant) =>
    Promise.all(
      [service, second].map((each) =>
        eventually('the new key signs', async () => kidOf(await signInAs(each, tenant)) === kid || null, EVERYWHERE_MS),
      ),
    )

  test('signs from now on, in every process, and signs nobody out', async () => {
    const tenant = await service.newTenant()
    const [ada] = (await newPeople(tenant, 1)) as [Person]
    const { id, previous } = await rotateSigningKey(service.deps, { revoke: false })
    expect(previous).toEqual([kidOf(ada)])
    await signsWith(id, tenant)
    for (const each of [service, second]) expect(await published(each)).toEqual([id, kidOf(ada)])
    expect([await isLive(ada), await isLive(inSecond(ada))]).toEqual([true, true])
    const next = await refresh(tenant, ada)
    expect(next.status, next.text).toBe(200)
    expect(kidOf(next.body.data)).toBe(id)
    const after = await tenant.post('/auth/refresh', { refreshToken: next.body.data.refreshToken })
    expect(after.status).toBe(200)
  })

  test('is known wherever its first tokens come, however many at once', async () => {
    const tenant = await service.newTenant()
    for (let round = 0; round < 5; round += 1) {
      const { id } = await rotateSigningKey(service.deps, { revoke: false })
      const ada = await eventually(
        'one process signs with it',
        async () => {
          // Whichever comes to know it first, the other one meets it by its tokens.
          const signed = [
            await signInAs(service, tenant, { url: second.url }),
            await signInAs(second, tenant, { url: service.url }),
          ]
          return signed.find((person) => kidOf(person) === id)
        },
        EVERYWHERE_MS,
      )
      const live = await Promise.all(Array.from({ length: PARALLEL }, () => isLive(ada)))
      expect(live).toEqual(Array.from({ length: PARALLEL }, () => true))
    }
  })

  test('leaves one that signs, however many are made at once', async () => {
    const tenant = await service.newTenant()
    const made = await Promise.all(Array.from({ length: 5 }, () => rotateSigningKey(service.deps, { revoke: false })))
    const signing = await service.sql<{ id: string }>('select id from signing_keys where retires_at is null')
    expect(signing).toHaveLength(1)
    expect(made.map(({ id }) => id)).toContain(signing[0]?.id)
    await signsWith(signing[0]?.id as string, tenant)
  })

  test('with revoke ends everything by the ones before it within a second: access and refresh tokens', async () => {
    const tenant = await service.newTenant()
    const older = await signInAs(service, tenant)
    const between = await rotateSigningKey(service.deps, { revoke: false })
    await signsWith(between.id, tenant)
    const [ada] = (await newPeople(tenant, 1)) as [Person]
    const { id, previous, retiresAt } = await rotateSigningKey(service.deps, { revoke: true })
    expect(previous).toEqual(expect.arrayContaining([kidOf(older), kidOf(ada)]))
    expect(retiresAt).toBeNull()
    for (const each of [older, ada]) {
      for (const person of [each, inSecond(each)]) {
        await eventually('it is refused', async () => !(await isLive(person)), EVERYWHERE_MS)
        expectError(await person.get('/auth/sessions'), 401, 'session_invalid')
        const { refreshToken } = person
        expectError(await person.post('/auth/refresh', { refreshToken }), 401, 'session_invalid')
      }
    }
    for (const each of [service, second]) expect(await published(each)).toEqual([id])
    expect(await isLive(await signInAs(service, tenant, { userId: ada.userId as Id<'usr'> }))).toBe(true)
  })

  test('retires the one before once no token by it can be valid, and refresh tokens by it go on', async () => {
    const tenant = await service.newTenant()
    const appId = await newApp(tenant, { sessions: { accessTokenSeconds: 3_600 } })
    const ada = await signInAs(service, tenant, { appId })
    const { id, retiresAt } = await rotateSigningKey(service.deps, { revoke: false })
    await signsWith(id, tenant)
    const late = await signInAs(service, tenant, { appId })
    const old = await service.deps.signingKeys.find(kidOf(ada))
    service.advance(3_590_000)
    expect([await isLive(ada), await isLive(late)]).toEqual([true, true])
    expect((retiresAt as Date).getTime()).toBeGreaterThan(service.deps.now().getTime())
    service.advance(400_000)
    expect(await published(service)).toEqual([id])
    // Who was away meanwhile is told to refresh, not to sign in again.
    expectError(await ada.get('/auth/sessions'), 401, 'session_expired')
    expect((await refresh(tenant, ada)).status).toBe(200)
    // In the wrong hands it makes nothing that counts.
    const now = Math.floor(service.deps.now().getTime() / 1000)
    const payload = JSON.parse(Buffer.from(ada.accessToken.split('.')[1] as string, 'base64url').toString())
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const head = part({ alg: 'EdDSA', typ: 'at+jwt', kid: kidOf(ada) })
    const signed = `${head}.${part({ ...payload, iat: now, exp: now + 900 })}`
    const signature = (await old?.sign(Buffer.from(signed))) as Buffer
    const forged = `${signed}.${signature.toString('base64url')}`
    const thief = personOf(service.url, ada.key, ada, { ...ada, accessToken: forged })
    expectError(await thief.get('/auth/sessions'), 401, 'session_invalid')
  })
})
