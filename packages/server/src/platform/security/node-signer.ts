import { createPublicKey, type KeyObject, sign } from 'node:crypto'
import type { Db } from '../db/db.ts'
import type { Id } from '../ids.ts'
import type { KeyProvider } from './key-provider.ts'
import { createNodeKeys } from './node-keys.ts'

type NodeKeys = ReturnType<typeof createNodeKeys>

/** The opened keys of a process, by what opens them. */
const opened = new WeakMap<KeyProvider, NodeKeys>()

function nodeKeysOf(keys: KeyProvider): NodeKeys {
  const known = opened.get(keys) ?? createNodeKeys(keys)
  opened.set(keys, known)
  return known
}

/** What signs in a tenant's name, whoever may write to the database: its private key is sealed. */
export interface NodeSigner {
  /** Raw, of the private key itself and not of what the database says beside it. */
  publicKey: Buffer
  /** What the database says its public key is. */
  storedPublicKey: Buffer
  /** Ed25519. The ledger's digests have 32 bytes: what is signed here must be longer, so that none passes for one. */
  sign(message: Buffer): Buffer
}

const DIGEST_BYTES_MAX = 64
/** RFC 8410, section 4: the raw key is the end of its SubjectPublicKeyInfo. */
const RAW_KEY_BYTES = 32

function signerOf({ privateKey, publicKey: storedPublicKey }: Awaited<ReturnType<NodeKeys['find']>>): NodeSigner {
  return {
    publicKey: createPublicKey(privateKey).export({ type: 'spki', format: 'der' }).subarray(-RAW_KEY_BYTES),
    storedPublicKey,
    sign(message) {
      if (message.length <= DIGEST_BYTES_MAX) throw new RangeError('too short: it could be the digest of a transaction')
      return sign(null, message, privateKey)
    },
  }
}

const signers = new WeakMap<KeyObject, NodeSigner>()

/** The signer of a tenant's ledger node; opened at first use. @throws Error when its key cannot be opened */
export async function nodeSigner(db: Db, keys: KeyProvider, tenantId: Id<'ten'>): Promise<NodeSigner> {
  const key = await nodeKeysOf(keys).find(db, tenantId)
  const signer = signers.get(key.privateKey) ?? signerOf(key)
  signers.set(key.privateKey, signer)
  return signer
}

/** The same as the database has it now: for whoever doubts the database. @throws Error when its key cannot be opened */
export async function freshNodeSigner(db: Db, keys: KeyProvider, tenantId: Id<'ten'>): Promise<NodeSigner> {
  return signerOf(await createNodeKeys(keys).find(db, tenantId))
}
