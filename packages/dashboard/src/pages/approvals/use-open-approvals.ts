import { useQuery } from '@tanstack/react-query'
import { allows, api } from '../../api.ts'
import { useSession } from '../../shell/session-context.ts'

const EVERY_MS = 30_000

/** How many requests wait for the owner of some wallet; undefined if the session may not know. */
export function useOpenApprovals(): number | undefined {
  const { session } = useSession()
  const { data } = useQuery({
    queryKey: ['approvals', 'open'],
    queryFn: async ({ signal }) => (await api.approvals.list({ status: 'pending', pageSize: 1 }, { signal })).total,
    enabled: allows(session, 'delegated_sessions:read'),
    refetchInterval: EVERY_MS,
    refetchIntervalInBackground: false,
    retry: false,
  })
  return data
}
