import { z } from 'zod'
import { LedgerError, type Receipt } from '../../../platform/ports/ledger.ts'
import { ParticipantError } from './participant.ts'
import type { Parts } from './parts.ts'
import { cantonCommandId } from './prepared.ts'
import { asking, asLedgerError } from './refusals.ts'

const PAGE = 200
const PAGES_MAX = 500
/** How many offsets further back a completion is looked for before it is said that there is none. */
const LOOK_BACK = 100_000

export const Offset = z.int().min(0)
const RecordTime = z.object({ synchronizerId: z.string(), recordTime: z.iso.datetime() })
const Completion = z.object({
  commandId: z.string(),
  userId: z.string(),
  actAs: z.array(z.string()),
  offset: Offset,
  updateId: z.string().nullish(),
  submissionId: z.string().nullish(),
  status: z.object({ code: z.int(), message: z.string() }).nullish(),
  synchronizerTime: RecordTime,
})
export const Checkpoint = z.object({ offset: Offset, synchronizerTimes: z.array(RecordTime).nullish() })
const Entry = z.object({
  completionResponse: z.union([
    z.object({ Completion: z.object({ value: Completion }) }),
    z.object({ OffsetCheckpoint: z.object({ value: Checkpoint }) }),
    z.object({ Empty: z.object({}) }),
  ]),
})
const LedgerEnd = z.object({ offset: Offset.nullish(), synchronizerTimes: z.array(RecordTime).nullish() })
const Pruned = z.object({ participantPrunedUpToInclusive: Offset.nullish() })

/** Where a transaction's outcome is to be found. */
export interface Submitted {
  party: string
  commandId: string
  /** Offset, exclusive. */
  since: number
}

/** What a participant says about a command. */
export interface Said {
  accepted: Receipt | null
  rejected: { submissionId: string | null; message: string }[]
  /** Up to this time of the synchronizer the participant has seen everything; null if it does not say. */
  seenUntil: Date | null
  /** Whether what happened since then may have been pruned. */
  isPruned: boolean
}

/** The last offset that the participant knows, and until when it has seen the synchronizer. */
export async function readLedgerEnd({
  participant,
  settings,
}: Parts): Promise<{ offset: number; seenUntil: Date | null }> {
  const { offset, synchronizerTimes } = await asking(() => participant.get('/v2/state/ledger-end', LedgerEnd))
  return { offset: offset ?? 0, seenUntil: latest(null, synchronizerTimes ?? [], settings.synchronizer) }
}

function latest(known: Date | null, times: readonly z.infer<typeof RecordTime>[], synchronizer: string): Date | null {
  return times
    .filter(({ synchronizerId }) => synchronizerId === synchronizer)
    .map(({ recordTime }) => new Date(recordTime))
    .reduce((last: Date | null, time) => (last === null || time > last ? time : last), known)
}

type Page = z.infer<typeof Entry>[]

/** One page after an offset, with as many entries as the participant gives at once. */
async function readPage(
  { participant, settings }: Parts,
  party: string,
  after: number,
  idleMs: number,
): Promise<{ page: Page; isFull: boolean }> {
  const body = { userId: settings.userId, parties: [party], beginExclusive: after }
  for (let limit = PAGE; ; limit = Math.floor(limit / 4)) {
    const path = `/v2/commands/completions?limit=${limit}&stream_idle_timeout_ms=${idleMs}`
    try {
      const page = await participant.post(path, body, z.array(Entry))
      return { page, isFull: page.length >= limit }
    } catch (error) {
      if (!(error instanceof ParticipantError) || error.status !== 413 || limit < 4) throw error
    }
  }
}

const offsetOf = ({ completionResponse: each }: Page[number]): number =>
  'Completion' in each
    ? each.Completion.value.offset
    : 'OffsetCheckpoint' in each
      ? each.OffsetCheckpoint.value.offset
      : 0

/** Takes what one entry says. */
function take(
  said: Said,
  { completionResponse: each }: Page[number],
  { commandId, party }: Submitted,
  parts: Parts,
): void {
  const { synchronizer, userId } = parts.settings
  if ('OffsetCheckpoint' in each) {
    said.seenUntil = latest(said.seenUntil, each.OffsetCheckpoint.value.synchronizerTimes ?? [], synchronizer)
    return
  }
  if (!('Completion' in each)) return
  const { value } = each.Completion
  said.seenUntil = latest(said.seenUntil, [value.synchronizerTime], synchronizer)
  if (value.commandId !== cantonCommandId(commandId) || value.userId !== userId || !value.actAs.includes(party)) return
  const isAccepted = (value.status ?? { code: 0 }).code === 0
  if (!isAccepted) {
    said.rejected.push({ submissionId: value.submissionId ?? null, message: value.status?.message ?? '' })
    return
  }
  if (!value.updateId) return
  // The first counts: what follows are repeats.
  said.accepted ??= {
    updateId: value.updateId,
    offset: value.offset,
    recordedAt: new Date(value.synchronizerTime.recordTime),
  }
}

async function readFrom(parts: Parts, of: Submitted, after: number, idleMs: number): Promise<Said> {
  const said: Said = { accepted: null, rejected: [], seenUntil: null, isPruned: false }
  let from = after
  for (let pages = 0; pages < PAGES_MAX; pages += 1) {
    const { page, isFull } = await readPage(parts, of.party, from, idleMs)
    for (const entry of page) take(said, entry, of, parts)
    const last = Math.max(from, ...page.map(offsetOf))
    if (said.accepted !== null || !isFull || last === from) return said
    from = last
  }
  throw new LedgerError('ledger_unavailable', 'There are too many completions to read at once.', {
    retryable: true,
    definite: false,
  })
}

/**
 * What the participant says about a command, from before it was prepared on. One that was restored to an older state, or that
 * has pruned what happened since, is asked for all that it still has.
 * @param idleMs how long the participant may wait for a further completion
 */
export async function readCompletions(parts: Parts, of: Submitted, idleMs: number): Promise<Said> {
  try {
    return await readFrom(parts, of, of.since, idleMs)
  } catch (error) {
    const code = error instanceof ParticipantError ? error.code : ''
    if (code !== 'OFFSET_AFTER_LEDGER_END' && code !== 'PARTICIPANT_PRUNED_DATA_ACCESSED')
      throw asLedgerError(error, { changesNothing: true })
    const pruned = await asking(() => parts.participant.get('/v2/state/latest-pruned-offsets', Pruned))
    const all = await asking(() => readFrom(parts, of, pruned.participantPrunedUpToInclusive ?? 0, idleMs))
    return { ...all, isPruned: code === 'PARTICIPANT_PRUNED_DATA_ACCESSED' }
  }
}

/**
 * The completion of a command that is not there where it should be: a participant that was restored gives its offsets anew, so
 * that it may be before the offset at which the command was prepared. @throws LedgerError
 */
export async function lookBack(parts: Parts, of: Submitted): Promise<Receipt | null> {
  const pruned = await asking(() => parts.participant.get('/v2/state/latest-pruned-offsets', Pruned))
  const from = Math.max(pruned.participantPrunedUpToInclusive ?? 0, of.since - LOOK_BACK)
  const end = await readLedgerEnd(parts)
  return (await asking(() => readFrom(parts, of, Math.min(from, end.offset), 0))).accepted
}
