import { setTimeout as pause } from 'node:timers/promises'
import type pg from 'pg'
import type { Binaries } from './binaries.ts'
import {
  clearAbandoned,
  createCluster,
  readCredentials,
  readPostmasterFile,
  readSystemIdentifier,
  readyCluster,
} from './cluster.ts'
import { EmbeddedDatabaseError } from './errors.ts'
import { isCluster, type Location } from './location.ts'
import { readRecord, writeRecord } from './record.ts'
import { chooseEndpoint, type Launch, launch, stopServer } from './server.ts'
import {
  close,
  connect,
  countOtherAttached,
  type Endpoint,
  ensureDatabase,
  type Identity,
  keepAlive,
  releaseAndTakeAll,
  takeAttachedLock,
  takeOwnerLock,
} from './session.ts'
import { setStaleLockAside } from './stale-lock.ts'

// Crash recovery replays up to max_wal_size of log, which a slow disk needs long for.
const START_TIMEOUT_MS = 60_000
// The server notices at once that a killed owner's connection closed, unless the machine is very busy.
const OWNER_RETRY_MS = 3_000
const POLL_MS = 10
const FAILED_LAUNCHES_MAX = 3
const LAUNCH_GAP_MS_FIRST = 50
const LAUNCH_GAP_MS_MAX = 1_000

/** One process's place at the database: the connection that holds its locks. */
export interface Attachment {
  client: pg.Client
  identity: Identity
  endpoint: Endpoint
  state: 'created' | 'started' | 'joined' | 'adopted'
}

/** What an attempt needs to know; `mayCreate` is false for a process that has already seen the cluster. */
export interface AttachOptions {
  binaries: Binaries
  location: Location
  isOwner: boolean
  mayCreate: boolean
  isCancelled: () => boolean
}

/**
 * Finds or starts this folder's server and takes a place at it; the one sequence for the first start and for every
 * return after the server went away. Ends within about a minute. @throws every code of `EmbeddedDatabaseError`
 */
export async function attach(options: AttachOptions): Promise<Attachment> {
  const created = await ensureCluster(options)
  const deadline = Date.now() + START_TIMEOUT_MS
  const starter = new Starter(options)
  while (Date.now() < deadline && !options.isCancelled()) {
    const place = await tryAttach(options, starter)
    if (place) return { ...place, state: created ? 'created' : place.state }
    await pause(POLL_MS)
  }
  throw new EmbeddedDatabaseError(
    'start_failed',
    `The embedded PostgreSQL in ${options.location.cluster} did not respond within ${START_TIMEOUT_MS / 1000} s. ` +
      `${starter.lastFailure} See ${options.location.dataDir}/server.log. It may still be recovering. Start Halfkey again to keep waiting.`,
  )
}

async function ensureCluster({ binaries, location, mayCreate }: AttachOptions): Promise<boolean> {
  let created = false
  if (!isCluster(location.cluster)) {
    if (!mayCreate) {
      throw new EmbeddedDatabaseError(
        'data_dir_mismatch',
        `${location.cluster} no longer exists. Halfkey created nothing in its place. Restore the folder.`,
      )
    }
    created = await createCluster(binaries, location)
  }
  await clearAbandoned(location.cluster)
  await readyCluster(binaries, location)
  const record = readRecord(location.dataDir)
  const systemIdentifier = readSystemIdentifier(location.cluster)
  if (record && record.systemIdentifier !== systemIdentifier) {
    throw new EmbeddedDatabaseError(
      'data_dir_mismatch',
      `${location.dataDir}/database.json names the cluster ${record.systemIdentifier}, but ${location.cluster} holds ${systemIdentifier}. ` +
        'Restore the folder that belongs here. Or, if this folder is right, delete database.json and start again.',
    )
  }
  return created
}

async function tryAttach(options: AttachOptions, starter: Starter): Promise<Attachment | null> {
  const { location } = options
  const file = readPostmasterFile(location.cluster)
  const credentials = readCredentials(location.cluster)
  const result = file ? await connect(file, credentials, location.cluster) : { kind: 'absent' as const, reason: '' }
  if (result.kind !== 'connected') {
    if (result.reason) starter.lastFailure = result.reason
    if (result.kind !== 'starting') await starter.startUnlessStarting()
    return null
  }
  const { client, identity } = result
  try {
    // Not taken: the last process is just leaving and stops the server; the next round starts it again.
    if (!(await takeAttachedLock(client))) return await giveUp(client)
    await ensureDatabase(client, credentials.password)
    if (options.isOwner) await becomeOwner(client, location)
    const endpoint = { host: file?.host ?? '', port: file?.port ?? 0 }
    writeRecord(location.dataDir, {
      ...endpoint,
      user: 'halfkey',
      password: credentials.password,
      database: 'halfkey',
      systemIdentifier: identity.systemIdentifier,
      dataDirectory: location.cluster,
      major: options.binaries.major,
    })
    const others = await countOtherAttached(client)
    const state = starter.hasStarted(file?.pid ?? 0) ? 'started' : others > 0 ? 'joined' : 'adopted'
    keepAlive(client, false)
    return { client, identity, endpoint, state }
  } catch (error) {
    if (error instanceof EmbeddedDatabaseError) {
      await stepBack(options, client, identity)
      throw error
    }
    // The server went away between two statements: as if it had not been there.
    starter.lastFailure = error instanceof Error ? error.message : String(error)
    return await giveUp(client)
  }
}

/** A refused process may by now be the last one attached; it must not leave the server to nobody. */
async function stepBack({ binaries, location }: AttachOptions, client: pg.Client, identity: Identity): Promise<void> {
  try {
    if (await releaseAndTakeAll(client)) await stopServer(binaries, location, identity)
  } catch {
    // The refusal is what the caller must hear; a server that has gone away meanwhile needs no stop.
  } finally {
    await close(client)
  }
}

async function giveUp(client: pg.Client): Promise<null> {
  await close(client)
  return null
}

async function becomeOwner(client: pg.Client, location: Location): Promise<void> {
  const deadline = Date.now() + OWNER_RETRY_MS
  while (!(await takeOwnerLock(client))) {
    if (Date.now() > deadline) {
      throw new EmbeddedDatabaseError(
        'data_dir_in_use',
        `Another Halfkey process already runs on the embedded database in ${location.dataDir}. ` +
          'Stop it, or start this one with HALFKEY_ROLE=api or HALFKEY_ROLE=worker to join it, or set another HALFKEY_DATA_DIR.',
      )
    }
    await pause(50)
  }
}

/** Starts the server, at most one launch of ours at a time, and tells a lost race from a server that cannot run. */
class Starter {
  lastFailure = ''
  #options: AttachOptions
  #launch: Launch | null = null
  #useTcp = false
  #failures = 0
  #nextLaunchAt = 0
  #launchGapMs = LAUNCH_GAP_MS_FIRST

  constructor(options: AttachOptions) {
    this.#options = options
  }

  /** Whether the running server, by its pid, is the one this process launched. */
  hasStarted(pid: number): boolean {
    return this.#launch !== null && !this.#launch.hasExited() && (this.#launch.pid === pid || this.#launch.pid === 0)
  }

  async startUnlessStarting(): Promise<void> {
    const { binaries, location } = this.#options
    if (this.#launch && !this.#launch.hasExited()) return
    if (Date.now() < this.#nextLaunchAt) return
    if (this.#launch) this.#judge(this.#launch)
    this.#nextLaunchAt = Date.now() + this.#launchGapMs
    this.#launchGapMs = Math.min(this.#launchGapMs * 2, LAUNCH_GAP_MS_MAX)
    const record = readRecord(location.dataDir)
    const lastPort = record?.host === '127.0.0.1' ? { lastPort: record.port } : {}
    const endpoint = await chooseEndpoint(location.cluster, { useTcp: this.#useTcp, ...lastPort })
    this.#launch = await launch(binaries, location, endpoint)
  }

  #judge(ended: Launch): void {
    const { location } = this.#options
    const tail = ended.logTail()
    this.lastFailure = tail
    if (/could not create any Unix-domain sockets|could not create Unix-domain socket/.test(tail)) {
      this.#useTcp = true
      return
    }
    // A crashed server's last backends are still leaving, another process won the race, or the port was taken meanwhile.
    if (/pre-existing shared memory block|could not create any TCP\/IP sockets/.test(tail)) return
    if (/lock file "[^"]*" (already exists|is empty)/.test(tail)) {
      setStaleLockAside(location.cluster)
      return
    }
    this.#failures += 1
    if (this.#failures < FAILED_LAUNCHES_MAX) return
    throw new EmbeddedDatabaseError(
      'start_failed',
      `The embedded PostgreSQL in ${location.cluster} does not start. It wrote to ${location.dataDir}/server.log: ${tail || 'nothing'}`,
    )
  }
}
