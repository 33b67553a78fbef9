import type { RecordKind, RecordRow } from './kind.ts'

/** Makes and checks the MACs of records. Every `Db` has the process's one. */
export interface RecordKeeper {
  /**
   * Requires that each row is what this service wrote last, as far as this process knows.
   * @param readAt when the statement that read them began, by `performance.now()`
   * @param isCommitted whether they were read outside a transaction, so that nothing can undo them
   * @throws record_tampered, after it was reported
   */
  check(kind: RecordKind, rows: readonly RecordRow[], readAt: number, isCommitted: boolean): Promise<void>
  /**
   * The same answer without a refusal, for acts that end something. A row that does not verify is reported.
   * @param beside what is wrong with the row beside its MAC, if anything
   */
  verifies(kind: RecordKind, row: RecordRow, beside?: string): Promise<boolean>
  /**
   * Requires that a record's list of ids has an id: that another row, which verifies, has not come back after it was removed. Counts
   * from the moment records without a MAC are refused. @throws record_tampered
   */
  requireListed(kind: RecordKind, row: RecordRow, list: string, id: string): Promise<void>
  /** Whether rows without a MAC, and lists that do not hold, are refused, where they count since a generation; without one, all. */
  isEnforced(since?: number): Promise<boolean>
  /** What `mac` of a row is to be; null where rows like it carry none. */
  mac(kind: RecordKind, row: RecordRow): Promise<Buffer | null>
  /**
   * What proves that a text is Halfkey's, for a tenant: an HMAC that nobody makes who only has the database, and that lasts as long as
   * the tenant. @param purpose tells it from every other, and from MACs of records
   */
  proof(tenantId: string, purpose: string, text: string): Promise<Buffer>
  /** Notes that a row's version was committed: from now on an older one of it does not verify. */
  committed(kind: RecordKind, row: RecordRow): void
  /** Refuses a record because of something beside its MAC, in the same way. */
  refuse(kind: RecordKind, row: RecordRow, why: string): never
  /** Whether a row has a MAC, and the right one. Reports nothing. */
  isSealed(kind: RecordKind, row: RecordRow): Promise<boolean>
  /**
   * Notes versions that others have seen committed, by the places of their records: from now on older ones do not verify, however many
   * other records this process sees.
   */
  remember(versions: Readonly<Record<string, number>>): void
  /** Whether a row that a statement read is older than one that was committed before the statement began at `readAt`. */
  isOlder(kind: RecordKind, row: RecordRow, readAt: number): boolean
  /** Forgets all these versions: an operator took an earlier state for the present one. */
  forgetVersions(): void
}

/**
 * The same for a standby's connections. What they read was committed before the statement began, and others may have seen a newer
 * version since.
 */
export const forReplica = (records: RecordKeeper): RecordKeeper => ({
  ...records,
  check: (kind, rows) => records.check(kind, rows, Number.NEGATIVE_INFINITY, false),
})

function none(): never {
  throw new Error('this database connection has no record keys: it must not read or write records')
}

/** For connections that touch no records. */
export const NO_RECORDS: RecordKeeper = {
  check: none,
  verifies: none,
  requireListed: none,
  isEnforced: none,
  mac: none,
  proof: none,
  committed: none,
  refuse: none,
  isSealed: none,
  remember: none,
  isOlder: none,
  forgetVersions: none,
}
