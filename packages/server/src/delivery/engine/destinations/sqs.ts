import { createHash } from 'node:crypto'
import type { Deps } from '../../../platform/deps.ts'
import type { SqsDestination } from '../options/options.ts'
import { callAws } from './aws.ts'
import type { Destination, Outgoing } from './destination.ts'

/** What SQS accepts as a group: 1 to 128 visible ASCII characters. */
const GROUP = /^[\x21-\x7e]{1,128}$/

/**
 * The group of a message in a FIFO queue. SQS keeps the order within a group, and hands out nothing behind a message that is
 * being processed. So events without an ordering key have a group each.
 */
function groupOf({ orderingKey, eventId }: Outgoing): string {
  if (orderingKey === null) return eventId
  return GROUP.test(orderingKey) ? orderingKey : createHash('sha256').update(orderingKey).digest('hex')
}

/** The same at every attempt. Another webhook's delivery of the event, and a retry by hand, are not dropped as repeats. */
const deduplicationOf = ({ deliveryId, cycle }: Outgoing): string => `${deliveryId}-${cycle}`

/** The headers of an HTTP delivery as message attributes, of which SQS allows ten. */
function attributesOf({ headers, eventType }: Outgoing) {
  const { 'user-agent': _, ...sent } = headers
  const texts = Object.entries({ ...sent, 'event-type': eventType })
  return Object.fromEntries(texts.map(([name, StringValue]) => [name, { DataType: 'String', StringValue }]))
}

/** `SendMessage`, in the JSON protocol. */
function messageOf(queueUrl: string, outgoing: Outgoing): string {
  const isFifo = queueUrl.endsWith('.fifo')
  return JSON.stringify({
    QueueUrl: queueUrl,
    MessageBody: outgoing.body,
    MessageAttributes: attributesOf(outgoing),
    ...(isFifo ? { MessageGroupId: groupOf(outgoing), MessageDeduplicationId: deduplicationOf(outgoing) } : {}),
  })
}

function isConfirmed(answer: Buffer | undefined): boolean {
  try {
    return typeof JSON.parse(answer?.toString() ?? '').MessageId === 'string'
  } catch {
    return false
  }
}

/** Amazon SQS: each delivery is one message, with the delivery's body as it is. */
export function createQueue(deps: Pick<Deps, 'egress'>, destination: SqsDestination): Destination {
  const { queueUrl } = destination
  return {
    async send(outgoing) {
      const { answer, ...result } = await callAws(deps, destination, {
        service: 'sqs',
        url: new URL('/', queueUrl).href,
        headers: { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': 'AmazonSQS.SendMessage' },
        body: messageOf(queueUrl, outgoing),
        timeoutMs: outgoing.timeoutMs,
        nowMs: outgoing.nowMs,
        keepsAnswer: true,
      })
      if (!result.ok || isConfirmed(answer)) return result
      return { ...result, ok: false, error: 'the response is not one of Amazon SQS' }
    },
  }
}
