import { findReturned } from '../../../../insight/audit/service.ts'
import type { Deps } from '../../../../platform/deps.ts'
import { type BadRecord, countRecords, verifyRecords } from '../../../../platform/security/records/walk.ts'
import { listTenants } from '../../../../tenancy/tenant/service.ts'
import { rememberFloor } from '../../../restore/service.ts'
import { counted, defineCommand, EXIT, withDeps } from '../../command.ts'
import type { Progress } from '../../progress.ts'
import { enforceRecords, told } from './enforce.ts'

const BAD_MAX = 1_000
const TENANTS_MAX = 100_000

/** `halfkey records enforce` */
export const recordsEnforce = defineCommand({
  name: 'records enforce',
  summary: 'Refuse records that carry no MAC, after giving every record one',
  details: `Run it once after an upgrade from a release that gave fewer records a MAC, when no process of that release runs any more: each start and halfkey doctor say so. It trusts what the database says at that moment. The service may be running. If it is interrupted, run it again: it continues where it stopped.
At the end it writes a mark beside the key file, named HALFKEY_KEK_FILE.records. Where several machines have copies of the key file, copy the mark too, or set HALFKEY_RECORDS=enforced.
It changes nothing if a record that has a MAC does not verify.`,
  options: (command) =>
    command.option(
      '--accept-missing',
      'also seal records without a MAC where such records are refused already, for example after restoring an old backup',
    ),
  async run({ acceptMissing = false }, context) {
    const done = await withDeps(context, (deps, progress) => enforceRecords(deps, { acceptMissing, progress }))
    const lines = [
      done.wasEnforced && done.sealed + done.shares === 0
        ? 'Records without a MAC are refused already.'
        : `Sealed ${counted(done.sealed, 'record')} and ${counted(done.shares, 'key share')}. From now on, records without a MAC are refused.`,
    ]
    if (!done.marked)
      lines.push(`The mark ${done.path} could not be written. Set HALFKEY_RECORDS=enforced for every process.`)
    return { data: { ...done }, lines, exitCode: done.marked ? EXIT.done : EXIT.failed }
  },
})

/** Records of all tenants that came back after the audit log says that they were ended. */
async function findAllReturned(deps: Deps, progress: Progress): Promise<BadRecord[]> {
  const returned: BadRecord[] = []
  const tenants = await listTenants(deps.db, TENANTS_MAX)
  progress.begin('Holding records against audit logs', tenants.length)
  for (const { id: tenantId } of tenants) {
    for await (const { found } of findReturned(deps.db, tenantId))
      returned.push(...found.slice(0, BAD_MAX - returned.length).map((each) => ({ ...each, tenantId })))
    progress.add(1)
  }
  return returned
}

/** `halfkey records verify` */
export const recordsVerify = defineCommand({
  name: 'records verify',
  summary: 'Check every record that says who may use a key',
  details: `Lists the records that something other than Halfkey changed, and exits with 1 if there are any. Also lists records that somebody put back as they were: of which the floor knows a newer version, or of which the audit log says that they were revoked, removed or frozen and their rows say that they were not. Records without a MAC are listed too where they are refused. Changes no record.`,
  async run(_, context) {
    const found = await withDeps(context, async (deps, progress) => {
      const unread = await rememberFloor(deps)
      const bad: BadRecord[] = []
      let checked = 0
      for (const kind of deps.recordKinds) {
        progress.begin(`Verifying ${kind.table}`, await countRecords(deps.db, kind, null))
        for await (const portion of verifyRecords(deps.db, kind, { tenantId: null, goOn: () => {} })) {
          bad.push(...portion.bad.slice(0, BAD_MAX - bad.length))
          checked += portion.seen
          progress.add(portion.seen)
        }
      }
      const returned = await findAllReturned(deps, progress)
      return { checked, bad, returned, unread, enforced: await deps.enforcement.isEnforced() }
    })
    const lines = [
      ...found.bad.map(told),
      ...found.returned.map(
        (each) => `${told(each)}: the audit log says that it was ended, and its row that it was not`,
      ),
    ]
    if (found.unread !== null)
      lines.push(
        `${found.unread} So settings, keys and members that were put back as they were are not found by their versions.`,
      )
    const open = found.enforced ? '' : ' Records without a MAC are accepted: run halfkey records enforce.'
    lines.push(
      `${counted(found.checked, 'record')} checked, ${found.bad.length} of them changed${found.returned.length === 0 ? '' : `, ${found.returned.length} put back`}.${open}`,
    )
    return {
      data: { ...found },
      lines,
      exitCode: found.bad.length + found.returned.length > 0 ? EXIT.failed : EXIT.done,
    }
  },
})
