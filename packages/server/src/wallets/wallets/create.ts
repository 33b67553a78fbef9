import { randomBytes } from 'node:crypto'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { invalid, notFoundField } from '../../platform/http/errors.ts'
import { isId, newId } from '../../platform/ids.ts'
import { isSignedBy, signatureBytes } from '../../platform/ports/signature.ts'
import { CHALLENGE_MS, createChallenge, takeChallenge } from '../../platform/security/challenges.ts'
import { nodePublicKey } from '../../tenancy/tenant/service.ts'
import { addSharing } from '../custody/service.ts'
import { type Call, lockOwner, requireOwnSession } from './access.ts'
import { keyProblem } from './ed25519.ts'
import { fail } from './errors.ts'
import { addWallet, ledgerOf } from './new-wallet.ts'
import type { CreateWallet, CreateWalletChallenge, Wallet, WalletChallenge } from './schema.ts'
import { readSplitKey } from './split-key.ts'
import { findWalletOf, toWallet } from './store.ts'

const NONCE_BYTES = 32

/** What a challenge is bound to. */
interface ProofOfPossession {
  custody: 'shared' | 'self_custody'
  ledger: string
  /** Hex. */
  publicKey: string
  /** The text that is signed, as UTF-8. */
  message: string
}

/** Creates the message that a user signs to prove that they have the key. It is valid for one wallet. */
export async function challenge(
  deps: Deps,
  { caller, user }: Omit<Call, 'origin'>,
  input: CreateWalletChallenge,
): Promise<WalletChallenge> {
  const { tenantId } = caller
  const ledger = ledgerOf(deps, input.ledger).name
  const { custody, publicKey } = input
  const problem = keyProblem(Buffer.from(publicKey, 'hex'))
  if (problem !== null) throw invalid('publicKey', problem)
  const now = deps.now()
  const expiry = new Date(now.getTime() + CHALLENGE_MS).toISOString()
  const nonce = randomBytes(NONCE_BYTES).toString('hex')
  const message = ['halfkey/pop/v1', tenantId, user.appId, user.id, ledger, publicKey, nonce, expiry].join('\n')
  const data: ProofOfPossession = { custody, ledger, publicKey, message }
  const bound = { tenantId, appId: user.appId, kind: 'wallet' as const, userId: user.id, data }
  const { id } = await createChallenge(deps.db, now, bound)
  return { challengeId: id, message, expiresAt: expiry }
}

const FIELDS = ['publicKey', 'challengeId', 'proof', 'commitments', 'sealed', 'proofs'] as const
const NEEDED: Record<NonNullable<CreateWallet['custody']>, readonly (typeof FIELDS)[number][]> = {
  embedded: [],
  self_custody: ['publicKey', 'challengeId', 'proof'],
  shared: ['publicKey', 'challengeId', 'proof', 'commitments', 'sealed'],
}
const ALLOWED = { ...NEEDED, shared: FIELDS }

/** The proof of the user's own key. */
interface Answer {
  custody: 'shared' | 'self_custody'
  publicKey: string
  challengeId: string
  proof: string
}

/** The proof of the user's own key; null for `embedded`. Checks the fields that the custody needs. @throws validation_failed */
function answerOf(input: CreateWallet): Answer | null {
  const custody = input.custody ?? 'embedded'
  const missing = NEEDED[custody].filter((field) => input[field] === undefined)
  const beside = FIELDS.filter((field) => input[field] !== undefined && !ALLOWED[custody].includes(field))
  const wrong = [
    ...missing.map((field) => ({ field, code: 'required', message: `"${field}" is required for ${custody}.` })),
    ...beside.map((field) => ({ field, code: 'not_allowed', message: `Must be absent for ${custody} wallets.` })),
  ]
  if (wrong.length > 0) throw fail('validation_failed', wrong)
  const { publicKey, challengeId, proof } = input
  if (custody === 'embedded' || publicKey === undefined || challengeId === undefined || proof === undefined) return null
  return { custody, publicKey, challengeId, proof }
}

async function createEmbedded(deps: Deps, call: Call, input: CreateWallet): Promise<Wallet> {
  const ledger = ledgerOf(deps, input.ledger)
  const publicKey = await nodePublicKey(deps, call.caller.tenantId)
  return deps.db.tx(async (tx) => {
    const { partyId } = await lockOwner(tx, deps, call)
    const wallet = { id: newId('wal'), ledger, custody: 'embedded', partyId, publicKey } as const
    return toWallet(await addWallet(tx, deps, call, wallet))
  })
}

/** The user's challenge that the input is for. @throws not_found, validation_failed */
async function takeOwnChallenge(tx: Db, deps: Deps, { caller, user }: Call, input: CreateWallet, answer: Answer) {
  const of = { tenantId: caller.tenantId, appId: user.appId, kind: 'wallet' as const }
  const { challengeId: id } = answer
  const taken = isId('chl', id) ? await takeChallenge<ProofOfPossession>(tx, deps.now(), { ...of, id }) : undefined
  // An error before the check of the proof rolls back: the challenge can be used again.
  if (taken === undefined || taken.userId !== user.id || taken.data.custody !== answer.custody)
    throw notFoundField('challengeId')
  for (const field of ['publicKey', 'ledger'] as const)
    if (input[field] !== undefined && input[field] !== taken.data[field])
      throw invalid(field, 'Must be the same as in the challenge.')
  return taken
}

/** A wallet whose key the user has, whole or in shares that the client made. */
async function createOwned(deps: Deps, call: Call, input: CreateWallet, answer: Answer): Promise<Wallet> {
  if (input.ledger !== undefined) ledgerOf(deps, input.ledger)
  await requireOwnSession(deps, call)
  const split = answer.custody === 'shared' ? await readSplitKey(deps, call, input) : null
  const create = async (tx: Db): Promise<Wallet> => {
    await lockOwner(tx, deps, call)
    const taken = await takeOwnChallenge(tx, deps, call, input, answer)
    const ledger = ledgerOf(deps, taken.data.ledger)
    const publicKey = Buffer.from(answer.publicKey, 'hex')
    const id = newId('wal')
    const partyId = ledger.deriveParty(id, publicKey)
    const { custody } = answer
    const wallet = { id, ledger, custody, partyId, publicKey, ...(split && { shared: split.shared }) }
    if (await findWalletOf(tx, call.caller.tenantId, call.user.id)) throw fail('wallet_exists')
    if (taken.over) throw fail('challenge_expired')
    if (!isSignedBy(publicKey, Buffer.from(taken.data.message), signatureBytes(answer.proof))) {
      const message =
        "Must be a valid signature of the challenge's message by the key. The challenge is used up: request a new one."
      throw fail('signature_invalid').about('proof', message).commitOnThrow()
    }
    const row = await addWallet(tx, deps, call, wallet)
    if (split !== null) {
      const { shared: _, ...sharing } = split
      await addSharing(tx, deps, {
        ...sharing,
        tenantId: row.tenant_id,
        walletId: row.id,
        custody: row.custody,
        generation: 1,
      })
    }
    return toWallet(row)
  }
  return deps.db.tx(create).finally(() => split?.scalar.fill(0))
}

/**
 * Creates the current user's wallet. A user has at most one: of concurrent calls one succeeds.
 * @throws validation_failed, user_session_required, not_found (names `challengeId`), wallet_exists, challenge_expired,
 * signature_invalid, seal_invalid, share_invalid
 */
export async function createWallet(deps: Deps, call: Call, input: CreateWallet): Promise<Wallet> {
  const answer = answerOf(input)
  return answer === null ? createEmbedded(deps, call, input) : createOwned(deps, call, input, answer)
}
