import type { ErrorDetail } from '../../../platform/http/errors.ts'
import { canonicalJson } from '../../../platform/security/canonical-json.ts'
import type { Approvers, Policy } from '../../policy/policy-schema.ts'

/** Users of whom so many have to approve. */
export interface Quorum {
  /** In the order of the alphabet, each once. */
  users: string[]
  threshold: number
}

/** Checks what the schema of a rule's approvers cannot express. `field`: the rule. */
export function checkApprovers(approvers: Approvers | undefined, field: string): ErrorDetail[] {
  if (approvers === undefined || approvers.threshold <= approvers.users.length) return []
  const message = `Must be at most ${approvers.users.length}, the number of "users".`
  return [{ field: `${field}.approvers.threshold`, code: 'too_large', message }]
}

/** Whom a rule asks; null for the owner. */
export const compileApprovers = (approvers: Approvers | undefined): Quorum | null =>
  approvers === undefined ? null : { users: approvers.users.toSorted(), threshold: approvers.threshold }

/** The owner alone, as a quorum. */
export const ownerAlone = (ownerId: string): Quorum => ({ users: [ownerId], threshold: 1 })

/** The quorum that stands for whom a rule asks. */
export const quorumOf = (approvers: Quorum | null, ownerId: string): Quorum => approvers ?? ownerAlone(ownerId)

/** Compares quorums, and keys maps with them. */
export const quorumKey = (quorum: Quorum | null): string => canonicalJson(quorum)

/** All quorums that some reasons need, each once; null if the owner alone is asked. */
export function quorumsOf(reasons: readonly { approvers: Quorum | null }[], ownerId: string): Quorum[] | null {
  const all = reasons.map(({ approvers }) => quorumOf(approvers, ownerId))
  const quorums = new Map(all.map((quorum) => [quorumKey(quorum), quorum]))
  const isOwnerAlone = quorums.size === 1 && quorums.has(quorumKey(ownerAlone(ownerId)))
  return isOwnerAlone ? null : [...quorums.values()]
}

/** Whether enough of a quorum's users are among those who have approved. */
export const isMet = ({ users, threshold }: Quorum, approved: ReadonlySet<string>): boolean =>
  users.filter((id) => approved.has(id)).length >= threshold

/** All users of quorums, each once, in the order of the alphabet. */
export const usersIn = (quorums: readonly Quorum[]): string[] =>
  [...new Set(quorums.flatMap(({ users }) => users))].toSorted()

/** Who is asked, in words: `2 of 3 named users`. */
export function quorumWords(approvers: Quorum | null): string {
  if (approvers === null) return 'the owner'
  const { users, threshold } = approvers
  if (users.length === 1) return 'the named user'
  return threshold === users.length ? `all ${threshold} named users` : `${threshold} of ${users.length} named users`
}

/** Whom a policy names as approvers, and in which fields. */
export function namedIn(
  { requireApproval = [], conditions = [] }: Policy,
  field: string,
): { id: string; field: string }[] {
  const lists = { requireApproval, conditions }
  return Object.entries(lists).flatMap(([list, entries]) =>
    entries.flatMap(({ approvers }, at) =>
      (approvers?.users ?? []).map((id, index) => ({ id, field: `${field}.${list}.${at}.approvers.users.${index}` })),
    ),
  )
}
