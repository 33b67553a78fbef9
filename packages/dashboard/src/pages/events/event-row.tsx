import type { WebhookEvent } from '@halfkey/sdk'
import { ChevronRight } from 'lucide-react'
import { useId, useState } from 'react'
import { JsonBlock } from '../../components/records/copy.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { EventDeliveries } from './event-deliveries.tsx'
import { EventRecords, subjectOf } from './event-records.tsx'

function Opened({ event }: { event: WebhookEvent }) {
  return (
    <div className="flex min-w-0 flex-col gap-3 px-5 pt-2 pb-5 md:pl-12">
      <EventRecords event={event} />
      <section aria-label="Deliveries of this event">
        <p className="text-sm text-soft">Deliveries</p>
        <EventDeliveries event={event} />
      </section>
      <JsonBlock label={`event ${event.id}`} value={event} />
      <p className="text-sm">
        <RecordLink id={event.id}>Page of this event</RecordLink>
      </p>
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
