import type { WebhookEvent } from '@halfkey/sdk'
import { Link } from '@tanstack/react-router'
import { pathOfRecord, RecordLink } from '../../components/records/record-link.tsx'

const dataOf = (event: WebhookEvent) => event.data as Record<string, unknown>

/** The record of the event: the first id in its data. */
export function subjectOf(event: WebhookEvent): string {
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

/** Links to the records that an event is about; nothing if none has a page. */
export function EventRecords({ event }: { event: WebhookEvent }) {
  const records = recordsOf(event)
  const { webhookId, deliveryId } = dataOf(event)
  if (records.length === 0) return null
  return (
    <ul aria-label="Related records" className="flex flex-wrap gap-x-6 gap-y-1 text-sm">
      {records.map(([field, id]) => (
        <li key={field} className="min-w-0">
          <span className="text-soft">{nameOf(field)} </span>
          <RecordLink id={id} />
        </li>
      ))}
      {typeof webhookId === 'string' && typeof deliveryId === 'string' ? (
        <li>
          <Link to={`/webhooks/${webhookId}/deliveries/${deliveryId}`} className="text-accent hover:underline">
            View the delivery
          </Link>
        </li>
      ) : null}
    </ul>
  )
}
