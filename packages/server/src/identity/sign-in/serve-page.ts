import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { publicUrl } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import { fail } from '../../platform/http/errors.ts'
import { hostName } from '../../platform/http/host-check.ts'
import { createCompressed } from '../../platform/http/pages/compressed.ts'
import { contentTypeOf, readAssets } from '../../platform/http/pages/pages.ts'
import type { EntranceRequest, PlainAnswer, PlainRequest, PlainRoute } from '../../platform/http/route.ts'
import { type Id, isId } from '../../platform/ids.ts'
import type { KeyHolder } from '../../platform/security/authenticator.ts'
import { sha256 } from '../../platform/security/crypto.ts'
import { isDomainOfOther, listDomainOrigins } from '../../platform/security/domain-origins.ts'
import { findLogo } from '../../tenancy/apps/logo/service.ts'
import { activeProviders } from '../../tenancy/apps/providers/service.ts'
import { EMAIL_LANGUAGES } from '../../tenancy/apps/schema.ts'
import { type SignInSettings, shownName, signInSettings, tenantOfApp } from '../../tenancy/apps/service.ts'
import { canSend } from '../emails/service.ts'
import { loginUrl } from '../messenger/service.ts'
import { brandStyles, logoVersion } from './brand.ts'
import { languageOf } from './language.ts'
import { ASSETS, KEYS, renderSignInError, renderSignInPage, type SignInPageConfig } from './page.ts'

const STATE_CHARS_MAX = 2_000
const KEEP = 'public, max-age=31536000, immutable'

const policy = (calls: string, ancestors: string) =>
  `default-src 'none'; script-src 'self'; style-src 'self'; connect-src ${calls}; img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors ${ancestors}`

const PAGE_HEADERS = {
  'content-security-policy': policy("'self'", "'none'"),
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cache-control': 'no-store',
}

/** The dashboard shows the preview in a frame. It calls nothing, whatever its scripts try. */
const PREVIEW_HEADERS = {
  'content-security-policy': policy("'none'", "'self'"),
  'x-frame-options': 'SAMEORIGIN',
}

/** The page's scripts and styles. */
export function signInAssets() {
  // The package's entry is in a folder next to `dist`, which has a bundle that browsers can load directly.
  const entry = createRequire(import.meta.url).resolve('@simplewebauthn/browser')
  const bundle = join(dirname(entry), '..', 'dist', 'bundle', 'index.umd.min.js')
  return [
    ...readAssets(ASSETS),
    { name: 'webauthn.js', contentType: contentTypeOf('webauthn.js'), body: readFileSync(bundle) },
  ]
}

/**
 * The scripts that sign for a wallet, below `/signin/keys/`. They are part of what is built, as the dashboard is: without a build there
 * are none, and the wallet's page says so.
 */
export function keyScripts(): PlainRoute[] {
  if (!existsSync(KEYS)) return []
  return readAssets(KEYS).map(({ name, contentType, body }) => {
    const answer = createCompressed(body.toString(), 'no-cache')
    return {
      path: `/signin/keys/${name}`,
      handler: async (_, { headers }) => ({ contentType, ...(await answer(headers)) }),
    }
  })
}

const html = (status: number, body: string, headers: Record<string, string> = {}): PlainAnswer => ({
  status,
  contentType: 'text/html; charset=utf-8',
  headers: { ...PAGE_HEADERS, ...headers },
  body,
})

/** A page that says why nothing happened. It leads nowhere. */
export const refusal = (status: number, title: string, message: string) =>
  html(status, renderSignInError({ title, message }))

/** The redirect of a link, or a message that says what is wrong with it. */
function redirectOf(app: SignInSettings, query: URLSearchParams): SignInPageConfig['redirect'] | string {
  const uri = query.get('redirect_uri')
  if (uri === null) return null
  if (!app.allowedRedirectUrls.includes(uri))
    return 'The redirect_uri of this link is not one of the allowed redirect URLs of this app.'
  const codeChallenge = query.get('code_challenge') ?? ''
  if (!/^[A-Za-z0-9_-]{43}$/.test(codeChallenge) || query.get('code_challenge_method') !== 'S256')
    return 'A link with redirect_uri also needs code_challenge, with code_challenge_method=S256 (PKCE, RFC 7636).'
  const state = query.get('state')
  if (state !== null && state.length > STATE_CHARS_MAX) return `state has more than ${STATE_CHARS_MAX} characters.`
  return { uri, state, codeChallenge }
}

function telegram(deps: Deps, app: SignInSettings): SignInPageConfig['messenger'] {
  if (!app.messenger.configured || app.messenger.botId === null) return null
  const { botUsername, botId } = app.messenger
  return { botUsername, authUrl: loginUrl(botId, new URL(publicUrl(deps.config)).origin) }
}

/** Only Ethereum's wallets can be found by a page: nothing tells it of keys of another kind. */
function ethereum({ externalWallets: { types, chainIds } }: SignInSettings): SignInPageConfig['externalWallets'] {
  return types.includes('eip4361') ? { chainIds } : null
}

/**
 * In development, redirects to the host name in the public URL, because passkeys belong to a host name and never to an
 * address. Undefined if the request already uses that name.
 */
function rightPlace(deps: Deps, { host, path, queryText }: PlainRequest): PlainAnswer | undefined {
  const wanted = publicUrl(deps.config)
  if (deps.config.env !== 'development' || host === undefined || host === new URL(wanted).host) return undefined
  return { status: 302, contentType: 'text/plain', headers: { location: `${wanted}${path}?${queryText}` }, body: '' }
}

/** Whether the host is a custom domain of another app, which shows only that app. */
async function isForeignPlace(deps: Deps, host: string | undefined, tenantId: Id<'ten'>, appId: Id<'app'>) {
  const name = hostName(host ?? '')
  if (name === null || name === new URL(publicUrl(deps.config)).hostname) return false
  return isDomainOfOther(deps.db, name, tenantId, appId)
}

/** The app that an address names, where that host shows it. */
async function appAt(deps: Deps, { host }: PlainRequest, query: URLSearchParams) {
  const appId = (query.get('app') ?? '') as Id<'app'>
  const tenantId = await tenantOfApp(deps, appId)
  const isHere = tenantId !== undefined && !(await isForeignPlace(deps, host, tenantId, appId))
  return isHere ? { tenantId, appId } : undefined
}

const NO_FILE: PlainAnswer = {
  status: 404,
  contentType: 'text/plain',
  headers: { 'cache-control': 'no-store' },
  body: '',
}

/** The logo of an app. The address names its content, so that browsers may keep it. */
export async function logoFile(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  const query = new URLSearchParams(request.queryText)
  const at = await appAt(deps, request, query)
  const body = at && (await findLogo(deps, at.tenantId, at.appId))
  if (body === undefined || query.get('v') !== logoVersion(sha256(body).toString('hex'))) return NO_FILE
  return { status: 200, contentType: contentTypeOf('logo.png'), headers: { 'cache-control': KEEP }, body }
}

/** The colours and corners of an app's pages. */
export async function brandStylesFile(_: Deps, { queryText }: PlainRequest): Promise<PlainAnswer> {
  const body = brandStyles(new URLSearchParams(queryText))
  if (body === undefined) return NO_FILE
  return { status: 200, contentType: contentTypeOf('brand.css'), headers: { 'cache-control': 'no-cache' }, body }
}

/** What the page is for: a link to `/approve` names an approval, `/wallet` is the user's wallet, `/signin` may name a redirect. */
type Purpose = Partial<Pick<SignInPageConfig, 'redirect' | 'approval' | 'connect' | 'wallet'>>

/** The id of a request and the secret of its link. */
const AGENT_REQUEST = /^chl_[0-9a-z]{26}\.[\w-]{22}$/

const NO_PURPOSE = { redirect: null, approval: null, connect: null, wallet: false }

/** The page of an app, or an error page for an invalid link. `read` returns a message that says what is wrong with the link. */
async function hostedPage(
  deps: Deps,
  request: PlainRequest,
  read: (app: SignInSettings, query: URLSearchParams) => Purpose | string,
  preview = false,
): Promise<PlainAnswer> {
  const elsewhere = preview ? undefined : rightPlace(deps, request)
  if (elsewhere !== undefined) return elsewhere
  const { path } = request
  const query = new URLSearchParams(request.queryText)
  const at = await appAt(deps, request, query)
  if (at === undefined)
    return refusal(
      404,
      'App not found',
      `This link has no valid app id. It must be ${path}?app=app_… with the id of an app.`,
    )
  const { tenantId, appId } = at
  const app = await signInSettings(deps, tenantId, appId)
  const purpose = read(app, query)
  if (typeof purpose === 'string')
    return refusal(400, `This ${path === '/signin' ? 'sign-in ' : ''}link does not work`, purpose)
  const email = app.email.enabled && canSend(deps, app)
  const language = languageOf(query, request.headers['accept-language'], app.email.language)
  const providers = (await activeProviders(deps, { tenantId, appId })).map(({ id, preset, name }) => ({
    id,
    preset,
    name,
  }))
  const config = {
    appId: app.id,
    appName: shownName(app.branding.name ?? app.name),
    methodOrder: app.branding.methodOrder,
    messenger: telegram(deps, app),
    email,
    emailLanguage: EMAIL_LANGUAGES.find((each) => each === language) ?? null,
    recovery: email && app.emailRecovery.enabled,
    providers,
    externalWallets: ethereum(app),
    preview,
    ...NO_PURPOSE,
    ...purpose,
  }
  return html(200, renderSignInPage(config, app.branding, language), preview ? PREVIEW_HEADERS : {})
}

/** The hosted sign-in page: also for a user who is to connect an agent, whose request is stored under `connect`. */
export function signInPage(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  return hostedPage(deps, request, (app, query) => {
    const connect = query.get('connect')
    if (connect !== null) return AGENT_REQUEST.test(connect) ? { connect } : 'connect is not the link of a request.'
    const redirect = redirectOf(app, query)
    return typeof redirect === 'string' ? redirect : { redirect }
  })
}

/** The hosted sign-in page as users see it, for the dashboard: nothing on it can be pressed. */
export function previewPage(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  return hostedPage(deps, request, () => ({}), true)
}

/**
 * The page on which an owner decides on an approval, after they have signed in. The link holds no secret, and whether there is
 * such an approval is said only to its owner.
 */
export function approvalPage(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  return hostedPage(deps, request, (_, query) => {
    const id = query.get('id') ?? ''
    return isId('apr', id) ? { approval: id } : 'This link has no valid approval id. It must have id=apr_….'
  })
}

/**
 * The page on which a user creates a shared wallet, signs for its party and for payments. What is to be paid is in the link's
 * fragment, which no server sees: the user reads all of it before they sign.
 */
export function walletPage(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  return hostedPage(deps, request, () => ({ wallet: true }))
}

const header = (value: string | string[] | undefined) => (typeof value === 'string' ? value : undefined)

/** The hosted pages of an app as a caller, with the rights of a publishable key. */
export function pageCaller(tenantId: Id<'ten'>, appId: Id<'app'>): KeyHolder {
  return {
    tenantId,
    keyId: `key_signin_${appId}`,
    name: 'Hosted sign-in page',
    keyType: 'publishable',
    scopes: [],
    appId,
    allowedIps: [],
    allowedOrigins: [],
    domainOrigins: [],
    expiresAtMs: null,
  }
}

/**
 * The caller of requests from the hosted page: its app, with the rights of a publishable key. Other pages cannot call:
 * because of the custom header, browsers send a preflight request, which is never answered. The page is on the service's own
 * origin, or on a verified custom domain of the app. @throws origin_not_allowed, not_found
 */
export async function enterFromPage(deps: Deps, { headers }: EntranceRequest): Promise<KeyHolder> {
  const { origin: own } = new URL(publicUrl(deps.config))
  const site = header(headers['sec-fetch-site'])
  if (site !== undefined && site !== 'same-origin') throw fail('origin_not_allowed')
  const { origin } = headers
  const appId = header(headers['x-halfkey-app']) ?? ''
  const tenantId = await tenantOfApp(deps, appId)
  const isOwn = origin === undefined || origin === own
  const domainOrigins =
    isOwn || tenantId === undefined ? [] : await listDomainOrigins(deps.db, tenantId, appId as Id<'app'>)
  if (!isOwn && (typeof origin !== 'string' || !domainOrigins.includes(origin))) throw fail('origin_not_allowed')
  if (tenantId === undefined) throw fail('not_found')
  return { ...pageCaller(tenantId, appId as Id<'app'>), domainOrigins }
}
