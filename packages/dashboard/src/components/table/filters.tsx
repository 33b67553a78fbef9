import { useNavigate, useSearch } from '@tanstack/react-router'
import { Search } from 'lucide-react'
import { useEffect, useState } from 'react'
import { TextField } from '../controls/field.tsx'
import { Select } from '../controls/select.tsx'

const TYPING_MS = 250

/**
 * The view state in the URL: filters, tab, page. So every view can be linked to. A change of anything but the page
 * returns to the first page.
 */
export function useFilters(): {
  values: Record<string, string | undefined>
  page: number
  set: (changes: Record<string, string | undefined>) => void
} {
  const values = useSearch({ strict: false }) as Record<string, string | undefined>
  const navigate = useNavigate()
  const page = /^[1-9]\d{0,6}$/.test(values.page ?? '') ? Number(values.page) : 1
  return {
    values,
    page,
    set(changes) {
      void navigate({
        to: '.',
        search: (before: Record<string, string | undefined>) => ({
          ...before,
          page: undefined,
          ...Object.fromEntries(Object.entries(changes).map(([name, value]) => [name, value || undefined])),
        }),
        replace: !('page' in changes),
      } as never)
    },
  }
}

/** The order in the URL, if the list has it. `sortable` has the API's fields, by the ids of their columns. */
export function useSort<Field extends string>(
  sortable: Readonly<Record<string, Field>>,
): Field | `-${Field}` | undefined {
  const { values } = useFilters()
  return Object.values(sortable)
    .flatMap((field): (Field | `-${Field}`)[] => [field, `-${field}`])
    .find((sort) => sort === values.sort)
}

/** A select that filters; `all` is the label of no filter. */
export function FilterSelect({
  name,
  label,
  options,
  all = 'All',
}: {
  /** In the URL. */
  name: string
  label: string
  options: readonly (string | { value: string; label: string })[]
  all?: string
}) {
  const { values, set } = useFilters()
  const known = options.map((option) =>
    typeof option === 'string' ? { value: option, label: option.replaceAll('_', ' ') } : option,
  )
  const value = known.some((option) => option.value === values[name]) ? (values[name] as string) : ''
  return (
    <Select
      label={label}
      value={value}
      options={[{ value: '', label: `${label}: ${all.toLowerCase()}` }, ...known]}
      onChange={(next) => set({ [name]: next })}
    />
  )
}

/** A text filter, debounced. */
export function FilterText({ name, label, placeholder }: { name: string; label: string; placeholder: string }) {
  const { values, set } = useFilters()
  const known = values[name] ?? ''
  const [text, setText] = useState(known)
  // Going back in the browser's history changes the URL alone.
  useEffect(() => setText(known), [known])
  // biome-ignore lint/correctness/useExhaustiveDependencies: only what is typed starts the wait
  useEffect(() => {
    if (text === known) return undefined
    const timer = setTimeout(() => set({ [name]: text.trim() }), TYPING_MS)
    return () => clearTimeout(timer)
  }, [text])
  return (
    <div className="relative min-w-56 flex-1 md:max-w-sm">
      <Search
        aria-hidden
        className="pointer-events-none absolute top-1/2 left-3 z-1 size-4 -translate-y-1/2 text-soft"
      />
      <TextField
        label={label}
        hideLabel
        type="search"
        value={text}
        onChange={setText}
        placeholder={placeholder}
        autoComplete="off"
        className="pl-9"
      />
    </div>
  )
}

/** The row above a table. */
export function Filters({ children }: { children: React.ReactNode }) {
  return <div className="flex flex-wrap items-center gap-2 px-5 py-4 max-md:px-4">{children}</div>
}
