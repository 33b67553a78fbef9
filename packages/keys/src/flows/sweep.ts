import { toHex } from '../bytes.ts'
import { commitNonces } from '../cosign.ts'
import { ShareError } from '../errors.ts'
import { publicKeyOf, signWithScalar } from '../group.ts'
import { HOLDER_INDEX } from '../protocol.ts'
import type { WireCommitments, WireExecution } from './api.ts'
import { requireAsked, transactionDigest, wireCommitments } from './execute.ts'

/** A holding, as a query returns it. */
interface WireContract {
  contractId: string
  templateId: string
  arguments: { [field: string]: unknown }
}

interface Transfer {
  exercise: {
    templateId: string
    contractId: string
    choice: string
    arguments: { receiver: string }
  }
}

/** The calls that `sweep` makes for the wallet's user. */
export interface SweepApi {
  wallet: { get(): Promise<{ partyId: string; publicKey: string | null; custody: string }> }
  delegatedSessions: {
    create(body: {
      name: string
      policy: {
        allow: { templateId: string; actions: 'exercise'[]; choices: string[] }[]
        spend: { asset: { issuer: string; symbol: string }; unlimited: true }[]
        query: { templateIds: string[] }
      }
      expiresInSeconds: number
    }): Promise<{ id: string; token: string }>
    revoke(id: string): Promise<unknown>
  }
}

/** The calls that `sweep` makes with a session's token. */
export interface SweepDelegate {
  delegatedSessions: {
    queryAll(id: string): AsyncIterable<WireContract>
    execute(
      id: string,
      body:
        | { commandId: string; commands: Transfer[]; commitments?: WireCommitments }
        | { signingRequestId: string; signature: string },
    ): Promise<WireExecution>
  }
}

const TEMPLATE = 'Token:Holding'
const A_TRANSACTION = 100
const SESSION_SECONDS = 600

/** What to move, where to, and with which key. */
export interface Sweep {
  /** The wallet's whole key: the result of `releaseKey` or `joinHeldShares`. */
  key: Uint8Array
  /** The party that gets everything. */
  receiver: string
  /** Creates a client with a session's token: `(token) => createClient({ baseUrl, apiKey, delegateToken: token })`. */
  delegateOf(token: string): SweepDelegate
}

async function begin(api: SweepApi, assets: { issuer: string; symbol: string }[]) {
  return api.delegatedSessions.create({
    name: 'Sweep',
    policy: {
      allow: [{ templateId: TEMPLATE, actions: ['exercise'], choices: ['Transfer'] }],
      spend: assets.map((asset) => ({ asset, unlimited: true })),
      query: { templateIds: [TEMPLATE] },
    },
    expiresInSeconds: SESSION_SECONDS,
  })
}

async function holdingsOf(api: SweepApi, { delegateOf }: Sweep, owner: string): Promise<WireContract[]> {
  const { id, token } = await begin(api, [])
  const found: WireContract[] = []
  for await (const contract of delegateOf(token).delegatedSessions.queryAll(id))
    if (contract.arguments.owner === owner) found.push(contract)
  await api.delegatedSessions.revoke(id)
  return found
}

/**
 * Moves all tokens of a wallet on the embedded ledger to another party, signed with the whole key. Use it to move to a
 * wallet whose key is a seed. Each transaction moves up to a hundred holdings, all or none. After an interruption, call
 * it again. @returns the transactions. @throws ShareError for the key of another wallet, and the errors of the calls
 */
export async function sweep(api: SweepApi, what: Sweep): Promise<WireExecution[]> {
  const { key, receiver, delegateOf } = what
  const { partyId, publicKey, custody } = await api.wallet.get()
  if (toHex(publicKeyOf(key)) !== publicKey) throw new ShareError('share_invalid', 'The key belongs to another wallet.')
  const holdings = await holdingsOf(api, what, partyId)
  if (holdings.length === 0) return []
  const assets = new Map(
    holdings.map(({ arguments: { issuer, symbol } }) => [
      `${issuer} ${symbol}`,
      { issuer: issuer as string, symbol: symbol as string },
    ]),
  )
  const { id: sessionId, token } = await begin(api, [...assets.values()])
  const { delegatedSessions } = delegateOf(token)
  const done: WireExecution[] = []
  for (let from = 0; from < holdings.length; from += A_TRANSACTION) {
    const commands = holdings.slice(from, from + A_TRANSACTION).map(({ contractId }) => ({
      exercise: { templateId: TEMPLATE, contractId, choice: 'Transfer', arguments: { receiver } },
    }))
    const commandId = crypto.randomUUID()
    // For a shared wallet the service requires commitments, but the whole key needs no part of the service.
    const { commitments } = commitNonces({ index: HOLDER_INDEX.device, scalar: key })
    const asked = await delegatedSessions.execute(sessionId, {
      commandId,
      commands,
      ...(custody === 'shared' && { commitments: wireCommitments(commitments) }),
    })
    const request = asked.signingRequest
    if (request === null)
      throw new ShareError('protocol_violated', `The service returned nothing to sign; the status is ${asked.status}.`)
    const prepared = Uint8Array.from(atob(request.preparedTransaction), (character) => character.charCodeAt(0))
    requireAsked(prepared, { sessionId, commandId, commands, publicKey })
    const signature = toHex(signWithScalar(transactionDigest(prepared), key))
    done.push(await delegatedSessions.execute(sessionId, { signingRequestId: request.id, signature }))
  }
  await api.delegatedSessions.revoke(sessionId)
  return done
}
