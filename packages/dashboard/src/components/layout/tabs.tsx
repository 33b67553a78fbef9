import { Tabs as Base } from '@base-ui/react/tabs'
import type { ReactNode } from 'react'

/** Tabs. The selected one belongs in the URL: see `useFilters`. */
export function Tabs<T extends string>({
  label,
  value,
  onChange,
  tabs,
}: {
  label: string
  value: T
  onChange: (value: T) => void
  tabs: readonly { value: T; label: ReactNode; content: ReactNode }[]
}) {
  return (
    <Base.Root value={value} onValueChange={(next) => onChange(next as T)} className="flex min-w-0 flex-col gap-5">
      <Base.List aria-label={label} className="flex gap-1 overflow-x-auto border-b">
        {tabs.map((tab) => (
          <Base.Tab
            key={tab.value}
            value={tab.value}
            className="-mb-px min-h-10 border-b-2 border-transparent px-3 text-sm font-medium whitespace-nowrap text-soft outline-offset-[-2px] hover:text-ink data-active:border-accent data-active:text-ink max-md:min-h-11"
          >
            {tab.label}
          </Base.Tab>
        ))}
      </Base.List>
      {tabs.map((tab) => (
        <Base.Panel key={tab.value} value={tab.value} className="flex min-w-0 flex-col gap-5">
          {tab.content}
        </Base.Panel>
      ))}
    </Base.Root>
  )
}
