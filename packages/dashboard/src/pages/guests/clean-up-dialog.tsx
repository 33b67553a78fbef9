import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Labelled } from '../../components/controls/field.tsx'
import { Select } from '../../components/controls/select.tsx'
import { Dialog } from '../../components/layout/dialog.tsx'
import { ProgressBar } from '../../components/layout/progress-bar.tsx'
import { ErrorState, Loading } from '../../components/layout/states.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { messageOf } from '../../error-words.ts'

/** `over`: expired sessions, which the service ends soon anyway. */
const AGES = [
  { value: 'over', label: 'Expired sessions' },
  { value: '60', label: 'Sessions older than an hour' },
  { value: '1440', label: 'Sessions older than a day' },
  { value: '10080', label: 'Sessions older than a week' },
  { value: '43200', label: 'Sessions older than 30 days' },
  { value: '0', label: 'All sessions' },
]

/** One call ends up to a thousand sessions. */
const CALLS_MAX = 10_000

const bodyOf = (age: string) => (age === 'over' ? {} : { olderThanMinutes: Number(age) })

const counted = (count: number) => (count === 1 ? '1 guest session' : `${count.toLocaleString('en')} guest sessions`)

function Choosing({ onClose }: { onClose: () => void }) {
  const [age, setAge] = useState('over')
  const [done, setDone] = useState(0)
  const queries = useQueryClient()
  const toast = useToast()
  const trial = useQuery({
    queryKey: ['guests', 'clean-up', age],
    queryFn: ({ signal }) => api.guests.cleanUp({ ...bodyOf(age), dryRun: true }, { signal }),
    staleTime: 0,
  })
  const cleaning = useMutation({
    mutationFn: async () => {
      let ended = 0
      for (let call = 0; call < CALLS_MAX; call += 1) {
        const { expired, hasMore } = await api.guests.cleanUp(bodyOf(age))
        ended += expired
        setDone(ended)
        if (!hasMore) break
      }
      return ended
    },
    onSuccess: (ended) => {
      toast.done(`${counted(ended)} ended`)
      onClose()
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ['guests'] }),
  })
  const count = trial.data?.expired ?? 0
  return (
    <div className="flex flex-col gap-4">
      <Labelled label="Sessions to end">
        <Select label="Sessions to end" value={age} options={AGES} onChange={setAge} className="w-full" />
      </Labelled>
      {cleaning.isPending ? (
        <ProgressBar label="Ending guest sessions" value={done} max={count} />
      ) : trial.isError ? (
        <ErrorState error={trial.error} onRetry={() => void trial.refetch()} />
      ) : trial.data === undefined ? (
        <Loading label="Counting" />
      ) : (
        <div role="status" className="rounded-control bg-raised px-4 py-3 text-sm">
          <p className="font-medium">
            {count === 0 ? 'There are no sessions to end.' : `This ends ${counted(count)}.`}
          </p>
          <p className="mt-1 text-soft">
            Guests who are still signed in are signed out, and their wallets are frozen permanently. Converted guests
            are not affected.
          </p>
        </div>
      )}
      {cleaning.isError ? (
        <p role="alert" className="text-sm text-danger">
          {messageOf(cleaning.error)}
        </p>
      ) : null}
      <div className="flex flex-wrap justify-end gap-2">
        <Button onClick={onClose}>Cancel</Button>
        <Button tone="danger" busy={cleaning.isPending} disabled={count === 0} onClick={() => cleaning.mutate()}>
          {count === 0 ? 'End sessions' : `End ${count.toLocaleString('en')}`}
        </Button>
      </div>
    </div>
  )
}

/** Ends guest sessions in bulk, after showing how many. */
export function CleanUpDialog({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Dialog
      open={open}
      onOpenChange={(next) => (next ? undefined : onClose())}
      title="Clean up guest sessions"
      description="You see how many sessions end before you confirm."
    >
      <Choosing onClose={onClose} />
    </Dialog>
  )
}
