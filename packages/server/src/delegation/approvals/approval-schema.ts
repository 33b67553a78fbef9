import { z } from 'zod'
import { LoginVerify } from '../../identity/passkeys/schema.ts'
import { Paging, sortedBy, Time, Times } from '../../platform/http/route.ts'
import { Effect, Operation } from '../../wallets/transactions/schema.ts'
import { RemainingBeside } from '../schema.ts'

const REASON_CHARS_MAX = 500

const Asset = z.object({ issuer: z.string(), symbol: z.string().meta({ example: 'USDX' }) })
const Costs = z
  .array(z.object({ asset: Asset, amount: z.string().meta({ example: '7' }) }))
  .meta({ description: 'What it takes of each asset.' })
const Recipients = z
  .array(z.string())
  .meta({ description: 'The parties that gain something, and those that an offer is made to.' })
const Rules = z
  .array(z.object({ rule: z.string().meta({ example: 'requireApproval[0]' }), message: z.string() }))
  .meta({ description: 'The rules of the policy that ask, and why.' })

const Status = z.enum(['pending', 'executed', 'denied', 'expired', 'canceled', 'failed']).meta({
  description:
    '`pending`: the owner has not decided. `executed`: approved, and the transaction happened. `failed`: approved, but the transaction could not happen any more. `canceled`: its session has ended. Only `pending` holds a part of caps and budgets.',
})

const approvalFields = {
  id: z.string().meta({ example: 'apr_01jb2m7x9kq4t8v6w0r3s5y1zh' }),
  appId: z.string(),
  userId: z.string().meta({ description: 'The owner, who alone can approve.' }),
  walletId: z.string(),
  delegatedSessionId: z.string(),
  transactionId: z.string().meta({ example: 'tx_01jb2m7x9kq4t8v6w0r3s5y1zh' }),
  commandId: z.string().meta({ example: 'order-1042' }),
  status: Status,
  rules: Rules,
  costs: Costs,
  recipients: Recipients,
  reason: z.string().nullable().meta({ description: 'Why the owner refused.', example: null }),
  passkeyId: z.string().nullable().meta({ description: 'The passkey that approved.', example: null }),
  link: z.string().meta({
    description: 'The page on which the owner decides. It holds no secret: the owner signs in there.',
    example: 'https://auth.example.com/approve?app=app_01jb2m7x9kq4t8v6w0r3s5y1zb&id=apr_01jb2m7x9kq4t8v6w0r3s5y1zh',
  }),
  expiresAt: Time,
  decidedAt: Time.nullable(),
  ...Times,
}

export const Approval = z.object(approvalFields).meta({ id: 'Approval' })
export type Approval = z.infer<typeof Approval>

const Document = z
  .object({
    version: z.literal('halfkey/approval/v1'),
    tenantId: z.string(),
    appId: z.string(),
    userId: z.string(),
    walletId: z.string(),
    partyId: z.string(),
    delegatedSessionId: z.string(),
    transactionId: z.string(),
    commandId: z.string(),
    commandsHash: z.string().meta({ description: 'SHA-256 of the commands after RFC 8785, hex.' }),
    effectsHash: z.string().meta({
      description: 'The same of the effects. The id of the n-th new contract, from 0, is written as `new contract n`.',
    }),
    costs: Costs,
    recipients: Recipients,
    rules: Rules,
    expiresAt: Time,
    nonce: z.string().meta({ description: '32 random bytes, hex.' }),
  })
  .meta({
    id: 'ApprovalDocument',
    description: 'What the owner approves. What is signed later does exactly this.',
  })

const RequestOptions = z
  .object({
    challenge: z.string().meta({
      description:
        'base64url: SHA-256 over `halfkey/approval/v1`, a zero byte and the document after RFC 8785. Compute it yourself instead of trusting this value.',
    }),
    timeout: z.int().meta({ description: 'Milliseconds.', example: 300_000 }),
    rpId: z.string(),
    allowCredentials: z.array(
      z.object({ id: z.string(), type: z.literal('public-key'), transports: z.array(z.string()) }),
    ),
    userVerification: z.literal('required'),
  })
  .meta({ id: 'ApprovalOptions' })

export const ApprovalDetails = z
  .object({
    ...approvalFields,
    sessionName: z.string().nullable().meta({ description: 'Who asks.', example: 'Shopping agent' }),
    operations: z.array(Operation),
    effects: z.array(Effect).meta({ description: 'All that it does.' }),
    remaining: RemainingBeside.meta({
      description: 'What is left of caps and budgets. What the approval holds is already taken from it.',
    }),
    document: Document,
    publicKey: RequestOptions.nullable().meta({
      description:
        'For the owner, while it is pending: the options for `navigator.credentials.get()`. Null if no passkey of the owner can approve.',
    }),
  })
  .meta({ id: 'ApprovalDetails' })
export type ApprovalDetails = z.infer<typeof ApprovalDetails>

export const ListApprovals = z.strictObject({
  ...Paging,
  ...sortedBy('createdAt'),
  status: z
    .enum(['pending', 'executed', 'denied', 'expired', 'canceled', 'failed'])
    .optional()
    .meta({ description: 'As it is stored: one that has just expired may still be `pending`.' }),
  wallet_id: z.string().optional().meta({ description: 'Only approvals of this wallet.' }),
  user_id: z.string().optional().meta({ description: 'Only approvals of this user.' }),
  delegated_session_id: z.string().optional().meta({ description: 'Only approvals of this delegated session.' }),
  app_id: z.string().optional().meta({ description: 'Only approvals of this app.' }),
})
export type ListApprovals = z.infer<typeof ListApprovals>

export const Approve = z.strictObject({ credential: LoginVerify.shape.credential }).meta({ id: 'Approve' })
export type Approve = z.infer<typeof Approve>

export const Deny = z
  .strictObject({
    reason: z.string().max(REASON_CHARS_MAX).optional().meta({
      description: 'For the delegate, who reads it.',
      example: 'I did not order this.',
    }),
  })
  .meta({ id: 'DenyApproval' })
export type Deny = z.infer<typeof Deny>
