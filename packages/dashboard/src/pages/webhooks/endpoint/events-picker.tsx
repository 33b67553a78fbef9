import { ChevronRight } from 'lucide-react'
import { useState } from 'react'
import { Button } from '../../../components/controls/button.tsx'
import { Checkbox } from '../../../components/controls/checkbox.tsx'
import { TextField } from '../../../components/controls/field.tsx'
import type { Bound } from '../../../components/form/form-field.ts'
import { Loading } from '../../../components/layout/states.tsx'
import { type KnownType, useEventTypes } from '../../event-types/known-types.ts'

const EVERYTHING = '*'

/** `user.created` belongs to `user.*`. */
export const familyOf = (type: string): string => `${type.split('.', 1)[0]}.*`

/** Whether a subscription covers an event type. */
export function covers(events: readonly string[], type: string): boolean {
  return events.includes(EVERYTHING) || events.includes(familyOf(type)) || events.includes(type)
}

/** Adds or removes an entry. Adding a wider entry removes those that it covers. */
function withEntry(events: readonly string[], entry: string, on: boolean): string[] {
  const others = events.filter((each) => each !== entry)
  if (!on) return others
  if (entry === EVERYTHING) return [EVERYTHING]
  return [...(entry.endsWith('.*') ? others.filter((each) => familyOf(each) !== entry) : others), entry]
}

/** Each family with its types, in the order of the catalogue. */
function familiesOf(types: readonly KnownType[]): [string, KnownType[]][] {
  return [...Map.groupBy(types, ({ type }) => familyOf(type))]
}

function matching(types: readonly KnownType[], search: string): KnownType[] {
  const wanted = search.trim().toLowerCase()
  return types.filter(({ type, description }) => `${type} ${description}`.toLowerCase().includes(wanted))
}

function Families({ types, value, onChange }: Bound<string[]> & { types: readonly KnownType[] }) {
  const everything = value.includes(EVERYTHING)
  return (
    <div className="grid grid-cols-2 gap-x-4 gap-y-2 max-md:gap-y-0 lg:grid-cols-3">
      {familiesOf(types).map(([family, members]) => (
        <Checkbox
          key={family}
          label={
            <>
              <span className="font-mono text-xs">{family}</span> <span className="text-soft">{members.length}</span>
            </>
          }
          checked={everything || value.includes(family)}
          mixed={members.some(({ type }) => value.includes(type))}
          disabled={everything}
          onChange={(on) => onChange(withEntry(value, family, on))}
        />
      ))}
    </div>
  )
}

/** Every event type with its description, to search. */
function SingleTypes({ types, value, onChange }: Bound<string[]> & { types: readonly KnownType[] }) {
  const [search, setSearch] = useState('')
  const found = matching(types, search)
  return (
    <>
      <TextField
        label="Search events"
        hideLabel
        type="search"
        value={search}
        onChange={setSearch}
        placeholder="Search events, for example wallet"
        autoComplete="off"
      />
      <fieldset className="flex max-h-64 flex-col gap-2.5 overflow-y-auto rounded-control border p-3">
        <legend className="sr-only">Event types</legend>
        {found.map(({ type, description }) => {
          const isCovered = value.includes(EVERYTHING) || value.includes(familyOf(type))
          return (
            <Checkbox
              key={type}
              label={<span className="font-mono text-[0.8125rem]">{type}</span>}
              hint={description}
              checked={isCovered || value.includes(type)}
              disabled={isCovered}
              onChange={(on) => onChange(withEntry(value, type, on))}
            />
          )
        })}
        {found.length === 0 ? <p className="text-sm text-soft">No event type contains “{search.trim()}”.</p> : null}
      </fieldset>
    </>
  )
}

const isSingle = (entry: string) => entry !== EVERYTHING && !entry.endsWith('.*')

/** Picks the events of an endpoint: all, families, or single types. */
export function EventsPicker({ value, onChange }: Bound<string[]>) {
  const types = useEventTypes().filter(({ type, archived }) => !archived || value.includes(type))
  const [hasMore, setMore] = useState(() => value.some(isSingle))
  return (
    <>
      <Checkbox
        label="All events"
        hint="Including your own events, and events added in later versions"
        checked={value.includes(EVERYTHING)}
        onChange={(on) => onChange(withEntry(value, EVERYTHING, on))}
      />
      {types.length === 0 ? (
        <Loading label="Loading event types" />
      ) : (
        <Families types={types} value={value} onChange={onChange} />
      )}
      <div>
        <Button tone="ghost" aria-expanded={hasMore} onClick={() => setMore(!hasMore)} className="-ml-3.5">
          <ChevronRight aria-hidden className={`size-4 transition-transform ${hasMore ? 'rotate-90' : ''}`} />
          Single event types
        </Button>
      </div>
      {hasMore ? <SingleTypes types={types} value={value} onChange={onChange} /> : null}
      <p className="text-sm text-soft [overflow-wrap:anywhere]">
        {value.length === 0 ? 'No events selected.' : `Selected: ${value.join(', ')}`}
      </p>
    </>
  )
}
