import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService } from '../../../test/harness/harness.ts'
import { eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import {
  BOB,
  create,
  everything,
  exercise,
  expectStatus,
  holdingsOf,
  newHolder,
  newSession,
  stateOf,
  transfer,
  unlimited,
} from '../delegated.fixture.ts'

const HOLDING = 'Token:Holding'
const EVE = `eve::1220${'e0'.repeat(32)}`

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

/** A session whose policy is made for its holder. */
async function underPolicy(policy: (of: { issuer: string; party: string }) => object) {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  return { tenant, ada, session: await newSession(service, tenant, ada, { policy: policy(ada) }) }
}

function expectDenied(answer: Answer, rule: string, field = 'commands.0'): void {
  expectError(answer, 403, 'policy_denied')
  expect(answer.body.details).toEqual([
    { field, code: 'policy_denied', message: expect.stringMatching(/\S/), rule, ...answer.body.details[0] },
  ])
  expect(answer.body.details[0]).toMatchObject({ field, rule })
}

describe('a policy', () => {
  test('denies what no rule allows: another template, action, choice or receiver', async () => {
    const { ada, session } = await underPolicy(({ issuer }) => ({
      allow: [
        {
          templateId: HOLDING,
          actions: ['exercise'],
          choices: ['Transfer'],
          where: [
            { path: 'receiver', op: 'in', value: [BOB] },
            { path: 'amount', op: 'lte', value: '5.00' },
          ],
        },
      ],
      spend: [unlimited(issuer)],
    }))
    const holding = await ada.receive('10')
    const tried = (command: object) => session.execute({ commands: [command] })
    expectDenied(await tried(create('Note:Note', { author: ada.party, text: 'x' })), 'allow')
    expectDenied(
      await tried(create(HOLDING, { issuer: ada.party, owner: ada.party, symbol: 'X', amount: '1' })),
      'allow',
    )
    expectDenied(await tried(exercise(HOLDING, holding, 'Offer', { receiver: BOB, amount: '1' })), 'allow')
    expectDenied(await tried(exercise(HOLDING, holding, 'transfer', { receiver: BOB, amount: '1' })), 'allow')
    expectDenied(await tried(transfer(holding, '1', EVE)), 'allow')
    expectDenied(await tried(transfer(holding, '5.0000000001')), 'allow')
    expectDenied(await tried(exercise(HOLDING, holding, 'Transfer', { amount: '1' })), 'allow')
    // The amount that is left out means all of it, which is more than 5.
    expectDenied(await tried(transfer(holding)), 'allow')
    for (const amount of ['1e0', '-1', '05', '']) expectDenied(await tried(transfer(holding, amount)), 'allow')
    expectStatus(await tried(transfer(holding, '5.0')), 200)
  })

  test('decides before anything is looked up: what is not allowed learns nothing of contracts', async () => {
    const { ada, session } = await underPolicy(() => ({ allow: [{ templateId: 'Note:Note' }] }))
    const answers = await Promise.all(
      [await ada.receive('1'), `00${'5c'.repeat(32)}`, 'x'].map((id) => session.execute({ commands: [transfer(id)] })),
    )
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
    expectDenied(answers[0] as Answer, 'allow')
  })

  test('lets a deny rule win over every allow rule, in whichever order', async () => {
    const { ada, session } = await underPolicy(({ issuer }) => ({
      allow: [{ templateId: HOLDING }, { templateId: HOLDING, choices: ['Transfer'] }],
      deny: [
        { templateId: 'Note:Note' },
        { templateId: HOLDING, where: [{ path: 'receiver', op: 'eq', value: EVE }], choices: ['Transfer', 'Offer'] },
      ],
      spend: [unlimited(issuer)],
    }))
    const holding = await ada.receive('10')
    for (const choice of ['Transfer', 'Offer'])
      expectDenied(
        await session.execute({ commands: [exercise(HOLDING, holding, choice, { receiver: EVE })] }),
        'deny[1]',
      )
    // Without a receiver nobody can say that it is not Eve.
    expectDenied(await session.execute({ commands: [exercise(HOLDING, holding, 'Transfer')] }), 'deny[1]')
    expectStatus(await session.execute({ commands: [transfer(holding, '1')] }), 200)
  })

  test('that bounds what is left out bounds what the ledger fills in', async () => {
    const { ada, session } = await underPolicy(({ issuer }) => ({
      allow: [{ templateId: HOLDING, choices: ['Transfer'] }],
      deny: [{ templateId: HOLDING, choices: ['Transfer'], where: [{ path: 'amount', op: 'gt', value: '5' }] }],
      spend: [unlimited(issuer)],
    }))
    expectDenied(await session.execute({ commands: [transfer(await ada.receive('6'))] }), 'deny[0]')
    const small = await session.execute({ commands: [transfer(await ada.receive('5'), '5')] })
    expectStatus(small, 200)
  })

  test('names the first command at fault, and all are refused with it', async () => {
    const { ada, session } = await underPolicy(({ issuer }) => ({
      allow: [{ templateId: HOLDING, choices: ['Transfer'] }],
      spend: [unlimited(issuer)],
      query: { templateIds: [HOLDING] },
    }))
    const holding = await ada.receive('10')
    const commands = [transfer(holding, '1'), exercise(HOLDING, holding, 'Split', { amount: '1' })]
    expectDenied(await session.execute({ commands }), 'allow', 'commands.1')
    expect((await holdingsOf(session)).map(({ contractId }) => contractId)).toEqual([holding])
  })

  test('is not widened by names that every object has', async () => {
    const { session } = await underPolicy(() => ({ allow: [{ templateId: HOLDING }] }))
    for (const templateId of ['toString', 'constructor', 'hasOwnProperty', ''])
      expectDenied(await session.execute({ commands: [create(templateId, {})] }), 'allow')
  })
})

describe('delegated_session.denied', () => {
  test('is told once a minute for each rule, with what decided, and outlives the refusal', async () => {
    const { tenant, ada, session } = await underPolicy(({ issuer }) =>
      everything([{ asset: { issuer, symbol: 'USDX' }, amount: '1' }]),
    )
    const holding = await ada.receive('10')
    const over = () => session.execute({ commands: [transfer(holding)] })
    const unknown = () => session.execute({ commands: [create('Other:Thing', {})] })
    const told = () => eventsOf(service, tenant, 'delegated_session.denied')
    const answers = await Promise.all(Array.from({ length: 30 }, (_, n) => (n % 2 === 0 ? over() : unknown())))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([403]))
    const common = {
      delegatedSessionId: session.id,
      userId: ada.userId,
      walletId: ada.walletId,
      message: expect.stringMatching(/\S/),
    }
    const first = await told()
    expect(first).toHaveLength(2)
    expect(first).toContainEqual({ ...common, code: 'spend_limit_exceeded', rule: 'spend[0]' })
    expect(first).toContainEqual({ ...common, code: 'policy_denied', rule: 'allow' })
    service.advance(30_000)
    await over()
    expect(await told()).toHaveLength(2)
    service.advance(31_000)
    await Promise.all(Array.from({ length: 10 }, over))
    expect(await told()).toHaveLength(3)
    expect((await tenant.get(`/delegated-sessions/${session.id}`)).body.data).toMatchObject({
      uses: 0,
      lastUsedAt: null,
    })
  })

  test('is told beside an Idempotency-Key too, whose answer is not kept', async () => {
    const { tenant, ada, session } = await underPolicy(({ issuer }) =>
      everything([{ asset: { issuer, symbol: 'USDX' }, amount: '1' }]),
    )
    const holding = await ada.receive('10')
    const options = { headers: { 'idempotency-key': 'k' } }
    for (let n = 0; n < 2; n += 1) {
      const answer = await session.execute({ commands: [transfer(holding)] }, options)
      expectError(answer, 403, 'spend_limit_exceeded')
      expect(answer.headers.get('idempotency-replayed')).toBeNull()
    }
    expect(await eventsOf(service, tenant, 'delegated_session.denied')).toHaveLength(1)
    expectStatus(await session.execute({ commands: [transfer(holding, '1')] }, options), 200)
  })

  test('is not told of what the ledger refuses, nor of what is malformed', async () => {
    const { tenant, session } = await underPolicy(() => everything())
    await session.execute({ commands: [transfer(`00${'5c'.repeat(32)}`)] })
    await session.execute({ commands: [] })
    await session.execute({ commands: [create('Note:Note', {})] })
    expect(await eventsOf(service, tenant, 'delegated_session.denied')).toEqual([])
  })
})

describe('a dry run', () => {
  test('changes nothing, whatever it answers', async () => {
    const { tenant, ada, session } = await underPolicy(({ issuer }) =>
      everything([{ asset: { issuer, symbol: 'USDX' }, amount: '5' }]),
    )
    const holding = await ada.receive('10')
    const dry = (commands: object[], more: object = {}) => session.execute({ dryRun: true, commands, ...more })
    await session.query()
    const before = await stateOf(service)
    expectStatus(await dry([transfer(holding, '5')]), 200)
    expectStatus(await dry([transfer(holding, '6')]), 200)
    expectStatus(await dry([create('Other:Thing', {})]), 200)
    expectStatus(await dry([transfer(holding, '1')], { commandId: 'a' }), 200)
    expectError(await dry([transfer(`00${'5c'.repeat(32)}`)]), 404, 'contract_not_found')
    await Promise.all(Array.from({ length: 20 }, () => dry([transfer(holding, '5')])))
    expect(await stateOf(service)).toBe(before)
    expect((await tenant.get(`/delegated-sessions/${session.id}/denials`)).body.total).toBe(0)
    // Nothing of it was reserved, and its command id is still free.
    expectStatus(await session.execute({ commandId: 'a', commands: [transfer(holding, '5')] }), 200)
  })

  test('that is allowed answers the effects, what would remain, and the rule that decides', async () => {
    const { ada, session } = await underPolicy(({ issuer }) =>
      everything([{ asset: { issuer, symbol: 'USDX' }, amount: '5' }]),
    )
    const holding = await ada.receive('10')
    const command = transfer(holding, '2')
    const dry = expectStatus(await session.execute({ dryRun: true, commandId: 'order', commands: [command] }), 200)
    expect(dry).toMatchObject({
      transactionId: null,
      commandId: 'order',
      status: 'dry_run',
      updateId: null,
      offset: null,
      signingRequest: null,
      decision: { allowed: true, code: null, rule: 'allow[0]' },
    })
    expect(dry.remaining.spend[0]).toMatchObject({ limit: '5', spent: '2', remaining: '3' })
    const done = expectStatus(await session.execute({ commands: [command] }), 200)
    const shapes = (effects: { contractId: string; type: string }[]) =>
      effects.map((one) => (one.type === 'created' ? { ...one, contractId: '' } : one))
    expect(shapes(dry.effects)).toEqual(shapes(done.effects))
    expect(dry.remaining).toEqual(done.remaining)
    expect(done.decision).toBeNull()
  })

  test('that is denied is a 200 that says which rule denies, and why each rule fits or not', async () => {
    const { ada, session } = await underPolicy(({ issuer }) => ({
      allow: [
        { templateId: HOLDING, choices: ['Split'] },
        { templateId: HOLDING, choices: ['Transfer'], where: [{ path: 'receiver', op: 'eq', value: BOB }] },
      ],
      deny: [{ templateId: HOLDING, choices: ['Offer'] }],
      spend: [{ asset: { issuer, symbol: 'USDX' }, amount: '5' }],
    }))
    const holding = await ada.receive('10')
    const decided = async (command: object) =>
      expectStatus(await session.execute({ dryRun: true, commands: [command] }), 200).decision
    const byReceiver = await decided(transfer(holding, '1', EVE))
    expect(byReceiver).toMatchObject({ allowed: false, code: 'policy_denied', rule: 'allow', command: 0 })
    expect(byReceiver.trace[0]).toMatchObject({
      command: 0,
      allowed: false,
      rule: 'allow',
      action: 'exercise Token:Holding Transfer',
    })
    const reasons = Object.fromEntries(byReceiver.trace[0].rules.map((one: { rule: string }) => [one.rule, one]))
    expect(Object.keys(reasons).sort()).toEqual(['allow[0]', 'allow[1]', 'deny[0]'])
    expect(reasons['allow[1]']).toMatchObject({ matched: false, reason: expect.stringContaining('receiver') })
    expect(await decided(exercise(HOLDING, holding, 'Offer', { receiver: BOB }))).toMatchObject({
      allowed: false,
      rule: 'deny[0]',
    })
    expect(await decided(transfer(holding, '6'))).toMatchObject({
      allowed: false,
      code: 'spend_limit_exceeded',
      rule: 'spend[0]',
    })
    expect(await decided(transfer(holding, '5'))).toMatchObject({ allowed: true, rule: 'allow[1]' })
  })

  test('of an ended session, or under a command id of other commands, is answered as execute would', async () => {
    const { tenant, ada, session } = await underPolicy(() => everything())
    const note = create('Note:Note', { author: ada.party, text: 'x' })
    expectStatus(await session.execute({ commandId: 'a', commands: [note] }), 200)
    expectError(
      await session.execute({ dryRun: true, commandId: 'a', commands: [note, note] }),
      409,
      'duplicate_command',
    )
    await tenant.post(`/wallets/${ada.walletId}/freeze`)
    expectError(await session.execute({ dryRun: true, commands: [note] }), 409, 'wallet_frozen')
    await tenant.delete(`/delegated-sessions/${session.id}`)
    expectError(await session.execute({ dryRun: true, commands: [note] }), 410, 'delegated_session_revoked')
  })
})
