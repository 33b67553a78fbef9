import { useQuery } from '@tanstack/react-query'
import { allows, api } from '../../api.ts'
import { useSession } from '../../shell/session-context.ts'

const PAGE_SIZE = 100
const STALE_MS = 30_000
const NONE: KnownType[] = []

/** A type of events to pick: one of Halfkey's or one of the team's. */
export interface KnownType {
  type: string
  description: string
  /** Archived in every app: it has no new events. */
  archived: boolean
}

async function readHalfkeyTypes(): Promise<KnownType[]> {
  const { data } = await api.webhooks.eventTypes({ pageSize: PAGE_SIZE })
  return data.map(({ type, description }) => ({ type, description, archived: false }))
}

/** The team's types by name. Apps may have types of the same name. */
async function readOwnTypes(): Promise<KnownType[]> {
  const found = new Map<string, KnownType>()
  for (const status of ['active', 'archived'] as const)
    for await (const { name, description, deprecated } of api.eventTypes.list({ pageSize: PAGE_SIZE, status }))
      if (!found.has(name))
        found.set(name, {
          type: name,
          description: [...(deprecated ? ['Deprecated.'] : []), description ?? ''].join(' ').trim(),
          archived: status === 'archived',
        })
  return [...found.values()].sort((one, other) => (one.type < other.type ? -1 : 1))
}

/** All event types, the team's first; none until they are loaded. Without the scope to read them: only Halfkey's. */
export function useEventTypes(): KnownType[] {
  const { session } = useSession()
  const seesOwn = allows(session, 'event_types:read')
  const { data } = useQuery({
    queryKey: ['event-types', 'known', seesOwn],
    queryFn: async () => (await Promise.all([seesOwn ? readOwnTypes() : [], readHalfkeyTypes()])).flat(),
    staleTime: STALE_MS,
  })
  return data ?? NONE
}

/** The types as options of a filter, archived ones last: their events are kept. */
export function typeOptions(types: readonly KnownType[]): { value: string; label: string }[] {
  return [
    ...types.filter(({ archived }) => !archived).map(({ type }) => ({ value: type, label: type })),
    ...types.filter(({ archived }) => archived).map(({ type }) => ({ value: type, label: `${type} (archived)` })),
  ]
}
