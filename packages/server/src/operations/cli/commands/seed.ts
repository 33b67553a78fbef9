import { makeDelegations } from '../../seed/agents.ts'
import { makeGuests, makeSignIns, makeUsers, makeWallets } from '../../seed/crowd.ts'
import { countDeliveries, makeDeliveries } from '../../seed/deliveries.ts'
import { makeHistory } from '../../seed/history.ts'
import { describe, listen, pause } from '../../seed/listen.ts'
import { isMarked, STATE } from '../../seed/mark.ts'
import { createDice } from '../../seed/people.ts'
import { startSampleReceiver } from '../../seed/receiver.ts'
import { type Removed, removeSample } from '../../seed/remove.ts'
import { makeSample, type Seeding } from '../../seed/sample.ts'
import { all, type SeededService, withService } from '../../seed/service.ts'
import { type CliContext, CommandError, defineCommand, type Result, UsageError, wholeNumber } from '../command.ts'

const USERS_DEFAULT = 60
const [USERS_MIN, USERS_MAX] = [10, 1_000]
const SEED_MAX = 2 ** 32 - 1

interface Options {
  users: number
  /** The same number always creates the same people and actions. */
  number: number
  listen: boolean
}

/** @returns what was made, in figures; `history`: whether the past was written too */
async function fill({ api, deps, tenantId }: SeededService, options: Options, seeding: Seeding) {
  const { receiver, progress } = seeding
  const sample = await makeSample(seeding)
  const members = await makeUsers(seeding, sample, options.users)
  const signedIn = await makeSignIns(seeding, members)
  const { holders, others } = await makeWallets(seeding, members, signedIn)
  const { guests, converted } = await makeGuests(seeding, sample, options.users)
  const delegated = await makeDelegations(seeding, holders)
  await makeDeliveries(seeding, sample)
  const users = members.map(({ user }) => user)
  if (deps !== null) await makeHistory(deps, seeding, { tenantId, sample, users })
  for (const { id } of [sample.shop, sample.courier]) await api.apps.update(id, { metadata: { [STATE]: 'filled' } })
  // Of the past, and of the state.
  const deliveries = await countDeliveries(seeding, sample, deps === null ? 1 : 2)
  progress.end()
  return {
    users: members.length + converted,
    guests,
    passkeys: signedIn.length,
    wallets: holders.length + others.length,
    ...delegated,
    deliveries,
    eventsVerified: receiver.verified(),
    eventsRefused: receiver.refused(),
    history: deps !== null,
  }
}

type Made = Awaited<ReturnType<typeof fill>>

function describeMade(made: Made, url: string, listens: boolean): string[] {
  const { succeeded, retrying, deadLetters } = made.deliveries
  return [
    `Created sample data at ${url}, all of it in the apps "Corner Shop (sample)" and "Night Courier (sample)":`,
    `  ${made.users} users (${made.passkeys} with a passkey) and ${made.guests} guests, ${made.wallets} wallets`,
    `  ${made.sessions} delegated sessions, ${made.transactions} transactions, ${made.denied} refused by policies`,
    `  ${succeeded + retrying + deadLetters} signed deliveries: ${succeeded} succeeded, ${retrying} being retried, ${deadLetters} dead letters`,
    ...(made.history
      ? ['  90 days of analytics, of which only today is real']
      : ["  no analytics of past days: the service's database cannot be reached from here"]),
    `Look at it:              ${url}/dashboard   (for a sign-in link: halfkey dashboard link)`,
    ...(listens ? [] : ['Receive the events:      halfkey seed --listen']),
    'Delete all of it:        halfkey seed --remove',
  ]
}

function describeRemoved(removed: Removed): string[] {
  const { apps, users, guests, webhooks, domains, keys, historyDays, kept } = removed
  if ([apps, users, guests, webhooks, domains, keys, historyDays, kept.length].every((n) => n === 0))
    return ['There is no sample data here.']
  return [
    `Removed ${apps} apps, ${users} users, ${guests} guests, ${webhooks} webhooks, ${domains} custom domains, ${keys} API keys` +
      `${historyDays > 0 ? `, ${historyDays} days of counters` : ''}.`,
    ...kept.map(({ id, name, why }) => `Kept ${name} (${id}), because you use it now: ${why}.`),
    "These stay: the audit log and events, as always; the template and the ledger's records; today's counters.",
  ]
}

/** The progress of an earlier seed; undefined if there is none. */
async function stateOf({ api }: SeededService): Promise<'filled' | 'unfinished' | undefined> {
  const apps = (await all(api.apps.list)).filter(isMarked)
  if (apps.length === 0) return undefined
  return apps.length > 1 && apps.every(({ metadata }) => metadata[STATE] === 'filled') ? 'filled' : 'unfinished'
}

const UNFINISHED = 'An earlier seed was interrupted. Delete its data with: halfkey seed --remove. Then run this again.'

async function fillOnce(service: SeededService, options: Options, context: CliContext): Promise<Result> {
  const state = await stateOf(service)
  if (state === 'unfinished') throw new CommandError(UNFINISHED)
  let listening = false
  const receiver = await startSampleReceiver((event) => {
    if (!listening) return
    context.out(context.json ? JSON.stringify({ kind: 'received', ...event }) : describe(event, new Date()))
  })
  const { api, connect, url, tenantId } = service
  const { progress } = context
  try {
    const made =
      state === undefined
        ? await fill(service, options, { api, connect, dice: createDice(options.number), progress, receiver })
        : null
    const lines =
      made === null
        ? ['Sample data already exists, so nothing was added. To create it again, first run: halfkey seed --remove']
        : describeMade(made, url, options.listen)
    const data = { tenantId, url, seeded: made !== null, ...made }
    if (!options.listen) {
      if (made !== null) await pause(api)
      return { data, lines }
    }
    for (const line of lines) context.err(line)
    await service.closeDatabase()
    listening = true
    const before = receiver.verified()
    await listen(api, receiver, context)
    const count = receiver.verified() - before
    return { data: { ...data, received: count }, lines: [`Received ${count} signed events while listening.`] }
  } finally {
    await receiver.close()
  }
}

/** `halfkey seed` */
export const seed = defineCommand({
  name: 'seed',
  summary: 'Fill a development service with sample data, or delete that data again',
  details: `Creates two apps with users, passkeys, wallets, delegated sessions, transactions, API keys, and webhooks with deliveries, retries and dead letters, all through the API. Writes 90 days of analytics into the database.
Calls the service at HALFKEY_URL, or the one that runs in this folder, with HALFKEY_KEY, a secret key with the scope *. Without a key, run it where the service's database can be reached: it creates a temporary key and revokes it.
Refused in production.`,
  options: (command) =>
    command
      .option(
        '--users <count>',
        `how many users (default: ${USERS_DEFAULT})`,
        wholeNumber('--users', USERS_MIN, USERS_MAX),
      )
      .option(
        '--seed <number>',
        'the same number creates the same people (default: 1)',
        wholeNumber('--seed', 0, SEED_MAX),
      )
      .option('--tenant <id>', 'the tenant')
      .option(
        '--listen',
        'then receive the events of the sample webhooks: print each one whose signature is valid, until Ctrl-C',
      )
      .option('--remove', 'delete what a seed created, even if it was interrupted, and nothing else'),
  async run({ users, seed: number, tenant, listen = false, remove = false }, context): Promise<Result> {
    if (remove && (listen || users !== undefined || number !== undefined))
      throw new UsageError('--remove can be combined with --tenant only.')
    const options = { users: users ?? USERS_DEFAULT, number: number ?? 1, listen }
    return withService(context, tenant, async (service): Promise<Result> => {
      if (!remove) return fillOnce(service, options, context)
      const removed = await removeSample(service, context.progress)
      return { data: { tenantId: service.tenantId, removed }, lines: describeRemoved(removed) }
    })
  },
})
