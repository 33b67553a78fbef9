import type { Wallet } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { allows, api } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { Detail, Details } from '../../components/layout/details.tsx'
import { Loaded } from '../../components/layout/loaded.tsx'
import { Page } from '../../components/layout/page.tsx'
import { Tabs } from '../../components/layout/tabs.tsx'
import { Badge, StatusBadge } from '../../components/records/badge.tsx'
import { CopyableId, JsonBlock } from '../../components/records/copy.tsx'
import { IdDetail, TimeDetail } from '../../components/records/record-details.tsx'
import { UserLink } from '../../components/records/user-link.tsx'
import { useFilters } from '../../components/table/filters.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { DenialsOf } from '../delegated-sessions/denials/denials-of.tsx'
import { SessionsOf } from '../delegated-sessions/sessions-of.tsx'
import { TransactionsOf } from '../transactions/transactions-of.tsx'
import { AddressBookCard } from './address-book-card.tsx'
import { BudgetsCard } from './budgets-card.tsx'
import { CustodyCard } from './custody-card.tsx'
import { CUSTODY } from './custody-words.ts'
import { OffersOf } from './offers-of.tsx'
import { WalletActions } from './wallet-actions.tsx'

const ORIGINS = { dkg: 'generated as shares', client_dealt: 'split by the client' } as const

function Facts({ wallet }: { wallet: Wallet }) {
  return (
    <Card title="Details">
      <Details>
        <Detail label="Owner">
          <UserLink userId={wallet.userId} />
        </Detail>
        <Detail label="Custody">
          <Badge>{CUSTODY[wallet.custody]}</Badge>
        </Detail>
        <Detail label="Ledger">{wallet.ledger}</Detail>
        {wallet.keyOrigin === null ? null : <Detail label="Key">{ORIGINS[wallet.keyOrigin]}</Detail>}
        <TimeDetail label="Created" at={wallet.createdAt} />
        <TimeDetail label="Changed" at={wallet.updatedAt} />
      </Details>
      <dl className="mt-4 flex flex-col gap-3 border-t pt-4">
        <IdDetail label="Party" id={wallet.partyId} what="party" />
        {wallet.address === null ? null : <IdDetail label="Address" id={wallet.address} what="address" />}
        <Detail label={`Public key (${wallet.curve})`}>
          {wallet.publicKey === null ? '–' : <CopyableId id={wallet.publicKey} what="public key" />}
        </Detail>
      </dl>
    </Card>
  )
}

function Shown({ wallet }: { wallet: Wallet }) {
  const { values, set } = useFilters()
  const { session } = useSession()
  const tabs = [
    {
      value: 'transactions',
      label: 'Transactions',
      content: (
        <TransactionsOf
          filter={{ walletId: wallet.id }}
          empty="Transactions that delegated sessions execute from this wallet appear here."
        />
      ),
    },
    // Offers are followed on ledgers that are reached over a network.
    ...(wallet.ledger === 'embedded'
      ? []
      : [{ value: 'offers', label: 'Transfer offers', content: <OffersOf wallet={wallet} /> }]),
    ...(allows(session, 'delegated_sessions:read')
      ? [
          {
            value: 'sessions',
            label: 'Delegated sessions',
            content: (
              <SessionsOf filter={{ walletId: wallet.id }} empty="No agent or service can act from this wallet." />
            ),
          },
          {
            value: 'denials',
            label: 'Refused attempts',
            content: <DenialsOf of="wallet" id={wallet.id} />,
          },
        ]
      : []),
    { value: 'json', label: 'JSON', content: <JsonBlock label="wallet" value={wallet} /> },
  ]
  const chosen = tabs.find(({ value }) => value === values.tab)?.value ?? 'transactions'
  return (
    <>
      <CustodyCard walletId={wallet.id} />
      <Facts wallet={wallet} />
      <BudgetsCard walletId={wallet.id} />
      <AddressBookCard walletId={wallet.id} />
      <Tabs
        label="Wallet sections"
        value={chosen}
        onChange={(tab) => set({ tab: tab === 'transactions' ? undefined : tab })}
        tabs={tabs}
      />
    </>
  )
}

/** One wallet: who can sign, its ledger details, and its transactions. */
export function WalletPage() {
  const { walletId } = useParams({ strict: false }) as { walletId: string }
  const query = useQuery({
    queryKey: ['wallets', walletId],
    queryFn: ({ signal }) => api.wallets.get(walletId, { signal }),
    ...LIVE,
  })
  const wallet = query.data
  return (
    <Page
      title="Wallet"
      back={{ to: '/wallets', label: 'Wallets' }}
      heading={
        wallet === undefined ? undefined : (
          <span className="inline-flex flex-wrap items-center gap-3">
            Wallet <StatusBadge status={wallet.status} />
          </span>
        )
      }
      description={<CopyableId id={walletId} what="wallet id" />}
      actions={wallet === undefined ? undefined : <WalletActions wallet={wallet} />}
    >
      <Loaded query={query} boxed>
        {(loaded) => <Shown wallet={loaded} />}
      </Loaded>
    </Page>
  )
}
