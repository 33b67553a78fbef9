import type { WebhookEvent } from '../../../../../sdk/src/index.ts'
import { type CliContext, defineCommand, UsageError, wholeNumber } from '../command.ts'
import { followFeed } from '../event-feed.ts'
import { lastAnswer, orMissing, type Remote, remoteOptions, untilInterrupted, withRemote } from '../remote.ts'

function show({ json, out }: CliContext, event: WebhookEvent): void {
  if (json) out(JSON.stringify(event))
  else out(`${event.created_at}  ${event.type.padEnd(24)}  ${event.id}  ${JSON.stringify(event.data)}`)
}

/** `halfkey events tail` */
export const eventsTail = defineCommand({
  name: 'events tail',
  summary: 'Show the last events, and with -f new ones as they happen',
  details:
    'With --json, each event is a line of JSON, as it is delivered. Needs a key with the scope webhooks:read. A key that is bound to an app sees only the events of that app.',
  examples: [
    'halfkey events tail',
    'halfkey events tail -f --type user.*,tx.completed',
    "halfkey events tail --limit 100 --json | jq -r '.data.userId // empty'",
  ],
  options: (command) =>
    remoteOptions(command)
      .option('-f, --follow', 'keep showing new events, until Ctrl-C')
      .option('--type <types>', 'only these types, such as user.*,tx.completed')
      .option('--limit <count>', 'how many of the last events, 0 to 1000', wholeNumber('--limit', 0, 1_000), 20),
  async run({ follow = false, type, limit, ...options }, context) {
    const tail = (remote: Remote) =>
      untilInterrupted(async (signal) => {
        // A page holds fewer events when they are large, so read on until the limit or the present end of the feed.
        let left = limit
        for await (const page of followFeed(remote, context, { start: { last: limit }, type, signal })) {
          for (const event of page.events) show(context, event)
          left -= page.events.length
          if (!follow && (left <= 0 || !page.hasMore)) break
        }
      })
    await withRemote(options, tail)
    return { data: null, lines: [] }
  },
})

/** `halfkey events show` */
export const eventsShow = defineCommand({
  name: 'events show',
  summary: 'Show an event and where it was sent',
  details: 'Prints one line for each delivery, with its last attempt. Needs a key with the scope webhooks:read.',
  examples: ['halfkey events show --id evt_…'],
  options: (command) => remoteOptions(command).requiredOption('--id <id>', 'the event'),
  run: ({ id, ...options }) =>
    withRemote(options, async ({ client }) => {
      const missing = `This key sees no event ${id}. Events are kept for HALFKEY_RETENTION.`
      const event = await orMissing(client.events.get(id), missing)
      const { data: deliveries, total } = await client.events.deliveries(id, { pageSize: 100 })
      const lines = deliveries.map(
        (one) =>
          `${one.status.padEnd(11)}  ${one.id}  ${one.webhookId}  ${one.attempts.length} attempts, last: ${lastAnswer(one)}`,
      )
      const none = 'The event was not sent: no webhook was subscribed to its type.'
      const sent =
        lines.length === 0 ? [none] : [`Sent to ${total === 1 ? 'one webhook' : `${total} webhooks`}:`, ...lines]
      return {
        data: { event, deliveries },
        lines: [`${event.created_at}  ${event.type}  ${event.id}`, JSON.stringify(event.data), ...sent],
      }
    }),
})

/** The data of an event as typed. @throws UsageError */
function parseData(text: string): Record<string, unknown> {
  let data: unknown
  try {
    data = JSON.parse(text)
  } catch {
    data = null
  }
  if (typeof data === 'object' && data !== null && !Array.isArray(data)) return data as Record<string, unknown>
  throw new UsageError('--data must be a JSON object, for example \'{"invoiceId":"inv_1"}\'.')
}

/** `halfkey events publish` */
export const eventsPublish = defineCommand({
  name: 'events publish',
  summary: 'Publish an event of your own type',
  details: 'The type must exist: see POST /event-types. Needs a key with the scope events:publish.',
  examples: ['halfkey events publish --type acme.invoice.paid --data \'{"invoiceId":"inv_1"}\''],
  options: (command) =>
    remoteOptions(command)
      .requiredOption('--type <type>', 'the type, such as acme.invoice.paid')
      .requiredOption('--data <json>', 'the data, a JSON object')
      .option('--app <id>', "the app of the event; by default, the key's or the default app")
      .option('--idempotency-key <key>', 'publishes the event once in 24 hours'),
  run: ({ type, data, app: appId, idempotencyKey, ...options }) =>
    withRemote(options, async ({ client }) => {
      const event = await client.events.publish({ type, data: parseData(data), appId, idempotencyKey })
      return { data: event, lines: [`${event.created_at}  ${event.type}  ${event.id}`] }
    }),
})
