import { randomBytes } from 'node:crypto'
import { type Db, violatedConstraint } from '../../../platform/db/db.ts'
import type { Id } from '../../../platform/ids.ts'
import {
  type Contract,
  type ContractPage,
  type ContractQuery,
  type Effect,
  type FollowableLedger,
  LedgerError,
  type LedgerSignature,
  type Onboarding,
  type Prepared,
  type PrepareRequest,
  type Receipt,
  type SignedCommands,
  type Update,
} from '../../../platform/ports/ledger.ts'
import { partyOf } from '../../../platform/ports/party.ts'
import { isSignedFor, readSignature } from '../../../platform/ports/signature.ts'
import { canonicalJson } from '../../../platform/security/canonical-json.ts'
import type { KeyProvider } from '../../../platform/security/key-provider.ts'
import { signForParty } from '../../../platform/security/node-keys.ts'
import { CONTRACT_ID, contractIdOf, requireUnaltered } from './contract-id.ts'
import { type Input, inputsOf, interpret } from './interpret.ts'
import { type Decoded, decode, prepared, updateIdOf } from './prepared.ts'
import * as store from './store.ts'
import { createTemplates } from './templates.ts'
import { flowsOf } from './token-templates.ts'

const SEED_BYTES = 32
/** How many contracts one call reads, and their size as JSON. A page can have fewer contracts than its limit. */
const LOOKED_AT_MAX = 2_000
const LOOKED_AT_BYTES_MAX = 1024 * 1024
const BATCH = 100

/** As the ledger's proof exports them, too: all are of the acting party. */
const signaturesJson = (party: string, signatures: readonly LedgerSignature[]) =>
  signatures.map(({ publicKey, signature }) => ({
    party,
    publicKey: publicKey.toString('hex'),
    signature: signature.toString('hex'),
  }))

function placeOf(cursor: string | null): store.Place | null {
  if (cursor === null) return null
  const match = /^(\d{1,15})\.(\w+)$/.exec(Buffer.from(cursor, 'base64url').toString())
  if (match === null || !CONTRACT_ID.test(match[2] as string))
    throw new LedgerError('arguments_invalid', 'Must be a cursor from an earlier page.', { field: 'cursor' })
  return { offset: Number(match[1]), contractId: match[2] as string }
}

const cursorAt = (place: store.Place | null) =>
  place === null ? null : Buffer.from(`${place.offset}.${place.contractId}`).toString('base64url')

/** A party's contracts, newest first, read in batches until the page is full or a limit of work is reached. */
async function queryContracts({ templates }: Parts, db: Db, query: ContractQuery): Promise<ContractPage> {
  const { accept, limit, tenantId } = query
  const known = await templates.find(db, tenantId, query.templateIds)
  const contracts: Contract[] = []
  const batch = accept === null ? limit : BATCH
  let place = placeOf(query.cursor)
  let bytes = 0
  for (let looked = 0; looked < LOOKED_AT_MAX && bytes < LOOKED_AT_BYTES_MAX; looked += batch) {
    // One more than the batch, to know whether more follow.
    const found = await store.contractsBefore(db, query, place, batch + 1)
    for (const { seed, index, ...contract } of found.slice(0, batch)) {
      requireUnaltered(tenantId, { ...contract, seed, index }, known.get(contract.templateId))
      if (contracts.length === limit || bytes >= LOOKED_AT_BYTES_MAX) return { contracts, nextCursor: cursorAt(place) }
      bytes += JSON.stringify(contract).length
      place = { offset: contract.createdAtOffset, contractId: contract.contractId }
      if (accept === null || accept(contract)) contracts.push(contract)
    }
    if (found.length <= batch) return { contracts, nextCursor: null }
  }
  return { contracts, nextCursor: cursorAt(place) }
}

async function follow(
  db: Db,
  tenantId: Id<'ten'>,
  cursor: string | null,
  limit: number,
): Promise<{ updates: Update[]; cursor: string | null }> {
  const match = /^(\d{1,20})\.(\d{1,15})$/.exec(cursor ?? '0.0')
  if (match === null)
    throw new LedgerError('arguments_invalid', 'Must be a cursor from an earlier page.', { field: 'cursor' })
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

interface Parts {
  templates: ReturnType<typeof createTemplates>
}

/** The contracts that a transaction was prepared from. */
interface Snapshot {
  inputs: ReadonlyMap<string, Input>
  offset: number
}

const snapshots = new WeakMap<Prepared, Snapshot>()

async function interpreted(
  { templates }: Parts,
  db: Db,
  { tenantId, actAs, commands, seed }: Pick<Decoded, 'tenantId' | 'actAs' | 'commands' | 'seed'>,
  read: store.Snapshot | undefined,
): Promise<Snapshot & { effects: Effect[] }> {
  const known = await templates.forCommands(db, tenantId, commands)
  const { inputs: found, offset } = read ?? (await store.readSnapshot(db, tenantId, inputsOf(commands)))
  if (found === null)
    throw new LedgerError('arguments_invalid', 'These contracts are too large for one transaction.', { field: '' })
  const inputs = new Map(found.map((input) => [input.contractId, input]))
  // The commands say of which template an input is to be, so an unknown one is refused before it has an effect.
  for (const input of found) {
    const template = known.get(input.templateId)
    if (template !== undefined) requireUnaltered(tenantId, input, template)
  }
  const effects = interpret(commands, {
    actor: actAs,
    inputs,
    templates: known,
    contractId: (index, template, contract) => contractIdOf({ tenantId, seed, index }, template, contract),
  })
  return { inputs, offset, effects }
}

async function prepare(
  parts: Parts,
  db: Db,
  request: PrepareRequest,
  read: store.Snapshot | undefined,
): Promise<Decoded> {
  const { tenantId, commandId, actAs, expiresAt } = request
  const seed = randomBytes(SEED_BYTES).toString('hex')
  const commands = [...request.commands]
  const { effects, ...snapshot } = await interpreted(parts, db, { tenantId, actAs, commands, seed }, read)
  const document = { tenantId, commandId, actAs, commands, effects, seed, expiresAt: expiresAt.toISOString() }
  const transaction = prepared(document)
  snapshots.set(transaction, snapshot)
  return transaction
}

/** The valid signatures. Only verified signatures are stored. @throws signature_invalid if there is none */
function verified({ actAs, payload }: Prepared, signatures: readonly LedgerSignature[]): LedgerSignature[] {
  const right = signatures.filter((each) => isSignedFor(actAs, payload, each))
  if (right.length === 0)
    throw new LedgerError(
      'signature_invalid',
      'The signature is not a valid signature of this digest by the acting party.',
    )
  return right
}

/** A transaction whose signature has been verified, as the tables take it. */
function updateOf(
  decoded: Decoded,
  { inputs, offset }: Snapshot,
  signatures: readonly LedgerSignature[],
  now: Date,
): store.NewUpdate {
  const { tenantId, actAs, commandId, effects, seed } = decoded
  return {
    tenantId,
    offset,
    updateId: updateIdOf(decoded.payload),
    actAs,
    commandId,
    prepared: decoded.bytes,
    signatures: signaturesJson(actAs, signatures),
    recordedAt: now,
    seed: Buffer.from(seed, 'hex'),
    inputs: [...inputs.keys()],
    archived: effects.flatMap((effect) => (effect.type === 'archived' ? [inputs.get(effect.contractId) as Input] : [])),
    created: effects.filter((effect) => effect.type === 'created'),
  }
}

const receiptOf = (row: Pick<store.UpdateRow, 'update_id' | 'offset' | 'recorded_at'>): Receipt => ({
  updateId: row.update_id,
  offset: row.offset,
  recordedAt: row.recorded_at,
})

/**
 * What the party of an update signed for its command; null if it signed nothing of the kind. Somebody who writes the database can insert any
 * update.
 */
function signedCommands(
  tenantId: Id<'ten'>,
  { update_id, act_as, command_id, prepared, signatures }: store.UpdateRow,
): SignedCommands | null {
  const decoded = decode(prepared)
  const isGenuine =
    decoded.tenantId === tenantId &&
    decoded.actAs === act_as &&
    decoded.commandId === command_id &&
    updateIdOf(decoded.payload) === update_id &&
    signatures.some((kept) => isSignedFor(act_as, decoded.payload, readSignature(kept)))
  return isGenuine ? { payload: decoded.payload, commands: decoded.commands } : null
}

/**
 * A transaction that this ledger has just prepared. The statement that writes it checks that its contracts are
 * unchanged.
 */
function submission(prepared: Prepared, signatures: readonly LedgerSignature[], now: Date) {
  const snapshot = snapshots.get(prepared)
  if (snapshot === undefined)
    throw new LedgerError('prepared_invalid', 'This transaction was not prepared by this ledger.')
  const update = updateOf(prepared as Decoded, snapshot, verified(prepared, signatures), now)
  const { updateId, offset } = update
  return { receipt: { updateId, offset, recordedAt: now }, writes: store.updateWrites(update) }
}

/**
 * The receipt of the same transaction, if it was executed before. @throws duplicate_command if another one was, or one that its party did
 * not sign: nothing says that such a one has happened
 */
async function repeated(tx: Db, { tenantId, actAs, commandId, payload }: Decoded): Promise<Receipt | undefined> {
  const row = await store.findUpdate(tx, tenantId, actAs, commandId)
  if (row !== undefined && signedCommands(tenantId, row)?.payload.equals(payload) !== true)
    throw new LedgerError('duplicate_command', 'Another transaction has this command id.')
  return row && receiptOf(row)
}

/** The effects of a transaction now. Null if its inputs are gone: a repeat of the same transaction may have used them. */
async function meaning(parts: Parts, db: Db, decoded: Decoded): Promise<(Snapshot & { effects: Effect[] }) | null> {
  try {
    return await interpreted(parts, db, decoded, undefined)
  } catch (error) {
    if (!(error instanceof LedgerError)) throw error
    if ((await store.findUpdate(db, decoded.tenantId, decoded.actAs, decoded.commandId)) === undefined) throw error
    return null
  }
}

/** Contract ids are derived from the seed. Bytes that another client made may have a seed that was used before. */
function refuseUsedSeed(error: unknown): never {
  if (violatedConstraint(error) === 'ledger_contracts_pkey')
    throw new LedgerError('prepared_invalid', 'Contracts with this seed already exist. Prepare the transaction again.')
  throw error
}

/** How often a submission is retried if another one changes the same contracts. Such conflicts are rare. */
const TURNS_MAX = 20

/**
 * Executes a signed transaction, no matter who prepared it or when. The commands must still have the effects that were
 * signed.
 */
async function submit(
  parts: Parts,
  db: Db,
  tenantId: Id<'ten'>,
  bytes: Buffer,
  signatures: readonly LedgerSignature[],
  now: Date,
): Promise<Receipt> {
  const decoded = decode(bytes)
  if (decoded.tenantId !== tenantId)
    throw new LedgerError('prepared_invalid', 'This transaction belongs to another ledger.')
  const right = verified(decoded, signatures)
  for (let turn = 0; turn < TURNS_MAX; turn += 1) {
    const before = await repeated(db, decoded)
    if (before !== undefined) return before
    if (decoded.expiresAt <= now)
      throw new LedgerError('prepared_expired', 'This transaction has expired. Prepare it again.')
    const meant = await meaning(parts, db, decoded)
    if (meant === null) continue
    const { effects, ...snapshot } = meant
    // The signed effects must be the same as the effects of the commands now.
    if (canonicalJson(effects) !== canonicalJson(decoded.effects))
      throw new LedgerError('prepared_invalid', 'The commands no longer have the effects that were signed.')
    const update = updateOf(decoded, snapshot, right, now)
    if (await store.insertUpdate(db, update).catch(refuseUsedSeed))
      return { updateId: update.updateId, offset: update.offset, recordedAt: now }
  }
  throw new LedgerError('ledger_unavailable', 'Other transactions changed the same contracts. Try again.', {
    retryable: true,
  })
}

/** A party exists as soon as it is named. */
const nothingToSign = (party: string): Onboarding => ({ party, bytes: Buffer.alloc(0), toSign: [], expiresAt: null })

/**
 * The ledger in the service's own database. It locks nothing while a transaction is prepared and signed: the one statement
 * that writes it locks its inputs and checks that they are unchanged, or writes nothing.
 */
export function createEmbeddedLedger({ keys }: { keys: KeyProvider }): FollowableLedger {
  const templates = createTemplates()
  const parts = { templates }
  return {
    name: 'embedded',
    transactional: true,
    commandsMax: 100,
    structured: false,
    deriveParty: partyOf,
    prepareOnboarding: async (_, hint, publicKey) => nothingToSign(partyOf(hint, publicKey)),
    decodeOnboarding: (_, { party }) => nothingToSign(party),
    completeOnboarding: async () => {},
    prepare: (db, request, snapshot) => prepare(parts, db, request, snapshot as store.Snapshot | undefined),
    snapshot: (tenantId, commands) => store.snapshotOf(tenantId, inputsOf(commands)),
    decode,
    flowsOf,
    async declaredConsequences(db, tenantId, templateId, choice) {
      const known = await templates.find(db, tenantId, [templateId])
      return known.get(templateId)?.choices.get(choice)?.consequences ?? null
    },
    sign: (db, tenantId, party, payload) => signForParty(db, keys, { tenantId, party, payload }),
    submit: (db, tenantId, bytes, signatures, now) => submit(parts, db, tenantId, bytes, signatures, now),
    submission,
    async getTransaction(db, tenantId, { actAs, commandId }) {
      const row = await store.findUpdate(db, tenantId, actAs, commandId)
      const signed = row === undefined ? null : signedCommands(tenantId, row)
      if (row === undefined || signed === null) return { state: 'pending' }
      return { state: 'final', receipt: receiptOf(row), signed }
    },
    async findSigned(db, tenantId, { actAs, commandId }) {
      const row = await store.findUpdate(db, tenantId, actAs, commandId)
      if (row === undefined || signedCommands(tenantId, row) === null) return undefined
      return { ...receiptOf(row), flows: decode(row.prepared).flows }
    },
    query: (db, query) => queryContracts(parts, db, query),
    follow,
    async health(db) {
      await store.probe(db)
    },
  }
}
