import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { expectStatus, newHolder, newSession } from '../../delegation/delegated.fixture.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests write into it what it should not hold
type Definition = any

let service: Service
let tenant: Tenant
beforeAll(async () => {
  service = await startService()
  tenant = await service.newTenant()
})
afterAll(() => service.stop())

const good = (): Definition => ({
  templateId: 'Shop:Deed',
  fields: {
    owner: { type: 'party' },
    issuer: { type: 'party' },
    symbol: { type: 'symbol' },
    amount: { type: 'amount' },
    text: { type: 'text' },
    maybe: { type: 'party', optional: true },
    many: { type: 'parties' },
    ids: { type: 'contract_ids' },
  },
  signatories: ['owner'],
  observers: ['many'],
  choices: {
    Make: {
      controllers: ['owner'],
      arguments: { to: { type: 'party' }, note: { type: 'text' }, some: { type: 'amount', optional: true } },
      creates: [
        {
          templateId: 'Token:Holding',
          arguments: {
            issuer: { field: 'issuer' },
            owner: { argument: 'to' },
            symbol: { field: 'symbol' },
            amount: { field: 'amount' },
          },
        },
      ],
    },
  },
})

const many = (n: number, value: unknown) =>
  Object.fromEntries(Array.from({ length: n }, (_, index) => [`f${index}`, value]))
const made = (definition: Definition) => definition.choices.Make.creates[0]

/** What is done to a good definition, and the field that the refusal names. */
const FLAWS: Record<string, [change: (definition: Definition) => void, field: string]> = {
  'no name': [(d) => delete d.templateId, 'templateId'],
  'an empty name': [(d) => (d.templateId = ''), 'templateId'],
  'a name of one part': [(d) => (d.templateId = 'Deed'), 'templateId'],
  'a name of three parts': [(d) => (d.templateId = 'A:B:C'), 'templateId'],
  'a space in the name': [(d) => (d.templateId = 'Shop:My Deed'), 'templateId'],
  'a line feed after the name': [(d) => (d.templateId = 'Shop:Deed\n'), 'templateId'],
  'a name that is too long': [(d) => (d.templateId = `Shop:${'x'.repeat(65)}`), 'templateId'],
  'a name that looks like another': [(d) => (d.templateId = 'Tоken:Holding'), 'templateId'],
  'the name of a built-in': [(d) => (d.templateId = 'Token:Holding'), 'templateId'],
  'a name beside the built-ins': [(d) => (d.templateId = 'Token:Gold'), 'templateId'],
  'a built-in name in other letters': [(d) => (d.templateId = 'token:holding'), 'templateId'],
  'a name that only punctuation tells from a built-in': [(d) => (d.templateId = 'Token.:Holding'), 'templateId'],
  'a name among the notes': [(d) => (d.templateId = 'Note:Other'), 'templateId'],
  'a description that is too long': [(d) => (d.description = 'x'.repeat(1_001)), 'description'],
  'no fields': [(d) => delete d.fields, 'fields'],
  'fields as a list': [(d) => (d.fields = ['owner']), 'fields'],
  'a field of no type': [(d) => (d.fields.text = {}), 'fields.text.type'],
  'a field of another type': [(d) => (d.fields.text = { type: 'number' }), 'fields.text.type'],
  'a field with a default': [(d) => (d.fields.text.default = 'x'), 'fields.text.default'],
  'an optional that is no boolean': [(d) => (d.fields.text.optional = 'yes'), 'fields.text.optional'],
  'too many fields': [(d) => (d.fields = { owner: { type: 'party' }, ...many(50, { type: 'text' }) }), 'fields'],
  'no signatory': [(d) => (d.signatories = []), 'signatories'],
  'an unknown signatory': [(d) => (d.signatories = ['nobody']), 'signatories.0'],
  'an inherited name as signatory': [(d) => (d.signatories = ['toString']), 'signatories.0'],
  'a signatory that is text': [(d) => (d.signatories = ['owner', 'text']), 'signatories.1'],
  'a signatory that may be missing': [(d) => (d.signatories = ['maybe']), 'signatories.0'],
  'signatories that may be none': [(d) => (d.signatories = ['many']), 'signatories.0'],
  'an unknown observer': [(d) => (d.observers = ['many', 'nobody']), 'observers.1'],
  'an observer that is an amount': [(d) => (d.observers = ['amount']), 'observers.0'],
  'choices as a list': [(d) => (d.choices = []), 'choices'],
  'too many choices': [(d) => (d.choices = many(51, { controllers: ['owner'] })), 'choices'],
  'a choice that is code': [(d) => (d.choices.Make.run = 'process.exit()'), 'choices.Make.run'],
  'no controller': [(d) => (d.choices.Make.controllers = []), 'choices.Make.controllers'],
  'controllers left out': [(d) => delete d.choices.Make.controllers, 'choices.Make.controllers'],
  'an argument as controller': [(d) => (d.choices.Make.controllers = ['to']), 'choices.Make.controllers.0'],
  'a controller that may be missing': [(d) => (d.choices.Make.controllers = ['maybe']), 'choices.Make.controllers.0'],
  'controllers that may be none': [(d) => (d.choices.Make.controllers = ['many']), 'choices.Make.controllers.0'],
  'too many arguments': [(d) => (d.choices.Make.arguments = many(51, { type: 'text' })), 'choices.Make.arguments'],
  'too many contracts': [
    (d) => (d.choices.Make.creates = Array.from({ length: 11 }, () => made(d))),
    'choices.Make.creates',
  ],
  'a contract of no template': [(d) => (made(d).templateId = 'No:Such'), 'choices.Make.creates.0.templateId'],
  'a source that says nothing': [(d) => (made(d).arguments.owner = {}), 'choices.Make.creates.0.arguments.owner'],
  'a source that says two things': [
    (d) => (made(d).arguments.owner = { field: 'owner', argument: 'to' }),
    'choices.Make.creates.0.arguments.owner',
  ],
  'a source that is no field': [
    (d) => (made(d).arguments.owner = { field: 'nobody' }),
    'choices.Make.creates.0.arguments.owner',
  ],
  'an inherited name as source': [
    (d) => (made(d).arguments.owner = { argument: 'valueOf' }),
    'choices.Make.creates.0.arguments.owner',
  ],
  'a field as argument': [
    (d) => (made(d).arguments.owner = { argument: 'owner' }),
    'choices.Make.creates.0.arguments.owner',
  ],
  'a text where a party is needed': [
    (d) => (made(d).arguments.owner = { argument: 'note' }),
    'choices.Make.creates.0.arguments.owner',
  ],
  'a text where an amount is needed': [
    (d) => (made(d).arguments.amount = { field: 'text' }),
    'choices.Make.creates.0.arguments.amount',
  ],
  'a fixed issuer': [
    (d) => (made(d).arguments.issuer = { value: `issuer::1220${'a'.repeat(64)}` }),
    'choices.Make.creates.0.arguments.issuer',
  ],
  'a fixed amount': [(d) => (made(d).arguments.amount = { value: '5' }), 'choices.Make.creates.0.arguments.amount'],
  'a fixed text that is too long': [
    (d) => (made(d).arguments.symbol = { value: 'x'.repeat(4_001) }),
    'choices.Make.creates.0.arguments.symbol.value',
  ],
  'what may be missing for what must be there': [
    (d) => (made(d).arguments.amount = { argument: 'some' }),
    'choices.Make.creates.0.arguments.amount',
  ],
  'a field that is left out': [(d) => delete made(d).arguments.owner, 'choices.Make.creates.0.arguments.owner'],
  'a field that the template has not': [
    (d) => (made(d).arguments.colour = { field: 'text' }),
    'choices.Make.creates.0.arguments.colour',
  ],
  'a member more': [(d) => (d.code = 'x'), 'code'],
  'the time': [(d) => (d.createdAt = '2020-01-01T00:00:00.000Z'), 'createdAt'],
}

describe('a definition is refused, naming the field, with', () => {
  test.each(Object.entries(FLAWS))('%s', async (what, [change, field]) => {
    const definition = good()
    change(definition)
    const fields = expectRefusal(await tenant.post('/templates', definition), 'validation_failed', what).map(
      (detail) => detail.field,
    )
    expect(fields).toContain(field)
    expect((await tenant.get('/templates')).body.data).toEqual([])
  })

  const NAMES = ['', ' ', 'my field', '1st', '_x', 'a.b', 'a-b', 'é', 'x'.repeat(65), "'; drop table users --"]
  test.each(NAMES)('the name %j, of a field, a choice, or an argument', async (name) => {
    const changes: ((definition: Definition) => void)[] = [
      (d) => (d.fields[name] = { type: 'text' }),
      (d) => (d.choices[name] = { controllers: ['owner'] }),
      (d) => (d.choices.Make.arguments[name] = { type: 'text' }),
      (d) => (made(d).arguments[name] = { field: 'text' }),
      (d) => (d.signatories = [name]),
    ]
    for (const change of changes) {
      const definition = good()
      change(definition)
      expectRefusal(await tenant.post('/templates', definition), 'validation_failed', change.toString())
    }
  })

  test('every flaw at once', async () => {
    const definition = good()
    definition.signatories = ['nobody', 'text']
    definition.choices.Make.controllers = ['note']
    made(definition).arguments = { owner: { argument: 'note' } }
    const details = expectRefusal(await tenant.post('/templates', definition), 'validation_failed')
    const at = 'choices.Make.creates.0.arguments'
    expect(details.map((detail) => detail.field).sort()).toEqual(
      [
        'signatories.0',
        'signatories.1',
        'choices.Make.controllers.0',
        ...['amount', 'issuer', 'owner', 'symbol'].map((name) => `${at}.${name}`),
      ].sort(),
    )
  })
})

describe('hostile definitions', () => {
  test('prototypes, depth, size and what is no JSON are refused at once, and the service goes on', async () => {
    const { templateId, fields, signatories } = good()
    const text = JSON.stringify({ templateId, fields, signatories })
    const bodies = [
      text.replace('"text":', '"__proto__":'),
      text.replace('"text":', '"constructor":'),
      text.replace('{', '{"__proto__":{"signatories":["owner"]},'),
      text.replace('"text":', '"owner":'),
      text.replace('"text":{', `"text":${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)},"more":{`),
      text.replace('"owner"]', `"owner","${'x'.repeat(1_100_000)}"]`),
      text.replace('"owner"]', `"owner"${',"owner"'.repeat(100_000)}]`),
      text.replace('Shop:Deed', 'Shop:\\u0000'),
      text.slice(0, -1),
    ]
    for (const raw of bodies) {
      const begun = performance.now()
      const answer = await tenant.post('/templates', undefined, { raw })
      expect([answer.status, performance.now() - begun < 10_000], raw.slice(0, 100)).toEqual([400, true])
    }
    expect((await tenant.get('/templates')).body.data).toEqual([])
    expectStatus(await tenant.get('/healthz'), 200)
  })

  test('the largest definition that there can be is one', async () => {
    const own = await service.newTenant()
    const name = (n: number) => `f${n}`.padEnd(64, 'x')
    const fields = {
      owner: { type: 'party' },
      ...Object.fromEntries(Array.from({ length: 49 }, (_, n) => [name(n), { type: 'text' }])),
    }
    const creates = [
      { templateId: 'Shop:Big', arguments: Object.fromEntries(Object.keys(fields).map((field) => [field, { field }])) },
    ]
    const choices = Object.fromEntries(
      Array.from({ length: 50 }, (_, n) => [name(n), { controllers: ['owner'], creates }]),
    )
    const body = { templateId: 'Shop:Big', fields, signatories: ['owner'], choices }
    expect(JSON.stringify(body).length).toBeGreaterThan(300_000)
    expectStatus(await own.post('/templates', body), 201)
    expect(expectStatus(await own.get('/templates/Shop:Big'), 200)).toMatchObject(body)
  })

  test('a choice that copies a large contract again and again is stopped: it neither fills the memory nor stops the others', async () => {
    const own = await service.newTenant()
    const texts = Array.from({ length: 7 }, (_, n) => `t${n}`)
    const fields = { owner: { type: 'party' }, ...Object.fromEntries(texts.map((name) => [name, { type: 'text' }])) }
    const copy = {
      templateId: 'Shop:Copy',
      arguments: Object.fromEntries(Object.keys(fields).map((field) => [field, { field }])),
    }
    const choices = {
      Copy: { controllers: ['owner'], consuming: false, creates: Array.from({ length: 10 }, () => copy) },
    }
    expectStatus(
      await own.post('/templates', { templateId: 'Shop:Copy', fields, signatories: ['owner'], choices }),
      201,
    )
    const holder = await newHolder(own)
    const policy = { allow: [{ templateId: 'Shop:Copy' }], query: { templateIds: ['Shop:Copy'] } }
    const agent = await newSession(service, own, holder, { policy })
    const given = { owner: holder.party, ...Object.fromEntries(texts.map((name) => [name, 'x'.repeat(4_000)])) }
    const first = expectStatus(
      await agent.execute({ commands: [{ create: { templateId: 'Shop:Copy', arguments: given } }] }),
      200,
    )
    const { contractId } = first.effects[0]
    const again = { exercise: { templateId: 'Shop:Copy', contractId, choice: 'Copy' } }
    const begun = performance.now()
    expectError(await agent.execute({ commands: Array.from({ length: 100 }, () => again) }), 400, 'arguments_invalid')
    expect(performance.now() - begun).toBeLessThan(10_000)
    expect(expectStatus(await agent.query(), 200).contracts).toHaveLength(1)
    expectStatus(await agent.execute({ commands: [again, again] }), 200)
  })
})
