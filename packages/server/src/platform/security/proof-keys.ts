import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { type Db, sql } from '../db/db.ts'
import type { Id } from '../ids.ts'
import { isSignedBy } from '../ports/signature.ts'
import { canonicalJson } from './canonical-json.ts'
import { open, seal } from './crypto.ts'
import type { KeyProvider } from './key-provider.ts'
import { freshNodeSigner, nodeSigner } from './node-keys.ts'

/** Part of every delegation: the node key also signs transactions. */
const DELEGATION_FORMAT = 'halfkey-proof-key/1'
const KEYS_MAX = 1_000
/** RFC 8410, section 4: the raw key is the end of its SubjectPublicKeyInfo. */
const RAW_KEY_BYTES = 32

const context = (tenantId: Id<'ten'>) => ['proof key', tenantId]

/** Signs the heads of a tenant's audit log and ledger. It moves nothing: the ledger-node key, which does, only names it. */
export interface ProofSigner {
  /** Raw, derived from the private key. */
  publicKey: Buffer
  /** Of the tenant's ledger node, raw: the ids of the tenant's parties end with its fingerprint. */
  nodePublicKey: Buffer
  /** The node key's signature over this key. */
  delegation: Buffer
  /** When the key was made. */
  since: Date
  /** Ed25519. */
  sign(message: Buffer): Buffer
}

interface ProofRow {
  proof_public_key: Buffer | null
  proof_key_sealed: Buffer | null
  proof_delegation: Buffer | null
  proof_key_at: Date | null
}

/** The bytes by which a tenant's node key names its proof key. */
function delegationMessage(tenantId: string, publicKey: Buffer): Buffer {
  return Buffer.from(canonicalJson({ format: DELEGATION_FORMAT, publicKey: publicKey.toString('hex'), tenantId }))
}

/** Whether the node's key (raw) named this proof key (raw). */
export function isDelegated(
  tenantId: string,
  { publicKey, nodePublicKey, delegation }: Pick<ProofSigner, 'publicKey' | 'nodePublicKey' | 'delegation'>,
): boolean {
  return isSignedBy(nodePublicKey, delegationMessage(tenantId, publicKey), delegation)
}

const rawKeyOf = (privateKey: KeyObject) =>
  createPublicKey(privateKey).export({ type: 'spki', format: 'der' }).subarray(-RAW_KEY_BYTES)

/** Makes the tenant's key, unless another process has. */
async function createKey(db: Db, keys: KeyProvider, tenantId: Id<'ten'>, now: Date): Promise<void> {
  const node = await nodeSigner(db, keys, tenantId)
  const { privateKey } = generateKeyPairSync('ed25519')
  const publicKey = rawKeyOf(privateKey)
  const pkcs8 = privateKey.export({ type: 'pkcs8', format: 'der' })
  const sealed = await seal(keys, pkcs8, context(tenantId))
  pkcs8.fill(0)
  const delegation = node.sign(delegationMessage(tenantId, publicKey))
  await db.run(sql`
    update tenants set proof_public_key = ${publicKey}, proof_key_sealed = ${sealed}, proof_delegation = ${delegation},
      proof_key_at = ${now}
    where id = ${tenantId} and proof_key_sealed is null`)
}

/** The key as the database has it; undefined if it was not made yet. @throws Error if it is not the one that it seals */
async function openKey(
  db: Db,
  keys: KeyProvider,
  tenantId: Id<'ten'>,
  nodePublicKey: Buffer,
): Promise<ProofSigner | undefined> {
  const row = await db.one<ProofRow>(sql`
    select proof_public_key, proof_key_sealed, proof_delegation, proof_key_at from tenants where id = ${tenantId}`)
  const {
    proof_public_key: stored,
    proof_key_sealed: sealed,
    proof_delegation: delegation,
    proof_key_at: since,
  } = row ?? {}
  if (sealed === null || sealed === undefined) return undefined
  const pkcs8 = await open(keys, sealed, context(tenantId))
  const privateKey = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' })
  pkcs8.fill(0)
  const publicKey = rawKeyOf(privateKey)
  const isWhole = stored?.equals(publicKey) && delegation && since
  if (!isWhole || !isDelegated(tenantId, { publicKey, nodePublicKey, delegation }))
    throw new Error(`the proof key of ${tenantId} was altered in the database: it does not match the sealed keys`)
  return { publicKey, nodePublicKey, delegation, since, sign: (message) => sign(null, message, privateKey) }
}

/** The opened keys of a process, by what opened them. */
const opened = new WeakMap<KeyProvider, LRUCache<Id<'ten'>, ProofSigner>>()

/**
 * A tenant's proof key; made at first use. Call it before a transaction: a key provider may be a network away.
 * @throws Error if its key cannot be opened
 */
export async function proofSigner(
  db: Db,
  { keys, now }: { keys: KeyProvider; now(): Date },
  tenantId: Id<'ten'>,
): Promise<ProofSigner> {
  const known = opened.get(keys) ?? new LRUCache<Id<'ten'>, ProofSigner>({ max: KEYS_MAX })
  opened.set(keys, known)
  const cached = known.get(tenantId)
  if (cached !== undefined) return cached
  const { publicKey: nodePublicKey } = await nodeSigner(db, keys, tenantId)
  const found = await openKey(db, keys, tenantId, nodePublicKey)
  if (found === undefined) {
    await createKey(db, keys, tenantId, now())
    return proofSigner(db, { keys, now }, tenantId)
  }
  known.set(tenantId, found)
  return found
}

/**
 * The same, read from the database again and never made: for a check of the database. Undefined if there is none yet.
 * @throws Error if its key cannot be opened or was altered
 */
export async function freshProofSigner(
  db: Db,
  keys: KeyProvider,
  tenantId: Id<'ten'>,
): Promise<ProofSigner | undefined> {
  const { publicKey } = await freshNodeSigner(db, keys, tenantId)
  return openKey(db, keys, tenantId, publicKey)
}
