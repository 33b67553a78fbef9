import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { statusCounts } from '../../identity/guests/guests.fixture.ts'
import { signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { approve, ask, asking, newOwner } from '../approvals/approvals.fixture.ts'
import {
  BOB,
  create,
  executeBeside,
  expectStatus,
  type Holder,
  newHolder,
  newKeyHolder,
  newSession,
  type Session,
  transfer,
  transfers,
} from '../delegated.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const many = <T>(n: number, one: (index: number) => T) => Array.from({ length: n }, (_, index) => one(index))
const usdx = ({ issuer }: Pick<Holder, 'issuer'>) => ({ issuer, symbol: 'USDX' })

async function withConditions(conditions: (of: Holder) => object[], more: object = {}) {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const policy = transfers(ada, '1000', { conditions: conditions(ada) })
  const session = await newSession(service, tenant, ada, { policy, expiresInSeconds: 86_400 * 20, ...more })
  return { tenant, ada, session }
}

const pay = async (session: Session, holder: Holder, amount = '1', receiver = BOB): Promise<Answer> =>
  session.execute({ commands: [transfer(await holder.receive(amount), amount, receiver)] })

/** The time of day at UTC, some minutes from now. */
const clock = (minutes: number) =>
  new Date(service.deps.now().getTime() + minutes * MINUTE_MS).toISOString().slice(11, 16)

const completed = async (tenant: Tenant) => (await tenant.get('/transactions?status=completed&page_size=1')).body.total

test('outside its hours a session pays nothing, and the refusal says which hours they are', async () => {
  const hours = { from: clock(60), to: clock(120), timeZone: 'UTC' }
  const { tenant, ada, session } = await withConditions(() => [{ hours }])
  const early = await pay(session, ada)
  expectError(early, 403, 'policy_denied')
  expect(early.body.details[0]).toMatchObject({ field: 'commands', rule: 'conditions[0]' })
  expect(early.body.details[0].message).toContain(`from ${hours.from} to ${hours.to}`)
  expect(early.body.details[0].message).toContain('(UTC)')
  const dry = expectStatus(await session.execute({ commands: [transfer(await ada.receive('1'))], dryRun: true }), 200)
  expect(dry.decision).toMatchObject({ allowed: false, code: 'policy_denied', rule: 'conditions[0]' })
  service.advance(61 * MINUTE_MS)
  expectStatus(await pay(session, ada), 200)
  service.advance(60 * MINUTE_MS)
  expectError(await pay(session, ada), 403, 'policy_denied')
  const [denied] = (await tenant.get(`/denials?session_id=${session.id}`)).body.data
  expect(denied).toMatchObject({ rule: 'conditions[0]', code: 'policy_denied' })
})

test('days of the week are those of the zone', async () => {
  // Far from midnight.
  service.advance(DAY_MS + DAY_MS / 2 - (service.deps.now().getTime() % DAY_MS))
  const day = (['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const)[service.deps.now().getUTCDay()]
  const whole = { from: '00:00', to: '24:00', timeZone: 'UTC' }
  const today = await withConditions(() => [{ hours: { days: [day], ...whole } }])
  expectStatus(await pay(today.session, today.ada), 200)
  const others = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'].filter((one) => one !== day)
  const never = await withConditions(() => [{ hours: { days: others, ...whole } }])
  expectError(await pay(never.session, never.ada), 403, 'policy_denied')
})

test('a rate counts transactions that cost nothing, too, until their window is over', async () => {
  const { ada, session } = await withConditions(() => [{ rate: { executions: 2, withinSeconds: 600 } }])
  const split = async () => {
    const choice = { templateId: 'Token:Holding', contractId: await ada.receive('2'), choice: 'Split' }
    return session.execute({ commands: [{ exercise: { ...choice, arguments: { amount: '1' } } }] })
  }
  const fromMs = service.deps.now().getTime()
  expectStatus(await split(), 200)
  const byMs = service.deps.now().getTime()
  service.advance(5 * MINUTE_MS)
  expectStatus(await pay(session, ada), 200)
  const third = await pay(session, ada)
  expectError(third, 403, 'policy_denied')
  const { resetsAt, ...why } = third.body.details[0]
  expect(why).toMatchObject({
    rule: 'conditions[0]',
    limit: '2',
    spent: '2',
    asked: '1',
    remaining: '0',
    withinSeconds: 600,
  })
  // What is counted first falls out after the window and at most one slice more.
  expect(Date.parse(resetsAt)).toBeGreaterThanOrEqual(fromMs + 10 * MINUTE_MS)
  expect(Date.parse(resetsAt)).toBeLessThanOrEqual(byMs + 10 * MINUTE_MS + 10_000)
  service.advance(Date.parse(resetsAt) - service.deps.now().getTime())
  expectStatus(await pay(session, ada), 200)
  expectError(await pay(session, ada), 403, 'policy_denied')
})

test('a rate of an amount counts that asset alone, and what is refused is not counted', async () => {
  const { ada, session } = await withConditions((of) => [
    { rate: { asset: usdx(of), amount: '10', withinSeconds: 3600 } },
    { rate: { executions: 4, withinSeconds: 3600 } },
  ])
  expectStatus(await pay(session, ada, '7'), 200)
  const over = await pay(session, ada, '3.0000000001')
  expectError(over, 403, 'policy_denied')
  expect(over.body.details[0]).toMatchObject({ rule: 'conditions[0]', asset: usdx(ada), spent: '7', remaining: '3' })
  expectStatus(await pay(session, ada, '3'), 200)
  expectError(await pay(session, ada, '0.0000000001'), 403, 'policy_denied')
  const split = { templateId: 'Token:Holding', contractId: await ada.receive('2'), choice: 'Split' }
  for (const commandId of ['one', 'two'])
    await session.execute({ commandId, commands: [{ exercise: { ...split, arguments: { amount: '1' } } }] })
  // Two payments, one split: the second split found its contract used up, and so was not counted.
  expectStatus(
    await session.execute({
      commands: [{ exercise: { ...split, contractId: await ada.receive('2'), arguments: { amount: '1' } } }],
    }),
    200,
  )
  expectError(await pay(session, ada, '0.1'), 403, 'policy_denied')
})

test('forty at once by several keys make exactly as many as the rate allows, and spend exactly its amount', async () => {
  const counted = await withConditions(() => [{ rate: { executions: 7, withinSeconds: 3600 } }])
  const priced = await withConditions((of) => [{ rate: { asset: usdx(of), amount: '5.5', withinSeconds: 3600 } }])
  for (const [{ tenant, ada, session }, most] of [
    [counted, 7],
    [priced, 5],
  ] as const) {
    const holdings = await Promise.all(many(40, () => ada.receive('1')))
    const answers = await Promise.all(
      holdings.map((id, n) => executeBeside(session, { commands: [transfer(id)] }, n % 4)),
    )
    expect(statusCounts(answers)).toEqual({ 200: most, '403 policy_denied': 40 - most })
    expect(await completed(tenant)).toBe(most)
  }
})

test('beyond a rate the owner is asked, once: what they approve is counted, and not refused', async () => {
  const { owner, session } = await asking(service, (one) =>
    transfers(one, '100', {
      conditions: [
        { rate: { executions: 1, withinSeconds: 3600 }, otherwise: 'require_approval', expiresInSeconds: 600 },
      ],
    }),
  )
  const first = await ask(session, owner, '1', 'order-1')
  expect(first.status).toBe('completed')
  const second = await ask(session, owner, '1', 'order-2')
  expect(second.status).toBe('approval_required')
  expect(Date.parse(second.approval.expiresAt) - service.deps.now().getTime()).toBeLessThanOrEqual(600_000)
  const { rules } = expectStatus(await owner.person.get(`/approvals/${second.approval.id}`), 200)
  expect(rules).toEqual([
    { rule: 'conditions[0]', message: expect.stringContaining('1 transactions within 3600 seconds') },
  ])
  const beside = await session.execute({ commands: [transfer(await owner.receive('1'))] })
  expectError(beside, 409, 'approval_pending')
  expectStatus(await approve(owner, second.approval.id), 200)
  const repeated = expectStatus(await session.execute({ commandId: 'order-2', commands: second.commands }), 200)
  expect(repeated.status).toBe('completed')
  expect((await ask(session, owner, '1', 'order-3')).status).toBe('approval_required')
})

test('what the owner refuses is taken off the rate', async () => {
  const { owner, session } = await asking(service, (one) =>
    transfers(one, '100', {
      requireApproval: [{ newRecipient: true }],
      conditions: [{ rate: { executions: 1, withinSeconds: 3600 } }],
    }),
  )
  const first = await ask(session, owner, '1', 'order-1')
  expect(first.status).toBe('approval_required')
  expectError(await session.execute({ commands: [transfer(await owner.receive('1'))] }), 403, 'policy_denied')
  expectStatus(await owner.person.post(`/approvals/${first.approval.id}/deny`, {}), 200)
  const second = await ask(session, owner, '1', 'order-2')
  expectStatus(await approve(owner, second.approval.id), 200)
  expectError(await session.execute({ commands: [transfer(await owner.receive('1'))] }), 403, 'policy_denied')
})

test('outside hours that ask, the owner decides; hours that deny hold when the owner approves', async () => {
  const open = { from: '00:00', to: '24:00', timeZone: 'UTC' }
  const soonOver = { from: clock(-60), to: clock(30), timeZone: 'UTC' }
  const asks = { hours: { ...open, from: clock(-120), to: clock(-60) }, otherwise: 'require_approval' }
  const { tenant, owner, session } = await asking(service, (one) =>
    transfers(one, '100', { conditions: [asks, { hours: soonOver }] }),
  )
  const asked = await ask(session, owner, '1')
  expect(asked.status).toBe('approval_required')
  service.advance(45 * MINUTE_MS)
  owner.person = await signInAs(service, tenant, { userId: owner.userId })
  const late = await approve(owner, asked.approval.id)
  expectError(late, 403, 'policy_denied')
  expect(late.body.details[0]).toMatchObject({ rule: 'conditions[1]' })
  // The request stays open until the hours come again.
  expect(expectStatus(await owner.person.get(`/approvals/${asked.approval.id}`), 200).status).toBe('pending')
})

test('conditions that say nothing, or two things, are refused with the field', async () => {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const hours = { from: '09:00', to: '18:00', timeZone: 'Europe/Zurich' }
  const rate = { executions: 1, withinSeconds: 60 }
  for (const [condition, field] of [
    [{}, ''],
    [{ otherwise: 'deny' }, ''],
    [{ hours, rate }, ''],
    [{ hours: { ...hours, timeZone: 'Europe/Atlantis' } }, '.hours.timeZone'],
    [{ hours: { ...hours, timeZone: '+05:30' } }, '.hours.timeZone'],
    [{ hours: { ...hours, timeZone: `Europe/${'x'.repeat(80)}` } }, '.hours.timeZone'],
    [{ hours: { ...hours, to: '09:00' } }, '.hours.to'],
    [{ hours: { ...hours, from: '24:00' } }, '.hours.from'],
    [{ hours: { ...hours, from: '9:00' } }, '.hours.from'],
    [{ hours: { ...hours, days: [] } }, '.hours.days'],
    [{ hours: { ...hours, days: ['mon', 'mon'] } }, '.hours.days'],
    [{ hours: { ...hours, days: ['MON'] } }, '.hours.days.0'],
    [{ rate: { withinSeconds: 60 } }, '.rate.executions'],
    [{ rate: { ...rate, amount: '1' } }, '.rate.amount'],
    [{ rate: { amount: '1', withinSeconds: 60 } }, '.rate.asset'],
    [{ rate: { ...rate, executions: 0 } }, '.rate.executions'],
    [{ rate: { ...rate, executions: 1.5 } }, '.rate.executions'],
    [{ rate: { ...rate, withinSeconds: 59 } }, '.rate.withinSeconds'],
    [{ rate: { ...rate, withinSeconds: 31 * 86_400 } }, '.rate.withinSeconds'],
    [{ rate: { asset: usdx(ada), amount: '-1', withinSeconds: 60 } }, '.rate.amount'],
    [{ recipients: 'everybody' }, '.recipients'],
    [{ hours, otherwise: 'allow' }, '.otherwise'],
    [{ hours, expiresInSeconds: 60 }, '.expiresInSeconds'],
  ] as const) {
    const policy = transfers(ada, '10', { conditions: [condition] })
    const answer = await tenant.post('/delegated-sessions', { policy }, ada.asUser)
    expectError(answer, 400, 'validation_failed')
    expect(answer.body.details[0].field, answer.text).toBe(`policy.conditions.0${field}`)
  }
  const tooMany = transfers(ada, '10', { conditions: many(5, () => ({ hours })) })
  const answer = await tenant.post('/delegated-sessions', { policy: tooMany }, ada.asUser)
  expectError(answer, 400, 'validation_failed')
  expect(answer.body.details[0].field).toBe('policy.conditions')
  const many11 = transfers(ada, '10', { conditions: many(11, () => ({ rate })) })
  expectError(await tenant.post('/delegated-sessions', { policy: many11 }, ada.asUser), 400, 'validation_failed')
})

test('a condition that asks needs an owner who can be asked; one that denies holds for every wallet', async () => {
  const tenant = await service.newTenant()
  const holder = await newKeyHolder(service, tenant)
  const rate = { executions: 1, withinSeconds: 60 }
  const policy = (otherwise: string) => ({ ...transfers(holder as never, '5'), conditions: [{ rate, otherwise }] })
  expectError(
    await holder.person.post('/delegated-sessions', { policy: policy('require_approval') }),
    409,
    'approvals_unavailable',
  )
  expectStatus(await holder.person.post('/delegated-sessions', { policy: policy('deny') }), 201)
})

test('all sessions of a wallet together have at most twenty open requests, also when they ask at once', async () => {
  const tenant = await service.newTenant()
  const owner = await newOwner(service, tenant)
  const policy = transfers(owner, '1000', { requireApproval: [{ newRecipient: true }] })
  const sessions = await Promise.all(many(24, () => newSession(service, tenant, owner, { policy })))
  const holdings = await Promise.all(many(24, () => owner.receive('1')))
  const answers = await Promise.all(
    sessions.map((session, n) => session.execute({ commands: [transfer(holdings[n] as string)] })),
  )
  expect(statusCounts(answers)).toEqual({ 200: 20, '409 approval_limit_reached': 4 })
  expect((await owner.person.get('/approvals?status=pending')).body.total).toBe(20)
  const refused = answers.findIndex(({ status }) => status === 409)
  expect(answers[refused]?.body.details[0]).toMatchObject({ limit: 'wallet_open', rule: 'requireApproval[0]' })
  const [open] = (await owner.person.get('/approvals?status=pending')).body.data
  expectStatus(await owner.person.post(`/approvals/${open.id}/deny`, {}), 200)
  const again = await sessions[refused]?.execute({ commands: [transfer(holdings[refused] as string)] })
  expect(expectStatus(again as Answer, 200).status).toBe('approval_required')
})

test('all sessions of a wallet together ask at most sixty times within an hour', async () => {
  const tenant = await service.newTenant()
  const owner = await newOwner(service, tenant)
  const policy = transfers(owner, '1000', { requireApproval: [{ newRecipient: true }] })
  for (let session = 0; session < 4; session += 1) {
    const one = await newSession(service, tenant, owner, { policy })
    for (let n = 0; n < 20 && session < 3; n += 1) {
      const asked = expectStatus(await one.execute({ commands: [transfer(await owner.receive('1'))] }), 200)
      expectStatus(await owner.person.post(`/approvals/${asked.approval.id}/deny`, {}), 200)
    }
    if (session < 3) continue
    const answer = await one.execute({ commands: [transfer(await owner.receive('1'))] })
    expectError(answer, 409, 'approval_limit_reached')
    expect(answer.body.details[0]).toMatchObject({ limit: 'wallet_hour' })
  }
  service.advance(HOUR_MS + MINUTE_MS)
})

test('a note of the wallet pays nobody, and is counted by transactions alone', async () => {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const policy = {
    allow: [{ templateId: 'Note:Note' }],
    conditions: [
      { rate: { asset: usdx(ada), amount: '0', withinSeconds: 60 } },
      { rate: { executions: 1, withinSeconds: 60 } },
    ],
  }
  const session = await newSession(service, tenant, ada, { policy })
  const note = { commands: [create('Note:Note', { author: ada.party, text: 'x' })] }
  expectStatus(await session.execute(note), 200)
  const second = await session.execute(note)
  expectError(second, 403, 'policy_denied')
  expect(second.body.details[0]).toMatchObject({ rule: 'conditions[1]' })
})
