import type { Wallet } from '@halfkey/sdk'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api, fieldErrors, messageOf } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { TextField } from '../../components/controls/field.tsx'
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
  const [symbol, setSymbol] = useState('USDX')
  const [amount, setAmount] = useState('100')
  const queries = useQueryClient()
  const toast = useToast()
  const drip = useMutation({
    mutationFn: () => api.dev.faucet({ userId: wallet.userId, symbol: symbol.trim(), amount: amount.trim() }),
    onSuccess: async (made) => {
      toast.done(`${made.amount} ${made.symbol} issued`, 'The wallet has a new holding.')
      onOpenChange(false)
      await queries.invalidateQueries({ queryKey: ['wallets'] })
      await queries.invalidateQueries({ queryKey: ['delegated-sessions'] })
    },
  })
  const errors = fieldErrors(drip.error)
  const send = (event: FormEvent) => {
    event.preventDefault()
    drip.mutate()
  }
  const change = (next: boolean) => {
    drip.reset()
    onOpenChange(next)
  }
  return (
    <Dialog
      open={open}
      onOpenChange={change}
      title="Issue test tokens"
      description="Your tenant’s own issuer makes them out of nothing. This exists in development only."
    >
      <form onSubmit={send} className="flex flex-col gap-4">
        <TextField label="Symbol" value={symbol} onChange={setSymbol} error={errors.symbol} autoComplete="off" />
        <TextField
          label="Amount"
          value={amount}
          onChange={setAmount}
          error={errors.amount}
          inputMode="decimal"
          autoComplete="off"
        />
        {drip.isError && errors.symbol === undefined && errors.amount === undefined ? (
          <p role="alert" className="text-sm text-danger">
            {messageOf(drip.error)}
          </p>
        ) : null}
        <div className="flex flex-wrap justify-end gap-2">
          <Button onClick={() => change(false)}>Cancel</Button>
          <Button tone="primary" type="submit" busy={drip.isPending}>
            Issue
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
