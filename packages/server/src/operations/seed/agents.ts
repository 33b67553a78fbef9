import { type Execution, HalfkeyError, type Policy } from '../../../../sdk/src/index.ts'
import type { Holder } from './crowd.ts'
import { makeEach, type Seeding, VOUCHER } from './sample.ts'

/** A sample session, described by its visible properties. */
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

const policyFor = ({ holding: { issuer, symbol } }: Holder, cap: string): Policy => ({
  allow: [{ templateId: HOLDING, actions: ['exercise'], choices: ['Transfer', 'Split', 'Merge'] }],
  deny: [{ templateId: HOLDING, where: [{ path: 'amount', op: 'gt', value: '50' }] }],
  spend: [{ asset: { issuer, symbol }, amount: cap }],
  query: { templateIds: [HOLDING] },
})

/** The holding that a transfer leaves to its sender. */
const restOf = ({ effects }: Execution, party: string): string =>
  effects.find(
    ({ type, templateId, arguments: held }) => type === 'created' && templateId === HOLDING && held.owner === party,
  )?.contractId ?? ''

const isDenied = (error: unknown) =>
  error instanceof HalfkeyError && ['spend_limit_exceeded', 'policy_denied'].includes(error.code)

/** Makes a session's transfers. They go to another sample holder, so that nothing leaves the sample. @returns the number refused */
async function play({ api }: Seeding, story: Story, from: Holder, to: Holder): Promise<number> {
  const { cap, spends, expiresInDays = 1, denied, revoked, ...about } = story
  const { id } = await from.api.delegatedSessions.create({
    ...about,
    policy: policyFor(from, cap),
    expiresInSeconds: expiresInDays * DAY_SECONDS,
  })
  let contractId = from.holding.contractId
  const transfer = (amount: string) => {
    const given = { receiver: to.wallet.partyId, amount }
    const exercise = { templateId: HOLDING, contractId, choice: 'Transfer', arguments: given }
    return api.delegatedSessions.execute(id, { commands: [{ exercise }] })
  }
  for (const amount of spends) contractId = restOf(await transfer(amount), from.wallet.partyId)
  if (revoked) await api.delegatedSessions.revoke(id)
  if (denied === undefined) return 0
  return transfer(denied).then(
    () => 0,
    (error: unknown) => {
      if (isDenied(error)) return 1
      throw error
    },
  )
}

const VOUCHERS = [
  { value: '5', note: 'Welcome' },
  { value: '12.5', note: 'Thank you for your patience' },
]

/** A session that writes vouchers by the tenant's own template, in one transaction. */
async function writeVouchers({ api }: Seeding, { api: own, wallet, holding: { issuer } }: Holder): Promise<void> {
  const { id } = await own.delegatedSessions.create({
    name: 'Voucher printer',
    policy: { allow: [{ templateId: VOUCHER }], query: { templateIds: [VOUCHER] } },
    expiresInSeconds: 30 * DAY_SECONDS,
  })
  const commands = VOUCHERS.map((voucher) => ({
    create: { templateId: VOUCHER, arguments: { issuer, owner: wallet.partyId, ...voucher } },
  }))
  await api.delegatedSessions.execute(id, { commands })
}

/** Delegated sessions in every state that needs no waiting, with their transactions. One wallet is frozen, one user suspended. */
export async function makeDelegations(seeding: Seeding, holders: readonly Holder[]) {
  // The last holder's wallet is frozen: no session uses it.
  const active = holders.slice(0, -1)
  const [last, writer] = [holders.at(-1), active.at(-1)]
  if (last === undefined || writer === undefined) throw new Error('a seed has at least two holders')
  const played = STORIES.slice(0, active.length)
  const refused = await makeEach(seeding, 'Delegated sessions', played, (story, index) =>
    play(seeding, story, active[index] as Holder, active[(index + 1) % active.length] as Holder),
  )
  await writeVouchers(seeding, writer)
  await seeding.api.wallets.freeze(last.wallet.id)
  await seeding.api.users.update(last.user.id, { status: 'suspended' })
  return {
    sessions: played.length + 1,
    transactions: played.flatMap(({ spends }) => spends).length + 1,
    denied: refused.reduce((sum, n) => sum + n, 0),
  }
}
