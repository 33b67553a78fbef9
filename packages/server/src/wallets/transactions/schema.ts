import { z } from 'zod'
import { Paging, sortedBy, Time, Times } from '../../platform/http/route.ts'
import type { Value as LedgerValue } from '../../platform/ports/ledger.ts'

export const Status = z
  .enum(['received', 'reserved', 'approval_required', 'signature_required', 'submitted', 'completed', 'failed'])
  .meta({
    description:
      "`received` and `reserved`: not signed yet. `approval_required`: waits until the wallet's owner approves it. `signature_required`: waits for the wallet owner's signature. `submitted`: signed, the outcome is not known yet. `completed`, `failed`: final; a failed transaction certainly did not happen.",
  })

// Without a type: the serialiser would try each branch of a union for every value.
const Value: z.ZodType<LedgerValue> = z.any()

/** Fields of a contract, or arguments of a choice. */
export const Arguments = z.record(z.string(), Value).meta({
  description:
    'Fields of the contract; for `exercised`, arguments of the choice. On the embedded ledger: texts and lists of texts. Elsewhere also records (objects), absent values (null), true and false. Numbers are texts.',
  example: { receiver: 'bob::1220123087e6bf66d225d047e6af8b0944bc50cc470cb46afd9515a558bf55605441', amount: '3' },
})

/** One thing that a transaction does. */
export const Effect = z
  .object({
    type: z.enum(['created', 'exercised', 'archived']),
    command: z.int().meta({ description: 'Index of the command that caused it, from 0.', example: 0 }),
    contractId: z.string(),
    templateId: z.string().meta({ example: 'Token:Holding' }),
    choice: z.string().nullable().meta({ example: 'Transfer' }),
    arguments: Arguments,
    signatories: z.array(z.string()),
    observers: z.array(z.string()),
  })
  .meta({ id: 'Effect' })

/** A short form of a requested command. */
export const Operation = z
  .object({
    type: z.enum(['create', 'exercise']),
    templateId: z.string().meta({ example: 'Token:Holding' }),
    choice: z.string().nullable().meta({ example: 'Transfer' }),
    contractId: z.string().nullable(),
  })
  .meta({ id: 'Operation' })
export type Operation = z.infer<typeof Operation>

export const Transaction = z
  .object({
    id: z.string().meta({ example: 'tx_01jb2m7x9kq4t8v6w0r3s5y1zh' }),
    appId: z.string(),
    userId: z.string(),
    walletId: z.string(),
    partyId: z.string(),
    delegatedSessionId: z.string(),
    ledger: z.string().meta({ example: 'embedded' }),
    commandId: z.string().meta({ example: 'order-1042' }),
    status: Status,
    operations: z.array(Operation),
    effects: z.array(Effect),
    updateId: z.string().nullable().meta({ description: "The ledger's id of the transaction." }),
    offset: z.int().nullable().meta({ description: 'Its position on the ledger.', example: 42 }),
    error: z
      .object({ code: z.string(), message: z.string() })
      .nullable()
      .meta({ description: 'Why it failed.', example: null }),
    expiresAt: Time.nullable().meta({
      description: 'For a transaction in progress: after this time it can no longer happen.',
    }),
    completedAt: Time.nullable(),
    ...Times,
  })
  .meta({ id: 'Transaction' })
export type Transaction = z.infer<typeof Transaction>

/** A transaction in a list: without its effects, because each may have hundreds. */
export const TransactionSummary = Transaction.omit({ effects: true }).meta({ id: 'TransactionSummary' })
export type TransactionSummary = z.infer<typeof TransactionSummary>

export const ListTransactions = z.strictObject({
  ...Paging,
  ...sortedBy('createdAt'),
  status: Status.optional(),
  wallet_id: z.string().optional().meta({ description: 'Only transactions of this wallet.' }),
  user_id: z.string().optional().meta({ description: 'Only transactions of this user.' }),
  delegated_session_id: z.string().optional().meta({ description: 'Only transactions of this delegated session.' }),
  command_id: z.string().optional().meta({ description: 'Only transactions with this command id.' }),
  app_id: z.string().optional().meta({ description: 'Only transactions of this app.' }),
})
export type ListTransactions = z.infer<typeof ListTransactions>
