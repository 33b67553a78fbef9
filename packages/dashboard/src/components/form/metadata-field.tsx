import { Plus, X } from 'lucide-react'
import { Button, IconButton } from '../controls/button.tsx'
import { TextField } from '../controls/field.tsx'
import type { Bound } from './form-field.ts'

/** An entry of metadata while it is edited. `id` identifies it while its key changes. */
export interface MetadataRow {
  id: number
  key: string
  value: string
}

const ROWS_MAX = 50
let lastId = 0
const newRow = (key = '', value = ''): MetadataRow => {
  lastId += 1
  return { id: lastId, key, value }
}

/** A record's metadata as rows to edit. */
export const rowsOf = (metadata: Record<string, string>): MetadataRow[] =>
  Object.entries(metadata).map(([key, value]) => newRow(key, value))

/** The rows as metadata, without those that have no key. */
export const metadataOf = (rows: readonly MetadataRow[]): Record<string, string> =>
  Object.fromEntries(rows.filter(({ key }) => key !== '').map(({ key, value }) => [key, value]))

/** What PATCH takes to get from `before` to `after`: null removes a key. */
export function metadataChanges(
  before: Record<string, string>,
  after: Record<string, string>,
): Record<string, string | null> {
  const removed = Object.keys(before).filter((key) => !Object.hasOwn(after, key))
  const set = Object.entries(after).filter(([key, value]) => before[key] !== value)
  return { ...Object.fromEntries(removed.map((key) => [key, null])), ...Object.fromEntries(set) }
}

function MetadataRows({ value: rows, onChange }: Bound<MetadataRow[]>) {
  const change = (id: number, part: Partial<MetadataRow>) =>
    onChange(rows.map((row) => (row.id === id ? { ...row, ...part } : row)))
  return (
    <>
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
      {rows.length < ROWS_MAX ? (
        <Button className="self-start" onClick={() => onChange([...rows, newRow()])}>
          <Plus aria-hidden className="size-4" />
          Add entry
        </Button>
      ) : null}
    </>
  )
}

/** The field of a form that edits metadata, key by key. */
export const METADATA_FIELD = {
  name: 'metadata',
  label: 'Metadata',
  kind: 'group',
  partName: (key: string) => key,
  render: (rows: Bound<MetadataRow[]>) => <MetadataRows {...rows} />,
} as const
