import { createPublicKey, generateKeyPairSync, sign } from 'node:crypto'
import { expect } from 'vitest'
import type { HalfkeyClient } from '../src/client.ts'
import type { Command, DelegatedSession, Dripped, Policy, PolicySessionCondition, Wallet } from '../src/models.ts'
import { readPreparedTransaction } from '../src/prepared.ts'
import type { ClientOf } from './sign-in.ts'

/** Somebody elsewhere. */
const BOB = `bob::1220${'b0'.repeat(32)}`

/** Transfers a part of a holding to Bob. */
export const transfer = (contractId: string, amount: string): Command => ({
  exercise: {
    templateId: 'Token:Holding',
    contractId,
    choice: 'Transfer',
    arguments: { receiver: BOB, amount },
  },
})

/** Lets holdings of an asset be moved, up to a cap, and looked at. */
export const upTo = (amount: string, { issuer, symbol }: Pick<Dripped, 'issuer' | 'symbol'>): Policy => ({
  allow: [{ templateId: 'Token:Holding', actions: ['exercise'] }],
  spend: [{ asset: { issuer, symbol }, amount }],
  query: { templateIds: ['Token:Holding'] },
})

/** A new user with an embedded wallet and some tokens; `mine` calls for the user. */
export async function newHolder(client: HalfkeyClient, clientFor: (userId: string) => HalfkeyClient) {
  const user = await client.users.create()
  const mine = clientFor(user.id)
  const wallet = await mine.wallet.create()
  const dripped = await client.dev.faucet({ userId: user.id, symbol: 'USDX', amount: '100' })
  return { user, mine, wallet, dripped }
}

/** Lists, reads, freezes and unfreezes the wallet of a user. */
export async function useWallets(client: HalfkeyClient, mine: HalfkeyClient, wallet: Wallet): Promise<void> {
  expect(wallet).toMatchObject({ custody: 'embedded', status: 'ready' })
  expect(await mine.wallet.get()).toEqual(wallet)
  expect(await client.wallets.get(wallet.id)).toEqual(wallet)
  expect(await client.users.wallet(wallet.userId)).toEqual(wallet)
  expect((await mine.users.me()).id).toBe(wallet.userId)
  const onboarded = { walletId: wallet.id, partyId: wallet.partyId, state: 'ready', toSign: [] }
  expect(await mine.wallets.onboarding(wallet.id)).toMatchObject(onboarded)
  expect(await client.wallets.holdings(wallet.id, { pageSize: 10 })).toMatchObject({
    state: 'current',
    nextCursor: null,
  })
  // A server may sign for its users only where the app lets it.
  const signing = mine.wallets.signOnboarding(wallet.id, { signatures: ['00'.repeat(64)] })
  await expect(signing).rejects.toMatchObject({ code: 'user_session_required' })
  expect((await client.wallets.list({ userId: wallet.userId, custody: 'embedded' })).data).toEqual([wallet])
  const asset = { issuer: `issuer::${wallet.partyId.split('::')[1]}`, symbol: 'USDX' }
  const set = await client.wallets.setBudgets(wallet.id, { budgets: [{ asset, amount: '10', window: 'day_utc' }] })
  expect(set.budgets).toMatchObject([{ asset, amount: '10', setBy: 'server', remaining: '10', resetsAt: null }])
  expect(await mine.wallets.budgets(wallet.id)).toEqual(set)
  expect((await client.wallets.setBudgets(wallet.id, { budgets: [] })).budgets).toEqual([])
  expect((await client.wallets.freeze(wallet.id)).status).toBe('frozen')
  expect((await client.wallets.unfreeze(wallet.id)).status).toBe('ready')
}

/** Everything that can be done with a delegated session and what it executes. */
export async function useDelegatedSessions(
  client: HalfkeyClient,
  mine: HalfkeyClient,
  dripped: Dripped,
  delegateOf: (delegateToken: string) => HalfkeyClient,
): Promise<void> {
  const { token, ...session } = await mine.delegatedSessions.create({ name: 'Agent', policy: upTo('10', dripped) })
  const { id } = session
  const agent = delegateOf(token).delegatedSessions
  await useOffers(client, delegateOf(token), session)
  expect(await client.delegatedSessions.get(id)).toEqual(session)
  expect((await client.delegatedSessions.list({ userId: session.userId })).data).toEqual([session])

  const commands = [transfer(dripped.contractId, '3')]
  const dry = await agent.dryRun(id, commands)
  expect(dry).toMatchObject({ status: 'dry_run', transactionId: null, decision: { allowed: true, rule: 'allow[0]' } })
  const done = await agent.execute(id, { commandId: 'order-1', commands })
  expect(done).toMatchObject({ status: 'completed', commandId: 'order-1' })
  expect(done.remaining.spend[0]?.remaining).toBe('7')
  expect(await agent.execute(id, { commandId: 'order-1', commands })).toEqual(done)
  const transaction = await client.transactions.get(done.transactionId as string)
  expect(transaction).toMatchObject({ status: 'completed', updateId: done.updateId, effects: done.effects })
  const { effects: _, ...summary } = transaction
  const { wallet, remaining, ...own } = await agent.me()
  const { budgets, ...left } = remaining
  expect({ ...own, remaining: left }).toEqual(await client.delegatedSessions.get(id))
  expect(budgets).toEqual([])
  expect(wallet).toMatchObject({ id: session.walletId, custody: 'embedded', status: 'ready' })
  expect((await agent.transactions({ commandId: 'order-1' })).data).toEqual([summary])
  expect(await agent.transaction(transaction.id)).toEqual({ ...transaction, approval: null })
  expect((await client.transactions.list({ delegatedSessionId: id, commandId: 'order-1' })).data).toEqual([summary])

  const { contracts, nextCursor } = await agent.query(id, { templateIds: ['Token:Holding'] })
  expect(contracts.map((contract) => contract.arguments.amount)).toEqual(['97'])
  expect(nextCursor).toBeNull()

  const refused = agent.execute(id, { commands: [transfer(contracts[0]?.contractId as string, '8')] })
  await expect(refused).rejects.toMatchObject({ code: 'spend_limit_exceeded' })
  const { data: denials } = await client.delegatedSessions.denials(id)
  expect(denials).toMatchObject([{ sessionId: id, rule: 'spend[0]', asked: '8', remaining: '7' }])
  expect((await client.denials.list({ walletId: session.walletId })).data).toEqual(denials)
  expect((await client.delegatedSessions.validate(session.policy)).valid).toBe(true)
  expect(await agent.revoke(id)).toMatchObject({ status: 'revoked', inFlight: [] })
  await expect(agent.query(id)).rejects.toMatchObject({ status: 410, code: 'delegated_session_revoked' })

  const again = () => mine.delegatedSessions.create({ policy: upTo('10', dripped) })
  const [one, two] = [await again(), await again()]
  const ended = await mine.wallets.revokeSessions(session.walletId)
  expect(ended).toEqual({ revoked: 2, inFlight: [], moreInFlight: false })
  const three = await again()
  expect((await client.apps.revokeSessions(session.appId)).revoked).toBeGreaterThanOrEqual(1)
  for (const { id: other } of [one, two, three])
    expect((await client.delegatedSessions.get(other)).status).toBe('revoked')
}

/** Offers are of ledgers that are followed, which this one is not. */
async function useOffers(client: HalfkeyClient, { wallets }: HalfkeyClient, { id, walletId }: DelegatedSession) {
  const offer = `ofr_${walletId.slice(4)}`
  const listing = client.wallets.transferOffers(walletId, { direction: 'incoming', pageSize: 10 })
  await expect(listing).rejects.toMatchObject({ status: 409, code: 'offers_unavailable' })
  const unknown = { status: 404, code: 'not_found' }
  await expect(client.wallets.transferOffer(walletId, offer)).rejects.toMatchObject(unknown)
  for (const answer of [wallets.acceptOffer, wallets.rejectOffer, wallets.withdrawOffer])
    await expect(answer(walletId, offer, { delegatedSessionId: id, contractId: '00' })).rejects.toMatchObject(unknown)
}

/** A session asks its owner, who refuses once and approves once: on a day on which their passkey is old enough. */
export async function useApprovals(
  client: HalfkeyClient,
  owner: HalfkeyClient,
  delegateOf: (delegateToken: string) => HalfkeyClient,
  assertionOf: (options: object) => never,
): Promise<void> {
  const { userId } = await owner.wallet.create()
  const { issuer, symbol, contractId } = await client.dev.faucet({ userId, symbol: 'USDX', amount: '7' })
  const asset = { issuer, symbol }
  const others = [userId, (await client.users.create({})).id]
  const requireApproval = [
    { asset, above: '5' },
    { asset, above: '6', approvers: { users: others, threshold: 1 } },
  ]
  const policy = { ...upTo('10', { issuer, symbol }), requireApproval }
  const { id, token } = await owner.delegatedSessions.create({ policy })
  const agent = delegateOf(token).delegatedSessions
  const ask = async (commandId: string) => {
    const done = await agent.execute(id, { commandId, commands: [transfer(contractId, '7')] })
    if (done.approval === null) throw new Error(`nothing to approve: ${done.status}`)
    return done.approval.id
  }
  const first = await ask('lunch')
  const refused = await owner.approvals.deny(first, { reason: 'Too much.' })
  expect(refused).toMatchObject({ id: first, status: 'denied', reason: 'Too much.' })
  await expect(ask('lunch')).rejects.toMatchObject({ status: 403, code: 'approval_denied' })
  const second = await ask('dinner')
  const shown = await owner.approvals.get(second)
  expect(shown).toMatchObject({ status: 'pending', costs: [{ amount: '7' }], recipients: [BOB] })
  expect((await client.approvals.get(second)).publicKey).toBeNull()
  const approved = await owner.approvals.approve(second, { credential: assertionOf(shown.publicKey as object) })
  expect(approved).toMatchObject({ id: second, status: 'executed', approvedBy: [{ userId }], decidedBy: userId })
  expect((await owner.approvals.list({ role: 'approver', status: 'executed' })).data).toEqual([approved])
  expect((await owner.approvals.list()).data.map((one) => one.id)).toEqual([second, first])
  await usePolicies(owner, approved.walletId, policy)
  expect((await client.approvals.list({ userId, status: 'denied' })).data).toEqual([refused])
}

/** The address book of an owner who has paid once, and what other policies would have said of that. */
async function usePolicies(owner: HalfkeyClient, walletId: string, policy: Policy): Promise<void> {
  const entry = await owner.wallets.addRecipient(walletId, { recipient: BOB, label: 'Bob' })
  expect((await owner.wallets.recipients(walletId)).recipients).toEqual([entry])
  expect(await owner.wallets.removeRecipient(walletId, entry.id)).toEqual(entry)
  const conditions: PolicySessionCondition[] = [{ recipients: 'address_book' }]
  const { words, warnings } = await owner.policies.validate({ policy: { ...policy, conditions }, expiresInSeconds: 60 })
  expect(words.map(({ rule }) => rule)).toContain('conditions[0]')
  expect(warnings).toEqual([])
  const { refused, transactions } = await owner.policies.simulate({ policy: { ...policy, conditions }, walletId })
  expect(refused).toBe(1)
  expect(transactions[0]).toMatchObject({ commandId: 'dinner', verdict: 'refused', rule: 'conditions[0]' })
}

/** Declares a template, once. */
export async function useTemplates(client: HalfkeyClient): Promise<void> {
  const declared = await client.templates.create({
    templateId: 'Shop:Voucher',
    fields: { shop: { type: 'party' }, holder: { type: 'party' }, value: { type: 'amount' } },
    signatories: ['shop'],
    observers: ['holder'],
    choices: { Redeem: { controllers: ['holder'] } },
  })
  expect(await client.templates.get('Shop:Voucher')).toEqual(declared)
  expect((await client.templates.list()).data).toEqual([declared])
  await expect(client.templates.get('Token:Holding')).rejects.toMatchObject({ code: 'not_found' })
}

/** A wallet whose key stays with its user, and a session on it for which the user signs. */
export async function useOwnKey(
  client: HalfkeyClient,
  clientOf: ClientOf,
  delegateOf: (delegateToken: string) => HalfkeyClient,
): Promise<void> {
  const guest = await client.guests.create()
  const mine = clientOf(guest.accessToken)
  const { privateKey } = generateKeyPairSync('ed25519')
  const { x = '' } = createPublicKey(privateKey).export({ format: 'jwk' })
  const publicKey = Buffer.from(x, 'base64url').toString('hex')
  const { challengeId, message } = await mine.wallet.challenge({ custody: 'self_custody', publicKey })
  const proof = sign(null, Buffer.from(message), privateKey).toString('hex')
  const wallet = await mine.wallet.create({ custody: 'self_custody', publicKey, challengeId, proof })
  expect(wallet).toMatchObject({ custody: 'self_custody', publicKey, status: 'ready' })

  const dripped = await client.dev.faucet({ userId: guest.userId, symbol: 'USDX', amount: '5' })
  const { id, token } = await mine.delegatedSessions.create({ policy: upTo('5', dripped) })
  const agent = delegateOf(token).delegatedSessions
  const commands = [transfer(dripped.contractId, '2')]
  const asked = await agent.execute(id, { commands, commandId: 'rent' })
  const request = asked.signingRequest
  if (request === null) throw new Error(`nothing to sign: ${asked.status}`)
  const { digest, ...prepared } = await readPreparedTransaction(request.preparedTransaction)
  expect(Buffer.from(digest).toString('hex')).toBe(request.digest)
  expect(prepared).toMatchObject({ commandId: `${id}/rent`, actAs: wallet.partyId, commands, effects: asked.effects })
  expect(prepared.expiresAt).toBe(request.expiresAt)

  const signature = sign(null, digest, privateKey).toString('base64')
  const done = await agent.execute(id, { signingRequestId: request.id, signature })
  expect(done).toMatchObject({ transactionId: request.id, status: 'completed', signingRequest: null })
}
