import type { Webhook } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../../api.ts'
import { Button } from '../../../components/controls/button.tsx'
import { Form } from '../../../components/form/form.tsx'
import { Card } from '../../../components/layout/card.tsx'
import { ConfirmDialog, Dialog } from '../../../components/layout/dialog.tsx'
import { useToast } from '../../../components/layout/toast.tsx'
import { Secret } from '../../../components/records/copy.tsx'
import { RelativeTime } from '../../../components/records/relative-time.tsx'

const EXACT = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'short' })
const DAY_SECONDS = 86_400
const GRACES = [
  { value: '0', label: 'None: the old secret stops working now' },
  { value: '3600', label: '1 hour' },
  { value: String(DAY_SECONDS), label: '24 hours' },
  { value: String(7 * DAY_SECONDS), label: '7 days' },
  { value: String(30 * DAY_SECONDS), label: '30 days' },
]

function RotateForm({
  webhook,
  onMade,
  onCancel,
}: {
  webhook: Webhook
  onMade: (secret: string) => void
  onCancel: () => void
}) {
  const queryClient = useQueryClient()
  return (
    <Form
      fields={[
        {
          name: 'graceSeconds',
          label: 'How long the old secret stays valid',
          kind: 'select',
          options: GRACES,
          help: ({ graceSeconds }) =>
            graceSeconds === '0'
              ? 'Deliveries are signed with the new secret only. A receiver that still has the old secret refuses them, and Halfkey retries.'
              : 'Until then, deliveries are signed with both secrets, so you can update your receiver at any time. verifyWebhook accepts both.',
        },
      ]}
      values={{ graceSeconds: String(DAY_SECONDS) }}
      action="Rotate"
      onCancel={onCancel}
      onSubmit={async ({ graceSeconds }) => {
        const { secret } = await api.webhooks.rotate(webhook.id, { graceSeconds: Number(graceSeconds) })
        if (secret !== null) onMade(secret)
        await queryClient.invalidateQueries({ queryKey: ['webhooks'] })
      }}
    />
  )
}

function Until({ at }: { at: string | null }) {
  if (at === null) return null
  return (
    <>
      <time dateTime={at}>{EXACT.format(new Date(at))}</time> (<RelativeTime at={at} />)
    </>
  )
}

/** The signing secret: rotate it, or end the grace period of the old one. */
export function SecretCard({ webhook }: { webhook: Webhook }) {
  const [open, setOpen] = useState<'rotate' | 'end' | null>(null)
  const [secret, setSecret] = useState<string | null>(null)
  const { done } = useToast()
  const queryClient = useQueryClient()
  const graceRuns = webhook.previousSecretUntil !== null && Date.parse(webhook.previousSecretUntil) > Date.now()
  const close = () => {
    setOpen(null)
    setSecret(null)
  }
  return (
    <>
      <Card
        title="Signing secret"
        description={
          <>
            The secret ends in <code className="font-mono">{webhook.secretLast4}</code>. Rotate it if someone else may
            have seen it.
            {graceRuns ? (
              <>
                {' '}
                The previous secret also signs until <Until at={webhook.previousSecretUntil} />.
              </>
            ) : null}
          </>
        }
        actions={
          <>
            <Button onClick={() => setOpen('rotate')}>Rotate…</Button>
            {graceRuns ? <Button onClick={() => setOpen('end')}>End grace period…</Button> : null}
          </>
        }
      />
      <Dialog
        open={open === 'rotate'}
        onOpenChange={(next) => (next ? undefined : close())}
        title={secret === null ? 'Rotate the signing secret' : 'The new signing secret'}
        sticky={secret !== null}
      >
        {secret === null ? (
          <RotateForm webhook={webhook} onMade={setSecret} onCancel={close} />
        ) : (
          <Secret label="New signing secret" value={secret} onDone={close} />
        )}
      </Dialog>
      <ConfirmDialog
        open={open === 'end'}
        onOpenChange={(next) => (next ? undefined : close())}
        title="End the grace period of the old secret"
        action="End grace period"
        onConfirm={async () => {
          await api.webhooks.rotate(webhook.id, { endGrace: true })
          done('Only the current secret is valid now')
          await queryClient.invalidateQueries({ queryKey: ['webhooks'] })
        }}
      >
        <p>
          Deliveries will be signed only with the secret that ends in {webhook.secretLast4}. A receiver that still uses
          an older secret refuses them.
        </p>
      </ConfirmDialog>
    </>
  )
}
