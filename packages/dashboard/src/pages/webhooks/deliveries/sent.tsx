import type { DeliveryWithPayload } from '@halfkey/sdk'
import type { ReactNode } from 'react'
import { Card } from '../../../components/layout/card.tsx'
import { CodeBlock } from '../../../components/records/copy.tsx'
import { verifySnippet } from '../snippets.ts'

function headersOf(delivery: DeliveryWithPayload): { names: string[]; meaning: ReactNode }[] {
  return [
    {
      names: ['X-Service-Event-Id', 'webhook-id'],
      meaning: (
        <>
          <code className="font-mono text-[0.8125rem]">{delivery.eventId}</code>. It is the same for every attempt. Use
          it to ignore events that you have already handled.
        </>
      ),
    },
    {
      names: ['X-Service-Timestamp', 'webhook-timestamp'],
      meaning:
        'The time of this attempt, in seconds since 1970. Refuse deliveries whose timestamp is more than 5 minutes off.',
    },
    {
      names: ['X-Service-Signature'],
      meaning:
        'sha256= followed by the hex HMAC-SHA256 of the timestamp, a dot and the body. The key is the full secret.',
    },
    {
      names: ['webhook-signature'],
      meaning:
        'The signature in the format of Standard Webhooks, for use with their libraries. Check either signature.',
    },
    ...Object.entries(delivery.headers ?? {}).map(([name, value]) => ({ names: [name], meaning: value })),
  ]
}

/** The headers of a delivery and their meaning. */
export function SentHeaders({ delivery }: { delivery: DeliveryWithPayload }) {
  return (
    <Card title="Headers" description="Sent with each attempt.">
      <dl className="divide-y text-sm">
        {headersOf(delivery).map(({ names, meaning }) => (
          <div key={names.join()} className="grid gap-x-6 gap-y-1 py-3 first:pt-0 last:pb-0 md:grid-cols-[15rem_1fr]">
            <dt className="flex flex-col font-mono text-[0.8125rem]">
              {names.map((name) => (
                <span key={name}>{name}</span>
              ))}
            </dt>
            <dd className="min-w-0 text-soft [overflow-wrap:anywhere]">{meaning}</dd>
          </div>
        ))}
      </dl>
    </Card>
  )
}

/** A snippet that computes the signature without the SDK. */
export function Verify({ delivery }: { delivery: DeliveryWithPayload }) {
  const snippet = verifySnippet(delivery)
  if (snippet === null) return null
  return (
    <Card
      title="Verify the signature"
      description="Prints the hex digest of X-Service-Signature. If your receiver computes a different digest, it uses a different secret or does not hash the raw bytes."
    >
      <CodeBlock label="verification" text={snippet} />
    </Card>
  )
}
