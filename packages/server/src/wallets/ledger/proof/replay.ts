import type { Id } from '../../../platform/ids.ts'
import { type Effect, LedgerError } from '../../../platform/ports/ledger.ts'
import { isSignedFor, readSignature } from '../../../platform/ports/signature.ts'
import { canonicalJson } from '../../../platform/security/canonical-json.ts'
import { contractIdOf, legacyContractIdOf } from '../embedded/contract-id.ts'
import { type Definition, declaredTemplate } from '../embedded/declared-template.ts'
import { type Input, inputsOf, interpret } from '../embedded/interpret.ts'
import { type Decoded, decode, updateIdOf } from '../embedded/prepared.ts'
import type { Template } from '../embedded/template.ts'
import { BUILT_IN } from '../embedded/templates.ts'
import type { StoredUpdate } from './store.ts'

/** The first thing that is wrong with a ledger. The message names it. */
export class LedgerFault extends Error {}

/**
 * How much later than an archive another transaction may expire that still read the contract: its offset can be the greater
 * one, although it was first. Longer than a prepared transaction lives.
 */
const OVERLAP_MS = 10 * 60_000

/** A contract that the updates made: what the bytes say, not the tables. */
export type ReplayedContract = Input & { archivedOffset: number | null; archiveExpires: Date | null }

/** `update 1220ab… (offset 17)` */
export const nameOf = ({ updateId, offset }: { updateId: string; offset: number }) =>
  `update ${updateId.slice(0, 20)}… (offset ${offset})`

/** Executes updates again, from their bytes and signatures alone. */
export interface Replay {
  /** The next update, in the order of the offsets. @throws LedgerFault */
  take(update: StoredUpdate): void
  /** All contracts that were ever made, by id. */
  contracts: ReadonlyMap<string, ReplayedContract>
  /** The offset of each update, by id. */
  updates: ReadonlyMap<string, number>
}

/** @throws LedgerFault unless the bytes are the transaction that the row says, signed by the acting party */
function checked(tenantId: string, update: StoredUpdate): Decoded {
  const fault = (what: string) => new LedgerFault(`${nameOf(update)} was altered: ${what}.`)
  let decoded: Decoded
  try {
    decoded = decode(update.prepared)
  } catch {
    throw fault('its bytes are no transaction in canonical form')
  }
  if (updateIdOf(decoded.payload) !== update.updateId) throw fault('its id is not the digest of its bytes')
  const { actAs, commandId } = decoded
  if (decoded.tenantId !== tenantId || actAs !== update.actAs || commandId !== update.commandId)
    throw fault('its bytes are of another tenant, party or command')
  const isSigned = update.signatures.some(
    (kept) => kept.party === actAs && isSignedFor(actAs, decoded.payload, readSignature(kept)),
  )
  if (!isSigned) throw fault('no valid signature of the acting party is there')
  return decoded
}

type Contracts = ReadonlyMap<string, ReplayedContract>

/** What the commands of a transaction do, given these contracts. Ids are of the version that was signed. */
function effectsOf(
  { tenantId, actAs, commands, effects, seed }: Decoded,
  inputs: ReadonlyMap<string, Input>,
  templates: ReadonlyMap<string, Template>,
): Effect[] {
  const isLegacy = effects.some(({ type, contractId }) => type === 'created' && contractId.startsWith('00'))
  return interpret(commands, {
    actor: actAs,
    inputs,
    templates,
    contractId: (index, template, contract) =>
      isLegacy ? legacyContractIdOf(seed, index) : contractIdOf({ tenantId, seed, index }, template, contract),
  })
}

/**
 * The contracts that a transaction reads. One that it only reads counts as active, too, if it was archived at about the same
 * time: of two concurrent transactions, the offsets do not say which was first. It cannot archive it again.
 */
function inputsFor({ commands, effects, expiresAt }: Decoded, contracts: Contracts): Map<string, Input> {
  const archives = new Set(effects.flatMap(({ type, contractId }) => (type === 'archived' ? [contractId] : [])))
  const found = inputsOf(commands).flatMap((id) => contracts.get(id) ?? [])
  return new Map(
    found.map((input) => {
      const { contractId, archiveExpires } = input
      const isLate = archiveExpires === null || expiresAt.getTime() > archiveExpires.getTime() + OVERLAP_MS
      return [contractId, { ...input, archived: input.archived && (isLate || archives.has(contractId)) }]
    }),
  )
}

/** Starts a replay of a tenant's updates. Its memory grows with the number of contracts. */
export function createReplay(tenantId: Id<'ten'>, definitions: readonly Definition[]): Replay {
  const declared = definitions.map((definition) => [definition.templateId, declaredTemplate(definition)] as const)
  const templates = new Map<string, Template>([...declared, ...BUILT_IN])
  const contracts = new Map<string, ReplayedContract>()
  const updates = new Map<string, number>()
  const commands = new Set<string>()

  /** @throws LedgerFault unless the commands have the signed effects, which are then those of this update */
  function requireMeant(update: StoredUpdate, decoded: Decoded): void {
    let effects: Effect[]
    try {
      effects = effectsOf(decoded, inputsFor(decoded, contracts), templates)
    } catch (error) {
      if (!(error instanceof LedgerError)) throw error
      throw new LedgerFault(
        `${nameOf(update)} is not possible after the updates before it: ${error.message} Either one of those is missing, or this one was inserted.`,
      )
    }
    if (canonicalJson(effects) !== canonicalJson(decoded.effects))
      throw new LedgerFault(
        `${nameOf(update)} does not follow from the updates before it: its commands have other effects.`,
      )
  }

  function apply({ offset }: StoredUpdate, { effects, seed, expiresAt }: Decoded): void {
    let index = 0
    for (const effect of effects) {
      const { contractId } = effect
      const known = contracts.get(contractId)
      if (effect.type === 'archived' && known !== undefined)
        contracts.set(contractId, { ...known, archived: true, archivedOffset: offset, archiveExpires: expiresAt })
      if (effect.type !== 'created') continue
      if (known !== undefined)
        throw new LedgerFault(`contract ${contractId} was created twice, again at offset ${offset}.`)
      const { templateId, arguments: given, signatories, observers } = effect
      const made = { contractId, templateId, arguments: given, signatories, observers, createdOffset: offset }
      contracts.set(contractId, { ...made, archived: false, archivedOffset: null, archiveExpires: null, seed, index })
      index += 1
    }
  }

  return {
    contracts,
    updates,
    take(update) {
      const decoded = checked(tenantId, update)
      const command = JSON.stringify([decoded.actAs, decoded.commandId])
      if (updates.has(update.updateId) || commands.has(command))
        throw new LedgerFault(`${nameOf(update)} was inserted: its command was executed before.`)
      requireMeant(update, decoded)
      apply(update, decoded)
      updates.set(update.updateId, update.offset)
      commands.add(command)
    },
  }
}
