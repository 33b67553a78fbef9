import type { GuestWithTokens } from '@halfkey/sdk'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, fieldErrors } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Labelled } from '../../components/controls/field.tsx'
import { Select } from '../../components/controls/select.tsx'
import { FormError } from '../../components/form/form-error.tsx'
import { MetadataField, type MetadataRow, metadataOf } from '../../components/form/metadata-field.tsx'
import { Dialog } from '../../components/layout/dialog.tsx'
import { Secret } from '../../components/records/copy.tsx'
import { useAppOptions } from '../../components/records/use-apps.ts'
import { useSession } from '../../shell/session-context.ts'

const LIFETIMES = [
  { value: '60', label: 'An hour' },
  { value: '1440', label: 'A day' },
  { value: '10080', label: 'A week' },
  { value: '43200', label: '30 days' },
]

function Beginning({ onBegun, onCancel }: { onBegun: (guest: GuestWithTokens) => void; onCancel: () => void }) {
  const { session } = useSession()
  const apps = useAppOptions()
  const [minutes, setMinutes] = useState('1440')
  const [appId, setAppId] = useState(session.defaultAppId)
  const [rows, setRows] = useState<MetadataRow[]>([])
  const queries = useQueryClient()
  const beginning = useMutation({
    mutationFn: () =>
      api.guests.create({
        ttlMinutes: Number(minutes),
        ...(apps.length > 1 ? { appId } : {}),
        ...(rows.length === 0 ? {} : { metadata: metadataOf(rows) }),
      }),
    onSuccess: async (guest) => {
      await queries.invalidateQueries({ queryKey: ['guests'] })
      onBegun(guest)
    },
  })
  const errors = fieldErrors(beginning.error)
  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={(event) => {
        event.preventDefault()
        beginning.mutate()
      }}
    >
      <Labelled label="Lasts" error={errors.ttlMinutes}>
        <Select label="Lasts" value={minutes} options={LIFETIMES} onChange={setMinutes} className="w-full" />
      </Labelled>
      {apps.length < 2 ? null : (
        <Labelled label="App" error={errors.appId}>
          <Select label="App" value={appId} options={apps} onChange={setAppId} className="w-full" />
        </Labelled>
      )}
      <MetadataField rows={rows} onChange={setRows} errors={errors} />
      <FormError error={beginning.error} fields={['ttlMinutes', 'metadata', ...(apps.length > 1 ? ['appId'] : [])]} />
      <div className="flex flex-wrap justify-end gap-2">
        <Button onClick={onCancel}>Cancel</Button>
        <Button tone="primary" type="submit" busy={beginning.isPending}>
          Begin session
        </Button>
      </div>
    </form>
  )
}

/** Begins a guest session and shows its access token, once. */
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
      title={begun === null ? 'Begin a guest session' : 'Access token of the guest'}
      description={
        begun === null
          ? 'As your app does it, to try it out: the guest gets a user id, a party and tokens.'
          : `Calls for the guest carry it, for ${Math.round(begun.expiresInSeconds / 60)} minutes.`
      }
    >
      {begun === null ? (
        <Beginning onBegun={setBegun} onCancel={close} />
      ) : (
        <Secret label="Access token" value={begun.accessToken} onDone={close} />
      )}
    </Dialog>
  )
}
