import { z } from 'zod'
import { IdParam, Time } from '../../platform/http/route.ts'
import { PARTY_PATTERN } from '../../platform/ports/party.ts'

const LABEL_CHARS_MAX = 100

const expected = (text: string) => ({ 'x-expected': text })

export const RecipientParams = IdParam.extend({ recipientId: z.string() })

export const Recipient = z
  .object({
    id: z.string().meta({ example: 'rcp_01jb2m7x9kq4t8v6w0r3s5y1zk' }),
    recipient: z.string().meta({ description: 'The party.' }),
    label: z.string().meta({ example: 'Corner shop' }),
    countsFrom: Time.meta({ description: 'From then on, sessions can pay the party.' }),
    createdAt: Time,
  })
  .meta({ id: 'Recipient' })
export type Recipient = z.infer<typeof Recipient>

export const AddressBook = z
  .object({ walletId: z.string(), recipients: z.array(Recipient).meta({ description: 'Newest first.' }) })
  .meta({ id: 'AddressBook' })
export type AddressBook = z.infer<typeof AddressBook>

export const AddRecipient = z
  .strictObject({
    recipient: z
      .string()
      .regex(PARTY_PATTERN)
      .meta({
        ...expected('a party: a name, "::1220", and 64 hexadecimal digits in lower case'),
        example: 'shop::1220123087e6bf66d225d047e6af8b0944bc50cc470cb46afd9515a558bf55605441',
      }),
    label: z
      .string()
      .max(LABEL_CHARS_MAX)
      .regex(/\S/)
      .meta({
        ...expected(`text of 1 to ${LABEL_CHARS_MAX} characters, not only spaces`),
        description: 'What the owner calls the party.',
        example: 'Corner shop',
      }),
  })
  .meta({ id: 'AddRecipient' })
export type AddRecipient = z.infer<typeof AddRecipient>
