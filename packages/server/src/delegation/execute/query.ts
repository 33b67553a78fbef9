import type { Deps } from '../../platform/deps.ts'
import { invalid } from '../../platform/http/errors.ts'
import { callLedger } from '../../platform/ports/call-ledger.ts'
import { type Contract, LedgerError } from '../../platform/ports/ledger.ts'
import { type Executor, findLive } from '../access.ts'
import { fail } from '../errors.ts'
import { checkConditions, compileConditions, matches } from '../policy/conditions.ts'
import type { Contracts, QueryContracts } from '../schema.ts'
import { policyOf, requireActive, requireActiveUser } from '../session.ts'
import * as store from '../store.ts'
import { ledgerOf } from './execution.ts'

const LIMIT_DEFAULT = 20

/** The requested templates, or all that the policy lets the session read. @throws policy_denied */
function templatesOf(allowed: readonly string[], asked: readonly string[] | undefined): readonly string[] {
  const outside = asked?.find((templateId) => !allowed.includes(templateId))
  if (allowed.length > 0 && outside === undefined) return asked ?? allowed
  const message =
    outside === undefined
      ? "The session's policy does not allow queries: it has no query.templateIds."
      : `The session's policy does not allow queries of ${outside}.`
  throw fail('policy_denied').about('templateIds', message, { rule: 'query' })
}

/** Active contracts that the session's wallet sees, newest first. @throws policy_denied, and what `requireActive` throws */
export async function queryContracts(
  deps: Deps,
  executor: Executor,
  id: string,
  input: QueryContracts,
): Promise<Contracts> {
  const row = await findLive(store.findLive, deps.db, deps, executor, id)
  requireActive(row, deps.now())
  requireActiveUser(row)
  const where = input.where ?? []
  const wrong = checkConditions(where, 'where')
  if (wrong.length > 0) throw fail('validation_failed', wrong)
  const templateIds = templatesOf(policyOf(row).queryTemplateIds, input.templateIds)
  const conditions = compileConditions(where)
  const ledger = ledgerOf(deps, row)
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
    throw invalid(error.field ?? '', error.message)
  }
}
