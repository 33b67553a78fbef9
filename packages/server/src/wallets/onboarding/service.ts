import type { Deps } from '../../platform/deps.ts'
import { existing, invalid } from '../../platform/http/errors.ts'
import type { Onboarding } from '../../platform/ports/ledger.ts'
import { isSignedFor, keptSignature, signatureBytes, signatureOf } from '../../platform/ports/signature.ts'
import { coSign } from '../custody/service.ts'
import {
  type Call,
  findOwnWallet,
  ledgerOf,
  lockOwner,
  lockOwnWallet,
  onboardAt,
  requireOwnSession,
  type WalletRow,
} from '../wallets/service.ts'
import { fail } from './errors.ts'
import type { SignOnboarding, WalletOnboarding } from './schema.ts'
import * as store from './store.ts'

/** A wallet's onboarding that waits for its user's signatures. */
interface Waiting {
  row: store.OnboardingRow
  /** Read out of the stored bytes. */
  onboarding: Onboarding
}

/** What waits for the user's signatures, if anything does. */
async function findWaiting(db: Deps['db'], deps: Deps, wallet: WalletRow): Promise<Waiting | null> {
  const { tenant_id: tenantId, id: walletId, party_id: party, public_key: publicKey, status } = wallet
  if (status !== 'pending' || publicKey === null) return null
  const row = await store.findOnboarding(db, { tenantId, walletId })
  if (row === undefined || row.signatures !== null || row.expires_at <= deps.now()) return null
  return { row, onboarding: ledgerOf(deps, wallet.ledger).decodeOnboarding(row.prepared, { party, publicKey }) }
}

function shown(
  wallet: WalletRow,
  waiting: Waiting | null,
  coSignatures: WalletOnboarding['coSignatures'] = null,
): WalletOnboarding {
  const { id: walletId, party_id: partyId, ledger, status } = wallet
  const toSign = (waiting?.onboarding.toSign ?? []).map(({ payload, alg, by }) => ({
    payload: payload.toString('hex'),
    alg,
    by,
  }))
  return {
    walletId,
    partyId,
    ledger,
    state: waiting === null ? status : 'signature_required',
    prepared: waiting?.row.prepared.toString('base64') ?? null,
    toSign,
    coSignatures,
    expiresAt: waiting?.row.expires_at.toISOString() ?? null,
  }
}

/** How far the party of the user's own wallet is. @throws not_found */
export async function getOnboarding(deps: Deps, call: Omit<Call, 'origin'>, id: string): Promise<WalletOnboarding> {
  const wallet = existing(await findOwnWallet(deps.db, call, id))
  return shown(wallet, await findWaiting(deps.db, deps, wallet))
}

/** What is to be signed; null if all of it was. @throws wallet_frozen, nothing_to_sign */
function requireWaiting({ frozen_at: frozenAt, status }: WalletRow, waiting: Waiting | null): Waiting | null {
  if (status === 'ready') return null
  if (frozenAt !== null) throw fail('wallet_frozen')
  if (waiting === null) throw fail('nothing_to_sign')
  return waiting
}

/**
 * The service's parts of the signatures by a shared key, over exactly what it reads out of the bytes that it stored.
 * A second call gets other parts: all of them sign the same, so nothing is gained by them.
 */
async function coSigned(deps: Deps, call: Omit<Call, 'origin'>, id: string, commitments: Commitments) {
  const wallet = existing(await findOwnWallet(deps.db, call, id))
  if (wallet.custody !== 'shared')
    throw invalid('commitments', "Must be absent, because the wallet's key is not shared.", 'not_allowed')
  // A suspended or deleted user gets none.
  await deps.db.tx((tx) => lockOwner(tx, deps, call))
  const waiting = requireWaiting(wallet, await findWaiting(deps.db, deps, wallet))
  if (waiting === null) return shown(wallet, null)
  requireCount('commitments', commitments, waiting)
  const of = { tenantId: wallet.tenant_id, walletId: wallet.id, generation: wallet.generation ?? 0 }
  const parts: NonNullable<WalletOnboarding['coSignatures']> = []
  for (const [at, { payload }] of waiting.onboarding.toSign.entries()) {
    const made = await coSign(deps.db, deps, of, commitments[at] as Commitments[number], payload)
    parts.push({ serverCommitments: made.serverCommitments, serverSignatureShare: made.serverSignatureShare })
  }
  return shown(wallet, waiting, parts)
}

type Commitments = NonNullable<SignOnboarding['commitments']>

function requireCount(field: string, given: readonly unknown[], { onboarding: { toSign } }: Waiting): void {
  if (given.length !== toSign.length)
    throw invalid(field, `Must have ${toSign.length} entries, as many as there are payloads to sign.`)
}

/** Takes the user's signatures; the ledger gets them soon. Wrong ones change nothing. */
async function signed(deps: Deps, call: Omit<Call, 'origin'>, id: string, signatures: readonly string[]) {
  return deps.db.tx(async (tx) => {
    const wallet = existing(await lockOwnWallet(tx, deps, call, id))
    const waiting = requireWaiting(wallet, await findWaiting(tx, deps, wallet))
    if (waiting === null) return shown(wallet, null)
    requireCount('signatures', signatures, waiting)
    const { party_id: party, public_key: publicKey } = wallet
    const kept = waiting.onboarding.toSign.map(({ payload }, at) => {
      const given = signatureOf(publicKey as Buffer, signatureBytes(signatures[at] as string))
      if (isSignedFor(party, payload, given)) return keptSignature(party, given)
      throw fail('signature_invalid').about(
        `signatures.${at}`,
        "Must be a valid signature of the payload by the wallet's key.",
      )
    })
    const now = deps.now()
    await store.setOnboarding(tx, { ...waiting.row, signatures: kept, updated_at: now })
    await onboardAt(tx, wallet, now)
    return shown(wallet, null)
  })
}

/**
 * Signs what makes the party of the user's own wallet: with its key's signatures, or, for a shared key, first with
 * commitments that the service answers with its parts of them.
 * @throws not_found, user_session_required, validation_failed, wallet_frozen, nothing_to_sign, signature_invalid,
 * share_missing, share_invalid
 */
export async function signOnboarding(
  deps: Deps,
  call: Omit<Call, 'origin'>,
  id: string,
  { commitments, signatures }: SignOnboarding,
): Promise<WalletOnboarding> {
  if ((commitments === undefined) === (signatures === undefined))
    throw invalid(
      'signatures',
      'Send either "signatures", or "commitments" for a shared key.',
      signatures === undefined ? 'required' : 'not_allowed',
    )
  // Somebody else's wallet is answered like one that does not exist, by whomever it is asked for.
  existing(await findOwnWallet(deps.db, call, id))
  await requireOwnSession(deps, call)
  if (commitments !== undefined) return coSigned(deps, call, id, commitments)
  return signed(deps, call, id, signatures as string[])
}
