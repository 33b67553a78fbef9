import { activeUsers } from '../../../identity/users/service.ts'
import type { AppScope } from '../../../platform/db/page.ts'
import type { Deps } from '../../../platform/deps.ts'
import { fail } from '../../errors.ts'
import type { Policy } from '../../policy/policy-schema.ts'
import { namedIn } from './quorum.ts'

/**
 * Whom a policy names as approvers, each once, in order; null for nobody. All must be active users, no guests, of one app: that of
 * the scope, where it has one. @throws validation_failed, naming each other one
 */
export async function requireApprovers(
  { db }: Pick<Deps, 'db'>,
  scope: AppScope,
  policy: Policy,
): Promise<string[] | null> {
  const named = namedIn(policy, 'policy')
  const ids = [...new Set(named.map(({ id }) => id))].toSorted()
  const apps = await activeUsers(db, scope, ids)
  const appId = scope.appId ?? ids.map((id) => apps.get(id)).find((app) => app !== undefined)
  const wrong = named.filter(({ id }) => appId === undefined || apps.get(id) !== appId)
  const message = "Must be an active user of the wallet's app, and no guest."
  if (wrong.length > 0)
    throw fail(
      'validation_failed',
      wrong.map(({ field }) => ({ field, code: 'not_found', message })),
    )
  return ids.length === 0 ? null : ids
}
