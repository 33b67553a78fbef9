import type { DelegatedSessionWithToken, Execution } from '../../delegation/schema.ts'
import type { Dripped } from '../../wallets/faucet/schema.ts'
import { CallError } from './api.ts'
import type { Holder } from './crowd.ts'
import { type Seeding, VOUCHER } from './sample.ts'

/** A sample session, by what is to be seen of it. */
interface Story {
  name: string
  /** What it may spend. */
  cap: string
  /** What it spends, transfer by transfer. */
  spends: string[]
  maxUses?: number
  expiresInDays?: number
  /** A further transfer that the policy refuses. */
  denied?: string
  revoked?: true
}

const STORIES: readonly Story[] = [
  { name: 'Shopping agent', cap: '40', spends: ['3.5', '7.25', '1.2'], expiresInDays: 7 },
  { name: 'Monthly subscription', cap: '30', spends: ['9.99'], expiresInDays: 30 },
  // Nearly used up: 0.75 of 20 left.
  { name: 'Tip jar', cap: '20', spends: ['5', '6.25', '8'], expiresInDays: 3 },
  { name: 'Lunch for two', cap: '25', spends: ['11', '12.4'], maxUses: 2 },
  { name: 'Round-up savings', cap: '15', spends: ['0.4', '0.85', '0.1', '0.66'], maxUses: 100, expiresInDays: 30 },
  { name: 'Old phone', cap: '50', spends: ['2'], revoked: true },
  { name: 'Price watcher', cap: '10', spends: ['4'], denied: '9' },
  { name: 'Parcel insurance', cap: '12', spends: ['2.5', '2.5'], expiresInDays: 14 },
  { name: 'Refund bot', cap: '35', spends: ['20'], expiresInDays: 1, denied: '60' },
]

const DAY_SECONDS = 86_400
const HOLDING = 'Token:Holding'

/** What came of the sessions. */
export interface Delegated {
  sessions: number
  transactions: number
  denied: number
}

const policyFor = ({ issuer, symbol }: Dripped, cap: string) => ({
  allow: [{ templateId: HOLDING, actions: ['exercise'], choices: ['Transfer', 'Split', 'Merge'] }],
  deny: [{ templateId: HOLDING, where: [{ path: 'amount', op: 'gt', value: '50' }] }],
  spend: [{ asset: { issuer, symbol }, amount: cap }],
  query: { templateIds: [HOLDING] },
})

/** The holding that is left to the party, out of what a transfer did. */
function restOf({ effects }: Execution, party: string): string | undefined {
  return effects.find(({ type, templateId, arguments: held }) => {
    return type === 'created' && templateId === HOLDING && held.owner === party
  })?.contractId
}

const isDenied = (error: unknown) =>
  error instanceof CallError && ['spend_limit_exceeded', 'policy_denied'].includes(error.code)

/** Plays a session's story: its transfers go to another holder, so that nothing leaves the sample. */
async function play({ api }: Seeding, story: Story, from: Holder, to: Holder): Promise<Delegated> {
  const { name, cap, spends, maxUses, expiresInDays = 1, denied } = story
  const session = await from.api.post<DelegatedSessionWithToken>('/delegated-sessions', {
    name,
    policy: policyFor(from.holding, cap),
    expiresInSeconds: expiresInDays * DAY_SECONDS,
    ...(maxUses === undefined ? {} : { maxUses }),
  })
  let contractId: string | undefined = from.holding.contractId
  const transfer = (amount: string) => {
    const given = { receiver: to.wallet.partyId, amount }
    const exercise = { templateId: HOLDING, contractId, choice: 'Transfer', arguments: given }
    return api.post<Execution>(`/delegated-sessions/${session.id}/execute`, { commands: [{ exercise }] })
  }
  for (const amount of spends) contractId = restOf(await transfer(amount), from.wallet.partyId)
  let refused = 0
  if (denied !== undefined) {
    await transfer(denied).catch((error: unknown) => {
      if (!isDenied(error)) throw error
      refused = 1
    })
  }
  if (story.revoked === true) await api.delete(`/delegated-sessions/${session.id}`)
  return { sessions: 1, transactions: spends.length, denied: refused }
}

/** A session that writes vouchers by the tenant's own template. */
async function writeVouchers({ api }: Seeding, { api: own, wallet, holding }: Holder): Promise<Delegated> {
  const session = await own.post<DelegatedSessionWithToken>('/delegated-sessions', {
    name: 'Voucher printer',
    policy: { allow: [{ templateId: VOUCHER }], query: { templateIds: [VOUCHER] } },
    expiresInSeconds: 30 * DAY_SECONDS,
  })
  const commands = [
    ['5', 'Welcome'],
    ['12.5', 'Thank you for your patience'],
  ].map(([value, note]) => ({
    create: { templateId: VOUCHER, arguments: { issuer: holding.issuer, owner: wallet.partyId, value, note } },
  }))
  await api.post(`/delegated-sessions/${session.id}/execute`, { commands })
  return { sessions: 1, transactions: 1, denied: 0 }
}

/** Delegated sessions in every state that takes no waiting, with what they did; one wallet is frozen, one user suspended. */
export async function makeDelegations(seeding: Seeding, holders: readonly Holder[]): Promise<Delegated> {
  const { api, progress } = seeding
  const sum: Delegated = { sessions: 0, transactions: 0, denied: 0 }
  const add = (one: Delegated) => {
    sum.sessions += one.sessions
    sum.transactions += one.transactions
    sum.denied += one.denied
    progress.add(1)
  }
  // The last holder's wallet is to be frozen: nothing acts for it.
  const [last, ...rest] = [...holders].reverse()
  const active = rest.reverse()
  const played = STORIES.slice(0, active.length)
  progress.begin('Delegated sessions', played.length + 1)
  for (const [index, story] of played.entries()) {
    const [from, to] = [active[index], active[(index + 1) % active.length]]
    if (from !== undefined && to !== undefined) add(await play(seeding, story, from, to))
  }
  const writer = active.at(-1)
  if (writer !== undefined) add(await writeVouchers(seeding, writer))
  if (last !== undefined) {
    await api.post(`/wallets/${last.wallet.id}/freeze`)
    await api.patch(`/users/${last.user.id}`, { status: 'suspended' })
  }
  return sum
}
