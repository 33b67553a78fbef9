import { randomBytes } from 'node:crypto'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures, invalid, notFoundField } from '../../platform/http/errors.ts'
import { isId, newId } from '../../platform/ids.ts'
import { isSignedBy, signatureBytes } from '../../platform/ports/signature.ts'
import { CHALLENGE_MS, createChallenge, takeChallenge } from '../../platform/security/challenges.ts'
import { nodePublicKey } from '../../tenancy/tenant/service.ts'
import { type Call, lockOwner, requireOwnSession } from './access.ts'
import { type Dealt, dealtOf, storeDealt } from './dealt.ts'
import { keyProblem } from './ed25519.ts'
import { WALLET_ERRORS } from './errors.ts'
import { addWallet, ledgerOf } from './new-wallet.ts'
import type { CreateWallet, CreateWalletChallenge, Wallet, WalletChallenge } from './schema.ts'
import { findWalletOf, toWallet } from './store.ts'

const fail = failures(WALLET_ERRORS)

const NONCE_BYTES = 32

/** What an answered challenge is held against. */
interface ProofOfPossession {
  custody: 'shared' | 'self_custody'
  ledger: string
  /** Hex. */
  publicKey: string
  /** What is signed, in UTF-8. */
  message: string
}

/** Makes the message by whose signature a user proves that a key is theirs; it is good for one wallet. */
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

/** What proves a key of the user's own; null where the service is to sign. */
interface Answer {
  custody: 'shared' | 'self_custody'
  publicKey: string
  challengeId: string
  proof: string
}

/** What a custody needs, all of it and nothing else. @throws validation_failed */
function answerOf(input: CreateWallet): Answer | null {
  const custody = input.custody ?? 'embedded'
  const missing = NEEDED[custody].filter((field) => input[field] === undefined)
  const beside = FIELDS.filter((field) => input[field] !== undefined && !ALLOWED[custody].includes(field))
  const wrong = [
    ...missing.map((field) => ({ field, code: 'required', message: `"${field}" is required for ${custody}.` })),
    ...beside.map((field) => ({ field, code: 'not_allowed', message: `Is not for ${custody} wallets.` })),
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

/** The challenge that an input answers, and no other user's. @throws not_found, validation_failed */
async function takeOwnChallenge(tx: Db, deps: Deps, { caller, user }: Call, input: CreateWallet, answer: Answer) {
  const of = { tenantId: caller.tenantId, appId: user.appId, kind: 'wallet' as const }
  const { challengeId: id } = answer
  const taken = isId('chl', id) ? await takeChallenge<ProofOfPossession>(tx, deps.now(), { ...of, id }) : undefined
  // What is thrown before the proof is looked at leaves the challenge as it was.
  if (taken === undefined || taken.userId !== user.id || taken.data.custody !== answer.custody)
    throw notFoundField('challengeId')
  for (const field of ['publicKey', 'ledger'] as const)
    if (input[field] !== undefined && input[field] !== taken.data[field])
      throw invalid(field, 'Must be the one that the challenge was made for.')
  return taken
}

/** A wallet whose key the user has: whole, or split by the client that made it. */
async function createOwned(deps: Deps, call: Call, input: CreateWallet, answer: Answer): Promise<Wallet> {
  if (input.ledger !== undefined) ledgerOf(deps, input.ledger)
  await requireOwnSession(deps, call)
  const dealt: Dealt | null = answer.custody === 'shared' ? await dealtOf(deps, call, input) : null
  const create = async (tx: Db): Promise<Wallet> => {
    await lockOwner(tx, deps, call)
    const taken = await takeOwnChallenge(tx, deps, call, input, answer)
    const ledger = ledgerOf(deps, taken.data.ledger)
    const publicKey = Buffer.from(answer.publicKey, 'hex')
    const id = newId('wal')
    const partyId = ledger.deriveParty(id, publicKey)
    const { custody } = answer
    const wallet = { id, ledger, custody, partyId, publicKey, ...(dealt && { shared: dealt.shared }) }
    if (await findWalletOf(tx, call.caller.tenantId, call.user.id)) throw fail('wallet_exists')
    if (taken.over) throw fail('challenge_expired')
    if (!isSignedBy(publicKey, Buffer.from(taken.data.message), signatureBytes(answer.proof))) {
      const message = "Is not the key's signature over the challenge's message. The challenge is used up."
      throw fail('signature_invalid', [{ field: 'proof', code: 'signature_invalid', message }]).commitOnThrow()
    }
    const row = await addWallet(tx, deps, call, wallet)
    if (dealt !== null) await storeDealt(tx, deps, row, dealt)
    return toWallet(row)
  }
  return deps.db.tx(create).finally(() => dealt?.scalar.fill(0))
}

/**
 * Gives the current user a wallet, the one that they can have: of any number that ask at once one does.
 * @throws validation_failed, user_session_required, not_found (names `challengeId`), wallet_exists, challenge_expired,
 * signature_invalid, seal_invalid, share_invalid
 */
export async function createWallet(deps: Deps, call: Call, input: CreateWallet): Promise<Wallet> {
  const answer = answerOf(input)
  return answer === null ? createEmbedded(deps, call, input) : createOwned(deps, call, input, answer)
}
