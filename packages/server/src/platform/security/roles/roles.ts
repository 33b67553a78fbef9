import { SCOPES, type Scope } from '../api-key.ts'

/** The roles of members, from the least to the greatest: each may do what those before it may. */
export const ROLES = ['viewer', 'support', 'developer', 'admin', 'owner'] as const
export type Role = (typeof ROLES)[number]

/** Position of a role: a greater one may do more. */
export const rankOf = (role: Role): number => ROLES.indexOf(role)

/**
 * The least role that has a scope. What a role may call follows from this and from `FOR_NO_MEMBER`.
 *
 * Viewers see no personal data: not users, nor the entries that name them. Support sees users, and nothing that is or gives out a
 * secret; addresses of webhooks often contain one. Developers build: apps, keys, webhooks. Whoever configures how an app's users sign
 * in can reach these users, so that is what a developer is trusted with.
 */
const LEAST_ROLE: Readonly<Record<Scope, Role>> = {
  '*': 'owner',
  'apps:read': 'viewer',
  'analytics:read': 'viewer',
  'tenant:read': 'viewer',
  'event_types:read': 'viewer',
  'custom_domains:read': 'viewer',
  'users:read': 'support',
  'guests:read': 'support',
  'wallets:read': 'support',
  'delegated_sessions:read': 'support',
  'emails:read': 'support',
  'audit:read': 'support',
  'apps:write': 'developer',
  'api_keys:read': 'developer',
  'api_keys:write': 'developer',
  'webhooks:read': 'developer',
  'webhooks:write': 'developer',
  'destinations:write': 'developer',
  'events:publish': 'developer',
  'event_types:write': 'developer',
  'subscribers:read': 'developer',
  'subscribers:write': 'developer',
  'custom_domains:write': 'developer',
  'members:read': 'developer',
  'users:write': 'admin',
  'users:act_as': 'admin',
  'auth:write': 'admin',
  'guests:write': 'admin',
  'wallets:write': 'admin',
  'delegated_sessions:write': 'admin',
  'delegated_sessions:execute': 'admin',
  'payments:settle': 'admin',
  'billing:read': 'admin',
  'billing:write': 'admin',
  'tenant:write': 'admin',
  'members:write': 'admin',
}

const scopes = new Map<Role, readonly Scope[]>(
  ROLES.map((role) => [role, SCOPES.filter((scope) => rankOf(LEAST_ROLE[scope]) <= rankOf(role))]),
)

/** The scopes of a role: what keys that its members make can have, and what they may call themselves. */
export const scopesOf = (role: Role): readonly Scope[] => scopes.get(role) ?? []

/**
 * Scopes that a member can give to a key and never uses themself: a member acts as nobody else and moves no money. What they do is
 * in the audit log under their own name.
 */
export const FOR_NO_MEMBER: readonly Scope[] = [
  'users:act_as',
  'auth:write',
  'delegated_sessions:execute',
  'payments:settle',
]

/** How long after a sign-in, or another proof of who they are, members may make the calls of `STEP_UP`. */
export const STEP_UP_MS = 5 * 60_000

/**
 * Calls for which a member must have proved who they are within `STEP_UP_MS`, so that a stolen cookie or an unlocked screen is not
 * enough: keys and other secrets, who may sign in and from where, where events go, what is frozen, and what cannot be undone.
 */
export const STEP_UP: ReadonlySet<string> = new Set([
  'POST /api-keys',
  'DELETE /api-keys/:id',
  'POST /api-keys/:id/rotate',
  'POST /members',
  'PATCH /members/:id',
  'DELETE /members/:id',
  'POST /members/:id/link',
  'PATCH /member-sign-in',
  'POST /wallets/:id/freeze',
  'POST /wallets/:id/unfreeze',
  'PUT /wallets/:id/budgets',
  'POST /wallets/:id/sessions/revoke-all',
  'POST /apps/:id/sessions/revoke-all',
  'PATCH /apps/:id',
  'DELETE /apps/:id',
  'POST /apps/:id/logo',
  'DELETE /apps/:id/logo',
  'PATCH /tenant',
  'POST /billing/checkout',
  'POST /billing/portal',
  'POST /apps/:id/issuers',
  'PATCH /apps/:id/issuers/:issuerId',
  'DELETE /apps/:id/issuers/:issuerId',
  'POST /apps/:id/providers',
  'PATCH /apps/:id/providers/:providerId',
  'DELETE /apps/:id/providers/:providerId',
  'PUT /apps/:id/email-templates/:kind/:language',
  'DELETE /apps/:id/email-templates/:kind/:language',
  'PATCH /users/:id',
  'DELETE /users/:id',
  'POST /users/bulk',
  'DELETE /guests/:id',
  'POST /guests/cleanup',
  'POST /custom-domains',
  'POST /custom-domains/verify',
  'DELETE /custom-domains',
  'POST /webhooks',
  'PATCH /webhooks/:id',
  'DELETE /webhooks/:id',
  'POST /webhooks/:id/rotate',
  'POST /subscribers/:id/portal-link',
  'DELETE /subscribers/:id',
])

/** The least role that may take lists away, after a step-up: as CSV, or beyond their first 1 000 records. */
export const EXPORTS_FROM: Role = 'developer'
