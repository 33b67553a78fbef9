import type { Deps } from '../../platform/deps.ts'
import type { Caller, CurrentUser } from '../../platform/http/route.ts'
import { requireApprovers } from '../approvals/approvers/require.ts'
import { fail } from '../errors.ts'
import { requireValidPolicy } from '../manage/create.ts'
import { normalized } from './normalize.ts'
import type { RehearsedPolicy, RehearsePolicy } from './rehearsal-schema.ts'
import { warningsOf } from './warnings.ts'
import { wordsOf } from './words.ts'

/** Who asks: a server, or somebody who is signed in. */
export interface Asker {
  caller: Caller
  user: CurrentUser | null
}

/** @throws session_missing for a publishable key alone */
export function requireAsker({ caller, user }: Asker): void {
  if (user === null && caller.keyType !== 'secret') throw fail('session_missing')
}

/** What a policy says, in full and in words, and what in it is hardly meant. @throws validation_failed, session_missing */
export async function rehearse(
  deps: Pick<Deps, 'now' | 'db'>,
  asker: Asker,
  { policy, expiresInSeconds }: RehearsePolicy,
): Promise<RehearsedPolicy> {
  requireAsker(asker)
  requireValidPolicy(policy)
  const appId = asker.user?.appId ?? asker.caller.appId
  await requireApprovers(deps, { tenantId: asker.caller.tenantId, appId }, policy)
  return {
    policy: normalized(policy),
    words: wordsOf(policy),
    warnings: warningsOf(policy, deps.now(), expiresInSeconds),
  }
}
