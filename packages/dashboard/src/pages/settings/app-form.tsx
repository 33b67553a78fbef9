import type { App, Body } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api, fieldErrors, messageOf } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Labelled, SwitchField, TextArea, TextField } from '../../components/controls/field.tsx'
import { Select } from '../../components/controls/select.tsx'
import { Card } from '../../components/layout/card.tsx'
import { useToast } from '../../components/layout/toast.tsx'

type Changes = NonNullable<Body<'/apps/{id}', 'patch'>>

/** The form's fields, as they are typed. */
interface Fields {
  name: string
  origins: string
  redirects: string
  rpId: string
  rpName: string
  userVerification: App['passkey']['userVerification']
  botUsername: string
  botToken: string
  mfaPolicy: App['mfa']['policy']
  enforceForServer: boolean
  accessTokenSeconds: string
  refreshTokenDays: string
  allowServer: boolean
  serverCombine: boolean
  metadata: string
}

function fieldsOf(app: App): Fields {
  return {
    name: app.name,
    origins: app.allowedOrigins.join('\n'),
    redirects: app.allowedRedirectUrls.join('\n'),
    rpId: app.passkey.rpId,
    rpName: app.passkey.rpName,
    userVerification: app.passkey.userVerification,
    botUsername: app.messenger.botUsername ?? '',
    botToken: '',
    mfaPolicy: app.mfa.policy,
    enforceForServer: app.mfa.enforceForServer,
    accessTokenSeconds: String(app.sessions.accessTokenSeconds),
    refreshTokenDays: String(app.sessions.refreshTokenDays),
    allowServer: app.mpc.allowServer,
    serverCombine: app.recovery.serverCombine,
    metadata: JSON.stringify(app.metadata, null, 2),
  }
}

const lines = (text: string) =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')

/** Metadata merges by key on the wire: what was taken out of the text is taken out by null. */
function metadataOf(text: string, before: App['metadata']): NonNullable<Changes['metadata']> {
  const wanted = JSON.parse(text === '' ? '{}' : text) as Record<string, string>
  const gone = Object.keys(before).filter((key) => !(key in wanted))
  return { ...wanted, ...Object.fromEntries(gone.map((key) => [key, null])) } as NonNullable<Changes['metadata']>
}

/** What differs from the app as it is: nothing else is sent, so that two people's changes do not undo each other. */
function changesOf(app: App, fields: Fields): Changes {
  const before = fieldsOf(app)
  const differs = (...names: (keyof Fields)[]) => names.some((name) => fields[name] !== before[name])
  return {
    ...(differs('name') ? { name: fields.name } : {}),
    ...(differs('origins') ? { allowedOrigins: lines(fields.origins) } : {}),
    ...(differs('redirects') ? { allowedRedirectUrls: lines(fields.redirects) } : {}),
    ...(differs('rpId', 'rpName', 'userVerification')
      ? { passkey: { rpId: fields.rpId, rpName: fields.rpName, userVerification: fields.userVerification } }
      : {}),
    ...(differs('botUsername', 'botToken')
      ? {
          messenger: {
            botUsername: fields.botUsername || null,
            ...(fields.botToken === '' ? {} : { botToken: fields.botToken.trim() }),
          },
        }
      : {}),
    ...(differs('mfaPolicy', 'enforceForServer')
      ? { mfa: { policy: fields.mfaPolicy, enforceForServer: fields.enforceForServer } }
      : {}),
    ...(differs('accessTokenSeconds', 'refreshTokenDays')
      ? {
          sessions: {
            accessTokenSeconds: Number(fields.accessTokenSeconds),
            refreshTokenDays: Number(fields.refreshTokenDays),
          },
        }
      : {}),
    ...(differs('allowServer') ? { mpc: { allowServer: fields.allowServer } } : {}),
    ...(differs('serverCombine') ? { recovery: { serverCombine: fields.serverCombine } } : {}),
    ...(differs('metadata') ? { metadata: metadataOf(fields.metadata, app.metadata) } : {}),
  }
}

/** The errors of a list's entries in one text, each with its line. */
function entryErrors(errors: Record<string, string>, field: string): string | undefined {
  const found = Object.entries(errors).filter(([name]) => name === field || name.startsWith(`${field}.`))
  if (found.length === 0) return undefined
  return found
    .map(([name, message]) =>
      name === field ? message : `Line ${Number(name.slice(field.length + 1)) + 1}: ${message}`,
    )
    .join(' ')
}

type Part = {
  fields: Fields
  set: <K extends keyof Fields>(name: K, value: Fields[K]) => void
  errors: Record<string, string>
}

function Origins({ fields, set, errors }: Part) {
  return (
    <Card title="General">
      <div className="flex flex-col gap-4">
        <TextField
          label="Name"
          value={fields.name}
          onChange={(value) => set('name', value)}
          error={errors.name}
          required
        />
        <TextArea
          label="Allowed origins"
          hint="One a line, as https://shop.example.com: from where browsers may use the app’s publishable keys."
          value={fields.origins}
          onChange={(value) => set('origins', value)}
          error={entryErrors(errors, 'allowedOrigins')}
          mono
        />
        <TextArea
          label="Allowed redirect URLs"
          hint="One a line, compared character by character: where the sign-in page may send people back to."
          value={fields.redirects}
          onChange={(value) => set('redirects', value)}
          error={entryErrors(errors, 'allowedRedirectUrls')}
          mono
        />
      </div>
    </Card>
  )
}

function Passkeys({ app, fields, set, errors }: Part & { app: App }) {
  return (
    <Card title="Passkeys">
      <div className="flex flex-col gap-4">
        <TextField
          label="Relying party id"
          value={fields.rpId}
          onChange={(value) => set('rpId', value)}
          error={errors['passkey.rpId']}
          hint={
            fields.rpId === app.passkey.rpId
              ? 'The host name, or a parent of it, that passkeys belong to.'
              : `New passkeys will belong to ${fields.rpId || '…'}. Those that people have belong to ${app.passkey.rpId} and go on working only where that name is in reach.`
          }
        />
        <TextField
          label="Name that authenticators show"
          value={fields.rpName}
          onChange={(value) => set('rpName', value)}
          error={errors['passkey.rpName']}
        />
        <Labelled
          label="User verification"
          hint="Whether a passkey asks for a finger, a face or a PIN."
          error={errors['passkey.userVerification']}
        >
          <Select
            label="User verification"
            value={fields.userVerification}
            options={[
              { value: 'required', label: 'Required' },
              { value: 'preferred', label: 'Preferred' },
              { value: 'discouraged', label: 'Discouraged' },
            ]}
            onChange={(value) => set('userVerification', value)}
          />
        </Labelled>
      </div>
    </Card>
  )
}

function Messenger({ app, fields, set, errors }: Part & { app: App }) {
  return (
    <Card title="Telegram" description={app.messenger.configured ? 'Set up.' : 'Not set up.'}>
      <div className="flex flex-col gap-4">
        <TextField
          label="Bot’s user name"
          value={fields.botUsername}
          onChange={(value) => set('botUsername', value)}
          error={errors['messenger.botUsername']}
          placeholder="shop_bot"
          autoComplete="off"
        />
        <TextField
          label="Bot token"
          type="password"
          value={fields.botToken}
          onChange={(value) => set('botToken', value)}
          error={errors['messenger.botToken']}
          hint="Sealed at once and never shown again. Empty: as it is."
          autoComplete="off"
        />
      </div>
    </Card>
  )
}

function Security({ fields, set, errors }: Part) {
  return (
    <Card title="Second factor and sessions">
      <div className="flex flex-col gap-4">
        <Labelled label="Second factor" hint="For what a stolen session must not do." error={errors['mfa.policy']}>
          <Select
            label="Second factor"
            value={fields.mfaPolicy}
            options={[
              { value: 'if_enrolled', label: 'Of those who have set one up' },
              { value: 'always', label: 'Of everybody' },
              { value: 'never', label: 'Of nobody' },
            ]}
            onChange={(value) => set('mfaPolicy', value)}
          />
        </Labelled>
        <SwitchField
          label="Also where your server acts for a user"
          hint="Otherwise calls by a secret key for a user need none."
          checked={fields.enforceForServer}
          onChange={(checked) => set('enforceForServer', checked)}
        />
        <TextField
          label="Access tokens live for (seconds)"
          inputMode="numeric"
          value={fields.accessTokenSeconds}
          onChange={(value) => set('accessTokenSeconds', value)}
          error={errors['sessions.accessTokenSeconds']}
        />
        <TextField
          label="Sessions end unused after (days)"
          inputMode="numeric"
          value={fields.refreshTokenDays}
          onChange={(value) => set('refreshTokenDays', value)}
          error={errors['sessions.refreshTokenDays']}
        />
      </div>
    </Card>
  )
}

function Keys({ fields, set, errors }: Part) {
  return (
    <Card title="Keys and metadata">
      <div className="flex flex-col gap-4">
        <SwitchField
          label="Servers may act on keys for users"
          hint="Lets a secret key make and recover shares for a user who is not there."
          checked={fields.allowServer}
          onChange={(checked) => set('allowServer', checked)}
        />
        <SwitchField
          label="Recover by combining on the server"
          hint="The whole key then exists in the server’s memory for a moment. Self-custody only."
          checked={fields.serverCombine}
          onChange={(checked) => set('serverCombine', checked)}
        />
        <TextArea
          label="Metadata"
          hint="A JSON object of strings."
          value={fields.metadata}
          onChange={(value) => set('metadata', value)}
          error={entryErrors(errors, 'metadata')}
          mono
        />
      </div>
    </Card>
  )
}

/** All settings of an app. Saves what was changed, and nothing else. */
export function AppForm({ app, readOnly }: { app: App; readOnly: boolean }) {
  const client = useQueryClient()
  const toast = useToast()
  const [fields, setFields] = useState(() => fieldsOf(app))
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const errors = error instanceof SyntaxError ? { metadata: 'This is not valid JSON.' } : fieldErrors(error)
  const part: Part = {
    fields,
    errors,
    set: (name, value) => setFields((before) => ({ ...before, [name]: value })),
  }
  const save = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(null)
    try {
      await api.apps.update(app.id, changesOf(app, fields))
      await client.invalidateQueries({ queryKey: ['apps'] })
      toast.done('Saved')
    } catch (failure) {
      setError(failure)
    } finally {
      setBusy(false)
    }
  }
  return (
    <form onSubmit={(event) => void save(event)} noValidate>
      <fieldset disabled={readOnly} className="flex min-w-0 flex-col gap-5">
        <legend className="sr-only">Settings of the app</legend>
        <Origins {...part} />
        <div className="grid gap-5 lg:grid-cols-2">
          <Passkeys app={app} {...part} />
          <Security {...part} />
          <Messenger app={app} {...part} />
          <Keys {...part} />
        </div>
        {error === null ? null : (
          <p role="alert" className="rounded-control bg-danger-wash px-4 py-3 text-sm text-danger">
            {Object.keys(errors).length > 0 ? 'Not saved: some fields are not right.' : messageOf(error)}
          </p>
        )}
        {readOnly ? null : (
          <Button tone="primary" type="submit" busy={busy} className="self-start">
            Save
          </Button>
        )}
      </fieldset>
    </form>
  )
}
