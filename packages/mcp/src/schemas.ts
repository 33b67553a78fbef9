import { z } from 'zod'
import { AMOUNT, parseAmount } from '../../sdk/src/paying/amount.ts'

/** An amount that is paid: more than zero. */
export const PaidAmount = z
  .string({ error: 'must be text, for example "3.50": a number could be rounded' })
  .max(40)
  .regex(AMOUNT, 'must be a decimal such as "3.50": digits, at most 10 decimals, no sign, exponent or separators')
  .refine((text) => (parseAmount(text) ?? 1n) > 0n, 'must be more than zero')
  .describe('Decimal text such as "3.50", more than zero, at most 10 decimals.')

export const Party = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,120}::1220[0-9a-f]{64}$/, 'must be a party: a name, "::1220", and 64 lower-case hex digits')

export const AssetSymbol = z.string().min(1).max(100).describe('The symbol of the asset, such as "USDX".')

export const CommandId = z.string().regex(/^[\x21-\x7e]{1,200}$/, 'must be 1 to 200 visible ASCII characters')

/** Of what an agent does by itself: a transfer under another such id would count as the payment of a request. */
export const NewCommandId = CommandId.refine(
  (id) => !id.startsWith('x402-'),
  'must not begin with "x402-": x402_fetch makes these ids',
)

const Asset = z.object({ issuer: z.string(), symbol: z.string() })

/** What the session may still do. */
export const Remaining = z.object({
  uses: z.number().int().nullable().describe('Transactions that are left; null for no limit.'),
  spend: z
    .array(
      z.object({
        asset: Asset,
        window: z.string().nullable(),
        limit: z.string().nullable().describe('Null for no limit.'),
        spent: z.string().nullable(),
        remaining: z.string().nullable(),
      }),
    )
    .describe('Each cap of the policy. Assets that are not here cannot be spent.'),
  budgets: z
    .array(
      z.object({
        asset: Asset,
        amount: z.string().describe('The most that can be spent within the window.'),
        window: z.string(),
        recipient: z.string().nullable().describe('Counts only what this party receives.'),
        templateId: z.string().nullable().describe('Counts only what commands on contracts of this template cost.'),
        setBy: z.string(),
        spent: z.string(),
        remaining: z.string(),
        resetsAt: z.string().nullable().describe('When some of `spent` no longer counts.'),
      }),
    )
    .describe('The budgets of the wallet, which all of its sessions share. They hold beside the caps.'),
})
export type Remaining = z.infer<typeof Remaining>

/** Why something was not done. */
export const Refusal = z.object({
  code: z.string(),
  message: z.string(),
  rule: z.string().nullable().describe('The entry of the policy that refused: allow, allow[0], deny[1], spend[0], …'),
  command: z.number().int().nullable().describe('Index of the refused command.'),
  asset: Asset.nullable(),
  limit: z.string().nullable(),
  spent: z.string().nullable(),
  asked: z.string().nullable(),
  remaining: z.string().nullable().describe('How much would be allowed.'),
  allowed: z.array(z.string()).describe('What would be allowed, in words.'),
  whatToDo: z.string(),
})
export type Refusal = z.infer<typeof Refusal>

/** One thing that a transaction does. Its texts come from the ledger. */
export const Effect = z.object({
  type: z.string(),
  command: z.number().int(),
  contractId: z.string(),
  templateId: z.string(),
  choice: z.string().nullable(),
  arguments: z.record(z.string(), z.unknown()),
  signatories: z.array(z.string()),
  observers: z.array(z.string()),
})
export type Effect = z.infer<typeof Effect>

export const Status = z
  .enum([
    'completed',
    'submitted',
    'approval_required',
    'signature_required',
    'received',
    'reserved',
    'failed',
    'refused',
    'unknown',
    'dry_run',
  ])
  .describe(
    'completed: it happened. submitted, received, reserved: it may still happen. approval_required: the owner of the wallet has to approve it first; show them `approval.link`, and repeat the call unchanged to learn what they decided. signature_required: the owner has to sign. failed, refused: it did not happen. unknown: there was no answer; repeat the call unchanged.',
  )
export type Status = z.infer<typeof Status>

/** What the owner is asked. */
export const Approval = z
  .object({
    id: z.string(),
    link: z.string().describe('The page on which the owner decides. Give it to them; it holds no secret.'),
    expiresAt: z.string(),
  })
  .nullable()
  .describe('Only while the status is approval_required.')
export type Approval = z.infer<typeof Approval>
