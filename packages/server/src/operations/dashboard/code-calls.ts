import type { Deps } from '../../platform/deps.ts'
import { limitPage, limitSignIn } from '../../platform/http/rate-limits/limits.ts'
import type { PlainAnswer, PlainRequest, PlainRoute } from '../../platform/http/route.ts'
import { validator } from '../../platform/http/schema.ts'
import { startCode } from '../members/sign-in/codes.ts'
import { tenantOfPage, waysOfPage } from '../members/sign-in/settings.ts'
import { codeCookie } from './code-cookie.ts'
import { answer, DASHBOARD_CALLS, readJson } from './json-calls.ts'
import { checkOrigin } from './request-checks.ts'
import { StartCode } from './schema.ts'

const check = validator(StartCode)

/** What the sign-in page offers, before anybody is known. */
async function waysAnswer(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  checkOrigin(deps.config, request)
  const limits = await limitPage(deps, DASHBOARD_CALLS, request.address)
  const tenant = new URLSearchParams(request.queryText).get('tenant') ?? undefined
  return answer(JSON.stringify({ data: await waysOfPage(deps, tenant) }), limits)
}

/** Mails a code to somebody who may be anybody. Counted as a sign-in for the client's address. */
async function startAnswer(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  checkOrigin(deps.config, request)
  const limits = await limitSignIn(deps, request.address)
  const { email, tenantId } = readJson<StartCode>(request, check)
  const tenant = await tenantOfPage(deps, tenantId)
  const { challengeId, expiresAt, binding } = await startCode(deps, tenant, email, request.address)
  const body = JSON.stringify({ data: { challengeId, expiresAt: expiresAt.toISOString() } })
  return answer(body, { ...limits, 'set-cookie': codeCookie(deps.config, binding) })
}

/** The sign-in of members by a code: what the page offers, and asking for one. */
export const codeRoutes: PlainRoute[] = [
  { path: '/dashboard/api/session/ways', handler: waysAnswer },
  { method: 'POST', path: '/dashboard/api/session/email-code', handler: startAnswer },
]
