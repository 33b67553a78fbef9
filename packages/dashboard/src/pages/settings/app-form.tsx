import type { App, Body } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { Form } from '../../components/form/form.tsx'
import { type FormField, linesOf, widenFields } from '../../components/form/form-field.ts'
import { FormFields } from '../../components/form/form-fields.tsx'
import { parsedJson, problemOfJson } from '../../components/form/json-text.ts'
import { metadataChanges } from '../../components/form/metadata-field.tsx'
import { Card } from '../../components/layout/card.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { BRANDING_SECTION, brandingBodyOf, brandingSettingsOf, type WithBranding } from './branding-section.ts'
import {
  emailBodyOf,
  emailSection,
  emailSettingsOf,
  recoveryBodyOf,
  recoverySettingsOf,
  type WithEmail,
} from './email-section.ts'
import { OPENID_SECTION, openidBodyOf, openidSettingsOf, type WithOpenId } from './openid-section.ts'
import { hookBodyOf, hookSection, hookSettingsOf, type WithSignInHook } from './sign-in-hook-section.ts'
import { WALLETS_SECTION, type WithWallets, walletBodyOf, walletSettingsOf } from './wallets-section.ts'

type Changes = NonNullable<Body<'/apps/{id}', 'patch'>>

/** The settings as they are typed: lists one entry per line, numbers and metadata as text. */
interface Settings
  extends Pick<App, 'name' | 'mfa' | 'mpc' | 'recovery' | 'agents'>,
    WithBranding,
    WithEmail,
    WithOpenId,
    WithSignInHook,
    WithWallets {
  allowedOrigins: string
  allowedRedirectUrls: string
  passkey: Pick<App['passkey'], 'rpId' | 'rpName' | 'userVerification'>
  messenger: { botUsername: string; botToken: string }
  sessions: { accessTokenSeconds: string; refreshTokenDays: string }
  addressBook: { coolingOffSeconds: string }
  metadata: string
}

interface Section {
  title: string
  description?: string
  fields: FormField<Settings>[]
}

function settingsOf(app: App): Settings {
  const { name, mfa, mpc, recovery, agents } = app
  const { rpId, rpName, userVerification } = app.passkey
  return {
    ...{ name, mfa, mpc, recovery, agents },
    allowedOrigins: app.allowedOrigins.join('\n'),
    allowedRedirectUrls: app.allowedRedirectUrls.join('\n'),
    passkey: { rpId, rpName, userVerification },
    messenger: { botUsername: app.messenger.botUsername ?? '', botToken: '' },
    sessions: {
      accessTokenSeconds: String(app.sessions.accessTokenSeconds),
      refreshTokenDays: String(app.sessions.refreshTokenDays),
    },
    addressBook: { coolingOffSeconds: String(app.addressBook.coolingOffSeconds) },
    email: emailSettingsOf(app),
    emailRecovery: recoverySettingsOf(app),
    externalWallets: walletSettingsOf(app),
    openid: openidSettingsOf(app),
    signInHook: hookSettingsOf(app),
    branding: brandingSettingsOf(app),
    metadata: JSON.stringify(app.metadata, null, 2),
  }
}

/** The body of the update. It holds only what was changed, so that two people’s changes do not undo each other. */
function bodyOf(app: App, changed: Partial<Settings>): Changes {
  const {
    allowedOrigins,
    allowedRedirectUrls,
    messenger,
    sessions,
    addressBook,
    email,
    emailRecovery,
    externalWallets,
    openid,
    signInHook,
    branding,
    metadata,
    ...same
  } = changed
  return {
    ...same,
    ...(allowedOrigins === undefined ? {} : { allowedOrigins: linesOf(allowedOrigins) }),
    ...(allowedRedirectUrls === undefined ? {} : { allowedRedirectUrls: linesOf(allowedRedirectUrls) }),
    ...(messenger === undefined
      ? {}
      : {
          messenger: {
            botUsername: messenger.botUsername || null,
            ...(messenger.botToken === '' ? {} : { botToken: messenger.botToken.trim() }),
          },
        }),
    ...(sessions === undefined
      ? {}
      : {
          sessions: {
            accessTokenSeconds: Number(sessions.accessTokenSeconds),
            refreshTokenDays: Number(sessions.refreshTokenDays),
          },
        }),
    ...(addressBook === undefined ? {} : { addressBook: { coolingOffSeconds: Number(addressBook.coolingOffSeconds) } }),
    ...(email === undefined ? {} : { email: emailBodyOf(email) }),
    ...(emailRecovery === undefined ? {} : { emailRecovery: recoveryBodyOf(emailRecovery) }),
    ...(externalWallets === undefined ? {} : { externalWallets: walletBodyOf(externalWallets) }),
    ...(openid === undefined ? {} : { openid: openidBodyOf(openid) }),
    ...(signInHook === undefined ? {} : { signInHook: hookBodyOf(signInHook) }),
    ...(branding === undefined ? {} : { branding: brandingBodyOf(branding) }),
    ...(metadata === undefined
      ? {}
      : { metadata: metadataChanges(app.metadata, (parsedJson(metadata) ?? {}) as Record<string, string>) }),
  }
}

const GENERAL: Section = {
  title: 'General',
  fields: [
    { name: 'name', label: 'Name', required: 'Enter a name.' },
    {
      name: 'allowedOrigins',
      label: 'Allowed origins',
      kind: 'lines',
      help: 'One per line, for example https://shop.example.com. Browsers can use the publishable keys of the app from these origins.',
    },
    {
      name: 'allowedRedirectUrls',
      label: 'Allowed redirect URLs',
      kind: 'lines',
      help: 'One per line. The sign-in page can redirect to these URLs. They must match exactly.',
    },
  ],
}

const passkeys = (app: App): Section => ({
  title: 'Passkeys',
  fields: [
    {
      name: 'passkey.rpId',
      label: 'Relying party id',
      help: ({ passkey: { rpId } }) =>
        rpId === app.passkey.rpId
          ? 'The domain that passkeys belong to: the host name of your app or a parent domain.'
          : `New passkeys will belong to ${rpId || '…'}. Existing passkeys belong to ${app.passkey.rpId} and keep working only there.`,
    },
    { name: 'passkey.rpName', label: 'Name shown by authenticators' },
    {
      name: 'passkey.userVerification',
      label: 'User verification',
      kind: 'select',
      help: 'Whether a passkey checks a fingerprint, a face or a PIN.',
      options: [
        { value: 'required', label: 'Required' },
        { value: 'preferred', label: 'Preferred' },
        { value: 'discouraged', label: 'Discouraged' },
      ],
    },
  ],
})

const SECURITY: Section = {
  title: 'Second factor and sessions',
  fields: [
    {
      name: 'mfa.policy',
      label: 'Second factor',
      kind: 'select',
      help: 'Whether sensitive operations need a code from an authenticator app.',
      options: [
        { value: 'if_enrolled', label: 'Required for users who have set it up' },
        { value: 'always', label: 'Required for all users' },
        { value: 'never', label: 'Not required' },
      ],
    },
    {
      name: 'mfa.enforceForServer',
      label: 'Also when your server acts for a user',
      kind: 'switch',
      help: 'If this is off, calls with a secret key need no second factor.',
    },
    { name: 'sessions.accessTokenSeconds', label: 'Access token lifetime (seconds)', input: { inputMode: 'numeric' } },
    {
      name: 'sessions.refreshTokenDays',
      label: 'Sessions expire unused after (days)',
      input: { inputMode: 'numeric' },
    },
  ],
}

const messenger = (app: App): Section => ({
  title: 'Telegram',
  description: app.messenger.configured ? 'Set up.' : 'Not set up.',
  fields: [
    { name: 'messenger.botUsername', label: 'Bot user name', input: { placeholder: 'shop_bot' } },
    {
      name: 'messenger.botToken',
      label: 'Bot token',
      input: { type: 'password' },
      help: 'Stored encrypted and never shown again. Leave it empty to keep the current token.',
    },
  ],
})

const email = (app: App): Section => {
  const section = emailSection(app)
  return { ...section, fields: widenFields<Settings, WithEmail>(section.fields) }
}

const hook = (app: App): Section => {
  const section = hookSection(app)
  return { ...section, fields: widenFields<Settings, WithSignInHook>(section.fields) }
}

const WALLETS: Section = { ...WALLETS_SECTION, fields: widenFields<Settings, WithWallets>(WALLETS_SECTION.fields) }

const OPENID: Section = { ...OPENID_SECTION, fields: widenFields<Settings, WithOpenId>(OPENID_SECTION.fields) }

const BRANDING: Section = { ...BRANDING_SECTION, fields: widenFields<Settings, WithBranding>(BRANDING_SECTION.fields) }

const KEYS: Section = {
  title: 'Agents, keys, address books and metadata',
  fields: [
    {
      name: 'agents.connect',
      label: 'Users can connect agents',
      kind: 'switch',
      help: 'Users give the address at the top of this page, which appears after you save, to their agent. Then they confirm what it may do. Each connection is a delegated session.',
    },
    {
      name: 'mpc.allowServer',
      label: 'Servers can manage keys for users',
      kind: 'switch',
      help: 'A secret key can then create and recover key shares while the user is not present.',
    },
    {
      name: 'recovery.serverCombine',
      label: 'Combine key shares on the server for recovery',
      kind: 'switch',
      help: 'The complete key is then in the memory of the server for a moment. Applies to self-custody only.',
    },
    {
      name: 'addressBook.coolingOffSeconds',
      label: 'New entries of address books wait (seconds)',
      input: { inputMode: 'numeric' },
      help: 'How long a new recipient waits before sessions can pay it. 86400 is a day.',
    },
    {
      name: 'metadata',
      label: 'Metadata',
      kind: 'code',
      help: 'A JSON object of strings.',
      validate: (text) => problemOfJson(text, '{"tier": "gold"}'),
      partName: (key) => key,
    },
  ],
}

function SectionCard({ title, description, fields }: Section) {
  return (
    <Card title={title} description={description}>
      <div className="flex flex-col gap-4">
        <FormFields fields={fields} />
      </div>
    </Card>
  )
}

/** All settings of an app. */
export function AppForm({ app, readOnly }: { app: App; readOnly: boolean }) {
  const client = useQueryClient()
  const toast = useToast()
  const sections = [passkeys(app), SECURITY, messenger(app), email(app), WALLETS, OPENID, hook(app), BRANDING, KEYS]
  return (
    <Form
      fields={[GENERAL, ...sections].flatMap(({ fields }) => fields)}
      values={settingsOf(app)}
      action="Save"
      stays
      readOnly={readOnly}
      className="gap-5!"
      onSubmit={async (_, changes) => {
        await api.apps.update(app.id, bodyOf(app, changes))
        await client.invalidateQueries({ queryKey: ['apps'] })
        toast.done('Saved')
      }}
    >
      <SectionCard {...GENERAL} />
      <div className="grid gap-5 lg:grid-cols-2">
        {sections.map((section) => (
          <SectionCard key={section.title} {...section} />
        ))}
      </div>
    </Form>
  )
}
