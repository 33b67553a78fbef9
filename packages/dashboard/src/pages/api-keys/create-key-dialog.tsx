import type { ApiKeyWithKey } from '@halfkey/sdk'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, fieldErrors } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Labelled, TextArea, TextField } from '../../components/controls/field.tsx'
import { Select } from '../../components/controls/select.tsx'
import { FormError } from '../../components/form/form-error.tsx'
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
const FIELDS = ['name', 'type', 'scopes', 'appId', 'allowedIps', 'expiresAt']
const WHOLE_TENANT = ''

interface KeyInput {
  name: string
  type: 'secret' | 'publishable'
  appId: string
  scopes: Scope[]
  addresses: string
  lifetime: Lifetime
  date: string
}

function bodyOf({ name, type, appId, scopes, addresses, lifetime, date }: KeyInput) {
  const allowedIps = addresses.split(/[\s,]+/).filter((address) => address !== '')
  const expiresAt = expiryOf(lifetime, date, Date.now())
  return {
    name,
    type,
    ...(type === 'secret' ? { scopes } : {}),
    appId: appId === WHOLE_TENANT ? null : appId,
    ...(allowedIps.length === 0 ? {} : { allowedIps }),
    ...(expiresAt === null ? {} : { expiresAt: expiresAt ?? '' }),
  }
}

type Change = (part: Partial<KeyInput>) => void

/** Of a list, what is said of any entry: `allowedIps.0` is shown at the field. */
const errorOf = (errors: Record<string, string>, field: string) =>
  errors[field] ?? Object.entries(errors).find(([name]) => name.startsWith(`${field}.`))?.[1]

function AppChoice({ input, change, error }: { input: KeyInput; change: Change; error: string | undefined }) {
  const { session } = useSession()
  const apps = useAppOptions()
  const known = apps.some(({ value }) => value === session.defaultAppId)
  const named = known ? apps : [{ value: session.defaultAppId, label: session.defaultAppId }, ...apps]
  const all = { value: WHOLE_TENANT, label: 'All apps of the tenant' }
  const options = input.type === 'secret' && session.appId === null ? [all, ...named] : named
  return (
    <Labelled
      label="App"
      error={error}
      hint={
        input.type === 'publishable'
          ? 'Works from the app’s allowed origins only.'
          : 'A key that is bound sees that app only.'
      }
    >
      <Select
        label="App"
        value={input.appId}
        options={options}
        onChange={(appId) => change({ appId })}
        className="w-full"
      />
    </Labelled>
  )
}

function Limits({ input, change, errors }: { input: KeyInput; change: Change; errors: Record<string, string> }) {
  return (
    <>
      <TextArea
        label="Allowed addresses"
        hint="Addresses or CIDRs, one a line, from which alone the key works. Empty: from everywhere."
        mono
        rows={2}
        placeholder="203.0.113.0/24"
        value={input.addresses}
        onChange={(addresses) => change({ addresses })}
        error={errorOf(errors, 'allowedIps')}
      />
      <Labelled label="Ends" error={input.lifetime === 'date' ? undefined : errors.expiresAt}>
        <Select
          label="Ends"
          value={input.lifetime}
          options={LIFETIMES}
          onChange={(lifetime) => change({ lifetime })}
          className="w-full"
        />
      </Labelled>
      {input.lifetime === 'date' ? (
        <TextField
          label="Last day"
          type="date"
          value={input.date}
          onChange={(date) => change({ date })}
          error={errors.expiresAt}
        />
      ) : null}
    </>
  )
}

function Creation({ onCreated, onCancel }: { onCreated: (key: ApiKeyWithKey) => void; onCancel: () => void }) {
  const { session } = useSession()
  const [input, setInput] = useState<KeyInput>({
    name: '',
    type: 'secret',
    appId: session.appId ?? WHOLE_TENANT,
    scopes: [],
    addresses: '',
    lifetime: 'never',
    date: '',
  })
  const change: Change = (part) => setInput((before) => ({ ...before, ...part }))
  const queries = useQueryClient()
  const creation = useMutation({
    mutationFn: () => api.apiKeys.create(bodyOf(input)),
    onSuccess: async (key) => {
      onCreated(key)
      await queries.invalidateQueries({ queryKey: ['api-keys'] })
    },
  })
  const errors = fieldErrors(creation.error)
  return (
    <form
      noValidate
      className="flex flex-col gap-5"
      onSubmit={(event) => {
        event.preventDefault()
        creation.mutate()
      }}
    >
      <TextField
        label="Name"
        hint="Where it is used, such as “Backend”."
        value={input.name}
        onChange={(name) => change({ name })}
        autoComplete="off"
        dir="auto"
        error={errors.name}
      />
      <Labelled label="Type" error={errors.type}>
        <Select
          label="Type"
          value={input.type}
          options={TYPES}
          onChange={(type) =>
            change({ type, appId: type === 'publishable' ? session.defaultAppId : (session.appId ?? WHOLE_TENANT) })
          }
          className="w-full"
        />
      </Labelled>
      <AppChoice input={input} change={change} error={errors.appId} />
      {input.type === 'secret' ? (
        <ScopePicker
          scopes={input.scopes}
          onChange={(scopes) => change({ scopes })}
          error={errorOf(errors, 'scopes')}
        />
      ) : null}
      <Limits input={input} change={change} errors={errors} />
      <FormError error={creation.error} fields={FIELDS} />
      <div className="flex flex-wrap justify-end gap-2">
        <Button onClick={onCancel}>Cancel</Button>
        <Button tone="primary" type="submit" busy={creation.isPending}>
          Create key
        </Button>
      </div>
    </form>
  )
}

/** Makes a key and shows its value, once. */
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
        <Creation onCreated={setCreated} onCancel={close} />
      ) : (
        <Secret label="API key" value={created.key} onDone={close} />
      )}
    </Dialog>
  )
}
