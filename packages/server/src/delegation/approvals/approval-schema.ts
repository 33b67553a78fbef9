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

const Approvers = z
  .array(
    z.object({
      users: z.array(z.string().meta({ example: 'usr_01jb2m7x9kq4t8v6w0r3s5y1za' })),
      threshold: z.int().meta({ example: 2 }),
    }),
  )
  .meta({
    description: 'Who has to approve. Of each entry, `threshold` of `users`. Usually the owner alone.',
  })

const Status = z.enum(['pending', 'executed', 'denied', 'expired', 'canceled', 'failed']).meta({
  description:
    '`pending`: not decided. `executed`: approved, and the transaction happened. `failed`: approved, but the transaction could not happen any more. `canceled`: its session has ended. Only `pending` holds a part of caps and budgets.',
})

const approvalFields = {
  id: z.string().meta({ example: 'apr_01jb2m7x9kq4t8v6w0r3s5y1zh' }),
  appId: z.string(),
  userId: z.string().meta({ description: "The wallet's owner." }),
  walletId: z.string(),
  delegatedSessionId: z.string(),
  transactionId: z.string().meta({ example: 'tx_01jb2m7x9kq4t8v6w0r3s5y1zh' }),
  commandId: z.string().meta({ example: 'order-1042' }),
  status: Status,
  rules: Rules,
  costs: Costs,
  recipients: Recipients,
  approvers: Approvers,
  approvedBy: z.array(z.object({ userId: z.string(), approvedAt: Time })).meta({
    description:
      'Who has approved. Whether an approval still counts is decided when the last one comes: a user who is suspended or deleted, or has removed the passkey, does not count.',
  }),
  decidedBy: z.string().nullable().meta({
    description: 'The user who refused, or whose approval was the last. Null if nobody decided.',
    example: null,
  }),
  reason: z.string().nullable().meta({ description: 'Why it was refused.', example: null }),
  passkeyId: z
    .string()
    .nullable()
    .meta({ description: 'The passkey that approved, where the owner alone is asked.', example: null }),
  link: z.string().meta({
    description: 'The page on which the owner and other approvers decide. It holds no secret: they sign in there.',
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
    version: z.enum(['halfkey/approval/v1', 'halfkey/approval/v2']).meta({
      description: '`halfkey/approval/v2` if it has `approvers`.',
    }),
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
    approvers: Approvers.optional().meta({ description: 'Absent if the owner alone is asked.' }),
    expiresAt: Time,
    nonce: z.string().meta({ description: '32 random bytes, hex.' }),
  })
  .meta({
    id: 'ApprovalDocument',
    description: 'What each approver signs. The transaction that is signed later does exactly this.',
  })

const RequestOptions = z
  .object({
    challenge: z.string().meta({
      description:
        'base64url: SHA-256 over the `version` of the document, a zero byte and the document after RFC 8785. Compute it yourself instead of trusting this value.',
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
        'For an approver, while it is pending: the options for `navigator.credentials.get()`. Null for a user who has approved already, or has no passkey that can approve.',
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
  role: z.enum(['owner', 'approver']).optional().meta({
    description:
      'Which approvals of a user: those of their wallet, or those in which a policy names them as an approver. Default: owner.',
  }),
  wallet_id: z.string().optional().meta({ description: 'Only approvals of this wallet.' }),
  user_id: z.string().optional().meta({ description: 'Only approvals of this user, in the `role`.' }),
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
