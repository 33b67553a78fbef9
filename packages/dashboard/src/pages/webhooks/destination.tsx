import type { Webhook, WebhookDestination } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { allows, api } from '../../api.ts'
import { Form } from '../../components/form/form.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Detail } from '../../components/layout/details.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { Badge } from '../../components/records/badge.tsx'
import { useSession } from '../../shell/session-context.ts'

const KINDS: Record<WebhookDestination['type'], { short: string; long: string }> = {
  sqs: { short: 'SQS', long: 'Amazon SQS queue' },
  s3: { short: 'S3', long: 'S3-compatible bucket' },
}

/** The kind of a webhook's destination; nothing for a URL. */
export function DestinationBadge({ destination }: Pick<Webhook, 'destination'>) {
  return destination === null ? null : <Badge>{KINDS[destination.type].short}</Badge>
}

/** Where a webhook's events go, if not to a URL. */
export function DestinationDetails({ destination }: Pick<Webhook, 'destination'>) {
  if (destination === null) return null
  return (
    <>
      <Detail label="Destination">{`${KINDS[destination.type].long} in ${destination.region}`}</Detail>
      <Detail label="Access key id">
        <code className="font-mono text-[0.8125rem]">{destination.accessKeyId}</code>
      </Detail>
    </>
  )
}

/** Replaces the credentials of a destination. Everything else of it stays. */
export function DestinationCard({ webhook, destination }: { webhook: Webhook; destination: WebhookDestination }) {
  const { session } = useSession()
  const queryClient = useQueryClient()
  const { done } = useToast()
  const title = KINDS[destination.type].long
  if (!allows(session, 'destinations:write'))
    return (
      <Card
        title={title}
        description="To change its credentials, you need an API key with the scope destinations:write."
      />
    )
  return (
    <Card title={title} description="New credentials are used for every later attempt. They are stored encrypted.">
      <Form
        // Empty again after each change.
        key={webhook.updatedAt}
        fields={[
          {
            name: 'destination.accessKeyId',
            label: 'Access key id',
            required: 'Enter the access key id.',
            input: { spellCheck: false },
          },
          {
            name: 'destination.secretAccessKey',
            label: 'Secret access key',
            required: 'Enter the secret access key.',
            input: { type: 'password' },
          },
        ]}
        values={{ destination: { accessKeyId: destination.accessKeyId, secretAccessKey: '' } }}
        action="Save credentials"
        className="max-w-2xl"
        onSubmit={async ({ destination: { accessKeyId, secretAccessKey } }) => {
          const credentials = { accessKeyId: accessKeyId.trim(), secretAccessKey: secretAccessKey.trim() }
          await api.webhooks.update(webhook.id, { destination: { ...destination, ...credentials } })
          done('Credentials saved')
          await queryClient.invalidateQueries({ queryKey: ['webhooks'] })
        }}
      />
    </Card>
  )
}
