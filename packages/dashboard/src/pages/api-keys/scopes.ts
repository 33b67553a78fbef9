import type { Body } from '@halfkey/sdk'

/** A scope of a secret key. */
export type Scope = NonNullable<Body<'/api-keys', 'post'>['scopes']>[number]

/** The scopes of one kind of resource. */
export interface ScopeGroup {
  label: string
  about: string
  /** In ascending order. `write` includes `read`, so a key needs only one. */
  levels: readonly { scope: Scope; label: string }[]
  /** A further scope. */
  extra?: { scope: Scope; label: string; about: string }
}

const levelsOf = <R extends string>(resource: R) =>
  [
    { scope: `${resource}:read`, label: 'Read' },
    { scope: `${resource}:write`, label: 'Write' },
  ] as const

/** All scopes, by resource. */
export const SCOPE_GROUPS: readonly ScopeGroup[] = [
  {
    label: 'Users',
    about: 'Accounts, their sessions and passkeys.',
    levels: levelsOf('users'),
    extra: {
      scope: 'users:act_as',
      label: 'Act for users',
      about: 'Make calls on behalf of any user, for example to create wallets or end sessions.',
    },
  },
  {
    label: 'Sign-in',
    about: 'Sign-in by passkey, messenger, email, external wallet or your own login on your own pages.',
    levels: [{ scope: 'auth:write', label: 'Write' }],
    extra: { scope: 'emails:read', label: 'Emails', about: 'See which emails were sent, without their codes.' },
  },
  { label: 'Guests', about: 'Sessions without an account.', levels: levelsOf('guests') },
  {
    label: 'Wallets',
    about: 'Wallets, custody, holdings, transfer offers, transactions.',
    levels: levelsOf('wallets'),
  },
  {
    label: 'Delegated sessions',
    about: 'What agents and services can do with a wallet.',
    levels: levelsOf('delegated_sessions'),
    extra: {
      scope: 'delegated_sessions:execute',
      label: 'Execute',
      about: 'Execute transactions and answer transfer offers, in sessions that servers can use.',
    },
  },
  {
    label: 'Payments',
    about: 'Verify and settle payments for HTTP requests (x402).',
    levels: [{ scope: 'payments:settle', label: 'Settle' }],
  },
  {
    label: 'Webhooks',
    about: 'Endpoints, deliveries, events.',
    levels: levelsOf('webhooks'),
    extra: {
      scope: 'destinations:write',
      label: 'Queues and buckets',
      about: 'Send events to an SQS queue or an S3 bucket. Also needs Write.',
    },
  },
  {
    label: 'Event types',
    about: 'Types of the events that your app publishes.',
    levels: levelsOf('event_types'),
    extra: { scope: 'events:publish', label: 'Publish events', about: 'Publish events of your own types.' },
  },
  { label: 'Subscribers', about: 'Your app’s customers, and links to their portal.', levels: levelsOf('subscribers') },
  { label: 'Apps', about: 'Apps and their settings.', levels: levelsOf('apps') },
  { label: 'Custom domains', about: 'Domains and their records.', levels: levelsOf('custom_domains') },
  { label: 'API keys', about: 'Create keys with at most the same scopes.', levels: levelsOf('api_keys') },
  { label: 'Members', about: 'People who use the dashboard, and their roles.', levels: levelsOf('members') },
  { label: 'Tenant', about: 'Name and settings of the tenant.', levels: levelsOf('tenant') },
  { label: 'Billing', about: 'Plan and usage.', levels: levelsOf('billing') },
  { label: 'Analytics', about: 'Daily figures.', levels: [{ scope: 'analytics:read', label: 'Read' }] },
  { label: 'Audit log', about: 'Who changed what.', levels: [{ scope: 'audit:read', label: 'Read' }] },
]

/** A set of scopes for a common purpose. */
interface ScopePreset {
  id: string
  label: string
  about: string
  scopes: readonly Scope[]
}

/** The presets, from the widest to the narrowest. */
export const SCOPE_PRESETS: readonly ScopePreset[] = [
  { id: 'full', label: 'Full access', about: 'Everything, including later versions.', scopes: ['*'] },
  {
    id: 'backend',
    label: 'App backend',
    about: 'Users, sign-in, wallets and delegated sessions.',
    scopes: [
      'users:write',
      'users:act_as',
      'auth:write',
      'guests:write',
      'wallets:write',
      'delegated_sessions:write',
      'delegated_sessions:execute',
    ],
  },
  { id: 'events', label: 'Events', about: 'Webhooks, deliveries and the event feed.', scopes: ['webhooks:write'] },
  {
    id: 'read',
    label: 'Read only',
    about: 'Sees everything and changes nothing.',
    scopes: SCOPE_GROUPS.flatMap(({ levels }) =>
      levels.filter(({ label }) => label === 'Read').map(({ scope }) => scope),
    ),
  },
]

/** The preset that has exactly these scopes. */
export function presetOf(scopes: readonly string[]): ScopePreset | undefined {
  return SCOPE_PRESETS.find(
    (preset) => preset.scopes.length === scopes.length && preset.scopes.every((scope) => scopes.includes(scope)),
  )
}

/** A short description of a key's scopes. */
export function rightsInWords({ type, scopes }: { type: 'secret' | 'publishable'; scopes: readonly string[] }): string {
  if (type === 'publishable') return 'browser access'
  if (scopes.includes('*')) return 'all scopes'
  const preset = presetOf(scopes)
  if (preset !== undefined) return preset.label.toLowerCase()
  return scopes.length === 1 ? (scopes[0] ?? '') : `${scopes.length} scopes`
}
