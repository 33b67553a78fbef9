import { z } from 'zod'
import { AMOUNT_PATTERN } from '../../platform/ports/amount.ts'

const expected = (text: string) => ({ 'x-expected': text })

export const Drip = z
  .strictObject({
    userId: z.string().meta({
      description: 'The user whose wallet gets the tokens. Without a wallet, the party of the future wallet gets them.',
    }),
    symbol: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$/)
      .meta({ ...expected('1 to 32 letters, digits, dots and dashes'), example: 'USDX' }),
    amount: z
      .string()
      .regex(AMOUNT_PATTERN)
      .meta({
        ...expected('a positive decimal string with at most 28 digits before the point and 10 after it'),
        example: '100.00',
      }),
  })
  .meta({ id: 'Drip' })
export type Drip = z.infer<typeof Drip>

export const Dripped = z
  .object({
    contractId: z.string(),
    templateId: z.string().meta({ example: 'Token:Holding' }),
    issuer: z.string().meta({ description: "The tenant's issuer party, for a policy's `spend`." }),
    owner: z.string(),
    symbol: z.string().meta({ example: 'USDX' }),
    amount: z.string().meta({ example: '100' }),
    updateId: z.string(),
    offset: z.int(),
  })
  .meta({ id: 'Dripped' })
export type Dripped = z.infer<typeof Dripped>
