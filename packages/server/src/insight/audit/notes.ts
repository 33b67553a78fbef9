import type { Db } from '../../platform/db/db.ts'
import { AUDIT_ONLY_RECORD, type AuditOnlyRow } from '../../platform/events/audit-only-entries.ts'
import type { Id } from '../../platform/ids.ts'
import type { RecordRow } from '../../platform/security/records/kind.ts'
import * as store from './store.ts'

const PORTION = 1_000

/** Acts that wait for their entries, by whether this service wrote them. */
interface Notes {
  genuine: AuditOnlyRow[]
  forged: AuditOnlyRow[]
}

/** Reports those that do not verify, or that came back: an act and its entry change places in one transaction. */
async function sorted(db: Db, tenantId: Id<'ten'>, rows: readonly AuditOnlyRow[]): Promise<Notes> {
  const notes: Notes = { genuine: [], forged: [] }
  const recorded = rows.length === 0 ? [] : await store.findRecorded(db, tenantId, rows)
  for (const row of rows) {
    const beside = recorded.includes(row.id) ? 'it has its entry already' : undefined
    const isGenuine = await db.records.verifies(AUDIT_ONLY_RECORD, row as object as RecordRow, beside)
    notes[isGenuine ? 'genuine' : 'forged'].push(row)
  }
  return notes
}

/** All acts of a tenant that wait, in portions. */
export async function* waitingNotes(db: Db, tenantId: Id<'ten'>): AsyncGenerator<Notes> {
  for (let after = ''; ; ) {
    const rows = await store.notesAfter(db, tenantId, after, PORTION)
    yield await sorted(db, tenantId, rows)
    if (rows.length < PORTION) return
    after = rows.at(-1)?.id as string
  }
}

/**
 * Removes the oldest genuine acts of a tenant that wait, in a transaction, and returns them. The others stay, for `halfkey audit verify`,
 * and keep nothing waiting. @returns also whether there may be more
 */
export async function takeNotes(tx: Db, tenantId: Id<'ten'>): Promise<{ notes: AuditOnlyRow[]; more: boolean }> {
  for (let after = ''; ; ) {
    const rows = await store.lockNotesAfter(tx, tenantId, after, PORTION)
    const { genuine } = await sorted(tx, tenantId, rows)
    const more = rows.length === PORTION
    if (genuine.length > 0)
      await store.removeNotes(
        tx,
        tenantId,
        genuine.map(({ id }) => id),
      )
    if (genuine.length > 0 || !more) return { notes: genuine, more }
    after = rows.at(-1)?.id as string
  }
}
