import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { type Db, sql } from '../db/db.ts'
import type { Id } from '../ids.ts'
import type { LedgerSignature } from '../ports/ledger.ts'
import { keyFingerprint, namespaceOf } from '../ports/party.ts'
import { signatureOf } from '../ports/signature.ts'
import { open } from './crypto.ts'
import type { KeyProvider } from './key-provider.ts'

const KEYS_MAX = 1_000
const DIGEST_BYTES_MAX = 64
/** RFC 8410, section 4: the raw key is the end of its SubjectPublicKeyInfo. */
const RAW_KEY_BYTES = 32

/** Signs in a tenant's name. Write access to the database does not suffice: the private key is sealed. */
export interface NodeSigner {
  /** Raw, derived from the private key, not from what the database says. */
  publicKey: Buffer
  /** The public key that the database says it is. */
  storedPublicKey: Buffer
  /** Ed25519. A ledger's digests are shorter than 64 bytes: what is signed here must be longer, so that none passes for one. */
  sign(message: Buffer): Buffer
}

interface NodeKey extends NodeSigner {
  privateKey: KeyObject
  /** Fingerprint of the public key. */
  namespace: string
}

async function openNodeKey(db: Db, keys: KeyProvider, tenantId: Id<'ten'>): Promise<NodeKey> {
  const row = await db.one<{ node_public_key: Buffer; node_key_sealed: Buffer }>(
    sql`select node_public_key, node_key_sealed from tenants where id = ${tenantId}`,
  )
  if (row === undefined) throw new Error(`there is no tenant ${tenantId}`)
  const pkcs8 = await open(keys, row.node_key_sealed, ['node key', tenantId])
  const privateKey = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' })
  pkcs8.fill(0)
  const publicKey = createPublicKey(privateKey).export({ type: 'spki', format: 'der' }).subarray(-RAW_KEY_BYTES)
  return {
    privateKey,
    namespace: keyFingerprint(publicKey),
    publicKey,
    storedPublicKey: row.node_public_key,
    sign(message) {
      if (message.length <= DIGEST_BYTES_MAX) throw new RangeError('too short: it could be the digest of a transaction')
      return sign(null, message, privateKey)
    },
  }
}

/** The opened keys of a process, by what opens them: every transaction needs one. */
const opened = new WeakMap<KeyProvider, LRUCache<Id<'ten'>, NodeKey>>()

async function findNodeKey(db: Db, keys: KeyProvider, tenantId: Id<'ten'>): Promise<NodeKey> {
  const known = opened.get(keys) ?? new LRUCache<Id<'ten'>, NodeKey>({ max: KEYS_MAX })
  opened.set(keys, known)
  const key = known.get(tenantId) ?? (await openNodeKey(db, keys, tenantId))
  known.set(tenantId, key)
  return key
}

/** The signer of a tenant's ledger node; opened at first use. @throws Error when its key cannot be opened */
export function nodeSigner(db: Db, keys: KeyProvider, tenantId: Id<'ten'>): Promise<NodeSigner> {
  return findNodeKey(db, keys, tenantId)
}

/** The same, read from the database again: for a check of the database. @throws Error when its key cannot be opened */
export function freshNodeSigner(db: Db, keys: KeyProvider, tenantId: Id<'ten'>): Promise<NodeSigner> {
  return openNodeKey(db, keys, tenantId)
}

/**
 * The node's signature over what a ledger has a party sign, for a party in its namespace; none for any other.
 * @throws RangeError for a payload that could pass for another message of the node's
 */
export async function signForParty(
  db: Db,
  keys: KeyProvider,
  { tenantId, party, payload }: { tenantId: Id<'ten'>; party: string; payload: Buffer },
): Promise<LedgerSignature[]> {
  if (payload.length > DIGEST_BYTES_MAX) throw new RangeError('too long: it could be a message of the node itself')
  const node = await findNodeKey(db, keys, tenantId)
  if (node.namespace !== namespaceOf(party)) return []
  return [signatureOf(node.publicKey, sign(null, payload, node.privateKey))]
}
