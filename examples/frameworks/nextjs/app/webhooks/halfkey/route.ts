import type { WebhookEvent } from '@halfkey/sdk'
import { webhookHandler } from '@halfkey/sdk/fetch'

// In production, use a table with a unique column. Write to it in the transaction that does the work.
const handled = new Set<string>()

function handle(event: WebhookEvent): void {
  // `type` decides the type of `data`. Ignore types that you do not know.
  if (event.type === 'user.created') console.log(`welcome ${event.data.email}`)
  handled.add(event.id)
  console.log(`handled: ${event.type} ${event.id}`)
}

export async function POST(request: Request): Promise<Response> {
  // Created at each request: `next build` loads this file too, where the secret is not set.
  // During a rotation, give both secrets, separated by a comma.
  const receive = webhookHandler((process.env.HALFKEY_WEBHOOK_SECRET ?? '').split(','), handle, {
    seen: (eventId) => handled.has(eventId),
    onRejected: (error) => console.log(`refused: ${error.reason}`),
  })
  return receive(request)
}
