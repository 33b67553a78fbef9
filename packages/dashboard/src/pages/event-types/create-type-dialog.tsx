import { useQueryClient } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { Form } from '../../components/form/form.tsx'
import { type FormField, widenFields } from '../../components/form/form-field.ts'
import { Dialog } from '../../components/layout/dialog.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { useAppField } from '../../components/records/use-apps.ts'
import { useSession } from '../../shell/session-context.ts'
import { bodyOf, inputOf, TYPE_FIELDS, type TypeInput } from './type-fields.ts'

type NewType = TypeInput & { name: string; appId: string }

const NAME: FormField<NewType> = {
  name: 'name',
  label: 'Name',
  required: 'Enter a name.',
  help: 'At least two parts in lower case, separated by dots. Begin with your company or product. You cannot change it later.',
  input: { placeholder: 'acme.invoice.paid', spellCheck: false },
}

function CreateTypeForm({ onDone }: { onDone: () => void }) {
  const { session } = useSession()
  const appField = useAppField()
  const queries = useQueryClient()
  const toast = useToast()
  return (
    <Form<NewType>
      fields={[NAME, ...appField, ...widenFields<NewType, TypeInput>(TYPE_FIELDS)]}
      values={{ name: '', appId: session.defaultAppId, ...inputOf() }}
      action="Create event type"
      onCancel={onDone}
      onSubmit={async ({ name, appId, ...input }) => {
        const app = appField.length === 0 ? {} : { appId }
        await api.eventTypes.create({ name: name.trim(), ...app, ...bodyOf(input) })
        toast.done('Event type created', name.trim())
        await queries.invalidateQueries({ queryKey: ['event-types'] })
        onDone()
      }}
    />
  )
}

/** Creates an event type. */
export function CreateTypeDialog({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Dialog
      open={open}
      onOpenChange={(next) => (next ? undefined : onClose())}
      title="Create an event type"
      description="Your servers publish events of this type. Webhooks receive them as they receive Halfkey’s events."
      wide
    >
      <CreateTypeForm onDone={onClose} />
    </Dialog>
  )
}
