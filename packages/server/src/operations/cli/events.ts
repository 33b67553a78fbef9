import { type CliContext, type Command, readOptions, UsageError } from './command.ts'
import { type CliEvent, followFeed } from './event-feed.ts'
import { openRemote, REMOTE_DETAILS, REMOTE_OPTIONS, REMOTE_USAGE, untilInterrupted } from './remote.ts'

const OPTIONS = {
  ...REMOTE_OPTIONS,
  follow: { type: 'boolean', short: 'f' },
  type: { type: 'string' },
  limit: { type: 'string' },
} as const

function show({ json, out }: CliContext, event: CliEvent): void {
  if (json) out(JSON.stringify(event))
  else out(`${event.created_at}  ${event.type.padEnd(24)}  ${event.id}  ${JSON.stringify(event.data)}`)
}

/** `halfkey events tail` */
export const eventsTail: Command = {
  name: 'events tail',
  summary: 'Show the last events, and with -f those that come',
  usage: `[-f] [--type user.*,tx.completed] [--limit 20] ${REMOTE_USAGE}`,
  details: [
    'With --json each event is a line of JSON, as it is delivered. --limit is 0 to 1000.',
    'Needs a key with the scope webhooks:read. One that is bound to an app sees its events only.',
    ...REMOTE_DETAILS,
    '',
    '  halfkey events tail',
    '  halfkey events tail -f --type user.*,tx.completed',
    "  halfkey events tail --limit 100 --json | jq -r '.data.userId // empty'",
  ],
  async run(args, context) {
    const { follow = false, type, limit = '20', ...options } = readOptions(eventsTail, args, OPTIONS)
    if (!/^(\d{1,3}|1000)$/.test(limit)) throw new UsageError('--limit must be a whole number from 0 to 1000.')
    const remote = openRemote(options)
    const { signal, done } = untilInterrupted()
    try {
      // Fewer fit one answer where they are large: then it goes on, to the end as it is now.
      let left = Number(limit)
      for await (const page of followFeed(remote, context, { start: { last: limit }, type, signal })) {
        for (const event of page.events) show(context, event)
        left -= page.events.length
        if (!follow && (left <= 0 || !page.hasMore)) break
      }
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      done()
    }
    return { data: null, lines: [] }
  },
}
