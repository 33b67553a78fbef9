import type { User } from '@halfkey/sdk'
import { DenialsOf } from '../delegated-sessions/denials/denials-of.tsx'

/** What was refused to the delegated sessions of a user. */
export function DenialsTab({ user }: { user: User }) {
  return <DenialsOf of="user" id={user.id} />
}
