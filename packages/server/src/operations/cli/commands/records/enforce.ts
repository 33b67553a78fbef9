import type { Deps } from '../../../../platform/deps.ts'
import {
  type BadRecord,
  countMissing,
  countRecords,
  macMissing,
  verifyRecords,
  type WalkScope,
} from '../../../../platform/security/records/walk.ts'
import { resealShares } from '../../../../wallets/custody/service.ts'
import { CommandError, counted, runAlone } from '../../command.ts'
import type { Progress } from '../../progress.ts'

const LOCK = 4_812_570_371
/** A round leaves rows that a request changes at the same time. */
const ROUNDS_MAX = 20
const SHOWN_MAX = 20

/** What one run did. */
export interface Enforced {
  /** Records that got a MAC. */
  sealed: number
  /** Key shares that were bound to their wallet. */
  shares: number
  /** Whether records without a MAC were refused before. */
  wasEnforced: boolean
  /** Whether the mark could be written. */
  marked: boolean
  /** Where it is, or should be. */
  path: string
}

/** One run. */
interface Run {
  deps: Deps
  scope: WalkScope
  progress: Progress
}

/** A bad record, for people. */
export const told = ({ kind, tenantId, id }: BadRecord): string => `${kind} ${id} of ${tenantId ?? 'the installation'}`

/** What has a MAC must verify before anything else gets one. @throws CommandError naming the records that do not */
async function requireVerified({ deps, scope, progress }: Run): Promise<void> {
  const bad: BadRecord[] = []
  for (const kind of deps.recordKinds) {
    const which = `mac is not null or (${kind.alwaysSealed?.rows ?? 'false'})`
    progress.begin(`Verifying ${kind.table}`, await countRecords(deps.db, kind, null, which))
    for await (const portion of verifyRecords(deps.db, kind, scope, which)) {
      bad.push(...portion.bad.slice(0, SHOWN_MAX - bad.length))
      progress.add(portion.seen)
    }
  }
  if (bad.length > 0)
    throw new CommandError(
      `Records were changed by something other than Halfkey:${bad.map((each) => `\n  ${told(each)}`).join('')}\nNothing was enforced. Restore these rows from a backup, or end what they stand for, and run this again. See docs/operating.md#tamper-proof-records.`,
    )
}

/** How many records have no MAC or an old list, of what has had them since a generation of the mark; without one, of all. */
async function countAllMissing({ db, recordKinds }: Deps, upTo?: number): Promise<number> {
  let missing = 0
  for (const kind of recordKinds) missing += await countMissing(db, kind, upTo)
  return missing
}

/** Gives every record a MAC that has none. @returns how many */
async function sealAll({ deps, scope, progress }: Run): Promise<number> {
  let sealed = 0
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const missing = await countAllMissing(deps)
    if (missing === 0) return sealed
    progress.begin('Sealing records', missing)
    for (const kind of deps.recordKinds)
      for await (const done of macMissing(deps.db, kind, scope)) {
        sealed += done
        progress.add(done)
        await deps.failpoint('records sealed')
      }
  }
  throw new CommandError(
    'Records without a MAC are still being written. Stop the processes of the earlier release, then run this again.',
  )
}

/** Binds every share that the service can open to its wallet. @returns how many were not */
async function bindShares({ deps, scope, progress }: Run): Promise<number> {
  let resealed = 0
  const lost: string[] = []
  progress.begin('Binding key shares to their wallets')
  for await (const portion of resealShares(deps.db, deps, scope)) {
    resealed += portion.resealed
    lost.push(...portion.lost)
    progress.add(portion.seen)
  }
  if (lost.length > 0)
    throw new CommandError(
      `Key shares do not belong to the commitments of their records: ${lost.slice(0, SHOWN_MAX).join(', ')}. Nothing was enforced. Restore these rows from a backup, and run this again.`,
    )
  return resealed
}

/**
 * Seals what has no MAC, and from then on refuses records without one. An interrupted run is finished by the next one.
 * @param acceptMissing seals records that lost their MAC, or never had one, although such records are refused already
 * @throws CommandError when another run is at work, or a record does not verify
 */
export function enforceRecords(
  deps: Deps,
  { acceptMissing, progress }: { acceptMissing: boolean; progress: Progress },
): Promise<Enforced> {
  const { enforcement } = deps
  return runAlone(deps, { lock: LOCK, what: '`halfkey records enforce` is running on this database' }, async (goOn) => {
    const run = { deps, scope: { tenantId: null, goOn }, progress }
    const wasEnforced = await enforcement.isEnforced()
    await requireVerified(run)
    if (!acceptMissing) {
      const missing = await countAllMissing(deps, await enforcement.generation())
      if (missing > 0)
        throw new CommandError(
          `${counted(missing, 'record')} without a MAC or with an old list: such records are refused already. If you know why they have none, for example after restoring an old backup, run: halfkey records enforce --accept-missing`,
        )
      if (wasEnforced) return { sealed: 0, shares: 0, wasEnforced, marked: true, path: enforcement.path }
    }
    const sealed = await sealAll(run)
    const shares = await bindShares(run)
    return { sealed, shares, wasEnforced, marked: await enforcement.enforce(), path: enforcement.path }
  })
}
