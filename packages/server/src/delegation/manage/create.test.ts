import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { dump, eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import { expectStatus, type Holder, newHolder, newSession, transfers } from '../delegated.fixture.ts'

const DAY_MS = 24 * 3_600_000

let service: Service
let tenant: Tenant
let ada: Holder
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
  tenant = await service.newTenant()
  ada = await newHolder(tenant)
})
afterAll(() => service.stop())

const create = (body: unknown, holder = ada) => tenant.post('/delegated-sessions', body, holder.asUser)
const rule = { templateId: 'Token:Holding', actions: ['exercise'], choices: ['Transfer'] }
const withPolicy = (policy: unknown) => create({ policy })
const withRule = (more: object) => withPolicy({ allow: [{ ...rule, ...more }] })
const withSpend = (entry: object) =>
  withPolicy({ allow: [rule], spend: [{ asset: { issuer: ada.issuer, symbol: 'USDX' }, ...entry }] })

/** Which fields a refusal names. */
async function wrongFields(answer: ReturnType<typeof create>, what = ''): Promise<string[]> {
  return expectRefusal(await answer, 'validation_failed', what.slice(0, 80)).map((detail) => detail.field)
}

test('a session is answered whole, with nothing but the token beside what others read of it', async () => {
  const policy = transfers(ada, '100.00', { deny: [{ templateId: 'Note:Note' }] })
  const body = { walletId: ada.walletId, name: '  Shopping agent ', policy, expiresInSeconds: 60, maxUses: 3 }
  const answer = await create(body)
  const made = expectStatus(answer, 201)
  expect(made).toEqual({
    id: expect.stringMatching(/^dse_[0-9a-hjkmnp-tv-z]{26}$/),
    appId: tenant.appId,
    userId: ada.userId,
    walletId: ada.walletId,
    name: 'Shopping agent',
    status: 'active',
    policy,
    serverExecute: true,
    boundKeyThumbprint: null,
    maxUses: 3,
    uses: 0,
    remaining: {
      uses: 3,
      spend: [
        {
          asset: { issuer: ada.issuer, symbol: 'USDX' },
          window: 'lifetime',
          limit: '100',
          spent: '0',
          remaining: '100',
        },
      ],
    },
    lastUsedAt: null,
    expiresAt: new Date(Date.parse(made.createdAt) + 60_000).toISOString(),
    revokedAt: null,
    createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    updatedAt: made.createdAt,
    token: expect.stringMatching(/^dst_[0-9A-Za-z]{49}$/),
  })
  expect(answer.headers.get('cache-control')).toBe('no-store')
  const { token, ...rest } = made
  expect(expectStatus(await tenant.get(`/delegated-sessions/${made.id}`), 200)).toEqual(rest)
  expect((await tenant.get('/delegated-sessions?page_size=1')).body.data).toEqual([rest])
  const told = await eventsOf(service, tenant, 'delegated_session.created')
  expect(told.at(-1)).toEqual({
    delegatedSessionId: made.id,
    userId: ada.userId,
    walletId: ada.walletId,
    boundKeyThumbprint: null,
  })
  expect(token).not.toBe((await create({ policy })).body.data.token)
})

test('what is not said has a default: an hour, no name, no limit of uses, nothing to be spent or queried', async () => {
  const made = expectStatus(await create({ policy: { allow: [rule] } }), 201)
  expect(made).toMatchObject({
    name: null,
    maxUses: null,
    remaining: { uses: null, spend: [] },
    walletId: ada.walletId,
  })
  expect(Date.parse(made.expiresAt) - Date.parse(made.createdAt)).toBe(3_600_000)
  expect(made.policy).toEqual({ allow: [rule] })
})

test('the token is shown once: no list, log, event or row holds it, whatever was done with it', async () => {
  const own = await newHolder(tenant)
  const key = 'token-once'
  const body = { policy: transfers(own, '1') }
  const options = { headers: { ...own.asUser.headers, 'idempotency-key': key } }
  const made = expectStatus(await tenant.post('/delegated-sessions', body, options), 201)
  const again = await tenant.post('/delegated-sessions', body, options)
  expect([again.body.data.token, again.headers.get('cache-control')]).toEqual([made.token, 'no-store'])
  const session = await newSession(service, tenant, own, body)
  await session.query()
  await session.execute({ commands: [{ create: { templateId: 'Note:Note' } }] })
  await tenant.post(`/delegated-sessions/${session.token}/query`, {}, session.by)
  await tenant.get(`/delegated-sessions/${session.id}?token=${session.token}`)
  await tenant.get('/transactions', { headers: { 'x-request-id': session.token } })
  const places = {
    list: (await tenant.get('/delegated-sessions?page_size=100')).text,
    one: (await tenant.get(`/delegated-sessions/${session.id}`, session.by)).text,
    revoked: (await tenant.delete(`/delegated-sessions/${session.id}`)).text,
    logs: service.logs(),
    dump: await dump(service),
  }
  for (const [place, text] of Object.entries(places))
    for (const token of [made.token, session.token]) {
      expect(text.includes(token), place).toBe(false)
      expect(text.includes(token.slice(4, 40)), place).toBe(false)
      expect(text.includes(Buffer.from(token).toString('hex')), place).toBe(false)
    }
})

describe('a body', () => {
  test('with a field that is unknown, anywhere in it, is refused by its name', async () => {
    const spend = { asset: { issuer: ada.issuer, symbol: 'USDX' }, amount: '1' }
    const where = [{ path: 'receiver', op: 'eq', value: 'x' }]
    const bodies: [string, unknown][] = [
      ['token', { policy: { allow: [rule] }, token: 'dst_x' }],
      ['userId', { policy: { allow: [rule] }, userId: ada.userId }],
      ['uses', { policy: { allow: [rule] }, uses: -5 }],
      ['policy.version', { policy: { allow: [rule], version: 1 } }],
      ['policy.allow.0.template', { policy: { allow: [{ ...rule, template: 'x' }] } }],
      ['policy.deny.0.effect', { policy: { allow: [rule], deny: [{ ...rule, effect: 'x' }] } }],
      ['policy.allow.0.where.0.not', { policy: { allow: [{ ...rule, where: [{ ...where[0], not: true }] }] } }],
      ['policy.spend.0.limit', { policy: { allow: [rule], spend: [{ ...spend, limit: '1' }] } }],
      [
        'policy.spend.0.asset.chainId',
        { policy: { allow: [rule], spend: [{ ...spend, asset: { ...spend.asset, chainId: '1' } }] } },
      ],
      ['policy.query.where', { policy: { allow: [rule], query: { templateIds: ['Token:Holding'], where } } }],
    ]
    for (const [field, body] of bodies) expect(await wrongFields(create(body)), field).toContain(field)
  })

  test('with a policy that is none, or says nothing, is refused', async () => {
    expect(await wrongFields(create({}))).toEqual(['policy'])
    for (const policy of [null, [], 'allow', 7, true]) expect(await wrongFields(withPolicy(policy))).toEqual(['policy'])
    expect(await wrongFields(withPolicy({}))).toEqual(['policy.allow'])
    for (const allow of [[], null, {}, 'all'])
      expect(await wrongFields(withPolicy({ allow }))).toEqual(['policy.allow'])
    expect(await wrongFields(withPolicy({ allow: [null] }))).toEqual(['policy.allow.0'])
    expect(await wrongFields(withPolicy({ allow: [{}] }))).toEqual(['policy.allow.0.templateId'])
    for (const deny of [null, {}, [7]])
      expect((await wrongFields(withPolicy({ allow: [rule], deny })))[0]).toMatch(/^policy\.deny/)
  })

  test('holds 100 rules a side and not one more, and 10 000 are refused in time', async () => {
    const rules = (n: number) => Array.from({ length: n }, () => rule)
    expect((await withPolicy({ allow: rules(100), deny: rules(100) })).status).toBe(201)
    expect(await wrongFields(withPolicy({ allow: rules(101) }))).toEqual(['policy.allow'])
    expect(await wrongFields(withPolicy({ allow: rules(1), deny: rules(101) }))).toEqual(['policy.deny'])
    const startedAt = performance.now()
    expect(await wrongFields(withPolicy({ allow: rules(10_000) }))).toContain('policy.allow')
    expect(performance.now() - startedAt).toBeLessThan(10_000)
    expect((await tenant.get('/tenant')).status).toBe(200)
  })

  test('with a rule that means nothing is refused by its place', async () => {
    for (const templateId of [
      '',
      '*',
      'Token',
      'Token:',
      ':Holding',
      'Token:*',
      'Token:Holding ',
      7,
      null,
      ['Token:Holding'],
    ])
      expect(await wrongFields(withRule({ templateId })), String(templateId)).toEqual(['policy.allow.0.templateId'])
    for (const actions of [[], ['call'], ['exercise', 'exercise'], 'exercise', [null], ['Create']])
      expect((await wrongFields(withRule({ actions })))[0], String(actions)).toMatch(/^policy\.allow\.0\.actions/)
    for (const choices of [[], ['*'], [''], ['Transfer', 'Transfer'], 'Transfer', Array(101).fill('Transfer')])
      expect((await wrongFields(withRule({ choices })))[0], String(choices)).toMatch(/^policy\.allow\.0\.choices/)
    expect(await wrongFields(withRule({ actions: ['create'] }))).toEqual(['policy.allow.0.choices'])
    const conditions: [unknown, RegExp][] = [
      [[], /where$/],
      [[{ path: 'a', op: 'like', value: 'x' }], /op$/],
      [[{ path: '__proto__', op: 'eq' }], /value$/],
      [[{ path: 'a..b', op: 'eq', value: 'x' }], /path$/],
      [[{ path: 'a', op: 'eq', value: 7 }], /value$/],
      [[{ path: 'a', op: 'eq', value: ['x'] }], /value$/],
      [[{ path: 'a', op: 'in', value: 'x' }], /value$/],
      [[{ path: 'a', op: 'in', value: [] }], /value$/],
      [[{ path: 'amount', op: 'lte', value: 'ten' }], /value$/],
      [[{ path: 'amount', op: 'lte', value: '1e3' }], /value$/],
      [Array(21).fill({ path: 'a', op: 'eq', value: 'x' }), /where$/],
    ]
    for (const [where, field] of conditions)
      expect((await wrongFields(withRule({ where })))[0], JSON.stringify(where).slice(0, 80)).toMatch(field)
  })

  test('with an amount that is none is refused', async () => {
    const wrong = [
      -1,
      1,
      1.5,
      '-1',
      '+1',
      '1e3',
      '1E3',
      '',
      ' 1',
      '1 ',
      '01',
      '.5',
      '1.',
      '1,5',
      '0x10',
      'NaN',
      'Infinity',
      '١',
      null,
      ['1'],
    ]
    const long = [`1.${'0'.repeat(11)}`, `0.${'1'.repeat(40)}`, '1'.repeat(29), '9'.repeat(10_000)]
    for (const amount of [...wrong, ...long])
      expect(await wrongFields(withSpend({ amount })), String(amount).slice(0, 40)).toEqual(['policy.spend.0.amount'])
    for (const amount of ['0', '0.0000000001', '9'.repeat(28), `${'9'.repeat(28)}.${'9'.repeat(10)}`, '100.00'])
      expect((await withSpend({ amount })).status, amount).toBe(201)
  })

  test('with a spend entry that contradicts itself or another is refused', async () => {
    expect(await wrongFields(withSpend({}))).toEqual(['policy.spend.0.amount'])
    expect(await wrongFields(withSpend({ unlimited: true, amount: '1' }))).toEqual(['policy.spend.0.amount'])
    expect(await wrongFields(withSpend({ unlimited: true, window: 'day_utc' }))).toEqual(['policy.spend.0.window'])
    for (const unlimited of [false, 'true', 1, null])
      expect(await wrongFields(withSpend({ unlimited })), String(unlimited)).toContain('policy.spend.0.unlimited')
    expect(await wrongFields(withSpend({ amount: '1', window: 'hour' }))).toEqual(['policy.spend.0.window'])
    for (const issuer of [
      '',
      'bank',
      `bank::1220${'A'.repeat(64)}`,
      `bank::${'a'.repeat(68)}`,
      `a b::1220${'a'.repeat(64)}`,
    ])
      expect(await wrongFields(withSpend({ amount: '1', asset: { issuer, symbol: 'USDX' } })), issuer).toEqual([
        'policy.spend.0.asset.issuer',
      ])
    const entry = { asset: { issuer: ada.issuer, symbol: 'USDX' }, amount: '1' }
    const spend = (...entries: object[]) => withPolicy({ allow: [rule], spend: entries })
    expect(await wrongFields(spend(entry, { ...entry, amount: '2' }))).toEqual(['policy.spend.1'])
    expect((await wrongFields(spend(entry, { asset: entry.asset, unlimited: true })))[0]).toMatch(
      /^policy\.spend\.[01]$/,
    )
    expect(await wrongFields(spend(...Array(21).fill(entry)))).toEqual(['policy.spend'])
    expect((await spend(entry, { ...entry, window: 'day_utc' }, { ...entry, window: 'rolling_24h' })).status).toBe(201)
  })

  test('bounds what a policy weighs as a whole', async () => {
    const value = Array.from({ length: 1_000 }, (_, n) => `${n}-${'x'.repeat(80)}`)
    const where = [{ path: 'receiver', op: 'in', value }]
    expect(await wrongFields(withRule({ where }))).toEqual(['policy'])
    expect((await withRule({ where: [{ ...where[0], value: value.slice(0, 500) }] })).status).toBe(201)
  })

  test('lets a session last a minute to thirty days, and be used once to a billion times', async () => {
    const body = (more: object) => create({ policy: { allow: [rule] }, ...more })
    for (const expiresInSeconds of [59, 0, -1, 60.5, 30 * 86_400 + 1, 1e12, '3600', null])
      expect(await wrongFields(body({ expiresInSeconds })), String(expiresInSeconds)).toEqual(['expiresInSeconds'])
    for (const expiresInSeconds of [60, 30 * 86_400]) {
      const made = expectStatus(await body({ expiresInSeconds }), 201)
      expect(Date.parse(made.expiresAt) - Date.parse(made.createdAt)).toBe(expiresInSeconds * 1000)
      expect(expiresInSeconds * 1000).toBeLessThanOrEqual(30 * DAY_MS)
    }
    for (const maxUses of [0, -1, 1.5, 1e9 + 1, 2 ** 53, '1', null])
      expect(await wrongFields(body({ maxUses })), String(maxUses)).toEqual(['maxUses'])
    for (const maxUses of [1, 1e9]) expect(expectStatus(await body({ maxUses }), 201).remaining.uses).toBe(maxUses)
    for (const name of ['', 'x'.repeat(201), 7, null]) expect(await wrongFields(body({ name }))).toEqual(['name'])
    for (const serverExecute of ['true', 1, null])
      expect(await wrongFields(body({ serverExecute }))).toEqual(['serverExecute'])
  })

  test('that is refused leaves no session and no event', async () => {
    const before = (await tenant.get('/delegated-sessions')).body.total
    const events = (await eventsOf(service, tenant, 'delegated_session.created')).length
    await withPolicy({ allow: [] })
    await create({ policy: { allow: [rule] }, walletId: 'wal_none' })
    expect((await tenant.get('/delegated-sessions')).body.total).toBe(before)
    expect(await eventsOf(service, tenant, 'delegated_session.created')).toHaveLength(events)
  })
})

test('twenty creations under one idempotency key make one session with one token', async () => {
  const own = await newHolder(tenant)
  const options = { headers: { ...own.asUser.headers, 'idempotency-key': 'once' } }
  const ask = () => tenant.post('/delegated-sessions', { policy: { allow: [rule] } }, options)
  const answers = await Promise.all(Array.from({ length: 20 }, ask))
  for (const answer of answers) if (answer.status !== 201) expectError(answer, 409, 'idempotency_in_progress')
  expect(new Set(answers.filter(({ status }) => status === 201).map(({ text }) => text)).size).toBe(1)
  expect((await tenant.get(`/delegated-sessions?user_id=${own.userId}`)).body.total).toBe(1)
})
