import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { request as requestSecurely } from 'node:https'
import { finished } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import type { WebhookEvent } from '../../../../../sdk/src/index.ts'
import { CLIENT_VARIABLES, readClientVariables } from '../../../config.ts'
import { newWebhookSecret } from '../../../platform/security/crypto.ts'
import { type SigningKey, signatureHeaders, signingKey } from '../../../platform/security/webhook-signature.ts'
import { type CliContext, defineCommand, UsageError } from '../command.ts'
import { type FeedStart, followFeed, readStart } from '../event-feed.ts'
import { type Remote, remoteOptions, untilInterrupted, withRemote } from '../remote.ts'

/** As a delivery: the specification's section 6. */
const RECEIVER_MS = 30_000
const BACK_OFF_FIRST_MS = 250
const BACK_OFF_MAX_MS = 5_000

/** The parameters of one run. */
interface Run {
  context: CliContext
  target: URL
  key: SigningKey
  signal: AbortSignal
}

/** How far a run is: `done` counts the events handled after `start`. */
interface Place {
  start: FeedStart
  done: number
  /** Events handled in the whole run. */
  forwarded: number
}

function readTarget(text: string): URL {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new UsageError('--forward-to must be an http(s) URL such as http://localhost:3000/hook.')
  return url
}

function readSecret(): { secret: string; given: boolean } {
  const given = readClientVariables().webhookSecret
  if (given === null) return { secret: newWebhookSecret(), given: false }
  if (!/^whsec_[A-Za-z0-9+/]{16,}={0,2}$/.test(given))
    throw new UsageError(
      `${CLIENT_VARIABLES.webhookSecret} must be whsec_ and base64. Unset it once: halfkey listen then creates a secret and prints it.`,
    )
  return { secret: given, given: true }
}

/** Writes a line: JSON for programs; for people `line`, unless it is empty. */
function tell({ json, out }: CliContext, kind: string, line: string, data: Record<string, unknown>): void {
  if (json) out(JSON.stringify({ kind, ...data }))
  else if (line !== '') out(line)
}

/**
 * Sends once, signed with the present time. The status line is the answer, as for a delivery, whatever becomes of the body.
 * @returns the status; null where no answer came in time
 * @throws the connection's first error: the receiver is away
 */
async function post({ target, key, signal }: Run, event: WebhookEvent): Promise<number | null> {
  const body = JSON.stringify(event)
  const signed = signatureHeaders(event.id, body, key, null, Math.floor(Date.now() / 1_000))
  const headers = { ...signed, 'user-agent': 'Halfkey-Webhooks/1', 'accept-encoding': 'identity' }
  const timeout = AbortSignal.timeout(RECEIVER_MS)
  const send = target.protocol === 'https:' ? requestSecurely : request
  // A new connection: one kept from an earlier event may belong to a receiver that is gone. Redirects are not followed.
  const sent = send(target, { method: 'POST', headers, agent: false, signal: AbortSignal.any([signal, timeout]) })
  try {
    sent.end(body)
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    // The connection may still fail, which is nobody's error any more.
    sent.on('error', () => {})
    await finished(response.resume()).catch(() => {})
    return response.statusCode ?? null
  } catch (error) {
    if (timeout.aborted) return null
    signal.throwIfAborted()
    // Several addresses tried: the first one's error says more than that of them all.
    throw error instanceof AggregateError ? error.errors[0] : error
  }
}

/** Sends an event, and retries while the receiver is away. A refused event is reported and not sent again. */
async function forward(run: Run, event: WebhookEvent): Promise<void> {
  const { context, target, signal } = run
  const { id, type } = event
  for (let failures = 0; ; failures += 1) {
    const startedAt = performance.now()
    try {
      const status = await post(run, event)
      const ms = Math.round(performance.now() - startedAt)
      const error = status === null ? `no response within ${RECEIVER_MS / 1_000} s` : null
      const refused = status === null || status < 200 || status > 299 ? '  refused' : ''
      const time = new Date().toISOString().slice(11, 19)
      const line = `${time}  ${type.padEnd(24)}  ${id}  ${error ?? status}  ${ms} ms${refused}`
      return tell(context, 'forwarded', line, { id, type, status, ms, error })
    } catch (away) {
      signal.throwIfAborted()
      const error = (away as Error).message
      const line = `The receiver is not reachable (${error}). Retrying ${target.origin}.`
      if (failures === 0) tell(context, 'waiting', line, { id, type, error })
    }
    await delay(Math.min(BACK_OFF_MAX_MS, BACK_OFF_FIRST_MS * 2 ** failures), undefined, { signal })
  }
}

/**
 * The value of `--since` that continues with the next event. The feed's order never changes, so its cursor is found by counting from
 * the place before. While the service is away that place is returned, and some events come again.
 */
async function placeBehind(remote: Remote, { start, done }: Place, type: string | undefined): Promise<string> {
  if (!('after' in start)) return 'since' in start ? start.since : 'now'
  if (done === 0) return start.after
  return remote.client.events.list({ ...start, type, limit: done }).then(
    ({ nextCursor }) => nextCursor,
    () => start.after,
  )
}

function begin({ context, target }: Run, { secret, given }: { secret: string; given: boolean }): void {
  const { json, err } = context
  tell(context, 'listening', '', { forwardTo: target.href, ...(given ? {} : { secret }) })
  if (json) return
  err(`Forwarding events to ${target.href}. Press Ctrl-C to stop.`)
  if (given) err(`They are signed with the secret in ${CLIENT_VARIABLES.webhookSecret}.`)
  else {
    err('They are signed with a secret that was created for this run. To give it to the receiver, and to reuse it:')
    err(`  export ${CLIENT_VARIABLES.webhookSecret}=${secret}`)
  }
}

/** Forwards until it is interrupted, and moves `place` along. */
async function follow(run: Run, remote: Remote, place: Place, begun: () => void, type: string | undefined) {
  const { context, signal } = run
  const noted = context.json
    ? { err: (message: string) => tell(context, 'note', '', { message }) }
    : { err: context.err }
  let first = true
  for await (const page of followFeed(remote, noted, { start: place.start, type, signal })) {
    if (first) begun()
    first = false
    for (const event of page.events) {
      await forward(run, event)
      place.done += 1
      place.forwarded += 1
    }
    place.start = { after: page.nextCursor }
    place.done = 0
  }
}

/** The same command, starting from another place. */
function commandFrom(cursor: string, { forwardTo, events, url, keyFile }: Record<string, unknown>): string {
  const options = { 'forward-to': forwardTo, events, url, 'key-file': keyFile, since: cursor }
  return Object.entries(options)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `--${name} ${/^[\w.:/@,=-]+$/.test(String(value)) ? value : `'${value}'`}`)
    .join(' ')
}

/** `halfkey listen` */
export const listen = defineCommand({
  name: 'listen',
  summary: 'Forward events to a receiver on this machine, without a webhook or public address',
  details: `POSTs each event exactly as a delivery does, with the same body and both signatures. The secret is the one in ${CLIENT_VARIABLES.webhookSecret}, or a new one, which the command prints. Events are sent one after the other, in the feed's order.
While the receiver is not reachable, events wait. If the receiver refuses an event (any status but 2xx, or no response within 30 s), the command reports it and does not send it again. Ctrl-C stops the command and prints how to continue.
Needs a key with the scope webhooks:read. A key that is bound to an app forwards only the events of that app.`,
  examples: [
    'halfkey listen --forward-to http://localhost:3000/hook',
    "halfkey listen --forward-to http://localhost:3000/hook --events 'user.*,tx.completed' --since 1h",
    'halfkey listen --forward-to http://localhost:3000/hook --json | jq -c .',
  ],
  options: (command) =>
    remoteOptions(command)
      .requiredOption('--forward-to <url>', 'the receiver')
      .option('--events <types>', 'only these types, such as user.*,tx.completed')
      .option('--since <start>', 'where to start: now, 90s, 15m, 1h or 2d ago, a time, or a cursor', 'now'),
  async run(options, context) {
    const target = readTarget(options.forwardTo)
    const start = readStart(options.since, Date.now())
    const signing = readSecret()
    const key = signingKey(signing.secret)
    const place: Place = { start, done: 0, forwarded: 0 }
    const cursor = await withRemote(options, async (remote) => {
      await untilInterrupted(async (signal) => {
        const run = { context, target, key, signal }
        await follow(run, remote, place, () => begin(run, signing), options.events)
      })
      return placeBehind(remote, place, options.events)
    })
    const { forwarded } = place
    tell(context, 'stopped', '', { forwarded, cursor })
    context.err(`Stopped. Events forwarded: ${forwarded}. To continue: halfkey listen ${commandFrom(cursor, options)}`)
    return { data: null, lines: [] }
  },
})
