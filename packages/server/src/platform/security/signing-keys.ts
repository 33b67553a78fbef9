import {
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
} from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { createPoller } from '../concurrency/poll.ts'
import { type Db, sql } from '../db/db.ts'
import { change, insertion } from '../db/rows.ts'
import { recordForInstallation } from '../events/audit-only-entries.ts'
import type { Logger } from '../observability/log.ts'
import { open, seal } from './crypto.ts'
import type { KeyProvider } from './key-provider.ts'
import { isMarked, readToEnd, resealed, sealed, type Versioned } from './records/access.ts'
import type { RecordRow } from './records/kind.ts'
import { SIGNING_KEY_RECORD } from './records/signing-key-record.ts'
import { type Signer, verifierOf } from './signers/signer.ts'
import { newRemoteKey, type Signers } from './signers/signers.ts'

/** One rotation's keys: Ed25519 for access tokens, an HMAC key for refresh tokens. */
export interface SigningKey {
  id: string
  publicKey: KeyObject
  /** Whether its private half is outside this process: then nothing is signed in a transaction. */
  isRemote: boolean
  refreshKey: KeyObject
  /** Ed25519. @throws KeyServiceError */
  sign(payload: Buffer): Buffer | Promise<Buffer>
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
  /** Null for a key outside, whose public half (raw) is in `remote_public_key`. */
  private_key_sealed: Buffer | null
  remote_public_key: Buffer | null
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
const REFUSED_MS = 1_000
/** Unknown ids are looked up at most this often: forged tokens must not cause queries. Whoever names one waits that long at most. */
const MISS_MS = 50
const LOCK = 4_812_570_350

const context = (what: 'private' | 'refresh', id: string) => ['signing key', what, id]

async function newLocalKey(keys: KeyProvider, id: string) {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const pkcs8 = privateKey.export({ type: 'pkcs8', format: 'der' })
  const sealedKey = await seal(keys, pkcs8, context('private', id))
  pkcs8.fill(0)
  return { public_key: publicKey.export({ type: 'spki', format: 'der' }), private_key_sealed: sealedKey }
}

/** Seals before any transaction: a key provider may be a network away. @param remote the key to use instead of a new one */
async function newRow(keys: KeyProvider, now: Date, remote: Signer | null): Promise<NewRow> {
  const id = randomBytes(12).toString('base64url')
  const secret = randomBytes(32)
  const key =
    remote === null
      ? await newLocalKey(keys, id)
      : { public_key: verifierOf(remote.publicKey).export({ type: 'spki', format: 'der' }), private_key_sealed: null }
  const row = {
    id,
    ...key,
    remote_public_key: remote?.publicKey ?? null,
    refresh_secret_sealed: await seal(keys, secret, context('refresh', id)),
    created_at: now,
    retires_at: null,
    revoked_at: null,
    version: 0,
    mac: null,
  }
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
  /** The public half (raw) of the key outside that signs from now on; null for a key of this installation. */
  remote: Buffer | null
}

/**
 * Makes a new signing key. The ones before it stay published, and their access tokens valid, until the last of them has
 * expired; refresh tokens go on. With `revoke` nothing that they signed counts any more: everybody signs in again. It returns
 * once no process believes them: what was made by their tokens until then can be ended after it. Where
 * HALFKEY_SIGNERS names a key for tokens, it is that one, unless `local`.
 * @throws KeyServiceError
 */
export async function rotateSigningKey(
  { db, keys, signers, now }: { db: Db; keys: KeyProvider; signers: Signers; now(): Date },
  options: { revoke: boolean; local?: boolean },
): Promise<Rotation> {
  const at = now()
  const remote = options.local ? null : await newRemoteKey(signers, 'token')
  const made = await newRow(keys, at, remote)
  const retiresAt = new Date(at.getTime() + RETIRE_MS)
  const rotation = await db.tx(async (tx) => {
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
    return {
      id: made.id,
      previous: previous.map((row) => row.id),
      retiresAt: options.revoke ? null : retiresAt,
      remote: made.remote_public_key,
    }
  })
  if (options.revoke) await pause(REFUSED_MS)
  return rotation
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
async function ensureKey(db: Db, keys: KeyProvider, signers: Signers, now: Date): Promise<void> {
  const made = await newRow(keys, now, await newRemoteKey(signers, 'token'))
  await db.tx(async (tx) => {
    await tx.run(sql`select pg_advisory_xact_lock(${LOCK}::bigint)`)
    if (!(await validKeys(tx)).some((row) => row.retires_at === null)) await insertKey(tx, made)
  })
}

/** `now` is the wall clock, for retirement; trust in what was read is counted on the monotonic one. */
export function createSigningKeys(options: {
  db: Db
  keys: KeyProvider
  signers: Signers
  log: Logger
  now(): Date
}): SigningKeys {
  const { db, keys, signers, log, now } = options
  /** The newest first. */
  let known: SigningKey[] = []
  const opened = new Map<string, Omit<SigningKey, 'retiresAtMs'>>()
  let trustedUntil = 0
  let searchedAt = Number.NEGATIVE_INFINITY
  /** There is one at a time, so that none undoes what a later one has found, and a slow database gets no heap of them. */
  let reading: Promise<void> | undefined
  /** A search that has not begun to read. */
  let upcoming: Promise<void> | undefined

  async function openPair({ id, private_key_sealed: sealedKey, remote_public_key: outside }: KeyRow) {
    if (sealedKey === null) {
      // The record's MAC covers it, and such a record never counts without one.
      const publicKey = outside as Buffer
      const signed = async (payload: Buffer) => (await signers.find('token', publicKey)).sign(payload)
      return { publicKey: verifierOf(publicKey), isRemote: true, sign: signed }
    }
    const pkcs8 = await open(keys, sealedKey, context('private', id))
    const privateKey = createPrivateKey({ key: pkcs8, type: 'pkcs8', format: 'der' })
    pkcs8.fill(0)
    // Not what the database says it is: somebody who writes there could make it verify tokens of their own.
    const publicKey = createPublicKey(privateKey)
    return { publicKey, isRemote: false, sign: (payload: Buffer) => sign(null, payload, privateKey) }
  }

  async function openRow(row: KeyRow): Promise<SigningKey> {
    let parts = opened.get(row.id)
    if (parts === undefined) {
      const pair = await openPair(row)
      const secret = await open(keys, row.refresh_secret_sealed, context('refresh', row.id))
      parts = { id: row.id, ...pair, refreshKey: createSecretKey(secret) }
      secret.fill(0)
      opened.set(row.id, parts)
    }
    return { ...parts, retiresAtMs: row.retires_at?.getTime() ?? null }
  }

  async function read(): Promise<void> {
    const startedAt = performance.now()
    const rows = await validKeys(db)
    if (!rows.some((row) => row.retires_at === null)) {
      await ensureKey(db, keys, signers, now())
      return read()
    }
    known = await Promise.all(rows.map(openRow))
    trustedUntil = startedAt + TRUST_MS
  }

  const refresh = () => {
    reading ??= read().finally(() => {
      reading = undefined
    })
    return reading
  }
  const fresh = async () => {
    if (performance.now() >= trustedUntil) await refresh()
  }

  /**
   * A reading that begins after the call: one under way may have missed a key that was made since, whose first tokens are
   * good. Many callers share one.
   */
  function search(): Promise<void> {
    upcoming ??= (async () => {
      await pause(Math.max(0, searchedAt + MISS_MS - performance.now()))
      while (reading !== undefined) await reading.catch(() => {})
      upcoming = undefined
      searchedAt = performance.now()
      await refresh()
    })()
    return upcoming
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
      await search()
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
