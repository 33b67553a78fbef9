import type { Wallet } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { ConfirmButton } from '../../components/layout/confirm-button.tsx'
import { useToast } from '../../components/layout/toast.tsx'

/** Freezes a wallet, or unfreezes it. */
export function FreezeButton({ wallet }: { wallet: Wallet }) {
  const queries = useQueryClient()
  const toast = useToast()
  const isFrozen = wallet.status === 'frozen'
  const act = async () => {
    await (isFrozen ? api.wallets.unfreeze(wallet.id) : api.wallets.freeze(wallet.id))
    toast.done(isFrozen ? 'Wallet unfrozen' : 'Wallet frozen')
    await queries.invalidateQueries({ queryKey: ['wallets'] })
    await queries.invalidateQueries({ queryKey: ['users'] })
  }
  return (
    <ConfirmButton
      label={isFrozen ? 'Unfreeze' : 'Freeze'}
      title={isFrozen ? 'Unfreeze this wallet?' : 'Freeze this wallet?'}
      action={isFrozen ? 'Unfreeze' : 'Freeze'}
      danger={!isFrozen}
      onConfirm={act}
    >
      {isFrozen ? (
        <p>Its delegated sessions that have not ended meanwhile can execute again at once.</p>
      ) : (
        <>
          <p>
            Nothing more is signed for it by this service: its delegated sessions are refused until it is unfrozen. They
            can still look.
          </p>
          {wallet.ledger === 'embedded' ? null : (
            <p>Who has the key outside of this service can still use it on the ledger {wallet.ledger}.</p>
          )}
        </>
      )}
    </ConfirmButton>
  )
}
