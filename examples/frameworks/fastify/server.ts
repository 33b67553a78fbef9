// Receives webhooks in Fastify.
//   HALFKEY_WEBHOOK_SECRET=whsec_… node fastify/server.ts
import type { WebhookEvent } from '@halfkey/sdk'
import { webhookPlugin } from '@halfkey/sdk/fastify'
import fastify from 'fastify'

const port = Number(process.env.PORT ?? 3000)
// During a rotation, give both secrets, separated by a comma.
const secrets = (process.env.HALFKEY_WEBHOOK_SECRET ?? '').split(',')
// In production, use a table with a unique column. Write to it in the transaction that does the work.
const handled = new Set<string>()

function handle(event: WebhookEvent): void {
  // `type` decides the type of `data`. Ignore types that you do not know.
  if (event.type === 'user.created') console.log(`welcome ${event.data.email}`)
  handled.add(event.id)
  console.log(`handled: ${event.type} ${event.id}`)
}

const app = fastify()

await app.register(
  webhookPlugin(secrets, handle, {
    path: '/webhooks/halfkey',
    seen: (eventId) => handled.has(eventId),
    onRejected: (error) => console.log(`refused: ${error.reason}`),
  }),
)
// Your other routes come here. Their bodies are parsed as usual.

await app.listen({ port, host: '127.0.0.1' })
console.log(`Receiving on http://127.0.0.1:${port}/webhooks/halfkey`)
