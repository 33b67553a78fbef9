import type { User } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { allows, api } from '../../api.ts'
import { useSession } from '../../shell/session-context.ts'
import { RecordLink } from './record-link.tsx'
import { ShortId } from './short-id.tsx'

const NAME_STALE_MS = 60_000

/** The display name of a user: name, email, external id, or else the user id. */
export function nameOfUser({
  name,
  email,
  externalId,
  id,
}: Pick<User, 'name' | 'email' | 'externalId' | 'id'>): string {
  return [name, email, externalId].find((each) => each !== null && each.trim() !== '') ?? id
}

/** A link to a user by name; by id for guests and if the session may not see users. */
export function UserLink({ userId }: { userId: string }) {
  const { session } = useSession()
  const { data } = useQuery({
    queryKey: ['user-names', userId],
    queryFn: async ({ signal }) => nameOfUser(await api.users.get(userId, { signal })),
    enabled: allows(session, 'users:read'),
    staleTime: NAME_STALE_MS,
    retry: false,
  })
  const isNamed = data !== undefined && data !== userId
  return (
    <RecordLink
      id={userId}
      title={isNamed ? userId : undefined}
      dir="auto"
      className="inline-block max-w-full truncate align-bottom"
    >
      {isNamed ? data : <ShortId id={userId} className="max-w-[min(16rem,100%)]" />}
    </RecordLink>
  )
}
