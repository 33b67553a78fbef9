import type { User } from '@halfkey/sdk'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { allows, api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { ConfirmButton } from '../../components/layout/confirm-button.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { nameOfUser } from '../../components/records/user-link.tsx'
import { messageOf } from '../../error-words.ts'
import { useSession } from '../../shell/session-context.ts'

function Suspension({ user }: { user: User }) {
  const queries = useQueryClient()
  const toast = useToast()
  const put = async (status: 'active' | 'suspended') => {
    await api.users.update(user.id, { status })
    await queries.invalidateQueries({ queryKey: ['users'] })
    toast.done(status === 'active' ? 'User activated' : 'User suspended', nameOfUser(user))
  }
  const activation = useMutation({
    mutationFn: () => put('active'),
    onError: (error) => toast.failed('The user was not activated', messageOf(error)),
  })
  if (user.status === 'suspended')
    return (
      <Button busy={activation.isPending} onClick={() => activation.mutate()}>
        Activate
      </Button>
    )
  return (
    <ConfirmButton label="Suspend" title="Suspend this user?" action="Suspend" onConfirm={() => put('suspended')}>
      <p>
        All sessions of <bdi className="font-medium text-ink [overflow-wrap:anywhere]">{nameOfUser(user)}</bdi> end
        immediately. The user cannot sign in until you activate them again. Nothing is deleted.
      </p>
    </ConfirmButton>
  )
}

function Deletion({ user }: { user: User }) {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const toast = useToast()
  return (
    <ConfirmButton
      label="Delete"
      className="text-danger!"
      title="Delete this user?"
      action="Delete user"
      typed={user.email ?? user.id}
      onConfirm={async () => {
        await api.users.delete(user.id)
        toast.done('User deleted', nameOfUser(user))
        await navigate({ to: '/users', search: {} } as never)
        queries.removeQueries({ queryKey: ['users', 'one', user.id] })
        await queries.invalidateQueries({ queryKey: ['users'] })
      }}
    >
      <p>
        This deletes <bdi className="font-medium text-ink [overflow-wrap:anywhere]">{nameOfUser(user)}</bdi> with all
        sessions, passkeys, the second factor, the wallet, key shares, delegated sessions and transactions. This cannot
        be undone.
      </p>
      <p>
        {user.trustLevel === 'embedded'
          ? 'The assets of an embedded wallet stay on the ledger, and nobody can move them afterwards. Move them first.'
          : 'The key or shares that the user holds continue to exist. The shares that Halfkey stores are deleted.'}
      </p>
    </ConfirmButton>
  )
}

/** The actions on a user; none without `users:write`. */
export function UserActions({ user }: { user: User }) {
  const { session } = useSession()
  if (!allows(session, 'users:write')) return null
  return (
    <>
      <Suspension user={user} />
      <Deletion user={user} />
    </>
  )
}
