import { createHmac } from 'node:crypto'
import {
  type Command,
  type Contract,
  createClient,
  type Execution,
  type Fetch,
  type HalfkeyClient,
  type OwnDelegatedSession,
  type OwnTransaction,
  type Policy as SessionPolicy,
  type Transaction,
} from '../../sdk/src/index.ts'
import type { Holding } from '../../sdk/src/paying/choose.ts'
import type { Settings } from './config.ts'

export type { Command, Execution, Holding, OwnDelegatedSession, OwnTransaction, Transaction }
export type Policy = SessionPolicy
export type Decision = NonNullable<Execution['decision']>
export type Remaining = Execution['remaining']

/** How many holdings are read at most: more than a payment can use. */
const HOLDINGS_MAX = 1_000
const PAGE = 100

/** Three attempts of so many milliseconds end before a client of the protocol gives up, which is after a minute. */
const TIMEOUT_MS = 15_000
const RETRIES_MAX = 2

/** Everything that the tools can do: the calls of one delegated session. */
export interface Agent {
  /** The session as it is now. @throws HalfkeyError */
  session(): Promise<OwnDelegatedSession>
  /** The same as it was first read: id, policy and wallet's party never change. @throws HalfkeyError */
  known(): Promise<OwnDelegatedSession>
  /** The wallet's holdings, newest first, of one asset if it is given. `complete` is false if there are more. */
  holdings(of?: { issuer?: string | undefined; symbol?: string | undefined }): Promise<{
    holdings: Holding[]
    complete: boolean
  }>
  execute(body: { commandId: string; commands: Command[] }): Promise<Execution>
  dryRun(commands: Command[]): Promise<Execution>
  transaction(id: string): Promise<OwnTransaction>
  /** The transaction that was made under a command id, if any. */
  byCommand(commandId: string): Promise<OwnTransaction | undefined>
  /** A nonce of x402 for a purchase, always the same, which nobody finds without the token: a repeat after a crash pays once. */
  nonceOf(purchaseId: string): string
}

/** The calls by the token alone: the SDK asks for an API key, and this placeholder is removed from every request. */
function clientOf({ baseUrl, token, delegateKey }: Settings, transport: Fetch): HalfkeyClient['delegatedSessions'] {
  const send: Fetch = (url, init) => {
    const headers = new Headers(init.headers)
    headers.delete('x-api-key')
    return transport(url, { ...init, headers })
  }
  const limits = { timeoutMs: TIMEOUT_MS, maxRetries: RETRIES_MAX }
  return createClient({ baseUrl, apiKey: 'agent', delegateToken: token, delegateKey, fetch: send, ...limits })
    .delegatedSessions
}

const text = (value: unknown): string => (typeof value === 'string' ? value : '')

function holdingOf({ contractId, arguments: fields }: Contract): Holding {
  return { contractId, issuer: text(fields.issuer), symbol: text(fields.symbol), amount: text(fields.amount) }
}

/** Opens no connection. The token stays in the client. `transport` sends the requests instead of the global `fetch`. */
export function createAgent(settings: Settings, transport: Fetch = (url, init) => fetch(url, init)): Agent {
  const client = clientOf(settings, transport)
  let first: Promise<OwnDelegatedSession> | undefined

  const known = () => {
    first ??= client.me().catch((error: unknown) => {
      first = undefined
      throw error
    })
    return first
  }

  return {
    known,
    session: () => client.me(),
    async holdings({ issuer, symbol } = {}) {
      const { id, wallet } = await known()
      const fields = { owner: wallet.partyId, issuer, symbol }
      const where = Object.entries(fields).flatMap(([path, value]) =>
        value === undefined ? [] : [{ path, op: 'eq' as const, value }],
      )
      const holdings: Holding[] = []
      const all = client.queryAll(id, { templateIds: ['Token:Holding'], where, limit: PAGE })
      for await (const contract of all) {
        if (holdings.length >= HOLDINGS_MAX) return { holdings, complete: false }
        holdings.push(holdingOf(contract))
      }
      return { holdings, complete: true }
    },
    execute: async (body) => client.execute((await known()).id, body),
    dryRun: async (commands) => client.dryRun((await known()).id, commands),
    transaction: (id) => client.transaction(id),
    async byCommand(commandId) {
      const [found] = (await client.transactions({ commandId, pageSize: 1 })).data
      return found && client.transaction(found.id)
    },
    nonceOf: (purchaseId) =>
      createHmac('sha256', settings.token).update(`halfkey/x402/nonce/v1\0${purchaseId}`).digest('hex'),
  }
}
