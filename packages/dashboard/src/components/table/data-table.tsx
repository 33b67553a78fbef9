import type { Page as ListPage } from '@halfkey/sdk'
import type { UseQueryResult } from '@tanstack/react-query'
import { type ColumnDef, tableFeatures, useTable } from '@tanstack/react-table'
import { ArrowDown, ArrowUp, ChevronLeft, ChevronRight, ChevronsUpDown } from 'lucide-react'
import type { ReactNode } from 'react'
import { Button } from '../controls/button.tsx'
import { Select } from '../controls/select.tsx'
import { ErrorState, Loading } from '../layout/states.tsx'
import { useFilters, useSort } from './filters.tsx'

const features = tableFeatures({})
const NO_ROWS: never[] = []
const NOT_SORTABLE = {}

/** A column of a `DataTable`: `{ id, header, cell: ({ row }) => … }`, `row.original` being the record. */
export type Column<T extends object> = ColumnDef<typeof features, T>

/** A place in the two lines that a row has on a narrow screen. */
type Slot = 'lead' | 'title' | 'side' | 'detail' | 'when' | 'act'

/** A list begins with the newest record: by its time, or in the audit log by its number. */
const isTime = (field: string | undefined) => field === 'createdAt' || field === 'seq'

/** The order that is shown, and how it is changed. Without one in the URL, the newest come first. */
function useOrder(sortable: Readonly<Record<string, string>>) {
  const { set } = useFilters()
  const newest = Object.values(sortable).find(isTime)
  const sort = useSort(sortable) ?? `-${newest}`
  const choose = (next: string) => set({ sort: next === `-${newest}` ? undefined : next })
  return {
    sort,
    choose,
    /** Undefined for a column that cannot be sorted. */
    of(columnId: string): 'ascending' | 'descending' | 'none' | undefined {
      const field = sortable[columnId]
      if (field === undefined) return undefined
      return sort === field ? 'ascending' : sort === `-${field}` ? 'descending' : 'none'
    },
    change(columnId: string) {
      const field = sortable[columnId] as string
      const descending = sort === field || (sort !== `-${field}` && isTime(field))
      choose(descending ? `-${field}` : field)
    },
  }
}

const ORDER_ICON = { ascending: ArrowUp, descending: ArrowDown, none: ChevronsUpDown }

function SortButton({
  order,
  onClick,
  children,
}: {
  order: keyof typeof ORDER_ICON
  onClick: () => void
  children: ReactNode
}) {
  const Icon = ORDER_ICON[order]
  return (
    <button
      type="button"
      onClick={onClick}
      className={`-mx-1.5 inline-flex h-8 items-center gap-1 rounded-control px-1.5 hover:text-ink ${order === 'none' ? '' : 'text-ink'}`}
    >
      {children}
      <Icon aria-hidden className="size-3.5" />
    </button>
  )
}

/** Both orders of each column that sorts, the one first that a click on its header begins with. */
function orderOptions(
  columns: readonly { id?: string; header?: unknown }[],
  sortable: Readonly<Record<string, string>>,
) {
  return Object.entries(sortable).flatMap(([columnId, field]) => {
    const name = String(columns.find(({ id }) => id === columnId)?.header)
    return isTime(field)
      ? [
          { value: `-${field}`, label: `${name}, newest first` },
          { value: field, label: `${name}, oldest first` },
        ]
      : [
          { value: field, label: `${name}, A to Z` },
          { value: `-${field}`, label: `${name}, Z to A` },
        ]
  })
}

/** Replaces the headers, which sort, on a narrow screen. */
function SortSelect({
  order,
  options,
}: {
  order: { sort: string; choose: (sort: string) => void }
  options: readonly { value: string; label: string }[]
}) {
  if (options.length === 0) return null
  return (
    <div className="flex items-center gap-3 px-4 pb-3 md:hidden">
      <span aria-hidden className="flex-none text-sm text-soft">
        Sort by
      </span>
      <Select label="Sort by" value={order.sort} options={options} onChange={order.choose} className="min-w-0 flex-1" />
    </div>
  )
}

/** A table of one page of an API list. The page number and the order are in the URL. */
export function DataTable<T extends object>({
  label,
  query,
  columns,
  empty,
  numeric = [],
  phone = {},
  sortable = NOT_SORTABLE,
  rowKey = (row) => (row as { id: string }).id,
}: {
  /** What the table lists, for assistive technology. */
  label: string
  query: UseQueryResult<ListPage<T>>
  /** The same array at every render: at module scope, or memoised. */
  columns: Column<T>[]
  /** Replaces an empty table. */
  empty: ReactNode
  /** The ids of numeric columns: right-aligned, with tabular figures. */
  numeric?: readonly string[]
  /** The column in each place of a row on a narrow screen. Without a title it is the first column. */
  phone?: Partial<Record<Slot, string>>
  /** The API's fields that the list can be sorted by, by the ids of their columns. */
  sortable?: Readonly<Record<string, string>>
  rowKey?: (row: T) => string
}) {
  const title = phone.title ?? columns[0]?.id
  const slots = new Map(Object.entries({ ...phone, title }).map(([slot, id]) => [id, slot]))
  const order = useOrder(sortable)
  const table = useTable({
    features,
    columns,
    data: (query.data?.data as T[] | undefined) ?? (NO_ROWS as T[]),
    getRowId: rowKey,
  })
  if (query.isPending) return <Loading />
  if (query.isError && query.data === undefined)
    return <ErrorState error={query.error} onRetry={() => void query.refetch()} />
  const { data: records, total, page } = query.data as ListPage<T>
  if (records.length === 0 && page === 1) return empty
  return (
    <>
      <SortSelect order={order} options={orderOptions(columns, sortable)} />
      <div className="overflow-x-auto" aria-busy={query.isFetching}>
        {/* On a narrow screen the table is styled as blocks: without these roles assistive technology would not see a table. */}
        <table role="table" aria-label={label} className="rows w-full text-left text-sm">
          <thead role="rowgroup" className="border-b">
            {table.getHeaderGroups().map((group) => (
              <tr role="row" key={group.id}>
                {group.headers.map((header) => {
                  const sorted = order.of(header.column.id)
                  return (
                    <th
                      role="columnheader"
                      key={header.id}
                      aria-sort={sorted}
                      className={`h-10 px-3 font-medium whitespace-nowrap text-soft first:pl-5 last:pr-5 ${numeric.includes(header.column.id) ? 'text-right' : ''}`}
                    >
                      {sorted === undefined ? (
                        <table.FlexRender header={header} />
                      ) : (
                        <SortButton order={sorted} onClick={() => order.change(header.column.id)}>
                          <table.FlexRender header={header} />
                        </SortButton>
                      )}
                    </th>
                  )
                })}
              </tr>
            ))}
          </thead>
          <tbody role="rowgroup" className="divide-y">
            {table.getRowModel().rows.map((row) => (
              <tr role="row" key={row.id} className="hover:bg-raised/60">
                {row.getAllCells().map((cell) => (
                  <td
                    role="cell"
                    key={cell.id}
                    data-slot={slots.get(cell.column.id)}
                    className={`align-middle whitespace-nowrap md:h-11 md:px-3 md:first:pl-5 md:last:pr-5 ${cell.column.id === title ? 'md:w-full md:max-w-0 md:min-w-48' : 'md:max-w-52'} ${numeric.includes(cell.column.id) ? 'text-right tabular-nums' : ''}`}
                  >
                    <table.FlexRender cell={cell} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Pages of={label} page={page} shown={records.length} total={total} pageSize={query.data?.pageSize ?? 20} />
    </>
  )
}

interface PagesProps {
  /** What the table lists: several tables may stand on one page. */
  of: string
  page: number
  shown: number
  total: number
  pageSize: number
}

function Pages({ of, page, shown, total, pageSize }: PagesProps) {
  const { set } = useFilters()
  const first = (page - 1) * pageSize + 1
  const go = (next: number) => set({ page: next === 1 ? undefined : String(next) })
  return (
    <nav
      aria-label={`Pages of ${of}`}
      className="flex flex-wrap items-center justify-between gap-3 border-t px-5 py-3 text-sm text-soft max-md:px-4"
    >
      <span role="status" className="tabular-nums">
        {shown === 0 ? `No rows on page ${page}` : `${first}–${first + shown - 1} of ${total}`}
      </span>
      {total <= pageSize && page === 1 ? null : (
        <span className="flex gap-2">
          <Button disabled={page === 1} onClick={() => go(page - 1)}>
            <ChevronLeft aria-hidden className="size-4" />
            Previous{' '}
          </Button>
          <Button disabled={page * pageSize >= total} onClick={() => go(page + 1)}>
            {' '}
            Next <ChevronRight aria-hidden className="size-4" />
          </Button>
        </span>
      )}
    </nav>
  )
}
