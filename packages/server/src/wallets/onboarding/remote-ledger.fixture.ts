import type { Ledger, LedgerSignature, Onboarding, OnboardingOf } from '../../platform/ports/ledger.ts'
import { LedgerError } from '../../platform/ports/ledger.ts'
import { namespaceOf, partyOf } from '../../platform/ports/party.ts'
import { isSignedBy } from '../../platform/ports/signature.ts'
import { sha256 } from '../../platform/security/crypto.ts'

/** What is signed for a party: 34 bytes, as a multihash of SHA-256. */
export const payloadOf = (party: string): Buffer =>
  Buffer.concat([Buffer.from('1220', 'hex'), sha256(`topology of ${party}`)])

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
  /** Answers with the right party, and bytes that make this one. */
  distorts: string | null
  /** Its clock. */
  now(): Date
}

const EXPIRES_MS = 60 * 60_000

/** @param node the ledger whose node's key it lets sign */
export function newRemoteLedger(node: Ledger, name = 'remote'): RemoteLedger {
  const topologyOf = (party: string) => Buffer.from(`topology of ${party}`)
  const read = (bytes: Buffer, { party }: Pick<OnboardingOf, 'party'>): Onboarding => {
    if (!bytes.equals(topologyOf(party)))
      throw new LedgerError('prepared_invalid', 'This is not the topology of that party.')
    const toSign = [{ payload: payloadOf(party), alg: 'ed25519' as const, by: namespaceOf(party) }]
    return { party, bytes, toSign, expiresAt: new Date(ledger.now().getTime() + EXPIRES_MS) }
  }
  const signs = ({ publicKey, signature }: LedgerSignature, party: string) =>
    partyOf(party.slice(0, party.indexOf('::')), publicKey) === party &&
    isSignedBy(publicKey, payloadOf(party), signature)
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
    distorts: null,
    now: () => new Date(),
    async prepareOnboarding(_, hint, publicKey): Promise<Onboarding> {
      const party = ledger.prepares ?? partyOf(hint, publicKey)
      ledger.asked += 1
      await ledger.onAsk?.(party)
      return { ...read(topologyOf(party), { party }), bytes: topologyOf(ledger.distorts ?? party) }
    },
    decodeOnboarding: read,
    sign(db, tenantId, party, payload) {
      ledger.signed.push(party)
      return node.sign(db, tenantId, party, payload)
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
