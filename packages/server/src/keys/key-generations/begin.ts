import type { Deps } from '../../platform/deps.ts'
import { invalid } from '../../platform/http/errors.ts'
import { limitAccount } from '../../platform/http/rate-limits/limits.ts'
import { newId } from '../../platform/ids.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { asRefusal, hasExactly, readParticipants } from '../../wallets/custody/service.ts'
import { type Call, findWalletOf, ledgerOf, lockOwner, requireOwnSession } from '../../wallets/wallets/service.ts'
import { fail } from './errors.ts'
import type { BeginKeyGeneration, KeyGeneration, Round1 } from './schema.ts'
import { readRound1, sealState, subjectOf, toKeyGeneration } from './state.ts'
import * as store from './store.ts'

const LIFETIME_MS = 10 * 60_000
/** How many key generations of one user can be open, the new one included; and how many canceled ones are kept. */
const OPEN_MAX = 5
const CANCELED_MAX = 20

const { server, device, recovery } = threshold.HOLDER_INDEX

const round1Json = ({ index, commitments, proofOfKnowledge }: threshold.DkgRound1): Round1 => ({
  index,
  commitments: commitments.map(threshold.toHex),
  proofOfKnowledge: threshold.toHex(proofOfKnowledge),
})

/**
 * Checks the others' first messages, and creates the service's polynomial and first message. @throws protocol_violated
 */
async function makeRound1(deps: Deps, others: readonly Round1[]) {
  try {
    return await deps.threads.run('beginDkg', server, threshold.SHARED_SIGNERS, others.map(readRound1))
  } catch (error) {
    throw asRefusal(error, 'round1')
  }
}

async function newRow(deps: Deps, { caller, user }: Call, input: BeginKeyGeneration): Promise<store.KeyGenerationRow> {
  const participants = await readParticipants(input.participants, 'dkg-subshare')
  if (!hasExactly([device, recovery], input.round1))
    throw invalid('round1', 'Must have one message for index 2 and one for index 3.')
  const ledger = ledgerOf(deps, input.ledger).name
  const others = [...input.round1].sort((a, b) => a.index - b.index)
  const { state, round1: own } = await makeRound1(deps, others)
  const now = deps.now()
  const place = { tenant_id: caller.tenantId, id: newId('dkg'), app_id: user.appId, user_id: user.id }
  const round1 = [round1Json(own), ...others]
  const transcript = threshold.dkgTranscript(subjectOf(place), participants, round1.map(readRound1))
  const polynomial = Buffer.concat(state.coefficients)
  const sealed = await sealState(deps, place, 'polynomial', polynomial)
  for (const secret of [polynomial, ...state.coefficients]) secret.fill(0)
  return {
    ...place,
    ledger,
    status: 'round1',
    participants,
    round1,
    state_sealed: sealed,
    sharing: null,
    transcript: Buffer.from(transcript),
    round2_hash: null,
    round2: null,
    wallet_id: newId('wal'),
    expires_at: new Date(now.getTime() + LIFETIME_MS),
    created_at: now,
    updated_at: now,
  }
}

/**
 * Starts to generate a key with a user's device. The request has the first messages of the user's participants, the response
 * has the service's. At most five key generations of a user are open; older ones are canceled.
 * @throws user_session_required, validation_failed, wallet_exists, protocol_violated, rate_limited
 */
export async function beginKeyGeneration(deps: Deps, call: Call, input: BeginKeyGeneration): Promise<KeyGeneration> {
  const { caller, user } = call
  await requireOwnSession(deps, call)
  const { tenantId } = caller
  if (await findWalletOf(deps.db, tenantId, user.id)) throw fail('wallet_exists')
  await limitAccount(deps, `dkg ${user.id}`)
  const row = await newRow(deps, call, input)
  await deps.db.tx(async (tx) => {
    await lockOwner(tx, deps, call)
    if (await findWalletOf(tx, tenantId, user.id)) throw fail('wallet_exists')
    await store.cancelOlder(tx, row.created_at, { tenantId, userId: user.id, keep: OPEN_MAX - 1 })
    await store.forgetOlder(tx, { tenantId, userId: user.id, keep: CANCELED_MAX })
    await store.insertKeyGeneration(tx, row)
  })
  return toKeyGeneration(row, deps.now())
}
