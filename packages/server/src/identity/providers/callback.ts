import { randomBytes } from 'node:crypto'
import type { Deps } from '../../platform/deps.ts'
import type { Call, PlainAnswer, PlainRequest } from '../../platform/http/route.ts'
import { isId } from '../../platform/ids.ts'
import { type Challenge, createChallenge, findChallenge, takeChallenge } from '../../platform/security/challenges.ts'
import { equalSecrets, sha256 } from '../../platform/security/crypto.ts'
import { callbackUrl, type ProviderRow } from '../../tenancy/apps/providers/service.ts'
import { isReturnUrl, signInSettings } from '../../tenancy/apps/service.ts'
import { textAt } from '../foreign-tokens/service.ts'
import { signInVouched } from '../identities/service.ts'
import { handOver, pageCaller } from '../sign-in/service.ts'
import { redeem, type ShownAccount } from './account.ts'
import { providerAt, redirect, stale, UNTOUCHED } from './begin.ts'
import { endedCookie, secretOf } from './browser-binding.ts'
import { clientOf } from './client/client.ts'
import { type BegunFlow, browserHashOf, type Derived, deriveFrom } from './flow.ts'
import { returnedWith, returnUrl } from './return.ts'

/** An answer of a provider is a code and little else. */
const FORM_BYTES_MAX = 16 * 1024
/** What a provider's form may carry on to the callback's query. */
const FORM_FIELDS = ['code', 'state', 'iss', 'error', 'user'] as const
const NAME_CHARS_MAX = 200

/** A flow that came back to the browser that it left from. */
interface Back {
  flow: Challenge<BegunFlow>
  derived: Derived
}

const isSame = (a: string, b: string) => equalSecrets(Buffer.from(a), Buffer.from(b))

/**
 * The flow of a request, used up. Undefined unless the browser has the flow's cookie, which is looked at first: a stranger with
 * a stolen state uses nothing up.
 */
async function comeBack(deps: Deps, row: ProviderRow, request: PlainRequest, state: string): Promise<Back | undefined> {
  const id = state.slice(0, state.indexOf('.'))
  const secret = isId('chl', id) ? secretOf(deps, request.headers, id) : undefined
  if (!isId('chl', id) || secret === undefined) return undefined
  const of = { tenantId: row.tenant_id, appId: row.app_id, kind: 'provider_return', id } as const
  const found = await findChallenge<BegunFlow>(deps.db, deps.now(), of)
  if (found === undefined || found.over || found.data.providerId !== row.id) return undefined
  const derived = deriveFrom(secret, id)
  if (!isSame(browserHashOf(secret), found.data.browserHash) || !isSame(state, derived.state)) return undefined
  const flow = await takeChallenge<BegunFlow>(deps.db, deps.now(), of)
  return flow === undefined || flow.over ? undefined : { flow, derived }
}

/** The name that Apple tells once, in a form field that it does not sign. It is no more than what users say of themselves. */
function nameInForm(query: URLSearchParams): string | undefined {
  try {
    const name = (JSON.parse(query.get('user') ?? 'null') as { name?: Record<string, unknown> } | null)?.name ?? {}
    const parts = [textAt(name, 'firstName', NAME_CHARS_MAX), textAt(name, 'lastName', NAME_CHARS_MAX)]
    return (
      parts
        .filter((part) => part !== undefined)
        .join(' ')
        .slice(0, NAME_CHARS_MAX) || undefined
    )
  } catch {
    return undefined
  }
}

/** The account that the provider's answer is for. @throws the errors of `redeem` */
async function shownBy(deps: Deps, row: ProviderRow, query: URLSearchParams, derived: Derived): Promise<ShownAccount> {
  const url = new URL(callbackUrl(deps, row.id))
  // All of the query but what is ours to read: what stands there twice must not get lost.
  url.search = new URLSearchParams([...query].filter(([name]) => name !== 'user')).toString()
  const shown = await redeem(deps, row, await clientOf(deps, row), {
    url,
    expectedState: derived.state,
    expectedNonce: derived.nonce,
    codeVerifier: derived.codeVerifier,
  })
  return row.preset === 'apple' ? { ...shown, name: shown.name ?? nameInForm(query) ?? null } : shown
}

/** Signs in, and hands the session over by a code of which the starting page alone has the verifier. */
async function finishSignIn(
  deps: Deps,
  call: Call,
  row: ProviderRow,
  { redirectUrl, codeChallenge }: BegunFlow,
  shown: ShownAccount,
): Promise<string> {
  const signedIn = await signInVouched(deps, call, {
    ...shown,
    mfaAt: null,
    use: null,
    creates: row.jit === 'create',
    method: 'provider',
  })
  const { code } = await handOver(deps, {
    tenant_id: row.tenant_id,
    app_id: row.app_id,
    session_id: signedIn.sessionId as `ses_${string}`,
    redirect_uri: redirectUrl,
    code_challenge: codeChallenge,
  })
  return code
}

/** An account that a user has shown, to be linked by the session that asked. */
export interface ShownForLink {
  providerId: string
  account: ShownAccount['account']
  username: string | null
  codeHash: string
  codeChallenge: string
  sessionId: BegunFlow['sessionId']
}

/**
 * Keeps the account for the page that asked, and links nothing yet: whoever came back here may have been sent by somebody else,
 * to whose user the account must not go.
 */
async function finishLink(
  deps: Deps,
  row: ProviderRow,
  { data: flow, userId }: Challenge<BegunFlow>,
  { account, username }: ShownAccount,
): Promise<string> {
  const secret = `hk_pl_${randomBytes(32).toString('base64url')}`
  const { codeChallenge, sessionId } = flow
  const codeHash = sha256(secret).toString('base64url')
  const data: ShownForLink = { providerId: row.id, account, username, codeHash, codeChallenge, sessionId }
  const { tenant_id: tenantId, app_id: appId } = row
  const kept = await createChallenge(deps.db, deps.now(), { tenantId, appId, kind: 'provider_link', userId, data })
  return `${kept.id}.${secret}`
}

/** `GET /signin/providers/:id/callback`: where a provider sends browsers back to. */
export async function returnFromProvider(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  if (request.method === 'HEAD') return UNTOUCHED
  const row = await providerAt(deps, request.path)
  const query = new URLSearchParams(request.queryText)
  const back = row && (await comeBack(deps, row, request, query.get('state') ?? ''))
  if (row === undefined || back === undefined) return stale()
  const { flow, derived } = back
  const app = await signInSettings(deps, row.tenant_id, row.app_id)
  // The app may have removed it since.
  if (!(await isReturnUrl(deps, row.tenant_id, app, flow.data.redirectUrl))) return stale()
  const ended = [endedCookie(deps, flow.id)]
  try {
    const shown = await shownBy(deps, row, query, derived)
    const call: Call = { caller: pageCaller(row.tenant_id, row.app_id), origin: request.origin }
    const code =
      flow.data.purpose === 'link'
        ? await finishLink(deps, row, flow, shown)
        : await finishSignIn(deps, call, row, flow.data, shown)
    return redirect(returnUrl(flow.data, { code }), ended)
  } catch (error) {
    return redirect(returnedWith(deps, row, flow.data, error), ended)
  }
}

/**
 * `POST /signin/providers/:id/callback`: the same for providers that send a form (Apple). Browsers send no cookies with a form
 * of another site, so they are sent on to the same address with a query.
 */
export async function formFromProvider(deps: Deps, { path, body }: PlainRequest): Promise<PlainAnswer> {
  const row = body.length > FORM_BYTES_MAX ? undefined : await providerAt(deps, path)
  if (row === undefined) return stale()
  const form = new URLSearchParams(body.toString())
  const fields = [...form].filter(([name]) => (FORM_FIELDS as readonly string[]).includes(name))
  return redirect(`${callbackUrl(deps, row.id)}?${new URLSearchParams(fields)}`, [])
}
