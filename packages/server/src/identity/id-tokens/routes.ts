import { currentUser, one, type Route, route } from '../../platform/http/route.ts'
import { CreateIdToken, IdToken } from './schema.ts'
import { createIdToken, prepareIdToken } from './service.ts'

export const idTokenRoutes: Route[] = [
  route(
    'POST /auth/id-token',
    {
      summary: 'Get an ID token of the current user',
      description:
        "A JWT (RS256) that says to others who the user is, valid for at most ten minutes. Others verify it with the app's issuer, `openid.issuer`, and its published keys. Needs the user's own access token: `x-user-id` is not enough. Guests get none, and neither does a session that began as a guest's and in which nobody has signed in since: a second factor alone is no sign-in. If the account has a passkey or a second factor, the session must have shown one. The claim `amr` says how the user signed in: a verifier that needs a passkey or a second factor must look at it. The token is not an access token.",
      callers: currentUser(),
      body: CreateIdToken,
      reply: one(IdToken),
      secret: true,
      errors: ['guest_not_allowed', 'stronger_sign_in_required', 'id_token_claims_too_large'],
      before: (deps, { caller, user }) => prepareIdToken(deps, { caller, user }),
      extension: true,
    },
    (deps, { caller, user, body }) => createIdToken(deps, { caller, user }, body),
  ),
]
