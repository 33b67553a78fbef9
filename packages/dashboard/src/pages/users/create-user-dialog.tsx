import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { api } from '../../api.ts'
import { Form } from '../../components/form/form.tsx'
import { widenFields } from '../../components/form/form-field.ts'
import { Dialog } from '../../components/layout/dialog.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { useAppField } from '../../components/records/use-apps.ts'
import { nameOfUser } from '../../components/records/user-link.tsx'
import { useSession } from '../../shell/session-context.ts'
import { givenOf, inputOf, USER_FIELDS, type UserInput } from './user-fields.ts'

type NewUser = UserInput & { appId: string }

function CreateUserForm({ onDone }: { onDone: () => void }) {
  const { session } = useSession()
  const appField = useAppField()
  const queries = useQueryClient()
  const navigate = useNavigate()
  const toast = useToast()
  return (
    <Form<NewUser>
      fields={[...widenFields<NewUser, UserInput>(USER_FIELDS), ...appField]}
      values={{ ...inputOf(), appId: session.defaultAppId }}
      action="Create user"
      onCancel={onDone}
      onSubmit={async ({ appId, ...input }) => {
        const user = await api.users.create({ ...givenOf(input), ...(appField.length === 0 ? {} : { appId }) })
        toast.done('User created', nameOfUser(user))
        await queries.invalidateQueries({ queryKey: ['users'] })
        onDone()
        await navigate({ to: '/users/$userId', params: { userId: user.id } } as never)
      }}
    />
  )
}

/** Creates a user and opens their page. */
export function CreateUserDialog({ open, onOpenChange }: { open: boolean; onOpenChange: (open: boolean) => void }) {
  return (
    <Dialog
      open={open}
      onOpenChange={onOpenChange}
      title="Create a user"
      description="All fields are optional. The user gets a party on the ledger immediately and can sign in after they add a passkey."
    >
      <CreateUserForm onDone={() => onOpenChange(false)} />
    </Dialog>
  )
}
