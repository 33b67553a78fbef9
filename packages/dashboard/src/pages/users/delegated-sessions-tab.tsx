import type { User } from '@halfkey/sdk'
import { Link } from '@tanstack/react-router'
import { SessionsOf } from '../delegated-sessions/sessions-of.tsx'

/** Who else may transact from the user's wallet, within which policy. */
export function DelegatedSessionsTab({ user }: { user: User }) {
  return (
    <SessionsOf
      filter={{ userId: user.id }}
      empty="A delegated session lets an agent or a service transact from the wallet of this user, within a policy and for a limited time."
      action={
        <Link
          to="/delegated-sessions/new"
          search={{ user_id: user.id } as never}
          className="text-sm font-medium text-accent hover:underline"
        >
          Create a delegated session
        </Link>
      }
    />
  )
}
