/**
 * The least role whose members may call each endpoint, by route; `nobody` for calls of users and delegated sessions, which no member
 * makes. A new endpoint fails the test until somebody has decided, here, on purpose: beside what its scope says.
 */
import type { Role } from '../../src/platform/security/roles/roles.ts'

const names = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')

const DECISIONS: Record<Role | 'nobody', string[]> = {
  viewer: names(`
    GET /apps
    GET /apps/:id
    GET /apps/:id/logo
    GET /apps/:id/issuers
    GET /apps/:id/issuers/:issuerId
    GET /apps/:id/email-templates
    POST /apps/:id/email-templates/preview
    GET /apps/:id/providers
    GET /apps/:id/providers/:providerId
    GET /mpc/config
    GET /event-types
    GET /event-types/:id
    GET /custom-domains
    GET /custom-domains/:id
    GET /custom-domains/:id/plan
    GET /tenant
    GET /analytics
    GET /healthz
    GET /readyz
  `),
  support: names(`
    GET /users
    GET /users/bulk/:id
    GET /users/:id
    GET /users/:id/wallet
    GET /wallets
    GET /wallets/:id
    GET /wallets/:id/custody
    GET /wallets/:id/holdings
    GET /wallets/:id/transfer-offers
    GET /wallets/:id/transfer-offers/:offerId
    GET /users/:id/sessions
    GET /users/:id/passkeys
    GET /users/:id/identities
    GET /users/:id/recoveries
    GET /emails
    GET /guests
    GET /guests/:id
    GET /delegated-sessions
    POST /delegated-sessions/validate
    GET /denials
    GET /delegated-sessions/:id/denials
    GET /delegated-sessions/:id
    GET /wallets/:id/budgets
    GET /wallets/:id/recipients
    GET /approvals
    POST /policies/validate
    POST /policies/simulate
    GET /approvals/:id
    GET /transactions
    GET /transactions/:id
    GET /templates
    GET /templates/:id
    GET /audit-log
  `),
  developer: names(`
    POST /apps
    PATCH /apps/:id
    DELETE /apps/:id
    POST /apps/:id/logo
    DELETE /apps/:id/logo
    POST /apps/:id/issuers
    PATCH /apps/:id/issuers/:issuerId
    DELETE /apps/:id/issuers/:issuerId
    PUT /apps/:id/email-templates/:kind/:language
    DELETE /apps/:id/email-templates/:kind/:language
    POST /apps/:id/providers
    PATCH /apps/:id/providers/:providerId
    DELETE /apps/:id/providers/:providerId
    GET /api-keys
    POST /api-keys
    GET /api-keys/:id
    DELETE /api-keys/:id
    POST /api-keys/:id/rotate
    GET /webhooks
    POST /webhooks
    GET /webhooks/event-types
    POST /webhooks/filters/check
    GET /webhooks/:id
    PATCH /webhooks/:id
    DELETE /webhooks/:id
    POST /webhooks/:id/rotate
    POST /webhooks/:id/test
    GET /webhooks/:id/deliveries
    DELETE /webhooks/:id/deliveries
    POST /webhooks/:id/deliveries/bulk
    GET /webhooks/:id/deliveries/:deliveryId
    POST /webhooks/:id/deliveries/:deliveryId/retry
    POST /webhooks/:id/recover
    GET /events
    POST /events
    POST /events/batch
    GET /events/:id
    GET /events/:id/deliveries
    POST /event-types
    PATCH /event-types/:id
    DELETE /event-types/:id
    GET /subscribers
    POST /subscribers
    GET /subscribers/:id
    PATCH /subscribers/:id
    DELETE /subscribers/:id
    POST /subscribers/:id/portal-link
    DELETE /subscribers/:id/portal-links
    POST /custom-domains
    POST /custom-domains/verify
    DELETE /custom-domains
    GET /jobs/:id
    GET /members
    GET /members/:id
    GET /member-sign-in
  `),
  admin: names(`
    POST /users
    POST /users/bulk
    PATCH /users/:id
    DELETE /users/:id
    POST /wallets/:id/freeze
    DELETE /wallets/:id/recipients/:recipientId
    POST /wallets/:id/unfreeze
    POST /guests/cleanup
    DELETE /guests/:id
    DELETE /delegated-sessions/:id
    POST /wallets/:id/sessions/revoke-all
    POST /apps/:id/sessions/revoke-all
    PUT /wallets/:id/budgets
    POST /templates
    POST /dev/faucet
    POST /billing/checkout
    POST /billing/portal
    GET /billing/usage
    PATCH /tenant
    POST /members
    PATCH /members/:id
    DELETE /members/:id
    POST /members/:id/link
  `),
  owner: names(`
    PATCH /member-sign-in
  `),
  nobody: names(`
    GET /users/me
    POST /users/me/wallet/challenge
    POST /users/me/wallet
    GET /users/me/wallet
    GET /wallets/:id/onboarding
    POST /wallets/:id/onboarding
    POST /mpc/challenge
    POST /mpc/recover
    POST /mpc/dkg
    POST /mpc/dkg/:id/round2
    POST /mpc/dkg/:id/confirm
    GET /mpc/dkg/:id
    DELETE /mpc/dkg/:id
    POST /mpc/shares
    GET /mpc/shares/:walletId
    PATCH /mpc/shares/:walletId
    DELETE /mpc/shares/:walletId
    POST /auth/refresh
    POST /auth/logout
    GET /auth/sessions
    DELETE /auth/sessions/:id
    POST /auth/exchange
    POST /auth/id-token
    POST /auth/email/recovery
    POST /wallets/:id/recipients
    POST /auth/email/recovery/cancel
    GET /auth/email/recoveries
    POST /auth/passkey/register-options
    POST /auth/passkey/register-verify
    GET /auth/passkey/login-options
    POST /auth/passkey/login-verify
    POST /auth/passkey/prove
    GET /auth/passkeys
    PATCH /auth/passkeys/:id
    DELETE /auth/passkeys/:id
    POST /auth/messenger/verify
    GET /auth/messenger/widget-config
    POST /auth/token/exchange
    GET /auth/identities
    POST /auth/identities
    DELETE /auth/identities/:id
    POST /auth/providers/:id/start
    POST /auth/providers/:id/token
    POST /auth/providers/:id/link
    POST /auth/wallet/start
    POST /auth/wallet/verify
    POST /auth/wallet/link
    POST /auth/email/start
    POST /auth/email/verify
    POST /auth/email/link
    POST /auth/email/change
    POST /guests
    POST /guests/:id/convert
    POST /mfa/setup
    POST /mfa/verify-setup
    POST /mfa/challenge
    POST /mfa/verify
    GET /mfa/status
    DELETE /mfa
    GET /delegated-sessions/me
    GET /delegated-sessions/me/transactions
    GET /delegated-sessions/me/transactions/:id
    POST /delegated-sessions
    POST /delegated-sessions/:id/execute
    POST /wallets/:id/transfer-offers/:offerId/accept
    POST /wallets/:id/transfer-offers/:offerId/reject
    POST /wallets/:id/transfer-offers/:offerId/withdraw
    POST /delegated-sessions/:id/query
    POST /approvals/:id/approve
    POST /approvals/:id/deny
    GET /x402/supported
    POST /x402/verify
    POST /x402/settle
  `),
}

/** The decision for each route, by its name. */
export const LEAST_ROLE_OF: ReadonlyMap<string, Role | 'nobody'> = new Map(
  Object.entries(DECISIONS).flatMap(([least, routes]) =>
    routes.map((name) => [name, least as Role | 'nobody'] as const),
  ),
)
