import type { Db } from '../../platform/db/db.ts'
import { type Publisher, publish } from '../../platform/events/events.ts'
import type { Id } from '../../platform/ids.ts'

/** A delivery that used up its chances. */
export interface DeadLetter {
  tenant_id: string
  webhook_id: string
  id: string
  event_id: string
  event_type: string
  /** The app its webhook is bound to; null for none. */
  app_id: string | null
}

/** A dead letter is an event of its own, but for events about webhooks: those would breed without end. */
export async function announceDeadLetters(tx: Db, publisher: Publisher, letters: readonly DeadLetter[]): Promise<void> {
  for (const letter of letters) {
    if (letter.event_type.startsWith('webhook.')) continue
    await publish(tx, publisher, {
      tenantId: letter.tenant_id as Id<'ten'>,
      appId: letter.app_id as Id<'app'> | null,
      type: 'webhook.delivery_dead_lettered',
      data: {
        webhookId: letter.webhook_id,
        deliveryId: letter.id,
        eventId: letter.event_id,
        eventType: letter.event_type,
      },
    })
  }
}
