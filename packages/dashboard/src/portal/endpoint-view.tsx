import type { Webhook } from '@halfkey/sdk'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Button } from '../components/controls/button.tsx'
import { Card } from '../components/layout/card.tsx'
import { ConfirmButton } from '../components/layout/confirm-button.tsx'
import { Detail, Details } from '../components/layout/details.tsx'
import { ConfirmDialog, Dialog } from '../components/layout/dialog.tsx'
import { Loaded } from '../components/layout/loaded.tsx'
import { useToast } from '../components/layout/toast.tsx'
import { StatusBadge } from '../components/records/badge.tsx'
import { Secret } from '../components/records/copy.tsx'
import { RelativeTime } from '../components/records/relative-time.tsx'
import { messageOf } from '../error-words.ts'
import { LIVE } from '../query-client.ts'
import { Deliveries } from './deliveries.tsx'
import { EditDialog } from './endpoint-form.tsx'
import { type Portal, webhooks } from './portal-api.ts'
import type { View } from './portal-page.tsx'
import { TestDialog } from './test-dialog.tsx'

/** Rotates the secret and shows the new one once. */
function RotateButton({ webhook }: { webhook: Webhook }) {
  const [asking, setAsking] = useState(false)
  const [secret, setSecret] = useState<string | null>(null)
  const queryClient = useQueryClient()
  return (
    <>
      <Button onClick={() => setAsking(true)}>Rotate secret…</Button>
      <ConfirmDialog
        open={asking}
        onOpenChange={setAsking}
        title="Rotate the signing secret"
        action="Rotate"
        danger={false}
        onConfirm={async () => {
          setSecret((await webhooks.rotate(webhook.id)).secret)
          await queryClient.invalidateQueries({ queryKey: ['webhooks'] })
        }}
      >
        <p>
          You get a new secret. For 24 hours deliveries are also signed with the old one, which ends in{' '}
          <code className="font-mono">{webhook.secretLast4}</code>, so you can change your receiver at any time.
        </p>
      </ConfirmDialog>
      <Dialog
        open={secret !== null}
        onOpenChange={(next) => (next ? undefined : setSecret(null))}
        title="The new signing secret"
        sticky
      >
        <Secret label="New signing secret" value={secret ?? ''} onDone={() => setSecret(null)} />
      </Dialog>
    </>
  )
}

function StatusButton({ webhook }: { webhook: Webhook }) {
  const queryClient = useQueryClient()
  const { failed } = useToast()
  const active = webhook.status === 'active'
  const change = useMutation({
    mutationFn: () => webhooks.update(webhook.id, { status: active ? 'paused' : 'active' }),
    onError: (error) => failed('The endpoint was not changed', messageOf(error)),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ['webhooks'] }),
  })
  return (
    <Button busy={change.isPending} onClick={() => change.mutate()}>
      {active ? 'Pause' : webhook.status === 'paused' ? 'Resume' : 'Activate'}
    </Button>
  )
}

function DeleteButton({ webhook, onDeleted }: { webhook: Webhook; onDeleted: () => void }) {
  const queryClient = useQueryClient()
  return (
    <ConfirmButton
      label="Delete"
      tone="danger"
      title="Delete this endpoint"
      action="Delete endpoint"
      onConfirm={async () => {
        await webhooks.delete(webhook.id)
        onDeleted()
        await queryClient.invalidateQueries({ queryKey: ['webhooks'] })
      }}
    >
      <p className="[overflow-wrap:anywhere]">{webhook.url}</p>
      <p>Waiting deliveries are cancelled. This cannot be undone.</p>
    </ConfirmButton>
  )
}

function Facts({ webhook }: { webhook: Webhook }) {
  return (
    <Details>
      <Detail label="Status">
        <StatusBadge status={webhook.status} />
      </Detail>
      <Detail label="Events">{webhook.events.includes('*') ? 'All' : webhook.events.join(', ')}</Detail>
      <Detail label="Secret ends in">
        <code className="font-mono">{webhook.secretLast4}</code>
      </Detail>
      <Detail label="Added">
        <RelativeTime at={webhook.createdAt} />
      </Detail>
      {webhook.previousSecretUntil === null ? null : (
        <Detail label="Previous secret signs until">
          <RelativeTime at={webhook.previousSecretUntil} />
        </Detail>
      )}
      {webhook.description === null ? null : <Detail label="Description">{webhook.description}</Detail>}
      {webhook.disabledReason === null ? null : (
        <Detail label="Why it is disabled" wide>
          {webhook.disabledReason} Fix the endpoint and send a test. Then activate it and retry what failed.
        </Detail>
      )}
    </Details>
  )
}

/** One endpoint: how it is set, and what was sent to it. */
export function EndpointView({
  portal,
  webhookId,
  show,
}: {
  portal: Portal
  webhookId: string
  show: (view: View) => void
}) {
  const [open, setOpen] = useState<'edit' | 'test' | null>(null)
  const query = useQuery({
    queryKey: ['webhooks', webhookId],
    queryFn: ({ signal }) => webhooks.get(webhookId, { signal }),
    ...LIVE,
  })
  const close = () => setOpen(null)
  return (
    <Loaded query={query} boxed>
      {(webhook) => (
        <>
          <Card
            title={<span className="[overflow-wrap:anywhere]">{webhook.url}</span>}
            actions={
              <>
                <Button onClick={() => setOpen('test')}>Send test…</Button>
                <Button onClick={() => setOpen('edit')}>Edit…</Button>
                <StatusButton webhook={webhook} />
                <RotateButton webhook={webhook} />
                <DeleteButton webhook={webhook} onDeleted={() => show({ name: 'endpoints' })} />
              </>
            }
          >
            <Facts webhook={webhook} />
          </Card>
          <Deliveries webhookId={webhookId} show={show} />
          <EditDialog portal={portal} webhook={webhook} open={open === 'edit'} onClose={close} />
          <TestDialog portal={portal} webhookId={webhookId} open={open === 'test'} onClose={close} show={show} />
        </>
      )}
    </Loaded>
  )
}
