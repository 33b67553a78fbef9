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
      about: 'Calls in the name of any user: makes wallets and delegated sessions, ends sessions.',
    },
  },
  {
    label: 'Sign-in',
    about: 'Passkey and messenger ceremonies for your own pages.',
    levels: [{ scope: 'auth:write', label: 'Write' }],
  },
  { label: 'Guests', about: 'Sessions without an account.', levels: levelsOf('guests') },
  { label: 'Wallets', about: 'Wallets, custody, transactions.', levels: levelsOf('wallets') },
  {
    label: 'Delegated sessions',
    about: 'What agents and services may do with a wallet.',
    levels: levelsOf('delegated_sessions'),
    extra: {
      scope: 'delegated_sessions:execute',
      label: 'Execute',
      about: 'Transacts under sessions that allow it to servers.',
    },
  },
  { label: 'Webhooks', about: 'Endpoints, deliveries, events.', levels: levelsOf('webhooks') },
  { label: 'Apps', about: 'Apps and their settings.', levels: levelsOf('apps') },
  { label: 'Custom domains', about: 'Domains and their records.', levels: levelsOf('custom_domains') },
  { label: 'API keys', about: 'Makes keys, none wider than itself.', levels: levelsOf('api_keys') },
  { label: 'Tenant', about: 'Name and settings of the tenant.', levels: levelsOf('tenant') },
  { label: 'Billing', about: 'Plan and usage.', levels: levelsOf('billing') },
  { label: 'Analytics', about: 'Daily figures.', levels: [{ scope: 'analytics:read', label: 'Read' }] },
  { label: 'Audit log', about: 'Who did what.', levels: [{ scope: 'audit:read', label: 'Read' }] },
]

/** A short description of a key's scopes. */
export function rightsInWords({ type, scopes }: { type: 'secret' | 'publishable'; scopes: readonly string[] }): string {
  if (type === 'publishable') return 'what browsers may'
  if (scopes.includes('*')) return 'everything'
  return scopes.length === 1 ? (scopes[0] ?? '') : `${scopes.length} scopes`
}
