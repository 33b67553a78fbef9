import { Link } from '@tanstack/react-router'
import type { ComponentProps, ReactNode } from 'react'
import { ShortId } from './short-id.tsx'

const PLACES: Record<string, string> = {
  usr: '/users',
  wal: '/wallets',
  tx: '/transactions',
  dse: '/delegated-sessions',
  wh: '/webhooks',
  sub: '/subscribers',
  evt: '/events',
  dom: '/custom-domains',
  app: '/settings/apps',
}
/** Records that open in a dialog over their list, by a query parameter. */
const DIALOGS: Record<string, string> = { gst: '/guests?guest=', key: '/api-keys?key=', ety: '/event-types?id=' }

/** The path of a record's page, by the prefix of its id; null for records without a page. */
export function pathOfRecord(id: string): string | null {
  const [prefix, rest] = id.split('_')
  if (!/^[0-9a-z]{26}$/.test(rest ?? '')) return null
  const dialog = DIALOGS[prefix ?? '']
  if (dialog !== undefined) return dialog + id
  const place = PLACES[prefix ?? '']
  return place === undefined ? null : `${place}/${id}`
}

/** A link to a record by its id; the id as text if the record has no page. */
export function RecordLink({
  id,
  className = '',
  children,
  ...rest
}: {
  id: string
  className?: string
  /** Shown instead of the id. */
  children?: ReactNode
} & Pick<ComponentProps<'a'>, 'dir' | 'title'>) {
  const path = pathOfRecord(id)
  const shown = children ?? <ShortId id={id} className="max-w-[min(16rem,100%)]" />
  if (path === null) return <span className={children === undefined ? 'text-soft' : undefined}>{shown}</span>
  return (
    <Link to={path} className={`text-accent hover:underline ${className}`} {...rest}>
      {shown}
    </Link>
  )
}
