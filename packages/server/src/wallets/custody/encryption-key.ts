import { createPrivateKey, createPublicKey } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { invalid } from '../../platform/http/errors.ts'
import type { Caller } from '../../platform/http/route.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'
import { open, seal } from '../../platform/security/crypto.ts'
import { identityKey } from '../../platform/security/identity-key.ts'
import type { SigningKey } from '../../platform/security/signing-keys.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { fail } from './errors.ts'
import type { MpcConfig, SealedToClient, SealedToService } from './schema.ts'
import * as store from './store.ts'

const DAY_MS = 86_400_000
/** How long clients can seal to a key. */
const KEY_MS = 90 * DAY_MS
/** How long before a key expires its successor is created. Clients can use the old key for this time. */
const NEXT_MS = 30 * DAY_MS
/** How long a signed answer is valid at least. It ends at midnight (UTC), so that all answers of a day are equal. */
const SIGNED_MS = 7 * DAY_MS

const keyContext = (kid: string) => ['encryption key', kid]

/** Begins an X25519 private key in PKCS #8 (RFC 8410, section 7). */
const PKCS8_X25519 = Buffer.from('302e020100300506032b656e04220420', 'hex')
const RAW_KEY_BYTES = 32

/** The public half of a raw private key. What the row says it is could be the key of somebody who writes to the database. */
function publicHalf(privateKey: Buffer): Buffer {
  const pkcs8 = Buffer.concat([PKCS8_X25519, privateKey])
  const key = createPublicKey(createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' }))
  pkcs8.fill(0)
  return key.export({ type: 'spki', format: 'der' }).subarray(-RAW_KEY_BYTES)
}

const publicKeys = new LRUCache<string, string>({ max: 100 })

/** The public half of what a row seals, in hex. Opened once by each process. */
async function publicKeyOf(deps: Deps, { id, private_key_sealed: sealed }: store.EncryptionKeyRow): Promise<string> {
  const place = `${id} ${sealed.toString('base64')}`
  const known = publicKeys.get(place)
  if (known !== undefined) return known
  const privateKey = await open(deps.keys, sealed, keyContext(id))
  const publicKey = publicHalf(privateKey).toString('hex')
  privateKey.fill(0)
  publicKeys.set(place, publicKey)
  return publicKey
}

/** The keys that can still be used, newest first. Creates a new one if the newest is about to expire. */
async function currentKeys(deps: Deps): Promise<store.EncryptionKeyRow[]> {
  const now = deps.now()
  const until = new Date(now.getTime() + NEXT_MS)
  const rows = await store.encryptionKeys(deps.db, now)
  if (rows.some((row) => row.not_after > until)) return rows
  const { publicKey, privateKey } = await threshold.newEncryptionKey()
  const id = threshold.toHex(publicKey).slice(0, 16)
  const row = {
    id,
    public_key: Buffer.from(publicKey),
    private_key_sealed: await seal(deps.keys, Buffer.from(privateKey.buffer), keyContext(id)),
    created_at: now,
    not_after: new Date(now.getTime() + KEY_MS),
    mac: null,
  }
  privateKey.fill(0)
  await deps.db.tx((tx) => store.addEncryptionKey(tx, row, until))
  return store.encryptionKeys(deps.db, now)
}

/** The keys to seal to, signed by the installation's identity key, which clients pin, and by the current token-signing key. */
export async function mpcConfig(deps: Deps, caller: Caller): Promise<MpcConfig> {
  const rows = await currentKeys(deps)
  const keys = await Promise.all(
    rows.map(async (row) => ({
      kid: row.id,
      publicKey: await publicKeyOf(deps, row),
      notAfter: row.not_after.toISOString(),
    })),
  )
  const sealing = { suite: threshold.HPKE_SUITE, tenantId: caller.tenantId, keys }
  const told = { ...sealing, identity: await identityOf(deps, sealing) }
  return { ...told, signature: await signatureOf(await deps.signingKeys.current(), canonicalJson(told)) }
}

/** Signatures by keys outside this process, which may take their time: all answers of a day are equal. */
const remoteSignatures = new LRUCache<string, string>({ max: 1_000 })

/** A detached JWS (RFC 7515, appendix F) over the text. */
async function signatureOf(key: SigningKey, text: string): Promise<string> {
  const head = base64url(JSON.stringify({ alg: 'EdDSA', kid: key.id, typ: 'halfkey-mpc-config' }))
  const signed = `${head}.${base64url(text)}`
  const known = remoteSignatures.get(signed)
  if (known !== undefined) return known
  const signature = await key.sign(Buffer.from(signed))
  const made = `${head}..${signature.toString('base64url')}`
  if (key.isRemote) remoteSignatures.set(signed, made)
  return made
}

const base64url = (text: string) => Buffer.from(text).toString('base64url')

async function identityOf(deps: Deps, sealing: object): Promise<MpcConfig['identity']> {
  const { publicKey, pin, previous, sign } = await identityKey(deps)
  const notAfter = new Date(Math.ceil((deps.now().getTime() + SIGNED_MS) / DAY_MS) * DAY_MS).toISOString()
  return {
    publicKey: publicKey.toString('hex'),
    pin,
    notAfter,
    signature: (await sign('mpc-config', { ...sealing, notAfter })).toString('hex'),
    previous: previous && {
      publicKey: previous.publicKey.toString('hex'),
      signature: previous.signature.toString('hex'),
    },
  }
}

/** The service's key with this id. @throws validation_failed (names `field`.kid) */
async function keyOf(db: Db, deps: Deps, kid: string, field: string): Promise<store.EncryptionKeyRow> {
  const rows = await store.encryptionKeys(db, deps.now())
  const row = rows.find(({ id }) => id === kid)
  if (row !== undefined) return row
  throw invalid(`${field}.kid`, 'No key with this id is in use. Read GET /mpc/config again.', 'unknown_key')
}

/**
 * Opens data that a client sealed to the service. `contextOf` receives the public key (hex) that it was sealed to.
 * @throws validation_failed (names `field`.kid), seal_invalid (names `field`)
 */
export async function openFromClient(
  db: Db,
  deps: Deps,
  { kid, enc, ct }: SealedToService,
  of: { purpose: threshold.SealPurpose; contextOf(recipientKey: string): threshold.SealContext; field: string },
): Promise<Uint8Array> {
  const row = await keyOf(db, deps, kid, of.field)
  const privateKey = await open(deps.keys, row.private_key_sealed, keyContext(row.id))
  const context = of.contextOf(publicHalf(privateKey).toString('hex'))
  try {
    const box = { enc: Buffer.from(enc, 'base64url'), ct: Buffer.from(ct, 'base64url') }
    return await threshold.openSealed(privateKey, { purpose: of.purpose, context }, box)
  } catch (error) {
    if (!(error instanceof threshold.ShareError)) throw error
    const message = 'Cannot be opened: it was sealed to another key or for another context, or it was changed.'
    throw fail('seal_invalid').about(of.field, message)
  } finally {
    privateKey.fill(0)
  }
}

/** An X25519 public key from the wire: hex or base64url. */
export function encryptionKeyBytes(text: string): Buffer {
  return Buffer.from(text, text.length === 64 ? 'hex' : 'base64url')
}

/** Seals bytes to a client's key. @throws validation_failed (names `field`) if it is not a key */
export async function sealToClient(
  recipient: Buffer,
  { purpose, context, field }: { purpose: threshold.SealPurpose; context: threshold.SealContext; field: string },
  plaintext: Uint8Array,
): Promise<SealedToClient> {
  try {
    const { enc, ct } = await threshold.sealTo(recipient, { purpose, context }, plaintext)
    return { enc: threshold.toBase64Url(enc), ct: threshold.toBase64Url(ct) }
  } catch (error) {
    if (!(error instanceof threshold.ShareError)) throw error
    throw invalid(field, 'Must be an X25519 public key that can be sealed to.')
  }
}
