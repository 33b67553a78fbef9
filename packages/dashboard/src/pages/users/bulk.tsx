import type { User, UsersBulk } from '@halfkey/sdk'
import type { ReactNode } from 'react'
import { api } from '../../api.ts'
import { JobProgress, type JobView } from '../../components/jobs/job-progress.tsx'
import { ConfirmButton } from '../../components/layout/confirm-button.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { nameOfUser } from '../../components/records/user-link.tsx'
import type { Column } from '../../components/table/data-table.tsx'
import { Tick } from '../../components/table/selection.tsx'

/** The column that selects. */
export const tick: Column<User> = {
  id: 'tick',
  header: 'Select',
  cell: ({ row }) => <Tick id={row.original.id} name={nameOfUser(row.original)} />,
}

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

/** The actions for the selected users. `onBegun` gets the job that an action starts. */
export function BulkActions({ ids, onBegun }: { ids: ReadonlySet<string>; onBegun: (jobId: string) => void }) {
  if (ids.size === 0) return null
  return ACTIONS.map(({ action, label, danger, typed, consequence }) => (
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
        onBegun(id)
      }}
    >
      <p>{consequence}</p>
    </ConfirmButton>
  ))
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

function viewOf({ action, failed, done, ...run }: UsersBulk): JobView {
  const refused = failed.length === 0 ? '.' : `, ${failed.length} refused.`
  return {
    ...run,
    done,
    doing: DOING[action],
    result: `${countOf(done - failed.length)} ${DONE[action]}${refused}`,
    failures: failed.map(({ userId, message }) => ({ id: userId, message })),
  }
}

/** The progress of a bulk action, and for whom it failed. */
export function BulkProgress({ jobId, onDismiss }: { jobId: string; onDismiss: () => void }) {
  return (
    <JobProgress
      label="Action on the selected users"
      jobId={jobId}
      read={async (options) => viewOf(await api.users.bulk.get(jobId, options))}
      changes={['users']}
      link={(id) => <RecordLink id={id} />}
      onDismiss={onDismiss}
    />
  )
}
