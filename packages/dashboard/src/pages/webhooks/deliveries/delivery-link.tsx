import type { Delivery } from '@halfkey/sdk'
import { Link } from '@tanstack/react-router'
import { ShortId } from '../../../components/records/short-id.tsx'

/** A link to a delivery by its event type, with the event id. */
export function DeliveryLink({ delivery }: { delivery: Delivery }) {
  return (
    <div className="flex min-w-0 items-baseline gap-3">
      <Link
        to="/webhooks/$webhookId/deliveries/$deliveryId"
        params={{ webhookId: delivery.webhookId, deliveryId: delivery.id } as never}
        className="truncate font-medium text-accent hover:underline"
      >
        {delivery.eventType}
      </Link>
      <span className="flex min-w-0 text-soft max-md:hidden">
        <ShortId id={delivery.eventId} />
      </span>
    </div>
  )
}
