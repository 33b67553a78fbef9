import { Field } from '@base-ui/react/field'
import { Switch } from '@base-ui/react/switch'
import type { ComponentProps, ReactNode } from 'react'

/** What a control for text looks like. */
export const CONTROL =
  'w-full rounded-control border border-edge/60 bg-surface px-3 py-2 text-ink placeholder:text-soft/80 disabled:opacity-60 max-md:min-h-11 max-md:text-base'

interface Common {
  label: string
  /** Seen by assistive technology alone. */
  hideLabel?: boolean
  hint?: ReactNode
  /** What is wrong with it: see `fieldErrors`. */
  error?: string | undefined
}

/** A control with its label, hint and error, tied together. */
export function Labelled({ label, hideLabel = false, hint, error, children }: Common & { children: ReactNode }) {
  return (
    <Field.Root invalid={error !== undefined} className="flex min-w-0 flex-col gap-1.5">
      <Field.Label className={hideLabel ? 'sr-only' : 'text-sm font-medium'}>{label}</Field.Label>
      {children}
      {hint === undefined ? null : <Field.Description className="text-sm text-soft">{hint}</Field.Description>}
      <Field.Error match={error !== undefined} className="text-sm text-danger" role="alert">
        {error}
      </Field.Error>
    </Field.Root>
  )
}

type Own = { value: string; onChange: (value: string) => void }

/** One line of text. */
export function TextField({
  label,
  hideLabel,
  hint,
  error,
  value,
  onChange,
  className = '',
  ...rest
}: Common & Own & Omit<ComponentProps<'input'>, 'value' | 'onChange'>) {
  return (
    <Labelled label={label} hideLabel={hideLabel ?? false} hint={hint} error={error}>
      <Field.Control
        {...(rest as ComponentProps<typeof Field.Control>)}
        value={value}
        onValueChange={onChange}
        className={`${CONTROL} ${className}`}
      />
    </Labelled>
  )
}

/** Several lines of text; `mono` for JSON and the like. */
export function TextArea({
  label,
  hideLabel,
  hint,
  error,
  value,
  onChange,
  mono = false,
  rows = 4,
  placeholder,
}: Common & Own & { mono?: boolean; rows?: number; placeholder?: string }) {
  return (
    <Labelled label={label} hideLabel={hideLabel ?? false} hint={hint} error={error}>
      <Field.Control
        render={
          <textarea
            rows={rows}
            spellCheck={!mono}
            value={value}
            placeholder={placeholder}
            onChange={(event) => onChange(event.currentTarget.value)}
          />
        }
        className={`${CONTROL} ${mono ? 'font-mono text-[0.8125rem]' : ''}`}
      />
    </Labelled>
  )
}

/** On or off. */
export function SwitchField({
  label,
  hint,
  checked,
  onChange,
  disabled = false,
}: {
  label: string
  hint?: ReactNode
  checked: boolean
  onChange: (checked: boolean) => void
  disabled?: boolean
}) {
  return (
    <Field.Root className="flex items-start justify-between gap-4">
      <div className="min-w-0">
        <Field.Label className="text-sm font-medium">{label}</Field.Label>
        {hint === undefined ? null : <Field.Description className="text-sm text-soft">{hint}</Field.Description>}
      </div>
      <Switch.Root
        checked={checked}
        onCheckedChange={onChange}
        disabled={disabled}
        className="relative mt-0.5 flex h-6 w-10 flex-none rounded-full bg-edge p-0.5 transition-colors data-checked:bg-accent data-disabled:opacity-50"
      >
        <Switch.Thumb className="size-5 rounded-full bg-surface transition-transform data-checked:translate-x-4" />
      </Switch.Root>
    </Field.Root>
  )
}
