import type { DelegatedSessionWithToken, Wallet } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { allows, api } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { Page } from '../../components/layout/page.tsx'
import { EmptyState } from '../../components/layout/states.tsx'
import { Secret } from '../../components/records/copy.tsx'
import { useFilters } from '../../components/table/filters.tsx'
import { useSession } from '../../shell/session-context.ts'
import { Compose } from './new/compose.tsx'
import { OwnerCard } from './new/owner-card.tsx'

const BACK = { to: '/delegated-sessions', label: 'Delegated sessions' }

/**
 * The tenant's issuer of test tokens. The tenant's parties share one namespace, which is read from the user's party or
 * an embedded wallet's. Empty if neither is visible; undefined while loading.
 */
function useIssuer(userId: string | undefined, wallet: Wallet | undefined): string | undefined {
  const { session } = useSession()
  const { data, isLoading } = useQuery({
    queryKey: ['users', 'picked', userId],
    queryFn: ({ signal }) => api.users.get(userId ?? '', { signal }),
    enabled: userId !== undefined && allows(session, 'users:read'),
    retry: false,
    staleTime: 60_000,
  })
  if (isLoading) return undefined
  const party = data?.partyId ?? (wallet?.custody === 'embedded' ? wallet.partyId : undefined)
  const namespace = party?.split('::').at(-1)
  return namespace === undefined ? '' : `issuer::${namespace}`
}

function Token({ created }: { created: DelegatedSessionWithToken }) {
  const navigate = useNavigate()
  const go = () =>
    void navigate({
      to: '/delegated-sessions/$sessionId',
      params: { sessionId: created.id },
      search: { tab: 'try' },
    } as never)
  return (
    <Page title="Session created" back={BACK}>
      <Card
        title="Session token"
        description="The holder of the token can act within the policy. The dashboard keeps it in memory until you leave, so that you can try the session next."
      >
        <Secret value={created.token} label="Session token" onDone={go} />
      </Card>
    </Page>
  )
}

/** Starts a delegated session: user, policy and limits; then shows its token, once. */
export function NewDelegatedSessionPage() {
  const { session } = useSession()
  const { values, set } = useFilters()
  const userId = values.user_id
  const [created, setCreated] = useState<DelegatedSessionWithToken | null>(null)
  const wallet = useQuery({
    queryKey: ['wallets', 'of', userId],
    queryFn: ({ signal }) => api.users.wallet(userId ?? '', { signal }),
    enabled: userId !== undefined && allows(session, 'users:act_as'),
    retry: false,
  })
  const issuer = useIssuer(userId, wallet.data)
  if (created !== null) return <Token created={created} />
  if (!allows(session, 'users:act_as'))
    return (
      <Page title="New delegated session" back={BACK}>
        <Card flush>
          <EmptyState title="Your API key cannot create sessions">It needs the scope users:act_as.</EmptyState>
        </Card>
      </Page>
    )
  return (
    <Page
      title="New delegated session"
      back={BACK}
      description="Lets an agent or a service act from the wallet of a user. Every call is checked against the policy."
    >
      <OwnerCard userId={userId} query={wallet} onChange={(next) => set({ user_id: next })} />
      {wallet.data === undefined || issuer === undefined ? null : (
        <Compose key={wallet.data.id} wallet={wallet.data} issuer={issuer} onCreated={setCreated} />
      )}
    </Page>
  )
}
