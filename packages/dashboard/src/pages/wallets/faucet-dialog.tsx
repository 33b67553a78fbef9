import type { Wallet } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { Form } from '../../components/form/form.tsx'
import { Dialog } from '../../components/layout/dialog.tsx'
import { useToast } from '../../components/layout/toast.tsx'

/** Test tokens for a wallet, in development. */
export function FaucetDialog({
  wallet,
  open,
  onOpenChange,
}: {
  wallet: Wallet
  open: boolean
  onOpenChange: (open: boolean) => void
}) {
  const queries = useQueryClient()
  const toast = useToast()
  return (
    <Dialog
      open={open}
      onOpenChange={onOpenChange}
      title="Issue test tokens"
      description="The test issuer of your tenant creates these tokens. Available only in development."
    >
      <Form
        fields={[
          { name: 'symbol', label: 'Symbol' },
          { name: 'amount', label: 'Amount', input: { inputMode: 'decimal' } },
        ]}
        values={{ symbol: 'USDX', amount: '100' }}
        action="Issue"
        onCancel={() => onOpenChange(false)}
        onSubmit={async ({ symbol, amount }) => {
          const made = await api.dev.faucet({ userId: wallet.userId, symbol: symbol.trim(), amount: amount.trim() })
          toast.done(`${made.amount} ${made.symbol} issued`, 'The wallet has a new holding.')
          onOpenChange(false)
          await queries.invalidateQueries({ queryKey: ['wallets'] })
          await queries.invalidateQueries({ queryKey: ['delegated-sessions'] })
        }}
      />
    </Dialog>
  )
}
