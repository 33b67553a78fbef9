import type { Answer } from '../../../test/harness/harness.ts'

/** A party without a user in this service. It keeps what it receives. */
export const OUTSIDE = `outside::1220${'0e'.repeat(32)}`

/** A holding or an offer as the model knows it. */
export interface Token {
  contractId: string
  isOffer: boolean
  symbol: string
  owner: string
  /** Of an offer. */
  receiver: string | null
  units: bigint
  active: boolean
}

/** An operation on a contract; amounts in base units. */
export type Deed =
  | { choice: 'Transfer' | 'Offer'; contractId: string; receiver: string; units: bigint | null }
  | { choice: 'Split'; contractId: string; units: bigint }
  | { choice: 'Merge'; contractId: string; others: string[] }
  | { choice: 'Accept' | 'Reject' | 'Withdraw'; contractId: string }

/** What a session may still spend, by symbol. */
export type Caps = Record<string, { limit: bigint; spent: bigint }>

/** The result of operations: the error code, or what they consume, create and cost. */
export type Outcome =
  | { code: string }
  | { archived: Token[]; made: Omit<Token, 'contractId' | 'active'>[]; costs: Map<string, bigint> }

class Refusal extends Error {}
const refuse = (code: string): never => {
  throw new Refusal(code)
}

/** The choices of an offer; the others are a holding's. */
export const OFFER_CHOICES: readonly string[] = ['Accept', 'Reject', 'Withdraw']

/** What deeds of one party come to by the rules alone: written from the contract, with none of the service's code. */
export function outcomeOf(
  tokens: ReadonlyMap<string, Token>,
  actor: string,
  deeds: readonly Deed[],
  caps: Caps,
): Outcome {
  const archived: Token[] = []
  const made: Omit<Token, 'contractId' | 'active'>[] = []
  const costs = new Map<string, bigint>()
  const use = (contractId: string, isOffer: boolean): Token => {
    const token = tokens.get(contractId)
    const isSeen = token !== undefined && (token.owner === actor || token.receiver === actor)
    if (token === undefined || !isSeen || token.isOffer !== isOffer) return refuse('contract_not_found')
    if (!token.active || archived.includes(token)) return refuse('contract_archived')
    return token
  }
  const hold = (token: Token, owner: string, units: bigint) =>
    made.push({ isOffer: false, symbol: token.symbol, owner, receiver: null, units })
  const give = (deed: Extract<Deed, { choice: 'Transfer' | 'Offer' | 'Split' }>, token: Token) => {
    const units = deed.units ?? token.units
    if (units > token.units) refuse('arguments_invalid')
    archived.push(token)
    if (deed.choice === 'Offer')
      made.push({ isOffer: true, symbol: token.symbol, owner: actor, receiver: deed.receiver, units })
    else hold(token, deed.choice === 'Split' ? actor : deed.receiver, units)
    if (units < token.units) hold(token, actor, token.units - units)
  }
  const merge = (token: Token, ids: readonly string[]) => {
    const others = ids.map((id, index) =>
      id === token.contractId || ids.indexOf(id) !== index ? refuse('contract_archived') : use(id, false),
    )
    if (others.some((other) => other.symbol !== token.symbol)) refuse('arguments_invalid')
    archived.push(token, ...others)
    hold(
      token,
      actor,
      others.reduce((sum, other) => sum + other.units, token.units),
    )
  }
  try {
    for (const deed of deeds) {
      const before = [archived.length, made.length]
      if ('units' in deed && deed.units === 0n) refuse('arguments_invalid')
      if (deed.choice === 'Merge' && new Set(deed.others).size !== deed.others.length) refuse('arguments_invalid')
      const token = use(deed.contractId, OFFER_CHOICES.includes(deed.choice))
      const mayBe = deed.choice === 'Accept' || deed.choice === 'Reject' ? token.receiver : token.owner
      if (mayBe !== actor) refuse('authorization_missing')
      if (deed.choice === 'Merge') merge(token, deed.others)
      else if (deed.choice === 'Transfer' || deed.choice === 'Offer' || deed.choice === 'Split') give(deed, token)
      else {
        archived.push(token)
        hold(token, deed.choice === 'Accept' ? actor : token.owner, token.units)
      }
      addCosts(costs, archived.slice(before[0]), made.slice(before[1]), actor)
    }
    for (const [symbol, units] of costs) {
      const { limit, spent } = caps[symbol] as Caps[string]
      if (units > limit - spent) refuse('spend_limit_exceeded')
    }
    return { archived, made, costs }
  } catch (error) {
    if (error instanceof Refusal) return { code: error.message }
    throw error
  }
}

type Held = Pick<Token, 'isOffer' | 'symbol' | 'owner' | 'units'>

/**
 * Adds what one command costs: for each symbol, what leaves the actor's holdings and does not come back by it. What comes
 * in by one command does not offset what goes out by another.
 */
export function addCosts(
  costs: Map<string, bigint>,
  archived: readonly Held[],
  made: readonly Held[],
  actor: string,
): void {
  const left = new Map<string, bigint>()
  const count = (tokens: readonly Held[], sign: bigint) => {
    for (const { isOffer, owner, symbol, units } of tokens)
      if (!isOffer && owner === actor) left.set(symbol, (left.get(symbol) ?? 0n) + sign * units)
  }
  count(archived, 1n)
  count(made, -1n)
  for (const [symbol, units] of left) if (units > 0n) costs.set(symbol, (costs.get(symbol) ?? 0n) + units)
}

/** Base units as text, written without the service's own code. */
function amountOf(units: bigint): string {
  const digits = units.toString().padStart(11, '0')
  return `${digits.slice(0, -10)}.${digits.slice(-10)}`
}

/** Amounts as base units, read without the service's own code. */
export function unitsOf(amount: string): bigint {
  const [whole, fraction = ''] = amount.split('.') as [string, string?]
  return BigInt(whole + fraction.padEnd(10, '0'))
}

/** A deed as `execute` takes it. */
export function commandOf(deed: Deed): object {
  const given: Record<string, string | string[]> = {}
  if ('receiver' in deed) given.receiver = deed.receiver
  if ('units' in deed && deed.units !== null) given.amount = amountOf(deed.units)
  if ('others' in deed) given.contractIds = deed.others
  const templateId = OFFER_CHOICES.includes(deed.choice) ? 'Token:TransferOffer' : 'Token:Holding'
  return { exercise: { templateId, contractId: deed.contractId, choice: deed.choice, arguments: given } }
}

/** The contracts that a response lists as created or archived, by all commands or by one. */
export function tokensIn(answer: Answer, type: 'created' | 'archived', command?: number): Token[] {
  return answer.body.data.effects
    .filter(
      (effect: { type: string; command: number }) =>
        effect.type === type && (command ?? effect.command) === effect.command,
    )
    .map((effect: { contractId: string; templateId: string; arguments: Record<string, string> }) =>
      tokenOf(effect.contractId, effect.templateId, effect.arguments, type === 'created'),
    )
}

/** A token out of a contract's fields. */
export function tokenOf(contractId: string, templateId: string, fields: Record<string, string>, active = true): Token {
  const {
    symbol,
    owner,
    receiver = null,
    amount,
  } = fields as { symbol: string; owner: string; receiver?: string; amount: string }
  return {
    contractId,
    isOffer: templateId === 'Token:TransferOffer',
    symbol,
    owner,
    receiver,
    units: unitsOf(amount),
    active,
  }
}
