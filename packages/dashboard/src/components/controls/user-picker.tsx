import { Combobox } from '@base-ui/react/combobox'
import type { User } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Check, ChevronDown, X } from 'lucide-react'
import { useEffect, useState } from 'react'
import { allows, api } from '../../api.ts'
import { useSession } from '../../shell/session-context.ts'
import { nameOfUser } from '../records/user-link.tsx'
import { Labelled, TextField } from './field.tsx'

const TYPING_MS = 200
const FOUND_MAX = 8
const NONE: User[] = []

/** The text, debounced. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), TYPING_MS)
    return () => clearTimeout(timer)
  }, [text])
  return settled
}

function useChosen(userId: string | undefined, enabled: boolean): User | null {
  const { data } = useQuery({
    queryKey: ['users', 'picked', userId],
    queryFn: ({ signal }) => api.users.get(userId ?? '', { signal }),
    enabled: enabled && userId !== undefined,
    retry: false,
    staleTime: 60_000,
  })
  return userId === undefined ? null : (data ?? null)
}

function Found({ status }: { status: string | null }) {
  return (
    <Combobox.Portal>
      <Combobox.Positioner sideOffset={4} className="z-60">
        <Combobox.Popup className="max-h-80 w-(--anchor-width) min-w-64 overflow-y-auto rounded-control border bg-surface p-1 shadow-popup">
          <Combobox.Status>
            {status === null ? null : <div className="px-2.5 py-2 text-sm text-soft">{status}</div>}
          </Combobox.Status>
          <Combobox.List>
            {(user: User) => (
              <Combobox.Item
                key={user.id}
                value={user}
                className="flex min-h-11 cursor-default items-center justify-between gap-3 rounded-md px-2.5 py-1 text-sm data-highlighted:bg-raised"
              >
                <span className="min-w-0">
                  <span dir="auto" className="block truncate font-medium">
                    {nameOfUser(user)}
                  </span>
                  <span className="block truncate font-mono text-xs text-soft">{user.id}</span>
                </span>
                <Combobox.ItemIndicator>
                  <Check aria-hidden className="size-4" />
                </Combobox.ItemIndicator>
              </Combobox.Item>
            )}
          </Combobox.List>
        </Combobox.Popup>
      </Combobox.Positioner>
    </Combobox.Portal>
  )
}

interface Props {
  label: string
  /** As a filter: narrower, with a hidden label. */
  compact?: boolean
  hint?: string
  error?: string | undefined
  /** The id of the selected user. */
  userId: string | undefined
  onChange: (userId: string | undefined) => void
}

function Picker({ label, compact = false, hint, error, userId, onChange }: Props) {
  const [text, setText] = useState('')
  const search = useSettled(text.trim())
  const [open, setOpen] = useState(false)
  const chosen = useChosen(userId, true)
  const isTyped = chosen === null || text !== nameOfUser(chosen)
  const wanted = isTyped ? search : ''
  const found = useQuery({
    queryKey: ['users', 'picker', wanted],
    queryFn: async ({ signal }) =>
      (await api.users.list({ pageSize: FOUND_MAX, ...(wanted === '' ? {} : { search: wanted }) }, { signal })).data,
    enabled: open,
    placeholderData: keepPreviousData,
  })
  const items = found.data ?? NONE
  const nothing = wanted === '' ? 'There are no users yet.' : 'Nobody matches.'
  const status = found.isPending
    ? 'Searching…'
    : found.isError
      ? 'The search failed.'
      : items.length === 0
        ? nothing
        : null
  const field = (
    <Labelled label={label} hideLabel={compact} hint={hint} error={error}>
      <Combobox.Root
        items={items}
        filter={null}
        value={chosen}
        open={open}
        onOpenChange={(next) => setOpen(next)}
        onValueChange={(next) => onChange((next as User | null)?.id)}
        onInputValueChange={setText}
        itemToStringLabel={(user: User) => nameOfUser(user)}
        isItemEqualToValue={(item: User, value: User) => item.id === value.id}
      >
        <Combobox.InputGroup
          className={`relative flex items-center rounded-control border border-edge/60 bg-surface ${compact ? 'w-56 max-md:w-full' : ''}`}
        >
          <Combobox.Input
            placeholder={compact ? `${label}: all` : 'Name, email, party or id'}
            className="min-h-8.5 w-full min-w-0 rounded-control bg-transparent px-3 pr-16 text-sm placeholder:text-soft max-md:min-h-11 max-md:text-base"
          />
          <div className="absolute right-1 flex items-center">
            <Combobox.Clear
              aria-label={`Clear ${label.toLowerCase()}`}
              className="inline-flex size-7 items-center justify-center rounded-md text-soft hover:bg-raised"
            >
              <X aria-hidden className="size-4" />
            </Combobox.Clear>
            <Combobox.Trigger
              aria-label={`Show ${label.toLowerCase()} choices`}
              className="inline-flex size-7 items-center justify-center rounded-md text-soft hover:bg-raised"
            >
              <ChevronDown aria-hidden className="size-4" />
            </Combobox.Trigger>
          </div>
        </Combobox.InputGroup>
        <Found status={status} />
      </Combobox.Root>
    </Labelled>
  )
  return compact ? <div className="max-md:w-full">{field}</div> : field
}

/** Picks one of the tenant's users by search; by id if the session may not see users. */
export function UserPicker(props: Props) {
  const { session } = useSession()
  if (allows(session, 'users:read')) return <Picker {...props} />
  const { label, compact = false, hint, error, userId, onChange } = props
  return (
    <TextField
      label={label}
      hideLabel={compact}
      hint={hint}
      error={error}
      value={userId ?? ''}
      onChange={(value) => onChange(value.trim() || undefined)}
      placeholder="usr_…"
      autoComplete="off"
    />
  )
}
