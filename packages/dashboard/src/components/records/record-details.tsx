import { Detail } from '../layout/details.tsx'
import { CopyableId } from './copy.tsx'
import { RecordLink } from './record-link.tsx'
import { RelativeTime } from './relative-time.tsx'
import { useApps } from './use-apps.ts'

/** A time of a record. `none` is shown for null. */
export function TimeDetail({ label, at, none }: { label: string; at: string | null; none?: string }) {
  return (
    <Detail label={label}>
      <RelativeTime at={at} {...(none === undefined ? {} : { none })} />
    </Detail>
  )
}

/** An id of a record, to copy. `what` completes the button's name: "Copy …". */
export function IdDetail({ label, id, what }: { label: string; id: string; what: string }) {
  return (
    <Detail label={label}>
      <CopyableId id={id} what={what} />
    </Detail>
  )
}

/** The app of a record, by its name where the session may see it. */
export function AppDetail({ appId }: { appId: string }) {
  const name = useApps().find(({ id }) => id === appId)?.name
  return (
    <Detail label="App">
      <RecordLink id={appId}>{name}</RecordLink>
    </Detail>
  )
}
