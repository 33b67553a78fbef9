import type { Effect, TransactionSummary } from '@halfkey/sdk'

type Operation = TransactionSummary['operations'][number]

/** What a transaction was asked to do, in a few words. */
function operationWords({ type, templateId, choice }: Operation): string {
  return type === 'create' ? `Create ${templateId}` : `${choice ?? 'Exercise'} on ${templateId}`
}

/** The first operation, and how many more there are. */
export function operationsWords(operations: readonly Operation[]): string {
  const [first, ...more] = operations
  if (first === undefined) return 'No operations'
  return more.length === 0 ? operationWords(first) : `${operationWords(first)}, and ${more.length} more`
}

const text = (value: unknown): string | null => (typeof value === 'string' ? value : null)

/** The amount that an effect moves; null if it moves none. */
function assetOf({ templateId, arguments: given }: Effect): { amount: string; symbol: string } | null {
  if (templateId !== 'Token:Holding' && templateId !== 'Token:TransferOffer') return null
  const amount = text(given.amount)
  const symbol = text(given.symbol)
  return amount === null || symbol === null ? null : { amount, symbol }
}

/** An effect as a headline. */
export function effectWords(effect: Effect): string {
  const { type, templateId, choice } = effect
  if (type === 'exercised') return `${choice ?? 'A choice'} exercised on ${templateId}`
  const asset = assetOf(effect)
  const what = asset === null ? templateId : `${templateId} of ${asset.amount} ${asset.symbol}`
  return type === 'created' ? `${what} created` : `${what} archived`
}
