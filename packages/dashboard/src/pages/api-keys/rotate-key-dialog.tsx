import type { ApiKey, ApiKeyWithKey } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../api.ts'
import { Form } from '../../components/form/form.tsx'
import { Dialog } from '../../components/layout/dialog.tsx'
import { Secret } from '../../components/records/copy.tsx'
import { useSession } from '../../shell/session-context.ts'

const GRACES = [
  { value: '0', label: 'Immediately' },
  { value: '3600', label: 'In an hour' },
  { value: '86400', label: 'In a day' },
  { value: '604800', label: 'In a week' },
]

function RotateForm({
  apiKey,
  onRotated,
  onCancel,
}: {
  apiKey: ApiKey
  onRotated: (key: ApiKeyWithKey) => void
  onCancel: () => void
}) {
  const { session } = useSession()
  const isOwn = session.keyId === apiKey.id
  const queries = useQueryClient()
  return (
    <Form
      fields={[
        {
          name: 'graceSeconds',
          label: 'The old value stops working',
          kind: 'select',
          help: isOwn
            ? 'You are signed in with the old value. Your session ends when the old value stops working.'
            : 'Until then, both values work. Replace the old value in that time.',
          // With "Immediately" the session would end before the new value is shown.
          options: isOwn ? GRACES.slice(1) : GRACES,
        },
      ]}
      values={{ graceSeconds: '86400' }}
      action="Rotate"
      onCancel={onCancel}
      onSubmit={async ({ graceSeconds }) => {
        onRotated(await api.apiKeys.rotate(apiKey.id, { graceSeconds: Number(graceSeconds) }))
        await queries.invalidateQueries({ queryKey: ['api-keys'] })
      }}
    />
  )
}

/** Rotates a key and shows its new value, once. */
export function RotateKeyDialog({
  apiKey,
  open,
  onOpenChange,
}: {
  apiKey: ApiKey | null
  open: boolean
  onOpenChange: (open: boolean) => void
}) {
  const [rotated, setRotated] = useState<ApiKeyWithKey | null>(null)
  const close = () => {
    setRotated(null)
    onOpenChange(false)
  }
  return (
    <Dialog
      open={open}
      onOpenChange={(next) => (next ? undefined : close())}
      title={rotated === null ? `Rotate “${apiKey?.name}”` : `The new value of “${rotated.name}”`}
      {...(rotated === null
        ? { description: 'The key gets a new value. Its id, scopes and other settings stay the same.' }
        : {})}
    >
      {rotated !== null ? (
        <Secret label="API key" value={rotated.key} onDone={close} />
      ) : apiKey === null ? null : (
        <RotateForm apiKey={apiKey} onRotated={setRotated} onCancel={close} />
      )}
    </Dialog>
  )
}
