import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Service, startService } from '../../../../test/harness/harness.ts'
import { formatAmount, UNITS_MAX } from '../../../platform/ports/amount.ts'
import { type Actor, createdId, exercise, issue, newActor, note, refusal, type Stage } from '../stage.fixture.ts'
import { embeddedStage } from './embedded.fixture.ts'

/** Nobody's here. */
const BOB = `bob::1220${'b'.repeat(64)}`

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

let stage: Stage
let bank: Actor
let ada: Actor
let eve: Actor
beforeEach(async () => {
  stage = await embeddedStage(service)
  bank = await newActor(stage, 'bank')
  ada = await newActor(stage)
  eve = await newActor(stage, 'eve')
})

/** Gives somebody holdings. @returns their contract ids */
async function give(owner: Actor, ...amounts: string[]): Promise<string[]> {
  const { prepared } = await bank.run(...amounts.map((amount) => issue(bank, owner, amount)))
  return amounts.map((_, n) => createdId(prepared, n))
}

const amountsOf = async (actor: Actor, templateId?: string) =>
  (await actor.contracts(templateId)).map((contract) => contract.arguments.amount).sort()

const offerOf = (id: string, choice: string) => exercise(id, choice, {}, 'Token:TransferOffer')

describe('a holding', () => {
  test('is transferred in part, and the rest stays; in whole, and nothing stays', async () => {
    const [ten, five] = (await give(ada, '10', '5')) as [string, string]
    await ada.run(
      exercise(ten, 'Transfer', { receiver: eve.party, amount: '0.0000000001' }),
      exercise(five, 'Transfer', { receiver: eve.party }),
    )
    expect(await amountsOf(ada)).toEqual(['9.9999999999'])
    expect(await amountsOf(eve)).toEqual(['0.0000000001', '5'])
    const [of] = await eve.contracts()
    expect(of).toMatchObject({ signatories: [bank.party], observers: [eve.party] })
  })

  test('is split and merged, and the sum stays', async () => {
    const [ten, five] = (await give(ada, '10', '5')) as [string, string]
    const { prepared } = await ada.run(exercise(ten, 'Split', { amount: '2.5' }))
    expect(await amountsOf(ada)).toEqual(['2.5', '5', '7.5'])
    await ada.run(exercise(five, 'Merge', { contractIds: [createdId(prepared, 0), createdId(prepared, 1)] }))
    expect(await amountsOf(ada)).toEqual(['15'])
    const [all] = await ada.contracts()
    await ada.run(exercise(all?.contractId as string, 'Split', { amount: '15.0' }))
    expect(await amountsOf(ada)).toEqual(['15'])
  })

  test('gives no more than it holds, no less than something, and nothing but amounts', async () => {
    const [ten] = (await give(ada, '10')) as [string]
    const wrong = [
      '10.0000000001',
      '0',
      '0.0',
      '-1',
      '+1',
      '1e1',
      '01',
      '.5',
      '5.',
      '1,5',
      ' 1',
      '1\n',
      '',
      'NaN',
      '0x1',
    ]
    wrong.push('1.00000000001', `1${'0'.repeat(28)}`, '٣')
    for (const choice of ['Transfer', 'Offer', 'Split'])
      for (const amount of wrong) {
        const given = choice === 'Split' ? { amount } : { amount, receiver: BOB }
        const error = await refusal(() => ada.prepare([exercise(ten, choice, given)]), 'arguments_invalid')
        expect(error.field, `${choice} ${amount}`).toBe('0.exercise.arguments.amount')
      }
    const given = { receiver: BOB, amount: ['1'] }
    await refusal(() => ada.prepare([exercise(ten, 'Transfer', given)]), 'arguments_invalid')
    expect(await amountsOf(ada)).toEqual(['10'])
  })

  test('is merged only with holdings of the same asset and owner, each once', async () => {
    const [ten, five] = (await give(ada, '10', '5')) as [string, string]
    const [eves] = (await give(eve, '7')) as [string]
    const { prepared: others } = await bank.run(issue(bank, ada, '1', 'EURX'), note(bank, 'x', [ada.party]))
    const { prepared: own } = await ada.run(issue(ada, ada, '1'))
    // An issuer sees all of its holdings: whose they are counts, not whether they are seen.
    const { prepared: banks } = await bank.run(issue(bank, bank, '1'))
    const merge = (actor: Actor, id: string, contractIds: string[]) => () =>
      actor.prepare([exercise(id, 'Merge', { contractIds })])
    const fieldOf = async (...asked: Parameters<typeof refusal>) => (await refusal(...asked)).field
    const at = (n: number) => `0.exercise.arguments.contractIds.${n}`
    expect(await fieldOf(merge(ada, ten, [five, createdId(others, 0)]), 'arguments_invalid')).toBe(at(1))
    expect(await fieldOf(merge(ada, ten, [createdId(own)]), 'arguments_invalid')).toBe(at(0))
    expect(await fieldOf(merge(bank, createdId(banks), [eves]), 'arguments_invalid')).toBe(at(0))
    expect(await fieldOf(merge(ada, ten, [eves]), 'contract_not_found')).toBe(at(0))
    expect(await fieldOf(merge(ada, ten, [createdId(others, 1)]), 'contract_not_found')).toBe(at(0))
    expect(await fieldOf(merge(ada, ten, [ten]), 'contract_archived')).toBe(at(0))
    for (const contractIds of [
      [five, five],
      [],
      ['x'],
      Array.from({ length: 101 }, (_, n) => `00${String(n).padStart(64, '0')}`),
    ])
      expect(await fieldOf(merge(ada, ten, contractIds), 'arguments_invalid')).toBe('0.exercise.arguments.contractIds')
    expect(await amountsOf(ada)).toEqual(['1', '1', '10', '5'])
  })

  test('holds at most what an amount can say', async () => {
    const most = formatAmount(UNITS_MAX)
    const [all, least] = (await give(ada, most, '0.0000000001')) as [string, string]
    const error = await refusal(
      () => ada.prepare([exercise(all, 'Merge', { contractIds: [least] })]),
      'arguments_invalid',
    )
    expect(error.field).toBe('0.exercise.arguments.contractIds')
    await ada.run(exercise(all, 'Transfer', { receiver: eve.party, amount: '0.0000000001' }))
    expect((await ada.contracts())[0]?.arguments.amount).toBe('9999999999999999999999999999.9999999998')
  })

  test('has an owner and a symbol of their forms', async () => {
    const wrong: [string, string | string[]][] = [
      ['owner', 'bob'],
      ['owner', `bob::1220${'B'.repeat(64)}`],
      ['owner', `b b::1220${'b'.repeat(64)}`],
      ['owner', `${BOB}\n`],
      ['owner', [BOB]],
      ['symbol', ''],
      ['symbol', 'US D'],
      ['symbol', 'x'.repeat(33)],
      ['symbol', '__proto__'],
    ]
    for (const [field, value] of wrong) {
      const command = issue(bank, ada, '1') as { create: { arguments: Record<string, unknown> } }
      command.create.arguments[field] = value
      const error = await refusal(() => bank.prepare([command as never]), 'arguments_invalid')
      expect(error.field, String(value)).toBe(`0.create.arguments.${field}`)
    }
  })
})

describe('an offer', () => {
  test('is accepted by its receiver, rejected by it or withdrawn by its owner, once', async () => {
    const ids = await give(ada, '1', '2', '3')
    const { prepared } = await ada.run(...ids.map((id) => exercise(id, 'Offer', { receiver: eve.party })))
    const [one, two, three] = [createdId(prepared, 0), createdId(prepared, 1), createdId(prepared, 2)]
    expect([await amountsOf(ada), await amountsOf(eve)]).toEqual([[], []])
    expect(await amountsOf(eve, 'Token:TransferOffer')).toEqual(['1', '2', '3'])
    await eve.run(offerOf(one, 'Accept'))
    await eve.run(offerOf(two, 'Reject'))
    await ada.run(offerOf(three, 'Withdraw'))
    expect([await amountsOf(ada), await amountsOf(eve)]).toEqual([['2', '3'], ['1']])
    for (const id of [one, two, three]) await refusal(() => eve.prepare([offerOf(id, 'Accept')]), 'contract_archived')
    expect(await amountsOf(ada, 'Token:TransferOffer')).toEqual([])
  })

  test('that is accepted and withdrawn at once ends in one of the two', async () => {
    for (let round = 0; round < 5; round += 1) {
      const [id] = (await give(ada, '1')) as [string]
      const { prepared } = await ada.run(exercise(id, 'Offer', { receiver: eve.party }))
      const offer = createdId(prepared)
      const settled = await Promise.allSettled([eve.run(offerOf(offer, 'Accept')), ada.run(offerOf(offer, 'Withdraw'))])
      const lost = settled.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
      expect(lost).toHaveLength(1)
      await refusal(() => Promise.reject(lost[0]), 'contract_archived')
    }
    expect((await amountsOf(ada)).length + (await amountsOf(eve)).length).toBe(5)
  })
})

describe('a transaction', () => {
  test('reads at most 500 contracts and has at most 2000 effects', async () => {
    const unknown = (n: number, m: number) => `00${String(n * 1_000 + m).padStart(64, '0')}`
    const reading = (n: number) =>
      exercise(unknown(n, 0), 'Merge', { contractIds: Array.from({ length: 99 }, (_, m) => unknown(n, m + 1)) })
    expect((await refusal(() => ada.prepare([0, 1, 2, 3, 4, 5].map(reading)), 'arguments_invalid')).message).toContain(
      '500',
    )
    const notes = Array.from({ length: 2_001 }, () => note(ada, 'x'))
    expect((await refusal(() => ada.prepare(notes), 'arguments_invalid')).message).toContain('2000')
    await ada.run(...notes.slice(1))
  })

  test('says at most so much, in whatever writing', async () => {
    const much = (text: string) => Array.from({ length: 300 }, () => note(ada, text.repeat(4_000)))
    await ada.prepare(much('x'))
    await refusal(() => ada.prepare([...much('x'), ...much('x')]), 'arguments_invalid')
    await refusal(() => ada.prepare(much('\u0001')), 'arguments_invalid')
  })

  test('makes no contract of more than 32 KiB', async () => {
    const readers = Array.from({ length: 100 }, (_, n) => `reader-with-a-longer-name-${n}::1220${'c'.repeat(64)}`)
    await ada.prepare([note(ada, 'x'.repeat(4_000), readers)])
    const error = await refusal(() => ada.prepare([note(ada, '\u0001'.repeat(4_000), readers)]), 'arguments_invalid')
    expect(error.field).toBe('0.create.arguments')
  })

  test('that merges what another one merges in another order: one happens, and neither waits for the other for ever', async () => {
    const ids = await give(ada, '1', '2', '3', '4')
    const settled = await Promise.allSettled(
      Array.from({ length: 20 }, (_, n) => {
        const [first, ...others] = n % 2 === 0 ? ids : [...ids].reverse()
        return ada.run(exercise(first as string, 'Merge', { contractIds: others }))
      }),
    )
    expect(settled.filter((each) => each.status === 'fulfilled')).toHaveLength(1)
    for (const each of settled)
      if (each.status === 'rejected') await refusal(() => Promise.reject(each.reason), 'contract_archived')
    expect(await amountsOf(ada)).toEqual(['10'])
  })
})
