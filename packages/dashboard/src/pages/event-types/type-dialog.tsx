import type { CustomEventType } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { Form } from '../../components/form/form.tsx'
import { Detail } from '../../components/layout/details.tsx'
import { curl } from '../../components/layout/states.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { UrlDialog } from '../../components/layout/url-dialog.tsx'
import { StatusBadge } from '../../components/records/badge.tsx'
import { CodeBlock } from '../../components/records/copy.tsx'
import { AppDetail, IdDetail, TimeDetail } from '../../components/records/record-details.tsx'
import { useFilters } from '../../components/table/filters.tsx'
import { useSession } from '../../shell/session-context.ts'
import { bodyOf, inputOf, TYPE_FIELDS, type TypeInput } from './type-fields.ts'

function Facts({ type }: { type: CustomEventType }) {
  return (
    <dl className="grid gap-x-8 gap-y-3 sm:grid-cols-2">
      <Detail label="Name" wide>
        <code className="font-mono text-[0.8125rem]">{type.name}</code>
      </Detail>
      <Detail label="Status">
        <StatusBadge status={type.status} />
      </Detail>
      <Detail label="Schema version">{type.schemaVersion}</Detail>
      <IdDetail label="Id" id={type.id} what="event type id" />
      <AppDetail appId={type.appId} />
      <TimeDetail label="Created" at={type.createdAt} />
      <TimeDetail label="Changed" at={type.updatedAt} />
    </dl>
  )
}

function TypeForm({ type, mayWrite }: { type: CustomEventType; mayWrite: boolean }) {
  const { values, set } = useFilters()
  const queries = useQueryClient()
  const toast = useToast()
  const close = () => set({ id: undefined, page: values.page })
  return (
    <Form<TypeInput>
      fields={TYPE_FIELDS}
      values={inputOf(type)}
      action="Save changes"
      readOnly={!mayWrite}
      onCancel={close}
      onSubmit={async (_, changes) => {
        await api.eventTypes.update(type.id, bodyOf(changes))
        toast.done('Event type changed', type.name)
        await queries.invalidateQueries({ queryKey: ['event-types'] })
        close()
      }}
    />
  )
}

function HowToPublish({ type }: { type: CustomEventType }) {
  const { session } = useSession()
  if (type.status === 'archived') return null
  const app = type.appId === session.defaultAppId ? {} : { appId: type.appId }
  const event = { type: type.name, ...app, data: type.example ?? {} }
  return (
    <section className="flex min-w-0 flex-col gap-2">
      <h3 className="text-sm font-medium">Publish an event of this type</h3>
      <CodeBlock label="command" text={curl(session.publicUrl, 'POST', '/events', event)} />
    </section>
  )
}

/** Shows the event type that the URL names, to read or to change. */
export function TypeDialog({ mayWrite }: { mayWrite: boolean }) {
  return (
    <UrlDialog
      name="id"
      title="Event type"
      resource="event-types"
      read={(id, options) => api.eventTypes.get(id, options)}
    >
      {(type) => (
        <div className="flex min-w-0 flex-col gap-6">
          <Facts type={type} />
          <HowToPublish type={type} />
          <TypeForm type={type} mayWrite={mayWrite} />
        </div>
      )}
    </UrlDialog>
  )
}
