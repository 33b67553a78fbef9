import type { Wallet } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { ConfirmButton } from '../../components/layout/confirm-button.tsx'
import { useToast } from '../../components/layout/toast.tsx'

/** Ends all delegated sessions of a wallet: the kill switch. */
export function RevokeSessionsButton({ wallet }: { wallet: Wallet }) {
  const queries = useQueryClient()
  const toast = useToast()
  const act = async () => {
    const { revoked, inFlight } = await api.wallets.revokeSessions(wallet.id)
    const ended = revoked === 1 ? '1 session revoked' : `${revoked} sessions revoked`
    toast.done(inFlight.length === 0 ? ended : `${ended}. Signed before and still open: ${inFlight.length}`)
    for (const key of ['delegated-sessions', 'wallets', 'transactions'])
      await queries.invalidateQueries({ queryKey: [key] })
  }
  return (
    <ConfirmButton
      label="Revoke all sessions"
      title="Revoke all sessions of this wallet?"
      action="Revoke all"
      danger
      onConfirm={act}
    >
      <p>
        Every active delegated session of this wallet ends for good. When this is done, Halfkey signs nothing more for
        any of them.
      </p>
      <p>The wallet is not frozen: its owner can create new sessions.</p>
    </ConfirmButton>
  )
}
