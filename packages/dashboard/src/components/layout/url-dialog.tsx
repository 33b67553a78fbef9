import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { LIVE } from '../../query-client.ts'
import { useFilters } from '../table/filters.tsx'
import { Dialog } from './dialog.tsx'
import { Loaded } from './loaded.tsx'

/** A dialog over a list, with the record whose id is in the URL parameter `name`. */
export function UrlDialog<T>({
  name,
  title,
  resource,
  read,
  children,
}: {
  name: string
  title: string
  /** The first part of the query key: see the list's. */
  resource: string
  read: (id: string, options: { signal: AbortSignal }) => Promise<T>
  children: (record: T) => ReactNode
}) {
  const { values, set } = useFilters()
  const { [name]: id, page } = values
  const query = useQuery({
    queryKey: [resource, 'one', id],
    queryFn: ({ signal }) => read(id ?? '', { signal }),
    enabled: id !== undefined,
    ...LIVE,
  })
  return (
    <Dialog
      open={id !== undefined}
      onOpenChange={(open) => (open ? undefined : set({ [name]: undefined, page }))}
      title={title}
      wide
    >
      <Loaded query={query}>{children}</Loaded>
    </Dialog>
  )
}
