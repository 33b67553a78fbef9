import { defineRecord } from './kind.ts'

/**
 * The MAC of an app: every setting that relaxes a check, and where its pages lead. Declared here, because statements of several slices read a setting
 * beside what it decides on.
 */
export const APP_RECORD = defineRecord({
  name: 'app',
  table: 'apps',
  key: ['id'],
  versioned: true,
  floor: true,
  columns: {
    allowed_origins: 'texts',
    allowed_redirect_urls: 'texts',
    passkey: 'json',
    messenger: 'json',
    bot_token_sealed: 'sealed',
    mfa: 'json',
    sessions: 'json',
    mpc: 'json',
    recovery: 'json',
    email: 'json',
    email_webhook_secret_sealed: 'sealed',
    budgets: 'json',
    email_recovery: 'json',
    address_book: 'json',
    external_wallets: 'json',
    openid: 'json',
    agents: 'json',
    sign_in_hook: 'json',
    sign_in_hook_secret_sealed: 'sealed',
    brand_links: 'json',
  },
  initial: {
    budgets: { limits: [] },
    email_recovery: { enabled: false, waitHours: 72 },
    address_book: { coolingOffSeconds: 86_400 },
    external_wallets: { types: [], signUp: true, chainIds: [1] },
    openid: { audiences: [], claims: [] },
    agents: { connect: false },
    sign_in_hook: { url: null, onFailure: 'refuse' },
    sign_in_hook_secret_sealed: null,
    brand_links: { termsUrl: null, privacyUrl: null, supportUrl: null },
  },
  notAuthority: {
    name: 'shown only',
    branding: 'shown only',
    metadata: "the tenant's own notes",
    created_at: 'shown only',
    updated_at: 'shown only',
  },
})
