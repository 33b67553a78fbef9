import type { User } from '@halfkey/sdk'
import { Badge } from '../../components/records/badge.tsx'

type TrustLevel = User['trustLevel']

const MEANINGS: Record<TrustLevel, { label: string; meaning: string }> = {
  embedded: { label: 'embedded', meaning: 'Halfkey signs for the user.' },
  shared: { label: 'shared', meaning: 'The user and Halfkey sign together. Neither can sign alone.' },
  self_custody: { label: 'self custody', meaning: 'Only the user can sign.' },
}

/** The trust levels as a filter offers them. */
export const TRUST_LEVELS = Object.entries(MEANINGS).map(([value, { label }]) => ({
  value: value as TrustLevel,
  label,
}))

/** The trust level that a URL names; undefined for anything else. */
export function trustLevelOf(text: string | undefined): TrustLevel | undefined {
  return TRUST_LEVELS.find(({ value }) => value === text)?.value
}

/** Who can move a user's assets, in words. */
export function meaningOf(level: TrustLevel): string {
  return MEANINGS[level].meaning
}

/** Who can move a user's assets, with an explanation on hover. */
export function TrustLevelBadge({ level }: { level: TrustLevel }) {
  return (
    <span title={MEANINGS[level].meaning}>
      <Badge tone={level === 'embedded' ? 'neutral' : 'accent'}>{MEANINGS[level].label}</Badge>
    </span>
  )
}
