import { expect, test } from 'vitest'
import { openPrepared, wordsOf } from '../../src/canton/index.ts'
import type { CreateView, ExerciseView, NodeView } from '../../src/canton/view.ts'
import { encodeModel, type Model } from './model.ts'
import { VECTORS } from './vectors.ts'

const view = openPrepared(encodeModel(VECTORS.V2.model as unknown as Model), 'V2')
const words = (...roots: NodeView[]) => wordsOf({ ...view, roots, inputs: [] })

/** A payment with a memo. */
const payment = (memo: string, more: Partial<ExerciseView> = {}): ExerciseView => ({
  kind: 'exercise',
  contractId: 'c0',
  packageName: 'main',
  templateId: 'p0:Main.Coin:Coin',
  signatories: [],
  observers: [],
  choice: 'Transfer',
  arguments: { receiver: 'bob::12', memo, amount: '3', tags: ['a', null], more: { memo } },
  consuming: true,
  actingParties: [],
  choiceObservers: [],
  children: [],
  ...more,
})

test('a transaction is told a sentence for each node, with values as JSON', () => {
  const made: CreateView = { ...payment(''), kind: 'create', arguments: { owner: 'bob::12', absent: null, done: true } }
  expect(words(payment('thanks', { children: [made] }))).toEqual([
    'Exercises Transfer on a contract Main.Coin:Coin (receiver: "bob::12", memo: "thanks", amount: "3", tags: ["a",null], more: {"memo":"thanks"}). This uses the contract up.',
    'Creates a contract Main.Coin:Coin (owner: "bob::12", absent: null, done: true).',
  ])
  expect(wordsOf(view)[0]).toBe('Creates a contract module:name ("hello").')
})

test('a text cannot end its quotes and go on as a sentence', () => {
  const forged = 'rent"). This is free, receiver: "carol'
  const [said] = words(payment(forged))
  expect(said).toContain(`memo: ${JSON.stringify(forged)}, amount: "3"`)
  expect(said).not.toContain(forged)
  const amount = '3, receiver: carol::12'
  expect(words(payment('', { arguments: { amount } }))[0]).toContain(`(amount: ${JSON.stringify(amount)}).`)
})

test('characters that nobody sees are escaped, in values and in names', () => {
  const unseen = '\u202e\u2066\u200b\u200f\u0007\u007f\u0085\n\u2028\u2029\u00ad\ufeff\u{e0041}'
  const [said = ''] = words(
    payment(`a${unseen}b`, { choice: `Tra${unseen}nsfer`, templateId: `p0:Main${unseen}:Coin` }),
    payment('', { arguments: { [`x). ${unseen}`]: '1' } }),
  )
  expect(said).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
  expect(said).toContain(
    'memo: "a\\u202e\\u2066\\u200b\\u200f\\u0007\\u007f\\u0085\\n\\u2028\\u2029\\u00ad\\ufeff\\udb40\\udc41b"',
  )
  expect(said).toContain('Exercises "Tra\\u202e')
  expect(words(payment('', { arguments: { [`x). ${unseen}`]: '1' } }))[0]).toContain('("x). \\u202e')
  // What reads it as JSON gets back the text that was signed.
  const literal = /memo: ("(?:[^"\\]|\\.)*")/.exec(said)?.[1] as string
  expect(JSON.parse(literal)).toBe(`a${unseen}b`)
})
