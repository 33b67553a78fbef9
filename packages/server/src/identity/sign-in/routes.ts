import { brandRoutes } from '../../platform/http/pages/brand-files.ts'
import { currentUser, eitherKey, one, type PlainRoute, type Route, route } from '../../platform/http/route.ts'
import { SignedIn } from '../users/schema.ts'
import { languageScripts } from './language.ts'
import { CreateCode, Exchange, SignInCode } from './schema.ts'
import {
  approvalPage,
  brandStylesFile,
  keyScripts,
  logoFile,
  previewPage,
  signInAssets,
  signInPage,
  walletPage,
} from './serve-page.ts'
import { createCode, exchange } from './service.ts'

export const signInRoutes: Route[] = [
  route(
    'POST /auth/exchange',
    {
      summary: 'Exchange a sign-in code',
      description:
        'Exchanges the code that the hosted sign-in page (`/signin?app=…`) returned to one of the app’s `allowedRedirectUrls`. The code can be used once, within 60 seconds, with the redirect and the PKCE verifier that it was created for. If a code is used twice, the session ends.',
      callers: eitherKey('auth:write', 'ignored'),
      limit: 'sign_in',
      body: Exchange,
      reply: one(SignedIn),
      secret: true,
      errors: ['code_invalid', 'code_expired', 'session_revoked'],
      extension: true,
    },
    (deps, { caller, origin, body }) => exchange(deps, { caller, origin }, body),
  ),
]

/** Endpoints that only the hosted page may call. */
export const signInPageRoutes: Route[] = [
  route(
    'POST /code',
    {
      summary: 'Create a sign-in code',
      callers: currentUser(),
      body: CreateCode,
      reply: one(SignInCode),
      secret: true,
      extension: true,
    },
    (deps, { caller, user, body }) => createCode(deps, { caller, user }, body),
  ),
]

/** The page and its assets. */
export const signInPages: PlainRoute[] = [
  { path: '/signin', handler: signInPage },
  { path: '/signin/preview', handler: previewPage },
  { path: '/approve', handler: approvalPage },
  { path: '/wallet', handler: walletPage },
  { path: '/signin/brand.css', handler: brandStylesFile },
  { path: '/signin/logo.png', handler: logoFile },
  ...brandRoutes('/signin'),
  ...keyScripts(),
  ...languageScripts(),
  ...signInAssets().map(({ name, contentType, body }) => ({
    path: `/signin/${name}`,
    handler: async () => ({ status: 200, contentType, headers: { 'cache-control': 'no-cache' }, body }),
  })),
]
