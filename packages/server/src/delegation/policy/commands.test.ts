import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import {
  BOB,
  create,
  everything,
  exercise,
  expectStatus,
  type Holder,
  holdingsOf,
  newHolder,
  newSession,
  type Session,
  transfer,
  unlimited,
} from '../delegated.fixture.ts'

const UNKNOWN_CONTRACT = `00${'5c'.repeat(32)}`

let service: Service
let tenant: Tenant
let ada: Holder
let session: Session
let holding: string
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
  tenant = await service.newTenant()
  ada = await newHolder(tenant)
  session = await newSession(service, tenant, ada, { policy: everything([unlimited(ada.issuer)]) })
  holding = await ada.receive('10')
})
afterAll(() => service.stop())

const note = (text = 'x') => create('Note:Note', { author: ada.party, text })
const execute = (...commands: unknown[]) => session.execute({ commands })

function expectField(answer: Answer, status: number, code: string, field: string, what = ''): void {
  expectError(answer, status, code, what)
  expect(
    answer.body.details.map((detail: { field: string }) => detail.field),
    what,
  ).toContain(field)
}

/** That nothing has happened since: the one holding is whole, and no transaction or event was written. */
async function expectUntouched(): Promise<void> {
  expect((await holdingsOf(session)).map((one) => one.contractId)).toEqual([holding])
  expect((await tenant.get('/transactions')).body.total).toBe(0)
  expect((await tenant.get(`/delegated-sessions/${session.id}`)).body.data).toMatchObject({ uses: 0, lastUsedAt: null })
  for (const type of ['tx.submitted', 'tx.completed', 'tx.failed'])
    expect(await eventsOf(service, tenant, type)).toEqual([])
}

describe('what is refused changes nothing:', () => {
  test('a call whose form is neither of the two', async () => {
    const signature = '0'.repeat(128)
    const signingRequestId = 'tx_01jb2m7x9kq4t8v6w0r3s5y1zn'
    const calls: [object, string][] = [
      [{}, 'commands'],
      [{ commandId: 'a' }, 'commands'],
      [{ dryRun: true }, 'commands'],
      [{ commands: [] }, 'commands'],
      [{ commands: Array(101).fill(note()) }, 'commands'],
      [{ commands: Array(10_000).fill({}) }, 'commands'],
      [{ commands: {} }, 'commands'],
      [{ commands: note() }, 'commands'],
      [{ commands: [null] }, 'commands.0'],
      [{ commands: [[note()]] }, 'commands.0'],
      [{ signature }, 'signingRequestId'],
      [{ signingRequestId }, 'signature'],
      [{ signingRequestId, signature, commands: [note()] }, 'commands'],
      [{ signingRequestId, signature, dryRun: true }, 'dryRun'],
      [{ signingRequestId, signature, commandId: 'a' }, 'commandId'],
      [{ signingRequestId, signature: signature.slice(1) }, 'signature'],
      [{ signingRequestId, signature: 'F'.repeat(128) }, 'signature'],
      [{ commands: [note()], actAs: BOB }, 'actAs'],
      [{ commands: [note()], dryRun: 'yes' }, 'dryRun'],
      ...['', ' ', 'a b', 'é', 'x'.repeat(201), 7, null].map((commandId): [object, string] => [
        { commands: [note()], commandId },
        'commandId',
      ]),
    ]
    for (const [body, field] of calls)
      expectField(await session.execute(body), 400, 'validation_failed', field, JSON.stringify(body).slice(0, 90))
    await expectUntouched()
  })

  test('a command that is both, neither, or something else', async () => {
    const both = { ...note(), ...transfer(holding) }
    for (const [command, field] of [
      [{}, 'commands.1'],
      [both, 'commands.1'],
      [{ call: { to: '0x00', value: '1' } }, 'commands.1.call'],
      [{ create: null }, 'commands.1.create'],
      [{ create: {} }, 'commands.1.create.templateId'],
      [{ exercise: { templateId: 'Token:Holding', contractId: holding } }, 'commands.1.exercise.choice'],
      [{ exercise: { ...transfer(holding).exercise, actAs: BOB } }, 'commands.1.exercise.actAs'],
      [{ create: { ...note().create, signatories: [BOB] } }, 'commands.1.create.signatories'],
    ] as const)
      expectField(await execute(note(), command), 400, 'validation_failed', field, JSON.stringify(command))
    await expectUntouched()
  })

  test('an amount that is negative, nothing, too much, too fine, a number or no amount', async () => {
    const wrong = [
      '-1',
      '-0',
      '0',
      '0.0',
      '+1',
      '1e1',
      '1E-3',
      '',
      ' 1',
      '1 ',
      '01',
      '.1',
      '1.',
      '1,0',
      '0x1',
      'NaN',
      'Infinity',
      '１',
      'one',
    ]
    const long = [`0.${'0'.repeat(10)}1`, `0.${'0'.repeat(39)}1`, '1'.repeat(29), '9'.repeat(3_999)]
    for (const amount of [...wrong, ...long]) {
      for (const choice of ['Transfer', 'Split', 'Offer']) {
        const given = choice === 'Split' ? { amount } : { amount, receiver: BOB }
        const answer = await execute(exercise('Token:Holding', holding, choice, given))
        expectField(
          answer,
          400,
          'arguments_invalid',
          'commands.0.exercise.arguments.amount',
          `${choice} ${amount.slice(0, 20)}`,
        )
      }
      const issue = { issuer: ada.party, owner: ada.party, symbol: 'X', amount }
      expectField(
        await execute(create('Token:Holding', issue)),
        400,
        'arguments_invalid',
        'commands.0.create.arguments.amount',
      )
    }
    for (const amount of [1, -1, 1e300, 0.1, true, null, {}, [1], ['1', 2]])
      expectRefusal(
        await execute(exercise('Token:Holding', holding, 'Transfer', { receiver: BOB, amount })),
        'validation_failed',
        String(amount),
      )
    expectField(
      await execute(transfer(holding, '1'.repeat(4_001))),
      400,
      'validation_failed',
      'commands.0.exercise.arguments.amount',
    )
    expectField(
      await execute(transfer(holding, ['1'] as never)),
      400,
      'arguments_invalid',
      'commands.0.exercise.arguments.amount',
    )
    for (const amount of ['10.0000000001', '11', '9'.repeat(28)])
      expectField(
        await execute(transfer(holding, amount)),
        400,
        'arguments_invalid',
        'commands.0.exercise.arguments.amount',
      )
    await expectUntouched()
  })

  test('a receiver that is no party', async () => {
    const wrong = [
      '',
      'bob',
      BOB.toUpperCase(),
      `${BOB} `,
      BOB.slice(0, -1),
      `${BOB}0`,
      BOB.replace('::', ':'),
      `a b::${BOB.split('::')[1]}`,
      '*',
    ]
    for (const receiver of wrong)
      expectField(
        await execute(transfer(holding, '1', receiver)),
        400,
        'arguments_invalid',
        'commands.0.exercise.arguments.receiver',
        receiver,
      )
    expectField(
      await execute(transfer(holding, '1', [BOB] as never)),
      400,
      'arguments_invalid',
      'commands.0.exercise.arguments.receiver',
    )
    await expectUntouched()
  })

  test('an argument too many or too few, whatever its name', async () => {
    for (const name of ['memo', 'owner', 'Amount', 'toString', 'valueOf']) {
      const given = { receiver: BOB, [name]: '1' }
      expectField(
        await execute(exercise('Token:Holding', holding, 'Transfer', given)),
        400,
        'arguments_invalid',
        `commands.0.exercise.arguments.${name}`,
      )
    }
    expectField(
      await execute(exercise('Token:Holding', holding, 'Transfer')),
      400,
      'arguments_invalid',
      'commands.0.exercise.arguments.receiver',
    )
    expectField(
      await execute(create('Note:Note', { author: ada.party })),
      400,
      'arguments_invalid',
      'commands.0.create.arguments.text',
    )
    const many = Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`a${n}`, 'x']))
    expectRefusal(await execute(create('Note:Note', many)), 'validation_failed')
    expectRefusal(await execute(create('Note:Note', { ['x'.repeat(65)]: 'x' })), 'validation_failed')
    await expectUntouched()
  })

  test('a template, choice or contract that is not there', async () => {
    const wide = { allow: [{ templateId: 'Token:Gold' }, { templateId: 'Token:Holding' }] }
    const other = await newSession(service, tenant, ada, { policy: wide })
    const asked = (command: object) => other.execute({ commands: [command] })
    expectField(await asked(create('Token:Gold', {})), 400, 'template_unknown', 'commands.0.create.templateId')
    expectField(
      await asked(exercise('Token:Gold', holding, 'Transfer')),
      400,
      'template_unknown',
      'commands.0.exercise.templateId',
    )
    for (const choice of ['Burn', 'transfer', 'Archive', 'toString', '__proto__', 'constructor', ''])
      expectField(
        await asked(exercise('Token:Holding', holding, choice)),
        400,
        'choice_unknown',
        'commands.0.exercise.choice',
        choice,
      )
    for (const id of [UNKNOWN_CONTRACT, '', 'x', holding.toUpperCase(), `${holding}0`, "' OR 1=1", '*'])
      expectField(await asked(transfer(id)), 404, 'contract_not_found', 'commands.0.exercise.contractId', id)
    expectField(
      await execute(exercise('Token:TransferOffer', holding, 'Withdraw')),
      404,
      'contract_not_found',
      'commands.0.exercise.contractId',
    )
    await expectUntouched()
  })

  test("another's contract, which is answered like one that is not there", async () => {
    const [eve, stranger] = [await newHolder(tenant), await newHolder(await service.newTenant())]
    const masked = (answer: Answer) => JSON.stringify([answer.status, answer.body])
    const unknown = masked(await execute(transfer(UNKNOWN_CONTRACT)))
    for (const id of [await eve.receive('10'), await stranger.receive('10')])
      expect(masked(await execute(transfer(id)))).toBe(unknown)
    await expectUntouched()
  })

  test('many commands of which one cannot happen, wherever it stands', async () => {
    const bad = transfer(UNKNOWN_CONTRACT)
    const good = transfer(holding, '1')
    for (const [index, commands] of [
      [1, [good, bad]],
      [0, [bad, good]],
      [99, [good, ...Array(98).fill(note()), bad]],
    ] as const)
      expectField(await execute(...commands), 404, 'contract_not_found', `commands.${index}.exercise.contractId`)
    const denied = await execute(good, note(), create('Other:Thing', {}))
    expectField(denied, 403, 'policy_denied', 'commands.2')
    await expectUntouched()
  })
})

test('a hundred commands are one transaction, with one receipt and one event', async () => {
  const own = await newHolder(tenant)
  const mine = await newSession(service, tenant, own, { policy: everything([unlimited(own.issuer)]) })
  const ids = await Promise.all(Array.from({ length: 50 }, () => own.receive('1')))
  const notes = Array.from({ length: 50 }, (_, n) => create('Note:Note', { author: own.party, text: `${n}` }))
  const done = expectStatus(await mine.execute({ commands: [...ids.map((id) => transfer(id)), ...notes] }), 200)
  expect(new Set(done.effects.map((effect: { command: number }) => effect.command)).size).toBe(100)
  expect(done.effects).toHaveLength(200)
  expect(await holdingsOf(mine)).toEqual([])
  const [event] = await eventsOf(service, tenant, 'tx.completed')
  expect(event).toMatchObject({ transactionId: done.transactionId, delegatedSessionId: mine.id })
  expect(event?.operations).toHaveLength(100)
  expect((await tenant.get(`/delegated-sessions/${mine.id}`)).body.data.uses).toBe(1)
})

test('two sessions of one wallet that spend one contract at once spend it once', async () => {
  const own = await newHolder(tenant)
  const policy = everything([unlimited(own.issuer)])
  const sessions = [
    await newSession(service, tenant, own, { policy }),
    await newSession(service, tenant, own, { policy }),
  ]
  const id = await own.receive('5')
  const tries = Array.from({ length: 40 }, (_, n) => sessions[n % 2]?.execute({ commands: [transfer(id)] }))
  const answers = (await Promise.all(tries)) as Answer[]
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
  for (const answer of answers) if (answer.status !== 200) expectError(answer, 409, 'contract_archived')
  const uses = await Promise.all(
    sessions.map(async ({ id: dse }) => (await tenant.get(`/delegated-sessions/${dse}`)).body.data.uses),
  )
  expect(uses.sort()).toEqual([0, 1])
})

test('two sessions that take the same contracts the other way round do not wait for each other for ever', async () => {
  const own = await newHolder(tenant)
  const policy = everything([unlimited(own.issuer)])
  const sessions = await Promise.all(Array.from({ length: 4 }, () => newSession(service, tenant, own, { policy })))
  for (let round = 0; round < 5; round += 1) {
    const ids = await Promise.all(Array.from({ length: 6 }, () => own.receive('1')))
    const answers = await Promise.all(
      sessions.map((one, n) =>
        one.execute({ commands: (n % 2 === 0 ? ids : [...ids].reverse()).map((id) => transfer(id)) }),
      ),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409])
  }
})
