import { isHalfkeyError, type TransferOffer, type TransferOffers, type Wallet } from '@halfkey/sdk'
import { useInfiniteQuery } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { EmptyState, ErrorState, Loading } from '../../components/layout/states.tsx'
import { Badge } from '../../components/records/badge.tsx'
import { Party } from '../../components/records/party.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { LIVE } from '../../query-client.ts'

const STATUS: Record<TransferOffer['status'], string> = {
  open: 'Open',
  accepted: 'Accepted',
  rejected: 'Rejected',
  withdrawn: 'Withdrawn',
  expired: 'Expired',
  ended: 'Ended',
}

/** When an offer expires, or when it ended. */
function When({ offer: { status, executeBefore, endedAt } }: { offer: TransferOffer }) {
  if (status === 'open' || status === 'expired')
    return (
      <>
        {status === 'open' ? 'Expires' : 'Expired'} <RelativeTime at={executeBefore} />
      </>
    )
  return (
    <>
      Ended <RelativeTime at={endedAt} none="at an unknown time" />
    </>
  )
}

/** One offer. The token's id and what the sender wrote are anybody's text. */
function Offer({ offer }: { offer: TransferOffer }) {
  const { direction, amount, instrument, sender, receiver, meta } = offer
  const isIncoming = direction === 'incoming'
  return (
    <li className="flex flex-wrap items-start justify-between gap-3 px-5 py-3 text-sm">
      <div className="min-w-0">
        <p className="font-medium [overflow-wrap:anywhere]">
          {amount} <bdi>{instrument.id}</bdi> {isIncoming ? 'offered by' : 'offered to'}
        </p>
        <Party id={isIncoming ? sender : receiver} />
        <p className="text-soft">
          Registry <Party id={instrument.admin} />
        </p>
        {Object.entries(meta ?? {}).map(([key, text]) => (
          <p key={key} className="text-soft [overflow-wrap:anywhere]">
            <bdi>{key}</bdi>: <bdi>{text}</bdi>
          </p>
        ))}
      </div>
      <div className="flex flex-col items-start gap-1 sm:items-end">
        <Badge>{STATUS[offer.status]}</Badge>
        <span className="text-soft">
          <When offer={offer} />
        </span>
      </div>
    </li>
  )
}

function Shown({ pages }: { pages: readonly TransferOffers[] }) {
  const offers = pages.flatMap((page) => page.offers)
  if (offers.length === 0)
    return (
      <EmptyState title="No transfer offers">
        {pages[0]?.state === 'reading'
          ? 'Halfkey is reading the ledger. Offers appear when it has finished.'
          : 'Transfers that wait for their receiver appear here. They stay for 30 days after they ended.'}
      </EmptyState>
    )
  return (
    <ul aria-label="Transfer offers" className="divide-y">
      {offers.map((offer) => (
        <Offer key={offer.id} offer={offer} />
      ))}
    </ul>
  )
}

/** Transfers of tokens that were offered to or by a wallet, newest first. */
export function OffersOf({ wallet: { id } }: { wallet: Wallet }) {
  const query = useInfiniteQuery({
    queryKey: ['wallets', id, 'transfer-offers'],
    queryFn: ({ signal, pageParam }) =>
      api.wallets.transferOffers(id, pageParam === null ? {} : { cursor: pageParam }, { signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.nextCursor,
    ...LIVE,
  })
  if (isHalfkeyError(query.error, 'offers_unavailable'))
    return (
      <Card flush>
        <EmptyState title="Transfer offers cannot be listed">
          Halfkey does not follow the tokens of this wallet's ledger, or cannot read them for this wallet.
        </EmptyState>
      </Card>
    )
  return (
    <Card flush>
      {query.data !== undefined ? (
        <Shown pages={query.data.pages} />
      ) : query.isPending ? (
        <Loading />
      ) : (
        <ErrorState error={query.error} onRetry={() => void query.refetch()} />
      )}
      {query.hasNextPage ? (
        <div className="border-t px-5 py-3">
          <Button onClick={() => void query.fetchNextPage()} busy={query.isFetchingNextPage}>
            Show more
          </Button>
        </div>
      ) : null}
    </Card>
  )
}
