import { setTimeout as delay } from 'node:timers/promises'
import type { Delivery, Job, Webhook } from '../../../../../sdk/src/index.ts'
import { type CliContext, CommandError, defineCommand, EXIT, type Result, UsageError, wholeNumber } from '../command.ts'
import {
  lastAnswer,
  orMissing,
  type Remote,
  remoteOptions,
  retryTransient,
  untilInterrupted,
  withRemote,
} from '../remote.ts'

const SHOWN_MAX = 20
const LOOK_MS = 300
/** A send ends within 30 s, and may wait for its turn. */
const SENT_MS = 45_000

/** The webhook that is meant: the one named, or the only one. @throws UsageError naming those there are */
async function findWebhook({ client }: Remote, wanted: string | undefined): Promise<Webhook> {
  if (wanted !== undefined)
    return orMissing(
      client.webhooks.get(wanted),
      `This key sees no webhook ${wanted}. Run this without --webhook to list the webhooks that it sees.`,
    )
  const { data: webhooks } = await client.webhooks.list({ pageSize: SHOWN_MAX })
  const [first, second] = webhooks
  if (first === undefined) throw new CommandError('There is no webhook yet.')
  if (second === undefined) return first
  const shown = webhooks.map(({ id, status, url }) => `\n  ${id}  ${status}  ${url}`).join('')
  throw new UsageError(`There are several webhooks. Name one with --webhook.${shown}`)
}

/** `halfkey deliveries list` */
export const deliveriesList = defineCommand({
  name: 'deliveries list',
  summary: "List a webhook's deliveries, newest first",
  examples: ['halfkey deliveries list --status dead_letter'],
  options: (command) =>
    remoteOptions(command)
      .option('--webhook <id>', 'the webhook (default: the only one)')
      .option(
        '--status <status>',
        'pending, delivering, retrying, succeeded, dead_letter, cancelled or failed (default: all)',
      )
      .option('--limit <count>', 'how many, 1 to 100', wholeNumber('--limit', 1, 100), SHOWN_MAX),
  run: ({ status, limit, ...options }, context) =>
    withRemote(options, async (remote) => {
      const webhook = await findWebhook(remote, options.webhook)
      // The service knows which states there are.
      const query = { status: status as Delivery['status'] | undefined, pageSize: limit }
      const { data: deliveries } = await remote.client.webhooks.deliveries.list(webhook.id, query)
      context.err(`${webhook.id}  ${webhook.status}  ${webhook.url}`)
      const lines = deliveries.map(
        (one) =>
          `${one.createdAt}  ${one.status.padEnd(11)}  ${one.id}  ${one.eventType}  ${one.attempts.length} attempts, last: ${lastAnswer(one)}`,
      )
      const none = status === undefined ? 'No deliveries.' : `No deliveries with the status ${status}.`
      return { data: { webhookId: webhook.id, deliveries }, lines: lines.length === 0 ? [none] : lines }
    }),
})

/** Whether deliveries that become due are sent now; says so where they are not. @throws CommandError where the webhook is disabled */
function checkSends({ id, status }: Webhook, remote: Remote, context: CliContext): boolean {
  const resume = `curl -X PATCH ${remote.url}/v1/webhooks/${id} -H "x-api-key: $HALFKEY_KEY" -H 'content-type: application/json' -d '{"status":"active"}'`
  if (status === 'disabled')
    throw new CommandError(`The webhook ${id} is disabled, so nothing is sent to it. Fix the receiver, then: ${resume}`)
  if (status === 'paused')
    context.err(`The webhook ${id} is paused, so the delivery waits. To resume the webhook: ${resume}`)
  return status === 'active'
}

async function retryOne(remote: Remote, context: CliContext, webhook: Webhook, id: string): Promise<Result> {
  const { deliveries } = remote.client.webhooks
  const sends = checkSends(webhook, remote, context)
  const before = await orMissing(
    deliveries.get(webhook.id, id),
    `The webhook ${webhook.id} has no delivery ${id}. Its deliveries: halfkey deliveries list --webhook ${webhook.id}`,
  )
  let delivery = await deliveries.retry(webhook.id, id)
  const endsAt = performance.now() + SENT_MS
  while (sends && delivery.attempts.length <= before.attempts.length && performance.now() < endsAt) {
    await delay(LOOK_MS)
    delivery = await deliveries.get(webhook.id, id)
  }
  const tried = delivery.attempts.length > before.attempts.length
  const failed = tried && delivery.status !== 'succeeded'
  const next = delivery.nextAttemptAt === null ? '' : ` Next attempt: ${delivery.nextAttemptAt}.`
  const line = tried
    ? `Delivery ${id} of ${delivery.eventType} (${delivery.eventId}): ${lastAnswer(delivery)}, ${delivery.status}.${failed ? next : ''}`
    : `Delivery ${id} of ${delivery.eventType} (${delivery.eventId}) waits to be sent.`
  return { data: { delivery }, lines: [line], ...(failed ? { exitCode: EXIT.failed } : {}) }
}

/** Shows how far a job is until it has ended, or this is interrupted: the job continues without it. */
async function watch(remote: Remote, context: CliContext, job: Job): Promise<Result> {
  const again = `halfkey deliveries retry --job ${job.id}`
  context.err(`The job ${job.id} continues even if this command ends. To check it again: ${again}`)
  const { progress } = context
  progress.begin('Dead letters', job.total)
  progress.add(job.progress)
  let seen = job
  const interrupted = await untilInterrupted(async (signal) => {
    while (seen.status !== 'succeeded' && seen.status !== 'failed') {
      await delay(LOOK_MS, undefined, { signal })
      const now = await retryTransient(remote, context, signal, () => remote.client.jobs.get(job.id, { signal }))
      progress.add(now.progress - seen.progress)
      seen = now
    }
  })
  if (seen.status === 'failed') throw new CommandError(`The job ${job.id} failed: ${seen.error}`)
  const { progress: done, total, failures } = seen
  const line = interrupted
    ? `The job ${job.id} continues: ${done} of ${total}. To check it again: ${again}`
    : `${done - failures.length} dead letters are being sent again (job ${job.id}).`
  const refused = failures.map(({ id, message }) => `${id} was not sent again: ${message}`)
  return { data: { job: seen }, lines: [line, ...refused] }
}

/** `halfkey deliveries retry` */
export const deliveriesRetry = defineCommand({
  name: 'deliveries retry',
  summary: 'Send a delivery again, or all dead letters of a webhook',
  details: `The event keeps its id. For one delivery, the command waits until it was sent, and fails if the receiver refused it. For many, a job of the service sends them: it continues even if this command ends, and --job shows its progress.
Needs a key with the scope webhooks:write.`,
  examples: [
    'halfkey deliveries retry --all-dead-letters',
    'halfkey deliveries retry --since 2026-11-01T00:00:00Z --type acme.invoice.paid',
  ],
  options: (command) =>
    remoteOptions(command)
      .option('--webhook <id>', 'the webhook (default: the only one)')
      .option('--delivery <id>', 'send this delivery again')
      .option('--all-dead-letters', 'send all dead letters again')
      .option('--since <time>', 'send the dead letters since then again')
      .option('--type <type>', 'with --all-dead-letters or --since: only events of this type')
      .option('--job <id>', 'show the progress of an earlier retry'),
  async run({ delivery, allDeadLetters, since, type, job, ...options }, context) {
    const ways = [delivery, allDeadLetters, since, job].filter((way) => way !== undefined)
    if (ways.length !== 1)
      throw new UsageError(
        'Say what to send again: exactly one of --delivery dlv_…, --all-dead-letters, --since TIME, --job job_….',
      )
    if (type !== undefined && (delivery ?? job) !== undefined)
      throw new UsageError('--type needs --all-dead-letters or --since.')
    const sinceMs = Date.parse(since ?? '1970-01-01T00:00:00Z')
    if (Number.isNaN(sinceMs)) throw new UsageError('--since must be a time such as 2026-11-01T00:00:00Z.')
    return withRemote(options, async (remote) => {
      const { client } = remote
      if (job !== undefined) {
        const missing = `There is no job ${job}. Jobs are kept for 30 days after they end.`
        return watch(remote, context, await orMissing(client.jobs.get(job), missing))
      }
      const webhook = await findWebhook(remote, options.webhook)
      if (delivery !== undefined) return retryOne(remote, context, webhook, delivery)
      checkSends(webhook, remote, context)
      const since = new Date(sinceMs).toISOString()
      const { recover, deliveries } = client.webhooks
      const started =
        type === undefined
          ? await recover(webhook.id, { since })
          : await deliveries.bulk(webhook.id, { action: 'retry', filter: { since, eventType: type } })
      return watch(remote, context, started)
    })
  },
})
