import type { Deps } from '../../platform/deps.ts'
import { failures } from '../../platform/http/errors.ts'
import { callLedger } from '../../platform/ports/call-ledger.ts'
import { type Contract, type Ledger, LedgerError } from '../../platform/ports/ledger.ts'
import { type Executor, findLive, requireActive } from '../manage/access.ts'
import { checkConditions, compileConditions, matches } from '../policy/conditions.ts'
import type { Contracts, QueryContracts } from '../schema.ts'
import { DELEGATED_SESSION_ERRORS, policyOf } from '../service.ts'
import * as store from '../store.ts'

const fail = failures(DELEGATED_SESSION_ERRORS)

const LIMIT_DEFAULT = 20

/** Which templates are asked for: some of those that the policy lets read. @throws policy_denied */
function templatesOf(allowed: readonly string[], asked: readonly string[] | undefined): readonly string[] {
  const outside = asked?.find((templateId) => !allowed.includes(templateId))
  if (allowed.length === 0 || outside !== undefined)
    throw fail('policy_denied', [
      {
        field: 'templateIds',
        code: 'policy_denied',
        message:
          outside === undefined
            ? "The session's policy allows no query: it has no query.templateIds."
            : `The session's policy does not let ${outside} be queried.`,
        rule: 'query',
      },
    ])
  return asked ?? allowed
}

/** Active contracts that the session's wallet sees, newest first. Nothing changes. @throws policy_denied, and what an ended session throws */
export async function queryContracts(
  deps: Deps,
  executor: Executor,
  id: string,
  input: QueryContracts,
): Promise<Contracts> {
  const row = await findLive(store.findLive, deps.db, deps, executor, id)
  requireActive(row, deps.now())
  if (row.user_status !== 'active') throw fail('user_suspended')
  if (row.guest_over) throw fail('guest_expired')
  const where = input.where ?? []
  const wrong = checkConditions(where, 'where')
  if (wrong.length > 0) throw fail('validation_failed', wrong)
  const templateIds = templatesOf(policyOf(row).queryTemplateIds, input.templateIds)
  const conditions = compileConditions(where)
  const ledger = deps.ledgers.get(row.ledger) as Ledger
  const query = {
    tenantId: row.tenant_id,
    party: row.party_id,
    templateIds,
    accept: where.length === 0 ? null : (contract: Contract) => matches(conditions, contract.arguments),
    limit: input.limit ?? LIMIT_DEFAULT,
    cursor: input.cursor ?? null,
  }
  try {
    return await callLedger(ledger, () => ledger.query(deps.db, query))
  } catch (error) {
    if (!(error instanceof LedgerError)) throw error
    if (error.code === 'ledger_unavailable') throw fail('ledger_unavailable')
    throw fail('validation_failed', [{ field: error.field ?? '', code: 'invalid', message: error.message }])
  }
}
