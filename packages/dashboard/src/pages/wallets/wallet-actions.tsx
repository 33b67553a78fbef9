import type { Wallet } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { allows, api } from '../../api.ts'
import { Button, buttonClass } from '../../components/controls/button.tsx'
import { ConfirmDialog } from '../../components/layout/dialog.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { useSession } from '../../shell/session-context.ts'
import { FaucetDialog } from './faucet-dialog.tsx'

function FreezeDialog({ wallet, open, onOpenChange }: Parameters<typeof FaucetDialog>[0]) {
  const queries = useQueryClient()
  const toast = useToast()
  const isFrozen = wallet.status === 'frozen'
  const act = async () => {
    await (isFrozen ? api.wallets.unfreeze(wallet.id) : api.wallets.freeze(wallet.id))
    toast.done(isFrozen ? 'Wallet unfrozen' : 'Wallet frozen')
    await queries.invalidateQueries({ queryKey: ['wallets'] })
  }
  return (
    <ConfirmDialog
      open={open}
      onOpenChange={onOpenChange}
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
    </ConfirmDialog>
  )
}

/** What can be done with a wallet, as far as the session may. */
export function WalletActions({ wallet }: { wallet: Wallet }) {
  const { session } = useSession()
  const [asks, setAsks] = useState<'faucet' | 'freeze' | null>(null)
  const mayWrite = allows(session, 'wallets:write')
  const closing = (open: boolean) => {
    if (!open) setAsks(null)
  }
  const hasFaucet = session.environment === 'development' && wallet.ledger === 'embedded'
  return (
    <>
      {allows(session, 'users:act_as') && wallet.status === 'ready' ? (
        <Link
          to="/delegated-sessions/new"
          search={{ user_id: wallet.userId } as never}
          className={buttonClass('secondary')}
        >
          New delegated session
        </Link>
      ) : null}
      {mayWrite && hasFaucet ? <Button onClick={() => setAsks('faucet')}>Issue test tokens</Button> : null}
      {mayWrite ? (
        <Button onClick={() => setAsks('freeze')}>{wallet.status === 'frozen' ? 'Unfreeze' : 'Freeze'}</Button>
      ) : (
        <p className="self-center text-sm text-soft">Your key may not change wallets.</p>
      )}
      <FaucetDialog wallet={wallet} open={asks === 'faucet'} onOpenChange={closing} />
      <FreezeDialog wallet={wallet} open={asks === 'freeze'} onOpenChange={closing} />
    </>
  )
}
