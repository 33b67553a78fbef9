import type { KeyObject } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { type Db, sql } from '../../db/db.ts'
import { eventWrites, newEvent } from '../../events/events.ts'
import { fail } from '../../http/errors.ts'
import type { Id } from '../../ids.ts'
import type { Logger } from '../../observability/log.ts'
import type { Metrics } from '../../observability/metrics.ts'
import { equalSecrets, hmacSha256Bytes } from '../crypto.ts'
import type { KeyProvider } from '../key-provider.ts'
import { isListed } from './id-list.ts'
import type { RecordKeeper } from './keeper.ts'
import type { RecordKind, RecordRow } from './kind.ts'
import { createRecordKeys, INSTALLATION, RecordKeyError } from './record-keys.ts'

/** The first byte of a MAC: how the text below it was written. */
const FORMAT = Buffer.of(1)
/** Tells a MAC of a record from anything else that such a key may ever authenticate. */
const DOMAIN = 'halfkey/v1/record\n'
/** In place of the MAC of a row that was ended although it did not verify: it never verifies again. */
export const TAMPERED = Buffer.of(0)

/** What is wrong with a row that was put back as it was. */
export const OLDER = 'it is an older one'

const VERSIONS_MAX = 100_000
/** How often one record is reported by one process. */
const REPORT_EVERY_MS = 60_000
const REPORTED_MAX = 10_000

/** What a keeper is made of. */
export interface KeeperOptions {
  /** Opened after the keeper, which its pools are given. */
  db(): Db
  keys: KeyProvider
  log: Logger
  metrics: Metrics
  /** The names of all kinds: each has its figure from the start, because a rate sees no change in one that has just appeared. */
  kinds: readonly string[]
  now(): Date
  /** Whether rows without a MAC are refused that have had them since a generation of the mark; without one, all. */
  isEnforced(since?: number): Promise<boolean>
  /** Wakes the delivery of events. */
  wake(): void
}

const tenantOf = (row: RecordRow) => (row.tenant_id as string | null) ?? INSTALLATION
const textKey = (value: unknown) => (Buffer.isBuffer(value) ? value.toString('hex') : String(value))
/** A record's id for events and lists: its key without the tenant. */
export const idOf = (kind: RecordKind, row: RecordRow): string =>
  kind.key.map((column) => textKey(row[column])).join(' ')
/** Names a record in a process and in the floor. */
export const placeOf = (kind: RecordKind, row: RecordRow): string => `${kind.name} ${tenantOf(row)} ${idOf(kind, row)}`

/** The MAC over a row. @throws RangeError for a value without a canonical form */
function macOf(key: KeyObject, kind: RecordKind, row: RecordRow): Buffer {
  return Buffer.concat([FORMAT, hmacSha256Bytes(key, DOMAIN + kind.text(row))])
}

function hasRightMac(key: KeyObject, kind: RecordKind, row: RecordRow): boolean {
  try {
    return equalSecrets(row.mac as Buffer, macOf(key, kind, row))
  } catch (error) {
    if (error instanceof RangeError) return false
    throw error
  }
}

interface Seen {
  version: number
  /** Since when, by `performance.now()`. */
  at: number
}

interface SeenByPlace {
  get(place: string): Seen | undefined
  set(place: string, seen: Seen): unknown
}

function raise(seen: SeenByPlace, place: string, version: number): void {
  const known = seen.get(place)
  if (known === undefined || known.version < version) seen.set(place, { version, at: performance.now() })
}

/** The newest version of each record that this process has seen committed, or that the floor holds, and since when. */
function createVersions() {
  const seen = new LRUCache<string, Seen>({ max: VERSIONS_MAX })
  const kept = new Map<string, Seen>()
  return {
    note(kind: RecordKind, row: RecordRow): void {
      if (kind.versioned) raise(seen, placeOf(kind, row), row.version as number)
    },
    remember(versions: Readonly<Record<string, number>>): void {
      for (const [place, version] of Object.entries(versions)) raise(kept, place, version)
    },
    isOlder(kind: RecordKind, row: RecordRow, readAt: number): boolean {
      if (!kind.versioned) return false
      const place = placeOf(kind, row)
      return [seen.get(place), kept.get(place)].some(
        (known) => known !== undefined && known.at < readAt && (row.version as number) < known.version,
      )
    },
    clear() {
      seen.clear()
      kept.clear()
    },
  }
}

/** Reports records that do not verify: a metric, a line in the log and, once a minute for each record, an event. */
function createReports({ db, log, metrics, kinds, now, wake }: KeeperOptions) {
  for (const kind of [...kinds, 'record_key']) metrics.recordsTampered.inc({ kind }, 0)
  const reported = new LRUCache<string, true>({ max: REPORTED_MAX, ttl: REPORT_EVERY_MS })
  return (kind: string, row: RecordRow, id: string, why: string): void => {
    metrics.recordsTampered.inc({ kind })
    const at = `${kind} ${tenantOf(row)} ${id}`
    if (reported.has(at)) return
    reported.set(at, true)
    log.error(
      { kind, tenantId: row.tenant_id, id, why },
      'a record does not verify: something else than Halfkey wrote it',
    )
    if (tenantOf(row) === INSTALLATION) return
    const tenantId = row.tenant_id as Id<'ten'>
    const event = newEvent(now(), {
      tenantId,
      appId: null,
      type: 'record.tampered',
      data: { record: kind, recordId: id },
    })
    // Not awaited: the caller may hold the connection that this would wait for.
    db()
      .run(sql`with ${eventWrites(event)} select`)
      .then(wake, (error: unknown) => log.error({ err: error }, 'record.tampered was not published'))
  }
}

/** Makes the process's keeper of records. */
export function createRecordKeeper(options: KeeperOptions): RecordKeeper {
  const recordKeys = createRecordKeys(options)
  const versions = createVersions()
  const report = createReports(options)

  async function keyOf(row: RecordRow): Promise<KeyObject> {
    const tenantId = tenantOf(row)
    try {
      return recordKeys.known(tenantId) ?? (await recordKeys.open(tenantId))
    } catch (error) {
      if (!(error instanceof RecordKeyError)) throw error
      options.log.error({ err: error, tenantId }, 'a record key could not be opened')
      report('record_key', { tenant_id: tenantId }, tenantId, 'it does not open')
      throw fail('record_tampered')
    }
  }

  /** Why a row does not verify; null if it does. */
  async function faultOf(kind: RecordKind, row: RecordRow): Promise<string | null> {
    if (kind.only?.holds(row) === false) return null
    if (row.mac === undefined) throw new Error(`the MAC of a ${kind.name} was not read`)
    if (row.mac === null)
      return kind.alwaysSealed?.holds(row) || (await options.isEnforced(kind.since ?? 1)) ? 'it has no MAC' : null
    return hasRightMac(await keyOf(row), kind, row) ? null : 'its MAC is wrong'
  }

  function refuse(kind: RecordKind, row: RecordRow, why: string): never {
    report(kind.name, row, idOf(kind, row), why)
    throw fail('record_tampered')
  }

  return {
    async check(kind, rows, readAt, isCommitted) {
      for (const row of rows) {
        const fault = (await faultOf(kind, row)) ?? (versions.isOlder(kind, row, readAt) ? OLDER : null)
        if (fault !== null) refuse(kind, row, fault)
        if (isCommitted) versions.note(kind, row)
      }
    },
    async verifies(kind, row, beside) {
      const fault = (await faultOf(kind, row)) ?? beside ?? null
      if (fault !== null) report(kind.name, row, idOf(kind, row), fault)
      return fault === null
    },
    async requireListed(kind, row, list, id) {
      const ids = row[list] as string | null
      if (ids !== null && isListed(ids, id)) return
      // A process of an earlier release may have added the id, and keeps no lists.
      if (await options.isEnforced(kind.sets?.[list]?.since)) refuse(kind, row, `its ${list} lack ${id}`)
    },
    isEnforced: options.isEnforced,
    async mac(kind, row) {
      return kind.only?.holds(row) === false ? null : macOf(await keyOf(row), kind, row)
    },
    async proof(tenantId, purpose, text) {
      return hmacSha256Bytes(await keyOf({ tenant_id: tenantId }), `halfkey/v1/proof\n${purpose}\n${text}`)
    },
    committed: (kind, row) => versions.note(kind, row),
    refuse,
    async isSealed(kind, row) {
      return row.mac !== null && hasRightMac(await keyOf(row), kind, row)
    },
    remember: versions.remember,
    isOlder: versions.isOlder,
    forgetVersions: versions.clear,
  }
}
