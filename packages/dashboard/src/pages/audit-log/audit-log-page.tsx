import type { AuditEntry } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { UserPicker } from '../../components/controls/user-picker.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Detail, Details } from '../../components/layout/details.tsx'
import { Dialog } from '../../components/layout/dialog.tsx'
import { Page } from '../../components/layout/page.tsx'
import { curl, EmptyState } from '../../components/layout/states.tsx'
import { CodeBlock, CopyableId } from '../../components/records/copy.tsx'
import { IdDetail } from '../../components/records/record-details.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { RecordName } from '../../components/records/record-name.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { CsvButton } from '../../components/table/csv-button.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { FilterSelect, Filters, FilterText, useFilters, useSort } from '../../components/table/filters.tsx'
import { LIVE } from '../../query-client.ts'
import { findAuditEntry } from '../../shell/find-audit-entry.ts'
import { useSession } from '../../shell/session-context.ts'

/** The prefixes of audit actions. */
const FAMILIES = [
  'user',
  'wallet',
  'guest',
  'passkey',
  'session',
  'mfa',
  'delegated_session',
  'tx',
  'key_share',
  'key',
  'api_key',
  'app',
  'custom_domain',
  'tenant',
  'webhook',
  'billing',
  'usage',
  'users',
  'dashboard',
] as const
type Family = `${(typeof FAMILIES)[number]}.*`

const familyOf = (name: string | undefined): Family | undefined =>
  FAMILIES.map((family): Family => `${family}.*`).find((family) => family === name)

const DAY_MS = 86_400_000
const SINCE: Record<string, number> = {
  hour: DAY_MS / 24,
  day: DAY_MS,
  week: 7 * DAY_MS,
}
const SINCE_OPTIONS = Object.keys(SINCE).map((value) => ({ value, label: `Last ${value}` }))
const MINUTE_MS = 60_000

/** Rounded to the minute, so that the same view makes the same query. */
function sinceOf(name: string | undefined): string | undefined {
  const ageMs = SINCE[name ?? '']
  if (ageMs === undefined) return undefined
  return new Date(Math.floor((Date.now() - ageMs) / MINUTE_MS) * MINUTE_MS).toISOString()
}

const SORTABLE = { at: 'seq' } as const
const PHONE = { detail: 'target', side: 'actor', when: 'at' }

function columnsOf(open: (entry: AuditEntry) => void): Column<AuditEntry>[] {
  return [
    {
      id: 'action',
      header: 'Action',
      cell: ({ row }) => (
        <button
          type="button"
          className="block max-w-full truncate text-left font-medium text-accent hover:underline"
          onClick={() => open(row.original)}
        >
          {row.original.action}
        </button>
      ),
    },
    { id: 'target', header: 'Target', cell: ({ row }) => <RecordName id={row.original.target} /> },
    { id: 'actor', header: 'Actor', cell: ({ row }) => <RecordName id={row.original.actor} /> },
    { id: 'at', header: 'Time', cell: ({ row }) => <RelativeTime at={row.original.at} /> },
  ]
}

function Entry({ entry, onClose }: { entry: AuditEntry; onClose: () => void }) {
  const { set } = useFilters()
  const only = (changes: Record<string, string>) => {
    onClose()
    set({ ...changes, entry: undefined })
  }
  return (
    <Dialog
      open
      onOpenChange={onClose}
      title={entry.action}
      description={`Entry ${entry.seq} in the log of this tenant`}
      wide
    >
      <div className="flex flex-col gap-5">
        <Details>
          <Detail label="Target">
            <RecordName id={entry.target} />
          </Detail>
          <Detail label="Actor">
            <RecordName id={entry.actor} />
          </Detail>
          <Detail label="Time">
            <RelativeTime at={entry.at} /> <span className="block text-sm text-soft">{entry.at}</span>
          </Detail>
          <Detail label="API key">{entry.keyId === null ? '–' : <RecordName id={entry.keyId} />}</Detail>
          <Detail label="IP address">{entry.address ?? '–'}</Detail>
          <Detail label="User">{entry.userId === null ? '–' : <RecordName id={entry.userId} />}</Detail>
          <Detail label="App">{entry.appId === null ? '–' : <RecordName id={entry.appId} />}</Detail>
          <Detail label="Request">{entry.requestId ?? '–'}</Detail>
          <Detail label="Event">{entry.eventId === null ? '–' : <RecordLink id={entry.eventId} />}</Detail>
        </Details>
        <Details>
          <IdDetail label="Hash" id={entry.hash} what="hash" />
          <Detail label="Previous hash">
            {entry.previousHash === null ? '–' : <CopyableId id={entry.previousHash} what="previous hash" />}
          </Detail>
        </Details>
        <div className="flex flex-wrap justify-end gap-2">
          <Button onClick={() => only({ actor: entry.actor })}>Show all by this actor</Button>
          <Button onClick={() => only({ target: entry.target })}>Show all for this target</Button>
        </div>
      </div>
    </Dialog>
  )
}

/** Who did what to what, from where. */
export function AuditLogPage() {
  const { values, page, set } = useFilters()
  const { session } = useSession()
  const [open, setOpen] = useState<AuditEntry | null>(null)
  const columns = useMemo(() => columnsOf(setOpen), [])
  const linked = useQuery({
    queryKey: ['audit-log', 'entry', values.entry],
    queryFn: ({ signal }) => findAuditEntry(values.entry ?? '', signal),
    enabled: values.entry !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const shown = open ?? (values.entry === undefined ? null : (linked.data ?? null))
  const close = () => {
    setOpen(null)
    if (values.entry !== undefined) set({ entry: undefined })
  }
  const { actor, target, user_id: userId } = values
  const action = familyOf(values.action)
  const since = sinceOf(values.since)
  const filtered = [actor, action, target, userId, since].some((value) => value !== undefined)
  const sort = useSort(SORTABLE)
  const query = useQuery({
    queryKey: ['audit-log', actor, action, target, userId, since, sort, page],
    queryFn: async ({ signal }) =>
      await api.auditLog.list({ page, sort, actor, action, target, userId, since }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  const empty = filtered ? (
    <EmptyState
      title="No results"
      action={
        <Button onClick={() => set({ actor: '', action: '', target: '', user_id: '', since: '' })}>
          Clear filters
        </Button>
      }
    >
      The actor and target filters need a complete id.
    </EmptyState>
  ) : (
    <EmptyState title="No entries yet" command={curl(session.publicUrl, 'POST', '/users', { name: 'Ada' })}>
      Every change is recorded here within a second.
    </EmptyState>
  )
  return (
    <Page
      title="Audit log"
      description="Each entry contains the hash of the entry before it, so a removed or changed entry can be detected."
    >
      <Card flush>
        <Filters>
          <FilterSelect
            name="action"
            label="Action"
            options={FAMILIES.map((family) => ({ value: `${family}.*`, label: family }))}
          />
          <UserPicker compact label="User" userId={userId} onChange={(next) => set({ user_id: next })} />
          <FilterText name="actor" label="Actor" placeholder="Actor id" />
          <FilterText name="target" label="Target" placeholder="Target id" />
          <FilterSelect name="since" label="Time" options={SINCE_OPTIONS} all="any time" />
          <CsvButton list="audit-log" query={{ actor, action, target, userId, since, sort }} />
        </Filters>
        <DataTable label="Audit log" query={query} columns={columns} empty={empty} phone={PHONE} sortable={SORTABLE} />
      </Card>
      <Card
        title="Verify the log"
        description="Export the log, then verify the export on another machine. The verification does not need this server."
      >
        <CodeBlock
          label="commands"
          text={`npm run halfkey -- audit export --tenant ${session.tenant.id} --out audit.jsonl\nnpm run halfkey -- audit verify --file audit.jsonl`}
        />
      </Card>
      {shown === null ? null : <Entry entry={shown} onClose={close} />}
    </Page>
  )
}
