import { isDeepStrictEqual } from 'node:util'
import { publicUrl } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import { fail, invalid } from '../../platform/http/errors.ts'
import { changeMetadata } from '../../platform/http/metadata.ts'
import type { Id } from '../../platform/ids.ts'
import { seal } from '../../platform/security/crypto.ts'
import { hostUrlProblem, originProblem } from '../../platform/security/web-origin.ts'
import { brandingProblem, DEFAULT_LOOK, divided, NO_LINKS, wholeBranding } from './branding/branding.ts'
import { budgetLimit, budgetProblems } from './budgets.ts'
import { openidProblem } from './openid.ts'
import type { UpdateApp } from './schema.ts'
import type { AppRow, PublicAddress } from './store.ts'
import { redirectUrlProblem } from './urls.ts'

/** An app with a name and default settings. */
export function newAppRow(tenantId: Id<'ten'>, id: Id<'app'>, name: string, now: Date): AppRow {
  return {
    tenant_id: tenantId,
    id,
    name: name.trim().normalize('NFC'),
    allowed_origins: [],
    allowed_redirect_urls: [],
    passkey: { rpId: null, rpName: null, userVerification: 'required' },
    messenger: { provider: 'telegram', botUsername: null, botId: null },
    bot_token_sealed: null,
    mfa: { policy: 'if_enrolled', enforceForServer: false },
    sessions: { accessTokenSeconds: 900, refreshTokenDays: 30 },
    mpc: { allowServer: false },
    recovery: { serverCombine: false },
    email: { enabled: false, signUp: true, sender: 'smtp', webhookUrl: null, language: 'en', testCodes: [] },
    email_webhook_secret_sealed: null,
    email_recovery: { enabled: false, waitHours: 72 },
    budgets: { limits: [] },
    address_book: { coolingOffSeconds: 86_400 },
    external_wallets: { types: [], signUp: true, chainIds: [1] },
    openid: { audiences: [], claims: [] },
    agents: { connect: false },
    sign_in_hook: { url: null, onFailure: 'refuse' },
    sign_in_hook_secret_sealed: null,
    branding: DEFAULT_LOOK,
    brand_links: NO_LINKS,
    metadata: {},
    created_at: now,
    updated_at: now,
    version: 0,
    mac: null,
  }
}

/** What of the service's public URL apps show. */
export function publicAddress(deps: Pick<Deps, 'config'>): PublicAddress {
  const url = publicUrl(deps.config)
  return { url, host: new URL(url).hostname }
}

function checkEach(
  field: string,
  texts: readonly string[] | undefined,
  problemOf: (text: string) => string | null,
): void {
  texts?.forEach((text, index) => {
    const problem = problemOf(text)
    if (problem !== null) throw invalid(`${field}.${index}`, problem)
  })
}

/** Whether a text is a URL that may be called, as far as the text says. @throws validation_failed */
export function checkUrl(field: string, text: string | null | undefined, development: boolean): void {
  if (text == null) return
  const url = URL.parse(text)
  const problem = url === null ? 'Must be an absolute https: URL.' : hostUrlProblem(url, development)
  if (problem !== null) throw invalid(field, problem)
}

/** @throws validation_failed */
function checkEmail(input: UpdateApp['email'], development: boolean): void {
  checkUrl('email.webhookUrl', input?.webhookUrl, development)
  input?.testCodes?.forEach(({ email }, index) => {
    if (!/^[^\s@]+@[^\s@]+$/.test(email))
      throw invalid(`email.testCodes.${index}.email`, 'Must be an email address, for example review@example.com.')
  })
}

/** Checks the settings that the schema cannot check. @throws validation_failed */
export function checkSettings(deps: Pick<Deps, 'config'>, input: UpdateApp): void {
  const development = deps.config.env === 'development'
  checkEach('allowedOrigins', input.allowedOrigins, (text) => originProblem(text, development))
  checkEach('allowedRedirectUrls', input.allowedRedirectUrls, (text) => redirectUrlProblem(text, development))
  checkEmail(input.email, development)
  checkUrl('signInHook.url', input.signInHook?.url, development)
  const openid = openidProblem(input.openid ?? {})
  if (openid !== null) throw invalid(openid.field, openid.message)
  const wrong = budgetProblems(input.budgets ?? [])
  if (wrong.length > 0) throw fail('validation_failed', wrong)
  const branding = brandingProblem(input.branding ?? {})
  if (branding !== null) throw invalid(branding.field, branding.message, branding.code)
}

/** The secrets of an input in their stored form. Undefined: the stored one stays. */
export interface SealedSecrets {
  botToken: { botId: string; sealed: Buffer } | null | undefined
  emailWebhookSecret: Buffer | null | undefined
  signInHookSecret: Buffer | null | undefined
}

/** Seals the secrets of an input. Call it before any transaction, because the key provider may be on the network. */
export async function sealSecrets(
  deps: Deps,
  tenantId: Id<'ten'>,
  appId: string,
  input: UpdateApp,
): Promise<SealedSecrets> {
  const sealed = async (secret: string, what: string) => seal(deps.keys, secret, [what, tenantId, appId])
  const token = input.messenger?.botToken
  const secret = input.email?.webhookSecret
  const hookSecret = input.signInHook?.secret
  return {
    botToken:
      token == null ? token : { botId: token.slice(0, token.indexOf(':')), sealed: await sealed(token, 'bot token') },
    emailWebhookSecret: secret == null ? secret : await sealed(secret, 'email webhook secret'),
    signInHookSecret: hookSecret == null ? hookSecret : await sealed(hookSecret, 'sign-in hook secret'),
  }
}

/** Replaces the fields that are given. Absent fields stay unchanged. */
function merged<T extends object>(current: T, change: object | undefined): T {
  const given = Object.entries(change ?? {}).filter(([, value]) => value !== undefined)
  return given.length === 0 ? current : { ...current, ...Object.fromEntries(given) }
}

/** @throws validation_failed if somebody is to send emails who is not known */
function requireSender({ email, email_webhook_secret_sealed }: AppRow): void {
  if (email.sender !== 'webhook') return
  if (email.webhookUrl === null) throw invalid('email.webhookUrl', 'Required if sender is webhook.', 'required')
  if (email_webhook_secret_sealed === null)
    throw invalid('email.webhookSecret', 'Required if sender is webhook.', 'required')
}

/**
 * The row after a change. @throws validation_failed if the metadata would be too large, or the sender of emails or the sign-in hook is
 * not complete
 */
export function appliedTo(before: AppRow, input: UpdateApp, secrets: SealedSecrets): AppRow {
  const { botToken, emailWebhookSecret, signInHookSecret } = secrets
  const { botToken: _token, ...messenger } = input.messenger ?? {}
  const { webhookSecret: _secret, ...email } = input.email ?? {}
  const { secret: _hookSecret, ...signInHook } = input.signInHook ?? {}
  const branding = divided(input.branding ?? {})
  const row: AppRow = {
    ...before,
    name: input.name?.trim().normalize('NFC') ?? before.name,
    allowed_origins: input.allowedOrigins ?? before.allowed_origins,
    allowed_redirect_urls: input.allowedRedirectUrls ?? before.allowed_redirect_urls,
    passkey: merged(before.passkey, input.passkey),
    messenger: merged(before.messenger, messenger),
    mfa: merged(before.mfa, input.mfa),
    sessions: merged(before.sessions, input.sessions),
    mpc: merged(before.mpc, input.mpc),
    recovery: merged(before.recovery, input.recovery),
    email: merged(before.email, email),
    email_recovery: merged(before.email_recovery, input.emailRecovery),
    budgets: input.budgets === undefined ? before.budgets : { limits: input.budgets.map(budgetLimit) },
    address_book: merged(before.address_book, input.addressBook),
    external_wallets: merged(before.external_wallets, input.externalWallets),
    openid: merged(before.openid, input.openid),
    agents: merged(before.agents, input.agents),
    sign_in_hook: merged(before.sign_in_hook, signInHook),
    branding: merged(before.branding, branding.look),
    brand_links: merged(before.brand_links, branding.links),
    metadata: changeMetadata(before.metadata, input.metadata),
  }
  if (botToken !== undefined) {
    row.messenger = { ...row.messenger, botId: botToken?.botId ?? null }
    row.bot_token_sealed = botToken?.sealed ?? null
  }
  if (emailWebhookSecret !== undefined) row.email_webhook_secret_sealed = emailWebhookSecret
  if (input.email !== undefined) requireSender(row)
  if (signInHookSecret !== undefined) row.sign_in_hook_secret_sealed = signInHookSecret
  if (row.sign_in_hook.url !== null && row.sign_in_hook_secret_sealed === null)
    throw invalid('signInHook.secret', 'Required with a URL.', 'required')
  return row
}

const NESTED = [
  'passkey',
  'messenger',
  'mfa',
  'sessions',
  'mpc',
  'recovery',
  'email',
  'openid',
  'agents',
  'branding',
] as const

/** The fields that differ, in the record's order and as paths: `name`, `mfa.policy`. */
export function changedFields(before: AppRow, after: AppRow): string[] {
  const differs = (left: unknown, right: unknown) => JSON.stringify(left) !== JSON.stringify(right)
  const fields: string[] = []
  if (before.name !== after.name) fields.push('name')
  if (differs(before.allowed_origins, after.allowed_origins)) fields.push('allowedOrigins')
  if (differs(before.allowed_redirect_urls, after.allowed_redirect_urls)) fields.push('allowedRedirectUrls')
  for (const name of NESTED) {
    const [left, right] = [before, after].map((row) =>
      name === 'branding' ? wholeBranding(row) : row[name],
    ) as Record<string, unknown>[]
    for (const key of Object.keys(right ?? {})) if (differs(left?.[key], right?.[key])) fields.push(`${name}.${key}`)
  }
  for (const key of ['enabled', 'waitHours'] as const)
    if (before.email_recovery[key] !== after.email_recovery[key]) fields.push(`emailRecovery.${key}`)
  for (const key of ['types', 'signUp', 'chainIds'] as const)
    if (!isDeepStrictEqual(before.external_wallets[key], after.external_wallets[key]))
      fields.push(`externalWallets.${key}`)
  for (const key of ['url', 'onFailure'] as const)
    if (before.sign_in_hook[key] !== after.sign_in_hook[key]) fields.push(`signInHook.${key}`)
  if (before.sign_in_hook_secret_sealed !== after.sign_in_hook_secret_sealed) fields.push('signInHook.secret')
  if (!isDeepStrictEqual(before.budgets, after.budgets)) fields.push('budgets')
  if (!isDeepStrictEqual(before.address_book, after.address_book)) fields.push('addressBook.coolingOffSeconds')
  if (before.email_webhook_secret_sealed !== after.email_webhook_secret_sealed) fields.push('email.webhookSecret')
  // Each sealing produces different bytes, so a given token always counts as a change.
  if (before.bot_token_sealed !== after.bot_token_sealed) fields.push('messenger.botToken')
  const pairs = (metadata: Record<string, string>) => Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1))
  if (differs(pairs(before.metadata), pairs(after.metadata))) fields.push('metadata')
  return fields
}
