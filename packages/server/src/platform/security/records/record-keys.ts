import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { type Db, sql } from '../../db/db.ts'
import { unwrapKey, wrapKey } from '../crypto.ts'
import type { KeyProvider } from '../key-provider.ts'
import { KeyServiceError } from '../key-services/key-service.ts'

const KEY_BYTES = 32
const KEYS_MAX = 10_000

/** The owner of keys of records that belong to no tenant: an operator's link, for example. */
export const INSTALLATION = ''

/** The MAC keys of a process. They never leave it: the database has them wrapped. */
export interface RecordKeys {
  /** The key of a tenant, if this process has opened it. */
  known(tenantId: string): KeyObject | undefined
  /** The key of a tenant; made at its first use. @throws RecordKeyError */
  open(tenantId: string): Promise<KeyObject>
}

/** What the database has in the place of a record key is not one that this service wrapped. */
export class RecordKeyError extends Error {}

const contextOf = (tenantId: string) => ['record key', tenantId]

async function find(db: Db, tenantId: string): Promise<Buffer | undefined> {
  const row = await db.one<{ key_sealed: Buffer }>(
    sql`select key_sealed from record_keys where tenant_id = ${tenantId}`,
  )
  return row?.key_sealed
}

/** @param db not the pool of requests: one that needs a key may hold a connection of it and must not wait for another */
export function createRecordKeys({ db, keys, now }: { db(): Db; keys: KeyProvider; now(): Date }): RecordKeys {
  const opened = new LRUCache<string, KeyObject>({ max: KEYS_MAX })
  const opening = new Map<string, Promise<KeyObject>>()

  async function make(tenantId: string): Promise<Buffer> {
    const fresh = randomBytes(KEY_BYTES)
    const wrapped = await wrapKey(keys, fresh, contextOf(tenantId))
    fresh.fill(0)
    // Committed at once, whatever becomes of the caller's transaction. Of two processes one makes the key, and both read it.
    await db().run(sql`
      insert into record_keys (tenant_id, key_sealed, created_at) values (${tenantId}, ${wrapped}, ${now()})
      on conflict do nothing`)
    return (await find(db(), tenantId)) ?? wrapped
  }

  async function read(tenantId: string): Promise<KeyObject> {
    const wrapped = (await find(db(), tenantId)) ?? (await make(tenantId))
    const bytes = await unwrapKey(keys, wrapped, contextOf(tenantId)).catch((cause: unknown): never => {
      // A key service that is away says nothing about the key.
      if (cause instanceof KeyServiceError) throw cause
      throw new RecordKeyError('a record key could not be opened', { cause })
    })
    const key = createSecretKey(bytes)
    bytes.fill(0)
    opened.set(tenantId, key)
    return key
  }

  return {
    known: (tenantId) => opened.get(tenantId),
    open(tenantId) {
      const known = opened.get(tenantId)
      if (known !== undefined) return Promise.resolve(known)
      const begun = opening.get(tenantId) ?? read(tenantId).finally(() => opening.delete(tenantId))
      opening.set(tenantId, begun)
      return begun
    },
  }
}
