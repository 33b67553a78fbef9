import type { ApiKeyWithKey } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, type DashboardSession } from '../../api.ts'
import { Form } from '../../components/form/form.tsx'
import type { FormField, Option } from '../../components/form/form-field.ts'
import { Dialog } from '../../components/layout/dialog.tsx'
import { Secret } from '../../components/records/copy.tsx'
import { useAppOptions } from '../../components/records/use-apps.ts'
import { useSession } from '../../shell/session-context.ts'
import { expiryOf, LIFETIMES, type Lifetime } from './key-expiry.ts'
import { ScopePicker } from './scope-picker.tsx'
import type { Scope } from './scopes.ts'

const TYPES = [
  { value: 'secret', label: 'Secret: for your servers' },
  { value: 'publishable', label: 'Publishable: for browsers and apps' },
] as const
const WHOLE_TENANT = ''

interface KeyInput {
  name: string
  type: 'secret' | 'publishable'
  appId: string
  scopes: Scope[]
  allowedIps: string
  lifetime: Lifetime
  date: string
}

function bodyOf({ name, type, appId, scopes, allowedIps, lifetime, date }: KeyInput) {
  const addresses = allowedIps.split(/[\s,]+/).filter((address) => address !== '')
  const expiresAt = expiryOf(lifetime, date, Date.now())
  return {
    name,
    type,
    ...(type === 'secret' ? { scopes } : {}),
    appId: appId === WHOLE_TENANT ? null : appId,
    ...(addresses.length === 0 ? {} : { allowedIps: addresses }),
    ...(expiresAt === null ? {} : { expiresAt: expiresAt ?? '' }),
  }
}

function appOptions({ type }: KeyInput, apps: readonly Option[], session: DashboardSession): readonly Option[] {
  const { defaultAppId } = session
  const known = apps.some(({ value }) => value === defaultAppId)
  const named = known ? apps : [{ value: defaultAppId, label: defaultAppId }, ...apps]
  const all = { value: WHOLE_TENANT, label: 'All apps' }
  return type === 'secret' && session.appId === null ? [all, ...named] : named
}

function fieldsOf(apps: readonly Option[], session: DashboardSession): FormField<KeyInput>[] {
  return [
    { name: 'name', label: 'Name', help: 'Where you use the key, for example “Backend”.', input: { dir: 'auto' } },
    {
      name: 'type',
      label: 'Type',
      kind: 'select',
      options: TYPES,
      onChoose: (type, form) =>
        form.setValue('appId', type === 'publishable' ? session.defaultAppId : (session.appId ?? WHOLE_TENANT)),
    },
    {
      name: 'appId',
      label: 'App',
      kind: 'select',
      help: ({ type }) =>
        type === 'publishable'
          ? 'The key works only from the allowed origins of the app.'
          : 'A key of one app can access only that app.',
      options: (input) => appOptions(input, apps, session),
    },
    {
      name: 'scopes',
      label: 'Scopes',
      kind: 'group',
      shown: ({ type }) => type === 'secret',
      render: ({ value, onChange }) => <ScopePicker scopes={value} onChange={onChange} />,
    },
    {
      name: 'allowedIps',
      label: 'Allowed IP addresses',
      kind: 'lines',
      help: 'IP addresses or CIDR ranges, one per line. Leave it empty to allow all addresses.',
      input: { rows: 2, placeholder: '203.0.113.0/24' },
    },
    { name: 'lifetime', label: 'Expires', wireName: 'expiresAt', kind: 'select', options: LIFETIMES },
    {
      name: 'date',
      label: 'Last day',
      wireName: 'expiresAt',
      shown: ({ lifetime }) => lifetime === 'date',
      input: { type: 'date' },
    },
  ]
}

function CreateKeyForm({ onCreated, onCancel }: { onCreated: (key: ApiKeyWithKey) => void; onCancel: () => void }) {
  const { session } = useSession()
  const apps = useAppOptions()
  const queries = useQueryClient()
  return (
    <Form<KeyInput>
      fields={fieldsOf(apps, session)}
      values={{
        name: '',
        type: 'secret',
        appId: session.appId ?? WHOLE_TENANT,
        scopes: [],
        allowedIps: '',
        lifetime: 'never',
        date: '',
      }}
      action="Create key"
      onCancel={onCancel}
      onSubmit={async (input) => {
        onCreated(await api.apiKeys.create(bodyOf(input)))
        await queries.invalidateQueries({ queryKey: ['api-keys'] })
      }}
    />
  )
}

/** Creates a key and shows its value, once. */
export function CreateKeyDialog({ open, onClose }: { open: boolean; onClose: () => void }) {
  const [created, setCreated] = useState<ApiKeyWithKey | null>(null)
  const close = () => {
    setCreated(null)
    onClose()
  }
  return (
    <Dialog
      open={open}
      onOpenChange={(next) => (next ? undefined : close())}
      title={created === null ? 'Create an API key' : `The key “${created.name}”`}
      wide={created === null}
    >
      {created === null ? (
        <CreateKeyForm onCreated={setCreated} onCancel={close} />
      ) : (
        <Secret label="API key" value={created.key} onDone={close} />
      )}
    </Dialog>
  )
}
