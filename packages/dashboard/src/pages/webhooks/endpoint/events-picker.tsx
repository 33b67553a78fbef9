import type { EventTypeRecord } from '@halfkey/sdk'
import { useState } from 'react'
import { Checkbox } from '../../../components/controls/checkbox.tsx'
import { TextField } from '../../../components/controls/field.tsx'
import type { Bound } from '../../../components/form/form-field.ts'
import { Loading } from '../../../components/layout/states.tsx'
import { useEventTypes } from '../queries.ts'

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

function Family({
  family,
  types,
  value,
  onChange,
}: {
  family: string
  types: EventTypeRecord[]
  value: readonly string[]
  onChange: (events: string[]) => void
}) {
  const everything = value.includes(EVERYTHING)
  const whole = everything || value.includes(family)
  const some = types.some(({ type }) => value.includes(type))
  return (
    <div className="flex flex-col gap-2 border-t px-3 py-3 first:border-t-0">
      <Checkbox
        label={<code className="font-mono text-[0.8125rem] font-semibold">{family}</code>}
        hint="All events of this family, including those added in later versions"
        checked={whole}
        mixed={some}
        disabled={everything}
        onChange={(on) => onChange(withEntry(value, family, on))}
      />
      <div className="flex flex-col gap-2 pl-7">
        {types.map(({ type, description }) => (
          <Checkbox
            key={type}
            label={<code className="font-mono text-[0.8125rem]">{type}</code>}
            hint={description}
            checked={whole || value.includes(type)}
            disabled={whole}
            onChange={(on) => onChange(withEntry(value, type, on))}
          />
        ))}
      </div>
    </div>
  )
}

function matching(types: EventTypeRecord[], search: string): Map<string, EventTypeRecord[]> {
  const wanted = search.trim().toLowerCase()
  const found = types.filter(({ type, description }) => `${type} ${description}`.toLowerCase().includes(wanted))
  return Map.groupBy(found, ({ type }) => familyOf(type))
}

/** Picks the events of an endpoint: single types, families, or all. */
export function EventsPicker({ value, onChange }: Bound<string[]>) {
  const types = useEventTypes()
  const [search, setSearch] = useState('')
  const families = matching(types, search)
  const all = value.includes(EVERYTHING)
  return (
    <>
      <Checkbox
        label="All events"
        hint="Including events added in later versions"
        checked={all}
        onChange={(on) => onChange(withEntry(value, EVERYTHING, on))}
      />
      <TextField
        label="Search events"
        hideLabel
        type="search"
        value={search}
        onChange={setSearch}
        placeholder="Search events, such as wallet"
        autoComplete="off"
      />
      <div className="max-h-72 overflow-y-auto rounded-control border">
        {types.length === 0 ? <Loading label="Loading event types" /> : null}
        {[...families].map(([family, members]) => (
          <Family key={family} family={family} types={members} value={value} onChange={onChange} />
        ))}
        {types.length > 0 && families.size === 0 ? (
          <p className="p-4 text-sm text-soft">No event type contains “{search.trim()}”.</p>
        ) : null}
      </div>
      <p className="text-sm text-soft [overflow-wrap:anywhere]">
        {value.length === 0 ? 'No events selected.' : `Selected: ${value.join(', ')}`}
      </p>
    </>
  )
}
