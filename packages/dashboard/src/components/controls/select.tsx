import { Select as Base } from '@base-ui/react/select'
import { Check, ChevronDown } from 'lucide-react'
import type { Ref } from 'react'

/** A select. `label` is its accessible name. */
export function Select<T extends string>({
  label,
  value,
  options,
  onChange,
  disabled = false,
  className = '',
  ref,
}: {
  label: string
  value: T
  options: readonly { value: T; label: string }[]
  onChange: (value: T) => void
  disabled?: boolean
  className?: string
  ref?: Ref<HTMLButtonElement>
}) {
  return (
    <Base.Root
      items={options as { value: T; label: string }[]}
      value={value}
      disabled={disabled}
      onValueChange={(next) => onChange(next as T)}
    >
      <Base.Trigger
        ref={ref}
        aria-label={label}
        className={`inline-flex min-h-9 items-center justify-between gap-2 rounded-control border border-edge/60 bg-surface px-3 text-left text-sm hover:bg-raised max-md:min-h-11 ${className}`}
      >
        <Base.Value className="min-w-0 truncate" />
        <ChevronDown aria-hidden className="size-4 flex-none text-soft" />
      </Base.Trigger>
      <Base.Portal>
        <Base.Positioner alignItemWithTrigger={false} sideOffset={4} className="z-60">
          <Base.Popup className="max-h-80 min-w-(--anchor-width) overflow-y-auto rounded-control border bg-surface p-1 shadow-popup">
            {options.map((option) => (
              <Base.Item
                key={option.value}
                value={option.value}
                className="flex min-h-9 cursor-default items-center justify-between gap-4 rounded-md px-2.5 text-sm data-highlighted:bg-raised max-md:min-h-11"
              >
                <Base.ItemText>{option.label}</Base.ItemText>
                <Base.ItemIndicator>
                  <Check aria-hidden className="size-4" />
                </Base.ItemIndicator>
              </Base.Item>
            ))}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  )
}
