import { useQuery } from '@tanstack/react-query'
import { allows, api } from '../../api.ts'
import { useSession } from '../../shell/session-context.ts'
import { RecordLink } from './record-link.tsx'
import { useApps } from './use-apps.ts'
import { UserLink } from './user-link.tsx'

const STALE_MS = 60_000
const LISTED_MAX = 100

/** Actors of the audit log that are not records. */
const ACTORS: Record<string, string> = {
  system: 'Halfkey',
  cli: 'Command line',
  dashboard: 'Dashboard operator',
  'first start': 'First start',
}

const withoutScheme = (url: string) => url.replace(/^https?:\/\//, '')
const page = { pageSize: LISTED_MAX }

interface Names {
  scope: string
  list: () => Promise<[id: string, name: string][]>
}

/** Where the names of records come from, by the prefix of their ids: one list for all of a kind. */
const LISTS: Record<string, Names> = {
  key: {
    scope: 'api_keys:read',
    list: async () => (await api.apiKeys.list(page)).data.map(({ id, name }) => [id, name]),
  },
  mem: {
    scope: 'members:read',
    list: async () => (await api.members.list(page)).data.map(({ id, name }) => [id, name]),
  },
  wh: {
    scope: 'webhooks:read',
    list: async () => (await api.webhooks.list(page)).data.map(({ id, url }) => [id, withoutScheme(url)]),
  },
  ety: {
    scope: 'event_types:read',
    list: async () => (await api.eventTypes.list(page)).data.map(({ id, name }) => [id, name]),
  },
  dom: {
    scope: 'custom_domains:read',
    list: async () => (await api.customDomains.list(page)).data.map(({ id, domain }) => [id, domain]),
  },
  dse: {
    scope: 'delegated_sessions:read',
    list: async () => (await api.delegatedSessions.list(page)).data.map(({ id, name }) => [id, name ?? id]),
  },
}

function useName(id: string): string | undefined {
  const { session } = useSession()
  const prefix = id.split('_', 1)[0] ?? ''
  const names = LISTS[prefix]
  const app = useApps().find((each) => each.id === id)?.name
  const { data } = useQuery({
    queryKey: ['names', prefix],
    queryFn: async () => new Map(await names?.list()),
    enabled: names !== undefined && allows(session, names.scope),
    staleTime: STALE_MS,
    retry: false,
  })
  if (id === session.tenant.id) return session.tenant.name
  return app ?? ACTORS[id] ?? data?.get(id)
}

/** A record by its name, with a link to its page; by its id if the session does not know its name. */
export function RecordName({ id }: { id: string }) {
  const name = useName(id)
  if (id.startsWith('usr_')) return <UserLink userId={id} />
  if (name === undefined || name === id) return <RecordLink id={id} />
  return (
    <RecordLink id={id} title={id} className="block truncate">
      <bdi title={id}>{name}</bdi>
    </RecordLink>
  )
}
