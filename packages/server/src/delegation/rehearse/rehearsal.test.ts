import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, type Service, startService } from '../../../test/harness/harness.ts'
import { signInAs } from '../../identity/sessions/sessions.fixture.ts'
import {
  BOB,
  everything,
  expectStatus,
  type Holder,
  newHolder,
  newSession,
  signedIn,
  stateOf,
  transfer,
  transfers,
  unlimited,
} from '../delegated.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const MINUTE_MS = 60_000
const CAROL = `carol::1220${'c0'.repeat(32)}`
const usdx = ({ issuer }: Pick<Holder, 'issuer'>) => ({ issuer, symbol: 'USDX' })

/** A wallet that has paid 3, 4 and 5 to Bob, then 6 to Carol, a minute after each other. */
async function spent() {
  const tenant = await service.newTenant()
  const ada = await signedIn(service, tenant)
  const session = await newSession(service, tenant, ada, { policy: everything([unlimited(ada.issuer)]) })
  for (const [amount, receiver] of [
    ['3', BOB],
    ['4', BOB],
    ['5', BOB],
    ['6', CAROL],
  ] as const) {
    const commands = [transfer(await ada.receive('10'), amount, receiver)]
    expectStatus(await session.execute({ commandId: `pay-${amount}`, commands }), 200)
    service.advance(MINUTE_MS)
  }
  const simulate = async (policy: object, more: object = {}) =>
    expectStatus(await tenant.post('/policies/simulate', { policy, walletId: ada.walletId, ...more }), 200)
  return { tenant, ada, session, simulate }
}

interface Simulated {
  commandId: string
  verdict: string
  rule: string
}
/** Verdicts from the oldest to the newest. */
const verdicts = ({ transactions }: { transactions: Simulated[] }) =>
  transactions.map(({ verdict, rule }) => `${verdict} by ${rule}`).reverse()

test('a simulation counts caps and rates as one session would have, and says why', async () => {
  const { ada, simulate } = await spent()
  const capped = await simulate(transfers(ada, '10'))
  expect(verdicts(capped)).toEqual([
    'allowed by allow[0]',
    'allowed by allow[0]',
    'refused by spend[0]',
    'refused by spend[0]',
  ])
  expect(capped).toMatchObject({ walletId: ada.walletId, allowed: 2, asked: 0, refused: 2 })
  const [newest] = capped.transactions
  expect(newest).toMatchObject({ commandId: 'pay-6', code: 'spend_limit_exceeded' })
  expect(newest.message).toContain('3 are left')
  expect(newest.trace[0]).toBe('command 0 (exercise Token:Holding Transfer): allowed by allow[0]')

  const rate = { executions: 1, withinSeconds: 90 }
  const rated = await simulate(transfers(ada, '100', { conditions: [{ rate }] }))
  expect(verdicts(rated)).toEqual([
    'allowed by allow[0]',
    'refused by conditions[0]',
    'allowed by allow[0]',
    'refused by conditions[0]',
  ])
})

test('what it would have asked for counts as approved: a recipient is new once', async () => {
  const { ada, simulate } = await spent()
  const asking = await simulate(transfers(ada, '100', { requireApproval: [{ newRecipient: true }] }))
  expect(verdicts(asking)).toEqual([
    'asked by requireApproval[0]',
    'allowed by allow[0]',
    'allowed by allow[0]',
    'asked by requireApproval[0]',
  ])
  expect(asking.transactions[0]).toMatchObject({ code: 'approval_required', message: expect.stringContaining(CAROL) })
  const above = await simulate(transfers(ada, '100', { requireApproval: [{ asset: usdx(ada), above: '4' }] }))
  expect(above).toMatchObject({ allowed: 2, asked: 2, refused: 0 })
})

test('rules on commands decide as in execute, and say which rule did not match', async () => {
  const { ada, simulate } = await spent()
  const toBob = { templateId: 'Token:Holding', where: [{ path: 'receiver', op: 'eq', value: BOB }] }
  const answer = await simulate({ allow: [toBob], spend: [{ asset: usdx(ada), amount: '100' }] })
  expect(answer).toMatchObject({ allowed: 3, refused: 1 })
  expect(answer.transactions[0]).toMatchObject({ verdict: 'refused', rule: 'allow', code: 'policy_denied' })
  expect(answer.transactions[0].trace.join('\n')).toContain('allow[0] did not match: Not met: receiver is')
  const never = await simulate({ allow: [{ templateId: 'Note:Note' }] })
  expect(never).toMatchObject({ allowed: 0, refused: 4 })
})

test('looks at as many of the last transactions as asked for, and at the address book of now', async () => {
  const { tenant, ada, simulate } = await spent()
  const two = await simulate(transfers(ada, '10'), { last: 2 })
  expect(two.transactions.map(({ commandId }: Simulated) => commandId)).toEqual(['pay-6', 'pay-5'])
  expect(two).toMatchObject({ allowed: 1, refused: 1 })
  const book = transfers(ada, '100', { conditions: [{ recipients: 'address_book' }] })
  expect(await simulate(book)).toMatchObject({ allowed: 0, refused: 4 })
  expectStatus(await tenant.patch(`/apps/${tenant.appId}`, { addressBook: { coolingOffSeconds: 0 } }), 200)
  const person = await signInAs(service, tenant, { userId: ada.userId })
  expectStatus(await person.post(`/wallets/${ada.walletId}/recipients`, { recipient: BOB, label: 'Bob' }), 201)
  expect(await simulate(book)).toMatchObject({ allowed: 3, refused: 1 })
})

/** Gives a wallet 60 more completed transactions, each with 100 effects that have 100 values each. */
async function addLarge(walletId: string) {
  const values = Array.from({ length: 100 }, (_, at) => `value ${at}`)
  const effects = Array.from({ length: 100 }, (_, command) => ({
    command,
    type: 'created',
    templateId: 'Note:Note',
    contractId: `c${command}`,
    choice: null,
    arguments: { values, amount: '1' },
  }))
  await service.sql(
    `insert into transactions select x.* from (select * from transactions where wallet_id = $1 order by id desc limit 1) t,
      generate_series(1, 60) n, jsonb_populate_record(null::transactions, to_jsonb(t) || jsonb_build_object(
        'id', 'tx_' || lpad(n::text, 26, 'z'), 'command_id', 'large-' || n, 'effects', $2::jsonb)) x`,
    [walletId, JSON.stringify(effects)],
  )
}

test('a simulation that would compare too much is refused, and says how many transactions it can look at', async () => {
  const { tenant, ada, simulate } = await spent()
  await addLarge(ada.walletId)
  const where = Array.from({ length: 18 }, () => ({ path: 'values', op: 'ne', value: 'x' }))
  const never = { path: 'amount', op: 'eq', value: '2' }
  const large = {
    allow: Array.from({ length: 70 }, () => ({ templateId: 'Note:Note', where: [...where, never] })),
  }
  const answer = await tenant.post('/policies/simulate', { policy: large, walletId: ada.walletId, last: 60 })
  expectError(answer, 400, 'validation_failed')
  expect(answer.body.details[0].field).toBe('last')
  const last = Number(/at most (\d+)/.exec(answer.body.details[0].message)?.[1])
  expect(last).toBeGreaterThan(1)
  const { transactions, refused } = await simulate(large, { last })
  expect([transactions.length, refused]).toEqual([last, last])
  expect(await simulate({ allow: [{ templateId: 'Note:Note' }] }, { last: 60 })).toMatchObject({ allowed: 60 })
})

test('other calls are answered while a simulation looks at many transactions', async () => {
  const { tenant, ada, simulate } = await spent()
  await addLarge(ada.walletId)
  const answered: string[] = []
  const simulated = simulate({ allow: [{ templateId: 'Note:Note' }] }, { last: 60 }).then(() => answered.push('all 60'))
  const other = tenant.get(`/wallets/${ada.walletId}`).then(() => answered.push('one wallet'))
  await Promise.all([simulated, other])
  expect(answered).toEqual(['one wallet', 'all 60'])
})

test('it changes nothing: neither rows, nor what the session has left', async () => {
  const { tenant, ada, session, simulate } = await spent()
  const before = await stateOf(service)
  await simulate(transfers(ada, '10', { requireApproval: [{ newRecipient: true }] }))
  expectStatus(await tenant.post('/policies/validate', { policy: transfers(ada, '10') }), 200)
  expect(await stateOf(service)).toBe(before)
  expect((await tenant.get(`/denials?session_id=${session.id}`)).body.total).toBe(0)
})

test("only the owner and servers of the wallet's app simulate; all others get the 404 of a wallet that does not exist", async () => {
  const { tenant, ada } = await spent()
  const other = await service.newTenant()
  const eve = await signedIn(service, tenant)
  const body = (walletId: string) => ({ policy: transfers(ada, '1'), walletId })
  const none = 'wal_00000000000000000000000000'
  const appId = expectStatus(await tenant.post('/apps', { name: 'Other' }), 201).id as string
  const foreign = await tenant.newKey({ scopes: ['wallets:read'], appId })
  const askers = [
    (walletId: string) => other.post('/policies/simulate', body(walletId)),
    (walletId: string) => eve.person.post('/policies/simulate', body(walletId)),
    (walletId: string) => call(service.url, 'POST', '/v1/policies/simulate', { key: foreign, body: body(walletId) }),
    (walletId: string) => tenant.post('/policies/simulate', body(walletId), eve.asUser),
  ]
  for (const ask of askers) {
    const [found, missing] = [await ask(ada.walletId), await ask(none)]
    expectError(found, 404, 'not_found')
    expect(found.body.details[0].field).toBe('walletId')
    expect(found.text).toBe(missing.text)
  }
  const key = ada.person.key
  for (const path of ['/v1/policies/simulate', '/v1/policies/validate']) {
    const bare = path.endsWith('validate') ? { policy: transfers(ada, '1') } : body(ada.walletId)
    expectError(await call(service.url, 'POST', path, { key, body: bare }), 401, 'session_missing')
    // To simulate shows transactions and the address book.
    const scope = path.endsWith('validate') ? 'wallets:read' : 'delegated_sessions:read'
    const narrow = await tenant.newKey({ scopes: [scope] })
    expectError(await call(service.url, 'POST', path, { key: narrow, body: bare }), 403, 'insufficient_scope')
  }
  const person = await signInAs(service, tenant, { userId: ada.userId })
  expect(expectStatus(await person.post('/policies/simulate', body(ada.walletId)), 200).transactions).toHaveLength(4)
  for (const wrong of [{ last: 0 }, { last: 501 }, { last: '5' }, { walletId: undefined }, { policy: { allow: [] } }])
    expectError(await tenant.post('/policies/simulate', { ...body(ada.walletId), ...wrong }), 400, 'validation_failed')
})

test('a policy is explained with its defaults, and what it says in full says the same again', async () => {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const policy = {
    allow: [{ templateId: 'Token:Holding', choices: ['Transfer'] }, { templateId: 'Note:Note' }],
    spend: [{ asset: usdx(ada), amount: '10' }],
    requireApproval: [{ newRecipient: true }],
    conditions: [
      { hours: { from: '22:00', to: '06:00', days: ['sat', 'mon'], timeZone: 'Europe/Zurich' } },
      { rate: { executions: 3, withinSeconds: 60 }, otherwise: 'require_approval' },
      { recipients: 'address_book' },
    ],
  }
  // More than a week, so that the hours come before the session ends on whatever day this runs.
  const eightDays = 8 * 86_400
  const answer = expectStatus(await tenant.post('/policies/validate', { policy, expiresInSeconds: eightDays }), 200)
  expect(answer.policy).toEqual({
    allow: [
      { templateId: 'Token:Holding', actions: ['exercise'], choices: ['Transfer'] },
      { templateId: 'Note:Note', actions: ['create', 'exercise'] },
    ],
    deny: [],
    spend: [{ asset: usdx(ada), amount: '10', window: 'lifetime' }],
    requireApproval: [{ newRecipient: true, expiresInSeconds: 86_400 }],
    conditions: [
      {
        hours: { from: '22:00', to: '06:00', days: ['mon', 'sat'], timeZone: 'Europe/Zurich' },
        otherwise: 'deny',
      },
      { rate: { executions: 3, withinSeconds: 60 }, otherwise: 'require_approval', expiresInSeconds: 86_400 },
      { recipients: 'address_book', otherwise: 'deny' },
    ],
  })
  expect(answer.warnings).toEqual([])
  const words = Object.fromEntries(answer.words.map(({ rule, text }: { rule: string; text: string }) => [rule, text]))
  expect(words).toMatchObject({
    'allow[0]': 'Can exercise Transfer of Token:Holding.',
    'spend[0]': `Can spend at most 10 "USDX" (issued by ${ada.issuer}) in the whole session.`,
    'conditions[0]': 'Acts mon, sat from 22:00 to 06:00 of the next day (Europe/Zurich); never otherwise.',
    'conditions[1]': 'Makes at most 3 transactions within 60 seconds; otherwise asks the owner.',
    'conditions[2]': "Pays parties in the wallet's address book; never otherwise.",
    query: 'Reads no contracts.',
  })
  const again = expectStatus(
    await tenant.post('/policies/validate', { policy: answer.policy, expiresInSeconds: 60 }),
    200,
  )
  expect(again.policy).toEqual(answer.policy)
  expect(again.words).toEqual(answer.words)
  expectStatus(await tenant.post('/delegated-sessions', { policy: answer.policy }, ada.asUser), 201)
})

test('words name the issuer of every asset, and every value whole and visible', async () => {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const decoy = { issuer: BOB, symbol: 'USDX' }
  const value = [...Array.from({ length: 8 }, (_, n) => `${n}${'x'.repeat(100)}`), '\u202egpj\u200b']
  const policy = {
    allow: [{ templateId: 'Note:Note', where: [{ path: 'text', op: 'in', value }] }],
    spend: [
      { asset: usdx(ada), amount: '10' },
      { asset: decoy, unlimited: true },
    ],
    requireApproval: [{ asset: decoy, above: '5' }],
    conditions: [{ rate: { asset: decoy, amount: '1', withinSeconds: 60 } }],
  }
  const { words } = expectStatus(await tenant.post('/policies/validate', { policy, expiresInSeconds: 60 }), 200)
  const shown = [...value.slice(0, -1).map((one) => `"${one}"`), '"\\u202egpj\\u200b"'].join(', ')
  expect(words.map(({ text }: { text: string }) => text)).toEqual([
    `Can create or exercise any choice of Note:Note, if text is one of ${shown}.`,
    `Can spend at most 10 "USDX" (issued by ${ada.issuer}) in the whole session.`,
    `Can spend any amount of "USDX" (issued by ${BOB}).`,
    `Spends at most 1 "USDX" (issued by ${BOB}) within 60 seconds; never otherwise.`,
    `Asks the owner before one transaction spends more than 5 "USDX" (issued by ${BOB}).`,
    'Reads no contracts.',
  ])
})

test('what is hardly meant is warned of: caps of nothing, no expiry, hours that never come, rules without effect', async () => {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const base = { allow: [{ templateId: 'Token:Holding' }], spend: [{ asset: usdx(ada), amount: '10' }] }
  const other = { issuer: ada.issuer, symbol: 'EURX' }
  const hours = (from: string, to: string, days: string[]) => ({ hours: { from, to, days, timeZone: 'Europe/Zurich' } })
  const rate = { executions: 1, withinSeconds: 60 }
  const cases: [more: object, field: string, code: string][] = [
    [{ spend: [{ asset: usdx(ada), amount: '0.00' }] }, 'policy.spend.0.amount', 'cap_zero'],
    [
      { conditions: [{ rate: { asset: usdx(ada), amount: '0', withinSeconds: 60 } }] },
      'policy.conditions.0.rate.amount',
      'cap_zero',
    ],
    [
      { conditions: [{ rate: { asset: other, amount: '1', withinSeconds: 60 } }] },
      'policy.conditions.0.rate.amount',
      'unreachable',
    ],
    [
      { conditions: [hours('09:00', '17:00', ['mon']), hours('09:00', '17:00', ['tue'])] },
      'policy.conditions',
      'never_open',
    ],
    [
      { conditions: [hours('09:00', '12:00', ['mon']), hours('12:00', '17:00', ['mon'])] },
      'policy.conditions',
      'never_open',
    ],
    [{ conditions: [{ rate }, { rate }] }, 'policy.conditions.1', 'unreachable'],
    [{ deny: [{ templateId: 'Token:Holding' }] }, 'policy.allow.0', 'unreachable'],
    [{ deny: [{ templateId: 'Note:Note' }] }, 'policy.deny.0', 'unreachable'],
    [{ allow: [...base.allow, { templateId: 'Token:Holding', choices: ['Split'] }] }, 'policy.allow.1', 'unreachable'],
    [{ requireApproval: [{ asset: usdx(ada), above: '10' }] }, 'policy.requireApproval.0.above', 'unreachable'],
    [{ requireApproval: [{ asset: other, above: '1' }] }, 'policy.requireApproval.0.above', 'unreachable'],
  ]
  const warned = async (policy: object, expiresInSeconds?: number) =>
    expectStatus(await tenant.post('/policies/validate', { policy, expiresInSeconds }), 200).warnings
  for (const [more, field, code] of cases)
    expect(await warned({ ...base, ...more }, 86_400 * 30), JSON.stringify(more)).toEqual([
      expect.objectContaining({ field, code }),
    ])
  expect(await warned(base)).toMatchObject([{ field: 'expiresInSeconds', code: 'no_expiry' }])
  const fine: object[] = [
    {},
    { requireApproval: [{ asset: usdx(ada), above: '9.9' }] },
    { deny: [{ templateId: 'Token:Holding', where: [{ path: 'receiver', op: 'eq', value: BOB }] }] },
    { deny: [{ templateId: 'Token:Holding', choices: ['Merge'] }] },
    { conditions: [hours('09:00', '12:01', ['mon']), hours('12:00', '17:00', ['mon'])] },
    { conditions: [hours('22:00', '06:00', ['mon']), hours('05:59', '17:00', ['tue'])] },
  ]
  for (const more of fine) expect(await warned({ ...base, ...more }, 86_400 * 30), JSON.stringify(more)).toEqual([])
  // A session of a minute does not see an hour of tomorrow.
  const at = (ms: number) => new Date(service.deps.now().getTime() + ms).toISOString().slice(11, 16)
  const later = { hours: { from: at(120 * MINUTE_MS), to: at(180 * MINUTE_MS), timeZone: 'UTC' } }
  expect(await warned({ ...base, conditions: [later] }, 60)).toMatchObject([{ code: 'never_open' }])
  expect(await warned({ ...base, conditions: [later] }, 3 * 3600)).toEqual([])
})

test('a policy that is not valid gets the fields, as when a session is created', async () => {
  const tenant = await service.newTenant()
  for (const [policy, field] of [
    [{ allow: [] }, 'policy.allow'],
    [{ allow: [{ templateId: 'Note:Note' }], conditions: [{}] }, 'policy.conditions.0'],
    [{ allow: [{ templateId: 'Note:Note' }], requireApproval: [{}] }, 'policy.requireApproval.0.above'],
    [null, 'policy'],
  ] as const) {
    const answer = await tenant.post('/policies/validate', { policy })
    expectError(answer, 400, 'validation_failed')
    expect(answer.body.details[0].field).toBe(field)
  }
})
