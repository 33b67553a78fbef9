import { SearchX } from 'lucide-react'
import { Button } from '../controls/button.tsx'
import { useFilters } from './filters.tsx'

/** Instead of a table's rows, where the filters leave none. `names` are the filters, as the URL has them. */
export function NoMatches({ names, what }: { names: readonly string[]; what: string }) {
  const { set } = useFilters()
  return (
    <div role="status" className="mx-auto flex max-w-2xl flex-col items-center gap-3 px-4 py-10 text-center">
      <SearchX aria-hidden className="size-8 text-soft" />
      <p className="font-medium">Nothing matches</p>
      <p className="text-sm text-soft">No {what} fit these filters.</p>
      <Button onClick={() => set(Object.fromEntries(names.map((name) => [name, undefined])))}>Clear filters</Button>
    </div>
  )
}
