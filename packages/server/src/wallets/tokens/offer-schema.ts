import { z } from 'zod'
import { IdParam, Paging, Time } from '../../platform/http/route.ts'
import { Amount, Instrument, ListHoldings, WalletHoldings } from './schema.ts'

export const OfferParams = IdParam.extend({ offerId: z.string() })

const Direction = z.enum(['incoming', 'outgoing']).meta({
  description: '`incoming`: offered to this wallet. `outgoing`: offered by it.',
})

const Status = z.enum(['open', 'accepted', 'rejected', 'withdrawn', 'expired', 'ended']).meta({
  description:
    '`expired`: its time is over; the sender may still have to withdraw it. `ended`: it is over and it is not known how, as what happened was not to be read any more.',
})

export const TransferOffer = z
  .object({
    id: z.string().meta({ example: 'ofr_01jb2m7x9kq4t8v6w0r3s5y1zm' }),
    walletId: z.string().meta({ example: 'wal_01jb2m7x9kq4t8v6w0r3s5y1zc' }),
    ledger: z.string().meta({ example: 'canton' }),
    direction: Direction,
    status: Status,
    awaits: z.enum(['receiver', 'others']).meta({
      description:
        '`receiver`: the receiver can accept it. `others`: somebody else has to act first, by rules of the registry.',
    }),
    sender: z.string().meta({ description: 'The party that offers.' }),
    receiver: z.string().meta({ description: 'The party that can accept.' }),
    instrument: Instrument,
    amount: Amount,
    requestedAt: Time,
    executeBefore: Time.meta({ description: 'From then on, nobody should be able to accept it.' }),
    meta: z
      .record(z.string(), z.string())
      .nullable()
      .meta({
        description:
          "What the sender wrote, such as a reason: anybody's text, escape it. Null if it has more than 20 entries or 4,000 characters, or characters that cannot be stored.",
        example: { 'splice.lfdecentralizedtrust.org/reason': 'Invoice 1042' },
      }),
    templateId: z.string().meta({ description: 'The interface of transfers, by which commands and policies name it.' }),
    contractId: z.string().meta({
      description: 'The contract by which it is answered. It changes if a transfer takes several steps.',
    }),
    createdAt: Time.meta({ description: "By the ledger's clock." }),
    updateId: z
      .string()
      .nullable()
      .meta({ description: "The ledger's id of the transaction that ended it, if known." }),
    endedAt: Time.nullable().meta({ description: "When that was, by the ledger's clock." }),
  })
  .meta({ id: 'TransferOffer' })
export type TransferOffer = z.infer<typeof TransferOffer>

export const TransferOffers = WalletHoldings.pick({
  walletId: true,
  partyId: true,
  ledger: true,
  state: true,
  asOf: true,
})
  .extend({
    offers: z.array(TransferOffer).meta({ description: 'Newest first.' }),
    nextCursor: z.string().nullable(),
  })
  .meta({ id: 'TransferOffers' })
export type TransferOffers = z.infer<typeof TransferOffers>

export const ListOffers = z.strictObject({
  direction: Direction.optional(),
  status: Status.optional(),
  admin: ListHoldings.shape.admin,
  instrument: ListHoldings.shape.instrument,
  page_size: Paging.page_size,
  cursor: z
    .string()
    .regex(/^ofr_[0-9a-hjkmnp-tv-z]{26}$/)
    .optional()
    .meta({ description: '`nextCursor` of the previous page.', 'x-expected': 'the nextCursor of an earlier page' }),
})
export type ListOffers = z.infer<typeof ListOffers>
