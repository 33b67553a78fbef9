import type { ReactNode } from 'react'

/** Some of a few, each on or off. */
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
    <fieldset className="flex min-w-0 flex-col gap-1.5">
      <legend className="mb-1.5 text-sm font-medium">{label}</legend>
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
      {hint === undefined ? null : <p className="text-sm text-soft">{hint}</p>}
      {error === undefined ? null : (
        <p role="alert" className="text-sm text-danger">
          {error}
        </p>
      )}
    </fieldset>
  )
}
