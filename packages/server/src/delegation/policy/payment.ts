import type { Prepared } from '../../platform/ports/ledger.ts'
import { costs } from './spend.ts'

/** What a transaction pays: the cost of each asset, and the parties that gain something. */
export interface Payment {
  costs: { asset: { issuer: string; symbol: string }; units: bigint }[]
  recipients: string[]
}

/**
 * Who gains something by a transaction of this party: the owners of what is created, and for what belongs to nobody yet
 * everybody for whom it may be. In the order of the alphabet, each once.
 */
function recipientsOf({ flows }: Pick<Prepared, 'flows'>, party: string): string[] {
  const found = new Set<string>()
  for (const { owner, seenBy = [], consumed, created } of flows)
    if (created > consumed) for (const each of owner === null ? seenBy : [owner]) found.add(each)
  found.delete(party)
  return [...found].sort()
}

/** What a prepared transaction pays, read out of its bytes. */
export function paymentOf(prepared: Pick<Prepared, 'flows'>, party: string): Payment {
  return {
    costs: costs(prepared.flows, party).filter(({ units }) => units > 0n),
    recipients: recipientsOf(prepared, party),
  }
}
