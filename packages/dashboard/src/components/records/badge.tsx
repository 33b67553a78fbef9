import type { ReactNode } from 'react'

export type Tone = 'neutral' | 'good' | 'warn' | 'danger' | 'accent'

const TONES: Record<Tone, string> = {
  neutral: 'bg-raised text-soft',
  good: 'bg-good-wash text-good',
  warn: 'bg-warn-wash text-warn',
  danger: 'bg-danger-wash text-danger',
  accent: 'bg-accent-wash text-accent',
}

/** A coloured label. The colour never carries meaning alone. */
export function Badge({ tone = 'neutral', children }: { tone?: Tone; children: ReactNode }) {
  return (
    <span
      className={`inline-flex items-center rounded-full px-2 py-0.5 text-xs font-medium whitespace-nowrap ${TONES[tone]}`}
    >
      {children}
    </span>
  )
}

const STATUS_TONES: Record<string, Tone> = {
  active: 'good',
  ready: 'good',
  succeeded: 'good',
  completed: 'good',
  verified: 'good',
  converted: 'good',
  ok: 'good',
  pending: 'accent',
  delivering: 'accent',
  submitted: 'accent',
  running: 'accent',
  retrying: 'warn',
  paused: 'warn',
  suspended: 'warn',
  frozen: 'warn',
  approval_required: 'warn',
  signature_required: 'warn',
  exhausted: 'warn',
  disabled: 'danger',
  dead_letter: 'danger',
  failed: 'danger',
}

/** A record's status, in its colour. */
export function StatusBadge({ status }: { status: string }) {
  return <Badge tone={STATUS_TONES[status] ?? 'neutral'}>{status.replaceAll('_', ' ')}</Badge>
}
