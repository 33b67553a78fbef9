import { useQuery } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { Loaded } from '../../components/layout/loaded.tsx'
import { CustodyXray } from '../../components/records/custody.tsx'
import { custodySentence } from './custody-words.ts'

/** Who can sign with a wallet's key today according to the service's records, and a summary. */
export function CustodyCard({ walletId }: { walletId: string }) {
  const query = useQuery({
    queryKey: ['wallets', walletId, 'custody'],
    queryFn: ({ signal }) => api.wallets.custody(walletId, { signal }),
  })
  return (
    <Card
      title="Who can sign today"
      description="Based on the records of Halfkey. It does not know about copies of keys that people keep elsewhere."
      flush={query.data === undefined}
    >
      <Loaded query={query}>
        {(custody) => (
          <>
            <CustodyXray custody={custody} />
            <p className="mt-4 max-w-3xl text-sm text-soft">{custodySentence(custody)}</p>
          </>
        )}
      </Loaded>
    </Card>
  )
}
