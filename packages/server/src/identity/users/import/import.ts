import { createHash } from 'node:crypto'
import { type Db, violatedConstraint } from '../../../platform/db/db.ts'
import type { Deps } from '../../../platform/deps.ts'
import { recordAuditOnly } from '../../../platform/events/audit-only-entries.ts'
import { newEvent } from '../../../platform/events/events.ts'
import { type ErrorDetail, HttpError } from '../../../platform/http/errors.ts'
import { validator } from '../../../platform/http/schema.ts'
import { type Id, idTime, newId } from '../../../platform/ids.ts'
import { lockAppForShare } from '../../../tenancy/apps/service.ts'
import { tenantContext } from '../../../tenancy/tenant/service.ts'
import { type NewUserPlace, newUserRow } from '../new-user.ts'
import { ImportedUser } from '../schema.ts'
import { insertUsers, type UserRow } from '../store.ts'
import {
  type FileRecord,
  type ImportFile,
  ImportFileError,
  type ImportSource,
  openImportFile,
  type Problem,
} from './file.ts'
import * as store from './store.ts'

/** Records per transaction. */
const RECORDS_A_PORTION = 2_000
const PROBLEMS_TOLD_MAX = 100
/** Earlier times are mistakes. */
const CREATED_MIN_MS = Date.UTC(1990, 0, 1)

/** The file to import, and the options. */
export interface ImportRequest extends ImportSource {
  tenantId: Id<'ten'>
  appId: Id<'app'>
  dryRun: boolean
  /** Emits `user.created` for each user. */
  events: boolean
  /** What to do with a user whose email or external id is taken. */
  onConflict: 'skip' | 'fail'
  /** Skips invalid lines instead of importing nothing. */
  skipInvalid: boolean
  /** Imports a file again that was already imported completely. */
  again: boolean
}

/** Shows the progress. */
export interface ImportProgress {
  begin(what: string, total: number): void
  add(count: number): void
  end(): void
}

/** The result of an import. */
export interface ImportReport {
  /** Records of the file, including those that cannot be read. */
  records: number
  /** Users imported by all runs of this import. In a dry run, how many would be imported. */
  imported: number
  skipped: number
  invalid: number
  /** The number of records that earlier runs processed. All of them if the import was already finished. */
  resumedAt: number
  /** The users that this run imported, and how long that took. */
  importedNow: number
  seconds: number
  /** The first errors, in the order of the file. */
  problems: Problem[]
  moreProblems: number
  /** Whether nothing was imported because of the errors. */
  refused: boolean
}

const checkShape = validator(ImportedUser)

/** A record of the file: a user's row, or its errors. */
type Read = { line: number; bytes: number; row: UserRow } | { line: number; bytes: number; problems: Problem[] }

function createdAtOf(input: ImportedUser, now: Date): Date | string {
  if (input.createdAt == null) return now
  const createdAt = new Date(input.createdAt)
  const ms = createdAt.getTime()
  if (Number.isNaN(ms) || ms < CREATED_MIN_MS) return 'Must be a time since 1990.'
  return ms > now.getTime() ? 'Must not be in the future.' : createdAt
}

/** A record as a user's row, by the rules of `POST /users`. */
function readUser(place: NewUserPlace & { appId: Id<'app'> }, record: FileRecord): Read {
  const { line } = record
  if (!('bytes' in record)) return { line, bytes: 0, problems: [record] }
  const { bytes } = record
  const invalid = (...details: readonly ErrorDetail[]): Read => {
    const problems = details.map(({ field = '', code, message }) => ({ line, field, code, message }))
    return { line, bytes, problems }
  }
  const details = checkShape(record.value, bytes)
  if (details.length > 0) return invalid(...details)
  const input = record.value as ImportedUser
  const createdAt = createdAtOf(input, place.now)
  if (typeof createdAt === 'string') return invalid({ field: 'createdAt', code: 'invalid', message: createdAt })
  if (input.emailVerified === true && input.email == null)
    return invalid({ field: 'emailVerified', code: 'invalid', message: 'Must not be true without an email.' })
  // Lists are in the order of ids: those without a time of their own are in the file's.
  const fresh = newId('usr')
  const id: Id<'usr'> = input.createdAt == null ? fresh : `usr_${idTime(createdAt.getTime())}${fresh.slice(14)}`
  const { email, name, externalId, metadata } = input
  try {
    const row = newUserRow(place, { id, appId: place.appId, email, name, externalId, metadata })
    return { line, bytes, row: { ...row, email_verified: input.emailVerified ?? false, created_at: createdAt } }
  } catch (error) {
    if (!(error instanceof HttpError)) throw error
    return invalid(error.details[0] ?? { code: error.code, message: error.message })
  }
}

/** Lists the first problems, and counts the rest. */
function createProblems() {
  const problems: Problem[] = []
  let count = 0
  return {
    add(more: readonly Problem[]) {
      count += more.length
      problems.push(...more.slice(0, PROBLEMS_TOLD_MAX - problems.length))
    },
    told: () => ({ problems: problems.sort((a, b) => a.line - b.line), moreProblems: count - problems.length }),
  }
}

/** A portion also ends after so many bytes of the file, because records may be long. */
const BYTES_A_PORTION = 1024 * 1024

/** The records of a run's file in portions, without the first `from` records. */
async function* portionsOf({ deps, file, place }: Run, from: number): AsyncGenerator<Read[]> {
  let portion: Read[] = []
  let size = 0
  let at = 0
  // The current time, because an import takes long; never before the time of the check, which the records have passed.
  const present = () => ({ ...place, now: new Date(Math.max(place.now.getTime(), deps.now().getTime())) })
  let here = present()
  for await (const record of file.records()) {
    at += 1
    if (at <= from) continue
    const read = readUser(here, record)
    portion.push(read)
    size += read.bytes
    if (portion.length < RECORDS_A_PORTION && size < BYTES_A_PORTION) continue
    yield portion
    portion = []
    size = 0
    here = present()
  }
  if (portion.length > 0) yield portion
}

const rowsOf = (portion: readonly Read[]) => portion.flatMap((read) => ('row' in read ? [read] : []))
const problemsOf = (portion: readonly Read[]) => portion.flatMap((read) => ('row' in read ? [] : read.problems))

function uniqueValues(portion: readonly Read[]): store.UniqueValue[] {
  return rowsOf(portion).flatMap(({ line, row }) => [
    ...(row.email_key === null ? [] : [{ line, field: 'email' as const, value: row.email_key }]),
    ...(row.external_id === null ? [] : [{ line, field: 'externalId' as const, value: row.external_id }]),
  ])
}

const conflictOf = ({ line, field, firstLine }: store.Taken): Problem => ({
  line,
  field,
  code: firstLine === null ? 'already_exists' : 'duplicate',
  message:
    firstLine === null ? `Another user of this app has this ${field}.` : `Line ${firstLine} has this ${field} too.`,
})

interface Checked {
  records: number
  valid: number
  invalid: number
  conflicts: number
}

/** The context of one run. */
interface Run {
  deps: Deps
  request: ImportRequest
  file: ImportFile
  place: NewUserPlace & { appId: Id<'app'> }
  problems: ReturnType<typeof createProblems>
  progress: ImportProgress
}

/**
 * Checks the whole file, and writes nothing. Records before `from`, which an earlier run has imported, are not checked for
 * conflicts with users. `conflictsCount`: checks for conflicts, which needs a transaction.
 */
async function check(db: Db, run: Run, from: number, conflictsCount: boolean): Promise<Checked> {
  const { request, file, problems, progress } = run
  const checked: Checked = { records: 0, valid: 0, invalid: 0, conflicts: 0 }
  if (conflictsCount) await store.createSeenValues(db)
  progress.begin('Checking (bytes)', file.bytes)
  for await (const portion of portionsOf(run, 0)) {
    const known = Math.max(0, Math.min(portion.length, from - checked.records))
    checked.records += portion.length
    const rows = rowsOf(portion)
    checked.invalid += portion.length - rows.length
    const found = problemsOf(portion)
    let conflicts: store.Taken[] = []
    if (conflictsCount) {
      const twice = await store.addSeenValues(db, uniqueValues(portion))
      const taken = await store.findTaken(db, request.tenantId, request.appId, uniqueValues(portion.slice(known)))
      conflicts = [...twice, ...taken]
    }
    const lines = new Set(conflicts.map(({ line }) => line))
    checked.conflicts += lines.size
    checked.valid += rows.length - lines.size
    problems.add([...found, ...conflicts.map(conflictOf)].sort((a, b) => a.line - b.line))
    progress.add(portion.reduce((sum, { bytes }) => sum + bytes, 0))
  }
  progress.end()
  await file.checkUnchanged()
  return checked
}

const APP_GONE = 'The app was deleted in the meantime.'

/** The progress of a run. */
type Position = Pick<store.ImportRow, 'id' | 'position' | 'state'>

/** Writes a portion and advances the import, both or neither. */
async function importPortion(run: Run, before: Position, portion: readonly Read[]): Promise<Position> {
  const { deps, request } = run
  const reads = rowsOf(portion)
  const events = request.events
    ? reads.map(({ row }) =>
        newEvent(row.updated_at, {
          tenantId: row.tenant_id,
          appId: row.app_id,
          type: 'user.created',
          data: { userId: row.id, email: row.email ?? '', partyId: row.party_id },
          cause: { actor: 'cli' },
        }),
      )
    : null
  const rows = reads.map(({ row }, index) => ({ ...row, created_event_id: events?.[index]?.id ?? null }))
  return deps.db.tx(async (tx) => {
    const added = await insertUsers(tx, rows, events)
    const lost = reads.filter(({ row }) => !added.has(row.id))
    if (lost.length > 0 && request.onConflict === 'fail')
      throw new ImportFileError(
        `Line ${lost[0]?.line}: another user has taken this email or external id since the file was checked. Users that were already imported stay. Run this again to see all conflicts.`,
      )
    const state = {
      ...before.state,
      imported: before.state.imported + added.size,
      skipped: before.state.skipped + lost.length,
      invalid: before.state.invalid + portion.length - reads.length,
    }
    const position = before.position + portion.length
    if (!(await store.advanceImport(tx, { id: before.id, from: before.position, to: position, state })))
      throw new ImportFileError('Another run of this import is in progress. Wait until it ends, or stop it.')
    if (events !== null) tx.afterCommit(deps.wake.outbox)
    return { id: before.id, position, state }
  })
}

async function importAll(run: Run, begun: store.ImportRow, records: number): Promise<store.ImportState> {
  const { deps, request, file, progress } = run
  progress.begin('Importing users', records)
  progress.add(begun.position)
  let at: Position = begun
  try {
    for await (const portion of portionsOf(run, begun.position)) {
      await file.checkUnchanged()
      at = await importPortion(run, at, portion)
      progress.add(portion.length)
      await deps.failpoint('users.import.portion')
    }
  } catch (error) {
    throw violatedConstraint(error) === 'users_app_fk' ? new ImportFileError(APP_GONE) : error
  }
  progress.end()
  const { tenantId, appId } = request
  await deps.db.tx(async (tx) => {
    const finished = await store.finishImport(tx, deps.now(), at.id)
    if (finished && at.state.imported > 0)
      await recordAuditOnly(tx, deps, {
        tenantId,
        appId,
        action: 'users.imported',
        target: appId,
        cause: { actor: 'cli' },
      })
  })
  return at.state
}

/** An earlier import with the same options. With `again`, a finished one does not count. @throws ImportFileError */
async function takeUp({ deps, request }: Run, id: string): Promise<store.ImportRow | undefined> {
  const found = await store.findImport(deps.db, id)
  if (found?.finished_at != null && request.again) return undefined
  if (found !== undefined && found.finished_at === null && found.state.events !== request.events)
    throw new ImportFileError(
      `This import was started ${found.state.events ? 'with' : 'without'} --events. Continue it the same way.`,
    )
  return found
}

async function runImport(run: Run): Promise<ImportReport> {
  const { deps, request, file, problems } = run
  const id = createHash('sha256')
    .update(JSON.stringify([request.tenantId, request.appId, await file.hash()]))
    .digest('hex')
  const before = await takeUp(run, id)
  const nothing = { imported: 0, skipped: 0, invalid: 0, resumedAt: 0, importedNow: 0, seconds: 0, refused: false }
  if (before?.finished_at != null && !request.dryRun) {
    const { imported, skipped, invalid } = before.state
    const records = before.position
    return { ...nothing, records, imported, skipped, invalid, resumedAt: records, problems: [], moreProblems: 0 }
  }
  const resumedAt = before?.finished_at === null ? before.position : 0
  const conflictsCount = request.dryRun || request.onConflict === 'fail'
  const checked = conflictsCount
    ? await deps.db.tx((tx) => check(tx, run, resumedAt, true))
    : await check(deps.db, run, resumedAt, false)
  const { records, invalid, conflicts } = checked
  const skipped = request.onConflict === 'skip' ? conflicts : 0
  const refused = (invalid > 0 && !request.skipInvalid) || (conflicts > 0 && request.onConflict === 'fail')
  if (request.dryRun || refused) {
    const imported = request.dryRun ? checked.valid : 0
    return { ...nothing, records, imported, skipped, invalid, resumedAt, refused, ...problems.told() }
  }
  const state = { events: request.events, imported: 0, skipped: 0, invalid: 0 }
  if (request.again) await store.forgetImport(deps.db, id)
  const begun = await store.beginImport(deps.db, deps.now(), { id, tenantId: request.tenantId, state })
  const startedAt = performance.now()
  const done = await importAll(run, begun, records)
  const seconds = (performance.now() - startedAt) / 1_000
  const importedNow = done.imported - begun.state.imported
  return { ...nothing, ...done, records, resumedAt: begun.position, importedNow, seconds, ...problems.told() }
}

/**
 * Imports a file of users into an app: checks all of it first, then writes it in portions. Each portion is a transaction
 * that also records the position. If it is interrupted and run again with the same file, it resumes there.
 * @throws ImportFileError if the file cannot be read, or the import cannot be resumed
 */
export async function importUsers(deps: Deps, request: ImportRequest, progress: ImportProgress): Promise<ImportReport> {
  const file = await openImportFile(request)
  try {
    if (!(await deps.db.tx((tx) => lockAppForShare(tx, request.tenantId, request.appId))))
      throw new ImportFileError(APP_GONE)
    const { namespace } = await tenantContext(deps, request.tenantId)
    const place = { tenantId: request.tenantId, namespace, now: deps.now(), appId: request.appId }
    return await runImport({ deps, request, file, place, problems: createProblems(), progress })
  } finally {
    progress.end()
    await file.close()
  }
}
