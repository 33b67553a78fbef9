import type { Deps } from '../../platform/deps.ts'
import type { Call, Caller } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { resolveApp } from '../../tenancy/apps/service.ts'
import { type ForeignToken, prepareForeignToken, verifyForeignToken } from '../foreign-tokens/service.ts'
import type { SignedIn } from '../users/schema.ts'
import type { ExchangeToken } from './schema.ts'
import type { Account } from './store.ts'
import { signInVouched, tokenOnce } from './vouched.ts'

/** The account that a token is about. Another issuer's same subject is another account. */
export const accountOf = (tenantId: Id<'ten'>, appId: Id<'app'>, { issuer, subject }: ForeignToken): Account => ({
  tenantId,
  appId,
  provider: 'issuer',
  issuer: issuer.issuer,
  subject,
})

/** Fetches the issuer's keys where they are needed: no transaction waits for a network. @throws not_found, token_invalid */
export async function prepareExchange(deps: Deps, caller: Caller, input: ExchangeToken): Promise<void> {
  const appId = await resolveApp(deps, caller, input.appId)
  await prepareForeignToken(deps, { tenantId: caller.tenantId, appId }, input)
}

/**
 * Signs in the user whose identity a token of a trusted issuer shows, and creates them if the issuer may. Users are found by
 * issuer and subject, and by nothing else. For a known user: one statement that reads, and one that uses up the token and
 * begins the session.
 * @throws not_found (names `appId`), token_invalid, issuer_unavailable, identity_unknown, user_suspended, guest_expired,
 * quota_exceeded, already_exists (another user took the email at this moment), rate_limited
 */
export async function exchangeToken(deps: Deps, call: Call, input: ExchangeToken): Promise<SignedIn> {
  const { tenantId } = call.caller
  const appId = await resolveApp(deps, call.caller, input.appId)
  const token = await verifyForeignToken(deps, { tenantId, appId }, input)
  return signInVouched(deps, call, {
    account: accountOf(tenantId, appId, token),
    username: null,
    email: token.email,
    name: token.name,
    mfaAt: token.mfaAt,
    use: token.use && tokenOnce(token.use),
    creates: token.issuer.jit === 'create',
    method: 'exchange',
  })
}
