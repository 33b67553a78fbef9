import { Loader } from 'lucide-react'
import type { ComponentProps, ReactNode } from 'react'

/** `primary` at most once per view; `danger` for irreversible actions. */
export type ButtonTone = 'primary' | 'secondary' | 'danger' | 'ghost'

const TONES: Record<ButtonTone, string> = {
  primary: 'bg-primary text-on-primary hover:bg-primary-hover',
  secondary: 'border border-edge/50 bg-surface text-ink hover:bg-raised',
  danger: 'bg-danger-fill text-on-danger hover:opacity-90',
  ghost: 'text-soft hover:bg-raised hover:text-ink',
}

const SHAPE =
  'inline-flex min-h-9 items-center justify-center gap-2 rounded-control px-3.5 text-sm font-medium whitespace-nowrap select-none disabled:cursor-not-allowed disabled:opacity-55 max-md:min-h-11'

/** The classes of a button, for a link that looks like one. */
export function buttonClass(tone: ButtonTone = 'secondary'): string {
  return `${SHAPE} ${TONES[tone]}`
}

/** `busy` shows that the action is running and disables the button. */
export function Button({
  tone = 'secondary',
  busy = false,
  className = '',
  children,
  disabled,
  ...rest
}: ComponentProps<'button'> & { tone?: ButtonTone; busy?: boolean }) {
  return (
    <button
      type="button"
      {...rest}
      disabled={disabled === true || busy}
      aria-busy={busy}
      className={`${buttonClass(tone)} ${className}`}
    >
      {busy ? <Loader aria-hidden className="size-4 animate-spin" /> : null}
      {children}
    </button>
  )
}

/** A button with an icon only; `label` is its accessible name. */
export function IconButton({
  label,
  className = '',
  children,
  ...rest
}: Omit<ComponentProps<'button'>, 'children'> & { label: string; children: ReactNode }) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      {...rest}
      className={`inline-flex size-9 items-center justify-center rounded-control text-soft hover:bg-raised hover:text-ink disabled:opacity-50 max-md:size-11 ${className}`}
    >
      {children}
    </button>
  )
}
