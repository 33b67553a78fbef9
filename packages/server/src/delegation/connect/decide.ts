import type { Deps } from '../../platform/deps.ts'
import { existing, fail, invalid, pathId } from '../../platform/http/errors.ts'
import type { UserCall } from '../../platform/http/route.ts'
import { formatAmount, parseAmount } from '../../platform/ports/amount.ts'
import type { Contract } from '../../platform/ports/ledger.ts'
import { type Challenge, findChallenge, takeChallenge } from '../../platform/security/challenges.ts'
import { findWalletOf, type WalletRow } from '../../wallets/wallets/service.ts'
import { createDelegatedSession } from '../manage/create.ts'
import { normalized } from '../rehearse/normalize.ts'
import { warningsOf } from '../rehearse/warnings.ts'
import { wordsOf } from '../rehearse/words.ts'
import type { AgentAnswer, AgentRequest, ConnectAgent } from './connect-schema.ts'
import { narrowed } from './narrow.ts'
import { authorizationServerOf, connectableApp } from './place.ts'
import { answeredAt, destinationOf } from './redirect.ts'
import { opensLink, readReference } from './reference.ts'
import type { AskedConnection, StoredConnection } from './request.ts'
import { createCode } from './tokens/tokens.ts'

/** Holdings that are looked at to say what a wallet holds. */
const HOLDINGS_MAX = 200
const SESSION_NAME_CHARS_MAX = 200
/** What the page proposes where the client names no time. */
const PROPOSED_SECONDS = 7 * 86_400

type Asked = Challenge<StoredConnection>

const which = ({ caller, user }: UserCall, reference: string) =>
  ({
    tenantId: caller.tenantId,
    appId: user.appId,
    kind: 'agent_request',
    id: readReference(reference).id,
  }) as const

/** @throws not_found, also once it is decided or too old, and for a link with another secret */
function undecided(asked: Asked | undefined, reference: string): AskedConnection {
  const { over, data } = existing(asked)
  if (over || !opensLink(readReference(reference).secret, data.secretHash)) throw fail('not_found')
  return data
}

async function requireConnectable(deps: Deps, { user }: UserCall): Promise<void> {
  existing(await connectableApp(deps, user.appId))
}

/** What the contracts of a wallet add up to, by asset. */
function sumsOf(contracts: readonly Contract[]): AgentRequest['holdings'] {
  const sums = new Map<string, { asset: { issuer: string; symbol: string }; units: bigint }>()
  for (const { arguments: given } of contracts) {
    const { issuer, symbol, amount } = given as Record<string, unknown>
    if (typeof issuer !== 'string' || typeof symbol !== 'string' || typeof amount !== 'string') continue
    const key = `${issuer} ${symbol}`
    const units = (sums.get(key)?.units ?? 0n) + (parseAmount(amount) ?? 0n)
    sums.set(key, { asset: { issuer, symbol }, units })
  }
  return [...sums.values()].map(({ asset, units }) => ({ asset, amount: formatAmount(units) }))
}

/** What a wallet holds, if its ledger is in our database and names tokens as its own templates do; null otherwise. */
async function holdingsOf(deps: Deps, wallet: WalletRow): Promise<AgentRequest['holdings']> {
  const ledger = deps.ledgers.get(wallet.ledger)
  if (ledger?.transactional !== true) return null
  const { tenant_id: tenantId, party_id: party } = wallet
  const query = { tenantId, party, templateIds: ['Token:Holding'], accept: null, limit: HOLDINGS_MAX, cursor: null }
  const { contracts } = await ledger.query(deps.db, query)
  return sumsOf(contracts.filter(({ arguments: given }) => given.owner === party))
}

const walletOf = ({ party_id: partyId, frozen_at: frozenAt, custody }: WalletRow): AgentRequest['wallet'] => ({
  partyId,
  frozen: frozenAt !== null,
  custody,
})

/** What a client asks the current user for. @throws not_found */
export async function getAgentRequest(deps: Deps, call: UserCall, id: string): Promise<AgentRequest> {
  await requireConnectable(deps, call)
  const asked = undecided(await findChallenge<StoredConnection>(deps.db, deps.now(), which(call, id)), id)
  const { clientId, clientName, redirectUri, details } = asked
  const wallet = await findWalletOf(deps.db, call.caller.tenantId, call.user.id)
  const policy = details?.policy ?? null
  const proposedSeconds = details?.expiresInSeconds ?? PROPOSED_SECONDS
  return {
    id,
    client: { id: clientId, name: clientName, host: new URL(clientId).host },
    redirect: destinationOf(redirectUri),
    wallet: wallet === undefined ? null : walletOf(wallet),
    policy: policy === null ? null : normalized(policy),
    words: policy === null ? [] : wordsOf(policy),
    warnings: policy === null ? [] : warningsOf(policy, deps.now(), proposedSeconds),
    expiresInSeconds: details?.expiresInSeconds ?? null,
    proposedSeconds,
    maxUses: details?.maxUses ?? null,
    holdings: policy !== null || wallet === undefined ? null : await holdingsOf(deps, wallet),
  }
}

/** How the session is called where sessions are: who says what it is, whole, and then what they say. */
function sessionNameOf({ clientId, clientName }: AskedConnection): string {
  const { host } = new URL(clientId)
  if (clientName === null) return host
  const room = SESSION_NAME_CHARS_MAX - `${host} ()`.length
  // Not half of a character of two code units.
  return `${host} (${clientName.slice(0, room).replace(/[\ud800-\udbff]$/, '')})`
}

/** @throws validation_failed */
function lifetimeOf({ details }: AskedConnection, { expiresInSeconds }: ConnectAgent): number {
  const most = details?.expiresInSeconds
  if (most !== undefined && expiresInSeconds > most)
    throw invalid('expiresInSeconds', `Must be at most ${most}, which was asked for.`, 'too_large')
  return expiresInSeconds
}

const answerOf = (deps: Deps, call: UserCall, asked: AskedConnection, answer: Record<string, string>): AgentAnswer => ({
  redirectTo: answeredAt(asked.redirectUri, {
    ...answer,
    state: asked.state,
    // RFC 9207: a client that speaks to several servers knows whose answer it is.
    iss: authorizationServerOf(deps, call.user.appId),
  }),
})

/**
 * Connects an agent to the current user's wallet: creates a delegated session with what was asked for, or less, and the code with which the
 * client gets its tokens. Of any number of calls, one does. @throws not_found, validation_failed, and what creating a session throws
 */
export async function connectAgent(deps: Deps, call: UserCall, id: string, input: ConnectAgent): Promise<AgentAnswer> {
  await requireConnectable(deps, call)
  return deps.db.tx(async (tx) => {
    const asked = undecided(await takeChallenge<StoredConnection>(tx, deps.now(), which(call, id)), id)
    const { details } = asked
    const { token, id: sessionId } = await createDelegatedSession({ ...deps, db: tx }, call, {
      name: sessionNameOf(asked),
      policy: narrowed(details?.policy ?? null, input),
      expiresInSeconds: lifetimeOf(asked, input),
      serverExecute: false,
      ...(details?.maxUses === undefined ? {} : { maxUses: details.maxUses }),
    })
    const connection = {
      tenant_id: call.caller.tenantId,
      app_id: call.user.appId,
      delegated_session_id: pathId('dse', sessionId),
      client_id: asked.clientId,
      sessionToken: token,
    }
    return answerOf(deps, call, asked, { code: await createCode(tx, deps, connection, asked) })
  })
}

/** Refuses what a client asks for, and tells it so. @throws not_found */
export async function refuseAgent(deps: Deps, call: UserCall, id: string): Promise<AgentAnswer> {
  // A wrong secret uses nothing up.
  const asked = await deps.db.tx(async (tx) =>
    undecided(await takeChallenge<StoredConnection>(tx, deps.now(), which(call, id)), id),
  )
  return answerOf(deps, call, asked, { error: 'access_denied' })
}
