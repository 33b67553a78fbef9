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
        <p>Delegated sessions that have not expired can execute transactions again immediately.</p>
      ) : (
        <>
          <p>
            Halfkey stops signing for this wallet and refuses its delegated sessions until you unfreeze it. They can
            still read.
          </p>
          {wallet.ledger === 'embedded' ? null : (
            <p>Anyone who holds the key outside Halfkey can still use it on the ledger {wallet.ledger}.</p>
          )}
        </>
      )}
    </ConfirmButton>
  )
}
