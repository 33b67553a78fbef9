import { z } from 'zod'
import { LedgerError } from '../../../platform/ports/ledger.ts'
import {
  type Holding,
  PlaceLost,
  type TokenPage,
  type TokenPlace,
  type Tokens,
  type TokenUpdate,
} from '../../../platform/ports/tokens.ts'
import { Checkpoint, Offset, readLedgerEnd } from './completions.ts'
import { Created, holdingOf } from './holdings.ts'
import { ParticipantError } from './participant.ts'
import type { Parts } from './parts.ts'
import { asking, asLedgerError } from './refusals.ts'
import type { CantonSettings } from './settings.ts'

/** How many updates, or contracts, are asked for at once: the participant's own limit, unless its operator has raised it. */
const PAGE = 200
/** How many holdings of one party are read at once, in pages. What is followed afterwards may be more. */
const HOLDINGS_MAX = 100_000
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

type Rules = NonNullable<CantonSettings['tokens']> & { holding: string }

const filterOf = ({ holding }: Rules) => ({
  cumulative: [
    {
      identifierFilter: {
        InterfaceFilter: {
          value: { interfaceId: holding, includeInterfaceView: true, includeCreatedEventBlob: false },
        },
      },
    },
  ],
})

/** Contracts that are not as the API describes them count as no holdings: one of them must not stop all that follow. */
function readHolding(rules: Rules, contract: unknown): Holding[] {
  const read = Created.safeParse(contract)
  const holding = read.success ? holdingOf(rules, read.data) : null
  return holding === null ? [] : [holding]
}

const LOST = new Set(['OFFSET_AFTER_LEDGER_END', 'OFFSET_OUT_OF_RANGE', 'PARTICIPANT_PRUNED_DATA_ACCESSED'])

/** Asks for something at an offset. @throws PlaceLost, LedgerError */
async function askAt<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask()
  } catch (error) {
    if (error instanceof ParticipantError && LOST.has(error.code))
      throw Object.assign(new PlaceLost(error.message), { cause: error })
    throw asLedgerError(error, { changesNothing: true })
  }
}

function activeIn({ settings }: Parts, rules: Rules, entries: readonly z.infer<typeof Entry>[]): Holding[] {
  return entries.flatMap(({ contractEntry: each }) =>
    'JsActiveContract' in each && each.JsActiveContract.synchronizerId === settings.synchronizer
      ? readHolding(rules, each.JsActiveContract.createdEvent)
      : [],
  )
}

const tooMany = () =>
  new LedgerError('arguments_invalid', `The party has more holdings than can be read at once: ${HOLDINGS_MAX}.`)

/** All active holdings of a party, in pages if they are many, which takes a participant of version 3.6. */
async function holdingsOf(parts: Parts, rules: Rules, party: string, offset: number): Promise<Holding[]> {
  const { participant } = parts
  const eventFormat = { filtersByParty: { [party]: filterOf(rules) }, verbose: false }
  const few = await askAt(() =>
    participant
      .post(
        `/v2/state/active-contracts?limit=${PAGE}`,
        { activeAtOffset: offset, eventFormat },
        z.array(Entry).max(PAGE),
      )
      .catch((error: unknown) => {
        if (error instanceof ParticipantError && error.status === 413) return null
        throw error
      }),
  )
  if (few !== null && few.length < PAGE) return activeIn(parts, rules, few).filter(({ owner }) => owner === party)
  const all: Holding[] = []
  let pageToken: string | null = null
  do {
    const body = {
      activeAtOffset: offset,
      eventFormat,
      maxPageSize: PAGE,
      ...(pageToken === null ? {} : { pageToken }),
    }
    const page: z.infer<typeof ContractsPage> = await askAt(() =>
      participant.post('/v2/state/active-contracts-page', body, ContractsPage).catch((error: unknown) => {
        // Before version 3.6 there are no pages.
        if (error instanceof ParticipantError && error.status === 404) throw tooMany()
        throw error
      }),
    )
    all.push(...activeIn(parts, rules, page.activeContracts ?? []).filter(({ owner }) => owner === party))
    if (all.length > HOLDINGS_MAX) throw tooMany()
    pageToken = page.nextPageToken || null
  } while (pageToken !== null)
  return all
}

/** One page of updates, with as many as the participant gives at once. */
async function readPage(parts: Parts, rules: Rules, after: number, upTo: number) {
  const body = {
    beginExclusive: after,
    endInclusive: upTo,
    updateFormat: {
      includeTransactions: {
        eventFormat: { filtersForAnyParty: filterOf(rules), verbose: false },
        transactionShape: 'TRANSACTION_SHAPE_ACS_DELTA',
      },
      includeReassignments: { filtersForAnyParty: filterOf(rules), verbose: false },
    },
  }
  for (let limit = PAGE; ; limit = Math.floor(limit / 4)) {
    try {
      const path = `/v2/updates?limit=${limit}`
      const page = await askAt(() => parts.participant.post(path, body, z.array(Update)))
      return { page: page.map(({ update }) => update), isFull: page.length >= limit }
    } catch (error) {
      const isTooLarge = error instanceof LedgerError && error.cause instanceof ParticipantError
      if (!isTooLarge || (error.cause as ParticipantError).status !== 413 || limit < 4) throw error
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
  const known: TokenUpdate = { updateId, offset, recordedAt: new Date(recordTime), created: [], archived: [] }
  if ('Transaction' in update) {
    if (update.Transaction.value.synchronizerId !== synchronizer) return known
    for (const event of update.Transaction.value.events ?? [])
      if ('CreatedEvent' in event) known.created.push(...readHolding(rules, event.CreatedEvent))
      else known.archived.push(event.ArchivedEvent.contractId)
    return known
  }
  for (const event of update.Reassignment.value.events ?? [])
    if ('JsUnassignedEvent' in event) {
      const { source, contractId } = event.JsUnassignedEvent.value
      if (source === synchronizer) known.archived.push(contractId)
    } else if (event.JsAssignmentEvent.target === synchronizer)
      known.created.push(...readHolding(rules, event.JsAssignmentEvent.createdEvent))
  return known
}

/** @throws PlaceLost if another update, or none, is where the last one was */
async function requireLast(parts: Parts, rules: Rules, { last }: TokenPlace): Promise<void> {
  if (last === null) return
  const { page } = await readPage(parts, rules, last.offset - 1, last.offset)
  const isThere = page.some((update) => readUpdate(parts, rules, update)?.updateId === last.updateId)
  if (!isThere) throw new PlaceLost('The participant has another update where the last one was.')
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
  await requireLast(parts, rules, place)
  const from = place.last === null ? place.offset : Math.max(place.last.offset, place.offset - LOOK_BACK)
  if (end.offset === place.offset && end.offset === from)
    return { updates: [], offset: end.offset, at: end.seenUntil, hasMore: false }
  const { page, isFull } = await readPage(parts, rules, from, end.offset)
  const updates = page.flatMap((update) => readUpdate(parts, rules, update) ?? [])
  requireOrder(page, from, end.offset)
  const last = page.at(-1)
  if (!isFull || last === undefined) return { updates, offset: end.offset, at: end.seenUntil, hasMore: false }
  return { updates, offset: offsetOf(last), at: updates.at(-1)?.recordedAt ?? null, hasMore: true }
}

/** What the settings count as holdings, as text. */
const scopeOf = ({ holding, registries }: Rules, { participant, synchronizer }: CantonSettings): string =>
  JSON.stringify([participant, synchronizer, holding, ...registries.map(({ admin }) => admin).sort()])

/** The tokens of a participant; undefined where the settings name no interface of holdings. */
export function createTokenReader(parts: Parts): Tokens | undefined {
  const { tokens, ...rest } = parts.settings
  if (tokens?.holding === undefined) return undefined
  const rules: Rules = { ...tokens, holding: tokens.holding }
  return {
    scope: scopeOf(rules, rest),
    async end() {
      const { offset, seenUntil } = await asking(() => readLedgerEnd(parts))
      return { offset, at: seenUntil }
    },
    holdingsOf: (party, offset) => holdingsOf(parts, rules, party, offset),
    updatesAfter: (place) => updatesAfter(parts, rules, place),
  }
}
