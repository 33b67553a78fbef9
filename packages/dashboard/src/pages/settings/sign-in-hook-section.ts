import type { App, Body } from '@halfkey/sdk'
import type { FormField } from '../../components/form/form-field.ts'

/** A form that holds the settings of the sign-in hook as they are typed, whatever else it holds. The secret is never shown. */
export interface WithSignInHook {
  signInHook: { url: string; secret: string; onFailure: App['signInHook']['onFailure'] }
}

/** An app's settings, as the form begins. */
export const hookSettingsOf = ({ signInHook: { url, onFailure } }: App): WithSignInHook['signInHook'] => ({
  url: url ?? '',
  secret: '',
  onFailure,
})

/** What an update of an app sends of them: an empty secret keeps the current one. */
export const hookBodyOf = ({
  url,
  secret,
  onFailure,
}: WithSignInHook['signInHook']): NonNullable<NonNullable<Body<'/apps/{id}', 'patch'>>['signInHook']> => ({
  url: url.trim() || null,
  onFailure,
  ...(secret === '' ? {} : { secret: secret.trim() }),
})

const isSet = ({ signInHook }: WithSignInHook) => signInHook.url.trim() !== ''

/** The section of an app's settings. */
export const hookSection = (app: App): { title: string; description: string; fields: FormField<WithSignInHook>[] } => ({
  title: 'Sign-in hook',
  description: 'Your server decides about each sign-in before a session begins.',
  fields: [
    {
      name: 'signInHook.url',
      label: 'URL of the sign-in hook',
      input: { placeholder: 'https://api.example.com/halfkey-sign-ins' },
      help: 'Your server, which Halfkey asks about each sign-in. Leave it empty to ask nobody.',
    },
    {
      name: 'signInHook.secret',
      label: 'Secret of the sign-in hook',
      shown: isSet,
      input: { type: 'password', placeholder: 'whsec_…' },
      help: app.signInHook.secretSet
        ? 'Stored encrypted and never shown again. Leave it empty to keep the current secret.'
        : 'whsec_ and the base64 of 24 to 96 random bytes. Stored encrypted and never shown again.',
    },
    {
      name: 'signInHook.onFailure',
      label: 'If your server does not decide',
      kind: 'select',
      shown: isSet,
      options: [
        { value: 'refuse', label: 'Nobody can sign in' },
        { value: 'allow', label: 'Everybody can sign in' },
      ],
      help: 'Halfkey waits for two seconds. If everybody can sign in then, anyone who can slow down your server can get around it.',
    },
  ],
})
