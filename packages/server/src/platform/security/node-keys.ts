import { createPrivateKey, type KeyObject, sign } from 'node:crypto'
import { type Db, sql } from '../db/db.ts'
import type { Id } from '../ids.ts'
import type { LedgerSignature } from '../ports/ledger.ts'
import { keyFingerprint, namespaceOf } from '../ports/party.ts'
import { open } from './crypto.ts'
import type { KeyProvider } from './key-provider.ts'

const KEYS_MAX = 1_000

interface NodeKey {
  publicKey: Buffer
  namespace: string
  privateKey: KeyObject
}

/** Keeps a value made at first use, at most `KEYS_MAX` of them. */
function remembering<K, V>() {
  const values = new Map<K, V>()
  return {
    get: (key: K) => values.get(key),
    set(key: K, value: V): V {
      if (values.size >= KEYS_MAX) values.delete(values.keys().next().value as K)
      values.set(key, value)
      return value
    },
  }
}

/** The node's key of a tenant, and the sealed private one. */
function findNodeKey(
  db: Db,
  tenantId: Id<'ten'>,
): Promise<{ node_public_key: Buffer; node_key_sealed: Buffer } | undefined> {
  return db.one(sql`select node_public_key, node_key_sealed from tenants where id = ${tenantId}`)
}

/** The tenants' ledger-node keys: opened at first use and kept in memory, since every transaction needs one. */
export function createNodeKeys(keys: KeyProvider) {
  const opened = remembering<Id<'ten'>, NodeKey>()

  async function find(db: Db, tenantId: Id<'ten'>): Promise<NodeKey> {
    const known = opened.get(tenantId)
    if (known !== undefined) return known
    const row = await findNodeKey(db, tenantId)
    if (row === undefined) throw new Error(`there is no tenant ${tenantId}`)
    const pkcs8 = await open(keys, row.node_key_sealed, ['node key', tenantId])
    const privateKey = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' })
    pkcs8.fill(0)
    const publicKey = row.node_public_key
    return opened.set(tenantId, { publicKey, namespace: keyFingerprint(publicKey), privateKey })
  }

  return {
    find,
    /** The node's signature for a party in its namespace; none for any other. */
    async sign(db: Db, tenantId: Id<'ten'>, party: string, digest: Buffer): Promise<LedgerSignature[]> {
      const node = await find(db, tenantId)
      if (node.namespace !== namespaceOf(party)) return []
      return [{ party, publicKey: node.publicKey, signature: sign(null, digest, node.privateKey) }]
    },
  }
}
