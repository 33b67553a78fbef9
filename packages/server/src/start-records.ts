import type { Database } from './platform/db/db.ts'
import { InstallationError } from './platform/db/installation.ts'
import type { Logger } from './platform/observability/log.ts'
import type { Enforcement } from './platform/security/records/enforcement.ts'
import { areKeysUnsealed } from './tenancy/api-keys/service.ts'

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
  if (!(await enforcement.isEnforced())) {
    log.warn(
      'records without a MAC are accepted, so write access to the database can forge them; run: halfkey records enforce',
    )
    return
  }
  if (serves && (await areKeysUnsealed(db)))
    throw new InstallationError(
      'The records of this database have no MACs yet, and records without one are refused. If you upgraded from a release without MACs, set HALFKEY_RECORDS=marked until `halfkey records enforce` has run. If you restored an old backup, run: halfkey records enforce --accept-missing',
    )
}
