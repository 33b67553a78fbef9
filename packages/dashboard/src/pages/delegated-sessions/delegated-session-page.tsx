import type { DelegatedSession } from '@halfkey/sdk'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { allows, api } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { ConfirmButton } from '../../components/layout/confirm-button.tsx'
import { Detail, Details } from '../../components/layout/details.tsx'
import { Loaded } from '../../components/layout/loaded.tsx'
import { Page } from '../../components/layout/page.tsx'
import { Tabs } from '../../components/layout/tabs.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { StatusBadge } from '../../components/records/badge.tsx'
import { CopyableId, JsonBlock } from '../../components/records/copy.tsx'
import { TimeDetail } from '../../components/records/record-details.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { UserLink } from '../../components/records/user-link.tsx'
import { useFilters } from '../../components/table/filters.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { TransactionsOf } from '../transactions/transactions-of.tsx'
import { DenialsOf } from './denials/denials-of.tsx'
import { PolicyInWords } from './policy/policy-view.tsx'
import { SpendLeftList } from './policy/spend-left.tsx'
import { TryIt } from './try/try-it.tsx'

function Revoke({ session }: { session: DelegatedSession }) {
  const holder = useSession()
  const queries = useQueryClient()
  const toast = useToast()
  if (!allows(holder.session, 'delegated_sessions:write'))
    return <p className="self-center text-sm text-soft">Your API key cannot revoke sessions.</p>
  if (session.status !== 'active') return null
  const revoke = async () => {
    const { inFlight } = await api.delegatedSessions.revoke(session.id)
    toast.done(
      'Session revoked',
      inFlight.length === 0
        ? 'It can no longer execute transactions.'
        : `${inFlight.length} signed ${inFlight.length === 1 ? 'transaction' : 'transactions'} can still be executed.`,
    )
    await queries.invalidateQueries({ queryKey: ['delegated-sessions'] })
  }
  return (
    <ConfirmButton label="Revoke" tone="danger" title="Revoke this session?" action="Revoke" onConfirm={revoke}>
      <p>The token stops working immediately and permanently. Halfkey signs nothing more for this session.</p>
      <p>Transactions that are already signed and submitted can still be executed.</p>
    </ConfirmButton>
  )
}

function Facts({ session }: { session: DelegatedSession }) {
  const { uses, maxUses } = session
  return (
    <Card title="Details">
      <Details>
        <Detail label="Owner">
          <UserLink userId={session.userId} />
        </Detail>
        <Detail label="Wallet">
          <RecordLink id={session.walletId} />
        </Detail>
        <Detail label="Use without the token">
          {session.serverExecute ? 'Allowed for secret keys' : 'Not allowed'}
        </Detail>
        <Detail label="Bound to a key">
          {session.boundKeyThumbprint === null ? (
            'No, the token is enough'
          ) : (
            <CopyableId id={session.boundKeyThumbprint} what="thumbprint" />
          )}
        </Detail>
        <Detail label="Uses">
          <span className="tabular-nums">{maxUses === null ? `${uses}, no limit` : `${uses} of ${maxUses}`}</span>
        </Detail>
        <TimeDetail label="Last used" at={session.lastUsedAt} none="Never" />
        <TimeDetail label="Created" at={session.createdAt} />
        {session.revokedAt === null ? (
          <TimeDetail label={session.status === 'expired' ? 'Expired' : 'Expires'} at={session.expiresAt} />
        ) : (
          <TimeDetail label="Revoked" at={session.revokedAt} />
        )}
      </Details>
    </Card>
  )
}

function Policy({ session }: { session: DelegatedSession }) {
  return (
    <div className="grid items-start gap-5 lg:grid-cols-2">
      <Card title="In words">
        <PolicyInWords policy={session.policy} />
      </Card>
      <Card title="As JSON">
        <JsonBlock label="policy" value={session.policy} />
      </Card>
    </div>
  )
}

function Shown({ session }: { session: DelegatedSession }) {
  const holder = useSession()
  const { values, set } = useFilters()
  const tabs = [
    { value: 'policy', label: 'Policy', content: <Policy session={session} /> },
    { value: 'try', label: 'Try it', content: <TryIt session={session} /> },
    { value: 'denials', label: 'Refused attempts', content: <DenialsOf of="session" id={session.id} /> },
    ...(allows(holder.session, 'wallets:read')
      ? [
          {
            value: 'transactions',
            label: 'Transactions',
            content: (
              <TransactionsOf
                filter={{ delegatedSessionId: session.id }}
                empty="Transactions that this session executes appear here. Refused attempts are on the tab beside this one."
              />
            ),
          },
        ]
      : []),
  ]
  const chosen = tabs.find(({ value }) => value === values.tab)?.value ?? 'policy'
  return (
    <>
      <Facts session={session} />
      <Card title="Left to spend">
        <SpendLeftList spend={session.remaining.spend} />
      </Card>
      <Tabs
        label="Session sections"
        value={chosen}
        onChange={(tab) => set({ tab: tab === 'policy' ? undefined : tab })}
        tabs={tabs}
      />
    </>
  )
}

/** One delegated session: its policy, what is left to spend, its transactions, and dry runs. */
export function DelegatedSessionPage() {
  const { sessionId } = useParams({ strict: false }) as { sessionId: string }
  const query = useQuery({
    queryKey: ['delegated-sessions', sessionId],
    queryFn: ({ signal }) => api.delegatedSessions.get(sessionId, { signal }),
    ...LIVE,
  })
  const session = query.data
  const name = session?.name ?? 'Delegated session'
  return (
    <Page
      title={name}
      back={{ to: '/delegated-sessions', label: 'Delegated sessions' }}
      heading={
        session === undefined ? undefined : (
          <span className="inline-flex flex-wrap items-center gap-3">
            <span dir="auto" className="line-clamp-3">
              {name}
            </span>
            <StatusBadge status={session.status} />
          </span>
        )
      }
      description={<CopyableId id={sessionId} what="session id" />}
      actions={session === undefined ? undefined : <Revoke session={session} />}
    >
      <Loaded query={query} boxed>
        {(loaded) => <Shown session={loaded} />}
      </Loaded>
    </Page>
  )
}
