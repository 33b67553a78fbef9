import fc from 'fast-check'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { serialiser, validator } from '../../platform/http/schema.ts'
import type { Arguments, Command } from '../../platform/ports/ledger.ts'
import { checkConditions, compileConditions, matches } from './conditions.ts'
import { checkPolicy, compile, decideCommands } from './policy.ts'
import { type Condition, Policy, type Rule } from './policy-schema.ts'

const FINGERPRINT = `1220${'ab'.repeat(32)}`
const ALICE = `alice::${FINGERPRINT}`
const BOB = `bob::${FINGERPRINT}`
const MALLORY = `mallory::${FINGERPRINT}`
const ISSUER = `issuer::${FINGERPRINT}`
const ASSET = { issuer: ISSUER, symbol: 'USDX' }

const check = validator(z.strictObject({ policy: Policy }))

/** What is wrong with a policy, by field: first what the schema says, else what it cannot say. */
function wrong(policy: unknown): string[] {
  const body = { policy }
  const found = check(body, Buffer.byteLength(JSON.stringify(body)))
  return (found.length > 0 ? found : checkPolicy(policy as Policy)).map(({ field }) => field ?? '')
}

const allowing = (rule: object) => ({ allow: [{ templateId: 'Token:Holding', ...rule }] })
const where = (...conditions: unknown[]) => allowing({ where: conditions })
const spending = (...spend: unknown[]) => ({ ...allowing({}), spend })

const exercise = (given: Arguments, choice = 'Transfer', templateId = 'Token:Holding'): Command => ({
  exercise: { templateId, contractId: '00', choice, arguments: given },
})
const create = (given: Arguments, templateId = 'Token:Holding'): Command => ({
  create: { templateId, arguments: given },
})

function decide(policy: object, ...commands: Command[]) {
  expect(wrong(policy)).toEqual([])
  const { allowed, rule, command } = decideCommands(compile(policy as Policy), commands)
  return { allowed, rule, command }
}

const isAllowed = (policy: object, given: Arguments) => decide(policy, exercise(given)).allowed
const denying = (...conditions: unknown[]) => ({
  ...allowing({}),
  deny: [{ templateId: 'Token:Holding', where: conditions }],
})

test("the contract's own example is accepted, answered as it came, and allows what it says", () => {
  const policy = {
    allow: [
      {
        templateId: 'Token:Holding',
        actions: ['exercise'],
        choices: ['Transfer'],
        where: [{ path: 'receiver', op: 'in', value: [BOB] }],
      },
    ],
    deny: [{ templateId: 'Token:Holding', where: [{ path: 'memo', op: 'eq', value: 'x' }] }],
    spend: [
      { asset: ASSET, amount: '100.00', window: 'lifetime' },
      { asset: { ...ASSET, symbol: 'EUR' }, unlimited: true },
    ],
    query: { templateIds: ['Token:Holding'] },
  }
  expect(JSON.parse(serialiser(Policy)(policy))).toEqual(policy)
  expect(decide(policy, exercise({ receiver: BOB, memo: '' }))).toEqual({
    allowed: true,
    rule: 'allow[0]',
    command: null,
  })
  expect(decide(policy, exercise({ receiver: MALLORY, memo: '' }))).toEqual({
    allowed: false,
    rule: 'allow',
    command: 0,
  })
  expect(compile(policy as Policy).queryTemplateIds).toEqual(['Token:Holding'])
})

const noValue = (value: unknown) => where({ path: 'amount', op: 'lte', value })
const capOf = (amount: unknown) => spending({ asset: ASSET, amount })
const rules = (count: number) => Array.from({ length: count }, () => ({ templateId: 'Token:Holding' }))

test.each<[name: string, policy: unknown, fields: string[]]>([
  ['no policy at all', null, ['policy']],
  ['a list', [], ['policy']],
  ['no allow', {}, ['policy.allow']],
  ['an empty allow', { allow: [] }, ['policy.allow']],
  ['101 rules that allow', { allow: rules(101) }, ['policy.allow']],
  ['101 rules that deny', { allow: rules(1), deny: rules(101) }, ['policy.deny']],
  ['10 000 rules', { allow: rules(10_000) }, ['policy.allow']],
  ['an unknown key of the policy', { ...allowing({}), admin: true }, ['policy.admin']],
  ['an unknown key of a rule', allowing({ choice: 'Transfer' }), ['policy.allow.0.choice']],
  [
    'an unknown key of a condition',
    where({ path: 'a', op: 'eq', value: 'b', not: true }),
    ['policy.allow.0.where.0.not'],
  ],
  ['an unknown key of a cap', spending({ asset: ASSET, amount: '1', per: 'hour' }), ['policy.spend.0.per']],
  [
    'an unknown key of an asset',
    spending({ asset: { ...ASSET, decimals: 2 }, amount: '1' }),
    ['policy.spend.0.asset.decimals'],
  ],
  ['an unknown key of query', { ...allowing({}), query: { templateIds: ['A:B'], party: BOB } }, ['policy.query.party']],
  ['a template that is none', { allow: [{ templateId: '*' }] }, ['policy.allow.0.templateId']],
  ['a template with a line break', { allow: [{ templateId: 'A:B\n' }] }, ['policy.allow.0.templateId']],
  ['a template of 65 characters', { allow: [{ templateId: `${'A'.repeat(65)}:B` }] }, ['policy.allow.0.templateId']],
  ['no actions', allowing({ actions: [] }), ['policy.allow.0.actions']],
  ['an action twice', allowing({ actions: ['create', 'create'] }), ['policy.allow.0.actions']],
  ['an unknown action', allowing({ actions: ['archive'] }), ['policy.allow.0.actions.0']],
  ['no choices', allowing({ choices: [] }), ['policy.allow.0.choices']],
  ['a choice twice', allowing({ choices: ['A', 'A'] }), ['policy.allow.0.choices']],
  ['a choice that is none', allowing({ choices: ['*'] }), ['policy.allow.0.choices.0']],
  ['choices of a create', allowing({ actions: ['create'], choices: ['Transfer'] }), ['policy.allow.0.choices']],
  [
    'choices of a create that is denied',
    { ...allowing({}), deny: [{ templateId: 'A:B', actions: ['create'], choices: ['X'] }] },
    ['policy.deny.0.choices'],
  ],
  ['no conditions', where(), ['policy.allow.0.where']],
  ['21 conditions', where(...Array(21).fill({ path: 'a', op: 'eq', value: 'b' })), ['policy.allow.0.where']],
  ['an unknown comparison', where({ path: 'a', op: 'like', value: 'b' }), ['policy.allow.0.where.0.op']],
  ['a path of dots', where({ path: 'a..b', op: 'eq', value: 'b' }), ['policy.allow.0.where.0.path']],
  ['a number for a value', where({ path: 'a', op: 'eq', value: 5 }), ['policy.allow.0.where.0.value']],
  ['null for a value', where({ path: 'a', op: 'eq', value: null }), ['policy.allow.0.where.0.value']],
  ['an object for a value', where({ path: 'a', op: 'eq', value: {} }), ['policy.allow.0.where.0.value']],
  ['a number in a list', where({ path: 'a', op: 'in', value: ['x', 5] }), ['policy.allow.0.where.0.value.1']],
  ['an empty list', where({ path: 'a', op: 'in', value: [] }), ['policy.allow.0.where.0.value']],
  [
    '1 001 entries in a list',
    where({ path: 'a', op: 'in', value: Array(1_001).fill('x') }),
    ['policy.allow.0.where.0.value'],
  ],
  ['text for in', where({ path: 'a', op: 'in', value: 'x' }), ['policy.allow.0.where.0.value']],
  ['text for not_in', where({ path: 'a', op: 'not_in', value: 'x' }), ['policy.allow.0.where.0.value']],
  ['a list for eq', where({ path: 'a', op: 'eq', value: ['x'] }), ['policy.allow.0.where.0.value']],
  ['a list for lt', where({ path: 'a', op: 'lt', value: ['1'] }), ['policy.allow.0.where.0.value']],
  ['a bound that is text', noValue('ten'), ['policy.allow.0.where.0.value']],
  ['a bound below zero', noValue('-1'), ['policy.allow.0.where.0.value']],
  ['a bound with an exponent', noValue('1e9'), ['policy.allow.0.where.0.value']],
  ['a bound with 40 decimals', noValue(`1.${'1'.repeat(40)}`), ['policy.allow.0.where.0.value']],
  ['a bound of a 30th of February', noValue('2026-02-30T00:00:00Z'), ['policy.allow.0.where.0.value']],
  ['a bound of a day without a time', noValue('2026-02-01'), ['policy.allow.0.where.0.value']],
  ['a cap without an asset', spending({ amount: '1' }), ['policy.spend.0.asset']],
  [
    'a cap of somebody',
    spending({ asset: { issuer: 'issuer', symbol: 'X' }, amount: '1' }),
    ['policy.spend.0.asset.issuer'],
  ],
  [
    'a cap in upper case',
    spending({ asset: { issuer: ISSUER.toUpperCase(), symbol: 'X' }, amount: '1' }),
    ['policy.spend.0.asset.issuer'],
  ],
  [
    'a cap without a symbol',
    spending({ asset: { issuer: ISSUER, symbol: '' }, amount: '1' }),
    ['policy.spend.0.asset.symbol'],
  ],
  ['a cap below zero', capOf('-1'), ['policy.spend.0.amount']],
  ['a cap with a plus', capOf('+1'), ['policy.spend.0.amount']],
  ['a cap with an exponent', capOf('1e3'), ['policy.spend.0.amount']],
  ['a huge cap', capOf('9'.repeat(29)), ['policy.spend.0.amount']],
  ['a cap with eleven decimals', capOf('1.00000000000'), ['policy.spend.0.amount']],
  ['a cap with 40 decimals', capOf(`0.${'0'.repeat(39)}1`), ['policy.spend.0.amount']],
  ['a cap that begins with 0', capOf('01'), ['policy.spend.0.amount']],
  ['a cap with a space', capOf(' 1'), ['policy.spend.0.amount']],
  ['a cap with a line break', capOf('1\n'), ['policy.spend.0.amount']],
  ['a cap in hexadecimal', capOf('0x10'), ['policy.spend.0.amount']],
  ['an infinite cap', capOf('Infinity'), ['policy.spend.0.amount']],
  ['a cap that is a number', capOf(100), ['policy.spend.0.amount']],
  ['a cap that is null', capOf(null), ['policy.spend.0.amount']],
  ['neither amount nor unlimited', spending({ asset: ASSET }), ['policy.spend.0.amount']],
  ['unlimited: false', spending({ asset: ASSET, unlimited: false }), ['policy.spend.0.unlimited']],
  ['an amount beside unlimited', spending({ asset: ASSET, unlimited: true, amount: '1' }), ['policy.spend.0.amount']],
  [
    'a window beside unlimited',
    spending({ asset: ASSET, unlimited: true, window: 'day_utc' }),
    ['policy.spend.0.window'],
  ],
  ['an unknown window', spending({ asset: ASSET, amount: '1', window: 'hour' }), ['policy.spend.0.window']],
  [
    'two caps for one window, one of them by default',
    spending({ asset: ASSET, amount: '1' }, { asset: ASSET, amount: '2', window: 'lifetime' }),
    ['policy.spend.1'],
  ],
  [
    'unlimited twice',
    spending({ asset: ASSET, unlimited: true }, { asset: ASSET, unlimited: true }),
    ['policy.spend.1'],
  ],
  [
    'a cap before unlimited',
    spending({ asset: ASSET, amount: '1' }, { asset: ASSET, unlimited: true }),
    ['policy.spend.0'],
  ],
  [
    'a cap after unlimited',
    spending({ asset: ASSET, unlimited: true }, { asset: ASSET, amount: '1', window: 'day_utc' }),
    ['policy.spend.1'],
  ],
  [
    '21 caps',
    spending(...Array.from({ length: 21 }, (_, i) => ({ asset: { issuer: ISSUER, symbol: `S${i}` }, amount: '1' }))),
    ['policy.spend'],
  ],
  ['a query of nothing', { ...allowing({}), query: { templateIds: [] } }, ['policy.query.templateIds']],
  [
    'a query of one template twice',
    { ...allowing({}), query: { templateIds: ['A:B', 'A:B'] } },
    ['policy.query.templateIds'],
  ],
  [
    'more than 64 KiB',
    { allow: Array(100).fill(where({ path: 'a', op: 'in', value: Array(20).fill('x'.repeat(40)) }).allow[0]) },
    ['policy'],
  ],
])('a policy is refused, and the field named, for %s', (_, policy, fields) => {
  expect(wrong(policy)).toEqual(fields)
})

test('a key named __proto__ is an unknown key', () => {
  expect(wrong(JSON.parse('{"allow":[{"templateId":"A:B","__proto__":{"where":[]}}]}'))).toEqual([
    'policy.allow.0.__proto__',
  ])
})

test.each<[name: string, policy: object]>([
  ['100 rules on either side', { allow: rules(100), deny: rules(100) }],
  ['a cap of nothing', capOf('0')],
  ['the largest cap there is', capOf(`${'9'.repeat(28)}.${'9'.repeat(10)}`)],
  [
    'one asset in three windows',
    spending(
      { asset: ASSET, amount: '9' },
      { asset: ASSET, amount: '3', window: 'rolling_24h' },
      { asset: ASSET, amount: '2', window: 'day_utc' },
    ),
  ],
  [
    'another issuer of the same symbol',
    spending({ asset: ASSET, amount: '1' }, { asset: { ...ASSET, issuer: BOB }, unlimited: true }),
  ],
  ['a bound in time', noValue('2026-11-21T08:30:00+01:00')],
  ['a bound with decimals', noValue('0.0000000001')],
])('a policy is accepted with %s', (_, policy) => {
  expect(wrong(policy)).toEqual([])
})

test('a message names what was expected, once', () => {
  const body = { policy: where({ path: 'a', op: 'eq', value: 5 }) }
  expect(check(body, 100)).toEqual([
    {
      field: 'policy.allow.0.where.0.value',
      code: 'wrong_type',
      message: 'Must be text of at most 1000 characters, or for in and not_in a list of 1 to 1000 texts.',
    },
  ])
})

test('the conditions of a query are checked under their own name', () => {
  expect(checkConditions([{ path: 'amount', op: 'gt', value: 'x' }], 'where')).toMatchObject([
    { field: 'where.0.value', code: 'invalid' },
  ])
})

test('what no rule is for is denied: another template, action or choice, and no command at all', () => {
  const policy = allowing({ actions: ['exercise'], choices: ['Transfer'] })
  const denied = { allowed: false, rule: 'allow', command: 0 }
  expect(decide(policy, exercise({}))).toMatchObject({ allowed: true })
  expect(decide(policy, exercise({}, 'Transfer', 'Token:TransferOffer'))).toEqual(denied)
  expect(decide(policy, exercise({}, 'Transfer', 'token:holding'))).toEqual(denied)
  expect(decide(policy, exercise({}, 'transfer'))).toEqual(denied)
  expect(decide(policy, exercise({}, 'Split'))).toEqual(denied)
  expect(decide(policy, create({}))).toEqual(denied)
  for (const name of ['__proto__', 'constructor', 'toString']) {
    expect(decide(policy, exercise({}, name))).toEqual(denied)
    expect(decide(policy, exercise({}, 'Transfer', name))).toEqual(denied)
  }
  expect(decide(policy)).toEqual({ allowed: false, rule: 'allow', command: null })
})

test('choices speak of exercises: alone they allow no create, beside both actions they leave create free', () => {
  const choicesOnly = allowing({ choices: ['Transfer'] })
  const both = allowing({ actions: ['create', 'exercise'], choices: ['Transfer'] })
  expect(decide(choicesOnly, create({}))).toMatchObject({ allowed: false })
  expect(decide(both, create({}))).toMatchObject({ allowed: true })
  for (const policy of [choicesOnly, both]) {
    expect(decide(policy, exercise({}))).toMatchObject({ allowed: true })
    expect(decide(policy, exercise({}, 'Offer'))).toMatchObject({ allowed: false })
  }
})

test('every command has to be allowed; the first that is not is named', () => {
  const policy = {
    allow: [
      { templateId: 'Note:Note' },
      { templateId: 'Token:Holding', where: [{ path: 'receiver', op: 'eq', value: BOB }] },
    ],
  }
  const good = exercise({ receiver: BOB })
  const bad = exercise({ receiver: MALLORY })
  expect(decide(policy, good, create({}, 'Note:Note'))).toEqual({ allowed: true, rule: 'allow[1]', command: null })
  expect(decide(policy, good, good, bad, good, bad)).toEqual({ allowed: false, rule: 'allow', command: 2 })
})

test('deny wins over allow, contradictory rules included', () => {
  const policy = {
    allow: [{ templateId: 'Token:Holding' }],
    deny: [
      { templateId: 'Note:Note' },
      { templateId: 'Token:Holding', choices: ['Offer'] },
      { templateId: 'Token:Holding', where: [{ path: 'receiver', op: 'eq', value: MALLORY }] },
    ],
  }
  expect(decide(policy, exercise({ receiver: BOB }))).toMatchObject({ allowed: true })
  expect(decide(policy, exercise({ receiver: BOB }, 'Offer'))).toMatchObject({ rule: 'deny[1]' })
  expect(decide(policy, exercise({ receiver: MALLORY }))).toEqual({ allowed: false, rule: 'deny[2]', command: 0 })
  const contradictory = { ...allowing({}), deny: allowing({}).allow }
  expect(decide(contradictory, exercise({}))).toEqual({ allowed: false, rule: 'deny[0]', command: 0 })
})

test.each<[op: string, value: string | string[], fitting: string[], unfit: string[]]>([
  ['eq', '5', ['5', '5.0', '5.0000000000'], ['5.0000000001', '50', 'five', '']],
  ['ne', '5', ['6', 'five', '5.01'], ['5', '5.0']],
  ['eq', BOB, [BOB], [ALICE, BOB.toUpperCase(), `${BOB} `, '']],
  ['in', ['5', BOB], ['5.00', BOB], ['6', ALICE]],
  ['not_in', ['5', BOB], ['6', ALICE], ['5.00', BOB]],
  ['lt', '10', ['9.9999999999', '0', '2'], ['10', '10.0', '11', '9'.repeat(28)]],
  ['lte', '10', ['10.0', '2'], ['10.0000000001']],
  ['gt', '9007199254740993', ['9007199254740994', '9007199254740993.0000000001'], ['9007199254740993', '2']],
  ['gte', '10', ['10', '100'], ['9', '2']],
  ['eq', '2026-11-21T08:30:00Z', ['2026-11-21T09:30:00.000+01:00'], ['2026-11-21T08:30:00.000001Z']],
  [
    'lt',
    '2026-11-21T08:30:00Z',
    ['2026-11-21T09:29:59.999999+01:00', '1999-01-01T00:00:00Z'],
    ['2026-11-21T08:30:00Z'],
  ],
])('%s %j takes amounts and times by value, on either side alike', (op, value, fitting, unfit) => {
  const condition = { path: 'x', op, value }
  for (const text of fitting) {
    expect(isAllowed(where(condition), { x: text }), text).toBe(true)
    expect(isAllowed(denying(condition), { x: text }), text).toBe(false)
  }
  for (const text of unfit) {
    expect(isAllowed(where(condition), { x: text }), text).toBe(false)
    expect(isAllowed(denying(condition), { x: text }), text).toBe(true)
  }
})

const OPS = ['eq', 'ne', 'in', 'not_in', 'lt', 'lte', 'gt', 'gte'] as const
const valueFor = (op: string, value: string) => (op === 'in' || op === 'not_in' ? [value] : value)

test.each(OPS)('what is not there never allows and always denies: %s', (op) => {
  const nothing: [path: string, given: Arguments][] = [
    ['x', {}],
    ['x', { x: [] }],
    ['x', { X: '5' }],
    ['x.y', { x: '5' }],
    ['x.length', { x: ['5'] }],
    ['x.y', { 'x.y': '5' }],
    ['__proto__', { x: '5' }],
    ['constructor', { x: '5' }],
    ['constructor.name', { x: '5' }],
    ['toString', { x: '5' }],
    ['x', { x: 5 as unknown as string }],
    ['x', { x: [null] as unknown as string[] }],
    ['x', { x: {} as unknown as string }],
    ['x', Object.create({ x: '5' }) as Arguments],
  ]
  for (const [path, given] of nothing) {
    const condition = { path, op, value: valueFor(op, '5') }
    expect(isAllowed(where(condition), given), path).toBe(false)
    expect(isAllowed(denying(condition), given), path).toBe(false)
  }
})

test.each(['lt', 'lte', 'gt', 'gte'])('what cannot be compared never allows and always denies: %s', (op) => {
  const strange = ['abc', '', '-1', '1e2', '١', '1.00000000001', ' 1', '9'.repeat(29), '2026-11-21T08:30:00Z', 'NaN']
  for (const text of strange) {
    const condition = { path: 'x', op, value: '10' }
    expect(isAllowed(where(condition), { x: text }), text).toBe(false)
    expect(isAllowed(denying(condition), { x: text }), text).toBe(false)
    expect(isAllowed(denying(condition), { x: ['10', text] }), text).toBe(false)
  }
})

test.each<[op: string, value: string | string[], given: string[], every: boolean, some: boolean]>([
  ['in', [ALICE, BOB], [ALICE, BOB], true, true],
  ['in', [ALICE, BOB], [ALICE, MALLORY], false, true],
  ['in', [ALICE, BOB], [MALLORY], false, false],
  ['not_in', [MALLORY], [ALICE, BOB], true, true],
  ['not_in', [MALLORY], [ALICE, MALLORY], false, true],
  ['not_in', [MALLORY], [MALLORY], false, false],
  ['eq', ALICE, [ALICE, ALICE], true, true],
  ['eq', ALICE, [ALICE, BOB], false, true],
  ['ne', ALICE, [BOB, MALLORY], true, true],
  ['ne', ALICE, [ALICE, BOB], false, true],
  ['lte', '10', ['1', '10'], true, true],
  ['lte', '10', ['1', '11'], false, true],
])(
  'of a list every element has to fit to allow, one is enough to deny: %s, case %#',
  (op, value, given, every, some) => {
    const condition = { path: 'x', op, value }
    expect(isAllowed(where(condition), { x: given })).toBe(every)
    expect(isAllowed(denying(condition), { x: given })).toBe(!some)
  },
)

test('all conditions of a rule have to hold', () => {
  const policy = where({ path: 'receiver', op: 'eq', value: BOB }, { path: 'amount', op: 'lte', value: '10' })
  expect(isAllowed(policy, { receiver: BOB, amount: '10' })).toBe(true)
  expect(isAllowed(policy, { receiver: BOB, amount: '11' })).toBe(false)
  expect(isAllowed(policy, { receiver: MALLORY, amount: '1' })).toBe(false)
  expect(isAllowed(policy, { receiver: BOB })).toBe(false)
})

test('lists that would keep the process busy are denied, on either side', () => {
  const bounds = (count: number) =>
    Array.from({ length: 20 }, () => ({ path: 'x', op: 'lt' as const, value: `${count}` }))
  const rule = {
    templateId: 'Token:Holding',
    where: [...bounds(10).slice(1), { path: 'y', op: 'eq' as const, value: 'z' }],
  }
  const commands = Array(100).fill(exercise({ x: Array(100).fill('9'), y: 'y' }))
  const busy = (side: 'allow' | 'deny') =>
    compile({ allow: [{ templateId: 'Token:Holding' }], [side]: Array(100).fill(rule) } as Policy)
  for (const side of ['allow', 'deny'] as const)
    expect(decideCommands(busy(side), commands, { explain: true })).toEqual({
      allowed: false,
      rule: 'allow',
      command: null,
      message: 'There are too many values to compare with the policy. Send fewer commands or values in one call.',
    })
  expect(decideCommands(busy('deny'), commands.slice(0, 5))).toMatchObject({ allowed: true })
})

test("a query's filter is as strict as an allow rule", () => {
  const filter = compileConditions([{ path: 'amount', op: 'gte', value: '10' }])
  expect(matches(filter, { amount: '10.0' })).toBe(true)
  expect(matches(filter, { amount: '9' })).toBe(false)
  expect(matches(filter, {})).toBe(false)
  expect(matches([], {})).toBe(true)
})

test('an explanation says of each command which rules were looked at, and what was not met', () => {
  const policy = compile({
    allow: [
      { templateId: 'Note:Note' },
      { templateId: 'Token:Holding', actions: ['create'] },
      { templateId: 'Token:Holding', choices: ['Split'] },
      {
        templateId: 'Token:Holding',
        where: [
          { path: 'receiver', op: 'in', value: [ALICE, BOB] },
          { path: 'amount', op: 'lte', value: '10' },
        ],
      },
    ],
    deny: [{ templateId: 'Token:Holding', where: [{ path: 'memo', op: 'eq', value: 'x' }] }],
  })
  const good = exercise({ receiver: BOB, amount: '10', memo: 'y' })
  const dear = exercise({ receiver: BOB, amount: '11', memo: 'y' })
  const silent = exercise({ receiver: BOB, amount: '1' })
  const { trace, message } = decideCommands(policy, [good, dear, silent, create({}, 'A:B')], { explain: true })
  expect(message).toBe('No rule of the policy allows command 1: exercise Token:Holding Transfer.')
  expect(trace?.map(({ command, allowed, rule }) => [command, allowed, rule])).toEqual([
    [0, true, 'allow[3]'],
    [1, false, 'allow'],
    [2, false, 'deny[0]'],
    [3, false, 'allow'],
  ])
  expect(trace?.[1]?.rules).toEqual([
    { rule: 'deny[0]', matched: false, reason: 'Not met: memo is "y"; required: "x".' },
    { rule: 'allow[1]', matched: false, reason: 'The rule is not for exercise.' },
    { rule: 'allow[2]', matched: false, reason: 'The rule is not for the choice Transfer.' },
    { rule: 'allow[3]', matched: false, reason: 'Not met: amount is "11"; required: at most "10".' },
  ])
  expect(trace?.[2]?.rules[0]).toEqual({
    rule: 'deny[0]',
    matched: true,
    reason: 'Met: memo is absent, or not a text; required: "x".',
  })
  expect(trace?.[3]).toMatchObject({ action: 'create A:B', rules: [], rulesLeftOut: 0 })
  expect(decideCommands(policy, [dear])).not.toHaveProperty('trace')
})

test('an explanation stays small, and tells of the rule that decided in any case', () => {
  const blind = { templateId: 'Token:Holding', where: [{ path: 'text', op: 'eq' as const, value: 'x'.repeat(1_000) }] }
  const policy = compile({ allow: [...Array(99).fill(blind), { templateId: 'Token:Holding' }] })
  const commands = Array(100).fill(exercise({ text: 'y'.repeat(100_000) }))
  const decision = decideCommands(policy, commands, { explain: true })
  expect(decision.trace?.[0]?.rules.at(-1)).toMatchObject({ rule: 'allow[99]', matched: true })
  expect(decision.trace?.[0]?.rulesLeftOut).toBe(89)
  expect(JSON.stringify(decision).length).toBeLessThan(500_000)
})

test('a bound that was not checked fits nothing', () => {
  for (const op of ['lt', 'lte', 'gt', 'gte'] as const)
    for (const value of ['', 'abc', '10'])
      expect(matches(compileConditions([{ path: 'x', op, value: 'abc' }]), { x: value })).toBe(false)
})

test('a policy that was not checked is not compiled into one without a cap', () => {
  expect(() => compile({ allow: [{ templateId: 'A:B' }], spend: [{ asset: ASSET }] })).toThrow()
  expect(() => compile({ allow: [{ templateId: 'A:B' }], spend: [{ asset: ASSET, amount: '-1' }] })).toThrow()
})

const texts = fc.constantFrom('1', '1.0', '5', '10', 'a', '', '-1', ALICE, '2026-11-21T08:30:00Z')
const paths = fc.constantFrom('x', 'y', 'x.y', '__proto__')
const conditions: fc.Arbitrary<Condition> = fc
  .record({ path: paths, op: fc.constantFrom(...OPS), value: texts, bound: fc.constantFrom('1', '5.0', '10') })
  .map(({ path, op, value, bound }) => ({
    path,
    op,
    value: op.startsWith('l') || op.startsWith('g') ? bound : valueFor(op, value),
  }))
const someRules: fc.Arbitrary<Rule> = fc.record(
  {
    templateId: fc.constantFrom('A:A', 'A:B'),
    actions: fc.constantFrom<('create' | 'exercise')[]>(['create'], ['exercise'], ['create', 'exercise']),
    choices: fc.constantFrom<string[]>(['X'], ['X', 'Y']),
    where: fc.array(conditions, { minLength: 1, maxLength: 3 }),
  },
  { requiredKeys: ['templateId'] },
)
const policies: fc.Arbitrary<Policy> = fc.record({
  allow: fc.array(someRules, { minLength: 1, maxLength: 6 }),
  deny: fc.array(someRules, { maxLength: 3 }),
})
const someArguments: fc.Arbitrary<Arguments> = fc.record(
  { x: fc.oneof(texts, fc.array(texts, { maxLength: 3 })), y: texts },
  { requiredKeys: [] },
)
const someCommands: fc.Arbitrary<Command> = fc
  .record({
    templateId: fc.constantFrom('A:A', 'A:B', 'A:C'),
    choice: fc.constantFrom('X', 'Y', 'Z'),
    arguments: someArguments,
    creates: fc.boolean(),
  })
  .map(({ templateId, choice, arguments: given, creates }) =>
    creates ? create(given, templateId) : exercise(given, choice, templateId),
  )

const allowed = (policy: Policy, ...commands: Command[]) => decideCommands(compile(policy), commands).allowed

test('no further deny rule, and no allow rule fewer, ever allows more', () => {
  fc.assert(
    fc.property(policies, someRules, someCommands, (policy, rule, command) => {
      const stricter = { ...policy, deny: [...(policy.deny ?? []), rule] }
      const looser = { ...policy, allow: [rule, ...policy.allow] }
      if (!allowed(policy, command)) expect(allowed(stricter, command)).toBe(false)
      if (allowed(policy, command)) expect(allowed(looser, command)).toBe(true)
    }),
    { numRuns: 2_000 },
  )
})

test('leaving an argument out never allows more', () => {
  fc.assert(
    fc.property(policies, someCommands, fc.constantFrom('x', 'y'), (policy, command, name) => {
      const less = structuredClone(command)
      delete ('create' in less ? less.create : less.exercise).arguments[name]
      if (!allowed(policy, command)) expect(allowed(policy, less)).toBe(false)
    }),
    { numRuns: 2_000 },
  )
})

test('commands together are allowed exactly when each of them alone is', () => {
  fc.assert(
    fc.property(policies, fc.array(someCommands, { minLength: 1, maxLength: 5 }), (policy, commands) => {
      expect(allowed(policy, ...commands)).toBe(commands.every((command) => allowed(policy, command)))
    }),
    { numRuns: 1_000 },
  )
})

test('a condition and its opposite never both allow, and never both fail to deny', () => {
  const opposites = fc.constantFrom(['eq', 'ne'], ['in', 'not_in'], ['lt', 'gte'], ['lte', 'gt'])
  fc.assert(
    fc.property(
      opposites,
      fc.constantFrom('1', '5.0', '10'),
      someArguments,
      ([op = '', opposite = ''], value, given) => {
        const one = { path: 'x', op, value: valueFor(op, value) }
        const other = { ...one, op: opposite }
        expect(isAllowed(where(one), given) && isAllowed(where(other), given)).toBe(false)
        expect(isAllowed(denying(one), given) && isAllowed(denying(other), given)).toBe(false)
      },
    ),
    { numRuns: 1_000 },
  )
})

test('an explanation and the decision it explains agree', () => {
  fc.assert(
    fc.property(policies, fc.array(someCommands, { minLength: 1, maxLength: 3 }), (policy, commands) => {
      const compiled = compile(policy)
      const { trace = [], ...decision } = decideCommands(compiled, commands, { explain: true })
      expect(decideCommands(compiled, commands)).toEqual(decision)
      for (const { allowed: fits, rules: looked } of trace) {
        const matched = looked.filter((one) => one.matched).map(({ rule }) => rule)
        expect(fits).toBe(matched.length > 0 && matched.every((rule) => rule.startsWith('allow')))
      }
    }),
    { numRuns: 500 },
  )
})
