import type { Transaction } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { CircleAlert } from 'lucide-react'
import { api } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { Detail, Details } from '../../components/layout/details.tsx'
import { Loaded } from '../../components/layout/loaded.tsx'
import { Page } from '../../components/layout/page.tsx'
import { Tabs } from '../../components/layout/tabs.tsx'
import { StatusBadge } from '../../components/records/badge.tsx'
import { JsonBlock } from '../../components/records/copy.tsx'
import { IdDetail, TimeDetail } from '../../components/records/record-details.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { UserLink } from '../../components/records/user-link.tsx'
import { useFilters } from '../../components/table/filters.tsx'
import { LIVE } from '../../query-client.ts'
import { Effects } from './effects.tsx'
import { operationsWords } from './operation-words.ts'

const MEANING: Record<Transaction['status'], string> = {
  received: 'Received, but not signed yet.',
  reserved: 'The amount that it can spend is reserved. It is not signed yet.',
  approval_required: 'Waiting for the wallet owner to approve it.',
  signature_required: 'Waiting for the signature of the wallet owner.',
  submitted: 'Signed and submitted to the ledger, which has not confirmed it yet.',
  completed: 'Final: executed on the ledger.',
  failed: 'Final: it was not executed and will not be.',
}

/** A final status never changes. */
const isFinal = (status: string | undefined) => status === 'completed' || status === 'failed'

function Failure({ error }: { error: NonNullable<Transaction['error']> }) {
  return (
    <div className="flex gap-3 rounded-card border border-danger/40 bg-danger-wash px-5 py-4">
      <CircleAlert aria-hidden className="mt-0.5 size-5 flex-none text-danger" />
      <div className="min-w-0 [overflow-wrap:anywhere]">
        <p className="font-medium text-danger">{error.message}</p>
        <p className="mt-0.5 font-mono text-[0.8125rem] text-danger">{error.code}</p>
      </div>
    </div>
  )
}

function Facts({ transaction }: { transaction: Transaction }) {
  return (
    <Card title="Details">
      <Details>
        <Detail label="Owner">
          <UserLink userId={transaction.userId} />
        </Detail>
        <Detail label="Wallet">
          <RecordLink id={transaction.walletId} />
        </Detail>
        <Detail label="Delegated session">
          <RecordLink id={transaction.delegatedSessionId} />
        </Detail>
        <IdDetail label="Command id" id={transaction.commandId} what="command id" />
        <Detail label="Ledger">
          {transaction.ledger}
          {transaction.offset === null ? null : <span className="text-soft"> at offset {transaction.offset}</span>}
        </Detail>
        <TimeDetail label="Created" at={transaction.createdAt} />
        <TimeDetail
          label={isFinal(transaction.status) ? 'Completed' : 'Expires'}
          at={isFinal(transaction.status) ? transaction.completedAt : transaction.expiresAt}
        />
      </Details>
      <dl className="mt-4 flex flex-col gap-3 border-t pt-4">
        <IdDetail label="Acting party" id={transaction.partyId} what="party" />
        {transaction.updateId === null ? null : (
          <IdDetail label="Update id" id={transaction.updateId} what="update id" />
        )}
      </dl>
    </Card>
  )
}

function Shown({ transaction }: { transaction: Transaction }) {
  const { values, set } = useFilters()
  const { effects, status } = transaction
  return (
    <>
      {transaction.error === null ? null : <Failure error={transaction.error} />}
      <Facts transaction={transaction} />
      <Tabs
        label="Transaction sections"
        value={values.tab === 'json' ? 'json' : 'effects'}
        onChange={(tab) => set({ tab: tab === 'effects' ? undefined : tab })}
        tabs={[
          {
            value: 'effects',
            label: 'Effects',
            content: (
              <Card
                flush
                title={status === 'completed' ? 'Effects' : 'Planned effects'}
                description="In ledger order. Exercising a choice archives the contract unless its template says otherwise."
              >
                {effects.length === 0 ? (
                  <p className="px-5 pb-5 text-sm text-soft">
                    No effects. The ledger has not prepared this transaction yet, or it failed before that.
                  </p>
                ) : (
                  <div className="border-t">
                    <Effects effects={effects} />
                  </div>
                )}
              </Card>
            ),
          },
          { value: 'json', label: 'JSON', content: <JsonBlock label="transaction" value={transaction} /> },
        ]}
      />
    </>
  )
}

/** One transaction: what it did, for whom, by which session, and why it failed. */
export function TransactionPage() {
  const { transactionId } = useParams({ strict: false }) as { transactionId: string }
  const query = useQuery({
    queryKey: ['transactions', transactionId],
    queryFn: ({ signal }) => api.transactions.get(transactionId, { signal }),
    refetchInterval: ({ state }) => (isFinal(state.data?.status) ? false : LIVE.refetchInterval),
  })
  const transaction = query.data
  const title = transaction === undefined ? 'Transaction' : operationsWords(transaction.operations)
  return (
    <Page
      title={title}
      back={{ to: '/transactions', label: 'Transactions' }}
      heading={
        transaction === undefined ? undefined : (
          <span className="inline-flex flex-wrap items-center gap-3">
            {title} <StatusBadge status={transaction.status} />
          </span>
        )
      }
      description={transaction === undefined ? undefined : MEANING[transaction.status]}
    >
      <Loaded query={query} boxed>
        {(loaded) => <Shown transaction={loaded} />}
      </Loaded>
    </Page>
  )
}
