import type { App } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { allows, api } from '../../api.ts'
import { useSession } from '../../shell/session-context.ts'

const APPS_MAX = 100
const NONE: App[] = []

/** The tenant's apps, the first hundred; none if the session may not see them. */
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

/** The same as options of a select. */
export function useAppOptions(): { value: string; label: string }[] {
  return useApps().map(({ id, name }) => ({ value: id, label: name }))
}

/** The field that chooses an app, as a list to spread into the fields of a form; empty if there is only one app. */
export function useAppField() {
  const options = useAppOptions()
  return options.length < 2 ? [] : [{ name: 'appId', label: 'App', kind: 'select', options } as const]
}
