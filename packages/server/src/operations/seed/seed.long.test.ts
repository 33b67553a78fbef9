import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Answer, eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { all, beside, dataOf, isOver, listsOf, seed, seedApart, seedBeside, start, tallyOf } from './seed.fixture.ts'

// A command takes seconds; on a machine that does ten things at once, a minute.
vi.setConfig({ testTimeout: 300_000 })

const DAY_MS = 86_400_000

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

/** What of a day is looked at. */
const COUNTED = ['newUsers', 'activeUsers', 'apiRequests']

const noSample = async (tenant: Tenant) => expect(JSON.stringify(await listsOf(tenant))).not.toContain('halfkey:seed')

describe('the default seed', () => {
  test('fills every list with what it says, by calls that the service took, and verifies every event', async () => {
    const tenant = await service.newTenant()
    const said = dataOf(await seedApart(beside(service, tenant), '--json'))
    expect(said).toMatchObject({ tenantId: tenant.tenantId, seeded: true, eventsRefused: 0, history: true })

    const users = await all(tenant, '/users')
    expect(users).toHaveLength(said.users)
    expect(said.users).toBeGreaterThanOrEqual(60)
    expect(new Set(users.map(({ email }) => email)).size).toBe(users.length)
    for (const { email, name, metadata } of users) {
      expect(email).toMatch(/^[a-z.]+\d+@example\.(com|org|net)$/)
      expect(name.trim()).not.toBe('')
      expect(metadata['halfkey:seed']).toBe('1')
    }
    expect(users.some(({ name }) => /[^\u0020-\u007e]/.test(name))).toBe(true)
    const times = users.map(({ createdAt }) => Date.parse(createdAt))
    expect([...times].sort((a, b) => b - a)).toEqual(times)
    expect(times[0]).toBeLessThanOrEqual(Date.now())
    expect(Date.now() - (times.at(-1) as number)).toBeGreaterThan(20 * DAY_MS)
    expect(tallyOf(users, ({ status }) => status)).toMatchObject({ suspended: 1 })
    expect(users.filter(({ mfaEnabled }) => mfaEnabled)).toHaveLength(1)

    expect(tallyOf(await all(tenant, '/guests'), ({ status }) => status)).toEqual({
      active: 3,
      converted: 2,
      expired: 1,
    })
    const wallets = await all(tenant, '/wallets')
    expect(wallets).toHaveLength(said.wallets)
    expect(tallyOf(wallets, ({ custody }) => custody)).toEqual({
      embedded: said.wallets - 3,
      self_custody: 2,
      shared: 1,
    })
    expect(tallyOf(wallets, ({ status }) => status)).toEqual({ ready: said.wallets - 1, frozen: 1 })

    const sessions = await all(tenant, '/delegated-sessions')
    expect(tallyOf(sessions, ({ status }) => status)).toEqual({ active: 8, exhausted: 1, revoked: 1 })
    const spends = sessions.flatMap(({ remaining }) => remaining.spend)
    expect(spends).toContainEqual(expect.objectContaining({ limit: '20', remaining: '0.75' }))
    const transactions = await all(tenant, '/transactions')
    expect(tallyOf(transactions, ({ status }) => status)).toEqual({ completed: said.transactions })
    expect(said.denied).toBe(2)

    const keys = await all(tenant, '/api-keys')
    expect(tallyOf(keys, ({ type, status }) => `${type} ${status}`)).toEqual({
      'secret active': 4,
      'secret revoked': 1,
      'publishable active': 2,
    })
    expect(tallyOf(await all(tenant, '/custom-domains'), ({ status }) => status)).toEqual({ pending: 2 })
    expect((await all(tenant, '/templates')).map(({ templateId }) => templateId)).toEqual(['Sample:Voucher'])
    const apps = await all(tenant, '/apps')
    expect(apps.map(({ name }) => name)).toEqual(['Night Courier (sample)', 'Corner Shop (sample)', 'Default'])

    const [courier, shop] = await all(tenant, '/webhooks')
    expect([shop.status, courier.status]).toEqual(['paused', 'active'])
    const delivered = await all(tenant, `/webhooks/${shop.id}/deliveries`)
    expect(tallyOf(delivered, ({ status }) => status)).toEqual({ succeeded: said.deliveries.succeeded })
    const failed = await all(tenant, `/webhooks/${courier.id}/deliveries`)
    expect(tallyOf(failed, ({ status }) => status)).toEqual({ retrying: failed.length - 5, dead_letter: 5 })
    expect(said.deliveries).toMatchObject({ retrying: failed.length - 5, deadLetters: 5 })
    const dead = failed.find(({ status }) => status === 'dead_letter')
    expect(dead.attempts.map(({ statusCode }: { statusCode: number }) => statusCode)).toEqual(Array(6).fill(503))
    expect(dead.attempts[0].responseSnippet).toContain('warehouse')
    // Each attempt that was answered carried a signature that fits.
    expect(said.eventsVerified).toBeGreaterThanOrEqual(delivered.length + failed.length)

    await eventually('every day has its figures, and so has the time since the apps are there', async () => {
      const { series } = (await tenant.get('/analytics?period=90d')).body.data
      const first = apps.at(-2).createdAt.slice(0, 10)
      const figures = (of: Answer['body'][]) => COUNTED.map((name) => of.reduce((sum, day) => sum + day[name], 0))
      const before = series.filter(({ date }: Answer['body']) => date < first)
      const since = series.filter(({ date }: Answer['body']) => date >= first)
      expect(before.length).toBeGreaterThanOrEqual(88)
      return [...before.map((day: Answer['body']) => [day]), since].every(
        (of: Answer['body'][]) => Math.min(...figures(of)) > 0,
      )
    })
  })

  test('makes the same people for the same number, others for another, and nothing at a second run', async () => {
    const people = async (number: string) => {
      const tenant = await service.newTenant()
      dataOf(await seedBeside(service, tenant, '--users', '10', '--seed', number, '--json'))
      return { tenant, names: (await all(tenant, '/users')).map(({ name, email }) => [name, email]) }
    }
    const [one, again, other] = [await people('7'), await people('7'), await people('8')]
    expect(again.names).toEqual(one.names)
    expect(other.names).not.toEqual(one.names)

    const before = await listsOf(one.tenant)
    expect(dataOf(await seedBeside(service, one.tenant, '--json'))).toMatchObject({ seeded: false })
    expect(await listsOf(one.tenant)).toEqual(before)
  })

  test('without the database leaves out the past, says so, and makes no database of its own', async () => {
    const tenant = await service.newTenant()
    const env = { HALFKEY_URL: service.url, HALFKEY_KEY: tenant.key }
    const { code, stdout } = await seedApart(env, '--users', '10')
    expect([code, stdout.includes('no analytics of past days')]).toEqual([0, true])
    const { series } = (await tenant.get('/analytics')).body.data
    expect(series.filter(isOver).every(({ apiRequests }: { apiRequests: number }) => apiRequests === 0)).toBe(true)
    expect(dataOf(await seed(env, null, '--remove', '--json')).removed).toMatchObject({ apps: 2, historyDays: 0 })
    // Revoked keys are all that the API cannot delete.
    expect(tallyOf(await all(tenant, '/api-keys'), ({ status }) => status)).toEqual({ active: 1, revoked: 6 })
    expect(dataOf(await seedBeside(service, tenant, '--remove', '--json')).removed.keys).toBe(0)
    await noSample(tenant)
  })
})

describe('--remove', () => {
  test('leaves the tenant as it was, twice in a row, and nobody else is touched', async () => {
    const [tenant, bystander] = [await service.newTenant(), await service.newTenant()]
    await tenant.post('/users', { email: 'own@example.com', metadata: { 'halfkey:seeds': '1' } })
    await tenant.post('/webhooks', { url: 'http://127.0.0.1:9/own', events: ['tx.*'] })
    await tenant.post('/apps', { name: 'Own' })
    await tenant.newKey({ scopes: ['users:read'] })
    await tenant.post('/guests', {})
    const before = await listsOf(tenant)
    dataOf(await seedBeside(service, bystander, '--users', '10', '--json'))
    const besides = await listsOf(bystander)

    // Midnight passes before the past is written, and the days of the apps begin where the service made them.
    const tomorrow = { ...service.deps, now: () => new Date(service.deps.now().getTime() + DAY_MS) }
    const made = dataOf(await seed(beside(service, tenant), tomorrow, '--users', '12', '--json'))
    expect(await listsOf(tenant)).not.toEqual(before)
    const { removed } = dataOf(await seedBeside(service, tenant, '--remove', '--json'))
    expect(removed).toEqual({
      apps: 2,
      users: made.users,
      guests: 4,
      webhooks: 2,
      domains: 2,
      keys: 5,
      historyDays: 2 * 89,
      kept: [],
    })
    expect(await listsOf(tenant)).toEqual(before)
    const again = await seedBeside(service, tenant, '--remove')
    expect([again.code, again.stdout]).toEqual([0, 'There is no sample data here.\n'])
    expect(await listsOf(bystander)).toEqual(besides)
    // And it can be done anew.
    expect(dataOf(await seedBeside(service, tenant, '--users', '10', '--json'))).toMatchObject({ seeded: true })
  })

  test('keeps what somebody else put into a sample app, and the app with it', async () => {
    const tenant = await service.newTenant()
    dataOf(await seedBeside(service, tenant, '--users', '10', '--json'))
    const shop = (await all(tenant, '/apps')).find(({ name }) => name.startsWith('Corner Shop'))
    const mine = (await tenant.post('/users', { appId: shop.id, email: 'mine@example.com' })).body.data
    const { stdout } = await seedBeside(service, tenant, '--remove')
    expect(stdout).toContain(`Kept Corner Shop (sample) (${shop.id})`)
    expect((await all(tenant, '/users')).map(({ id }) => id)).toEqual([mine.id])
    expect((await all(tenant, '/apps')).map(({ name }) => name)).toEqual(['Corner Shop (sample)', 'Default'])
    expect((await seedBeside(service, tenant, '--remove')).stdout).toBe('There is no sample data here.\n')
  })

  test('finds what a seed made that was killed half-way, which is not taken for a whole one', async () => {
    const tenant = await service.newTenant()
    const before = await listsOf(tenant)
    for (const stage of [/^Users/m, /^Past days/m]) {
      const running = start(['seed', '--users', '10'], beside(service, tenant))
      await running.says(stage)
      running.child.kill('SIGKILL')
      expect((await running.ended).signal).toBe('SIGKILL')
      expect((await all(tenant, '/apps')).length).toBe(3)
      const refused = await seedBeside(service, tenant)
      expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('halfkey seed --remove')])
      dataOf(await seedBeside(service, tenant, '--remove', '--json'))
      expect(await listsOf(tenant)).toEqual(before)
    }
  })

  test('changes nothing where it could not take away the past, and does where an app of the seed is gone already', async () => {
    const tenant = await service.newTenant()
    const before = await listsOf(tenant)
    dataOf(await seedBeside(service, tenant, '--users', '10', '--json'))
    const filled = await listsOf(tenant)
    const refused = await seed({ HALFKEY_URL: service.url, HALFKEY_KEY: tenant.key }, null, '--remove')
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('DATABASE_URL')])
    expect(await listsOf(tenant)).toEqual(filled)
    for (const { id, name } of await all(tenant, '/apps'))
      if (name !== 'Default') expect((await tenant.delete(`/apps/${id}?force=true`)).status).toBe(200)
    expect(dataOf(await seedBeside(service, tenant, '--remove', '--json')).removed.historyDays).toBe(2 * 89)
    expect(await listsOf(tenant)).toEqual(before)
  })
})

test('--listen prints events that it verified as they come, takes retried dead letters, and waits for next time when it ends', async () => {
  const tenant = await service.newTenant()
  const env = beside(service, tenant)
  const first = start(['seed', '--users', '10', '--listen'], env)
  await first.says(/^Receiving the events/m)
  const [courier, shop] = await all(tenant, '/webhooks')
  const appId = (await all(tenant, '/apps')).find(({ name }) => name.startsWith('Corner Shop')).id
  const { id } = (await tenant.post('/users', { appId })).body.data
  await first.says(new RegExp(`signature valid  user\\.created +evt_\\w+  ${id}$`, 'm'))
  const [dead] = await all(tenant, `/webhooks/${courier.id}/deliveries?status=dead_letter`)
  await tenant.post(`/webhooks/${courier.id}/deliveries/${dead.id}/retry`)
  await first.says(new RegExp(`${dead.eventId} .*at /warehouse`))
  await eventually('the dead letter has arrived', async () => {
    return (await tenant.get(`/webhooks/${courier.id}/deliveries/${dead.id}`)).body.data.status === 'succeeded'
  })
  // As a terminal and npm do, both at once.
  first.child.kill('SIGINT')
  first.child.kill('SIGINT')
  const ended = await first.ended
  expect([ended.code, ended.stdout]).toEqual([
    0,
    expect.stringMatching(/^Received \d+ signed events while listening\.$/m),
  ])
  expect((await tenant.get(`/webhooks/${shop.id}`)).body.data.status).toBe('paused')

  const missed = (await tenant.post('/users', { appId })).body.data.id
  const second = start(['seed', '--listen', '--json'], env)
  await second.says(new RegExp(missed))
  second.child.kill('SIGTERM')
  const { code, stdout } = await second.ended
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(code).toBe(0)
  expect(lines.filter((line) => line.kind === 'received' && line.data.userId === missed)).toHaveLength(1)
  expect(lines.at(-1)).toMatchObject({ seeded: false, received: lines.length - 1 })
})
