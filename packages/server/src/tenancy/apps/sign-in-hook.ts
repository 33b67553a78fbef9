import type { Deps } from '../../platform/deps.ts'
import { EgressRefused } from '../../platform/egress/egress.ts'
import { failures } from '../../platform/http/errors.ts'
import type { Id } from '../../platform/ids.ts'
import { knownSetting } from './known-settings.ts'
import type { App, UpdateApp } from './schema.ts'
import { checkUrl } from './settings.ts'
import * as store from './store.ts'

export const SIGN_IN_HOOK_ERRORS = {
  sign_in_hook_url_blocked: [400, 'Halfkey may not call this URL for the sign-in hook. Use a public https address.'],
} as const

const fail = failures(SIGN_IN_HOOK_ERRORS)

/** Whom an app asks before a session begins. */
export interface SignInHook {
  url: string
  onFailure: App['signInHook']['onFailure']
  /** Context: `sign-in hook secret`, tenant, app. Null if it is missing: then nobody can be asked, and no session begins. */
  secretSealed: Buffer | null
}

const knownHooks = knownSetting<SignInHook | null>()

/** Drops the cached hooks of apps. Call it after the commit of a change. */
export const forgetSignInHooks = (deps: Pick<Deps, 'auth'>): void => knownHooks(deps).forget()

/**
 * Refuses an address that may not be asked. Needs the network, so it runs before the transaction.
 * @throws validation_failed, sign_in_hook_url_blocked
 */
export async function checkSignInHook(deps: Deps, { signInHook }: Pick<UpdateApp, 'signInHook'>): Promise<void> {
  if (signInHook?.url == null) return
  checkUrl('signInHook.url', signInHook.url, deps.config.env === 'development')
  try {
    await deps.egress.assertAllowed(signInHook.url)
  } catch (error) {
    if (!(error instanceof EgressRefused)) throw error
    throw fail('sign_in_hook_url_blocked').about('signInHook.url', error.message)
  }
}

/** Whom an app asks before a session begins; null if nobody. Another process's change counts within a second. */
export function signInHookOf(
  deps: Pick<Deps, 'auth' | 'db'>,
  tenantId: Id<'ten'>,
  appId: Id<'app'>,
): Promise<SignInHook | null> {
  return knownHooks(deps).of(tenantId, appId, async () => {
    const row = await store.findApp(deps.db, { tenantId, appId: null }, appId)
    if (row === undefined || row.sign_in_hook.url === null) return null
    return { ...row.sign_in_hook, url: row.sign_in_hook.url, secretSealed: row.sign_in_hook_secret_sealed }
  })
}
