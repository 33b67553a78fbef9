import { Plus, X } from 'lucide-react'
import { useState } from 'react'
import { Button, IconButton } from '../controls/button.tsx'
import { TextField } from '../controls/field.tsx'

/** An entry of metadata that is being typed; `id` tells it from the others while its key changes. */
export interface MetadataRow {
  id: number
  key: string
  value: string
}

const ROWS_MAX = 50
const CHARS_SHOWN = 240
let lastId = 0
const newRow = (key = '', value = ''): MetadataRow => {
  lastId += 1
  return { id: lastId, key, value }
}

/** A record's metadata as rows to edit. */
export const rowsOf = (metadata: Record<string, string>): MetadataRow[] =>
  Object.entries(metadata).map(([key, value]) => newRow(key, value))

/** What the rows say; those without a key say nothing. */
export const metadataOf = (rows: readonly MetadataRow[]): Record<string, string> =>
  Object.fromEntries(rows.filter(({ key }) => key !== '').map(({ key, value }) => [key, value]))

/** What PATCH takes to get from `before` to the rows: null removes a key. Undefined where nothing changed. */
export function metadataChanges(
  before: Record<string, string>,
  rows: readonly MetadataRow[],
): Record<string, string | null> | undefined {
  const after = metadataOf(rows)
  const removed = Object.keys(before).filter((key) => !Object.hasOwn(after, key))
  const set = Object.entries(after).filter(([key, value]) => before[key] !== value)
  if (removed.length === 0 && set.length === 0) return undefined
  return { ...Object.fromEntries(removed.map((key) => [key, null])), ...Object.fromEntries(set) }
}

/** Metadata, key by key. `errors` are those of the form: what they say of metadata is shown here. */
export function MetadataField({
  rows,
  onChange,
  errors = {},
}: {
  rows: readonly MetadataRow[]
  onChange: (rows: MetadataRow[]) => void
  errors?: Record<string, string>
}) {
  const change = (id: number, part: Partial<MetadataRow>) =>
    onChange(rows.map((row) => (row.id === id ? { ...row, ...part } : row)))
  const [field, message] = Object.entries(errors).find(([name]) => /^metadata(\.|$)/.test(name)) ?? []
  return (
    <fieldset className="flex min-w-0 flex-col gap-2">
      <legend className="mb-1.5 text-sm font-medium">Metadata</legend>
      {rows.map((row, index) => (
        <div key={row.id} className="grid grid-cols-[1fr_1fr_auto] gap-2">
          <TextField
            label={`Key ${index + 1}`}
            hideLabel
            placeholder="Key"
            value={row.key}
            onChange={(key) => change(row.id, { key })}
            autoComplete="off"
          />
          <TextField
            label={`Value ${index + 1}`}
            hideLabel
            placeholder="Value"
            value={row.value}
            onChange={(value) => change(row.id, { value })}
            autoComplete="off"
          />
          <IconButton
            label={`Remove entry ${index + 1}`}
            onClick={() => onChange(rows.filter(({ id }) => id !== row.id))}
          >
            <X aria-hidden className="size-4" />
          </IconButton>
        </div>
      ))}
      {message === undefined ? null : (
        <p role="alert" className="text-sm text-danger [overflow-wrap:anywhere]">
          {field === 'metadata' ? message : `${field?.slice('metadata.'.length)}: ${message}`}
        </p>
      )}
      {rows.length < ROWS_MAX ? (
        <Button className="self-start" onClick={() => onChange([...rows, newRow()])}>
          <Plus aria-hidden className="size-4" />
          Add entry
        </Button>
      ) : null}
    </fieldset>
  )
}

/** A text whose end is shown only if it is asked for. */
function LongText({ text }: { text: string }) {
  const [all, setAll] = useState(false)
  if (text.length <= CHARS_SHOWN) return <bdi>{text}</bdi>
  return (
    <>
      <bdi>{all ? text : `${text.slice(0, CHARS_SHOWN)}…`}</bdi>{' '}
      <button
        type="button"
        aria-expanded={all}
        onClick={() => setAll(!all)}
        className="font-medium text-accent hover:underline max-md:min-h-11"
      >
        {all ? 'Show less' : `Show all ${text.length.toLocaleString('en')} characters`}
      </button>
    </>
  )
}

/** Metadata to read. */
export function MetadataList({ metadata }: { metadata: Record<string, string> }) {
  const entries = Object.entries(metadata)
  if (entries.length === 0) return <p className="text-sm text-soft">None.</p>
  return (
    <dl className="grid gap-x-6 gap-y-2 text-sm sm:grid-cols-[minmax(8rem,auto)_1fr]">
      {entries.map(([key, value]) => (
        <div key={key} className="min-w-0 sm:contents">
          <dt className="text-soft [overflow-wrap:anywhere]">
            <bdi>{key}</bdi>
          </dt>
          <dd className="min-w-0 [overflow-wrap:anywhere]">
            <LongText text={value} />
          </dd>
        </div>
      ))}
    </dl>
  )
}
