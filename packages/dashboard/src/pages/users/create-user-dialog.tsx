import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, fieldErrors } from '../../api.ts'
import { Labelled } from '../../components/controls/field.tsx'
import { Select } from '../../components/controls/select.tsx'
import { metadataOf } from '../../components/form/metadata-field.tsx'
import { Dialog } from '../../components/layout/dialog.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { useAppOptions } from '../../components/records/use-apps.ts'
import { nameOfUser } from '../../components/records/user-link.tsx'
import { useSession } from '../../shell/session-context.ts'
import { inputOf, UserForm, type UserInput } from './user-form.tsx'

const given = (name: string, value: string) => (value === '' ? {} : { [name]: value })

function Creation({ onDone }: { onDone: () => void }) {
  const { session } = useSession()
  const apps = useAppOptions()
  const [appId, setAppId] = useState(session.defaultAppId)
  const queries = useQueryClient()
  const navigate = useNavigate()
  const toast = useToast()
  const creation = useMutation({
    mutationFn: ({ email, name, externalId, metadata }: UserInput) =>
      api.users.create({
        ...given('email', email),
        ...given('name', name),
        ...given('externalId', externalId),
        ...(apps.length > 1 ? { appId } : {}),
        ...(metadata.length === 0 ? {} : { metadata: metadataOf(metadata) }),
      }),
    onSuccess: async (user) => {
      toast.done('User created', nameOfUser(user))
      await queries.invalidateQueries({ queryKey: ['users'] })
      onDone()
      await navigate({ to: '/users/$userId', params: { userId: user.id } } as never)
    },
  })
  return (
    <UserForm
      initial={inputOf()}
      action="Create user"
      busy={creation.isPending}
      error={creation.error}
      onCancel={onDone}
      onSubmit={(input) => creation.mutate(input)}
      extraFields={apps.length > 1 ? ['appId'] : []}
    >
      {apps.length < 2 ? null : (
        <Labelled label="App" error={fieldErrors(creation.error).appId}>
          <Select label="App" value={appId} options={apps} onChange={setAppId} className="w-full" />
        </Labelled>
      )}
    </UserForm>
  )
}

/** Makes a user and goes to them. */
export function CreateUserDialog({ open, onOpenChange }: { open: boolean; onOpenChange: (open: boolean) => void }) {
  return (
    <Dialog
      open={open}
      onOpenChange={onOpenChange}
      title="Create a user"
      description="Nothing is required. The user gets a party on the ledger at once, and signs in once they have a passkey."
    >
      <Creation onDone={() => onOpenChange(false)} />
    </Dialog>
  )
}
