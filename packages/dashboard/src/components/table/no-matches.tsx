import { SearchX } from 'lucide-react'
import { Button } from '../controls/button.tsx'
import { useFilters } from './filters.tsx'

/** Shown if the filters match no rows. `names` are the filters' names in the URL. */
export function NoMatches({ names, what }: { names: readonly string[]; what: string }) {
  const { set } = useFilters()
  return (
    <div role="status" className="mx-auto flex max-w-2xl flex-col items-center gap-3 px-4 py-10 text-center">
      <span className="rounded-full bg-raised p-3">
        <SearchX aria-hidden className="size-5 text-soft" />
      </span>
      <p className="font-medium">No results</p>
      <p className="text-sm text-soft">No {what} match these filters.</p>
      <Button onClick={() => set(Object.fromEntries(names.map((name) => [name, undefined])))}>Clear filters</Button>
    </div>
  )
}
