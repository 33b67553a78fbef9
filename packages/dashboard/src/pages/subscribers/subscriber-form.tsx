import type { Subscriber } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { api } from '../../api.ts'
import { Form } from '../../components/form/form.tsx'
import { type FormField, widenFields } from '../../components/form/form-field.ts'
import {
  METADATA_FIELD,
  type MetadataRow,
  metadataChanges,
  metadataOf,
  rowsOf,
} from '../../components/form/metadata-field.tsx'
import { Dialog } from '../../components/layout/dialog.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { useAppField } from '../../components/records/use-apps.ts'
import { useSession } from '../../shell/session-context.ts'

interface Input {
  externalId: string
  name: string
  metadata: MetadataRow[]
}

const FIELDS: readonly FormField<Input>[] = [
  {
    name: 'externalId',
    label: 'External id',
    required: 'Enter your id of this customer.',
    help: 'Your id of this customer. It must be unique within the app.',
    input: { spellCheck: false },
  },
  { name: 'name', label: 'Name', help: 'Optional. The portal shows it.', input: { dir: 'auto' } },
  METADATA_FIELD,
]

function CreateForm({ onDone }: { onDone: () => void }) {
  const { session } = useSession()
  const appField = useAppField()
  const queries = useQueryClient()
  const navigate = useNavigate()
  return (
    <Form<Input & { appId: string }>
      fields={[...widenFields<Input & { appId: string }, Input>(FIELDS), ...appField]}
      values={{ externalId: '', name: '', metadata: [], appId: session.defaultAppId }}
      action="Create subscriber"
      onCancel={onDone}
      onSubmit={async ({ externalId, name, metadata, appId }) => {
        const { id } = await api.subscribers.create({
          externalId,
          name: name.trim() || null,
          metadata: metadataOf(metadata),
          ...(appField.length === 0 ? {} : { appId }),
        })
        await queries.invalidateQueries({ queryKey: ['subscribers'] })
        onDone()
        await navigate({ to: '/subscribers/$subscriberId', params: { subscriberId: id } } as never)
      }}
    />
  )
}

/** Creates a subscriber and opens its page. */
export function CreateDialog({ open, onOpenChange }: { open: boolean; onOpenChange: (open: boolean) => void }) {
  return (
    <Dialog
      open={open}
      onOpenChange={onOpenChange}
      title="Create a subscriber"
      description="A customer of your app, who receives the events that you publish for them."
    >
      <CreateForm onDone={() => onOpenChange(false)} />
    </Dialog>
  )
}

/** Changes a subscriber. */
export function EditDialog({
  subscriber,
  open,
  onOpenChange,
}: {
  subscriber: Subscriber
  open: boolean
  onOpenChange: (open: boolean) => void
}) {
  const queries = useQueryClient()
  const { done } = useToast()
  const { id, externalId, name, metadata } = subscriber
  return (
    <Dialog open={open} onOpenChange={onOpenChange} title="Edit the subscriber">
      <Form<Input>
        fields={FIELDS}
        values={{ externalId, name: name ?? '', metadata: rowsOf(metadata) }}
        action="Save changes"
        onCancel={() => onOpenChange(false)}
        onSubmit={async (_, changes) => {
          await api.subscribers.update(id, {
            ...(changes.externalId === undefined ? {} : { externalId: changes.externalId }),
            ...(changes.name === undefined ? {} : { name: changes.name.trim() || null }),
            ...(changes.metadata === undefined
              ? {}
              : { metadata: metadataChanges(metadata, metadataOf(changes.metadata)) }),
          })
          done('Changes saved')
          await queries.invalidateQueries({ queryKey: ['subscribers'] })
          onOpenChange(false)
        }}
      />
    </Dialog>
  )
}
