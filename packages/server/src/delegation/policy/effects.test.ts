import { describe, expect, test } from 'vitest'
import type { Command, Effect } from '../../platform/ports/ledger.ts'
import { type Declared, decideEffects } from './effects.ts'
import { compile } from './policy.ts'
import type { Policy } from './policy-schema.ts'

const ALICE = 'alice::1220'
const BOB = 'bob::1220'
const MALLORY = 'mallory::1220'

const transfer: Command = {
  exercise: {
    templateId: 'Token:Holding',
    contractId: 'c1',
    choice: 'Transfer',
    arguments: { receiver: BOB, amount: '5' },
  },
}
const note: Command = { create: { templateId: 'Note:Note', arguments: { author: ALICE, text: 'hello' } } }

const effect = (change: Partial<Effect>): Effect => ({
  type: 'created',
  command: 0,
  contractId: 'c2',
  templateId: 'Token:Holding',
  choice: null,
  arguments: {},
  signatories: [],
  observers: [],
  ...change,
})

/** What an honest ledger makes of a command. */
const rootOf = (command: Command, index: number): Effect =>
  'create' in command
    ? effect({ command: index, contractId: `new${index}`, ...command.create })
    : effect({ type: 'exercised', command: index, ...command.exercise })

const archived = effect({ type: 'archived', contractId: 'c1' })
const received = effect({ contractId: 'c2', arguments: { owner: BOB, amount: '5' } })
const honest = [rootOf(transfer, 0), archived, received]

const declared: Declared = (templateId, choice) =>
  templateId === 'Token:Holding' && choice === 'Transfer' ? ['Token:Holding'] : null

const everything: Policy = {
  allow: [{ templateId: 'Token:Holding' }, { templateId: 'Note:Note' }, { templateId: 'Token:TransferOffer' }],
}

function decide(
  commands: Command[],
  effects: Effect[],
  more: { policy?: Policy; actAs?: string; declared?: Declared } = {},
) {
  const prepared = { actAs: more.actAs ?? ALICE, effects }
  const asked = { actAs: ALICE, commands }
  const policy = compile(more.policy ?? everything)
  const { allowed, rule, command } = decideEffects(policy, asked, prepared, more.declared ?? declared)
  return { allowed, rule, command }
}

const refused = (command: number | null) => ({ allowed: false, rule: 'effects', command })

test('what a prepared transaction does is allowed where it is what was asked for', () => {
  expect(decide([transfer], honest)).toEqual({ allowed: true, rule: 'allow[0]', command: null })
  expect(
    decide(
      [note, transfer, note],
      [rootOf(note, 0), ...honest.map((one) => ({ ...one, command: 1 })), rootOf(note, 2)],
    ),
  ).toMatchObject({ allowed: true })
})

test('an amount in another form is the same, and so is an argument that was filled in', () => {
  const root = rootOf(transfer, 0)
  expect(decide([transfer], [{ ...root, arguments: { receiver: BOB, amount: '5.0', memo: '' } }])).toMatchObject({
    allowed: true,
  })
})

test('another actor is refused, however alike', () => {
  for (const actAs of [MALLORY, ALICE.toUpperCase(), `${ALICE} `, ''])
    expect(decide([transfer], honest, { actAs })).toEqual(refused(null))
})

test.each<[name: string, change: Partial<Effect>]>([
  ['another kind', { type: 'created' }],
  ['an archival only', { type: 'archived' }],
  ['another template', { templateId: 'Token:TransferOffer' }],
  ['another choice', { choice: 'Split' }],
  ['no choice', { choice: null }],
  ['another contract', { contractId: 'c9' }],
  ['another receiver', { arguments: { receiver: MALLORY, amount: '5' } }],
  ['another amount', { arguments: { receiver: BOB, amount: '50' } }],
  ['an amount that differs past the tenth decimal', { arguments: { receiver: BOB, amount: '5.00000000001' } }],
  ['an argument that is gone', { arguments: { receiver: BOB } }],
  ['a list for a text', { arguments: { receiver: [BOB], amount: '5' } }],
  ['an inherited argument', { arguments: Object.create({ receiver: BOB, amount: '5' }) as Effect['arguments'] }],
])('a root that differs from its command is refused: %s', (_, change) => {
  expect(decide([transfer], [{ ...rootOf(transfer, 0), ...change }, archived, received])).toEqual(refused(0))
})

test('a create that turned into another one is refused', () => {
  const root = rootOf(note, 0)
  expect(decide([note], [root])).toMatchObject({ allowed: true })
  for (const change of [
    { type: 'exercised' as const, choice: 'X' },
    { choice: 'X' },
    { templateId: 'Token:Holding' },
    { arguments: { author: ALICE, text: 'bye' } },
  ])
    expect(decide([note], [{ ...root, ...change }])).toEqual(refused(0))
})

test('lists are the same only with the same entries in the same order', () => {
  const merge: Command = {
    exercise: { templateId: 'Token:Holding', contractId: 'c1', choice: 'Transfer', arguments: { ids: ['a', 'b'] } },
  }
  const withIds = (ids: string | string[]) => decide([merge], [{ ...rootOf(merge, 0), arguments: { ids } }])
  expect(withIds(['a', 'b'])).toMatchObject({ allowed: true })
  for (const ids of [['b', 'a'], ['a'], ['a', 'b', 'c'], [], 'a,b']) expect(withIds(ids)).toEqual(refused(0))
})

test('commands and roots are the same in number and order', () => {
  const first = rootOf(note, 0)
  expect(decide([note, transfer], [first])).toEqual(refused(1))
  expect(decide([note], [])).toEqual(refused(0))
  expect(decide([note], [first, rootOf(note, 1)])).toEqual(refused(null))
  expect(decide([note, transfer], [rootOf(transfer, 0), rootOf(note, 1)])).toEqual(refused(0))
  expect(decide([note, transfer], [rootOf(transfer, 1), first])).toEqual(refused(null))
  expect(decide([], [])).toMatchObject({ allowed: false })
})

test('an effect of no command is refused, and so is one that comes after the next command began', () => {
  const root = rootOf(transfer, 0)
  for (const command of [-1, 2, 0.5, Number.NaN, '0' as unknown as number, '__proto__' as unknown as number])
    expect(decide([transfer, note], [root, { ...received, command }, rootOf(note, 1)])).toMatchObject({
      allowed: false,
      rule: 'effects',
    })
  expect(decide([transfer, note], [root, rootOf(note, 1), received])).toEqual(refused(null))
})

test('a consequence on a template that the choice does not declare is refused', () => {
  const root = rootOf(transfer, 0)
  const offer = effect({ templateId: 'Token:TransferOffer' })
  expect(decide([transfer], [root, archived, received, offer])).toEqual(refused(0))
  expect(decide([transfer], [root, { ...offer, type: 'archived' }])).toEqual(refused(0))
  expect(decide([transfer], [root, received], { declared: () => [] })).toEqual(refused(0))
  expect(decide([transfer], [root], { declared: () => null })).toEqual(refused(0))
})

test('the contract that is exercised may be archived undeclared, itself only and as what it is', () => {
  const root = rootOf(transfer, 0)
  const nothing: Declared = () => []
  expect(decide([transfer], [root, archived], { declared: nothing })).toMatchObject({ allowed: true })
  expect(decide([transfer], [root, { ...archived, contractId: 'c9' }], { declared: nothing })).toEqual(refused(0))
  expect(decide([transfer], [root, { ...archived, templateId: 'Note:Note' }])).toEqual(refused(0))
})

test('a further choice is refused as a consequence, and so is any consequence of a create', () => {
  expect(decide([transfer], [rootOf(transfer, 0), { ...rootOf(transfer, 0), contractId: 'c9' }])).toEqual(refused(0))
  const root = rootOf(note, 0)
  for (const type of ['created', 'archived', 'exercised'] as const)
    expect(decide([note], [root, { ...root, type }])).toEqual(refused(0))
})

test('the rules are held against the arguments as they were decoded', () => {
  const sparse: Command = {
    exercise: { templateId: 'Token:Holding', contractId: 'c1', choice: 'Transfer', arguments: { receiver: BOB } },
  }
  const root = { ...rootOf(sparse, 0), arguments: { receiver: BOB, amount: '50' } }
  const capped: Policy = {
    allow: [{ templateId: 'Token:Holding', where: [{ path: 'amount', op: 'lte', value: '10' }] }],
  }
  const barred: Policy = {
    ...everything,
    deny: [{ templateId: 'Token:Holding', where: [{ path: 'amount', op: 'gt', value: '10' }] }],
  }
  expect(decide([sparse], [root])).toMatchObject({ allowed: true })
  expect(decide([sparse], [root], { policy: capped })).toEqual({ allowed: false, rule: 'allow', command: 0 })
  expect(decide([sparse], [root], { policy: barred })).toEqual({ allowed: false, rule: 'deny[0]', command: 0 })
})

test('what was decoded can be explained too', () => {
  const asked = { actAs: ALICE, commands: [transfer] }
  const prepared = { actAs: ALICE, effects: honest }
  const { trace } = decideEffects(compile(everything), asked, prepared, declared, { explain: true })
  expect(trace).toMatchObject([
    { command: 0, allowed: true, rule: 'allow[0]', action: 'exercise Token:Holding Transfer' },
  ])
})

describe('where no template declares what its choices do', () => {
  const judged: Declared = () => 'judged'
  const allowing = (...allow: Policy['allow']): Policy => ({ allow })
  const transfers = { templateId: 'Token:Holding', choices: ['Transfer'] }
  const inner = effect({ type: 'exercised', contractId: 'c9', templateId: 'Lock:Lock', choice: 'Open' })
  const unlocked = effect({ type: 'archived', contractId: 'c9', templateId: 'Lock:Lock' })
  const judge = (effects: Effect[], policy: Policy) => decide([transfer], effects, { policy, declared: judged })

  test('contracts of templates that the policy names may be created and archived', () => {
    expect(judge(honest, allowing(transfers))).toMatchObject({ allowed: true })
    const note = effect({ templateId: 'Note:Note' })
    expect(judge([...honest, note], allowing(transfers))).toEqual(refused(0))
    expect(judge([...honest, note], allowing(transfers, { templateId: 'Note:Note' }))).toMatchObject({ allowed: true })
    expect(judge([...honest, unlocked], allowing(transfers))).toEqual(refused(0))
    // Named only to be denied.
    const denied: Policy = { allow: [transfers], deny: [{ templateId: 'Note:Note', actions: ['exercise'] }] }
    expect(judge([...honest, note], denied)).toEqual(refused(0))
  })

  test('what is created may not be what a deny rule matches', () => {
    const deny = (value: string): Policy => ({
      allow: [transfers],
      deny: [{ templateId: 'Token:Holding', actions: ['create'], where: [{ path: 'owner', op: 'eq', value }] }],
    })
    expect(judge(honest, deny(BOB))).toEqual(refused(0))
    expect(judge(honest, deny(MALLORY))).toMatchObject({ allowed: true })
  })

  test('further choices are allowed as if they were requested, and no others', () => {
    const effects = [...honest, inner, unlocked]
    expect(judge(effects, allowing(transfers))).toEqual(refused(0))
    expect(judge(effects, allowing(transfers, { templateId: 'Lock:Lock', choices: ['Close'] }))).toEqual(refused(0))
    expect(judge(effects, allowing(transfers, { templateId: 'Lock:Lock', actions: ['create'] }))).toEqual(refused(0))
    const open = { templateId: 'Lock:Lock', choices: ['Open'] }
    expect(judge(effects, allowing(transfers, open))).toMatchObject({ allowed: true })
    expect(judge(effects, { allow: [transfers, open], deny: [open] })).toEqual(refused(0))
  })

  test('a command that only creates has no consequences here either', () => {
    expect(decide([note], [rootOf(note, 0), received], { declared: judged })).toEqual(refused(0))
  })
})

test('values with structure are compared in depth; only what is absent may be filled in', () => {
  const asked = (detail: object): Command => ({
    create: { templateId: 'Note:Note', arguments: { detail: detail as never } },
  })
  const got = (detail: object) => [{ ...rootOf(asked(detail), 0) }]
  const detail = { text: 'a', list: ['1', { deep: true }], none: null }
  expect(decide([asked(detail)], got({ ...detail, filled: null }))).toMatchObject({ allowed: true })
  for (const other of [
    { ...detail, filled: 'x' },
    { ...detail, filled: false },
    { ...detail, text: 'b' },
    { ...detail, text: null },
    { ...detail, text: ['a'] },
    { ...detail, none: 'x' },
    { ...detail, none: false },
    { ...detail, list: ['1', { deep: false }] },
    { ...detail, list: ['1'] },
    { ...detail, list: ['1', { deep: true }, null] },
    { ...detail, list: { 0: '1', 1: { deep: true } } },
    { list: detail.list, none: null },
    ['a'],
  ])
    expect(decide([asked(detail)], got(other)), JSON.stringify(other)).toEqual(refused(0))
})
