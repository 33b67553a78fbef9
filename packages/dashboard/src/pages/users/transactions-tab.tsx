import type { User } from '@halfkey/sdk'
import { TransactionsOf } from '../transactions/transactions-of.tsx'

/** What delegated sessions executed from the user's wallet. */
export function TransactionsTab({ user }: { user: User }) {
  return (
    <TransactionsOf
      filter={{ userId: user.id }}
      empty="Transactions that delegated sessions execute from the wallet of this user appear here."
    />
  )
}
