import type { WebhookEvent } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ChevronRight } from 'lucide-react'
import { useId, useState } from 'react'
import { api } from '../../api.ts'
import { JsonBlock } from '../../components/records/copy.tsx'
import { pathOfRecord, RecordLink } from '../../components/records/record-link.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { covers } from '../webhooks/endpoint/events-picker.tsx'
import { shortUrl } from '../webhooks/webhook-name.ts'

const WEBHOOKS_MAX = 100

const dataOf = (event: WebhookEvent) => event.data as Record<string, unknown>

/** The record of the event: the first id in its data. */
function subjectOf(event: WebhookEvent): string {
  const [first] = Object.values(dataOf(event))
  return typeof first === 'string' ? first : event.id
}

/** The records of an event that have a page, by their property names. */
function recordsOf(event: WebhookEvent): [string, string][] {
  return Object.entries(dataOf(event)).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string' && pathOfRecord(entry[1]) !== null,
  )
}

/** `delegatedSessionId` is `Delegated session`. */
function nameOf(field: string): string {
  const words = field.replace(/Id$/, '').replaceAll(/([A-Z])/g, (letter) => ` ${letter.toLowerCase()}`)
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** The webhooks that receive such events, with links to their deliveries. */
function Deliveries({ event }: { event: WebhookEvent }) {
  const { data } = useQuery({
    queryKey: ['webhooks', 'all'],
    queryFn: async ({ signal }) => (await api.webhooks.list({ pageSize: WEBHOOKS_MAX }, { signal })).data,
    staleTime: 30_000,
  })
  const subscribed = data?.filter(({ events }) => covers(events, event.type)) ?? []
  const { webhookId, deliveryId } = dataOf(event)
  return (
    <>
      {typeof webhookId === 'string' && typeof deliveryId === 'string' ? (
        <li>
          <Link to={`/webhooks/${webhookId}/deliveries/${deliveryId}`} className="text-accent hover:underline">
            View the delivery
          </Link>
        </li>
      ) : null}
      {subscribed.map(({ id, url }) => (
        <li key={id} className="[overflow-wrap:anywhere]">
          <span className="text-soft">Deliveries to </span>
          <Link to={`/webhooks/${id}`} search={{ type: event.type } as never} className="text-accent hover:underline">
            {shortUrl(url)}
          </Link>
        </li>
      ))}
    </>
  )
}

function Opened({ event }: { event: WebhookEvent }) {
  return (
    <div className="flex min-w-0 flex-col gap-3 px-5 pt-2 pb-5 md:pl-12">
      <ul aria-label="Related records" className="flex flex-wrap gap-x-6 gap-y-1 text-sm">
        {recordsOf(event).map(([field, id]) => (
          <li key={field} className="min-w-0">
            <span className="text-soft">{nameOf(field)} </span>
            <RecordLink id={id} />
          </li>
        ))}
        <Deliveries event={event} />
      </ul>
      <JsonBlock label={`event ${event.id}`} value={event} />
    </div>
  )
}

/** An event as one line that expands to the whole event. */
export function EventRow({ event }: { event: WebhookEvent }) {
  const [open, setOpen] = useState(false)
  const id = useId()
  return (
    <li className="min-w-0">
      <button
        type="button"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        onClick={() => setOpen(!open)}
        className="flex min-h-11 w-full min-w-0 items-center gap-x-3 px-5 text-left text-sm outline-offset-[-2px] hover:bg-raised/60 max-md:min-h-16 max-md:flex-wrap max-md:content-center max-md:px-4"
      >
        <ChevronRight
          aria-hidden
          className={`size-4 flex-none text-soft transition-transform ${open ? 'rotate-90' : ''}`}
        />
        <span className="min-w-0 truncate font-medium max-md:flex-1 md:w-64 md:flex-none">{event.type}</span>
        <span className="min-w-0 flex-1 truncate font-mono text-xs text-soft max-md:order-last max-md:basis-full max-md:pl-7">
          {subjectOf(event)}
        </span>
        <span className="flex-none text-soft max-md:ml-auto">
          <RelativeTime at={event.created_at} />
        </span>
      </button>
      {open ? (
        <div id={id}>
          <Opened event={event} />
        </div>
      ) : null}
    </li>
  )
}
