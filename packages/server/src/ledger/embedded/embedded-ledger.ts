import { randomBytes } from 'node:crypto'
import { canonicalJson } from '../../core/canonical-json.ts'
import type { Db } from '../../core/db.ts'
import type { Id } from '../../core/ids.ts'
import type { KeyProvider } from '../../core/key-provider.ts'
import {
  type ContractPage,
  type ContractQuery,
  type Effect,
  type Ledger,
  LedgerError,
  type LedgerSignature,
  type PrepareRequest,
  type Receipt,
  type Update,
} from '../ledger.ts'
import { partyOf } from '../party.ts'
import { isSignedFor } from '../signature.ts'
import { type Input, inputsOf, interpret } from './interpret.ts'
import { createNodeKeys } from './node-keys.ts'
import { contractIdOf, type Decoded, decode, encode } from './prepared.ts'
import * as store from './store.ts'
import { createTemplates } from './templates.ts'

const SEED_BYTES = 32
/** Contracts that one call with a filter looks at. */
const LOOKED_AT_MAX = 2_000

const updateIdOf = (digest: Buffer) => `1220${digest.toString('hex')}`

const signaturesJson = (signatures: readonly LedgerSignature[]) =>
  signatures.map(({ party, publicKey, signature }) => ({
    party,
    publicKey: publicKey.toString('hex'),
    signature: signature.toString('hex'),
  }))

function placeOf(cursor: string | null): store.Place | null {
  if (cursor === null) return null
  const match = /^(\d{1,15})\.(00[0-9a-f]{64})$/.exec(Buffer.from(cursor, 'base64url').toString())
  if (match === null) throw new LedgerError('arguments_invalid', 'This is no cursor of ours.', { field: 'cursor' })
  return { offset: Number(match[1]), contractId: match[2] as string }
}

const cursorOf = ({ createdAtOffset, contractId }: { createdAtOffset: number; contractId: string }) =>
  Buffer.from(`${createdAtOffset}.${contractId}`).toString('base64url')

/** A party's contracts, newest first: a page, or with a filter as many as are found among the next `LOOKED_AT_MAX`. */
async function queryContracts(db: Db, query: ContractQuery): Promise<ContractPage> {
  const { accept, limit } = query
  const lookAt = accept === null ? limit + 1 : LOOKED_AT_MAX + 1
  const found = await store.contractsBefore(db, query, placeOf(query.cursor), lookAt)
  const looked = found.slice(0, lookAt - 1)
  const fitting = accept === null ? looked : looked.filter(accept)
  const contracts = fitting.slice(0, limit)
  const more = found.length === lookAt || fitting.length > limit
  const last = fitting.length > limit ? contracts.at(-1) : looked.at(-1)
  return { contracts, nextCursor: more && last !== undefined ? cursorOf(last) : null }
}

async function follow(
  db: Db,
  tenantId: Id<'ten'>,
  cursor: string | null,
  limit: number,
): Promise<{ updates: Update[]; cursor: string | null }> {
  const match = /^(\d{1,20})\.(\d{1,15})$/.exec(cursor ?? '0.0')
  if (match === null) throw new LedgerError('arguments_invalid', 'This is no cursor of ours.', { field: 'cursor' })
  const rows = await store.updatesAfter(db, tenantId, { xid: match[1] as string, offset: Number(match[2]) }, limit)
  const last = rows.at(-1)
  return {
    updates: rows.map((row) => ({
      updateId: row.update_id,
      offset: row.offset,
      recordedAt: row.recorded_at,
      commandId: row.command_id,
      actAs: row.act_as,
      effects: decode(row.prepared).effects,
    })),
    cursor: last === undefined ? cursor : `${last.xid}.${last.offset}`,
  }
}

/** What one database transaction has read and prepared. */
interface Held {
  inputs: ReadonlyMap<string, Input>
  /** Digests of what it prepared since it last submitted something. */
  prepared: Set<string>
}

/** Contracts that a transaction holds locked: they are as they were read until it ends or changes them itself. */
function createReader() {
  const held = new WeakMap<Db, Held>()
  return {
    async read(tx: Db, tenantId: Id<'ten'>, ids: readonly string[]): Promise<ReadonlyMap<string, Input>> {
      const known = held.get(tx)
      if (known !== undefined && ids.every((id) => known.inputs.has(id))) return known.inputs
      const rows = ids.length === 0 ? [] : await store.lockContracts(tx, tenantId, ids)
      const inputs = new Map([...(known?.inputs ?? []), ...rows.map((input) => [input.contractId, input] as const)])
      held.set(tx, { inputs, prepared: known?.prepared ?? new Set() })
      return inputs
    },
    notePrepared(tx: Db, digest: Buffer): void {
      held.get(tx)?.prepared.add(digest.toString('hex'))
    },
    hasPrepared: (tx: Db, digest: Buffer): boolean => held.get(tx)?.prepared.has(digest.toString('hex')) ?? false,
    /** To be called once the transaction has changed contracts. */
    forget: (tx: Db): void => void held.delete(tx),
  }
}

interface Parts {
  templates: ReturnType<typeof createTemplates>
  reader: ReturnType<typeof createReader>
}

async function effectsOf(
  { templates, reader }: Parts,
  tx: Db,
  { tenantId, actAs, commands, seed }: Pick<Decoded, 'tenantId' | 'actAs' | 'commands' | 'seed'>,
): Promise<Effect[]> {
  const known = await templates.forCommands(tx, tenantId, commands)
  const inputs = await reader.read(tx, tenantId, inputsOf(commands))
  return interpret(commands, { actor: actAs, inputs, templates: known, contractId: (n) => contractIdOf(seed, n) })
}

function prepare(parts: Parts, db: Db, request: PrepareRequest): Promise<Decoded> {
  return db.tx(async (tx) => {
    const { tenantId, commandId, actAs, expiresAt } = request
    const seed = randomBytes(SEED_BYTES).toString('hex')
    const commands = [...request.commands]
    const effects = await effectsOf(parts, tx, { tenantId, actAs, commands, seed })
    const prepared = decode(
      encode({ tenantId, commandId, actAs, commands, effects, seed, expiresAt: expiresAt.toISOString() }),
    )
    parts.reader.notePrepared(tx, prepared.digest)
    return prepared
  })
}

const receiptOf = (row: store.UpdateRow): Receipt => ({
  updateId: row.update_id,
  offset: row.offset,
  recordedAt: row.recorded_at,
})

/** The receipt of the same transaction, if it happened before. @throws duplicate_command where another one did */
async function repeated(tx: Db, { tenantId, actAs, commandId, digest }: Decoded): Promise<Receipt | undefined> {
  const row = await store.findUpdate(tx, tenantId, actAs, commandId)
  if (row !== undefined && row.update_id !== updateIdOf(digest))
    throw new LedgerError('duplicate_command', 'Another transaction has this command id.')
  return row && receiptOf(row)
}

/** Writes a transaction whose signature has been verified. */
async function apply(
  parts: Parts,
  tx: Db,
  decoded: Decoded,
  signatures: readonly LedgerSignature[],
  now: Date,
): Promise<Receipt> {
  const { tenantId, actAs, commandId, commands } = decoded
  // The inputs first: whoever waited for them finds below that what it waited for was its own repeat.
  const inputs = await parts.reader.read(tx, tenantId, inputsOf(commands))
  // What this transaction has just prepared is no repeat, or the insertion finds that it is.
  const before = parts.reader.hasPrepared(tx, decoded.digest) ? undefined : await repeated(tx, decoded)
  if (before !== undefined) return before
  if (decoded.expiresAt <= now)
    throw new LedgerError('prepared_expired', 'This transaction has expired. Prepare it again.')
  const effects = await effectsOf(parts, tx, decoded)
  // The bytes say what was signed; what happens is what the commands mean now. They must be the same.
  if (canonicalJson(effects) !== canonicalJson(decoded.effects))
    throw new LedgerError('prepared_invalid', 'These commands no longer do what was signed.')
  const updateId = updateIdOf(decoded.digest)
  const offset = await store.insertUpdate(tx, {
    tenantId,
    updateId,
    actAs,
    commandId,
    prepared: decoded.bytes,
    signatures: signaturesJson(signatures),
    recordedAt: now,
    archived: effects.flatMap((effect) => (effect.type === 'archived' ? [inputs.get(effect.contractId) as Input] : [])),
    created: effects.filter((effect) => effect.type === 'created'),
  })
  parts.reader.forget(tx)
  if (offset !== undefined) return { updateId, offset, recordedAt: now }
  const receipt = await repeated(tx, decoded)
  if (receipt === undefined) throw new Error(`transaction ${commandId} is there and is not`)
  return receipt
}

async function submit(
  parts: Parts,
  db: Db,
  tenantId: Id<'ten'>,
  bytes: Buffer,
  signatures: readonly LedgerSignature[],
  now: Date,
): Promise<Receipt> {
  const decoded = decode(bytes)
  const { actAs, digest } = decoded
  if (decoded.tenantId !== tenantId) throw new LedgerError('prepared_invalid', 'This is not of this ledger.')
  const verified = signatures.filter((each) => each.party === actAs && isSignedFor(actAs, digest, each))
  if (verified.length === 0)
    throw new LedgerError('signature_invalid', 'The signature is not one of the acting party over this digest.')
  return db.tx((tx) => apply(parts, tx, decoded, verified, now))
}

/**
 * The ledger in the service's own database. Its writes join the caller's transaction, in which `prepare` and `submit`
 * run; the contracts that a transaction reads stay locked until it ends.
 */
export function createEmbeddedLedger({ keys }: { keys: KeyProvider }): Ledger {
  const nodeKeys = createNodeKeys(keys)
  const templates = createTemplates()
  const parts = { templates, reader: createReader() }
  return {
    name: 'embedded',
    joins: true,
    deriveParty: partyOf,
    prepareOnboarding: async (_, hint, publicKey) => ({ party: partyOf(hint, publicKey), digests: [] }),
    completeOnboarding: async () => {},
    prepare: (db, request) => prepare(parts, db, request),
    decode,
    async declaredConsequences(db, tenantId, templateId, choice) {
      const known = await templates.find(db, tenantId, [templateId])
      return known.get(templateId)?.choices.get(choice)?.consequences ?? null
    },
    sign: nodeKeys.sign,
    submit: (db, tenantId, bytes, signatures, now) => submit(parts, db, tenantId, bytes, signatures, now),
    async getTransaction(db, tenantId, actAs, commandId) {
      const row = await store.findUpdate(db, tenantId, actAs, commandId)
      return row === undefined ? null : receiptOf(row)
    },
    query: queryContracts,
    follow,
    async health(db) {
      await store.probe(db)
    },
  }
}
