import { formatAmount, parseAmount, UNITS_MAX } from '../../../platform/ports/amount.ts'
import { type Arguments, type Effect, type Flow, LedgerError } from '../../../platform/ports/ledger.ts'
import { recipientsOfAll } from '../../../platform/ports/recipients.ts'
import type { Fields } from './fields.ts'
import { type Choice, listOf, type NewContract, type Template, textOf } from './template.ts'

const HOLDING = 'Token:Holding'
const TRANSFER_OFFER = 'Token:TransferOffer'

const unitsOf = (contract: Arguments) => parseAmount(textOf(contract, 'amount')) as bigint

const holding = (of: Arguments, owner: string, units: bigint): NewContract => ({
  templateId: HOLDING,
  arguments: {
    issuer: textOf(of, 'issuer'),
    owner,
    symbol: textOf(of, 'symbol'),
    amount: formatAmount(units),
  },
})

/** The part of a holding that a choice takes: `amount`, or all of it. */
function partOf(contract: Arguments, given: Arguments, path: string): { part: bigint; rest: bigint } {
  const all = unitsOf(contract)
  const part = given.amount === undefined ? all : (parseAmount(textOf(given, 'amount')) as bigint)
  if (part > all)
    throw new LedgerError(
      'arguments_invalid',
      `Must be at most ${formatAmount(all)}, which is what the contract holds.`,
      {
        field: `${path}.amount`,
      },
    )
  return { part, rest: all - part }
}

const byOwner = (contract: Arguments) => [textOf(contract, 'owner')]
const byReceiver = (contract: Arguments) => [textOf(contract, 'receiver')]
const restOf = (contract: Arguments, rest: bigint) =>
  rest === 0n ? [] : [holding(contract, textOf(contract, 'owner'), rest)]

/** Transfers a part of a holding: to its receiver at once, or by an offer. */
function giving(give: (contract: Arguments, receiver: string, units: bigint) => NewContract): Choice {
  return {
    fields: { receiver: { type: 'party' }, amount: { type: 'amount', optional: true } },
    consuming: true,
    controllers: byOwner,
    consequences: [HOLDING, TRANSFER_OFFER],
    run({ contract, arguments: given, path }) {
      const { part, rest } = partOf(contract, given, path)
      return {
        arguments: { ...given, amount: formatAmount(part) },
        creates: [give(contract, textOf(given, 'receiver'), part), ...restOf(contract, rest)],
      }
    },
  }
}

const split: Choice = {
  fields: { amount: { type: 'amount' } },
  consuming: true,
  controllers: byOwner,
  consequences: [HOLDING],
  run({ contract, arguments: given, path }) {
    const { part, rest } = partOf(contract, given, path)
    return {
      arguments: given,
      creates: [holding(contract, textOf(contract, 'owner'), part), ...restOf(contract, rest)],
    }
  },
}

const merge: Choice = {
  fields: { contractIds: { type: 'contract_ids' } },
  consuming: true,
  controllers: byOwner,
  consequences: [HOLDING],
  consumes: (given) => listOf(given, 'contractIds'),
  run({ contract, arguments: given, others, path }) {
    let units = unitsOf(contract)
    for (const [index, other] of others.entries()) {
      if (['issuer', 'owner', 'symbol'].some((field) => other[field] !== contract[field]))
        throw new LedgerError('arguments_invalid', 'Must be contracts of the same asset and the same owner.', {
          field: `${path}.contractIds.${index}`,
        })
      units += unitsOf(other)
    }
    if (units > UNITS_MAX)
      throw new LedgerError('arguments_invalid', 'The sum is larger than the largest amount.', {
        field: `${path}.contractIds`,
      })
    return { arguments: given, creates: [holding(contract, textOf(contract, 'owner'), units)] }
  },
}

/** Ends an offer: its amount goes to one of the two parties. */
const ending = (controllers: Choice['controllers'], to: 'owner' | 'receiver'): Choice => ({
  fields: {},
  consuming: true,
  controllers,
  consequences: [HOLDING],
  run: ({ contract, arguments: given }) => ({
    arguments: given,
    creates: [holding(contract, textOf(contract, to), unitsOf(contract))],
  }),
})

const ASSET_FIELDS: Fields = {
  issuer: { type: 'party' },
  owner: { type: 'party' },
  symbol: { type: 'symbol' },
  amount: { type: 'amount' },
}

/** An amount of an asset. The issuer signs it, the owner controls it. */
const holdingTemplate: Template = {
  templateId: HOLDING,
  definition: 'built-in/1',
  fields: ASSET_FIELDS,
  signatories: (contract) => [textOf(contract, 'issuer')],
  observers: byOwner,
  choices: new Map([
    ['Transfer', giving(holding)],
    [
      'Offer',
      giving((contract, receiver, units) => ({
        templateId: TRANSFER_OFFER,
        arguments: { ...holding(contract, textOf(contract, 'owner'), units).arguments, receiver },
      })),
    ],
    ['Split', split],
    ['Merge', merge],
  ]),
}

/** An amount that left its owner and waits for its receiver to accept it. */
const transferOfferTemplate: Template = {
  templateId: TRANSFER_OFFER,
  definition: 'built-in/1',
  fields: { ...ASSET_FIELDS, receiver: { type: 'party' } },
  signatories: (contract) => [textOf(contract, 'issuer'), textOf(contract, 'owner')],
  observers: byReceiver,
  choices: new Map([
    ['Accept', ending(byReceiver, 'receiver')],
    ['Reject', ending(byReceiver, 'owner')],
    ['Withdraw', ending(byOwner, 'owner')],
  ]),
}

export const TOKEN_TEMPLATES: readonly Template[] = [holdingTemplate, transferOfferTemplate]

/** What effects create and consume, by holder and asset; null if a token in them lacks a field. */
export function flowsOf(effects: readonly Effect[]): Flow[] | null {
  const flows = new Map<string, Flow>()
  for (const effect of effects) {
    const { type, command, templateId, arguments: contract } = effect
    if (type === 'exercised' || (templateId !== HOLDING && templateId !== TRANSFER_OFFER)) continue
    const { issuer, symbol, owner: holder, amount } = contract
    const units = typeof amount === 'string' ? parseAmount(amount) : null
    if (typeof issuer !== 'string' || typeof symbol !== 'string' || typeof holder !== 'string' || units === null)
      return null
    // An ended offer counts as consumed by its owner: its returned amount must not offset other amounts that go out.
    const owner = templateId === HOLDING || type === 'archived' ? holder : null
    const key = JSON.stringify([command, issuer, symbol, owner])
    const flow: Flow = flows.get(key) ?? { command, asset: { issuer, symbol }, owner, consumed: 0n, created: 0n }
    flow[type === 'created' ? 'created' : 'consumed'] += units
    if (owner === null)
      flow.seenBy = [...new Set([...(flow.seenBy ?? []), ...recipientsOfAll([effect], holder, issuer)])]
    flows.set(key, flow)
  }
  return [...flows.values()]
}
