import { Field } from '@base-ui/react/field'
import { Switch } from '@base-ui/react/switch'
import { type ComponentProps, type ReactNode, type Ref, useId } from 'react'

/** The classes of a text control. */
export const CONTROL =
  'w-full rounded-control border border-edge/60 bg-surface px-3 py-2 text-ink placeholder:text-soft/80 disabled:opacity-60 max-md:min-h-11 max-md:text-base'

/** What every labelled control takes. */
export interface LabelProps {
  label: string
  /** Visible to assistive technology only. */
  hideLabel?: boolean
  hint?: ReactNode
  /** The error message: see `fieldErrors`. */
  error?: string | undefined
}

/** The error message of a field or a form; renders nothing without one. */
export function ErrorText({ id, children }: { id?: string; children: string | undefined }) {
  if (children === undefined) return null
  return (
    <p id={id} role="alert" className="text-sm text-danger [overflow-wrap:anywhere]">
      {children}
    </p>
  )
}

/** A control with its label, hint and error, tied together. */
export function Labelled({ label, hideLabel = false, hint, error, children }: LabelProps & { children: ReactNode }) {
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

/** Several controls under one legend. */
export function FieldGroup({
  label,
  hint,
  error,
  ref,
  children,
}: Omit<LabelProps, 'hideLabel'> & { ref?: Ref<HTMLFieldSetElement>; children: ReactNode }) {
  const id = useId()
  const described = [hint === undefined ? [] : `${id}hint`, error === undefined ? [] : `${id}error`].flat()
  return (
    <fieldset
      ref={ref}
      // Receives the focus if it is the first invalid field of a form.
      tabIndex={-1}
      aria-describedby={described.join(' ') || undefined}
      className="flex min-w-0 flex-col gap-2"
    >
      <legend className="mb-1.5 text-sm font-medium">{label}</legend>
      {children}
      {hint === undefined ? null : (
        <p id={`${id}hint`} className="text-sm text-soft">
          {hint}
        </p>
      )}
      <ErrorText id={`${id}error`}>{error}</ErrorText>
    </fieldset>
  )
}

type Own = { value: string; onChange: (value: string) => void }

/** One line of text. */
export function TextField({
  label,
  hideLabel = false,
  hint,
  error,
  onChange,
  className = '',
  ...rest
}: LabelProps & Own & Omit<ComponentProps<'input'>, 'value' | 'onChange'>) {
  return (
    <Labelled label={label} hideLabel={hideLabel} hint={hint} error={error}>
      <Field.Control
        {...(rest as ComponentProps<typeof Field.Control>)}
        onValueChange={onChange}
        className={`${CONTROL} ${className}`}
      />
    </Labelled>
  )
}

/** Several lines of text; `mono` for JSON and the like. */
export function TextArea({
  label,
  hideLabel = false,
  hint,
  error,
  onChange,
  mono = false,
  rows = 4,
  ...rest
}: LabelProps & Own & { mono?: boolean } & Omit<ComponentProps<'textarea'>, 'value' | 'onChange'>) {
  return (
    <Labelled label={label} hideLabel={hideLabel} hint={hint} error={error}>
      <Field.Control
        render={
          <textarea
            {...rest}
            rows={rows}
            spellCheck={!mono}
            onChange={(event) => onChange(event.currentTarget.value)}
          />
        }
        className={`${CONTROL} ${mono ? 'font-mono text-[0.8125rem]' : ''}`}
      />
    </Labelled>
  )
}

/** A switch with its label. */
export function SwitchField({
  label,
  hint,
  error,
  checked,
  onChange,
  disabled = false,
  ref,
}: Omit<LabelProps, 'hideLabel'> & {
  checked: boolean
  onChange: (checked: boolean) => void
  disabled?: boolean
  ref?: Ref<HTMLElement>
}) {
  return (
    <Field.Root invalid={error !== undefined} className="flex items-start justify-between gap-4">
      <div className="min-w-0">
        <Field.Label className="text-sm font-medium">{label}</Field.Label>
        {hint === undefined ? null : <Field.Description className="text-sm text-soft">{hint}</Field.Description>}
        <Field.Error match={error !== undefined} className="text-sm text-danger" role="alert">
          {error}
        </Field.Error>
      </div>
      <Switch.Root
        ref={ref}
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
