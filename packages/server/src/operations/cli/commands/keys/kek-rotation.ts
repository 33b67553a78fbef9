import { setTimeout as pause } from 'node:timers/promises'
import { checkInstallation, recordSealingKeys } from '../../../../platform/db/installation.ts'
import type { Deps } from '../../../../platform/deps.ts'
import { rewrapFloor } from '../../../../platform/floor/rewrap.ts'
import { type KeyFile, openKeyFile } from '../../../../platform/security/key-provider.ts'
import {
  countStale,
  type LostValue,
  REWRAP_LOCK,
  rewrapAll,
  type SealedTable,
  sealedTables,
} from '../../../../platform/security/sealed-values.ts'
import { CommandError, runAlone } from '../../command.ts'
import type { Progress } from '../../progress.ts'
import { addFirstKey, keepFirstKey } from './key-file-change.ts'

/** A round skips rows that are locked, and values that a process sealed meanwhile which had not read the new key yet. */
const ROUNDS_MAX = 20
const ROUND_PAUSE_MS = 500
const LOST_SHOWN_MAX = 20

/** Whatever changes the key file does so alone. */
export const ROTATION = { lock: REWRAP_LOCK, what: '`halfkey keys rotate-kek` is running on this database' }

/** The options of a rotation. */
export interface RotationOptions {
  dropOld: boolean
  /** How long to wait for running processes to read the new key. */
  noticeMs: number
  /** How long to wait, before old keys are dropped, for work that began under them. */
  settleMs: number
  progress: Progress
}

/** The result of a rotation. */
export interface KekRotation {
  /** The key that now wraps every value. */
  keyId: string
  /** Whether this run made it. */
  isNew: boolean
  rewrapped: number
  /** The keys that the database no longer needs. */
  oldKeyIds: string[]
  /** Whether they were taken out of the file. */
  dropped: boolean
}

async function wait(progress: Progress, what: string, ms: number, goOn: () => void): Promise<void> {
  progress.begin(`${what} (${Math.ceil(ms / 1_000)} s)`)
  for (const until = performance.now() + ms; performance.now() < until; ) {
    await pause(Math.min(ROUND_PAUSE_MS, Math.max(0, until - performance.now())))
    goOn()
  }
}

/** Makes the new key, unless the file holds several already. */
async function beginRotation(path: string): Promise<{ keys: KeyFile; isNew: boolean }> {
  const keys = await openKeyFile(path, { create: false })
  if (keys.keyIds.length > 1) return { keys, isNew: false }
  await addFirstKey(path)
  return { keys: await openKeyFile(path, { create: false }), isNew: true }
}

/** The parameters of one run. */
interface Run {
  deps: Deps
  keys: KeyFile
  tables: SealedTable[]
  goOn: () => void
  progress: Progress
}

function refuseLost(lost: LostValue[], count: number): never {
  const shown = lost.map(({ where, reason }) => `\n  ${where}: ${reason}`).join('')
  throw new CommandError(
    `${count} sealed values cannot be opened. They stay unchanged, all others were rewrapped, and no key was removed from the file:${shown}${count > lost.length ? '\n  …' : ''}\nThen run this again.`,
  )
}

/** Repeats until no value is wrapped by another key. Returns how many values it wrapped. */
async function rewrapUntilNone({ deps, keys, tables, goOn, progress }: Run): Promise<number> {
  let rewrapped = 0
  let left = await countStale(deps.db, tables, keys.keyId, goOn)
  for (let round = 0; left > 0; round += 1) {
    if (round === ROUNDS_MAX) {
      throw new CommandError(
        `${left} sealed values are not under key ${keys.keyId} yet, because a process still seals with another key. Make sure that all processes read this key file, then run this again.`,
      )
    }
    if (round > 0) await pause(ROUND_PAUSE_MS)
    progress.begin('Rewrapping sealed values', left)
    const lost: LostValue[] = []
    let lostCount = 0
    for await (const done of rewrapAll(deps.db, keys, tables, goOn)) {
      rewrapped += done.rewrapped
      lostCount += done.lost.length
      lost.push(...done.lost.slice(0, LOST_SHOWN_MAX - lost.length))
      progress.add(done.rewrapped)
    }
    left = await countStale(deps.db, tables, keys.keyId, goOn)
    if (lostCount > 0 && left <= lostCount) refuseLost(lost, lostCount)
  }
  return rewrapped
}

async function dropOldKeys(path: string, keys: KeyFile): Promise<void> {
  const now = await openKeyFile(path, { create: false })
  if (now.keyIds.join() !== keys.keyIds.join())
    throw new CommandError(`The key file ${path} was changed in the meantime. Run this again.`)
  await keepFirstKey(path)
}

async function rotate(deps: Deps, options: RotationOptions, goOn: () => void): Promise<KekRotation> {
  const { progress } = options
  const path = deps.config.kekFile as string
  const { keys, isNew } = await beginRotation(path)
  // Stored before any value is wrapped by the new key: from then on no process may start without it.
  await checkInstallation(deps.db, keys, deps.config)
  await wait(progress, 'Waiting until every running process has read the key file', options.noticeMs, goOn)
  const run = { deps, keys, tables: await sealedTables(deps.db), goOn, progress }
  let rewrapped = await rewrapUntilNone(run)
  const oldKeyIds = keys.keyIds.slice(1)
  const drops = options.dropOld && oldKeyIds.length > 0
  if (drops) {
    await wait(progress, 'Waiting until work that began under the old key has ended', options.settleMs, goOn)
    rewrapped += await rewrapUntilNone(run)
  }
  await rewrapFloor({ config: deps.config, egress: deps.egress, keys, now: deps.now }).catch((error: Error): never => {
    throw new CommandError(
      `The floor could not be written under the new key: ${error.message}. No key was removed from the file. Run this again.`,
    )
  })
  await recordSealingKeys(deps.db, [keys.keyId])
  if (drops) await dropOldKeys(path, keys)
  return { keyId: keys.keyId, isNew, rewrapped, oldKeyIds, dropped: drops }
}

/**
 * Makes a new key-encryption key, or continues with one that is in the file already, and wraps every sealed value with it.
 * Running processes keep working meanwhile. An interrupted rotation is finished by the next run.
 * @throws CommandError when another one is at work, when a value cannot be opened, or when the file cannot be written
 */
export function rotateKek(deps: Deps, options: RotationOptions): Promise<KekRotation> {
  return runAlone(deps, ROTATION, (goOn) => rotate(deps, options, goOn))
}
