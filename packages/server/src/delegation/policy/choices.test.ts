import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import {
  BOB,
  create,
  everything,
  exercise,
  expectStatus,
  type Holder,
  newHolder,
  newSession,
  type Session,
  transfer,
  unlimited,
} from '../delegated.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const HOLDING = 'Token:Holding'
const OFFER = 'Token:TransferOffer'
const NOTE = 'Note:Note'

type Effects = {
  type: string
  templateId: string
  contractId: string
  choice: string | null
  arguments: Record<string, string>
}[]

/** A holder whose session may do all there is. */
interface Free extends Holder {
  session: Session
}

async function newFree(tenant: Tenant): Promise<Free> {
  const holder = await newHolder(tenant)
  return {
    ...holder,
    session: await newSession(service, tenant, holder, { policy: everything([unlimited(holder.issuer)]) }),
  }
}

async function done({ session }: Free, ...commands: object[]): Promise<Effects> {
  return expectStatus(await session.execute({ commands }), 200).effects
}

const refused = ({ session }: Free, ...commands: object[]) => session.execute({ commands })

/** What a wallet sees, newest first. */
async function seen(
  { session }: Free,
  templateId = HOLDING,
): Promise<{ contractId: string; arguments: Record<string, string> }[]> {
  return expectStatus(await session.query({ templateIds: [templateId], limit: 100 }), 200).contracts
}

const amountsOf = async (holder: Free) => (await seen(holder)).map((one) => one.arguments.amount).sort()
const short = (effects: Effects) => effects.map((one) => [one.type, one.templateId, one.choice, one.arguments.amount])
const createdIn = (effects: Effects, owner: string) =>
  effects.find((one) => one.type === 'created' && one.arguments.owner === owner) as Effects[number]

function expectField(answer: Answer, status: number, code: string, field: string): void {
  expectError(answer, status, code)
  expect(answer.body.details[0].field).toBe(field)
}

describe('a holding', () => {
  test('is transferred whole, and nothing of it stays', async () => {
    const tenant = await service.newTenant()
    const [ada, bob] = [await newFree(tenant), await newFree(tenant)]
    const effects = await done(ada, transfer(await ada.receive('7.5'), undefined, bob.party))
    expect(short(effects)).toEqual([
      ['exercised', HOLDING, 'Transfer', '7.5'],
      ['archived', HOLDING, null, '7.5'],
      ['created', HOLDING, null, '7.5'],
    ])
    expect(await seen(ada)).toEqual([])
    expect((await seen(bob)).map((one) => one.arguments)).toEqual([
      { issuer: ada.issuer, owner: bob.party, symbol: 'USDX', amount: '7.5' },
    ])
  })

  test('is transferred in part to the last decimal, and the rest stays', async () => {
    const tenant = await service.newTenant()
    const [ada, bob] = [await newFree(tenant), await newFree(tenant)]
    await done(ada, transfer(await ada.receive('1.0000000000'), '0.0000000001', bob.party))
    expect(await amountsOf(ada)).toEqual(['0.9999999999'])
    expect(await amountsOf(bob)).toEqual(['0.0000000001'])
    const most = `${'9'.repeat(28)}.${'9'.repeat(10)}`
    await done(ada, transfer(await ada.receive(most), '0.0000000009', bob.party))
    expect(await amountsOf(ada)).toContain(`${'9'.repeat(28)}.999999999`)
  })

  test('is split and merged without loss', async () => {
    const tenant = await service.newTenant()
    const ada = await newFree(tenant)
    const halves = await done(ada, exercise(HOLDING, await ada.receive('10'), 'Split', { amount: '3.25' }))
    expect(await amountsOf(ada)).toEqual(['3.25', '6.75'])
    const [first, second] = halves.filter((one) => one.type === 'created').map((one) => one.contractId) as [
      string,
      string,
    ]
    await done(ada, exercise(HOLDING, first, 'Merge', { contractIds: [second, await ada.receive('5')] }))
    expect(await amountsOf(ada)).toEqual(['15'])
    const [whole] = await seen(ada)
    await done(ada, exercise(HOLDING, whole?.contractId as string, 'Split', { amount: '15.0' }))
    expect(await amountsOf(ada)).toEqual(['15'])
  })

  test("merges with no holding twice, no other asset's, nobody else's and no other kind of contract", async () => {
    const tenant = await service.newTenant()
    const [ada, bob] = [await newFree(tenant), await newFree(tenant)]
    const [own, second, euro] = [await ada.receive('1'), await ada.receive('2'), await ada.receive('3', 'EURX')]
    const his = await bob.receive('4')
    const note = (await done(ada, create(NOTE, { author: ada.party, text: 'x' })))[0]?.contractId as string
    const merge = (contractIds: unknown) => refused(ada, exercise(HOLDING, own, 'Merge', { contractIds }))
    const at = 'commands.0.exercise.arguments.contractIds'
    expectField(await merge([own]), 409, 'contract_archived', `${at}.0`)
    expectField(await merge([second, second]), 400, 'arguments_invalid', at)
    expectField(await merge([second, euro]), 400, 'arguments_invalid', `${at}.1`)
    expectField(await merge([second, his]), 404, 'contract_not_found', `${at}.1`)
    expectField(await merge([note]), 404, 'contract_not_found', `${at}.0`)
    expectField(await merge([`00${'5c'.repeat(32)}`]), 404, 'contract_not_found', `${at}.0`)
    for (const ids of [[], 'x', [second.toUpperCase()], [''], Array(101).fill(second)])
      expectError(
        await merge(ids),
        400,
        typeof ids !== 'string' && ids.length > 100 ? 'validation_failed' : 'arguments_invalid',
      )
    expect(await amountsOf(ada)).toEqual(['1', '2', '3'])
  })

  test('is not merged with one that another command of the same call has used', async () => {
    const tenant = await service.newTenant()
    const ada = await newFree(tenant)
    const [a, b] = [await ada.receive('1'), await ada.receive('2')]
    const merge = exercise(HOLDING, a, 'Merge', { contractIds: [b] })
    expectField(
      await refused(ada, transfer(b), merge),
      409,
      'contract_archived',
      'commands.1.exercise.arguments.contractIds.0',
    )
    expectField(await refused(ada, merge, transfer(b)), 409, 'contract_archived', 'commands.1.exercise.contractId')
    expectField(
      await refused(ada, transfer(a), transfer(a)),
      409,
      'contract_archived',
      'commands.1.exercise.contractId',
    )
    expect(await amountsOf(ada)).toEqual(['1', '2'])
  })

  test("is its owner's: who issued it sees it and cannot move it", async () => {
    const tenant = await service.newTenant()
    const [bank, ada] = [await newFree(tenant), await newFree(tenant)]
    const policy = everything([unlimited(bank.party)])
    const issuing = { ...bank, session: await newSession(service, tenant, bank, { policy }) }
    const asset = { issuer: bank.party, owner: ada.party, symbol: 'USDX', amount: '5' }
    const [made] = await done(issuing, create(HOLDING, asset))
    const id = made?.contractId as string
    expect((await seen(issuing)).map((one) => one.contractId)).toEqual([id])
    expect((await seen(ada)).map((one) => one.contractId)).toEqual([id])
    for (const [choice, given] of [
      ['Transfer', { receiver: bank.party }],
      ['Offer', { receiver: bank.party }],
      ['Split', { amount: '1' }],
    ] as const)
      expectField(
        await refused(issuing, exercise(HOLDING, id, choice, given)),
        403,
        'authorization_missing',
        'commands.0.exercise.choice',
      )
    expect(await amountsOf(ada)).toEqual(['5'])
  })

  test('is issued by nobody but its issuer', async () => {
    const tenant = await service.newTenant()
    const [ada, bob] = [await newFree(tenant), await newFree(tenant)]
    for (const issuer of [ada.issuer, bob.party, BOB]) {
      const forged = create(HOLDING, { issuer, owner: ada.party, symbol: 'USDX', amount: '1000000' })
      expectField(await refused(ada, forged), 403, 'authorization_missing', 'commands.0.create')
    }
    const offer = create(OFFER, {
      issuer: ada.issuer,
      owner: bob.party,
      receiver: ada.party,
      symbol: 'USDX',
      amount: '1',
    })
    expectField(await refused(ada, offer), 403, 'authorization_missing', 'commands.0.create')
    expect(await seen(ada)).toEqual([])
  })
})

describe('an offer', () => {
  async function offered(amount: string, part?: string) {
    const tenant = await service.newTenant()
    const [ada, bob, eve] = [await newFree(tenant), await newFree(tenant), await newFree(tenant)]
    const given = { receiver: bob.party, ...(part === undefined ? {} : { amount: part }) }
    const effects = await done(ada, exercise(HOLDING, await ada.receive(amount), 'Offer', given))
    const offer = effects.find((one) => one.type === 'created' && one.templateId === OFFER) as Effects[number]
    return { tenant, ada, bob, eve, offer }
  }

  test('is with neither until it is accepted, and is seen by its two parties alone', async () => {
    const { ada, bob, eve, offer } = await offered('10', '4')
    expect(offer.arguments).toEqual({
      issuer: ada.issuer,
      owner: ada.party,
      receiver: bob.party,
      symbol: 'USDX',
      amount: '4',
    })
    expect([await amountsOf(ada), await amountsOf(bob)]).toEqual([['6'], []])
    for (const [who, ids] of [
      [ada, [offer.contractId]],
      [bob, [offer.contractId]],
      [eve, []],
    ] as const)
      expect((await seen(who, OFFER)).map((one) => one.contractId)).toEqual(ids)
    const effects = await done(bob, exercise(OFFER, offer.contractId, 'Accept'))
    expect(createdIn(effects, bob.party).arguments.amount).toBe('4')
    expect([await amountsOf(ada), await amountsOf(bob)]).toEqual([['6'], ['4']])
    for (const who of [ada, bob]) expect(await seen(who, OFFER)).toEqual([])
  })

  test.each([
    ['Reject', 'bob'],
    ['Withdraw', 'ada'],
  ] as const)('goes back to its owner by %s', async (choice, who) => {
    const parties = await offered('10')
    const { ada, bob, offer } = parties
    await done(parties[who], exercise(OFFER, offer.contractId, choice))
    expect([await amountsOf(ada), await amountsOf(bob)]).toEqual([['10'], []])
    for (const later of ['Accept', 'Reject'])
      expectError(await refused(bob, exercise(OFFER, offer.contractId, later)), 409, 'contract_archived')
  })

  test('has choices for each of its parties that are not for the other, and none for a third', async () => {
    const { ada, bob, eve, offer } = await offered('10')
    const tried = (who: Free, choice: string) => refused(who, exercise(OFFER, offer.contractId, choice))
    expectError(await tried(ada, 'Accept'), 403, 'authorization_missing')
    expectError(await tried(ada, 'Reject'), 403, 'authorization_missing')
    expectError(await tried(bob, 'Withdraw'), 403, 'authorization_missing')
    for (const choice of ['Accept', 'Reject', 'Withdraw'])
      expectError(await tried(eve, choice), 404, 'contract_not_found')
    expectError(await tried(ada, 'Transfer'), 400, 'choice_unknown')
    expect(await seen(bob, OFFER)).toHaveLength(1)
  })

  test('that is accepted, rejected and withdrawn at once ends in exactly one way', async () => {
    const { ada, bob, offer } = await offered('10')
    const tries = Array.from(
      { length: 24 },
      (_, n) =>
        [
          [bob, 'Accept'],
          [bob, 'Reject'],
          [ada, 'Withdraw'],
        ][n % 3] as [Free, string],
    )
    const answers = await Promise.all(
      tries.map(([who, choice]) => refused(who, exercise(OFFER, offer.contractId, choice))),
    )
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    for (const answer of answers) if (answer.status !== 200) expectError(answer, 409, 'contract_archived')
    expect([...(await amountsOf(ada)), ...(await amountsOf(bob))]).toEqual(['10'])
  })
})

describe('a note', () => {
  test('is written in nobody else’s name, read by its readers, archived by its author alone', async () => {
    const tenant = await service.newTenant()
    const [ada, bob, eve] = [await newFree(tenant), await newFree(tenant), await newFree(tenant)]
    expectError(await refused(ada, create(NOTE, { author: bob.party, text: 'x' })), 403, 'authorization_missing')
    const [made] = await done(ada, create(NOTE, { author: ada.party, text: 'Grüße 🎁 <b>', readers: [bob.party] }))
    const id = made?.contractId as string
    expect((await seen(bob, NOTE))[0]?.arguments).toEqual({
      author: ada.party,
      text: 'Grüße 🎁 <b>',
      readers: [bob.party],
    })
    expect(await seen(eve, NOTE)).toEqual([])
    expectError(await refused(bob, exercise(NOTE, id, 'Archive')), 403, 'authorization_missing')
    expectError(await refused(eve, exercise(NOTE, id, 'Archive')), 404, 'contract_not_found')
    await done(ada, exercise(NOTE, id, 'Archive'))
    expect(await seen(bob, NOTE)).toEqual([])
    expectError(await refused(ada, exercise(NOTE, id, 'Archive')), 409, 'contract_archived')
  })
})

describe('a template that the tenant declared', () => {
  const voucher = {
    templateId: 'Shop:Voucher',
    fields: {
      shop: { type: 'party' },
      holder: { type: 'party' },
      value: { type: 'amount' },
      symbol: { type: 'symbol' },
    },
    signatories: ['shop'],
    observers: ['holder'],
    choices: {
      Redeem: {
        controllers: ['holder'],
        creates: [
          {
            templateId: HOLDING,
            arguments: {
              issuer: { field: 'shop' },
              owner: { field: 'holder' },
              symbol: { field: 'symbol' },
              amount: { field: 'value' },
            },
          },
        ],
      },
    },
  }

  test('is executed like any other, and what it issues counts against the caps of who exercises it', async () => {
    const tenant = await service.newTenant()
    expectStatus(await tenant.post('/templates', voucher), 201)
    const [shop, ada] = [await newHolder(tenant), await newHolder(tenant)]
    const allow = [{ templateId: 'Shop:Voucher' }]
    const cap = (amount: string) => [{ asset: { issuer: shop.party, symbol: 'GIFT' }, amount }]
    const query = { templateIds: ['Shop:Voucher'] }
    const selling = await newSession(service, tenant, shop, { policy: { allow } })
    const fields = { shop: shop.party, holder: ada.party, value: '5', symbol: 'GIFT' }
    const { effects } = expectStatus(await selling.execute({ commands: [create('Shop:Voucher', fields)] }), 200)
    const redeem = { commands: [exercise('Shop:Voucher', effects[0].contractId, 'Redeem')] }
    const blind = await newSession(service, tenant, ada, { policy: { allow } })
    expectError(await blind.execute(redeem), 403, 'policy_denied')
    const tight = await newSession(service, tenant, ada, { policy: { allow, spend: cap('4.9999999999') } })
    expectError(await tight.execute(redeem), 403, 'spend_limit_exceeded')
    const enough = await newSession(service, tenant, ada, { policy: { allow, spend: cap('5'), query } })
    expect(expectStatus(await enough.query(), 200).contracts).toHaveLength(1)
    expect(expectStatus(await enough.execute(redeem), 200).remaining.spend[0].remaining).toBe('0')
    expectError(await enough.execute(redeem), 409, 'contract_archived')
  })

  test("is no other tenant's", async () => {
    const [tenant, other] = [await service.newTenant(), await service.newTenant()]
    expectStatus(await tenant.post('/templates', voucher), 201)
    const eve = await newHolder(other)
    const session = await newSession(service, other, eve, { policy: { allow: [{ templateId: 'Shop:Voucher' }] } })
    const fields = { shop: eve.party, holder: eve.party, value: '5', symbol: 'GIFT' }
    expectError(await session.execute({ commands: [create('Shop:Voucher', fields)] }), 400, 'template_unknown')
  })
})
