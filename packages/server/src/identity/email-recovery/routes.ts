import { currentUser, eitherKey, IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { CancelRecovery, EmailRecovery, ListRecoveries, RecoverByEmail, RecoveryStep } from './schema.ts'
import { cancelRecovery, listRecoveries, listRecoveriesOf, recoverByEmail } from './service.ts'

export const emailRecoveryRoutes: Route[] = [
  route(
    'POST /auth/email/recovery',
    {
      summary: 'Recover an account by email',
      description:
        'Takes the code of `POST /auth/email/start` with the purpose `recovery`. The first time, it requests the recovery, which waits as long as `emailRecovery.waitHours` says. All other ways in are told and can cancel it; a sign-in with a passkey does so by itself. Later calls, each with a new code, return how it is going. When the wait is over, the response has the challenge of a new passkey: complete it with `POST /auth/passkey/register-verify`. An account with a second factor is not recovered like this. Emits `user.recovery_requested`, later `user.recovery_reminder`, and `user.recovery_completed` or `user.recovery_canceled`.',
      callers: eitherKey('auth:write', 'ignored'),
      limit: 'sign_in',
      body: RecoverByEmail,
      reply: one(RecoveryStep),
      secret: true,
      errors: [
        'invalid_code',
        'challenge_expired',
        'email_locked',
        'email_sign_in_disabled',
        'email_recovery_disabled',
        'recovery_not_needed',
        'user_suspended',
        'passkey_limit',
      ],
      extension: true,
    },
    (deps, { caller, origin, body }) => recoverByEmail(deps, { caller, origin }, body),
  ),
  route(
    'POST /auth/email/recovery/cancel',
    {
      summary: 'Cancel a recovery by email',
      description:
        'Cancels the pending recovery of the current user, however they signed in, or the one that an email’s link names. Emits `user.recovery_canceled`. A link of a recovery that has ended returns it unchanged.',
      callers: eitherKey('auth:write', 'optional'),
      limit: 'sign_in',
      body: CancelRecovery,
      reply: one(EmailRecovery),
      extension: true,
    },
    (deps, { caller, origin, user, body }) => cancelRecovery(deps, { caller, origin, user }, body),
  ),
  route(
    'GET /auth/email/recoveries',
    {
      summary: "List recoveries of the current user's account",
      description:
        'Newest first. Show your users one that is `pending` or `ready`: if they did not request it, they cancel it.',
      callers: currentUser(),
      query: ListRecoveries,
      reply: list(EmailRecovery),
      extension: true,
    },
    (deps, { caller, user, query }) => listRecoveries(deps, caller.tenantId, user.id, query),
  ),
  route(
    'GET /users/:id/recoveries',
    {
      summary: "List recoveries of a user's account",
      description:
        'Newest first. To cancel one for the user, call `POST /auth/email/recovery/cancel` with `x-user-id`.',
      callers: secretKey('users:read'),
      params: IdParam,
      query: ListRecoveries,
      reply: list(EmailRecovery),
      extension: true,
    },
    (deps, { caller, params, query }) => listRecoveriesOf(deps, caller, params.id, query),
  ),
]
