import type { Delivery, Webhook } from '@halfkey/sdk'
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { createContext, useContext, useState } from 'react'
import { api } from '../../../api.ts'
import { Button } from '../../../components/controls/button.tsx'
import { Checkbox } from '../../../components/controls/checkbox.tsx'
import { Card } from '../../../components/layout/card.tsx'
import { ConfirmDialog } from '../../../components/layout/dialog.tsx'
import { EmptyState } from '../../../components/layout/states.tsx'
import { useToast } from '../../../components/layout/toast.tsx'
import { RelativeTime } from '../../../components/records/relative-time.tsx'
import { type Column, DataTable } from '../../../components/table/data-table.tsx'
import { Filters, useFilters, useSort } from '../../../components/table/filters.tsx'
import { LIVE } from '../../../query-client.ts'
import { attemptsOf, DeliveryLink, LastAnswer } from '../deliveries/outcome.tsx'
import { RecoverDialog, RecoveryProgress, useRecovery } from './recovery.tsx'
import { RetryProgress } from './retry-progress.tsx'
import { isRunning, type RetryRunner } from './retry-run.ts'

const PAGE_SIZE = 50
const SORTABLE = { created: 'createdAt' } as const
const PHONE = { lead: 'tick', title: 'event', detail: 'answer', when: 'given-up' }
const NUMERIC = ['attempts']

/** The selected dead letters; null if the session may not write. */
const Selection = createContext<{ chosen: ReadonlySet<string>; toggle: (id: string, on: boolean) => void } | null>(null)

function Tick({ delivery }: { delivery: Delivery }) {
  const selection = useContext(Selection)
  if (selection === null) return null
  return (
    <Checkbox
      label={`Select ${delivery.eventType} ${delivery.eventId}`}
      hideLabel
      checked={selection.chosen.has(delivery.id)}
      onChange={(on) => selection.toggle(delivery.id, on)}
    />
  )
}

const rest: Column<Delivery>[] = [
  { id: 'event', header: 'Event', cell: ({ row }) => <DeliveryLink delivery={row.original} /> },
  { id: 'answer', header: 'Last response', cell: ({ row }) => <LastAnswer delivery={row.original} /> },
  { id: 'attempts', header: 'Attempts', cell: ({ row }) => attemptsOf(row.original) },
  { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
  { id: 'given-up', header: 'Last attempt', cell: ({ row }) => <RelativeTime at={row.original.updatedAt} /> },
]
const columns: Column<Delivery>[] = [
  { id: 'tick', header: 'Select', cell: ({ row }) => <Tick delivery={row.original} /> },
  ...rest,
]

interface OpenDialogs {
  retry: boolean
  recover: boolean
  purge: boolean
}
const ALL_CLOSED: OpenDialogs = { retry: false, recover: false, purge: false }

function PurgeDialog({ webhook, open, onClose }: { webhook: Webhook; open: boolean; onClose: () => void }) {
  const queryClient = useQueryClient()
  const { done } = useToast()
  return (
    <ConfirmDialog
      open={open}
      onOpenChange={(next) => (next ? undefined : onClose())}
      title="Delete all dead letters of this webhook"
      action="Purge"
      typed="purge"
      onConfirm={async () => {
        const { purged } = await api.webhooks.purge(webhook.id)
        done(purged === 1 ? '1 dead letter deleted' : `${purged} dead letters deleted`)
        await queryClient.invalidateQueries({ queryKey: ['webhooks', webhook.id] })
      }}
    >
      <p>
        These deliveries can no longer be retried. The events stay in the event feed until their retention period ends.
      </p>
    </ConfirmDialog>
  )
}

function RetryDialog({
  open,
  count,
  joins,
  onClose,
  onConfirm,
}: {
  open: boolean
  count: number
  /** Whether another run is in progress. */
  joins: boolean
  onClose: () => void
  onConfirm: () => void
}) {
  return (
    <ConfirmDialog
      open={open}
      onOpenChange={(next) => (next ? undefined : onClose())}
      title={count === 1 ? 'Retry 1 dead letter' : `Retry ${count} dead letters`}
      action="Retry"
      danger={false}
      onConfirm={async () => onConfirm()}
    >
      <p>Each is sent again with the same event id and starts a new series of attempts. The history is kept.</p>
      {joins ? <p>They are added to the retry that is already running.</p> : null}
    </ConfirmDialog>
  )
}

/** The dead letters: look at them, retry them, purge them. */
export function DeadLettersTab({
  webhook,
  mayWrite,
  runner,
}: {
  webhook: Webhook
  mayWrite: boolean
  runner: RetryRunner
}) {
  const { page } = useFilters()
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [dialogs, setDialogs] = useState(ALL_CLOSED)
  const recovery = useRecovery(webhook.id)
  const sort = useSort(SORTABLE)
  const query = useQuery({
    queryKey: ['webhooks', webhook.id, 'dead-letters', { page, sort }],
    queryFn: ({ signal }) =>
      api.webhooks.deliveries.list(webhook.id, { page, pageSize: PAGE_SIZE, status: 'dead_letter', sort }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  const shown = query.data?.data.map(({ id }) => id) ?? []
  const toggle = (ids: readonly string[], on: boolean) => {
    const next = new Set(chosen)
    for (const id of ids) on ? next.add(id) : next.delete(id)
    setChosen(next)
  }
  const close = () => setDialogs(ALL_CLOSED)
  return (
    <>
      {runner.run === null ? null : (
        <RetryProgress run={runner.run} onCancel={runner.cancel} onDismiss={runner.dismiss} />
      )}
      {recovery.jobId === null ? null : (
        <RecoveryProgress jobId={recovery.jobId} webhookId={webhook.id} onDismiss={recovery.forget} />
      )}
      <Card flush>
        {mayWrite && (query.data?.total ?? 0) > 0 ? (
          <Toolbar
            webhook={webhook}
            shown={shown}
            chosen={chosen}
            onToggle={toggle}
            onOpen={(what) => setDialogs({ ...ALL_CLOSED, [what]: true })}
          />
        ) : null}
        <Selection value={mayWrite ? { chosen, toggle: (id, on) => toggle([id], on) } : null}>
          <DataTable
            label="Dead letters"
            query={query}
            columns={mayWrite ? columns : rest}
            numeric={NUMERIC}
            phone={PHONE}
            sortable={SORTABLE}
            empty={
              <EmptyState title="No dead letters">
                Deliveries whose attempts all failed are kept here for 90 days.
              </EmptyState>
            }
          />
        </Selection>
      </Card>
      <RetryDialog
        open={dialogs.retry}
        count={chosen.size}
        joins={runner.run !== null && isRunning(runner.run)}
        onClose={close}
        onConfirm={() => {
          runner.start([...chosen])
          setChosen(new Set())
        }}
      />
      <RecoverDialog webhook={webhook} open={dialogs.recover} onClose={close} onBegun={recovery.begin} />
      <PurgeDialog webhook={webhook} open={dialogs.purge} onClose={close} />
    </>
  )
}

function Toolbar({
  webhook,
  shown,
  chosen,
  onToggle,
  onOpen,
}: {
  webhook: Webhook
  shown: readonly string[]
  chosen: ReadonlySet<string>
  onToggle: (ids: readonly string[], on: boolean) => void
  onOpen: (what: keyof OpenDialogs) => void
}) {
  const disabled = webhook.status === 'disabled'
  const all = shown.length > 0 && shown.every((id) => chosen.has(id))
  return (
    <Filters>
      <div className="flex min-h-9 items-center pr-3">
        <Checkbox
          label={chosen.size === 0 ? 'Select all on this page' : `${chosen.size} selected`}
          checked={all}
          mixed={chosen.size > 0}
          onChange={(on) => onToggle(shown, on)}
        />
      </div>
      <div className="ml-auto flex flex-wrap items-center gap-2">
        <Button tone="primary" disabled={disabled || chosen.size === 0} onClick={() => onOpen('retry')}>
          Retry selected
        </Button>
        <Button disabled={disabled} onClick={() => onOpen('recover')}>
          Retry all since…
        </Button>
        <Button onClick={() => onOpen('purge')}>Purge…</Button>
      </div>
      {disabled ? <p className="w-full text-sm text-soft">Activate the webhook before you retry.</p> : null}
    </Filters>
  )
}
