import type { Ledger, LedgerSignature, Onboarding } from '../../platform/ports/ledger.ts'
import { LedgerError } from '../../platform/ports/ledger.ts'
import { partyOf } from '../../platform/ports/party.ts'
import { isSignedBy } from '../../platform/ports/signature.ts'

/** A remote ledger for onboarding. It knows a party after its key has signed for it. */
export interface RemoteLedger extends Ledger {
  parties: Set<string>
  /** The parties that the node's key was requested to sign for. */
  signed: string[]
  /** Number of requests. */
  asked: number
  /** Called for each request, for example to fail it; null if it just responds. */
  onAsk: ((party: string) => Promise<void>) | null
  /** Called after it has created a party. */
  onMade: (() => Promise<void>) | null
  /** Prepares this party instead of the requested one. */
  prepares: string | null
}

/** @param node the ledger whose node's key it lets sign */
export function newRemoteLedger(node: Ledger, name = 'remote'): RemoteLedger {
  const digestOf = (party: string) => Buffer.from(`topology of ${party}`)
  const signs = ({ publicKey, signature }: LedgerSignature, party: string) =>
    partyOf(party.slice(0, party.indexOf('::')), publicKey) === party &&
    isSignedBy(publicKey, digestOf(party), signature)
  const ledger: RemoteLedger = {
    ...node,
    name,
    transactional: false,
    parties: new Set(),
    signed: [],
    asked: 0,
    onAsk: null,
    onMade: null,
    prepares: null,
    async prepareOnboarding(_, hint, publicKey): Promise<Onboarding> {
      const party = ledger.prepares ?? partyOf(hint, publicKey)
      ledger.asked += 1
      await ledger.onAsk?.(party)
      return { party, digests: [digestOf(party)] }
    },
    sign(db, tenantId, party, digest) {
      ledger.signed.push(party)
      return node.sign(db, tenantId, party, digest)
    },
    async completeOnboarding(_, { party }, signatures): Promise<void> {
      const [signature] = signatures
      if (signature === undefined || !signs(signature, party))
        throw new LedgerError('signature_invalid', 'The party has not signed for itself.')
      ledger.parties.add(party)
      await ledger.onMade?.()
    },
  }
  return ledger
}
