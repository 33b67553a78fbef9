import { setTimeout as pause } from 'node:timers/promises'
import { type Attachment, type AttachOptions, attach } from './attach.ts'
import { prepareBinaries } from './binaries.ts'
import { readCredentials } from './cluster.ts'
import { locate } from './location.ts'
import { stopServer } from './server.ts'
import { close, keepAlive, releaseAndTakeAll } from './session.ts'

export { EmbeddedDatabaseError } from './errors.ts'

/** What this process is: `all` owns the folder alone, the others join it; `tool` is a CLI command. */
export type EmbeddedRole = 'all' | 'api' | 'worker' | 'tool'

/** Told in words for people, with fields for the log line. */
export type EmbeddedLog = (message: string, fields?: object) => void

/** A place at the embedded PostgreSQL, which runs on when this process dies and is found again by the next. */
export interface EmbeddedDatabase {
  /** for pg.Pool; `host` is a Unix socket's folder or 127.0.0.1. Stays valid when the server has to be restarted */
  connection: { host: string; port: number; user: string; password: string; database: string }
  /** the data folder, for messages */
  dataDir: string
  /** PostgreSQL's, e.g. "18.4" */
  version: string
  /** what it took: a new cluster, a start, a running one with others on it, or an orphaned running one */
  state: 'created' | 'started' | 'joined' | 'adopted'
  /** Gives up this process's place; stops PostgreSQL if no other process is attached. Idempotent, never rejects. */
  detach(): Promise<void>
}

const RETRY_MS_FIRST = 50
const RETRY_MS_MAX = 5_000

/**
 * Opens the embedded database of a data folder: creates it, starts it, or joins the one that runs. A supervisor in
 * every attached process brings PostgreSQL back when it dies. @throws EmbeddedDatabaseError
 */
export async function openEmbedded(options: {
  dataDir: string
  role: EmbeddedRole
  log: EmbeddedLog
}): Promise<EmbeddedDatabase> {
  const location = locate(options.dataDir)
  const binaries = await prepareBinaries(location.account, location.dataDir)
  const place = new Place({ binaries, location, isOwner: options.role === 'all' }, options.log)
  const first = await place.take()
  const { password } = readCredentials(location.cluster)
  options.log(`embedded PostgreSQL ${first.state}`, { version: binaries.version, dataDir: location.cluster })
  return {
    connection: { ...first.endpoint, user: 'halfkey', password, database: 'halfkey' },
    dataDir: location.cluster,
    version: binaries.version,
    state: first.state,
    detach: () => place.leave(),
  }
}

/** Holds the attachment, and attaches again whenever the server stops, until it is closed. */
class Place {
  #base: Pick<AttachOptions, 'binaries' | 'location' | 'isOwner'>
  #log: EmbeddedLog
  #current: Attachment | null = null
  #returning: Promise<void> | null = null
  #leaving: Promise<void> | null = null

  constructor(base: Pick<AttachOptions, 'binaries' | 'location' | 'isOwner'>, log: EmbeddedLog) {
    this.#base = base
    this.#log = log
  }

  async take(): Promise<Attachment> {
    return this.#hold(await attach({ ...this.#base, mayCreate: true, isCancelled: () => false }))
  }

  leave(): Promise<void> {
    this.#leaving ??= this.#leave()
    return this.#leaving
  }

  #hold(attachment: Attachment): Attachment {
    this.#current = attachment
    attachment.client.once('end', () => {
      if (this.#leaving || this.#current !== attachment) return
      this.#current = null
      this.#returning = this.#return().finally(() => {
        this.#returning = null
      })
    })
    return attachment
  }

  /** Never gives up while the process lives: without its database it can do nothing else, and probes must recover by themselves. */
  async #return(): Promise<void> {
    this.#log('embedded PostgreSQL stopped unexpectedly; restarting it', { dataDir: this.#base.location.cluster })
    for (let waitMs = RETRY_MS_FIRST; !this.#leaving; waitMs = Math.min(waitMs * 2, RETRY_MS_MAX)) {
      try {
        const isCancelled = () => this.#leaving !== null
        const attachment = this.#hold(await attach({ ...this.#base, mayCreate: false, isCancelled }))
        this.#log(`embedded PostgreSQL is running again: ${attachment.state}`, { dataDir: this.#base.location.cluster })
        return
      } catch (error) {
        if (this.#leaving) return
        this.#log('embedded PostgreSQL is not running yet', {
          error: error instanceof Error ? error.message : String(error),
        })
        await pause(waitMs)
      }
    }
  }

  async #leave(): Promise<void> {
    await this.#returning
    const attachment = this.#current
    if (!attachment) return
    const { client, identity } = attachment
    try {
      keepAlive(client, true)
      if (await releaseAndTakeAll(client)) await this.#stop(identity)
    } catch (error) {
      this.#log('embedded PostgreSQL stopped before this process disconnected', {
        error: error instanceof Error ? error.message : String(error),
      })
    } finally {
      await close(client)
    }
  }

  async #stop(identity: Attachment['identity']): Promise<void> {
    const { binaries, location } = this.#base
    const hasStopped = await stopServer(binaries, location, identity)
    if (hasStopped) this.#log('embedded PostgreSQL stopped', { dataDir: location.cluster })
    else
      this.#log('embedded PostgreSQL is still stopping; this process does not wait for it', {
        dataDir: location.cluster,
      })
  }
}
