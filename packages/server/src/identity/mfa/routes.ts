import { currentUser, one, type Route, route } from '../../platform/http/route.ts'
import {
  CreateMfaChallenge,
  MfaChallenge,
  MfaSetup,
  MfaStatus,
  MfaVerification,
  RecoveryCodes,
  VerifyMfa,
  VerifyMfaSetup,
} from './schema.ts'
import { challenge, disable, setUp, status, verify, verifySetup } from './service.ts'

export const mfaRoutes: Route[] = [
  route(
    'POST /mfa/setup',
    {
      summary: 'Start MFA set-up',
      description:
        'Creates a TOTP secret (SHA-1, 6 digits, 30 seconds) for an authenticator app. It replaces an earlier set-up that was not completed, and nothing else. Complete it within ten minutes. Needs a sign-in within the last five minutes.',
      callers: currentUser(),
      reply: one(MfaSetup),
      secret: true,
      limit: 'sign_in',
      errors: ['stronger_sign_in_required', 'reauthentication_required', 'mfa_already_enabled'],
    },
    (deps, { caller, origin, user }) => setUp(deps, { caller, origin, user }),
  ),
  route(
    'POST /mfa/verify-setup',
    {
      summary: 'Complete MFA set-up',
      description:
        'Accepts the first code of the authenticator app and returns ten recovery codes, which are only in this response. Counts as a verification of this session.',
      callers: currentUser(),
      body: VerifyMfaSetup,
      reply: one(RecoveryCodes),
      secret: true,
      limit: 'sign_in',
      errors: [
        'stronger_sign_in_required',
        'invalid_code',
        'mfa_already_enabled',
        'mfa_setup_not_started',
        'mfa_setup_expired',
        'mfa_locked',
      ],
    },
    (deps, { caller, origin, user, body }) => verifySetup(deps, { caller, origin, user }, body),
  ),
  route(
    'POST /mfa/challenge',
    {
      summary: 'Request an MFA challenge',
      description: 'Answer it at `/mfa/verify` within five minutes. You can answer until one answer succeeds.',
      callers: currentUser(),
      body: CreateMfaChallenge,
      reply: one(MfaChallenge),
      errors: ['mfa_not_enabled'],
    },
    (deps, { caller, user, body }) => challenge(deps, { caller, user }, body),
  ),
  route(
    'POST /mfa/verify',
    {
      summary: 'Verify an MFA code',
      description:
        'Accepts either a `code` of the authenticator app or a `recoveryCode`. Each can be used once. The verification counts for five minutes: for this session or, if a server acts for the user, for its key. After five wrong codes in a row, across all challenges, no code is accepted for 15 minutes.',
      callers: currentUser(),
      body: VerifyMfa,
      reply: one(MfaVerification),
      secret: true,
      limit: 'sign_in',
      errors: ['invalid_code', 'not_found', 'mfa_not_enabled', 'challenge_expired', 'mfa_locked'],
    },
    (deps, { caller, origin, user, body }) => verify(deps, { caller, origin, user }, body),
  ),
  route(
    'GET /mfa/status',
    { summary: 'Get MFA status', callers: currentUser(), reply: one(MfaStatus) },
    (deps, { caller, user }) => status(deps, { caller, user }),
  ),
  route(
    'DELETE /mfa',
    {
      summary: 'Disable MFA',
      description:
        'Deletes the factor and its recovery codes. Needs a verification within the last five minutes, from servers too. Returns the new status.',
      callers: currentUser(),
      reply: one(MfaStatus),
      errors: ['mfa_required', 'mfa_not_enabled'],
    },
    (deps, { caller, origin, user }) => disable(deps, { caller, origin, user }),
  ),
]
