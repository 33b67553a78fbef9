import { z } from 'zod'
import { Paging, Time } from '../../platform/http/route.ts'

const TEXT_CHARS_MAX = 1_000
const CURSOR = /^\d{1,13}:[0-9a-f]{2,510}$/

export const Instrument = z
  .object({
    admin: z.string().meta({ description: 'The party that administers the token.', example: 'dso::1220…' }),
    id: z.string().meta({ description: "The token's id at its admin. Anybody's text: escape it.", example: 'Amulet' }),
  })
  .meta({ id: 'Instrument' })

export const Amount = z.string().meta({ example: '12.5' })

const Holding = z
  .object({
    contractId: z.string(),
    instrument: Instrument,
    amount: Amount,
    lock: z
      .object({
        holders: z.array(z.string()).meta({ description: 'Parties without whom it stays locked.' }),
        expiresAt: Time.nullable(),
        context: z.string().nullable().meta({ description: 'In the words of whoever locked it.' }),
      })
      .nullable()
      .meta({ description: 'Null while it can be spent.' }),
    createdAt: Time.nullable().meta({ description: "By the ledger's clock. Null on the embedded ledger." }),
  })
  .meta({ id: 'Holding' })
export type Holding = z.infer<typeof Holding>

export const WalletHoldings = z
  .object({
    walletId: z.string().meta({ example: 'wal_01jb2m7x9kq4t8v6w0r3s5y1zc' }),
    partyId: z.string(),
    ledger: z.string().meta({ example: 'canton' }),
    state: z.enum(['reading', 'current']).meta({
      description:
        '`current`: the holdings as of `asOf`. `reading`: all holdings are being read, for the first time or again; until then the list is old or empty.',
    }),
    asOf: z
      .object({
        offset: z.int().meta({ description: "The ledger's offset.", example: 42 }),
        at: Time.nullable().meta({ description: "The ledger's time there, if it says it." }),
      })
      .nullable()
      .meta({
        description:
          'Null while `reading`. On the embedded ledger, the offset of the newest holding; null without one.',
      }),
    instruments: z
      .array(
        z.object({
          instrument: Instrument,
          amount: Amount.meta({ description: 'The sum, with what is locked.' }),
          locked: Amount,
          holdings: z.int().meta({ description: 'How many contracts.' }),
        }),
      )
      .meta({
        description:
          'The sums, by admin and id; at most 200. Anybody may name a token alike: its admin tells them apart.',
      }),
    complete: z.boolean().meta({
      description:
        'False if the wallet holds more tokens than are summed, or on the embedded ledger if its party sees more holdings, its own or not, than were looked at: the newest 10,000.',
    }),
    holdings: z.array(Holding).meta({ description: 'Newest first.' }),
    nextCursor: z.string().nullable(),
  })
  .meta({ id: 'WalletHoldings' })
export type WalletHoldings = z.infer<typeof WalletHoldings>

export const ListHoldings = z.strictObject({
  admin: z.string().min(1).max(TEXT_CHARS_MAX).optional().meta({ description: 'Only tokens of this admin.' }),
  instrument: z.string().min(1).max(TEXT_CHARS_MAX).optional().meta({ description: 'Only tokens with this id.' }),
  page_size: Paging.page_size,
  cursor: z
    .string()
    .regex(CURSOR)
    .optional()
    .meta({ description: '`nextCursor` of the previous page.', 'x-expected': 'the nextCursor of an earlier page' }),
})
export type ListHoldings = z.infer<typeof ListHoldings>
