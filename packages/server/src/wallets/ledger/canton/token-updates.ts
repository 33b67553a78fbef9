import { createHash } from 'node:crypto'
import { z } from 'zod'
import { LedgerError } from '../../../platform/ports/ledger.ts'
import {
  type Holding,
  type Offer,
  PlaceLost,
  type TokenPage,
  type TokenPlace,
  type Tokens,
  type TokenUpdate,
} from '../../../platform/ports/tokens.ts'
import { Checkpoint, Offset, readLedgerEnd } from './completions.ts'
import { bothOf, Created, filterOf, holdingOf, type Rules } from './holdings.ts'
import { createOutcomes, TRIES } from './offer-outcomes.ts'
import { answerOf, offerOf } from './offers.ts'
import { ParticipantError } from './participant.ts'
import type { Parts } from './parts.ts'
import { askAt, asking, PRUNED, unreadIn } from './refusals.ts'
import type { CantonSettings } from './settings.ts'

/** How many updates, or contracts, are asked for at once: the participant's own limit, unless its operator has raised it. */
const PAGE = 200
/**
 * How much is looked at for one party, its holdings or not: whoever sends it contracts decides how many there are. What is followed
 * afterwards may be more.
 */
const CONTRACTS_MAX = 100_000
const PAGES_MAX = 1_000
/**
 * How many offsets before the place are read again: a participant that was restored while nobody looked gives them anew. What is
 * known already changes nothing.
 */
const LOOK_BACK = 100_000

/** What is said of a contract that is none of ours to judge is not looked at before its views are. */
const Contract = z.object({ contractId: z.string(), interfaceViews: z.unknown() })
const Entry = z.object({
  contractEntry: z.union([
    z.object({ JsActiveContract: z.object({ createdEvent: Contract.loose(), synchronizerId: z.string() }) }),
    // In the middle of a move between synchronizers: not usable here.
    z.object({ JsEmpty: z.unknown() }),
    z.object({ JsIncompleteAssigned: z.unknown() }),
    z.object({ JsIncompleteUnassigned: z.unknown() }),
  ]),
})
const ContractsPage = z.object({ activeContracts: z.array(Entry).nullish(), nextPageToken: z.string().nullish() })

const Event = z.union([
  z.object({ CreatedEvent: Contract.loose() }),
  z.object({ ArchivedEvent: z.object({ contractId: z.string() }) }),
])
const Moved = z.union([
  z.object({ JsAssignmentEvent: z.object({ target: z.string(), createdEvent: Contract.loose() }) }),
  z.object({ JsUnassignedEvent: z.object({ value: z.object({ source: z.string(), contractId: z.string() }) }) }),
])
const common = { updateId: z.string().min(1).max(255), offset: Offset, recordTime: z.iso.datetime() }
const Update = z.object({
  update: z.union([
    z.object({
      Transaction: z.object({
        value: z.object({ ...common, synchronizerId: z.string(), events: z.array(Event).nullish() }),
      }),
    }),
    z.object({ Reassignment: z.object({ value: z.object({ ...common, events: z.array(Moved).nullish() }) }) }),
    z.object({ OffsetCheckpoint: z.object({ value: Checkpoint }) }),
  ]),
})
type Update = z.infer<typeof Update>['update']

/** What contracts show. */
interface Found {
  holdings: Holding[]
  offers: Offer[]
}

/** Takes a contract in. One that is not as the API describes it counts as nothing: it must not stop all that follow. */
function readContract(rules: Rules, contract: unknown, { holdings, offers }: Found): void {
  const read = Created.safeParse(contract)
  const [holding, offer] = read.success ? [holdingOf(rules, read.data), offerOf(rules, read.data)] : [null, null]
  if (holding !== null) holdings.push(holding)
  if (offer !== null) offers.push(offer)
}

/** Takes in the contracts that are active. */
function readActive({ settings }: Parts, rules: Rules, entries: readonly z.infer<typeof Entry>[], found: Found): void {
  for (const { contractEntry: each } of entries)
    if ('JsActiveContract' in each && each.JsActiveContract.synchronizerId === settings.synchronizer)
      readContract(rules, each.JsActiveContract.createdEvent, found)
}

const tooMany = (what: string) =>
  new LedgerError('arguments_invalid', `What the party has cannot be read at once: there are ${what}.`)

type ContractsPage = z.infer<typeof ContractsPage>

/** A page of contracts, with as many as can be read at once. `left`: how many milliseconds there are for an answer. */
async function readContracts({ participant }: Parts, body: object, left: () => number): Promise<ContractsPage> {
  for (let maxPageSize = PAGE; ; maxPageSize = Math.max(1, Math.floor(maxPageSize / 4))) {
    try {
      return await askAt(() =>
        participant.post('/v2/state/active-contracts-page', { ...body, maxPageSize }, ContractsPage, left()),
      )
    } catch (error) {
      // Before version 3.6 there are no pages.
      if (error instanceof LedgerError && error.cause instanceof ParticipantError && error.cause.status === 404)
        throw tooMany('too many for one answer')
      const unread = unreadIn(error)
      if (unread === 'oversize' && maxPageSize === 1) throw tooMany('contracts larger than an answer')
      if (unread === null || maxPageSize === 1 || left() <= 0) throw error
    }
  }
}

/** The active contracts of an interface that a party sees, in pages if they are many, which takes a participant of version 3.6. */
async function activeOf(
  parts: Parts,
  rules: Rules,
  interfaceId: string,
  { party, offset, maxMs }: { party: string; offset: number; maxMs: number },
): Promise<Found> {
  const until = parts.now().getTime() + maxMs
  const left = () => until - parts.now().getTime()
  const eventFormat = { filtersByParty: { [party]: filterOf([interfaceId]) }, verbose: false }
  const asked = { activeAtOffset: offset, eventFormat }
  const few = await askAt(() =>
    parts.participant.post(`/v2/state/active-contracts?limit=${PAGE}`, asked, z.array(Entry).max(PAGE), left()),
  ).catch((error: unknown) => {
    if (unreadIn(error) !== null && left() > 0) return null
    throw error
  })
  const found: Found = { holdings: [], offers: [] }
  if (few !== null && few.length < PAGE) {
    readActive(parts, rules, few, found)
    return found
  }
  let pageToken: string | null = null
  let looked = 0
  for (let pages = 0; pages < PAGES_MAX; pages += 1) {
    const page = await readContracts(parts, pageToken === null ? asked : { ...asked, pageToken }, left)
    const contracts = page.activeContracts ?? []
    readActive(parts, rules, contracts, found)
    looked += contracts.length
    const next: string | null = page.nextPageToken || null
    if (next === null) return found
    if (next === pageToken) throw tooMany('pages that lead to themselves')
    if (looked >= CONTRACTS_MAX || left() <= 0) break
    pageToken = next
  }
  throw tooMany(`more contracts than are looked at, its own or not (${looked} were)`)
}

interface UpdatesPage {
  page: Update[]
  isFull: boolean
}

/** Up to `limit` updates of a range of offsets. @throws PlaceLost, LedgerError */
async function askUpdates(parts: Parts, rules: Rules, after: number, upTo: number, limit: number) {
  const body = {
    beginExclusive: after,
    endInclusive: upTo,
    updateFormat: {
      includeTransactions: {
        eventFormat: { filtersForAnyParty: bothOf(rules), verbose: false },
        transactionShape: 'TRANSACTION_SHAPE_ACS_DELTA',
      },
      includeReassignments: { filtersForAnyParty: bothOf(rules), verbose: false },
    },
  }
  const page = await askAt(() => parts.participant.post(`/v2/updates?limit=${limit}`, body, z.array(Update)))
  return { page: page.map(({ update }) => update), isFull: page.length >= limit }
}

/** One page of updates, with as many as can be read at once. @throws PlaceLost, LedgerError */
async function readPage(parts: Parts, rules: Rules, after: number, upTo: number): Promise<UpdatesPage> {
  for (let limit = PAGE; ; limit = Math.max(1, Math.floor(limit / 4))) {
    try {
      return await askUpdates(parts, rules, after, upTo, limit)
    } catch (error) {
      if (unreadIn(error) === null || limit === 1) throw error
    }
  }
}

/**
 * The offset of the first update of a range that cannot be read even alone, found by halving; null if it can be by now.
 * @throws LedgerError if the participant does not answer other questions either
 */
async function findUnread(parts: Parts, rules: Rules, after: number, upTo: number) {
  let [from, to] = [after, upTo]
  let tries = 0
  for (;;) {
    const middle = Math.max(from + 1, Math.floor((from + to) / 2))
    try {
      const { page } = await askUpdates(parts, rules, from, middle, 1)
      if (page.length > 0 || middle === to) return null
      from = middle
      tries = 0
    } catch (error) {
      const unread = unreadIn(error)
      if (unread === null) throw error
      to = middle
      tries = middle === from + 1 ? tries + 1 : 0
      if (tries < TRIES) continue
      await readLedgerEnd(parts)
      return { offset: to, unread }
    }
  }
}

const offsetOf = (update: Update): number =>
  'Transaction' in update
    ? update.Transaction.value.offset
    : 'Reassignment' in update
      ? update.Reassignment.value.offset
      : update.OffsetCheckpoint.value.offset

/** What an update did on our synchronizer; null for none of its doing. */
function readUpdate({ settings: { synchronizer } }: Parts, rules: Rules, update: Update): TokenUpdate | null {
  if ('OffsetCheckpoint' in update) return null
  const value = 'Transaction' in update ? update.Transaction.value : update.Reassignment.value
  const { updateId, offset, recordTime } = value
  const made: Found = { holdings: [], offers: [] }
  const archived: string[] = []
  const known = {
    updateId,
    offset,
    recordedAt: new Date(recordTime),
    created: made.holdings,
    offered: made.offers,
    archived,
  }
  if ('Transaction' in update) {
    if (update.Transaction.value.synchronizerId !== synchronizer) return known
    for (const event of update.Transaction.value.events ?? [])
      if ('CreatedEvent' in event) readContract(rules, event.CreatedEvent, made)
      else archived.push(event.ArchivedEvent.contractId)
    return known
  }
  for (const event of update.Reassignment.value.events ?? [])
    if ('JsUnassignedEvent' in event) {
      const { source, contractId } = event.JsUnassignedEvent.value
      if (source === synchronizer) archived.push(contractId)
    } else if (event.JsAssignmentEvent.target === synchronizer)
      readContract(rules, event.JsAssignmentEvent.createdEvent, made)
  return known
}

/**
 * Whether the last update is where it was; false if the participant does not say: it has pruned it, though nothing that followed.
 * @throws PlaceLost if another update, or none, is there
 */
async function findLast(parts: Parts, rules: Rules, last: NonNullable<TokenPlace['last']>): Promise<boolean> {
  try {
    const { page } = await readPage(parts, rules, last.offset - 1, last.offset)
    if (page.some((update) => readUpdate(parts, rules, update)?.updateId === last.updateId)) return true
  } catch (error) {
    const isPruned = error instanceof PlaceLost && (error.cause as ParticipantError).code === PRUNED
    if (!isPruned && unreadIn(error) === null) throw error
    return false
  }
  throw new PlaceLost('The participant has another update where the last one was.')
}

/** @throws LedgerError unless each update follows the one before it, and none is before the place or past the end */
function requireOrder(page: readonly Update[], from: number, end: number): void {
  let before = from
  for (const update of page) {
    const offset = offsetOf(update)
    // A checkpoint may be where the last update is.
    const isNext = 'OffsetCheckpoint' in update ? offset >= before : offset > before
    if (!isNext || offset > end)
      throw new LedgerError('ledger_unavailable', "The participant's updates are out of order.", { retryable: true })
    before = offset
  }
}

async function updatesAfter(parts: Parts, rules: Rules, place: TokenPlace): Promise<TokenPage> {
  const end = await readLedgerEnd(parts)
  if (end.offset < place.offset) throw new PlaceLost("The participant's ledger ends before what was read of it.")
  const { last } = place
  const isThere = last !== null && (await findLast(parts, rules, last))
  const from = isThere ? Math.max(last.offset, place.offset - LOOK_BACK) : place.offset
  const all = { offset: end.offset, at: end.seenUntil, hasMore: false, skipped: null }
  if (end.offset === place.offset && end.offset === from) return { ...all, updates: [] }
  let read: UpdatesPage
  try {
    read = await readPage(parts, rules, from, end.offset)
  } catch (error) {
    if (unreadIn(error) === null) throw error
    const found = await findUnread(parts, rules, from, end.offset)
    if (found === null) throw error
    const offset = Math.max(found.offset, place.offset)
    return { updates: [], offset, at: null, hasMore: true, skipped: found.unread }
  }
  const { page, isFull } = read
  const updates = page.flatMap((update) => readUpdate(parts, rules, update) ?? [])
  requireOrder(page, from, end.offset)
  const latest = page.at(-1)
  if (!isFull || latest === undefined) return { ...all, updates }
  return { updates, offset: offsetOf(latest), at: updates.at(-1)?.recordedAt ?? null, hasMore: true, skipped: null }
}

/** What counts as a contract of an interface, of each registry, in short. */
function scopesOf({ registries }: Rules, { participant, synchronizer }: CantonSettings, interfaceId: string) {
  const shortOf = (admin: string) =>
    createHash('sha256')
      .update(JSON.stringify([participant, synchronizer, interfaceId, admin]))
      .digest('base64url')
  return new Map(registries.map(({ admin }) => [admin, shortOf(admin)]))
}

/** The tokens of a participant; undefined where the settings name no interface of holdings. */
export function createTokenReader(parts: Parts): Tokens | undefined {
  const { settings } = parts
  const { tokens } = settings
  if (tokens?.holding === undefined) return undefined
  const rules: Rules = { ...tokens, holding: tokens.holding }
  return {
    scopes: scopesOf(rules, settings, rules.holding),
    offerScopes: scopesOf(rules, settings, rules.transferInstruction),
    async end() {
      const { offset, seenUntil } = await asking(() => readLedgerEnd(parts))
      return { offset, at: seenUntil }
    },
    async holdingsOf(party, offset, maxMs) {
      const { holdings } = await activeOf(parts, rules, rules.holding, { party, offset, maxMs })
      return holdings.filter(({ owner }) => owner === party)
    },
    async offersOf(party, offset, maxMs) {
      const { offers } = await activeOf(parts, rules, rules.transferInstruction, { party, offset, maxMs })
      return offers.filter(({ sender, receiver }) => sender === party || receiver === party)
    },
    updatesAfter: (place) => updatesAfter(parts, rules, place),
    outcomesIn: createOutcomes(parts, rules),
    offerTemplateId: rules.transferInstruction,
    answerOf: (contractId, answer) => answerOf(rules, contractId, answer),
  }
}
