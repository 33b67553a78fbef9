import { randomBytes } from 'node:crypto'
import { closeSync, fchownSync, openSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { EmbeddedDatabaseError, errorCode } from './errors.ts'

/** What `database.json` says of the cluster: for people and tools, and to notice a cluster that was swapped or lost. */
export interface DatabaseRecord {
  host: string
  port: number
  user: string
  password: string
  database: string
  /** PostgreSQL's own id of the cluster; a decimal string, as it exceeds 2^53 */
  systemIdentifier: string
  dataDirectory: string
  major: number
}

/** Reads `database.json`; null when there is none. @throws data_dir_forbidden, data_dir_mismatch for an unreadable one */
export function readRecord(dataDir: string): DatabaseRecord | null {
  const path = join(dataDir, 'database.json')
  try {
    const record = JSON.parse(readFileSync(path, 'utf8')) as DatabaseRecord
    if (typeof record.systemIdentifier === 'string' && typeof record.dataDirectory === 'string') return record
    throw new SyntaxError('fields are missing')
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return null
    const forbidden = errorCode(cause) === 'EACCES'
    throw new EmbeddedDatabaseError(
      forbidden ? 'data_dir_forbidden' : 'data_dir_mismatch',
      forbidden
        ? `${path} belongs to another user. Start Halfkey as the user who created the folder.`
        : `${path} is not a valid record of the embedded database. Restore it, or delete it: Halfkey writes it again from the cluster.`,
      { cause },
    )
  }
}

/** Writes `database.json` where it differs; readers see the old or the new one, never half. */
export function writeRecord(dataDir: string, record: DatabaseRecord): void {
  const path = join(dataDir, 'database.json')
  const text = `${JSON.stringify(record, null, 2)}\n`
  try {
    if (readFileSync(path, 'utf8') === text) return
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
  }
  writePrivate(path, text, statSync(dataDir))
}

/** Replaces a file atomically with mode 0600 and the given owner (kept by root's files in a user's folder). */
export function writePrivate(path: string, text: string, owner: { uid: number; gid: number }): void {
  const temporary = `${path}.tmp-${process.pid}-${randomBytes(4).toString('hex')}`
  try {
    // By descriptor and 'wx': in a folder of the unprivileged user, root must not follow a link laid there.
    const file = openSync(temporary, 'wx', 0o600)
    try {
      if (process.getuid?.() === 0) fchownSync(file, owner.uid, owner.gid)
      writeFileSync(file, text, { flush: true })
    } finally {
      closeSync(file)
    }
    renameSync(temporary, path)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
}
