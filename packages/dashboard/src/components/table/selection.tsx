import { createContext, type ReactNode, useContext, useState } from 'react'
import { Checkbox } from '../controls/checkbox.tsx'
import { Filters } from './filters.tsx'

/** The most records that a bulk call takes. */
const SELECTED_MAX = 1_000

/** The records that are selected for an action, on any page. */
interface Selected {
  ids: ReadonlySet<string>
  toggle: (ids: readonly string[], on: boolean) => void
  clear: () => void
}

/** The selection of a list, for the ticks of its rows. */
export const Selection = createContext<Selected | null>(null)

/** A selection that begins empty. */
export function useSelection(): Selected {
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set())
  return {
    ids,
    toggle(changed, on) {
      const next = new Set(ids)
      for (const id of changed) on ? next.add(id) : next.delete(id)
      setIds(next)
    },
    clear: () => setIds(new Set()),
  }
}

/** Selects one record of the list around it. `name` is for assistive technology. */
export function Tick({ id, name }: { id: string; name: string }) {
  const selection = useContext(Selection)
  if (selection === null) return null
  return (
    <Checkbox
      label={`Select ${name}`}
      hideLabel
      checked={selection.ids.has(id)}
      onChange={(on) => selection.toggle([id], on)}
    />
  )
}

/** Selects all records of the page; `children` are the actions for those that are selected, or for all. */
export function SelectionBar({
  shown,
  selection: { ids, toggle },
  children,
}: {
  shown: readonly string[]
  selection: Selected
  children: ReactNode
}) {
  return (
    <Filters>
      <div className="flex min-h-9 items-center pr-3">
        <Checkbox
          label={ids.size === 0 ? 'Select all on this page' : `${ids.size} selected`}
          checked={shown.length > 0 && shown.every((id) => ids.has(id))}
          mixed={ids.size > 0}
          onChange={(on) => toggle(shown, on)}
        />
      </div>
      {ids.size > SELECTED_MAX ? (
        <p className="w-full text-sm text-soft">Select at most {SELECTED_MAX} at once.</p>
      ) : (
        <div className="ml-auto flex flex-wrap items-center gap-2">{children}</div>
      )}
    </Filters>
  )
}
