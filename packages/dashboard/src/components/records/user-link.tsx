import type { User } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { allows, api } from '../../api.ts'
import { useSession } from '../../shell/session-context.ts'

const NAME_STALE_MS = 60_000

/** What a user is called: by name, address, the developer's id, and where there is none of them by ours. */
export function nameOfUser({
  name,
  email,
  externalId,
  id,
}: Pick<User, 'name' | 'email' | 'externalId' | 'id'>): string {
  return [name, email, externalId].find((each) => each !== null && each.trim() !== '') ?? id
}

/** A user by name, leading to them; by id where the session may not see users, and for guests, who have no name. */
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
    <Link
      to="/users/$userId"
      params={{ userId } as never}
      title={isNamed ? userId : undefined}
      dir="auto"
      className="inline-block max-w-64 truncate align-bottom text-accent hover:underline max-md:max-w-56"
    >
      {isNamed ? data : <code className="font-mono text-[0.8125rem]">{userId}</code>}
    </Link>
  )
}
