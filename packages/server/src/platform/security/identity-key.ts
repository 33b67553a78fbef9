import { createHash, createPrivateKey, generateKeyPairSync } from 'node:crypto'
import { type Db, sql } from '../db/db.ts'
import { recordForInstallation } from '../events/audit-only-entries.ts'
import { canonicalJson } from './canonical-json.ts'
import { open, seal } from './crypto.ts'
import type { KeyProvider } from './key-provider.ts'
import { localSigner, type Signer } from './signers/signer.ts'
import { newRemoteKey, type Signers } from './signers/signers.ts'

/** What an identity key needs of the process. */
interface IdentityDeps {
  db: Db
  keys: KeyProvider
  signers: Signers
  now(): Date
}

/** The key that identifies this installation to clients that pin it. */
export interface IdentityKey {
  /** Raw Ed25519, of a private key that is at hand: the database is not believed. */
  publicKey: Buffer
  /** `hk_pin_…`: the key's fingerprint, which clients are given. */
  pin: string
  /** The replaced key, and its signature over this one; null if this key is the first or replaced a compromised one. */
  previous: { publicKey: Buffer; pin: string; signature: Buffer } | null
  /** Ed25519 over the RFC 8785 form of `{...statement, purpose}`. Not in a transaction. @throws KeyServiceError */
  sign(purpose: string, statement: object): Promise<Buffer>
}

interface IdentityRow {
  id: string
  position: number
  public_key: Buffer
  /** Null for a key that was replaced, and for one that stays outside. */
  private_key_sealed: Buffer | null
  endorsement: Buffer | null
  created_at: Date
}

const LOCK = 4_812_570_362
const PIN_TAG = 'halfkey/v1/identity-pin\0'

const keyContext = (id: string) => ['identity key', id]

/** The pin of an identity key: 32 bytes of SHA-256, domain-separated, as base64url. */
function pinOf(publicKey: Buffer): string {
  return `hk_pin_${createHash('sha256').update(PIN_TAG).update(publicKey).digest('base64url')}`
}

const signed = (signer: Signer, purpose: string, statement: object) =>
  signer.sign(Buffer.from(canonicalJson({ ...statement, purpose: `halfkey/v1/${purpose}` })))

/** What the old key signs to name its successor. */
const endorse = (signer: Signer, to: Buffer) =>
  signed(signer, 'identity-rotation', { from: signer.publicKey.toString('hex'), to: to.toString('hex') })

const idOf = (publicKey: Buffer) => pinOf(publicKey).slice(7, 23)

async function newLocalKey(keys: KeyProvider): Promise<Pick<IdentityRow, 'public_key' | 'private_key_sealed'>> {
  const { privateKey } = generateKeyPairSync('ed25519')
  const { publicKey } = localSigner(privateKey)
  const pkcs8 = privateKey.export({ type: 'pkcs8', format: 'der' })
  const sealed = await seal(keys, pkcs8, keyContext(idOf(publicKey)))
  pkcs8.fill(0)
  return { public_key: publicKey, private_key_sealed: sealed }
}

/**
 * A row before any transaction: a key provider may be a network away.
 * @param remote the key to use instead of a new one
 * @param from the key that names the new one
 */
async function newRow(
  { keys, now }: IdentityDeps,
  position: number,
  remote: Signer | null,
  from: Signer | null,
): Promise<IdentityRow> {
  const key = remote === null ? await newLocalKey(keys) : { public_key: remote.publicKey, private_key_sealed: null }
  return {
    id: idOf(key.public_key),
    position,
    ...key,
    endorsement: from && (await endorse(from, key.public_key)),
    created_at: now(),
  }
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

const isUsed = async (db: Db, publicKey: Buffer) =>
  (await db.one(sql`select from identity_keys where public_key = ${publicKey}`)) !== undefined

/** Whether the key of `position` is still the newest. Concurrent changes wait for the end of the transaction. */
async function lockNewest(tx: Db, position: number): Promise<boolean> {
  await tx.run(sql`select pg_advisory_xact_lock(${LOCK}::bigint)`)
  const [newest] = await newestRows(tx)
  return (newest?.position ?? 0) === position
}

/** The opened keys of a process, by what opened them. There is one for each rotation. */
const opened = new WeakMap<KeyProvider, Map<string, { sealed: Buffer; signer: Signer }>>()

/** What signs as the key of a row: a sealed key, or one that HALFKEY_SIGNERS names. The row alone cannot say that it is one. */
async function signerOf({ keys, signers }: IdentityDeps, row: IdentityRow): Promise<Signer> {
  const { id, private_key_sealed: sealed, public_key: stored } = row
  if (sealed === null && signers.named('identity').length === 0)
    throw new Error(
      `the private part of identity key ${id} is not in the database although it is the newest: name it in HALFKEY_SIGNERS, if it is in a hardware module`,
    )
  if (sealed === null) return signers.find('identity', stored)
  const known = opened.get(keys) ?? new Map<string, { sealed: Buffer; signer: Signer }>()
  opened.set(keys, known)
  const cached = known.get(id)
  if (cached?.sealed.equals(sealed)) return checked(cached.signer, stored, id)
  const pkcs8 = await open(keys, sealed, keyContext(id))
  const signer = localSigner(createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' }))
  pkcs8.fill(0)
  known.set(id, { sealed, signer })
  return checked(signer, stored, id)
}

function checked(signer: Signer, stored: Buffer, id: string): Signer {
  if (signer.publicKey.equals(stored)) return signer
  throw new Error(`the public part of identity key ${id} was changed in the database: restore it from a backup`)
}

async function identityOf(deps: IdentityDeps, row: IdentityRow, before: IdentityRow | undefined): Promise<IdentityKey> {
  const signer = await signerOf(deps, row)
  const { public_key: publicKey, endorsement: signature } = row
  const from = before?.public_key
  return {
    publicKey,
    pin: pinOf(publicKey),
    previous: from === undefined || signature === null ? null : { publicKey: from, pin: pinOf(from), signature },
    sign: (purpose, statement) => signed(signer, purpose, statement),
  }
}

/** The newest identity key. The first process creates the first one. @throws Error if it cannot be opened */
export async function identityKey(deps: IdentityDeps): Promise<IdentityKey> {
  const [newest, before] = await newestRows(deps.db)
  if (newest !== undefined) return identityOf(deps, newest, before)
  const row = await newRow(deps, 1, await newRemoteKey(deps.signers, 'identity'), null)
  await deps.db.tx(async (tx) => {
    if (await lockNewest(tx, 0)) await insertRow(tx, row)
  })
  return identityKey(deps)
}

/** The identity key cannot be replaced like this. The message says why. */
export class IdentityRotationError extends Error {}

/**
 * Makes a new identity key, or takes the one that HALFKEY_SIGNERS names (unless `local`), and destroys the private part of the
 * old one, if it is in the database. The old key signs the new one, so that clients
 * that pin the old one follow. With `compromised` nothing is signed: whoever stole the old key could have signed too, so
 * clients must be given the new pin.
 * @throws IdentityRotationError, KeyServiceError
 */
export async function rotateIdentityKey(
  deps: IdentityDeps,
  options: { compromised: boolean; local?: boolean },
): Promise<IdentityKey> {
  const { db, keys } = deps
  // A key that was compromised, or whose module is lost, need not be at hand to be replaced.
  if (!options.compromised) await identityKey(deps)
  const [old] = await newestRows(db)
  if (old === undefined) return identityKey(deps)
  const from = options.compromised ? null : await signerOf(deps, old)
  const remote = options.local ? null : await newRemoteKey(deps.signers, 'identity')
  if (remote !== null && (await isUsed(db, remote.publicKey)))
    throw new IdentityRotationError(
      'The first identity key of HALFKEY_SIGNERS is, or was, the identity key already. Make another in the module and name it first.',
    )
  const row = await newRow(deps, old.position + 1, remote, from)
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
