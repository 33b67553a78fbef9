import { publicUrl } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import { invalid } from '../../platform/http/errors.ts'
import { changeMetadata } from '../../platform/http/metadata.ts'
import type { Id } from '../../platform/ids.ts'
import { seal } from '../../platform/security/crypto.ts'
import { originProblem } from '../../platform/security/web-origin.ts'
import { contrastWithWhite } from './contrast.ts'
import type { UpdateApp } from './schema.ts'
import type { AppRow } from './store.ts'
import { redirectUrlProblem } from './urls.ts'

/** WCAG 2.2, success criterion 1.4.3. */
const CONTRAST_MIN = 4.5

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
    branding: { name: null, accentColor: null, logo: null },
    metadata: {},
    created_at: now,
    updated_at: now,
  }
}

/** The default relying party of apps: the host of the public URL. */
export function publicHost(deps: Pick<Deps, 'config'>): string {
  return new URL(publicUrl(deps.config)).hostname
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

/** Checks the settings that the schema cannot check. @throws validation_failed */
export function checkSettings(deps: Pick<Deps, 'config'>, input: UpdateApp): void {
  const development = deps.config.env === 'development'
  checkEach('allowedOrigins', input.allowedOrigins, (text) => originProblem(text, development))
  checkEach('allowedRedirectUrls', input.allowedRedirectUrls, (text) => redirectUrlProblem(text, development))
  const accentColor = input.branding?.accentColor
  if (accentColor != null && contrastWithWhite(accentColor) < CONTRAST_MIN)
    throw invalid(
      'branding.accentColor',
      `White text on this colour has a contrast of ${contrastWithWhite(accentColor).toFixed(2)}. Choose a darker one, with at least ${CONTRAST_MIN}.`,
      'low_contrast',
    )
}

/** A bot token in its stored form. Undefined: the stored one stays. */
export type SealedBotToken = { botId: string; sealed: Buffer } | null | undefined

/** Seals the bot token of an input. Call it before any transaction, because the key provider may be on the network. */
export async function sealBotToken(
  deps: Deps,
  tenantId: Id<'ten'>,
  appId: string,
  input: UpdateApp,
): Promise<SealedBotToken> {
  const token = input.messenger?.botToken
  if (token === undefined || token === null) return token
  const sealed = await seal(deps.keys, token, ['bot token', tenantId, appId])
  return { botId: token.slice(0, token.indexOf(':')), sealed }
}

/** Replaces the fields that are given. Absent fields stay unchanged. */
function merged<T extends object>(current: T, change: object | undefined): T {
  const given = Object.entries(change ?? {}).filter(([, value]) => value !== undefined)
  return given.length === 0 ? current : { ...current, ...Object.fromEntries(given) }
}

/** The row after a change. @throws validation_failed if the metadata would be too large */
export function appliedTo(before: AppRow, input: UpdateApp, botToken: SealedBotToken): AppRow {
  const { botToken: _, ...messenger } = input.messenger ?? {}
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
    branding: merged(before.branding, input.branding),
    metadata: changeMetadata(before.metadata, input.metadata),
  }
  if (botToken !== undefined) {
    row.messenger = { ...row.messenger, botId: botToken?.botId ?? null }
    row.bot_token_sealed = botToken?.sealed ?? null
  }
  return row
}

const NESTED = ['passkey', 'messenger', 'mfa', 'sessions', 'mpc', 'recovery', 'branding'] as const

/** The fields that differ, in the record's order and as paths: `name`, `mfa.policy`. */
export function changedFields(before: AppRow, after: AppRow): string[] {
  const differs = (left: unknown, right: unknown) => JSON.stringify(left) !== JSON.stringify(right)
  const fields: string[] = []
  if (before.name !== after.name) fields.push('name')
  if (differs(before.allowed_origins, after.allowed_origins)) fields.push('allowedOrigins')
  if (differs(before.allowed_redirect_urls, after.allowed_redirect_urls)) fields.push('allowedRedirectUrls')
  for (const name of NESTED) {
    const [left, right] = [before[name], after[name]] as Record<string, unknown>[]
    for (const key of Object.keys(after[name])) if (left?.[key] !== right?.[key]) fields.push(`${name}.${key}`)
  }
  // Each sealing produces different bytes, so a given token always counts as a change.
  if (before.bot_token_sealed !== after.bot_token_sealed) fields.push('messenger.botToken')
  const pairs = (metadata: Record<string, string>) => Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1))
  if (differs(pairs(before.metadata), pairs(after.metadata))) fields.push('metadata')
  return fields
}
