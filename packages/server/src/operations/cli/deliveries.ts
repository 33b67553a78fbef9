import { setTimeout as delay } from 'node:timers/promises'
import { type CliContext, type Command, CommandError, EXIT, type Result, readOptions, UsageError } from './command.ts'
import { createProgress } from './progress.ts'
import {
  openRemote,
  patiently,
  REMOTE_DETAILS,
  REMOTE_OPTIONS,
  REMOTE_USAGE,
  type Remote,
  RemoteError,
  untilInterrupted,
} from './remote.ts'

const SHOWN_MAX = 20
const LOOK_MS = 300
/** A send ends within 30 s, and may wait for its turn. */
const SENT_MS = 45_000

interface Webhook {
  id: string
  url: string
  status: string
}

interface Attempt {
  number: number
  statusCode: number | null
  error: string | null
}

interface Delivery {
  id: string
  eventId: string
  eventType: string
  status: string
  nextAttemptAt: string | null
  attempts: Attempt[]
  createdAt: string
}

interface Job {
  id: string
  status: string
  progress: number
  total: number
  error: string | null
}

/** The webhook that is meant: the one named, or the only one. @throws UsageError naming those there are */
async function findWebhook(remote: Remote, wanted: string | undefined): Promise<Webhook> {
  if (wanted !== undefined) {
    return remote.get(`/webhooks/${encodeURIComponent(wanted)}`).catch((error: unknown) => {
      if (error instanceof RemoteError && error.status === 404)
        throw new CommandError(
          `There is no webhook ${wanted} that this key sees. Without --webhook those there are are listed.`,
        )
      throw error
    })
  }
  const webhooks: Webhook[] = await remote.get('/webhooks', { query: { page_size: SHOWN_MAX } })
  const [first, second] = webhooks
  if (first === undefined) throw new CommandError('There is no webhook yet.')
  if (second === undefined) return first
  const shown = webhooks.map(({ id, status, url }) => `\n  ${id}  ${status}  ${url}`).join('')
  throw new UsageError(`There are several webhooks: name one with --webhook.${shown}`)
}

function lastAnswer({ attempts }: Delivery): string {
  const last = attempts.at(-1)
  if (last === undefined) return '-'
  return last.statusCode === null ? (last.error ?? '-') : String(last.statusCode)
}

const LIST_OPTIONS = {
  ...REMOTE_OPTIONS,
  webhook: { type: 'string' },
  status: { type: 'string' },
  limit: { type: 'string' },
} as const

/** `halfkey deliveries list` */
export const deliveriesList: Command = {
  name: 'deliveries list',
  summary: "List a webhook's deliveries, newest first",
  usage: `[--webhook wh_…] [--status dead_letter] [--limit 20] ${REMOTE_USAGE}`,
  details: [
    'Without --webhook it is for the only one there is. --limit is 1 to 100.',
    'Statuses: pending, delivering, retrying, succeeded, dead_letter, cancelled, failed.',
    ...REMOTE_DETAILS,
    '',
    '  halfkey deliveries list --status dead_letter',
  ],
  async run(args, context) {
    const options = readOptions(deliveriesList, args, LIST_OPTIONS)
    const { status, limit = String(SHOWN_MAX) } = options
    if (!/^([1-9]\d?|100)$/.test(limit)) throw new UsageError('--limit must be a whole number from 1 to 100.')
    const remote = openRemote(options)
    const webhook = await findWebhook(remote, options.webhook)
    const query = { status, page_size: limit }
    const deliveries: Delivery[] = await remote.get(`/webhooks/${webhook.id}/deliveries`, { query })
    context.err(`${webhook.id}  ${webhook.status}  ${webhook.url}`)
    const lines = deliveries.map(
      (one) =>
        `${one.createdAt}  ${one.status.padEnd(11)}  ${one.id}  ${one.eventType}  ${one.attempts.length} attempts, last: ${lastAnswer(one)}`,
    )
    const none = status === undefined ? 'No deliveries.' : `No deliveries in the state ${status}.`
    return { data: { webhookId: webhook.id, deliveries }, lines: lines.length === 0 ? [none] : lines }
  },
}

const RETRY_OPTIONS = {
  ...REMOTE_OPTIONS,
  webhook: { type: 'string' },
  delivery: { type: 'string' },
  'all-dead-letters': { type: 'boolean' },
  since: { type: 'string' },
  job: { type: 'string' },
} as const

/** Said where what is made due stays where it is. */
function checkSends({ id, status }: Webhook, remote: Remote, context: CliContext): boolean {
  const resume = `curl -X PATCH ${remote.url}/v1/webhooks/${id} -H "x-api-key: $HALFKEY_KEY" -H 'content-type: application/json' -d '{"status":"active"}'`
  if (status === 'disabled')
    throw new CommandError(
      `The webhook ${id} is disabled, so nothing is sent to it. Mend the receiver, then: ${resume}`,
    )
  if (status === 'paused') context.err(`The webhook ${id} is paused: it is sent once that ends. To end it: ${resume}`)
  return status === 'active'
}

async function retryOne(remote: Remote, context: CliContext, webhook: Webhook, id: string): Promise<Result> {
  const path = `/webhooks/${webhook.id}/deliveries/${encodeURIComponent(id)}`
  const sends = checkSends(webhook, remote, context)
  const before: Delivery = await remote.get(path).catch((error: unknown) => {
    if (error instanceof RemoteError && error.status === 404)
      throw new CommandError(
        `The webhook ${webhook.id} has no delivery ${id}. Its deliveries: halfkey deliveries list --webhook ${webhook.id}`,
      )
    throw error
  })
  let delivery: Delivery = await remote.post(`${path}/retry`)
  const endsAt = performance.now() + SENT_MS
  while (sends && delivery.attempts.length <= before.attempts.length && performance.now() < endsAt) {
    await delay(LOOK_MS)
    delivery = await remote.get(path)
  }
  const tried = delivery.attempts.length > before.attempts.length
  const failed = tried && delivery.status !== 'succeeded'
  const next = delivery.nextAttemptAt === null ? '' : ` Next attempt: ${delivery.nextAttemptAt}.`
  const line = tried
    ? `Delivery ${id} of ${delivery.eventType} (${delivery.eventId}): ${lastAnswer(delivery)}, ${delivery.status}.${failed ? next : ''}`
    : `Delivery ${id} of ${delivery.eventType} (${delivery.eventId}) waits to be sent.`
  return { data: { delivery }, lines: [line], ...(failed ? { exitCode: EXIT.failed } : {}) }
}

/** Shows how far a job is until it has ended, or this is interrupted: the job goes on by itself. */
async function watch(remote: Remote, context: CliContext, job: Job): Promise<Result> {
  const again = `halfkey deliveries retry --job ${job.id}`
  context.err(`The job ${job.id} goes on whatever becomes of this command. To look again: ${again}`)
  const { signal, done } = untilInterrupted()
  const progress = createProgress(context)
  progress.begin('Dead letters', job.total)
  let [seen, shown] = [job, 0]
  try {
    for (;;) {
      progress.add(seen.progress - shown)
      shown = seen.progress
      if (seen.status === 'succeeded' || seen.status === 'failed') break
      await delay(LOOK_MS, undefined, { signal })
      seen = await patiently(context, signal, () => remote.get(`/jobs/${seen.id}`, { signal }))
    }
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    progress.end()
    done()
  }
  if (signal.aborted)
    return {
      data: { job: seen },
      lines: [`The job ${job.id} goes on: ${seen.progress} of ${seen.total}. To look again: ${again}`],
    }
  if (seen.status === 'failed') throw new CommandError(`The job ${job.id} failed: ${seen.error}`)
  return { data: { job: seen }, lines: [`${seen.progress} dead letters are being sent again (job ${job.id}).`] }
}

async function findJob(remote: Remote, id: string): Promise<Job> {
  return remote.get(`/jobs/${encodeURIComponent(id)}`).catch((error: unknown) => {
    if (error instanceof RemoteError && error.status === 404)
      throw new CommandError(`There is no job ${id}: jobs can be read for 30 days after their end.`)
    throw error
  })
}

/** `halfkey deliveries retry` */
export const deliveriesRetry: Command = {
  name: 'deliveries retry',
  summary: 'Send a delivery again, or all dead letters of a webhook',
  usage: `[--webhook wh_…] (--delivery dlv_… | --all-dead-letters | --since TIME | --job job_…) ${REMOTE_USAGE}`,
  details: [
    'The event keeps its id. One delivery: waits until it was sent, and fails if it was refused. Many: the dead letters since a',
    'time, or all, as a job of the service; it survives this command, and --job shows it again.',
    'Without --webhook it is for the only one there is. Needs a key with the scope webhooks:write.',
    ...REMOTE_DETAILS,
    '',
    '  halfkey deliveries retry --all-dead-letters',
    '  halfkey deliveries retry --since 2026-11-01T00:00:00Z',
  ],
  async run(args, context) {
    const options = readOptions(deliveriesRetry, args, RETRY_OPTIONS)
    const { delivery, since, job } = options
    const ways = [delivery, since, job, options['all-dead-letters']].filter((way) => way !== undefined)
    if (ways.length !== 1)
      throw new UsageError(
        'Say what to send again: one of --delivery dlv_…, --all-dead-letters, --since TIME, --job job_….',
      )
    const remote = openRemote(options)
    if (job !== undefined) return watch(remote, context, await findJob(remote, job))
    const sinceMs = Date.parse(since ?? '1970-01-01T00:00:00Z')
    if (Number.isNaN(sinceMs)) throw new UsageError('--since must be a time such as 2026-11-01T00:00:00Z.')
    const webhook = await findWebhook(remote, options.webhook)
    if (delivery !== undefined) return retryOne(remote, context, webhook, delivery)
    checkSends(webhook, remote, context)
    const body = { since: new Date(sinceMs).toISOString() }
    return watch(remote, context, await remote.post(`/webhooks/${webhook.id}/recover`, { body }))
  },
}
