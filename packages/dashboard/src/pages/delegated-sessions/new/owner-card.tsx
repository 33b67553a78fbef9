import { isHalfkeyError, type Wallet } from '@halfkey/sdk'
import { type UseQueryResult, useMutation, useQueryClient } from '@tanstack/react-query'
import { apiFor } from '../../../api.ts'
import { Button } from '../../../components/controls/button.tsx'
import { UserPicker } from '../../../components/controls/user-picker.tsx'
import { Card } from '../../../components/layout/card.tsx'
import { useToast } from '../../../components/layout/toast.tsx'
import { StatusBadge } from '../../../components/records/badge.tsx'
import { RecordLink } from '../../../components/records/record-link.tsx'
import { messageOf } from '../../../error-words.ts'
import { CUSTODY } from '../../wallets/custody-words.ts'

function NoWallet({ userId }: { userId: string }) {
  const queries = useQueryClient()
  const toast = useToast()
  const create = useMutation({
    mutationFn: () => apiFor(userId).wallet.create(),
    onSuccess: async () => {
      toast.done('Wallet created')
      await queries.invalidateQueries({ queryKey: ['wallets'] })
    },
  })
  return (
    <div className="flex flex-wrap items-center gap-3">
      <p className="text-sm text-soft">This user has no wallet. A session needs one.</p>
      <Button busy={create.isPending} onClick={() => create.mutate()}>
        Create an embedded wallet
      </Button>
      {create.isError ? (
        <p role="alert" className="text-sm text-danger">
          {messageOf(create.error)}
        </p>
      ) : null}
    </div>
  )
}

function Found({ userId, query }: { userId: string; query: UseQueryResult<Wallet> }) {
  const wallet = query.data
  if (query.isPending) return <p className="text-sm text-soft">Loading the wallet…</p>
  if (wallet === undefined) {
    if (isHalfkeyError(query.error, 'wallet_not_found')) return <NoWallet userId={userId} />
    return (
      <p role="alert" className="text-sm text-danger">
        {isHalfkeyError(query.error, 'not_found') ? 'This user does not exist.' : messageOf(query.error)}
      </p>
    )
  }
  return (
    <div className="flex flex-col gap-2 text-sm">
      <p className="flex flex-wrap items-center gap-2">
        <span className="text-soft">{CUSTODY[wallet.custody]} wallet</span>
        <RecordLink id={wallet.id} />
        <StatusBadge status={wallet.status} />
      </p>
      {wallet.custody === 'embedded' ? null : (
        <p className="text-warn">
          The user holds the key. A server can create a session only if the app setting mpc.allowServer is on. Otherwise
          the user creates it while signed in.
        </p>
      )}
      {wallet.status === 'frozen' ? <p className="text-warn">The wallet is frozen. Unfreeze it first.</p> : null}
    </div>
  )
}

/** Selects the user whose wallet the session acts from. */
export function OwnerCard({
  userId,
  query,
  onChange,
}: {
  userId: string | undefined
  query: UseQueryResult<Wallet>
  onChange: (userId: string | undefined) => void
}) {
  return (
    <Card title="Wallet owner">
      <div className="flex flex-col gap-4">
        <div className="max-w-md">
          <UserPicker label="User" userId={userId} onChange={onChange} />
        </div>
        {userId === undefined ? null : <Found userId={userId} query={query} />}
      </div>
    </Card>
  )
}
