import type { App } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { allows, api } from '../../api.ts'
import { useSession } from '../../shell/session-context.ts'

const APPS_MAX = 100
const NONE: App[] = []

/** The tenant's apps, the first hundred; none where the session may not see them. */
export function useApps(): App[] {
  const { session } = useSession()
  const { data } = useQuery({
    queryKey: ['apps', 'all'],
    queryFn: async () => (await api.apps.list({ pageSize: APPS_MAX })).data,
    enabled: allows(session, 'apps:read'),
    staleTime: 30_000,
  })
  return data ?? NONE
}

/** The same for a filter. */
export function useAppOptions(): { value: string; label: string }[] {
  return useApps().map(({ id, name }) => ({ value: id, label: name }))
}
