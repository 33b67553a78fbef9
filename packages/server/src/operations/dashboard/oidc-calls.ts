import { publicUrl } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import { HttpError } from '../../platform/http/errors.ts'
import { limitPage, limitSignIn } from '../../platform/http/rate-limits/limits.ts'
import type { PlainAnswer, PlainRequest, PlainRoute } from '../../platform/http/route.ts'
import { validator } from '../../platform/http/schema.ts'
import type { Id } from '../../platform/ids.ts'
import {
  beginFlow,
  type CameBack,
  comeBack,
  connectAccount,
  disconnectAccount,
  memberOfAccount,
  ownLogin,
} from '../members/sign-in/oidc.ts'
import { tenantOfPage } from '../members/sign-in/settings.ts'
import { touchMember } from '../members/store.ts'
import { fail } from './errors.ts'
import { answer, DASHBOARD_CALLS, readJson } from './json-calls.ts'
import { begin, enter, type Known, knownBy, NOBODY, noteAct } from './known.ts'
import { freshHolder, holderOf } from './member-sessions.ts'
import { checkOrigin, sessionCookie } from './request-checks.ts'
import { StartLogin } from './schema.ts'

const check = validator(StartLogin)

/** Tells the page where to go, and binds the browser. */
function goTo({ url, cookies }: { url: string; cookies: string[] }, limits: Record<string, string>): PlainAnswer {
  const { headers, ...rest } = answer(JSON.stringify({ data: { url } }), limits)
  return { ...rest, headers: { ...headers, 'set-cookie': cookies } }
}

/** Begins a sign-in of somebody who may be anybody. Only the page can: no link of another site makes a browser sign in. */
async function startAnswer(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  checkOrigin(deps.config, request)
  const limits = await limitSignIn(deps, request.address)
  const { tenantId: text } = readJson<StartLogin>(request, check)
  const tenantId = await tenantOfPage(deps, text)
  return goTo(
    await beginFlow(deps, request.headers, tenantId === undefined ? undefined : { tenantId, link: null }),
    limits,
  )
}

/** Begins to connect an account, in a session that a passkey or an invitation has proved minutes ago. */
async function connectAnswer(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  const limits = await limitSignIn(deps, request.address)
  const known = await enter(deps, request)
  const { tenantId, memberId } = freshHolder(deps, known)
  const link = { memberId, sessionHash: known.row.hash }
  return goTo(await beginFlow(deps, request.headers, { tenantId, link }), limits)
}

async function loginAnswer(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  const limits = await limitPage(deps, DASHBOARD_CALLS, request.address)
  const { tenantId, memberId } = holderOf(await enter(deps, request))
  return answer(JSON.stringify({ data: await ownLogin(deps, tenantId, memberId) }), limits)
}

async function disconnectAnswer(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  const limits = await limitPage(deps, DASHBOARD_CALLS, request.address)
  const known = await enter(deps, request)
  const { tenantId, memberId } = freshHolder(deps, known)
  await deps.db.tx(async (tx) => {
    if (!(await disconnectAccount(tx, deps, tenantId, memberId))) throw fail('not_found')
    await noteAct(tx, deps, known, request.origin, 'member.account_disconnected')
  })
  return answer('{"data":{}}', limits)
}

/** Back to a page of the dashboard, and to nowhere else: nothing in an answer names an address. */
const back = (deps: Deps, path: string, cookies: string[]): PlainAnswer => ({
  status: 303,
  contentType: 'text/plain; charset=utf-8',
  headers: {
    location: `${publicUrl(deps.config)}/dashboard${path}`,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    ...(cookies.length === 0 ? {} : { 'set-cookie': cookies }),
  },
  body: '',
})

/** Signs in whom the account is connected with: weakly, as by an email code. */
async function finishSignIn(deps: Deps, request: PlainRequest, came: CameBack, subject: string): Promise<PlainAnswer> {
  const page = `?tenant=${came.flow.tenantId}`
  const known = await deps.db.tx(async (tx): Promise<Known | undefined> => {
    const member = await memberOfAccount(tx, came, subject)
    if (member === undefined) return undefined
    await touchMember(tx, member.tenant_id, member.id, deps.now())
    const grant = { ...NOBODY, tenant_id: member.tenant_id, member_id: member.id }
    return begin(tx, deps, grant, request, request.origin)
  })
  if (known === undefined) return back(deps, `${page}#login=not_connected`, [came.cookie])
  return back(deps, page, [came.cookie, sessionCookie(deps.config, known.token)])
}

/** Connects the account, if the session that asked is still there. */
async function finishConnect(
  deps: Deps,
  request: PlainRequest,
  came: CameBack,
  { memberId, sessionHash }: { memberId: Id<'mem'>; sessionHash: Buffer },
  account: { subject: string; email: string | null },
): Promise<PlainAnswer> {
  const refusal = await deps.db
    .tx(async (tx) => {
      const known = await knownBy({ ...deps, db: tx }, sessionHash)
      if (known?.holder.member?.id !== memberId) return 'session_invalid'
      const refused = await connectAccount(tx, deps, came, memberId, account)
      // What was deleted for it is there again.
      if (refused !== undefined) throw new Refused(refused)
      await noteAct(tx, deps, known, request.origin, 'member.account_connected')
      return undefined
    })
    .catch((error: unknown) => {
      if (error instanceof Refused) return error.message
      throw error
    })
  return back(deps, `/account#login=${refusal ?? 'connected'}`, [came.cookie])
}

/** Rolls back what a refused connection has begun. */
class Refused extends Error {}

/** `GET /dashboard/oidc/:id/callback`: where the login of an organisation sends browsers back to. */
async function callbackAnswer(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  // `HEAD` must do nothing (RFC 9110, section 9.2.1): programs that preview links ask so.
  if (request.method === 'HEAD') return back(deps, '', [])
  try {
    await limitSignIn(deps, request.address)
  } catch (error) {
    if (error instanceof HttpError && error.status === 429) return back(deps, '#login=rate_limited', [])
    throw error
  }
  const came = await comeBack(deps, request.headers, request.path.split('/')[3] ?? '', request.queryText)
  if (came === undefined) return back(deps, '#login=stale', [])
  const { account, flow, cookie } = came
  const { tenantId, link } = flow
  if ('failure' in account) {
    const page = link === null ? `?tenant=${tenantId}` : '/account'
    return back(deps, `${page}#login=${account.failure}`, [cookie])
  }
  return link === null
    ? finishSignIn(deps, request, came, account.subject)
    : finishConnect(deps, request, came, link, account)
}

const PATH = '/dashboard/api/session/login'

/** The login of an organisation: signing in by it, and connecting an account there with a member. */
export const oidcRoutes: PlainRoute[] = [
  { method: 'POST', path: PATH, handler: startAnswer },
  { path: PATH, handler: loginAnswer },
  { method: 'POST', path: `${PATH}/connect`, handler: connectAnswer },
  { method: 'POST', path: `${PATH}/disconnect`, handler: disconnectAnswer },
  { path: '/dashboard/oidc/:id/callback', handler: callbackAnswer },
]
