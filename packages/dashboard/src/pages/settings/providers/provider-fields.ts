import type { Body, Provider } from '@halfkey/sdk'
import { type FormField, linesOf } from '../../../components/form/form-field.ts'

type Changes = NonNullable<Body<'/apps/{id}/providers/{providerId}', 'patch'>>
type NewProvider = NonNullable<Body<'/apps/{id}/providers', 'post'>>

/** The settings as they are typed: lists one entry per line. The secret is never shown: empty keeps the current one. */
export interface ProviderInput {
  preset: Provider['preset']
  name: string
  issuer: string
  clientId: string
  clientSecret: string
  teamId: string
  keyId: string
  nativeClientIds: string
  jit: Provider['jit']
}

export const BLANK: ProviderInput = {
  preset: 'google',
  name: '',
  issuer: '',
  clientId: '',
  clientSecret: '',
  teamId: '',
  keyId: '',
  nativeClientIds: '',
  jit: 'create',
}

/** What the form of a record begins with. */
export const inputOf = (from: Provider): ProviderInput => ({
  preset: from.preset,
  name: from.name,
  issuer: from.issuer,
  clientId: from.clientId,
  clientSecret: '',
  teamId: from.teamId ?? '',
  keyId: from.keyId ?? '',
  nativeClientIds: from.nativeClientIds.join('\n'),
  jit: from.jit,
})

/** The settings as they are sent: empty texts are left out, or cleared where the form had a value. */
export function changesOf(input: ProviderInput): Changes {
  const isApple = input.preset === 'apple'
  return {
    ...(input.name.trim() === '' ? {} : { name: input.name.trim() }),
    clientId: input.clientId.trim(),
    ...(input.clientSecret.trim() === '' ? {} : { clientSecret: input.clientSecret.trim() }),
    ...(isApple ? { teamId: input.teamId.trim() || null, keyId: input.keyId.trim() || null } : {}),
    ...(input.preset === 'github' ? {} : { nativeClientIds: linesOf(input.nativeClientIds) }),
    jit: input.jit,
  }
}

/** A new provider as it is sent. */
export const newProviderOf = (input: ProviderInput): NewProvider => ({
  ...changesOf(input),
  preset: input.preset,
  clientId: input.clientId.trim(),
  ...(input.issuer.trim() === '' ? {} : { issuer: input.issuer.trim() }),
})

const PLAIN = { spellCheck: false } as const

const ISSUER_HELP: Record<Provider['preset'], string> = {
  google: 'Leave it empty for https://accounts.google.com.',
  apple: 'Leave it empty for https://appleid.apple.com.',
  microsoft: 'https://login.microsoftonline.com/, the id of your tenant, and /v2.0.',
  github: 'Leave it empty for https://github.com. For a GitHub server of your own, its address.',
  oidc: 'The iss of its ID tokens, to the letter. It cannot be changed later.',
}

/** Which provider it is, for a new one. */
export const WHICH: readonly FormField<ProviderInput>[] = [
  {
    name: 'preset',
    label: 'Provider',
    kind: 'select',
    options: [
      { value: 'google', label: 'Google' },
      { value: 'apple', label: 'Apple' },
      { value: 'microsoft', label: 'Microsoft' },
      { value: 'github', label: 'GitHub' },
      { value: 'oidc', label: 'Another one with OpenID Connect' },
    ],
  },
  {
    name: 'issuer',
    label: 'Issuer',
    input: { ...PLAIN, placeholder: 'https://login.example.com' },
    help: ({ preset }) => ISSUER_HELP[preset],
  },
]

/** Everything that can be changed. `stored`: whether there is a secret already. */
export const settingsFor = (stored: boolean): readonly FormField<ProviderInput>[] => [
  {
    name: 'clientId',
    label: 'Client id',
    input: PLAIN,
    required: 'Enter the client id.',
    help: ({ preset }) => (preset === 'apple' ? 'The id of your service at Apple.' : null),
  },
  {
    name: 'clientSecret',
    label: 'Client secret',
    input: { type: 'password' },
    shown: ({ preset }) => preset !== 'apple',
    help: stored
      ? 'Stored encrypted and never shown again. Leave it empty to keep the current secret.'
      : 'Stored encrypted and never shown again.',
  },
  {
    name: 'clientSecret',
    label: 'Private key',
    kind: 'code',
    input: { ...PLAIN, placeholder: '-----BEGIN PRIVATE KEY-----', rows: 6 },
    shown: ({ preset }) => preset === 'apple',
    help: stored
      ? 'Stored encrypted and never shown again. Leave it empty to keep the current key.'
      : 'The content of the .p8 file. Stored encrypted and never shown again.',
  },
  { name: 'teamId', label: 'Team id', input: PLAIN, shown: ({ preset }) => preset === 'apple' },
  { name: 'keyId', label: 'Key id', input: PLAIN, shown: ({ preset }) => preset === 'apple' },
  {
    name: 'name',
    label: 'Name on the button',
    help: 'After “Continue with”. Leave it empty for the usual name.',
  },
  {
    name: 'jit',
    label: 'New accounts',
    kind: 'select',
    help: 'What the first sign-in of somebody unknown does. Nobody is ever found by email.',
    options: [
      { value: 'create', label: 'Create a user' },
      { value: 'match', label: 'Accept linked accounts only' },
      { value: 'refuse', label: 'Off' },
    ],
  },
  {
    name: 'nativeClientIds',
    label: 'Clients of native apps',
    kind: 'lines',
    help: 'One per line, for example a bundle id. Their ID tokens sign in too.',
    shown: ({ preset }) => preset !== 'github',
  },
]
