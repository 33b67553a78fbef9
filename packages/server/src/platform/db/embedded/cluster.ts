import { randomBytes } from 'node:crypto'
import { closeSync, existsSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import { chown, mkdir, open, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Account } from './account.ts'
import type { Binaries } from './binaries.ts'
import { EmbeddedDatabaseError, errorCode } from './errors.ts'
import { isCluster, type Location } from './location.ts'
import { writePrivate } from './record.ts'
import { run } from './run.ts'
import { mainSettings, serverSettings } from './settings.ts'

/** The passwords of a cluster. They lie inside it, so that the rename that publishes the cluster publishes them too. */
export interface Credentials {
  /** of the superuser `postgres`, used by this launcher alone */
  adminPassword: string
  /** of the role `halfkey`, which owns the database and is no superuser */
  password: string
}

const CREDENTIALS_FILE = 'halfkey.json'

// pg_trgm takes only what the C library calls a letter for one: under LC_CTYPE=C, show_trgm('кот') is empty.
// Collation comes from PostgreSQL itself, so that an index stays valid when the C library changes.
const LC_CTYPE_CANDIDATES = ['C.UTF-8', 'en_US.UTF-8', 'C.utf8', 'UTF-8', 'en-US', 'C']

/**
 * Makes a new cluster unless one is there. Any number of processes may try at once: each builds its own beside the
 * place, and the first rename wins; one killed half-way leaves only a folder that a later start clears away.
 * @returns whether ours won
 */
export async function createCluster(binaries: Binaries, location: Location): Promise<boolean> {
  const { cluster, account } = location
  const workshop = `${cluster}.init-${process.pid}-${randomBytes(4).toString('hex')}`
  await mkdir(workshop, { mode: 0o700 })
  try {
    if (account) await chown(workshop, account.uid, account.gid)
    const built = join(workshop, 'cluster')
    const credentials = { adminPassword: newPassword(), password: newPassword() }
    await initdb({ binaries, account, workshop, built, adminPassword: credentials.adminPassword })
    const owner = await stat(built)
    writePrivate(join(built, CREDENTIALS_FILE), JSON.stringify(credentials), owner)
    writePrivate(join(built, 'postgresql.conf'), mainSettings(), owner)
    writePrivate(join(built, 'halfkey.conf'), serverSettings(), owner)
    await syncFolder(built)
    await rename(built, cluster)
    await syncFolder(dirname(cluster))
    return true
  } catch (error) {
    if (isCluster(cluster)) return false
    throw error
  } finally {
    await rm(workshop, { recursive: true, force: true })
  }
}

async function initdb(options: {
  binaries: Binaries
  account: Account
  workshop: string
  built: string
  adminPassword: string
}): Promise<void> {
  const { binaries, account, workshop, built, adminPassword } = options
  const passwordFile = join(workshop, 'password')
  await writeFile(passwordFile, adminPassword, { mode: 0o600 })
  if (account) await chown(passwordFile, account.uid, account.gid)
  const args = ['-D', built, '-U', 'postgres', `--pwfile=${passwordFile}`, '--auth=scram-sha-256', '-E', 'UTF8']
  args.push('--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C', '--no-instructions')
  // Set explicitly, so that initdb need not start trial servers to find them out.
  args.push('-c', 'max_connections=200', '-c', 'shared_buffers=128MB', '-c', 'timezone=UTC', '-c', 'log_timezone=UTC')
  let output = ''
  for (const ctype of LC_CTYPE_CANDIDATES) {
    const result = await run(binaries.initdb, [...args, `--lc-ctype=${ctype}`], account)
    if (result.exitCode === 0) return
    output = result.output.trim()
    await rm(built, { recursive: true, force: true })
    if (!/locale|encoding/i.test(output)) break
  }
  const unusable = /shared librar|GLIBC|not found|Library not loaded/i.test(output)
  throw new EmbeddedDatabaseError(
    unusable ? 'platform_unsupported' : 'start_failed',
    `initdb could not create a database in ${dirname(workshop)}: ${output}. ` +
      `${unusable ? 'Set DATABASE_URL to your own PostgreSQL.' : 'Fix the cause and start again. Nothing was left behind.'}`,
  )
}

function newPassword(): string {
  return randomBytes(24).toString('base64url')
}

/** Makes a rename survive a power cut; Windows has no such call for folders. */
async function syncFolder(folder: string): Promise<void> {
  if (process.platform === 'win32') return
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Removes what a killed initdb left next to the cluster. The folder of a living process stays. */
export async function clearAbandoned(cluster: string): Promise<void> {
  const prefix = `${basename(cluster)}.init-`
  for (const name of await readdir(dirname(cluster))) {
    if (!name.startsWith(prefix)) continue
    const pid = Number(name.slice(prefix.length).split('-')[0])
    // An initdb orphaned by the kill may still write here: what cannot be removed now, a later start removes.
    if (!processExists(pid)) await rm(join(dirname(cluster), name), { recursive: true, force: true }).catch(() => {})
  }
}

/** Whether some process has this id now; signal 0 asks without sending anything. */
export function processExists(pid: number): boolean {
  try {
    return Number.isInteger(pid) && pid > 0 && process.kill(pid, 0)
  } catch (error) {
    return errorCode(error) === 'EPERM'
  }
}

/** Brings the settings file to this release's, and refuses a cluster this PostgreSQL cannot run. @throws major_version_mismatch */
export async function readyCluster(binaries: Binaries, location: Location): Promise<void> {
  const { cluster } = location
  const found = readFileSync(join(cluster, 'PG_VERSION'), 'utf8').trim()
  if (found !== String(binaries.major)) {
    throw new EmbeddedDatabaseError(
      'major_version_mismatch',
      `${cluster} was written by PostgreSQL ${found}. This release of Halfkey includes PostgreSQL ${binaries.version}, which cannot read it. ` +
        `Dump it with the Halfkey release that wrote it (or with PostgreSQL ${found}'s pg_dump) and restore into a new HALFKEY_DATA_DIR, ` +
        `or run PostgreSQL ${found} yourself on that folder and set DATABASE_URL.`,
    )
  }
  const settings = join(cluster, 'halfkey.conf')
  if (existsSync(settings) && readFileSync(settings, 'utf8') === serverSettings()) return
  writePrivate(settings, serverSettings(), statSync(cluster))
}

/** @throws data_dir_forbidden, data_dir_mismatch if Halfkey did not create the cluster */
export function readCredentials(cluster: string): Credentials {
  const path = join(cluster, CREDENTIALS_FILE)
  try {
    const { adminPassword, password } = JSON.parse(readFileSync(path, 'utf8')) as Partial<Credentials>
    if (adminPassword && password) return { adminPassword, password }
    throw new SyntaxError('a password is missing')
  } catch (cause) {
    const forbidden = errorCode(cause) === 'EACCES'
    throw new EmbeddedDatabaseError(
      forbidden ? 'data_dir_forbidden' : 'data_dir_mismatch',
      forbidden
        ? `${cluster} belongs to another user. Start Halfkey as the user who created it.`
        : `${cluster} was not created by Halfkey, or ${CREDENTIALS_FILE} is missing. Restore that file from a backup of the folder, ` +
            'or run PostgreSQL on the folder yourself and set DATABASE_URL.',
      { cause },
    )
  }
}

/** The cluster's identity as a decimal string, from the first eight bytes of pg_control: known while it is stopped. */
export function readSystemIdentifier(cluster: string): string {
  const bytes = Buffer.alloc(8)
  const file = openSync(join(cluster, 'global', 'pg_control'), 'r')
  try {
    readSync(file, bytes, 0, 8, 0)
  } finally {
    closeSync(file)
  }
  return bytes.readBigUInt64LE().toString()
}

/** What a running postmaster wrote about itself; a stale file says the same, so nothing here is proof. */
export interface PostmasterFile {
  pid: number
  startedAtSeconds: number
  host: string
  port: number
}

/** Reads postmaster.pid (lines: pid, folder, start time, port, socket folder, listen address); null when absent or half-written. */
export function readPostmasterFile(cluster: string): PostmasterFile | null {
  try {
    const lines = readFileSync(join(cluster, 'postmaster.pid'), 'utf8').split('\n')
    const [pid, startedAtSeconds, port] = [Number(lines[0]), Number(lines[2]), Number(lines[3])]
    const host = lines[4]?.trim() || lines[5]?.trim() || ''
    return pid > 0 && port > 0 && host !== '' ? { pid, startedAtSeconds, host, port } : null
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null
    throw error
  }
}
