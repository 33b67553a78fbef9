import {
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto'
import { createPoller, singleFlight } from '../concurrency/poll.ts'
import { type Db, sql } from '../db/db.ts'
import { change, insertion } from '../db/rows.ts'
import { recordForInstallation } from '../events/audit-only-entries.ts'
import type { Logger } from '../observability/log.ts'
import { open, seal } from './crypto.ts'
import type { KeyProvider } from './key-provider.ts'
import { isMarked, readToEnd, resealed, sealed, type Versioned } from './records/access.ts'
import type { RecordRow } from './records/kind.ts'
import { SIGNING_KEY_RECORD } from './records/signing-key-record.ts'

/** One rotation's keys: Ed25519 for access tokens, an HMAC key for refresh tokens. */
interface SigningKey {
  id: string
  publicKey: KeyObject
  privateKey: KeyObject
  refreshKey: KeyObject
  /** Unix milliseconds; access tokens by it are refused from then on. Null for the newest. */
  retiresAtMs: number | null
}

/** The keys that count, known in memory and followed in the database. */
export interface SigningKeys {
  /** The one that signs. */
  current(): Promise<SigningKey>
  /** The first that there is: it changes when keys are revoked, not when they are rotated. */
  oldest(): Promise<SigningKey>
  /** The key with this id, unless it is revoked. Queries the database if it is not cached. */
  find(id: string): Promise<SigningKey | undefined>
  /** All that the JWKS shows, the newest first. */
  published(): Promise<SigningKey[]>
  start(): void
  stop(): Promise<void>
}

interface KeyRow extends Versioned {
  id: string
  created_at: Date
  private_key_sealed: Buffer
  refresh_secret_sealed: Buffer
  retires_at: Date | null
  revoked_at: Date | null
}

type NewRow = KeyRow & { public_key: Buffer }

/** The longest that an access token lives, and a margin for clocks that differ. */
const RETIRE_MS = 3_600_000 + 5 * 60_000
const POLL_MS = 500
/** How long a read is trusted: a revoked key is refused everywhere within a second. */
const TRUST_MS = 900
/** Unknown ids are looked up at most this often: forged tokens must not cause queries. */
const MISS_MS = 200
const LOCK = 4_812_570_350

const context = (what: 'private' | 'refresh', id: string) => ['signing key', what, id]

async function newRow(keys: KeyProvider, now: Date): Promise<NewRow> {
  const id = randomBytes(12).toString('base64url')
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const pkcs8 = privateKey.export({ type: 'pkcs8', format: 'der' })
  const secret = randomBytes(32)
  const row = {
    id,
    public_key: publicKey.export({ type: 'spki', format: 'der' }),
    private_key_sealed: await seal(keys, pkcs8, context('private', id)),
    refresh_secret_sealed: await seal(keys, secret, context('refresh', id)),
    created_at: now,
    retires_at: null,
    revoked_at: null,
    version: 0,
    mac: null,
  }
  pkcs8.fill(0)
  secret.fill(0)
  return row
}

async function insertKey(tx: Db, row: NewRow): Promise<void> {
  await tx.run(insertion('signing_keys', await sealed(tx, SIGNING_KEY_RECORD, row)))
}

/** Stores when a key retires or that it was revoked, in the transaction that holds the lock. */
async function storeEnd(tx: Db, before: KeyRow): Promise<void> {
  const row = await resealed(tx, SIGNING_KEY_RECORD, before)
  await tx.run(sql`update signing_keys set ${change(row, 'retires_at revoked_at version mac')} where id = ${row.id}`)
  tx.afterCommit(() => tx.records.committed(SIGNING_KEY_RECORD, row as object as RecordRow))
}

/** How a rotation went: the key that signs from now on, and those that it replaced. */
export interface Rotation {
  id: string
  previous: string[]
  /** Until when access tokens by the previous ones count; null where they were revoked. */
  retiresAt: Date | null
}

/**
 * Makes a new signing key. The ones before it stay published, and their access tokens valid, until the last of them has
 * expired; refresh tokens go on. With `revoke` nothing that they signed counts any more: everybody signs in again.
 */
export async function rotateSigningKey(
  { db, keys, now }: { db: Db; keys: KeyProvider; now(): Date },
  options: { revoke: boolean },
): Promise<Rotation> {
  const at = now()
  const made = await newRow(keys, at)
  const retiresAt = new Date(at.getTime() + RETIRE_MS)
  return db.tx(async (tx) => {
    await tx.run(sql`select pg_advisory_xact_lock(${LOCK}::bigint)`)
    const previous = await readToEnd<KeyRow>(
      tx,
      SIGNING_KEY_RECORD,
      options.revoke
        ? sql`select * from signing_keys where revoked_at is null`
        : sql`select * from signing_keys where retires_at is null and revoked_at is null`,
    )
    for (const row of previous)
      await storeEnd(
        tx,
        options.revoke
          ? { ...row, revoked_at: at, retires_at: row.retires_at ?? at }
          : { ...row, retires_at: retiresAt },
      )
    await insertKey(tx, made)
    await recordForInstallation(tx, { now }, { action: 'installation.signing_key_rotated', target: made.id })
    return { id: made.id, previous: previous.map((row) => row.id), retiresAt: options.revoke ? null : retiresAt }
  })
}

/** The keys that are not revoked, the newest first. One that somebody else wrote is reported and does not count. */
async function validKeys(db: Db): Promise<KeyRow[]> {
  const rows = await readToEnd<KeyRow>(
    db,
    SIGNING_KEY_RECORD,
    sql`
    select * from signing_keys where revoked_at is null order by retires_at desc nulls first, created_at desc`,
  )
  return rows.filter((row) => !isMarked(row))
}

/** The first process creates the first key. */
async function ensureKey(db: Db, keys: KeyProvider, now: Date): Promise<void> {
  const made = await newRow(keys, now)
  await db.tx(async (tx) => {
    await tx.run(sql`select pg_advisory_xact_lock(${LOCK}::bigint)`)
    if (!(await validKeys(tx)).some((row) => row.retires_at === null)) await insertKey(tx, made)
  })
}

/** `now` is the wall clock, for retirement; trust in what was read is counted on the monotonic one. */
export function createSigningKeys(options: { db: Db; keys: KeyProvider; log: Logger; now(): Date }): SigningKeys {
  const { db, keys, log, now } = options
  /** The newest first. */
  let known: SigningKey[] = []
  const opened = new Map<string, Omit<SigningKey, 'retiresAtMs'>>()
  let trustedUntil = 0
  let missedAt = Number.NEGATIVE_INFINITY
  let search: Promise<void> | undefined

  async function openRow(row: KeyRow): Promise<SigningKey> {
    let parts = opened.get(row.id)
    if (parts === undefined) {
      const pkcs8 = await open(keys, row.private_key_sealed, context('private', row.id))
      const secret = await open(keys, row.refresh_secret_sealed, context('refresh', row.id))
      const privateKey = createPrivateKey({ key: pkcs8, type: 'pkcs8', format: 'der' })
      parts = {
        id: row.id,
        // Not what the database says it is: somebody who writes there could make it verify tokens of their own.
        publicKey: createPublicKey(privateKey),
        privateKey,
        refreshKey: createSecretKey(secret),
      }
      pkcs8.fill(0)
      secret.fill(0)
      opened.set(row.id, parts)
    }
    return { ...parts, retiresAtMs: row.retires_at?.getTime() ?? null }
  }

  async function read(): Promise<void> {
    const startedAt = performance.now()
    const rows = await validKeys(db)
    if (!rows.some((row) => row.retires_at === null)) {
      await ensureKey(db, keys, now())
      return read()
    }
    known = await Promise.all(rows.map(openRow))
    trustedUntil = startedAt + TRUST_MS
  }

  const refresh = singleFlight(read)
  const fresh = async () => {
    if (performance.now() >= trustedUntil) await refresh()
  }

  return {
    async current() {
      await fresh()
      return known[0] as SigningKey
    },
    async oldest() {
      await fresh()
      return known.at(-1) as SigningKey
    },
    async find(id) {
      await fresh()
      const found = known.find((key) => key.id === id)
      if (found !== undefined) return found
      // Callers that come during a search wait for its result: a new key's first tokens may come many at once.
      if (performance.now() - missedAt >= MISS_MS) {
        missedAt = performance.now()
        search = refresh().catch((error: unknown) => {
          // A search that failed found nothing out: the next caller searches again.
          missedAt = Number.NEGATIVE_INFINITY
          throw error
        })
      }
      await search
      return known.find((key) => key.id === id)
    },
    async published() {
      await fresh()
      const at = now().getTime()
      return known.filter((key) => key.retiresAtMs === null || key.retiresAtMs > at)
    },
    ...createPoller({ pauseMs: POLL_MS, work: refresh, log, failure: 'signing keys could not be read' }),
  }
}
