import type { Command, Dripped, Policy } from '../../../sdk/src/models.ts'

/** A party that no user here has. */
const BOB = `bob::1220${'b0'.repeat(32)}`

/** Transfers a part of a holding to a stranger. */
export const transferCommand = (contractId: string, amount: string): Command => ({
  exercise: { templateId: 'Token:Holding', contractId, choice: 'Transfer', arguments: { receiver: BOB, amount } },
})

/** Allows holdings of an asset to be moved, up to a cap. */
export const upTo = (amount: string, { issuer, symbol }: Pick<Dripped, 'issuer' | 'symbol'>): Policy => ({
  allow: [{ templateId: 'Token:Holding', actions: ['exercise'] }],
  spend: [{ asset: { issuer, symbol }, amount }],
  query: { templateIds: ['Token:Holding'] },
})
