import { z } from 'zod'
import { Paging, sortedBy } from '../../platform/http/route.ts'
import { Status, Transaction } from '../../wallets/transactions/schema.ts'
import { AskedApproval, DelegatedSession, RemainingBeside } from '../schema.ts'

/** A session as its delegate sees it. */
export const OwnDelegatedSession = DelegatedSession.extend({
  remaining: RemainingBeside,
  wallet: z.object({
    id: z.string(),
    partyId: z.string().meta({
      description: 'The party that the session acts as, and that receives what others send to this wallet.',
      example: 'usr_01jb2m7x9kq4t8v6w0r3s5y1zb::1220087e6bf66d225d047e6af8b0944bc50cc470cb46afd9515a558bf556054412ab',
    }),
    ledger: z.string().meta({ example: 'embedded' }),
    network: z.string().nullable().meta({
      description: 'How x402 names the ledger, for payments; null where there are none.',
      example: 'halfkey:ten_01jb2m7x9kq4t8v6w0r3s5y1zp',
    }),
    custody: z.enum(['embedded', 'shared', 'self_custody']).meta({
      description:
        'Who signs: the service (`embedded`), service and user together (`shared`), or only the user (`self_custody`).',
    }),
    status: z
      .enum(['pending', 'ready', 'failed', 'frozen'])
      .meta({ description: 'Only a wallet that is `ready` executes.' }),
  }),
}).meta({ id: 'OwnDelegatedSession' })
export type OwnDelegatedSession = z.infer<typeof OwnDelegatedSession>

/** A transaction as the delegate that asked for it sees it. */
export const OwnTransaction = Transaction.extend({
  approval: AskedApproval.nullable().meta({ description: 'While it waits for the owner: what they must approve.' }),
}).meta({ id: 'OwnTransaction' })
export type OwnTransaction = z.infer<typeof OwnTransaction>

export const ListOwnTransactions = z.strictObject({
  ...Paging,
  ...sortedBy('createdAt'),
  status: Status.optional(),
  command_id: z.string().optional().meta({ description: 'Only the transaction with this command id.' }),
})
export type ListOwnTransactions = z.infer<typeof ListOwnTransactions>
