import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { expectStatus, type Holder, newHolder, newSession, type Session } from '../../delegation/delegated.fixture.ts'
import { publishableKey } from '../../identity/sessions/sessions.fixture.ts'

// biome-ignore lint/suspicious/noExplicitAny: looked into by path; the contract is what the tests state
type Json = any

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const RECEIPT = {
  templateId: 'Shop:Receipt',
  fields: { shop: { type: 'party' }, buyer: { type: 'party' }, text: { type: 'text' }, value: { type: 'amount' } },
  signatories: ['shop', 'buyer'],
}

const VOUCHER = {
  templateId: 'Shop:Voucher',
  description: 'What a shop owes.',
  fields: {
    shop: { type: 'party' },
    owner: { type: 'party' },
    value: { type: 'amount' },
    remark: { type: 'text', optional: true },
    watchers: { type: 'parties', optional: true },
  },
  signatories: ['shop'],
  observers: ['owner', 'watchers'],
  choices: {
    Redeem: {
      controllers: ['owner'],
      creates: [
        {
          templateId: 'Shop:Receipt',
          arguments: {
            shop: { field: 'shop' },
            buyer: { field: 'owner' },
            text: { value: 'Thanks' },
            value: { field: 'value' },
          },
        },
      ],
    },
    Pass: {
      controllers: ['owner'],
      arguments: { to: { type: 'party' }, remark: { type: 'text', optional: true } },
      creates: [
        {
          templateId: 'Shop:Voucher',
          arguments: {
            shop: { field: 'shop' },
            owner: { argument: 'to' },
            value: { field: 'value' },
            remark: { argument: 'remark' },
          },
        },
      ],
    },
    Look: { controllers: ['shop'], consuming: false },
    Both: { controllers: ['shop', 'owner'] },
  },
}

const declare = async (tenant: Tenant, ...templates: object[]) => {
  for (const template of templates) expectStatus(await tenant.post('/templates', template), 201)
}

/** A session that may do everything with these templates, and nothing else. */
const newAgent = (tenant: Tenant, holder: Holder, templateIds: string[], policy: object = {}): Promise<Session> =>
  newSession(service, tenant, holder, {
    policy: { allow: templateIds.map((templateId) => ({ templateId })), query: { templateIds }, ...policy },
  })

const create = (templateId: string, given: object) => ({ commands: [{ create: { templateId, arguments: given } }] })
const exercise = (templateId: string, contractId: string, choice: string, given: object = {}) => ({
  commands: [{ exercise: { templateId, contractId, choice, arguments: given } }],
})
const createdIn = (answer: Answer): Json[] =>
  expectStatus(answer, 200).effects.filter((effect: Json) => effect.type === 'created')
const contractsOf = async (session: Session): Promise<Json[]> => expectStatus(await session.query(), 200).contracts

describe('a declared template', () => {
  const SHOP = ['Shop:Voucher', 'Shop:Receipt']
  const scene = async () => {
    const tenant = await service.newTenant()
    await declare(tenant, RECEIPT, VOUCHER)
    const holders = [await newHolder(tenant), await newHolder(tenant), await newHolder(tenant)] as const
    const sessions = await Promise.all(holders.map((holder) => newAgent(tenant, holder, SHOP)))
    const [shop, ada, eve] = holders
    const [shopAgent, adaAgent, eveAgent] = sessions as [Session, Session, Session]
    const voucher = { shop: shop.party, owner: ada.party, value: '5.0' }
    return { tenant, shop, ada, eve, shopAgent, adaAgent, eveAgent, voucher }
  }

  test('works as it says: created by who signs it, seen by its observers, exercised by its controllers', async () => {
    const { shop, ada, eve, shopAgent, adaAgent, eveAgent, voucher } = await scene()
    const [made] = createdIn(await shopAgent.execute(create('Shop:Voucher', { ...voucher, watchers: [eve.party] })))
    expect(made).toMatchObject({
      arguments: { ...voucher, value: '5', watchers: [eve.party] },
      signatories: [shop.party],
      observers: [ada.party, eve.party].sort(),
    })
    for (const agent of [shopAgent, adaAgent, eveAgent])
      expect((await contractsOf(agent)).map(({ contractId }) => contractId)).toEqual([made.contractId])

    // Non-consuming: it is still there.
    expect(createdIn(await shopAgent.execute(exercise('Shop:Voucher', made.contractId, 'Look')))).toEqual([])
    const passing = exercise('Shop:Voucher', made.contractId, 'Pass', { to: eve.party, remark: 'for you' })
    expectError(await eveAgent.execute(passing), 403, 'authorization_missing')
    expectError(await shopAgent.execute(passing), 403, 'authorization_missing')
    const [passed] = createdIn(await adaAgent.execute(passing))
    expect(passed.arguments).toEqual({ shop: shop.party, owner: eve.party, value: '5', remark: 'for you' })
    expect(await contractsOf(adaAgent)).toEqual([])

    // The receipt needs both: the shop signed the voucher, the buyer acts.
    const [receipt] = createdIn(await eveAgent.execute(exercise('Shop:Voucher', passed.contractId, 'Redeem')))
    expect(receipt).toMatchObject({
      templateId: 'Shop:Receipt',
      arguments: { shop: shop.party, buyer: eve.party, text: 'Thanks', value: '5' },
      signatories: [shop.party, eve.party].sort(),
    })
    expectError(await eveAgent.execute(exercise('Shop:Voucher', passed.contractId, 'Redeem')), 409, 'contract_archived')
  })

  test('gives nobody more authority: every signatory and every controller is needed', async () => {
    const { shop, ada, shopAgent, adaAgent, voucher } = await scene()
    expectError(await adaAgent.execute(create('Shop:Voucher', voucher)), 403, 'authorization_missing')
    const receipt = { shop: shop.party, buyer: ada.party, text: '', value: '1' }
    for (const agent of [shopAgent, adaAgent])
      expectError(await agent.execute(create('Shop:Receipt', receipt)), 403, 'authorization_missing')
    const [made] = createdIn(await shopAgent.execute(create('Shop:Voucher', voucher)))
    for (const agent of [shopAgent, adaAgent])
      expectError(await agent.execute(exercise('Shop:Voucher', made.contractId, 'Both')), 403, 'authorization_missing')
    expect(await contractsOf(adaAgent)).toHaveLength(1)
  })

  test('checks what it is given as the built-in ones do, naming the field', async () => {
    const { shopAgent, adaAgent, voucher } = await scene()
    const refused = async (given: object, field: string) => {
      const details = expectRefusal(await shopAgent.execute(create('Shop:Voucher', given)), 'arguments_invalid')
      expect(details[0].field).toBe(`commands.0.create.arguments.${field}`)
    }
    await refused({ ...voucher, value: '-1' }, 'value')
    await refused({ ...voucher, value: undefined }, 'value')
    await refused({ ...voucher, owner: 'ada' }, 'owner')
    await refused({ ...voucher, watchers: [voucher.owner, voucher.owner] }, 'watchers')
    await refused({ ...voucher, toString: 'x' }, 'toString')
    const [made] = createdIn(await shopAgent.execute(create('Shop:Voucher', voucher)))
    const passing = (given: object) => adaAgent.execute(exercise('Shop:Voucher', made.contractId, 'Pass', given))
    expectError(await passing({}), 400, 'arguments_invalid')
    expectError(await passing({ to: 'x' }), 400, 'arguments_invalid')
    expectError(await adaAgent.execute(exercise('Shop:Voucher', made.contractId, 'toString')), 400, 'choice_unknown')
  })

  test('is another tenant’s affair: unknown there, by every way', async () => {
    const { tenant, shop } = await scene()
    const other = await service.newTenant()
    const holder = await newHolder(other)
    const agent = await newAgent(other, holder, SHOP)
    const given = { shop: holder.party, owner: holder.party, value: '1' }
    expectError(await agent.execute(create('Shop:Voucher', given)), 400, 'template_unknown')
    const one = await other.get('/templates/Shop:Voucher')
    expectError(one, 404, 'not_found')
    expect(one.body).toEqual((await other.get('/templates/No:Such')).body)
    expect((await other.get('/templates')).body.data).toEqual([])
    expectError(await other.post('/templates', { ...VOUCHER, templateId: 'Shop:Other' }), 400, 'validation_failed')
    // The name is free there, and what it means is its own.
    await declare(other, { templateId: 'Shop:Voucher', fields: { holder: { type: 'party' } }, signatories: ['holder'] })
    expectStatus(await agent.execute(create('Shop:Voucher', { holder: holder.party })), 200)
    const shopAgent = await newAgent(tenant, shop, SHOP)
    expectStatus(
      await shopAgent.execute(create('Shop:Voucher', { shop: shop.party, owner: shop.party, value: '1' })),
      200,
    )
  })
})

describe('tokens made by a template', () => {
  const MINT = {
    templateId: 'Shop:Mint',
    fields: {
      signer: { type: 'party' },
      issuer: { type: 'party' },
      symbol: { type: 'symbol' },
      amount: { type: 'amount' },
    },
    signatories: ['signer'],
    choices: {
      Make: {
        controllers: ['signer'],
        consuming: false,
        creates: [
          {
            templateId: 'Token:Holding',
            arguments: {
              issuer: { field: 'issuer' },
              owner: { field: 'signer' },
              symbol: { field: 'symbol' },
              amount: { field: 'amount' },
            },
          },
        ],
      },
    },
  }
  const scene = async (issuerOf: (ada: Holder) => string, spend: { symbol: string; amount: string }[]) => {
    const tenant = await service.newTenant()
    await declare(tenant, MINT)
    const ada = await newHolder(tenant)
    const issuer = issuerOf(ada)
    const policy = { spend: spend.map(({ symbol, amount }) => ({ asset: { issuer, symbol }, amount })) }
    const agent = await newAgent(tenant, ada, ['Shop:Mint', 'Token:Holding'], policy)
    const given = { signer: ada.party, issuer, symbol: 'USDX', amount: '6' }
    const [mint] = createdIn(await agent.execute(create('Shop:Mint', given)))
    return { agent, make: () => agent.execute(exercise('Shop:Mint', mint.contractId, 'Make')) }
  }

  test('need their issuer’s authority, like any others', async () => {
    const { agent, make } = await scene((ada) => ada.issuer, [{ symbol: 'USDX', amount: '100' }])
    expectError(await make(), 403, 'authorization_missing')
    expect((await contractsOf(agent)).map(({ templateId }) => templateId)).toEqual(['Shop:Mint'])
  })

  test('are the issuer’s spending: within its caps, and denied without one', async () => {
    const capped = await scene((ada) => ada.party, [{ symbol: 'USDX', amount: '10' }])
    expectStatus(await capped.make(), 200)
    expectError(await capped.make(), 403, 'spend_limit_exceeded')
    const none = await scene((ada) => ada.party, [])
    expectError(await none.make(), 403, 'policy_denied')
    expect((await contractsOf(none.agent)).map(({ templateId }) => templateId)).toEqual(['Shop:Mint'])
  })
})

describe('declaring', () => {
  test('answers the template as it was given, with nulls and empties for what was left out', async () => {
    const tenant = await service.newTenant()
    await declare(tenant, RECEIPT)
    const answer = await tenant.post('/templates', VOUCHER)
    const record = { ...VOUCHER, createdAt: expect.stringMatching(/Z$/) }
    expect(expectStatus(answer, 201)).toEqual(record)
    expect(expectStatus(await tenant.get('/templates/Shop:Voucher'), 200)).toEqual(record)
    expect(expectStatus(await tenant.get('/templates/Shop%3AVoucher'), 200)).toEqual(record)
    const bare = { ...RECEIPT, description: null, observers: [], choices: {} }
    expect(expectStatus(await tenant.get('/templates/Shop:Receipt'), 200)).toMatchObject(bare)
  })

  test('is for good: a name that is taken is refused, once of twenty at the same time', async () => {
    const tenant = await service.newTenant()
    const answers = await Promise.all(Array.from({ length: 20 }, () => tenant.post('/templates', RECEIPT)))
    expect(answers.filter((answer) => answer.status === 201)).toHaveLength(1)
    for (const answer of answers)
      if (answer.status !== 201) {
        expectError(answer, 409, 'already_exists')
        expect(answer.body.details[0].field).toBe('templateId')
      }
    const other = { ...RECEIPT, fields: { shop: { type: 'party' } }, signatories: ['shop'] }
    expectError(await tenant.post('/templates', other), 409, 'already_exists')
    expect(expectStatus(await tenant.get('/templates/Shop:Receipt'), 200).signatories).toEqual(['shop', 'buyer'])
    for (const method of ['PATCH', 'DELETE'])
      expectError(await tenant.call(method, '/templates/Shop:Receipt'), 404, 'not_found')
  })

  test('ends at two hundred, however many come at once', async () => {
    const tenant = await service.newTenant()
    await service.sql(
      `insert into ledger_templates (tenant_id, template_id, definition, created_at)
       select $1, 'Old:T' || n, json_build_object('templateId', 'Old:T' || n, 'fields', '{"a":{"type":"party"}}'::json,
         'signatories', '["a"]'::json), now() - interval '1 day' from generate_series(1, 195) n`,
      [tenant.tenantId],
    )
    await service.recode(tenant.tenantId)
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => tenant.post('/templates', { ...RECEIPT, templateId: `New:T${n}` })),
    )
    expect(answers.filter((answer) => answer.status === 201)).toHaveLength(5)
    for (const answer of answers) if (answer.status !== 201) expectError(answer, 409, 'template_limit_reached')
    expect((await tenant.get('/templates?page_size=1')).body).toMatchObject({ total: 200 })
    expectError(await tenant.post('/templates', { ...RECEIPT, templateId: 'Old:T1' }), 409, 'already_exists')
  })

  test('is listed in pages, newest first', async () => {
    const tenant = await service.newTenant()
    for (const name of ['A', 'B', 'C']) {
      await declare(tenant, { ...RECEIPT, templateId: `Shop:${name}` })
      service.advance(1_000)
    }
    const names = async (query: string) =>
      (await tenant.get(`/templates${query}`)).body.data.map((template: Json) => template.templateId)
    expect(await names('')).toEqual(['Shop:C', 'Shop:B', 'Shop:A'])
    expect(await names('?page=2&page_size=2')).toEqual(['Shop:A'])
    expect(await names('?page=3&page_size=2')).toEqual([])
    expectError(await tenant.get('/templates?page=0'), 400, 'validation_failed')
    expectError(await tenant.get('/templates?name=x'), 400, 'validation_failed')
  })

  test('needs wallets:write and a key of no app; reading needs wallets:read', async () => {
    const tenant = await service.newTenant()
    await declare(tenant, RECEIPT)
    const bound = await tenant.newKey({ scopes: ['*'], appId: tenant.appId })
    const reader = await tenant.newKey({ scopes: ['wallets:read'] })
    const stranger = await tenant.newKey({ scopes: ['webhooks:write'] })
    const publishable = await publishableKey(tenant)
    const body = { ...RECEIPT, templateId: 'Shop:Next' }
    expectError(await tenant.post('/templates', body, { key: bound }), 403, 'insufficient_scope')
    expectError(await tenant.post('/templates', body, { key: reader }), 403, 'insufficient_scope')
    expectError(await tenant.post('/templates', body, { key: publishable }), 403, 'key_type_not_allowed')
    expectError(await tenant.post('/templates', body, { key: null }), 401, 'api_key_missing')
    for (const path of ['/templates', '/templates/Shop:Receipt']) {
      for (const key of [bound, reader]) expectStatus(await tenant.get(path, { key }), 200)
      expectError(await tenant.get(path, { key: stranger }), 403, 'insufficient_scope')
      expectError(await tenant.get(path, { key: publishable }), 403, 'key_type_not_allowed')
    }
    expectError(await tenant.get('/templates/Shop:Next'), 404, 'not_found')
  })
})
