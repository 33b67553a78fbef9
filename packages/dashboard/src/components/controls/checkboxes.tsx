import type { ReactNode } from 'react'
import { FieldGroup } from './field.tsx'

/** A set of checkboxes. */
export function Checkboxes({
  label,
  hint,
  error,
  options,
  chosen,
  onChange,
}: {
  label: string
  hint?: ReactNode
  error?: string | undefined
  options: readonly string[]
  chosen: readonly string[]
  onChange: (chosen: string[]) => void
}) {
  const toggle = (option: string) =>
    onChange(chosen.includes(option) ? chosen.filter((each) => each !== option) : [...chosen, option])
  return (
    <FieldGroup label={label} hint={hint} error={error}>
      <div className="flex flex-wrap gap-2">
        {options.map((option) => (
          <label
            key={option}
            className="flex min-h-9 cursor-pointer items-center gap-2 rounded-control border border-edge/50 px-3 text-sm [overflow-wrap:anywhere] hover:bg-raised has-checked:border-accent has-checked:bg-accent-wash max-md:min-h-11"
          >
            <input
              type="checkbox"
              checked={chosen.includes(option)}
              onChange={() => toggle(option)}
              className="size-4 flex-none accent-accent"
            />
            {option}
          </label>
        ))}
      </div>
    </FieldGroup>
  )
}
