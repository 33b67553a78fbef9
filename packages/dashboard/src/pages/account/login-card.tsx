import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import { ownLogin } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { messageOf } from '../../error-words.ts'
import { takeLoginOutcome } from '../../login-outcome.ts'

const KEY = ['own-login']

/** Whether the login of the member's organisation signs them in. Nothing, if the tenant has none. */
export function LoginCard() {
  const queries = useQueryClient()
  const { done, failed } = useToast()
  const { data } = useQuery({ queryKey: KEY, queryFn: () => ownLogin.read() })
  const { mutate, isPending } = useMutation({
    mutationFn: async (connected: boolean) => {
      if (!connected) return location.assign(await ownLogin.connect())
      await ownLogin.disconnect()
      done('Account disconnected')
      await queries.invalidateQueries({ queryKey: KEY })
    },
    onError: (error) => failed('Nothing was changed', messageOf(error)),
  })
  useEffect(() => {
    const outcome = takeLoginOutcome()
    if (outcome?.connected) done('Account connected', 'You can sign in with it from now on.')
    else if (outcome !== null) failed('The account was not connected', outcome.words)
  }, [done, failed])
  if (data == null) return null
  return (
    <Card
      title={<bdi>{data.name}</bdi>}
      description={
        data.connected
          ? 'Your account there signs you in. Sensitive actions still ask for a passkey.'
          : 'Connect your account there to sign in with it. It must have your verified address.'
      }
      actions={
        <Button busy={isPending} onClick={() => mutate(data.connected)}>
          {data.connected ? 'Disconnect' : 'Connect'}
        </Button>
      }
    />
  )
}
