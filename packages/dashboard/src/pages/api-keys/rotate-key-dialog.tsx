import type { ApiKey, ApiKeyWithKey } from '@halfkey/sdk'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Labelled } from '../../components/controls/field.tsx'
import { Select } from '../../components/controls/select.tsx'
import { FormError } from '../../components/form/form-error.tsx'
import { Dialog } from '../../components/layout/dialog.tsx'
import { Secret } from '../../components/records/copy.tsx'
import { useSession } from '../../shell/session-context.ts'

const GRACES = [
  { value: '0', label: 'At once' },
  { value: '3600', label: 'In an hour' },
  { value: '86400', label: 'In a day' },
  { value: '604800', label: 'In a week' },
]

function Rotation({
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
  const [grace, setGrace] = useState('86400')
  const queries = useQueryClient()
  const rotation = useMutation({
    mutationFn: () => api.apiKeys.rotate(apiKey.id, { graceSeconds: Number(grace) }),
    onSuccess: async (key) => {
      onRotated(key)
      await queries.invalidateQueries({ queryKey: ['api-keys'] })
    },
  })
  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={(event) => {
        event.preventDefault()
        rotation.mutate()
      }}
    >
      <Labelled
        label="The old value stops working"
        hint={
          isOwn
            ? 'You are signed in by the old value. Your session here ends with it, so it needs some time to stay.'
            : 'Until then both work. Put the new one in place meanwhile.'
        }
      >
        <Select
          label="The old value stops working"
          value={grace}
          // At once, the session would be over before the new value was seen.
          options={isOwn ? GRACES.slice(1) : GRACES}
          onChange={setGrace}
          className="w-full"
        />
      </Labelled>
      <FormError error={rotation.error} />
      <div className="flex flex-wrap justify-end gap-2">
        <Button onClick={onCancel}>Cancel</Button>
        <Button tone="primary" type="submit" busy={rotation.isPending}>
          Rotate
        </Button>
      </div>
    </form>
  )
}

/** Gives a key a new value and shows that, once. */
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
        ? { description: 'The key gets a new value. Its id, scopes and everything else stay.' }
        : {})}
    >
      {rotated !== null ? (
        <Secret label="API key" value={rotated.key} onDone={close} />
      ) : apiKey === null ? null : (
        <Rotation apiKey={apiKey} onRotated={setRotated} onCancel={close} />
      )}
    </Dialog>
  )
}
