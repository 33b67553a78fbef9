import { createHash, randomBytes } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmdirSync,
  symlinkSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { type Account, canTraverse, chooseAccount } from './account.ts'
import { EmbeddedDatabaseError, errorCode } from './errors.ts'
import { readRecord } from './record.ts'

/** The location of an embedded database. */
export interface Location {
  /** The operator's folder, as a real path: record, server log */
  dataDir: string
  /** PostgreSQL's own folder; `postgres` in `dataDir`, or what that links to where root's unprivileged user cannot enter `dataDir` */
  cluster: string
  account: Account
}

/** Where root keeps what its unprivileged user must reach. */
export function rootStateDir(): string {
  return '/var/lib/halfkey'
}

/** Finds the cluster of a data folder, or the place for a new one. @throws data_dir_mismatch, data_dir_forbidden, platform_unsupported */
export function locate(dataDir: string): Location {
  const real = createDataDir(dataDir)
  const near = join(real, 'postgres')
  const known = readLink(near) ?? near
  const account = chooseAccount([known, real])
  const cluster = isCluster(known) ? known : placeNew(real, near, account)
  if (!canTraverse(dirname(cluster), account)) {
    throw new EmbeddedDatabaseError(
      'data_dir_forbidden',
      `PostgreSQL runs as the user "${account?.name}", who cannot reach ${cluster}. ` +
        `Give every folder above it the x permission (chmod o+x), or start Halfkey as that user.`,
    )
  }
  return { dataDir: real, cluster, account }
}

function readLink(path: string): string | null {
  try {
    return resolve(dirname(path), readlinkSync(path))
  } catch {
    return null
  }
}

/** Whether the folder holds a finished cluster: initdb runs elsewhere, so a half-made one never has this name. */
export function isCluster(folder: string): boolean {
  return existsSync(join(folder, 'PG_VERSION'))
}

function createDataDir(dataDir: string): string {
  try {
    // Root's folder lets others pass through, not look in: PostgreSQL's unprivileged user must reach its own part.
    mkdirSync(dataDir, { recursive: true, mode: process.getuid?.() === 0 ? 0o711 : 0o700 })
    const real = realpathSync(dataDir)
    readdirSync(real)
    return real
  } catch (cause) {
    throw new EmbeddedDatabaseError(
      'data_dir_forbidden',
      `The data folder ${dataDir} cannot be used (${errorCode(cause)}). ` +
        'Make it readable and writable for this user, or set another folder in HALFKEY_DATA_DIR.',
      { cause },
    )
  }
}

function placeNew(real: string, near: string, account: Account): string {
  const record = readRecord(real)
  if (record) {
    throw new EmbeddedDatabaseError(
      'data_dir_mismatch',
      `${join(real, 'database.json')} names the database in ${record.dataDirectory}, which does not exist or cannot be read by this user. ` +
        'Halfkey created nothing, so that a lost disk or mount does not look like an empty database. ' +
        'Restore the folder, start as the user who created it, or delete database.json to begin with an empty database.',
    )
  }
  const link = readLink(near)
  if (link !== null) return openToAccount(link)
  if (existsSync(near) && readdirSync(near).length > 0) {
    throw new EmbeddedDatabaseError(
      'data_dir_mismatch',
      `${near} exists and is not a PostgreSQL data folder. Move it, or set another folder in HALFKEY_DATA_DIR.`,
    )
  }
  if (canTraverse(real, account)) return near
  return openToAccount(linkElsewhere(real, near))
}

/**
 * The cluster goes where the account can reach it, and a link in the data folder keeps the way. The name is of the
 * data folder's path plus a random part: a folder removed and made again begins empty, as everywhere else.
 */
function linkElsewhere(real: string, near: string): string {
  const hash = createHash('sha256').update(real).digest('hex').slice(0, 16)
  const target = join(rootStateDir(), `data-${hash}-${randomBytes(4).toString('hex')}`, 'postgres')
  if (existsSync(near)) rmdirSync(near)
  try {
    symlinkSync(target, near)
    return target
  } catch (error) {
    // Another first start was quicker: its link holds.
    const theirs = errorCode(error) === 'EEXIST' ? readLink(near) : null
    if (theirs !== null) return theirs
    throw error
  }
}

/** Creates the cluster's folder. Sets its mode explicitly, because a strict umask would close it to the account. */
function openToAccount(cluster: string): string {
  const folder = dirname(cluster)
  for (const path of [dirname(folder), folder]) {
    mkdirSync(path, { recursive: true })
    // Also where it exists: the process that made it may have been killed before this line. An operator's link is left alone.
    if (path.startsWith(rootStateDir())) chmodSync(path, path === folder ? 0o711 : 0o755)
  }
  return cluster
}
