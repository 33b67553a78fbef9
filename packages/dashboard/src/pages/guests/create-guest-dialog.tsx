import type { GuestWithTokens } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../api.ts'
import { Form } from '../../components/form/form.tsx'
import { METADATA_FIELD, type MetadataRow, metadataOf } from '../../components/form/metadata-field.tsx'
import { Dialog } from '../../components/layout/dialog.tsx'
import { Secret } from '../../components/records/copy.tsx'
import { useAppField } from '../../components/records/use-apps.ts'
import { useSession } from '../../shell/session-context.ts'

const LIFETIMES = [
  { value: '60', label: '1 hour' },
  { value: '1440', label: '1 day' },
  { value: '10080', label: '7 days' },
  { value: '43200', label: '30 days' },
]

interface NewGuest {
  ttlMinutes: string
  appId: string
  metadata: MetadataRow[]
}

function GuestForm({ onBegun, onCancel }: { onBegun: (guest: GuestWithTokens) => void; onCancel: () => void }) {
  const { session } = useSession()
  const appField = useAppField()
  const queries = useQueryClient()
  return (
    <Form<NewGuest>
      fields={[
        { name: 'ttlMinutes', label: 'Lifetime', kind: 'select', options: LIFETIMES },
        ...appField,
        METADATA_FIELD,
      ]}
      values={{ ttlMinutes: '1440', appId: session.defaultAppId, metadata: [] }}
      action="Start session"
      onCancel={onCancel}
      onSubmit={async ({ ttlMinutes, appId, metadata }) => {
        const guest = await api.guests.create({
          ttlMinutes: Number(ttlMinutes),
          ...(appField.length === 0 ? {} : { appId }),
          ...(metadata.length === 0 ? {} : { metadata: metadataOf(metadata) }),
        })
        await queries.invalidateQueries({ queryKey: ['guests'] })
        onBegun(guest)
      }}
    />
  )
}

/** Starts a guest session and shows its access token, once. */
export function CreateGuestDialog({ open, onClose }: { open: boolean; onClose: () => void }) {
  const [begun, setBegun] = useState<GuestWithTokens | null>(null)
  const close = () => {
    setBegun(null)
    onClose()
  }
  return (
    <Dialog
      open={open}
      onOpenChange={(next) => (next ? undefined : close())}
      title={begun === null ? 'Start a guest session' : 'Access token of the guest'}
      description={
        begun === null
          ? 'Creates a guest as your app would. The guest gets a user id, a party and tokens.'
          : `Use it for calls as this guest. It is valid for ${Math.round(begun.expiresInSeconds / 60)} minutes.`
      }
    >
      {begun === null ? (
        <GuestForm onBegun={setBegun} onCancel={close} />
      ) : (
        <Secret label="Access token" value={begun.accessToken} onDone={close} />
      )}
    </Dialog>
  )
}
