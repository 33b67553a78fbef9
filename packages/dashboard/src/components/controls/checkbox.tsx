import { Checkbox as Base } from '@base-ui/react/checkbox'
import { Check, Minus } from 'lucide-react'
import { type ReactNode, useId } from 'react'

/** A checkbox with its label at its right. `mixed`: some of the items it stands for are checked. */
export function Checkbox({
  label,
  hideLabel = false,
  hint,
  checked,
  mixed = false,
  disabled = false,
  onChange,
}: {
  label: ReactNode
  /** Visible to assistive technology only. */
  hideLabel?: boolean
  hint?: ReactNode
  checked: boolean
  mixed?: boolean
  disabled?: boolean
  onChange: (checked: boolean) => void
}) {
  const id = useId()
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is the Root below, whose hidden input it names
    <label className="flex cursor-pointer items-start gap-2.5 text-sm max-md:min-h-11 max-md:items-center has-data-disabled:cursor-not-allowed">
      <Base.Root
        checked={checked}
        indeterminate={mixed && !checked}
        disabled={disabled}
        onCheckedChange={onChange}
        aria-describedby={hint === undefined ? undefined : id}
        className="mt-0.5 flex size-4.5 flex-none items-center justify-center rounded border border-edge bg-surface text-on-primary data-checked:border-primary data-checked:bg-primary data-disabled:opacity-50 data-indeterminate:border-primary data-indeterminate:bg-primary"
      >
        <Base.Indicator>
          {mixed && !checked ? (
            <Minus aria-hidden className="size-3.5" />
          ) : (
            <Check aria-hidden className="size-3.5" strokeWidth={3} />
          )}
        </Base.Indicator>
      </Base.Root>
      <span className={hideLabel ? 'sr-only' : 'min-w-0'}>
        <span className="[overflow-wrap:anywhere]">{label}</span>
        {hint === undefined ? null : (
          <span id={id} className="block text-soft">
            {hint}
          </span>
        )}
      </span>
    </label>
  )
}
