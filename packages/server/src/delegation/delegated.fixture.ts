import { createHash } from 'node:crypto'
import { expect } from 'vitest'
import { type Answer, type CallOptions, call, type Service, type Tenant } from '../../test/harness/harness.ts'
import { dump, type Person, publishableKey, signInAs, type Who } from '../identity/sessions/sessions.fixture.ts'
import { newWalletKey, proven, type WalletKey } from '../wallets/wallets/wallets.fixture.ts'

/** A party without a user in this service. */
export const BOB = `bob::1220${'b0'.repeat(32)}`

/** A user with a wallet and some tokens. */
export interface Holder {
  userId: string
  walletId: string
  party: string
  /** Who issued the tokens. */
  issuer: string
  /** Calls for the user by a server. */
  asUser: { headers: { 'x-user-id': string } }
  /** Gives the wallet a holding more. @returns its contract id */
  receive(amount: string, symbol?: string): Promise<string>
}

/** Calls by a delegated session, as a browser makes them. */
export interface Session {
  id: string
  token: string
  /** The publishable key and the token. */
  by: CallOptions
  execute(body: object, options?: CallOptions): Promise<Answer>
  query(body?: object, options?: CallOptions): Promise<Answer>
}

/** The digest of an embedded ledger's prepared transaction, as a client computes it. */
export const digestOf = (preparedTransaction: string): Buffer =>
  createHash('sha256')
    .update('halfkey/transaction-digest/v1\0')
    .update(Buffer.from(preparedTransaction, 'base64'))
    .digest()

/** What follows the events before a call, and counts the call itself, in its own time. */
const DERIVED = [
  'feed_cursors',
  'counter_increments',
  'analytics_daily',
  'analytics_active_users',
  'audit_entries',
  'audit_heads',
  'audit_counts',
  'audit_only_entries',
  'usage_meters',
  'api_keys',
  'denials',
]

/** A digest of all rows of the database, independent of their order and without derived data, to detect changes. */
export async function stateOf(service: Service): Promise<string> {
  const rows = (await dump(service, DERIVED)).split('\n').sort()
  return createHash('sha256').update(rows.join('\n')).digest('hex')
}

/** Whether a response is a success, with its body if not. */
export function expectStatus(answer: Answer, status: number): Answer['body']['data'] {
  expect(answer.status, answer.text).toBe(status)
  return answer.body.data
}

function holderOf(tenant: Tenant, userId: string, wallet: { id: string; partyId: string }, issuer: string): Holder {
  return {
    userId,
    walletId: wallet.id,
    party: wallet.partyId,
    issuer,
    asUser: { headers: { 'x-user-id': userId } },
    receive: async (amount, symbol = 'USDX') =>
      expectStatus(await tenant.post('/dev/faucet', { userId, symbol, amount }), 201).contractId,
  }
}

const issuerBeside = (party: string) => `issuer::${party.split('::')[1]}`

/** Allows and shows all that the built-in templates have; spends nothing but what `spend` says. */
export const everything = (spend: object[] = []) => ({
  allow: ['Token:Holding', 'Token:TransferOffer', 'Note:Note'].map((templateId) => ({ templateId })),
  spend,
  query: { templateIds: ['Token:Holding', 'Token:TransferOffer', 'Note:Note'] },
})

/** An asset without a cap. */
export const unlimited = (issuer: string, symbol = 'USDX') => ({ asset: { issuer, symbol }, unlimited: true })

/** A new user of the tenant's with an embedded wallet. */
export async function newHolder(tenant: Tenant, body: object = {}): Promise<Holder> {
  const userId = expectStatus(await tenant.post('/users', body), 201).id as string
  const asUser = { headers: { 'x-user-id': userId } }
  const wallet = expectStatus(await tenant.post('/users/me/wallet', {}, asUser), 201)
  return holderOf(tenant, userId, wallet, issuerBeside(wallet.partyId))
}

/** A holder who is signed in. */
export interface SignedIn extends Holder {
  person: Person
}

/** Whose a session, or a person, is. */
const tenants = new WeakMap<Session | Person, Tenant>()

/** A new signed-in user with an `embedded` wallet. */
export async function signedIn(service: Pick<Service, 'deps' | 'url'>, tenant: Tenant, who?: Who): Promise<SignedIn> {
  const person = await signInAs(service, tenant, who)
  const wallet = expectStatus(await person.post('/users/me/wallet', {}), 201)
  return { ...holderOf(tenant, person.userId, wallet, issuerBeside(wallet.partyId)), person }
}

/** A holder who keeps the wallet's key. */
export interface KeyHolder extends SignedIn {
  key: WalletKey
  /** The key's signature over a digest, hex. */
  sign(digest: Buffer): string
}

/** A new signed-in user with a `self_custody` wallet. */
export async function newKeyHolder(service: Pick<Service, 'deps' | 'url'>, tenant: Tenant): Promise<KeyHolder> {
  const person = await signInAs(service, tenant)
  tenants.set(person, tenant)
  const key = newWalletKey()
  const wallet = expectStatus(await person.post('/users/me/wallet', await proven(person, key)), 201)
  const user = expectStatus(await tenant.get(`/users/${person.userId}`), 200)
  const holder = holderOf(tenant, person.userId, wallet, issuerBeside(user.partyId))
  return { ...holder, person, key, sign: (digest) => key.sign(digest).toString('hex') }
}

/** Allows transfers to whomever, up to a cap of USDX. */
export const transfers = (holder: Holder, amount: string, more: object = {}) => ({
  allow: [{ templateId: 'Token:Holding', actions: ['exercise'] }],
  spend: [{ asset: { issuer: holder.issuer, symbol: 'USDX' }, amount }],
  query: { templateIds: ['Token:Holding'] },
  ...more,
})

/** A delegated session of the holder's, made by a server. */
export async function newSession(
  service: Pick<Service, 'url'>,
  tenant: Tenant,
  holder: Pick<Holder, 'asUser'>,
  body: object,
): Promise<Session> {
  const made = expectStatus(await tenant.post('/delegated-sessions', body, holder.asUser), 201)
  const session = sessionOf(service.url, await publishableKey(tenant), made)
  tenants.set(session, tenant)
  return session
}

const furtherKeys = new WeakMap<Tenant, Promise<string>[]>()

/**
 * Executes by the n-th further key of the app. Calls of one key and session take turns in a process; with another key a
 * call goes beside them, as in another process, and only the database keeps them apart.
 */
export async function executeBeside(session: Session, body: object, n = 0): Promise<Answer> {
  const tenant = tenants.get(session)
  if (tenant === undefined) throw new Error('not a session of newSession')
  const keys = furtherKeys.get(tenant) ?? []
  furtherKeys.set(tenant, keys)
  keys[n] ??= tenant.newKey({ publishable: true })
  return session.execute(body, { key: await keys[n] })
}

/** A delegated session that its owner made. */
export async function ownSession(
  service: Pick<Service, 'url'>,
  { person }: Pick<SignedIn, 'person'>,
  body: object,
): Promise<Session> {
  const made = expectStatus(await person.post('/delegated-sessions', body), 201)
  const session = sessionOf(service.url, person.key, made)
  const tenant = tenants.get(person)
  if (tenant !== undefined) tenants.set(session, tenant)
  return session
}

/** The calls of a session whose token is known. */
export function sessionOf(url: string, key: string, { id, token }: { id: string; token: string }): Session {
  const by = { key, headers: { authorization: `Bearer ${token}` } }
  const post = (what: string, body: object, options: CallOptions = {}) =>
    call(url, 'POST', `/v1/delegated-sessions/${id}/${what}`, {
      ...by,
      body,
      ...options,
      headers: { ...by.headers, ...options.headers },
    })
  return {
    id,
    token,
    by,
    execute: (body, options) => post('execute', body, options),
    query: (body = {}, options) => post('query', body, options),
  }
}

/** A command that creates a contract. */
export const create = (templateId: string, fields: object) => ({ create: { templateId, arguments: fields } })

/** A command that exercises a choice. */
export const exercise = (templateId: string, contractId: string, choice: string, given: object = {}) => ({
  exercise: { templateId, contractId, choice, arguments: given },
})

/** A command that transfers a part of a holding. */
export const transfer = (contractId: string, amount?: string, receiver = BOB) => ({
  exercise: {
    templateId: 'Token:Holding',
    contractId,
    choice: 'Transfer',
    arguments: { receiver, ...(amount === undefined ? {} : { amount }) },
  },
})

/** The holdings that a session's wallet has, newest first. */
export async function holdingsOf(session: Session): Promise<{ contractId: string; amount: string; symbol: string }[]> {
  const found: { contractId: string; amount: string; symbol: string; owner: string }[] = []
  let cursor: string | null = null
  do {
    const page: Answer['body']['data'] = expectStatus(
      await session.query({ templateIds: ['Token:Holding'], limit: 100, cursor }),
      200,
    )
    for (const contract of page.contracts) found.push({ contractId: contract.contractId, ...contract.arguments })
    cursor = page.nextCursor
  } while (cursor !== null)
  return found
}
