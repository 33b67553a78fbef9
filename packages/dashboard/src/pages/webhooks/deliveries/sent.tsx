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
          <code className="font-mono text-[0.8125rem]">{delivery.eventId}</code>, the same at every attempt and every
          retry: by it, ignore what you have handled.
        </>
      ),
    },
    {
      names: ['X-Service-Timestamp', 'webhook-timestamp'],
      meaning:
        'When this attempt was made, in seconds since 1970. New at every attempt: refuse what is over 5 minutes off.',
    },
    {
      names: ['X-Service-Signature'],
      meaning: 'sha256= and the hex HMAC-SHA256 of timestamp, a dot and the body, keyed by the whole secret.',
    },
    {
      names: ['webhook-signature'],
      meaning: 'The same promise as Standard Webhooks have it, so that their libraries verify it too. Check either.',
    },
    { names: ['Content-Type'], meaning: 'application/json, always.' },
  ]
}

/** The headers of a delivery and their meaning. */
export function SentHeaders({ delivery }: { delivery: DeliveryWithPayload }) {
  return (
    <Card title="Headers" description="Sent along with each attempt.">
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
      title="Verify it yourself"
      description="Prints the hex digest that X-Service-Signature carried. If your receiver computes another one, it has another secret, or not the bytes as they came."
    >
      <CodeBlock label="verification" text={snippet} />
    </Card>
  )
}
