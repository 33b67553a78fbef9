import type { Remedy } from './remedy.ts'

/** Of calls for a user: sessions, sign-in, guests, the second factor. */
export const USER_REMEDIES = {
  session_missing: {
    means: 'The call acts for a user (or within a delegated session), and nothing says for which.',
    causes: [
      'No `Authorization: Bearer …` was sent.',
      'A server meant to act for a user and left out `x-user-id`.',
      'A delegated session was made without `serverExecute`, so it needs its own token.',
    ],
    fix: [
      "Send the user's access token as a bearer token beside the API key.",
      'From a server: a secret key with `users:act_as` and `x-user-id: usr_…`.',
    ],
    retry: 'never',
  },
  session_invalid: {
    means: 'The bearer token is none that this service made for this app.',
    causes: [
      "It is a refresh token, a delegated session's token (`dst_…`), or another service's.",
      "Its app is not the key's app.",
      'It was signed by keys that were revoked (`halfkey keys rotate-signing --revoke-previous`), or `HALFKEY_PUBLIC_URL` has changed since.',
    ],
    fix: [
      'Use the `accessToken` of the last sign-in or refresh, with a key of the same app.',
      'Let the user sign in again.',
    ],
    retry: 'never',
  },
  session_expired: {
    means: 'The access token was right and is too old: it lives 15 minutes unless the app says otherwise.',
    causes: ['The page was open for a while.', 'The clock of who checks the token is wrong.'],
    fix: [
      '`POST /v1/auth/refresh {"refreshToken": "…"}`, keep both tokens of the answer, and repeat the call.',
      'If that is refused too, let the user sign in.',
    ],
    retry: 'never',
  },
  session_revoked: {
    means: 'The session has been ended; its tokens count no more, anywhere, within a second.',
    causes: [
      'A log-out, here or “everywhere”.',
      'A refresh token was used twice: somebody has a copy, and the session was ended (`session.reuse_detected`).',
      'The user was suspended or deleted.',
    ],
    fix: [
      'Delete the stored tokens and let the user sign in again.',
      'Two tabs that refresh at once are no misuse: the same token answers the same successor for 30 seconds. Keep the newest pair in one place.',
    ],
    retry: 'never',
  },
  user_suspended: {
    means: 'The user is suspended: nobody calls for them, and they cannot sign in.',
    causes: ['`PATCH /v1/users/:id {"status": "suspended"}` by your server or the dashboard.'],
    fix: ['Set `status` to `active` when that is over. Their old sessions stay ended; they sign in again.'],
    retry: 'never',
  },
  mfa_required: {
    means:
      'The user has a second factor, and this call wants it verified within the last five minutes of this session.',
    causes: [
      'Key shares, delegated sessions, passkeys, the email and MFA itself are protected so.',
      'The last verification was in another session, or is older.',
    ],
    fix: [
      '`POST /v1/mfa/challenge`, ask for a code, `POST /v1/mfa/verify {"challengeId": "…", "code": "123456"}`, and repeat the call with the access token of that answer.',
    ],
    retry: 'never',
  },
  mfa_enrollment_required: {
    means: 'The app asks every user for a second factor (`mfa.policy: always`), and this one has none.',
    causes: ['The policy was set after the user signed up.'],
    fix: [
      'Let the user set one up: `POST /v1/mfa/setup`, then `POST /v1/mfa/verify-setup {"code": "…"}`, within five minutes of signing in.',
    ],
    retry: 'never',
  },
  reauthentication_required: {
    means:
      'The user has no second factor, so this call wants a sign-in of the last five minutes: else a stolen token could enrol a factor of its own.',
    causes: ['The session is older; a refresh is no sign-in.'],
    fix: [
      'Let the user sign in again, and make the call at once with the new token.',
      'Or let them set up a second factor.',
    ],
    retry: 'never',
  },
  guest_expired: {
    means: 'The guest session has ended: its tokens count no more and its wallet is frozen.',
    causes: ['Its `ttlMinutes` have passed, or it was deleted or cleaned up.'],
    fix: [
      'Begin another guest session. What the old one was to keep should have been converted in time (`POST /v1/guests/:id/convert`).',
      'Give guests more time with `ttlMinutes` (up to 30 days).',
    ],
    retry: 'never',
  },
  already_converted: {
    means: 'The guest has become a user already. Id, party and wallet stayed the same.',
    causes: ['A retry of `convert` without its `Idempotency-Key`.', 'Two tabs.'],
    fix: [
      'Read the guest (`GET /v1/guests/:id`): `userId` is the user. Go on with that, or let them sign in.',
      'To end it, delete the user instead.',
    ],
    retry: 'never',
  },
  code_invalid: {
    means:
      'The code that the hosted sign-in page returned cannot be exchanged. If it had been used before, its session has been ended.',
    causes: [
      'It was exchanged already, by a reload of the return page.',
      '`redirectUri` or `codeVerifier` is not the one the sign-in began with.',
    ],
    fix: [
      'Exchange once, then redirect to an address without the code.',
      'Keep verifier and `state` in the browser session that began the sign-in.',
      'Begin again at `/signin`.',
    ],
    retry: 'never',
  },
  code_expired: {
    means: 'The sign-in code was right and is older than 60 seconds.',
    causes: ['The return page waited for something else first.'],
    fix: ['Exchange the code as the first thing. Begin again at `/signin`: the user is signed in there still.'],
    retry: 'never',
  },
  attestation_invalid: {
    means:
      'The new passkey could not be verified. The challenge is used up. The answer does not say which check failed: that helps only who forges.',
    causes: [
      "The page's origin is not one of the app's, or its host does not belong to `passkey.rpId`.",
      'User verification is required and the device made none.',
      'The credential was changed on its way, by a re-encoding of its fields.',
    ],
    fix: [
      'Send what `navigator.credentials.create` answered as its `toJSON()` has it.',
      'Check `passkey.rpId` and `allowedOrigins` of the app.',
      'Ask for new options and begin again.',
    ],
    retry: 'never',
    detail: { field: 'credential', code: 'attestation_invalid', message: 'Could not be verified.' },
  },
  assertion_invalid: {
    means: 'Signing in by this passkey failed: unknown, removed, replayed or wrong, in one answer.',
    causes: [
      'The passkey was removed from the account, but is still in the device.',
      "The origin is not one that the passkey's relying party covers.",
      'The signature counter went backwards: a cloned authenticator.',
    ],
    fix: [
      'Ask for new options and try again, with another passkey if there is one.',
      'Users who lost theirs get back in by a challenge that your server makes: [passkeys](../sign-in.md#passkeys).',
    ],
    retry: 'never',
    detail: { field: 'credential', code: 'assertion_invalid', message: 'Could not be verified.' },
  },
  last_sign_in_method: {
    means: 'Without this passkey its user could never sign in again.',
    causes: ['It is the only passkey, and there is no messenger account either.'],
    fix: ['Add another passkey first, then remove this one.', 'To end the account, delete the user.'],
    retry: 'never',
  },
  passkey_limit: {
    means: 'The user has as many passkeys as there may be.',
    causes: ['Each test run or device added one, and none was removed.'],
    fix: ['List them (`GET /v1/auth/passkeys`), remove those that are not used (`lastUsedAt`), and add the new one.'],
    retry: 'never',
  },
  challenge_expired: {
    means:
      'The challenge has been answered, or its five minutes are over. Each counts once, even where two answers race.',
    causes: ['A dialog stood open for long.', 'The same answer was sent twice: the first one counted.'],
    fix: ['Ask for a new challenge and answer that.', 'Disable the button while the first answer is under way.'],
    retry: 'never',
  },
  messenger_not_configured: {
    means: 'The app has no messenger bot, so nobody can sign in to it by messenger.',
    causes: ['`messenger.botUsername` and `messenger.botToken` of the app were never set.'],
    fix: [
      '`PATCH /v1/apps/:id {"messenger": {"botUsername": "…", "botToken": "…"}}`: [Telegram](../sign-in.md#telegram).',
    ],
    retry: 'never',
  },
  messenger_signature_invalid: {
    means:
      "What should come from the messenger is not signed by this app's bot, is older than a day, or was used before.",
    causes: [
      'Fields were added, left out or re-encoded: the signature covers all of them.',
      'The token of the bot was changed, or belongs to another bot.',
      'The page was reloaded and sent the same payload.',
    ],
    fix: [
      "Hand on the widget's fields, or `initData`, exactly as they came.",
      'Compare `botId` of `GET /v1/auth/messenger/widget-config` with your bot.',
      'Let the user press the button again.',
    ],
    retry: 'never',
  },
  invalid_code: {
    means: 'The code is not right, or was right and used already. It counts as one of five tries.',
    causes: [
      "A typing error, or the authenticator's clock is more than half a minute off.",
      'The same six digits were sent twice: a code counts once.',
      'A recovery code that was used before.',
    ],
    fix: ['Wait for the next code and ask again.', 'Fall back to a recovery code (`recoveryCode`).'],
    retry: 'never',
    detail: { field: 'code', code: 'invalid_code', message: 'Is not right, or was used before.' },
  },
  mfa_already_enabled: {
    means: 'The user has a second factor. A new one cannot silently take its place.',
    causes: ['Set-up was begun twice.', 'A user with a new phone wants to enrol again.'],
    fix: [
      'Disable it first (`DELETE /v1/mfa`, after a fresh verification; a recovery code will do), then set up the new one.',
    ],
    retry: 'never',
  },
  mfa_not_enabled: {
    means: 'The user has no second factor, so there is nothing to verify or disable.',
    causes: ['The page asks for a code without looking at `GET /v1/mfa/status`.'],
    fix: ['Ask `GET /v1/mfa/status` first.', 'What needs a step-up takes a fresh sign-in from users without a factor.'],
    retry: 'never',
  },
  mfa_setup_not_started: {
    means: 'There is no set-up that this code could complete.',
    causes: ['`POST /v1/mfa/setup` was not called, or for another user.', 'The set-up was completed already.'],
    fix: ['Begin with `POST /v1/mfa/setup`, show its `qrSvg`, then send the code.'],
    retry: 'never',
  },
  mfa_setup_expired: {
    means: 'The set-up was begun more than ten minutes ago.',
    causes: ['The QR code stood on the screen for long.'],
    fix: ['Begin again with `POST /v1/mfa/setup`. The old entry in the authenticator is of no use: delete it.'],
    retry: 'never',
  },
  mfa_locked: {
    means:
      'Five wrong codes in a row, however spread over challenges: verification is locked for 15 minutes, for this user only. Turning rate limits off does not lift it.',
    causes: ['Somebody guesses.', "The user reads the code of another account, or the device's clock is wrong."],
    fix: [
      'Wait as long as `Retry-After` says.',
      'If the user did not do it: somebody has their session. End it (`POST /v1/auth/logout {"everywhere": true}`).',
    ],
    retry: 'later',
    detail: {
      code: 'mfa_locked',
      message: 'No code is heard for 871 seconds.',
      lockedUntil: '2026-11-21T08:45:00.000Z',
    },
  },
} as const satisfies Record<string, Remedy>
