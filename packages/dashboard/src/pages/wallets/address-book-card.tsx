import type { Recipient } from '@halfkey/sdk'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { allows, api } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { ConfirmButton } from '../../components/layout/confirm-button.tsx'
import { Loaded } from '../../components/layout/loaded.tsx'
import { EmptyState } from '../../components/layout/states.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { Party } from '../../components/records/party.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'

function RemoveButton({ walletId, entry }: { walletId: string; entry: Recipient }) {
  const queries = useQueryClient()
  const toast = useToast()
  const act = async () => {
    await api.wallets.removeRecipient(walletId, entry.id)
    toast.done('Removed')
    await queries.invalidateQueries({ queryKey: ['wallets', walletId, 'recipients'] })
  }
  return (
    <ConfirmButton label="Remove" title="Remove this recipient?" action="Remove" danger onConfirm={act}>
      <p>Delegated sessions that pay only parties of the address book can no longer pay this party.</p>
      <p>Only the owner can add it again.</p>
    </ConfirmButton>
  )
}

/** An entry. Its label was written by the owner. */
function Entry({ walletId, entry }: { walletId: string; entry: Recipient }) {
  const { session } = useSession()
  return (
    <li className="flex flex-wrap items-center justify-between gap-3 px-5 py-3 text-sm">
      <div className="min-w-0">
        <p className="font-medium [overflow-wrap:anywhere]">
          <bdi>{entry.label}</bdi>
        </p>
        <Party id={entry.recipient} />
        <p className="text-soft">
          Counts from <RelativeTime at={entry.countsFrom} />
        </p>
      </div>
      {allows(session, 'wallets:write') ? <RemoveButton walletId={walletId} entry={entry} /> : null}
    </li>
  )
}

function Shown({ walletId, recipients }: { walletId: string; recipients: readonly Recipient[] }) {
  if (recipients.length === 0)
    return (
      <EmptyState title="No recipients">
        The owner adds recipients with their own access token. Sessions whose policy says so pay only these.
      </EmptyState>
    )
  return (
    <ul aria-label="Address book" className="divide-y">
      {recipients.map((entry) => (
        <Entry key={entry.id} walletId={walletId} entry={entry} />
      ))}
    </ul>
  )
}

/** Whom delegated sessions with the condition "address book only" may pay. */
export function AddressBookCard({ walletId }: { walletId: string }) {
  const query = useQuery({
    queryKey: ['wallets', walletId, 'recipients'],
    queryFn: ({ signal }) => api.wallets.recipients(walletId, { signal }),
    ...LIVE,
  })
  return (
    <Card title="Address book" flush>
      <Loaded query={query}>{({ recipients }) => <Shown walletId={walletId} recipients={recipients} />}</Loaded>
    </Card>
  )
}
