import type { App, Body } from '@halfkey/sdk'
import type { FormField } from '../../components/form/form-field.ts'

/** The settings of emails as they are typed. The secret is never shown: empty keeps the current one. */
export type EmailSettings = Pick<App['email'], 'enabled' | 'signUp' | 'sender' | 'language'> & {
  webhookUrl: string
  webhookSecret: string
}

/** The languages of emails. */
const EMAIL_LANGUAGES = [
  { value: 'en', label: 'English' },
  { value: 'de', label: 'German' },
  { value: 'fr', label: 'French' },
  { value: 'es', label: 'Spanish' },
  { value: 'pt', label: 'Portuguese' },
  { value: 'ja', label: 'Japanese' },
  { value: 'zh', label: 'Chinese' },
  { value: 'ar', label: 'Arabic' },
] as const

type Changes = NonNullable<NonNullable<Body<'/apps/{id}', 'patch'>>['email']>

/** An app's settings, as the form begins. */
export function emailSettingsOf({ email }: App): EmailSettings {
  const { enabled, signUp, sender, language, webhookUrl } = email
  return { enabled, signUp, sender, language, webhookUrl: webhookUrl ?? '', webhookSecret: '' }
}

/** What an update of an app sends of them. */
export function emailBodyOf({ webhookUrl, webhookSecret, ...same }: EmailSettings): Changes {
  return {
    ...same,
    webhookUrl: webhookUrl.trim() || null,
    ...(webhookSecret === '' ? {} : { webhookSecret: webhookSecret.trim() }),
  }
}

/** The settings of recovery as they are typed. */
export interface RecoverySettings {
  enabled: boolean
  waitHours: string
}

/** An app's settings of recovery, as the form begins. */
export const recoverySettingsOf = ({ emailRecovery }: App): RecoverySettings => ({
  enabled: emailRecovery.enabled,
  waitHours: String(emailRecovery.waitHours),
})

/** What an update of an app sends of them. */
export const recoveryBodyOf = ({
  enabled,
  waitHours,
}: RecoverySettings): NonNullable<NonNullable<Body<'/apps/{id}', 'patch'>>['emailRecovery']> => ({
  enabled,
  waitHours: Number(waitHours),
})

/** A form that holds these settings, whatever else it holds. */
export interface WithEmail {
  email: EmailSettings
  emailRecovery: RecoverySettings
}

const bySelf = ({ email }: WithEmail) => email.sender === 'webhook'

/** The section of an app's settings. */
export const emailSection = (app: App): { title: string; description: string; fields: FormField<WithEmail>[] } => ({
  title: 'Sign-in by email',
  description: 'Users get a code by email. Passkeys stay first on the sign-in page.',
  fields: [
    { name: 'email.enabled', label: 'Users can sign in by email', kind: 'switch' },
    {
      name: 'email.signUp',
      label: 'New users can sign up by email',
      kind: 'switch',
      help: 'If this is off, only addresses that a user has get a code.',
    },
    {
      name: 'email.language',
      label: 'Language of emails',
      kind: 'select',
      options: EMAIL_LANGUAGES,
    },
    {
      name: 'email.sender',
      label: 'Emails are sent by',
      kind: 'select',
      options: [
        { value: 'smtp', label: 'The mail server of Halfkey' },
        { value: 'webhook', label: 'Your server' },
      ],
    },
    {
      name: 'email.webhookUrl',
      label: 'URL of your server',
      shown: bySelf,
      input: { placeholder: 'https://api.example.com/halfkey-emails' },
      help: 'It gets each code, and whoever reads it can sign in with it. Use an address that only your server sees.',
    },
    {
      name: 'email.webhookSecret',
      label: 'Secret for signatures',
      shown: bySelf,
      input: { type: 'password', placeholder: 'whsec_…' },
      help: app.email.webhookSecretSet
        ? 'Stored encrypted and never shown again. Leave it empty to keep the current secret.'
        : 'whsec_ and the base64 of 24 to 96 random bytes. Stored encrypted and never shown again.',
    },
    {
      name: 'emailRecovery.enabled',
      label: 'Users who lost their passkeys get a new one by email',
      kind: 'switch',
      help: 'After a wait, in which every other way in can cancel it. Somebody who reads a mailbox unnoticed for that long gets into its account.',
    },
    {
      name: 'emailRecovery.waitHours',
      label: 'Wait of a recovery (hours)',
      shown: ({ emailRecovery }) => emailRecovery.enabled,
      input: { inputMode: 'numeric' },
      help: '24 to 720. Recoveries that wait already keep their end.',
    },
  ],
})
