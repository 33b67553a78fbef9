import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { SwitchField } from '../../components/controls/field.tsx'
import { Card } from '../../components/layout/card.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { messageOf } from '../../error-words.ts'
import { Oidc } from './oidc-form.tsx'

const KEY = ['member-sign-in']

/** How members sign in beside passkeys, for owners. */
export function SignInCard() {
  const queries = useQueryClient()
  const { done, failed } = useToast()
  const { data } = useQuery({ queryKey: KEY, queryFn: ({ signal }) => api.members.getSignIn({ signal }) })
  const { mutate, isPending } = useMutation({
    mutationFn: (emailCode: boolean) => api.members.updateSignIn({ emailCode }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: KEY })
      done('Changes saved')
    },
    onError: (error) => failed('Nothing was changed', messageOf(error)),
  })
  if (data === undefined) return null
  return (
    <Card
      title="Signing in"
      description="Passkeys always work. Other ways begin weaker sessions: sensitive actions ask for a passkey."
    >
      <div className="flex flex-col gap-4">
        <SwitchField
          label="Sign-in codes"
          hint="Mailed to members who have opened an invitation that was mailed to them."
          checked={data.emailCode}
          disabled={isPending}
          onChange={mutate}
        />
        <Oidc oidc={data.oidc} onChanged={() => queries.invalidateQueries({ queryKey: KEY })} />
        <p className="text-sm text-soft [overflow-wrap:anywhere]">Members sign in at {data.signInUrl}</p>
      </div>
    </Card>
  )
}
