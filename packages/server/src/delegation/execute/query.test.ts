import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import {
  BOB,
  create,
  everything,
  exercise,
  expectStatus,
  type Holder,
  newHolder,
  newKeyHolder,
  newSession,
  ownSession,
  type Session,
  stateOf,
  transfer,
  unlimited,
} from '../delegated.fixture.ts'

const HOLDING = 'Token:Holding'
const NOTE = 'Note:Note'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

async function begun(tenant?: Tenant) {
  const of = tenant ?? (await service.newTenant())
  const ada = await newHolder(of)
  return {
    tenant: of,
    ada,
    session: await newSession(service, of, ada, { policy: everything([unlimited(ada.issuer)]) }),
  }
}

interface Page {
  contracts: { contractId: string; templateId: string; arguments: Record<string, string>; createdAtOffset: number }[]
  nextCursor: string | null
}

const asked = async (session: Session, body: object = {}): Promise<Page> => expectStatus(await session.query(body), 200)
const idsOf = ({ contracts }: Page) => contracts.map((one) => one.contractId)

/** All pages of a query, one after the other. */
async function pages(session: Session, body: object, between = async () => {}): Promise<Page[]> {
  const found: Page[] = []
  let cursor: string | null = null
  do {
    const page: Page = await asked(session, { ...body, cursor })
    found.push(page)
    cursor = page.nextCursor
    await between()
    expect(found.length).toBeLessThan(100)
  } while (cursor !== null)
  return found
}

async function receiveMany(ada: Holder, amounts: readonly string[], symbol?: string): Promise<string[]> {
  const ids: string[] = []
  for (const amount of amounts) ids.unshift(await ada.receive(amount, symbol))
  return ids
}

describe('a query', () => {
  test('answers a contract whole: what it is, who signs it, who sees it, since when', async () => {
    const { ada, session } = await begun()
    const [contractId] = await receiveMany(ada, ['5.50'])
    const page = await asked(session)
    expect(page).toEqual({
      contracts: [
        {
          contractId,
          templateId: HOLDING,
          arguments: { issuer: ada.issuer, owner: ada.party, symbol: 'USDX', amount: '5.5' },
          signatories: [ada.issuer],
          observers: [ada.party],
          createdAtOffset: expect.any(Number),
        },
      ],
      nextCursor: null,
    })
  })

  test("sees its own wallet's contracts alone, and none that was used up", async () => {
    const { tenant, ada, session } = await begun()
    const eve = await begun(tenant)
    const stranger = await begun()
    for (const other of [eve, stranger]) {
      await receiveMany(other.ada, ['1', '2'])
      await other.session.execute({ commands: [create(NOTE, { author: other.ada.party, text: 'secret' })] })
    }
    expect(await asked(session)).toEqual({ contracts: [], nextCursor: null })
    const [own] = await receiveMany(ada, ['3'])
    expect(idsOf(await asked(session))).toEqual([own])
    await session.execute({ commands: [transfer(own as string, undefined, eve.ada.party)] })
    expect(idsOf(await asked(session))).toEqual([])
    expect(idsOf(await asked(eve.session, { templateIds: [HOLDING] }))).toHaveLength(3)
  })

  test("sees nothing on another tenant's ledger, though a party there has the very same name", async () => {
    const [mine, theirs] = [await begun(), await begun()]
    // Anybody's name can be written as a reader or a receiver anywhere.
    const fields = { author: theirs.ada.party, text: 'not for you', readers: [mine.ada.party] }
    expectStatus(await theirs.session.execute({ commands: [create(NOTE, fields)] }), 200)
    const holding = await theirs.ada.receive('5')
    expectStatus(await theirs.session.execute({ commands: [transfer(holding, undefined, mine.ada.party)] }), 200)
    expect(await asked(mine.session)).toEqual({ contracts: [], nextCursor: null })
    const [row] = await service.sql<{ n: string }>('select count(*) as n from ledger_stakes where party = $1', [
      mine.ada.party,
    ])
    expect(Number(row?.n)).toBe(2)
  })

  test('sees the contracts of a wallet in self-custody as well', async () => {
    const tenant = await service.newTenant()
    const ada = await newKeyHolder(service, tenant)
    const session = await ownSession(service, ada, { policy: everything() })
    const holding = await ada.receive('5')
    expect(idsOf(await asked(session))).toEqual([holding])
  })

  test('is for what the policy names: nothing where it names nothing, and no other template', async () => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    const rule = { allow: [{ templateId: HOLDING }, { templateId: NOTE }] }
    const blind = await newSession(service, tenant, ada, { policy: rule })
    for (const body of [{}, { templateIds: [HOLDING] }, { templateIds: ['Other:Thing'] }]) {
      const answer = await blind.query(body)
      expectError(answer, 403, 'policy_denied')
      expect(answer.body.details[0]).toMatchObject({ field: 'templateIds', rule: 'query' })
    }
    const session = await newSession(service, tenant, ada, { policy: { ...rule, query: { templateIds: [HOLDING] } } })
    await session.execute({ commands: [create(NOTE, { author: ada.party, text: 'x' })] })
    const holding = await ada.receive('1')
    expect(idsOf(await asked(session))).toEqual([holding])
    for (const templateIds of [[NOTE], [HOLDING, NOTE], ['Token:TransferOffer'], ['token:holding']])
      expectError(await session.query({ templateIds }), 403, 'policy_denied')
  })

  test('changes nothing, and is no use', async () => {
    const { tenant, ada, session } = await begun()
    await receiveMany(ada, ['1', '2', '3'])
    await session.query()
    const before = await stateOf(service)
    await Promise.all(Array.from({ length: 20 }, () => session.query({ limit: 1 })))
    await session.query({ templateIds: ['Other:Thing'] })
    await session.query({ where: [{ path: 'amount', op: 'gte', value: '2' }] })
    expect(await stateOf(service)).toBe(before)
    expect((await tenant.get(`/delegated-sessions/${session.id}`)).body.data).toMatchObject({
      uses: 0,
      lastUsedAt: null,
    })
  })
})

describe('a filter', () => {
  test('compares amounts as amounts and names as they are', async () => {
    const { ada, session } = await begun()
    await receiveMany(ada, ['1', '2', '10', '9007199254740993', '9007199254740992'])
    await receiveMany(ada, ['2'], 'EURX')
    const amounts = async (...where: object[]) =>
      (await asked(session, { templateIds: [HOLDING], where })).contracts.map((one) => one.arguments.amount)
    expect(await amounts({ path: 'amount', op: 'gt', value: '2' })).toEqual([
      '9007199254740992',
      '9007199254740993',
      '10',
    ])
    expect(await amounts({ path: 'amount', op: 'gt', value: '9007199254740992' })).toEqual(['9007199254740993'])
    expect(await amounts({ path: 'amount', op: 'eq', value: '2.00' })).toEqual(['2', '2'])
    expect(await amounts({ path: 'amount', op: 'lt', value: '2' })).toEqual(['1'])
    expect(await amounts({ path: 'amount', op: 'in', value: ['1.0', '10.000'] })).toEqual(['10', '1'])
    expect(await amounts({ path: 'symbol', op: 'eq', value: 'EURX' })).toEqual(['2'])
    expect(await amounts({ path: 'symbol', op: 'eq', value: 'eurx' })).toEqual([])
    expect(
      await amounts({ path: 'symbol', op: 'ne', value: 'USDX' }, { path: 'amount', op: 'lte', value: '2' }),
    ).toEqual(['2'])
    expect(await amounts({ path: 'issuer', op: 'not_in', value: [ada.issuer] })).toEqual([])
  })

  test('finds nothing by what is not there: unknown fields, what cannot be compared, what every object has', async () => {
    const { ada, session } = await begun()
    await receiveMany(ada, ['1'])
    for (const condition of [
      { path: 'memo', op: 'eq', value: '' },
      { path: 'memo', op: 'ne', value: 'x' },
      { path: 'memo', op: 'not_in', value: ['x'] },
      { path: 'symbol', op: 'gt', value: '0' },
      { path: 'constructor', op: 'ne', value: 'x' },
      { path: 'toString.name', op: 'ne', value: 'x' },
      { path: 'amount.length', op: 'ne', value: 'x' },
    ])
      expect(idsOf(await asked(session, { where: [condition] })), condition.path).toEqual([])
  })

  test('that is none is refused by its place', async () => {
    const { session } = await begun()
    const wrong: [unknown, RegExp][] = [
      [[], /^where$/],
      [{}, /^where$/],
      [[{ path: 'amount', op: 'between', value: '1' }], /^where\.0\.op$/],
      [[{ path: 'amount', op: 'gt', value: 'much' }], /^where\.0\.value$/],
      [[{ path: 'amount', op: 'gt', value: ['1'] }], /^where\.0\.value$/],
      [[{ path: 'amount', op: 'in', value: '1' }], /^where\.0\.value$/],
      [[{ path: "a' OR 1=1", op: 'eq', value: 'x' }], /^where\.0\.path$/],
      [Array(21).fill({ path: 'amount', op: 'eq', value: '1' }), /^where$/],
    ]
    for (const [where, field] of wrong) {
      const [detail] = expectRefusal(
        await session.query({ where }),
        'validation_failed',
        JSON.stringify(where).slice(0, 60),
      )
      expect(detail.field).toMatch(field)
    }
  })
})

describe('paging', () => {
  test('goes through all, newest first, each once, whichever the size of a page', async () => {
    const { ada, session } = await begun()
    const ids = await receiveMany(ada, ['1', '2', '3', '4', '5'])
    for (const limit of [1, 2, 3, 4, 5, 6, 100]) {
      const found = await pages(session, { limit })
      expect(found.flatMap(idsOf)).toEqual(ids)
      for (const page of found.slice(0, -1)) expect(page.contracts).toHaveLength(limit)
    }
    expect((await asked(session)).contracts).toHaveLength(5)
  })

  test('is not upset by contracts that come and go meanwhile', async () => {
    const { ada, session } = await begun()
    const ids = await receiveMany(ada, ['1', '2', '3', '4', '5', '6'])
    const found = await pages(session, { limit: 2 }, async () => {
      await ada.receive('100')
    })
    expect(found.flatMap(idsOf)).toEqual(ids)
    const first = await asked(session, { limit: 2, templateIds: [HOLDING] })
    const rest = await asked(session, { limit: 100, templateIds: [HOLDING], cursor: first.nextCursor })
    const gone = idsOf(rest)[0] as string
    await session.execute({ commands: [transfer(gone)] })
    const again = await asked(session, { limit: 100, templateIds: [HOLDING], cursor: first.nextCursor })
    expect(idsOf(again)).toEqual(idsOf(rest).slice(1))
  })

  test('goes through what one transaction made, which all stands at one offset', async () => {
    const { ada, session } = await begun()
    const notes = Array.from({ length: 7 }, (_, n) => create(NOTE, { author: ada.party, text: `${n}` }))
    expectStatus(await session.execute({ commands: notes }), 200)
    const split = exercise(HOLDING, await ada.receive('10'), 'Split', { amount: '4' })
    expectStatus(await session.execute({ commands: [split] }), 200)
    const found = (await pages(session, { limit: 2 })).flatMap((page) => page.contracts)
    expect(found).toHaveLength(9)
    expect(new Set(found.map((one) => one.contractId)).size).toBe(9)
    expect(new Set(found.map((one) => one.createdAtOffset)).size).toBe(2)
  })

  test('with a filter goes on to the end, and ends', async () => {
    const { ada, session } = await begun()
    await receiveMany(
      ada,
      Array.from({ length: 12 }, (_, n) => `${n + 1}`),
    )
    const where = [{ path: 'amount', op: 'in', value: ['1', '4', '7', '12'] }]
    for (const limit of [1, 2, 3, 4, 50]) {
      const found = (await pages(session, { limit, where })).flatMap((page) => page.contracts)
      expect(found.map((one) => one.arguments.amount)).toEqual(['12', '7', '4', '1'])
    }
  })

  test("takes no cursor that it did not give, and another's leads nowhere but through one's own", async () => {
    const { tenant, ada, session } = await begun()
    const ids = await receiveMany(ada, ['1', '2', '3'])
    const eve = await begun(tenant)
    await receiveMany(eve.ada, ['1', '2', '3'])
    const mine = (await asked(session, { limit: 1 })).nextCursor as string
    const wrong = [
      'x',
      '0',
      '*',
      mine.slice(1),
      `${mine}x`,
      mine.slice(0, -2),
      btoa('1'),
      btoa('-1.00'),
      btoa("1' OR 1=1.x"),
      btoa(`1e9.00${'a'.repeat(64)}`),
      btoa(`${'9'.repeat(16)}.00${'a'.repeat(64)}`),
    ]
    for (const cursor of wrong) {
      const [detail] = expectRefusal(await session.query({ cursor }), 'validation_failed', cursor)
      expect(detail.field).toBe('cursor')
    }
    for (const cursor of ['', 7, {}, 'x'.repeat(501)])
      expect(expectRefusal(await session.query({ cursor }), 'validation_failed')[0].field).toBe('cursor')
    const theirs = (await asked(eve.session, { limit: 1 })).nextCursor
    for (const id of idsOf(await asked(session, { cursor: theirs }))) expect(ids).toContain(id)
    expect((await asked(session, { cursor: null })).contracts).toHaveLength(3)
  })

  test('takes a limit of 1 to 100, and 20 where none is given', async () => {
    const { ada, session } = await begun()
    const notes = Array.from({ length: 100 }, () => create(NOTE, { author: ada.party, text: 'x' }))
    for (let n = 0; n < 2; n += 1) expectStatus(await session.execute({ commands: notes }), 200)
    expect((await asked(session)).contracts).toHaveLength(20)
    expect((await asked(session, { limit: 100 })).contracts).toHaveLength(100)
    for (const limit of [0, -1, 101, 1.5, '10', null, 1e300, true])
      expect(expectRefusal(await session.query({ limit }), 'validation_failed', String(limit))[0].field).toBe('limit')
  })

  test('takes templates each once, at least one, that look like templates', async () => {
    const { session } = await begun()
    for (const templateIds of [
      [],
      [HOLDING, HOLDING],
      ['*'],
      HOLDING,
      [null],
      Array.from({ length: 101 }, (_, n) => `A:B${n}`),
    ]) {
      const [detail] = expectRefusal(await session.query({ templateIds }), 'validation_failed')
      expect(detail.field).toMatch(/^templateIds/)
    }
    for (const body of [{ party: BOB }, { actAs: BOB }, { offset: 1 }, { page: 2 }])
      expect(expectRefusal(await session.query(body), 'validation_failed')[0].code).toBe('unknown_field')
  })
})

test('a query beside executes always sees a wallet whole', async () => {
  const { ada, session } = await begun()
  await ada.receive('50')
  const look = () => asked(session, { templateIds: [HOLDING], limit: 100 })
  const total = ({ contracts }: Page) => contracts.reduce((sum, one) => sum + Number(one.arguments.amount), 0)
  let isOver = false
  const splitting = async () => {
    for (let n = 0; n < 20; n += 1) {
      const big = (await look()).contracts.find((one) => Number(one.arguments.amount) > 1)
      const split = exercise(HOLDING, big?.contractId as string, 'Split', { amount: '1' })
      expectStatus(await session.execute({ commands: [split] }), 200)
    }
  }
  const seen: number[] = []
  const looking = async () => {
    while (!isOver) seen.push(total(await look()))
  }
  const split = splitting().finally(() => {
    isOver = true
  })
  await Promise.all([split, looking(), looking()])
  expect(seen.length).toBeGreaterThan(10)
  expect(new Set(seen)).toEqual(new Set([50]))
  expect((await look()).contracts).toHaveLength(21)
})
