import { isHalfkeyError, type User, type Wallet } from '@halfkey/sdk'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { allows, api, apiFor } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Detail, Details } from '../../components/layout/details.tsx'
import { Loaded } from '../../components/layout/loaded.tsx'
import { curl, EmptyState, ErrorState, Loading } from '../../components/layout/states.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { StatusBadge } from '../../components/records/badge.tsx'
import { CopyableId } from '../../components/records/copy.tsx'
import { CustodyXray } from '../../components/records/custody.tsx'
import { Party } from '../../components/records/party.tsx'
import { TimeDetail } from '../../components/records/record-details.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { messageOf } from '../../error-words.ts'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { FreezeButton } from '../wallets/freeze-button.tsx'

function useRefresh() {
  const queries = useQueryClient()
  return async () => {
    await queries.invalidateQueries({ queryKey: ['users'] })
    await queries.invalidateQueries({ queryKey: ['wallets'] })
  }
}

function NoWallet({ user }: { user: User }) {
  const { session } = useSession()
  const refresh = useRefresh()
  const toast = useToast()
  const creation = useMutation({
    mutationFn: () => apiFor(user.id).wallet.create(),
    onSuccess: async () => {
      await refresh()
      toast.done('Wallet created')
    },
    onError: (error) => toast.failed('The wallet was not created', messageOf(error)),
  })
  const mayAct = allows(session, 'users:act_as') && user.status === 'active'
  return (
    <Card flush title="Wallet">
      <EmptyState
        title="No wallet yet"
        command={curl(session.publicUrl, 'POST', '/users/me/wallet', {}, user.id)}
        action={
          mayAct ? (
            <Button tone="primary" busy={creation.isPending} onClick={() => creation.mutate()}>
              Create an embedded wallet
            </Button>
          ) : undefined
        }
      >
        The user creates a wallet in your app, or your server creates an embedded wallet, which Halfkey signs for.
      </EmptyState>
    </Card>
  )
}

function Custody({ wallet }: { wallet: Wallet }) {
  const query = useQuery({
    queryKey: ['wallets', wallet.id, 'custody'],
    queryFn: ({ signal }) => api.wallets.custody(wallet.id, { signal }),
    ...LIVE,
  })
  return (
    <Card title="Who can sign" description="According to the current records.">
      <Loaded query={query}>{(custody) => <CustodyXray custody={custody} />}</Loaded>
    </Card>
  )
}

function WalletFields({ wallet }: { wallet: Wallet }) {
  return (
    <Details>
      <Detail label="Status">
        <StatusBadge status={wallet.status} />
      </Detail>
      <Detail label="Custody">{wallet.custody.replaceAll('_', ' ')}</Detail>
      <Detail label="Ledger">
        <bdi>{wallet.ledger}</bdi>
      </Detail>
      <Detail label="Wallet id">
        <RecordLink id={wallet.id}>
          <code className="font-mono text-[0.8125rem] [overflow-wrap:anywhere]">{wallet.id}</code>
        </RecordLink>
      </Detail>
      <Detail label="Party">
        <Party id={wallet.partyId} />
      </Detail>
      <Detail label="Public key">
        {wallet.publicKey === null ? '–' : <CopyableId id={wallet.publicKey} what="public key" />}
      </Detail>
      <TimeDetail label="Created" at={wallet.createdAt} />
    </Details>
  )
}

/** A user's wallet, and who can sign with its key. */
export function WalletTab({ user }: { user: User }) {
  const { session } = useSession()
  const query = useQuery({
    queryKey: ['users', 'one', user.id, 'wallet'],
    queryFn: ({ signal }) => api.users.wallet(user.id, { signal }),
    ...LIVE,
  })
  if (query.isError && isHalfkeyError(query.error, 'wallet_not_found')) return <NoWallet user={user} />
  if (query.data === undefined)
    return (
      <Card flush>
        {query.isPending ? <Loading /> : <ErrorState error={query.error} onRetry={() => void query.refetch()} />}
      </Card>
    )
  const wallet = query.data
  return (
    <>
      <Custody wallet={wallet} />
      <Card title="Wallet" actions={allows(session, 'wallets:write') ? <FreezeButton wallet={wallet} /> : undefined}>
        <WalletFields wallet={wallet} />
      </Card>
    </>
  )
}
