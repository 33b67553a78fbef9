import type { Guest } from '@halfkey/sdk'
import { RelativeTime } from '../../components/records/relative-time.tsx'

/** When a guest session ends or ended, possibly early. A converted guest has no end. */
export function GuestEnd({ guest: { status, expiresAt, updatedAt } }: { guest: Guest }) {
  if (status === 'converted') return <>–</>
  const endedEarly = status === 'expired' && Date.parse(expiresAt) > Date.now()
  return <RelativeTime at={endedEarly ? updatedAt : expiresAt} />
}
