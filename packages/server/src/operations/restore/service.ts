import { endAllSessions } from '../../delegation/service.ts'
import { rotateIdTokenKeys } from '../../identity/id-tokens/service.ts'
import type { Deps } from '../../platform/deps.ts'
import { recordForInstallation } from '../../platform/events/audit-only-entries.ts'
import { createFloorCodec, FloorForgedError } from '../../platform/floor/document.ts'
import type { Marks, Setback } from '../../platform/floor/marks.ts'
import { compare, readMarks } from '../../platform/floor/source.ts'
import { type FloorStorage, openFloorStorage } from '../../platform/floor/storage.ts'
import { beginEpoch, readTrueEpoch, removeForged } from '../../platform/floor/store.ts'
import { rotateSigningKey } from '../../platform/security/signing-keys.ts'
import { type ActiveKey, endPreviousKeys, listActiveKeys, revokeActiveKeys } from '../../tenancy/api-keys/service.ts'
import { signOutEveryone } from '../dashboard/service.ts'
import { CHAINS } from './chains.ts'

/** What the floor says of the database. */
export interface RestoreState {
  /** Where the floor is; null if none is kept. */
  place: string | null
  /** When it was written last, ISO 8601; null if there is none, or if it does not verify. */
  writtenAt: string | null
  /** Why it does not verify; null if it does, or if there is none. */
  forged: string | null
  /** How many accepted restores the database holds that no operator accepted. */
  forgedEpochs: number
  /** In what the database is behind it. */
  setbacks: Setback[]
}

/** Whether there is something to accept. */
export const isBehind = ({ forged, forgedEpochs, setbacks }: RestoreState): boolean =>
  forged !== null || forgedEpochs > 0 || setbacks.length > 0

/** The floor could not be read or written. The message says why. */
export class FloorUnreachableError extends Error {}

function unreachable(cause: unknown): never {
  throw new FloorUnreachableError((cause as Error).message, { cause })
}

interface Looked extends RestoreState {
  storage: FloorStorage | null
  floor: Marks | null
  found: Marks
}

/** Compares the floor with the database, and changes nothing. @throws FloorUnreachableError */
async function look(deps: Deps): Promise<Looked> {
  const storage = openFloorStorage(deps.config, deps.egress)
  const bytes = (await storage?.read().catch(unreachable)) ?? null
  const codec = createFloorCodec(deps.keys)
  let forged: string | null = null
  const stored =
    bytes === null
      ? null
      : await codec.decode(bytes).catch((error: unknown) => {
          if (!(error instanceof FloorForgedError)) throw error
          forged = error.message
          return null
        })
  let forgedEpochs = 0
  const found = await readMarks(deps.db, CHAINS, async (db) => {
    const { epoch, forged: rows } = await readTrueEpoch(db)
    forgedEpochs = rows
    return epoch
  })
  // An accepted state of another machine, whose floor this one takes over at its next look.
  const floor = stored !== null && stored.marks.epoch >= found.epoch ? stored.marks : null
  const setbacks = floor === null ? [] : await compare(deps.db, CHAINS, floor, found)
  return {
    ...{ storage, floor: stored?.marks ?? null, found },
    ...{ place: storage?.place ?? null, writtenAt: stored?.writtenAt ?? null, forged, forgedEpochs, setbacks },
  }
}

/** What the floor says of the database. @throws FloorUnreachableError */
export async function showRestore(deps: Deps): Promise<RestoreState> {
  const { storage: _, floor: __, found: ___, ...state } = await look(deps)
  return state
}

/**
 * From now on, records whose versions the floor knows to be older ones do not verify in this process.
 * @returns why the floor cannot say so; null if it can, or if none is kept
 */
export async function rememberFloor(deps: Deps): Promise<string | null> {
  try {
    const { floor, found, place, forged } = await look(deps)
    if (floor !== null && floor.epoch >= found.epoch) deps.db.records.remember(floor.versions)
    return forged === null ? null : `The floor at ${place} does not verify: ${forged}.`
  } catch (error) {
    if (!(error instanceof FloorUnreachableError)) throw error
    return `The floor cannot be read: ${error.message}.`
  }
}

const KEYS_TOLD = 50

/** What becomes of the API keys: those that were revoked in the lost time are active again, and nothing says which these are. */
export type KeysDecision = 'keep' | 'revoke' | { revoke: readonly string[] }

/** Nobody has said what becomes of the active API keys. Nothing was done. */
export class UndecidedKeysError extends Error {
  readonly state: RestoreState
  readonly keys: readonly ActiveKey[]
  readonly total: number

  constructor(state: RestoreState, { keys, total }: { keys: readonly ActiveKey[]; total: number }) {
    super('there are active API keys')
    this.state = state
    this.keys = keys
    this.total = total
  }
}

/** Ids that name no active key. */
export class UnknownKeysError extends Error {}

async function requireDecided(deps: Deps, state: RestoreState, decision: KeysDecision | null): Promise<void> {
  if (decision === null) {
    const active = await listActiveKeys(deps, { ids: null, limit: KEYS_TOLD })
    if (active.total > 0) throw new UndecidedKeysError(state, active)
  } else if (typeof decision === 'object') {
    const { keys } = await listActiveKeys(deps, { ids: decision.revoke, limit: decision.revoke.length })
    const unknown = decision.revoke.filter((id) => keys.every((key) => key.id !== id))
    if (unknown.length > 0) throw new UnknownKeysError(unknown.join(', '))
  }
}

function revokeKeys(deps: Deps, decision: KeysDecision | null): Promise<number> | number {
  if (decision === null || decision === 'keep') return 0
  return revokeActiveKeys(deps, decision === 'revoke' ? null : decision.revoke)
}

/** What `acceptRestore` ended, and what it began. */
export interface AcceptedRestore {
  state: RestoreState
  /** The new epoch. */
  epoch: number
  /** Signing keys that no longer count, and with them all sessions of users. */
  signingKeys: number
  /** Keys of ID tokens that are no longer published. */
  idTokenKeys: number
  delegatedSessions: number
  dashboardSessions: number
  dashboardLinks: number
  apiKeys: number
  /** Values of API keys that had been replaced. */
  previousKeys: number
}

interface Acceptance {
  /** Even if the database is not behind its floor. */
  always: boolean
  /** Null where nobody has said it: then there may be no active key. */
  apiKeys: KeysDecision | null
}

/**
 * Takes the database as it is for the present state: ends what may have come back to life, and begins an epoch, in which the
 * floor starts from what the database has now. Run again after an interruption, it does the rest.
 * @returns null where there is nothing to accept
 * @throws UndecidedKeysError, UnknownKeysError, FloorUnreachableError
 */
export async function acceptRestore(
  deps: Deps,
  { always, apiKeys: decision }: Acceptance,
): Promise<AcceptedRestore | null> {
  const { storage, floor, found, ...state } = await look(deps)
  if (!always && !isBehind(state)) return null
  await requireDecided(deps, state, decision)
  const { previous } = await rotateSigningKey(deps, { revoke: true })
  const idTokenKeys = await rotateIdTokenKeys(deps, { revoke: true })
  const delegatedSessions = await endAllSessions(deps, { actor: 'cli' })
  const { sessions, links } = await signOutEveryone(deps)
  const apiKeys = await revokeKeys(deps, decision)
  const previousKeys = await endPreviousKeys(deps)
  const epoch = Math.max(floor?.epoch ?? 0, found.epoch) + 1
  await deps.db.tx(async (tx) => {
    await removeForged(tx)
    await beginEpoch(tx, epoch, deps.now())
    await recordForInstallation(tx, deps, { action: 'installation.restore_accepted', target: String(epoch) })
  })
  if (storage !== null) {
    const marks = await readMarks(deps.db, CHAINS)
    const bytes = await createFloorCodec(deps.keys).encode(marks, deps.now())
    await storage.write(bytes).catch(unreachable)
  }
  return {
    state,
    epoch,
    signingKeys: previous.length,
    idTokenKeys,
    delegatedSessions,
    dashboardSessions: sessions,
    dashboardLinks: links,
    apiKeys,
    previousKeys,
  }
}
