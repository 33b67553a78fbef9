import { isHalfkeyError, type User, type UsersBulk } from '@halfkey/sdk'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { createContext, type ReactNode, useContext, useEffect, useState } from 'react'
import { api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Checkbox } from '../../components/controls/checkbox.tsx'
import { Card } from '../../components/layout/card.tsx'
import { ConfirmButton } from '../../components/layout/confirm-button.tsx'
import { ProgressBar } from '../../components/layout/progress-bar.tsx'
import { ErrorState } from '../../components/layout/states.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { nameOfUser } from '../../components/records/user-link.tsx'
import type { Column } from '../../components/table/data-table.tsx'
import { Filters } from '../../components/table/filters.tsx'
import { useSession } from '../../shell/session-context.ts'

const POLL_MS = 700
/** The most that the API takes. */
const CHOSEN_MAX = 1_000
const FAILURES_SHOWN_MAX = 20

interface Chosen {
  ids: ReadonlySet<string>
  toggle: (ids: readonly string[], on: boolean) => void
}

/** The selected users. */
export const Selection = createContext<Chosen>({ ids: new Set(), toggle: () => {} })

/** The users that are selected for an action, on any page. */
export function useSelection(): Chosen & { clear: () => void } {
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set())
  return {
    ids,
    toggle(changed, on) {
      const next = new Set(ids)
      for (const id of changed) on ? next.add(id) : next.delete(id)
      setIds(next)
    },
    clear: () => setIds(new Set()),
  }
}

function Tick({ user }: { user: User }) {
  const { ids, toggle } = useContext(Selection)
  return (
    <Checkbox
      label={`Select ${nameOfUser(user)}`}
      hideLabel
      checked={ids.has(user.id)}
      onChange={(on) => toggle([user.id], on)}
    />
  )
}

/** The column that selects. */
export const tick: Column<User> = { id: 'tick', header: 'Select', cell: ({ row }) => <Tick user={row.original} /> }

type Action = UsersBulk['action']

const ACTIONS: { action: Action; label: string; danger: boolean; typed?: string; consequence: ReactNode }[] = [
  { action: 'activate', label: 'Activate', danger: false, consequence: 'Suspended users can sign in again.' },
  {
    action: 'end_sessions',
    label: 'End sessions',
    danger: true,
    consequence: 'The users are signed out everywhere. They can sign in again.',
  },
  {
    action: 'suspend',
    label: 'Suspend',
    danger: true,
    consequence: 'All their sessions end immediately. They cannot sign in until you activate them again.',
  },
  {
    action: 'delete',
    label: 'Delete',
    danger: true,
    typed: 'delete',
    consequence:
      'This deletes the users with their sessions, passkeys, wallets, key shares and delegated sessions. It cannot be undone. Nobody can move the assets of their embedded wallets afterwards.',
  },
]

const countOf = (users: number) => (users === 1 ? '1 user' : `${users} users`)

/** Selects all users of the page, and starts an action on the selected ones. */
export function BulkBar({
  shown,
  selection,
  onBegun,
}: {
  shown: readonly string[]
  selection: Chosen & { clear: () => void }
  onBegun: (jobId: string) => void
}) {
  const { ids, toggle, clear } = selection
  return (
    <Filters>
      <div className="flex min-h-9 items-center pr-3">
        <Checkbox
          label={ids.size === 0 ? 'Select all on this page' : `${ids.size} selected`}
          checked={shown.length > 0 && shown.every((id) => ids.has(id))}
          mixed={ids.size > 0}
          onChange={(on) => toggle(shown, on)}
        />
      </div>
      {ids.size === 0 || ids.size > CHOSEN_MAX ? null : (
        <div className="ml-auto flex flex-wrap items-center gap-2">
          {ACTIONS.map(({ action, label, danger, typed, consequence }) => (
            <ConfirmButton
              key={action}
              label={label}
              className={action === 'delete' ? 'text-danger!' : ''}
              title={`${label}: ${countOf(ids.size)}`}
              action={label}
              danger={danger}
              {...(typed === undefined ? {} : { typed })}
              onConfirm={async () => {
                const { id } = await api.users.bulk.start({ action, userIds: [...ids] })
                clear()
                onBegun(id)
              }}
            >
              <p>{consequence}</p>
            </ConfirmButton>
          ))}
        </div>
      )}
      {ids.size > CHOSEN_MAX ? (
        <p className="w-full text-sm text-soft">Select at most {CHOSEN_MAX} users at once.</p>
      ) : null}
    </Filters>
  )
}

/** The bulk action that was begun in this browser, kept over reloads until it is dismissed. */
export function useBulk() {
  const { session } = useSession()
  const key = `halfkey.users-bulk.${session.tenant.id}`
  const [jobId, setJobId] = useState(() => localStorage.getItem(key))
  return {
    jobId,
    begin(id: string) {
      localStorage.setItem(key, id)
      setJobId(id)
    },
    forget() {
      localStorage.removeItem(key)
      setJobId(null)
    },
  }
}

const DOING: Record<Action, string> = {
  activate: 'Activating users',
  end_sessions: 'Ending sessions',
  suspend: 'Suspending users',
  delete: 'Deleting users',
}
const DONE: Record<Action, string> = {
  activate: 'activated',
  end_sessions: 'signed out',
  suspend: 'suspended',
  delete: 'deleted',
}

const isOver = (run: UsersBulk | undefined): boolean => run?.status === 'succeeded' || run?.status === 'failed'

function Failures({ failed }: { failed: UsersBulk['failed'] }) {
  if (failed.length === 0) return null
  return (
    <ul className="flex flex-col gap-1 text-sm">
      {failed.slice(0, FAILURES_SHOWN_MAX).map(({ userId, message }) => (
        <li key={userId} className="flex min-w-0 flex-wrap gap-x-3">
          <RecordLink id={userId} />
          <span className="text-danger">{message}</span>
        </li>
      ))}
      {failed.length > FAILURES_SHOWN_MAX ? <li>And {failed.length - FAILURES_SHOWN_MAX} more.</li> : null}
    </ul>
  )
}

/** The progress of a bulk action, and for whom it failed. */
export function BulkProgress({ jobId, onDismiss }: { jobId: string; onDismiss: () => void }) {
  const queries = useQueryClient()
  const { data: run, error } = useQuery({
    queryKey: ['users-bulk', jobId],
    queryFn: ({ signal }) => api.users.bulk.get(jobId, { signal }),
    refetchInterval: ({ state }) => (isOver(state.data) ? false : POLL_MS),
  })
  const over = isOver(run)
  useEffect(() => {
    if (over) void queries.invalidateQueries({ queryKey: ['users'] })
  }, [over, queries])
  // Jobs can be read for 30 days after their end.
  const gone = isHalfkeyError(error, 'not_found')
  useEffect(() => {
    if (gone) onDismiss()
  }, [gone, onDismiss])
  if (gone) return null
  if (run === undefined) return error === null ? null : <ErrorState error={error} />
  return (
    <Card>
      <section aria-label="Action on the selected users" className="flex flex-col gap-3">
        {over ? (
          <p role="status" className="text-sm font-medium">
            {countOf(run.done - run.failed.length)} {DONE[run.action]}
            {run.failed.length === 0 ? '.' : `, ${run.failed.length} refused.`}
          </p>
        ) : (
          <ProgressBar label={DOING[run.action]} value={run.done} max={run.total} />
        )}
        {run.error === null ? null : <p className="text-sm text-danger">{run.error}</p>}
        <Failures failed={run.failed} />
        <div className="flex flex-wrap items-center justify-between gap-3">
          <p className="text-sm text-soft">{over ? '' : 'This runs on the server. You can leave this page.'}</p>
          {over ? <Button onClick={onDismiss}>Dismiss</Button> : null}
        </div>
      </section>
    </Card>
  )
}
