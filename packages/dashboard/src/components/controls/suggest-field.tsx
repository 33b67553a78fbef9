import { Autocomplete } from '@base-ui/react/autocomplete'
import type { ReactNode } from 'react'
import { CONTROL, Labelled } from './field.tsx'

/** One line of text with suggestions. Other text is allowed too. */
export function SuggestField({
  label,
  hideLabel = false,
  hint,
  error,
  value,
  onChange,
  suggestions,
  placeholder,
}: {
  label: string
  hideLabel?: boolean
  hint?: ReactNode
  error?: string | undefined
  value: string
  onChange: (value: string) => void
  suggestions: readonly string[]
  placeholder?: string
}) {
  return (
    <Labelled label={label} hideLabel={hideLabel} hint={hint} error={error}>
      <Autocomplete.Root items={suggestions} value={value} onValueChange={(next) => onChange(next)} openOnInputClick>
        <Autocomplete.Input
          placeholder={placeholder}
          autoComplete="off"
          spellCheck={false}
          className={`${CONTROL} font-mono text-[0.8125rem]`}
        />
        <Autocomplete.Portal>
          <Autocomplete.Positioner sideOffset={4} className="z-60">
            <Autocomplete.Popup className="max-h-72 w-(--anchor-width) min-w-48 overflow-y-auto rounded-control border bg-surface p-1 shadow-popup data-empty:hidden">
              <Autocomplete.List>
                {(item: string) => (
                  <Autocomplete.Item
                    key={item}
                    value={item}
                    className="flex min-h-9 cursor-default items-center rounded-md px-2.5 font-mono text-[0.8125rem] data-highlighted:bg-raised max-md:min-h-11"
                  >
                    {item}
                  </Autocomplete.Item>
                )}
              </Autocomplete.List>
            </Autocomplete.Popup>
          </Autocomplete.Positioner>
        </Autocomplete.Portal>
      </Autocomplete.Root>
    </Labelled>
  )
}
