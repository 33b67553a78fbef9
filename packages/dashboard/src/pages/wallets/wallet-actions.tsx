import type { Wallet } from '@halfkey/sdk'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { allows } from '../../api.ts'
import { Button, buttonClass } from '../../components/controls/button.tsx'
import { useSession } from '../../shell/session-context.ts'
import { FaucetDialog } from './faucet-dialog.tsx'
import { FreezeButton } from './freeze-button.tsx'
import { RevokeSessionsButton } from './revoke-sessions-button.tsx'

/** The actions on a wallet that the session may take. */
export function WalletActions({ wallet }: { wallet: Wallet }) {
  const { session } = useSession()
  const [issuing, setIssuing] = useState(false)
  const mayWrite = allows(session, 'wallets:write')
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
      {mayWrite && hasFaucet ? <Button onClick={() => setIssuing(true)}>Issue test tokens</Button> : null}
      {allows(session, 'delegated_sessions:write') ? <RevokeSessionsButton wallet={wallet} /> : null}
      {mayWrite ? (
        <FreezeButton wallet={wallet} />
      ) : (
        <p className="self-center text-sm text-soft">Your API key cannot change wallets.</p>
      )}
      <FaucetDialog wallet={wallet} open={issuing} onOpenChange={setIssuing} />
    </>
  )
}
