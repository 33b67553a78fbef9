import type { Database } from './platform/db/db.ts'
import { InstallationError } from './platform/db/installation.ts'
import type { Logger } from './platform/observability/log.ts'
import { API_KEY_RECORD } from './platform/security/records/api-key-record.ts'
import type { Enforcement } from './platform/security/records/enforcement.ts'
import { USER_RECORD } from './platform/security/records/user-record.ts'
import { isUnsealed } from './platform/security/records/walk.ts'

interface Starting {
  db: Database
  enforcement: Enforcement
  log: Logger
  /** Whether this process made the installation. */
  isNew: boolean
  /** Whether it answers or works for others, unlike a command. */
  serves: boolean
}

/**
 * A new installation refuses records without a MAC from its beginning; an older one is told how to come to it. One that
 * refuses them before any record got a MAC could not authenticate a single call: then the processes of the release before go
 * on, and this one does not start.
 * @throws InstallationError
 */
export async function startRecords({ db, enforcement, log, isNew, serves }: Starting): Promise<void> {
  if (isNew && !(await enforcement.enforce()))
    log.warn(
      { path: enforcement.path },
      'the mark that records without a MAC are refused could not be written; set HALFKEY_RECORDS=enforced',
    )
  if (!(await enforcement.isEnforced()))
    log.warn(
      (await enforcement.isEnforced(1))
        ? 'some records were not protected by the earlier release, and count as they are until you run: halfkey records enforce'
        : 'records without a MAC are accepted, so write access to the database can forge them; run: halfkey records enforce',
    )
  if (!serves) return
  // One kind that every installation has, of each generation of the mark.
  for (const kind of [API_KEY_RECORD, USER_RECORD])
    if ((await enforcement.isEnforced(kind.since)) && (await isUnsealed(db, kind)))
      throw new InstallationError(
        `The rows of ${kind.table} have no MACs yet, and records without one are refused. If you upgraded from a release that gave them none, set HALFKEY_RECORDS=marked until \`halfkey records enforce\` has run. If you restored an old backup, run: halfkey records enforce --accept-missing`,
      )
}
