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

const DAY_SECONDS = 86_400
const GRACES = [
  { value: '0', label: 'None: the old secret ends now' },
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
          label: 'How long the old secret stays good',
          kind: 'select',
          options: GRACES,
          help: ({ graceSeconds }) =>
            graceSeconds === '0'
              ? 'From now on, deliveries are signed with the new secret alone. A receiver that has the old one refuses them, and they are retried.'
              : 'Until then deliveries are valid for either secret: change your receiver at any moment. verifyWebhook accepts both.',
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

/** The signing secret: rotate it, or end the grace period of the old one. */
export function SecretCard({ webhook }: { webhook: Webhook }) {
  const [open, setOpen] = useState<'rotate' | 'end' | null>(null)
  const [secret, setSecret] = useState<string | null>(null)
  const { done } = useToast()
  const queryClient = useQueryClient()
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
            It ends in <code className="font-mono">{webhook.secretLast4}</code> and was shown once. Rotate it when
            somebody may know it who should not.
          </>
        }
        actions={
          <>
            <Button onClick={() => setOpen('rotate')}>Rotate…</Button>
            <Button onClick={() => setOpen('end')}>End grace…</Button>
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
        title="End the old secret’s grace"
        action="End grace"
        onConfirm={async () => {
          await api.webhooks.rotate(webhook.id, { endGrace: true })
          done('Only the present secret counts now')
          await queryClient.invalidateQueries({ queryKey: ['webhooks'] })
        }}
      >
        <p>
          Deliveries will be signed with the secret that ends in {webhook.secretLast4} alone. A receiver that still has
          an older one refuses them. Where no grace is running, nothing changes.
        </p>
      </ConfirmDialog>
    </>
  )
}
