import { z } from 'zod'
import {
  LedgerError,
  type LedgerSignature,
  type Onboarding,
  type OnboardingOf,
} from '../../../platform/ports/ledger.ts'
import { namespaceOf, partyOf } from '../../../platform/ports/party.ts'
import { isSignedFor } from '../../../platform/ports/signature.ts'
import { canonicalJson } from '../../../platform/security/canonical-json.ts'
import { CantonError, checkOnboarding } from './bytes.ts'
import { ParticipantError } from './participant.ts'
import type { Parts } from './parts.ts'
import { asking, asLedgerError } from './refusals.ts'
import type { CantonSettings } from './settings.ts'
import { signatureBody } from './signature-body.ts'

/** How long a user has to sign for a party before its topology is prepared again. */
const LIFETIME_MS = 24 * 60 * 60_000
const TRANSACTIONS_MAX = 3

/** What is kept of an onboarding; no transactions where the party was there already. In canonical JSON. */
const Kept = z.strictObject({
  expiresAt: z.iso.datetime().nullable(),
  transactions: z.array(z.base64()).max(TRANSACTIONS_MAX),
})

const Topology = z.object({
  partyId: z.string(),
  topologyTransactions: z.array(z.base64()).min(1).max(TRANSACTIONS_MAX),
})
const Allocated = z.object({ partyId: z.string() })
const Parties = z.object({ partyDetails: z.array(z.object({ party: z.string(), isLocal: z.boolean().nullish() })) })

const invalid = (what: string) => new LedgerError('prepared_invalid', `The participant's topology ${what}.`)

/** Whether the participant hosts a party. */
async function isHosted({ participant }: Parts, party: string): Promise<boolean> {
  try {
    const { partyDetails } = await participant.get(`/v2/parties/${encodeURIComponent(party)}`, Parties)
    return partyDetails.some((each) => each.party === party && each.isLocal === true)
  } catch (error) {
    if (error instanceof ParticipantError && (error.status === 404 || error.code === 'PARTY_NOT_FOUND')) return false
    throw asLedgerError(error, { changesNothing: true })
  }
}

/**
 * Reads an onboarding out of its bytes. Its transactions make this party exist on this participant alone, which confirms for
 * it, signing with this key alone, and do nothing else. @throws LedgerError prepared_invalid
 */
export function decodeOnboarding(
  { participant: uid }: CantonSettings,
  bytes: Buffer,
  { party, publicKey }: OnboardingOf,
): Onboarding {
  let given: unknown
  try {
    given = JSON.parse(bytes.toString('utf8'))
  } catch {
    throw invalid('is not valid JSON')
  }
  const kept = Kept.safeParse(given)
  if (!kept.success || !Buffer.from(canonicalJson(kept.data)).equals(bytes))
    throw invalid('is not in its canonical form')
  const { expiresAt, transactions } = kept.data
  if ((expiresAt === null) !== (transactions.length === 0)) throw invalid('has no valid expiry')
  if (expiresAt === null) return { party, bytes, toSign: [], expiresAt: null }
  try {
    const payload = checkOnboarding(
      transactions.map((each) => Buffer.from(each, 'base64')),
      { party, publicKey, hosts: [{ uid, permission: 'confirmation' }], threshold: 1 },
    )
    const toSign = [{ payload: Buffer.from(payload), alg: 'ed25519' as const, by: namespaceOf(party) }]
    return { party, bytes, toSign, expiresAt: new Date(expiresAt) }
  } catch (error) {
    if (!(error instanceof CantonError)) throw error
    throw invalid(`was refused: ${error.message}`)
  }
}

const bytesOf = (kept: z.infer<typeof Kept>): Buffer => Buffer.from(canonicalJson(kept))

/** Has the participant generate a party's topology, and checks it. @throws LedgerError */
export async function prepareOnboarding(parts: Parts, hint: string, publicKey: Buffer): Promise<Onboarding> {
  const { settings, participant, now } = parts
  const party = partyOf(hint, publicKey)
  // A repeat after an answer that was lost: the key has signed for it already.
  if (await isHosted(parts, party))
    return decodeOnboarding(settings, bytesOf({ expiresAt: null, transactions: [] }), { party, publicKey })
  const request = {
    synchronizer: settings.synchronizer,
    partyHint: hint,
    publicKey: {
      format: 'CRYPTO_KEY_FORMAT_RAW',
      keyData: publicKey.toString('base64'),
      keySpec: 'SIGNING_KEY_SPEC_EC_CURVE25519',
    },
    localParticipantObservationOnly: false,
    otherConfirmingParticipantUids: [],
    confirmationThreshold: 1,
    observingParticipantUids: [],
  }
  const answer = await asking(() => participant.post('/v2/parties/external/generate-topology', request, Topology))
  if (answer.partyId !== party) throw invalid('is that of another party')
  const expiresAt = new Date(now().getTime() + LIFETIME_MS).toISOString()
  return decodeOnboarding(settings, bytesOf({ expiresAt, transactions: answer.topologyTransactions }), {
    party,
    publicKey,
  })
}

async function allocate(
  { settings, participant }: Parts,
  { bytes }: Onboarding,
  signatures: readonly LedgerSignature[],
): Promise<void> {
  const { transactions } = Kept.parse(JSON.parse(bytes.toString('utf8')))
  const request = {
    synchronizer: settings.synchronizer,
    onboardingTransactions: transactions.map((transaction) => ({ transaction })),
    multiHashSignatures: signatures.map(signatureBody),
    waitForAllocation: true,
    identityProviderId: '',
  }
  await participant.post('/v2/parties/external/allocate', request, Allocated)
}

/** Makes a party exist. A repeat finds it there. @throws LedgerError */
export async function completeOnboarding(
  parts: Parts,
  onboarding: Onboarding,
  signatures: readonly LedgerSignature[],
): Promise<void> {
  const { party, toSign } = onboarding
  const [signature] = signatures
  for (const { payload } of toSign)
    if (signature === undefined || !isSignedFor(party, payload, signature))
      throw new LedgerError('signature_invalid', "The party's key has not signed its topology.")
  if (toSign.length > 0)
    try {
      await allocate(parts, onboarding, signatures)
    } catch (error) {
      if (!(error instanceof ParticipantError) || !(await isHosted(parts, party)))
        throw asLedgerError(error, { changesNothing: false })
    }
  // Allocation answers as soon as it was accepted, and waits no longer than it likes.
  if (await isHosted(parts, party)) return
  throw new LedgerError('ledger_unavailable', 'The participant does not host the party yet.', {
    retryable: true,
    definite: false,
  })
}
