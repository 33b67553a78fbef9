import { z } from 'zod'
import { PARTY_PATTERN } from '../../platform/ports/party.ts'

/** How long after it happened a payment can be settled, at most. */
export const TIMEOUT_SECONDS_MAX = 3_600
/** Decimals of every asset of the embedded ledger: an amount of 1 is 10^10 atomic units. */
export const DECIMALS = 10

const expected = (text: string) => ({ 'x-expected': text })

const Party = z
  .string()
  .regex(PARTY_PATTERN)
  .meta({
    ...expected('a party: <hint>::1220<64 hex characters>'),
    example: 'shop::1220123087e6bf66d225d047e6af8b0944bc50cc470cb46afd9515a558bf55605441',
  })

const Network = z.string().max(100).meta({
  description: 'The ledger, as CAIP-2 names networks: `halfkey:` and the id of the tenant.',
  example: 'halfkey:ten_01jb2m7x9kq4t8v6w0r3s5y1zp',
})

const Version = z.literal(2).meta({ description: 'The version of x402.' })

/** What a seller asks for: one entry of `accepts` in a 402 response. */
export const PaymentRequirements = z
  .strictObject({
    scheme: z.literal('exact'),
    network: Network,
    amount: z
      .string()
      .regex(/^[1-9]\d{0,37}$/)
      .meta({
        description: 'In atomic units: 10 000 000 000 of them are an amount of 1.',
        ...expected('a whole number of atomic units, as text'),
        example: '2500000000',
      }),
    asset: z
      .string()
      .regex(/^[A-Za-z0-9_-]{1,120}::1220[0-9a-f]{64}\/[A-Za-z0-9][A-Za-z0-9._-]{0,31}$/)
      .meta({
        description: 'The issuer, a slash, and the symbol.',
        ...expected('<issuer>/<symbol>'),
        example: 'issuer::1220123087e6bf66d225d047e6af8b0944bc50cc470cb46afd9515a558bf55605441/USDX',
      }),
    payTo: Party,
    maxTimeoutSeconds: z
      .int()
      .min(1)
      .max(TIMEOUT_SECONDS_MAX)
      .meta({ description: 'How long after it happened the payment can be settled.', example: 300 }),
    extra: z.strictObject({
      decimals: z.literal(DECIMALS),
      method: z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']),
      resource: z
        .string()
        .regex(/^https?:\/\/[\x21-\x7e]{1,2000}$/)
        .meta({
          description: 'The address of the request that is paid for, with its query.',
          ...expected('an http or https URL of at most 2000 ASCII characters'),
          example: 'https://api.example.com/weather?city=Paris',
        }),
    }),
  })
  .meta({ id: 'X402PaymentRequirements' })
export type PaymentRequirements = z.infer<typeof PaymentRequirements>

/** What a payer sends, decoded from the header `PAYMENT-SIGNATURE`. */
const PaymentPayload = z
  .strictObject({
    x402Version: Version,
    resource: z
      .strictObject({
        url: z.string().max(2_020),
        description: z.string().max(1_000).optional(),
        mimeType: z.string().max(200).optional(),
      })
      .optional(),
    accepted: PaymentRequirements,
    payload: z
      .strictObject({
        payer: Party,
        delegatedSessionId: z
          .string()
          .regex(/^dse_[0-9a-z]{26}$/)
          .meta({ ...expected('the id of a delegated session'), example: 'dse_01jb2m7x9kq4t8v6w0r3s5y1zg' }),
        nonce: z
          .string()
          .regex(/^[0-9a-f]{64}$/)
          .meta({
            description: '32 bytes as hex, which only the payer knows before they pay.',
            ...expected('64 lower-case hex digits'),
            example: '5d'.repeat(32),
          }),
      })
      .meta({
        description:
          "Proof of a transfer in this session: its `commandId` is `x402-` and the SHA-256, as hex, of the JSON array `['halfkey/x402/v1', method, resource, nonce]`.",
      }),
  })
  .meta({ id: 'X402PaymentPayload' })

export const PaymentToCheck = z
  .strictObject({ x402Version: Version, paymentPayload: PaymentPayload, paymentRequirements: PaymentRequirements })
  .meta({ id: 'X402Payment' })
export type PaymentToCheck = z.infer<typeof PaymentToCheck>

const Reason = z
  .enum([
    'requirements_mismatch',
    'invalid_network',
    'recipient_not_allowed',
    'payment_not_found',
    'payment_mismatch',
    'payment_expired',
    'payment_already_used',
  ])
  .meta({
    description:
      '`requirements_mismatch`: the payer accepted something else. `invalid_network`: not the ledger of this tenant. `recipient_not_allowed`: the key belongs to an app, and `payTo` is no wallet of it. `payment_not_found`: no transaction that this payer signed. `payment_mismatch`: another amount, asset or recipient. `payment_expired`: older than `maxTimeoutSeconds`. `payment_already_used`: settled before.',
  })
export type Reason = z.infer<typeof Reason>

export const Verification = z
  .object({ isValid: z.boolean(), invalidReason: Reason.optional(), payer: z.string() })
  .meta({ id: 'X402Verification' })
export type Verification = z.infer<typeof Verification>

export const Settlement = z
  .object({
    success: z.boolean(),
    errorReason: Reason.optional(),
    payer: z.string(),
    transaction: z.string().meta({ description: "The ledger's id of the transaction; empty without success." }),
    network: Network,
    amount: z.string().optional().meta({ description: 'What was paid, in atomic units.', example: '2500000000' }),
  })
  .meta({ id: 'X402Settlement' })
export type Settlement = z.infer<typeof Settlement>

export const Supported = z
  .object({
    kinds: z.array(
      z.object({
        x402Version: Version,
        scheme: z.literal('exact'),
        network: Network,
        extra: z.object({ decimals: z.literal(DECIMALS) }),
      }),
    ),
    extensions: z.array(z.string()),
    signers: z.record(z.string(), z.array(z.string())),
  })
  .meta({ id: 'X402Supported' })
export type Supported = z.infer<typeof Supported>
