import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { type Db, sql } from '../db/db.ts'
import { recordForInstallation } from '../events/audit-only-entries.ts'
import { canonicalJson } from './canonical-json.ts'
import { open, seal } from './crypto.ts'
import type { KeyProvider } from './key-provider.ts'

/** What an identity key needs of the process. */
interface IdentityDeps {
  db: Db
  keys: KeyProvider
  now(): Date
}

/** The key that identifies this installation to clients that pin it. */
export interface IdentityKey {
  /** Raw Ed25519, derived from the private key: the database is not believed. */
  publicKey: Buffer
  /** `hk_pin_…`: the key's fingerprint, which clients are given. */
  pin: string
  /** The replaced key, and its signature over this one; null if this key is the first or replaced a compromised one. */
  previous: { publicKey: Buffer; pin: string; signature: Buffer } | null
  /** Ed25519 over the RFC 8785 form of `{...statement, purpose}`. */
  sign(purpose: string, statement: object): Buffer
}

interface IdentityRow {
  id: string
  position: number
  public_key: Buffer
  private_key_sealed: Buffer | null
  endorsement: Buffer | null
  created_at: Date
}

const LOCK = 4_812_570_362
const PIN_TAG = 'halfkey/v1/identity-pin\0'
/** RFC 8410, section 4: the raw key is the end of its SubjectPublicKeyInfo. */
const RAW_KEY_BYTES = 32

const keyContext = (id: string) => ['identity key', id]

/** The pin of an identity key: 32 bytes of SHA-256, domain-separated, as base64url. */
function pinOf(publicKey: Buffer): string {
  return `hk_pin_${createHash('sha256').update(PIN_TAG).update(publicKey).digest('base64url')}`
}

const rawKeyOf = (privateKey: KeyObject) =>
  createPublicKey(privateKey).export({ type: 'spki', format: 'der' }).subarray(-RAW_KEY_BYTES)

const signed = (privateKey: KeyObject, purpose: string, statement: object) =>
  sign(null, Buffer.from(canonicalJson({ ...statement, purpose: `halfkey/v1/${purpose}` })), privateKey)

/** What the old key signs to name its successor. */
const endorse = (privateKey: KeyObject, from: Buffer, to: Buffer) =>
  signed(privateKey, 'identity-rotation', { from: from.toString('hex'), to: to.toString('hex') })

/** Seals before any transaction: a key provider may be a network away. */
async function newRow(keys: KeyProvider, position: number, endorsement: (to: Buffer) => Buffer | null, now: Date) {
  const { privateKey } = generateKeyPairSync('ed25519')
  const publicKey = rawKeyOf(privateKey)
  const id = pinOf(publicKey).slice(7, 23)
  const pkcs8 = privateKey.export({ type: 'pkcs8', format: 'der' })
  const row: IdentityRow = {
    id,
    position,
    public_key: publicKey,
    private_key_sealed: await seal(keys, pkcs8, keyContext(id)),
    endorsement: endorsement(publicKey),
    created_at: now,
  }
  pkcs8.fill(0)
  return row
}

/** The newest key first, and the one before it. */
const newestRows = (db: Db) =>
  db.query<IdentityRow>(sql`
    select id, position, public_key, private_key_sealed, endorsement, created_at from identity_keys
    order by position desc limit 2`)

async function insertRow(tx: Db, row: IdentityRow): Promise<void> {
  await tx.run(sql`
    insert into identity_keys (id, position, public_key, private_key_sealed, endorsement, created_at)
    values (${row.id}, ${row.position}, ${row.public_key}, ${row.private_key_sealed}, ${row.endorsement}, ${row.created_at})`)
}

/** Whether the key of `position` is still the newest. Concurrent changes wait for the end of the transaction. */
async function lockNewest(tx: Db, position: number): Promise<boolean> {
  await tx.run(sql`select pg_advisory_xact_lock(${LOCK}::bigint)`)
  const [newest] = await newestRows(tx)
  return (newest?.position ?? 0) === position
}

/** The opened keys of a process, by what opened them. There is one for each rotation. */
const opened = new WeakMap<KeyProvider, Map<string, { sealed: Buffer; privateKey: KeyObject }>>()

async function privateKeyOf(keys: KeyProvider, row: IdentityRow): Promise<KeyObject> {
  const { id, private_key_sealed: sealed, public_key: stored } = row
  if (sealed === null) throw new Error(`the private part of identity key ${id} is gone although it is the newest`)
  const known = opened.get(keys) ?? new Map<string, { sealed: Buffer; privateKey: KeyObject }>()
  opened.set(keys, known)
  const cached = known.get(id)
  if (cached?.sealed.equals(sealed)) return checked(cached.privateKey, stored, id)
  const pkcs8 = await open(keys, sealed, keyContext(id))
  const privateKey = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' })
  pkcs8.fill(0)
  known.set(id, { sealed, privateKey })
  return checked(privateKey, stored, id)
}

function checked(privateKey: KeyObject, stored: Buffer, id: string): KeyObject {
  if (rawKeyOf(privateKey).equals(stored)) return privateKey
  throw new Error(`the public part of identity key ${id} was changed in the database: restore it from a backup`)
}

async function identityOf(keys: KeyProvider, row: IdentityRow, before: IdentityRow | undefined): Promise<IdentityKey> {
  const privateKey = await privateKeyOf(keys, row)
  const { public_key: publicKey, endorsement: signature } = row
  const from = before?.public_key
  return {
    publicKey,
    pin: pinOf(publicKey),
    previous: from === undefined || signature === null ? null : { publicKey: from, pin: pinOf(from), signature },
    sign: (purpose, statement) => signed(privateKey, purpose, statement),
  }
}

/** The newest identity key. The first process creates the first one. @throws Error if it cannot be opened */
export async function identityKey(deps: IdentityDeps): Promise<IdentityKey> {
  const [newest, before] = await newestRows(deps.db)
  if (newest !== undefined) return identityOf(deps.keys, newest, before)
  const row = await newRow(deps.keys, 1, () => null, deps.now())
  await deps.db.tx(async (tx) => {
    if (await lockNewest(tx, 0)) await insertRow(tx, row)
  })
  return identityKey(deps)
}

/** Another process has replaced the identity key at the same time. */
export class IdentityRotationError extends Error {}

/**
 * Makes a new identity key and destroys the private part of the old one. The old key signs the new one, so that clients
 * that pin the old one follow. With `compromised` nothing is signed: whoever stole the old key could have signed too, so
 * clients must be given the new pin.
 * @throws IdentityRotationError
 */
export async function rotateIdentityKey(deps: IdentityDeps, options: { compromised: boolean }): Promise<IdentityKey> {
  const { db, keys, now } = deps
  await identityKey(deps)
  const [old] = (await newestRows(db)) as [IdentityRow]
  const from = options.compromised ? null : await privateKeyOf(keys, old)
  const endorsement = (to: Buffer) => from && endorse(from, old.public_key, to)
  const row = await newRow(keys, old.position + 1, endorsement, now())
  await db.tx(async (tx) => {
    if (!(await lockNewest(tx, old.position)))
      throw new IdentityRotationError('The identity key was rotated by another process. Run: halfkey keys pin')
    await insertRow(tx, row)
    await recordForInstallation(tx, deps, { action: 'installation.identity_key_rotated', target: row.id })
    await tx.run(sql`update identity_keys set private_key_sealed = null where position < ${row.position}`)
  })
  opened.get(keys)?.delete(old.id)
  return identityKey(deps)
}
