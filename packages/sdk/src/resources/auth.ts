import type { Calls, RequestOptions } from '../http.ts'
import type {
  Email,
  EmailChallenge,
  EmailRecovery,
  ExternalWalletChallenge,
  Identity,
  IdToken,
  LoggedOut,
  LoginChallenge,
  MessengerWidget,
  Passkey,
  PasskeyProof,
  ProviderStart,
  RecoveryStep,
  RegistrationChallenge,
  Session,
  SignedIn,
  Tokens,
  User,
} from '../models.ts'
import type { Body, Query } from '../operations.ts'
import type { List } from '../paging.ts'

function passkeysOf({ one, list }: Calls) {
  return {
    /**
     * Starts the registration of a passkey: `publicKey` is for `navigator.credentials.create` (WebAuthn L3, JSON). Without
     * a current user it signs up a new user; with one it adds a passkey. Scope `auth:write`.
     * @throws mfa_required, reauthentication_required (adding)
     */
    registerOptions: (
      body: Body<'/auth/passkey/register-options', 'post'> = {},
      options?: RequestOptions,
    ): Promise<RegistrationChallenge> => one('post', '/auth/passkey/register-options', { body }, options),

    /** Completes a registration, and signs in. Scope `auth:write`. @throws attestation_invalid, challenge_expired, already_exists */
    registerVerify: (
      body: Body<'/auth/passkey/register-verify', 'post'>,
      options?: RequestOptions,
    ): Promise<SignedIn> => one('post', '/auth/passkey/register-verify', { body }, options),

    /**
     * Starts a sign-in: `publicKey` is for `navigator.credentials.get`. Without `email`, the authenticator offers all its
     * passkeys. Scope `auth:write`.
     */
    loginOptions: (
      query?: Query<'/auth/passkey/login-options', 'get'>,
      options?: RequestOptions,
    ): Promise<LoginChallenge> => one('get', '/auth/passkey/login-options', { query }, options),

    /** Completes a sign-in. Scope `auth:write`. @throws assertion_invalid, challenge_expired, user_suspended */
    loginVerify: (body: Body<'/auth/passkey/login-verify', 'post'>, options?: RequestOptions): Promise<SignedIn> =>
      one('post', '/auth/passkey/login-verify', { body }, options),

    /**
     * Shows a passkey of the current user in their session, by a challenge of `loginOptions`. Counts as a sign-in where one is
     * needed. @throws assertion_invalid, challenge_expired
     */
    prove: (body: Body<'/auth/passkey/prove', 'post'>, options?: RequestOptions): Promise<PasskeyProof> =>
      one('post', '/auth/passkey/prove', { body }, options),

    /** Lists the current user's passkeys, newest first. */
    list: (query?: Query<'/auth/passkeys', 'get'>, options?: RequestOptions): List<Passkey> =>
      list('/auth/passkeys', {}, query, options),

    /** Renames one of the current user's passkeys. @throws not_found */
    rename: (id: string, name: string | null, options?: RequestOptions): Promise<Passkey> =>
      one('patch', '/auth/passkeys/{id}', { path: { id }, body: { name } }, options),

    /** Removes one of the current user's passkeys. @throws not_found, last_sign_in_method, mfa_required, reauthentication_required */
    remove: (id: string, options?: RequestOptions): Promise<Passkey> =>
      one('delete', '/auth/passkeys/{id}', { path: { id } }, options),
  }
}

function messengerOf({ one }: Calls) {
  return {
    /** Signs in with the data of the Telegram login widget or of a Mini App (`initData`). Scope `auth:write`. @throws messenger_signature_invalid */
    verify: (body: Body<'/auth/messenger/verify', 'post'>, options?: RequestOptions): Promise<SignedIn> =>
      one('post', '/auth/messenger/verify', { body }, options),

    /** Gets the settings of the login widget. Scope `auth:write`. @throws messenger_not_configured */
    widgetConfig: (
      query?: Query<'/auth/messenger/widget-config', 'get'>,
      options?: RequestOptions,
    ): Promise<MessengerWidget> => one('get', '/auth/messenger/widget-config', { query }, options),
  }
}

function identitiesOf({ one, list }: Calls) {
  return {
    /** Lists the current user's identities: accounts elsewhere that sign them in. Newest first. */
    list: (query?: Query<'/auth/identities', 'get'>, options?: RequestOptions): List<Identity> =>
      list('/auth/identities', {}, query, options),

    /** Links the identity that a token of a trusted issuer shows to the current user. @throws token_invalid, already_exists, stronger_sign_in_required, mfa_required, reauthentication_required */
    link: (body: Body<'/auth/identities', 'post'>, options?: RequestOptions): Promise<Identity> =>
      one('post', '/auth/identities', { body }, options),

    /** Removes one of the current user's identities. @throws not_found, last_sign_in_method, stronger_sign_in_required, mfa_required, reauthentication_required */
    unlink: (id: string, options?: RequestOptions): Promise<Identity> =>
      one('delete', '/auth/identities/{id}', { path: { id } }, options),
  }
}

function providersOf({ one }: Calls) {
  return {
    /**
     * Starts a sign-in with a provider: send the browser to `authorizationUrl`. It returns to `redirectUrl` with a `code` for
     * `exchange` and your `state`, or with `error`. Keep the verifier of `codeChallenge` in the tab. With `purpose: 'link'`, the
     * code is for `link`. Scope `auth:write`. @throws not_found
     */
    start: (
      id: string,
      body: Body<'/auth/providers/{id}/start', 'post'>,
      options?: RequestOptions,
    ): Promise<ProviderStart> => one('post', '/auth/providers/{id}/start', { path: { id }, body }, options),

    /** Signs in with the ID token that a provider gave to a native app. Scope `auth:write`. @throws token_invalid, issuer_unavailable, identity_unknown, user_suspended */
    token: (
      id: string,
      body: Body<'/auth/providers/{id}/token', 'post'>,
      options?: RequestOptions,
    ): Promise<SignedIn> => one('post', '/auth/providers/{id}/token', { path: { id }, body }, options),

    /** Links an account at a provider to the current user, by a code or an ID token. @throws code_invalid, code_expired, token_invalid, already_exists, stronger_sign_in_required, mfa_required, reauthentication_required */
    link: (id: string, body: Body<'/auth/providers/{id}/link', 'post'>, options?: RequestOptions): Promise<Identity> =>
      one('post', '/auth/providers/{id}/link', { path: { id }, body }, options),
  }
}

function walletsOf({ one }: Calls) {
  return {
    /**
     * Asks for the text that an external wallet signs, whether a user has its key or not. With `purpose: 'link'`, the signature is
     * for `link`. Scope `auth:write`. @throws external_wallets_disabled
     */
    start: (body: Body<'/auth/wallet/start', 'post'>, options?: RequestOptions): Promise<ExternalWalletChallenge> =>
      one('post', '/auth/wallet/start', { body }, options),

    /** Signs in with the signature. Scope `auth:write`. @throws wallet_signature_invalid, challenge_expired, identity_unknown, user_suspended */
    verify: (body: Body<'/auth/wallet/verify', 'post'>, options?: RequestOptions): Promise<SignedIn> =>
      one('post', '/auth/wallet/verify', { body }, options),

    /** Makes the key a way to sign in of the current user. @throws wallet_signature_invalid, challenge_expired, already_exists, stronger_sign_in_required, mfa_required */
    link: (body: Body<'/auth/wallet/link', 'post'>, options?: RequestOptions): Promise<Identity> =>
      one('post', '/auth/wallet/link', { body }, options),
  }
}

function emailOf({ one, list }: Calls) {
  return {
    /**
     * Sends a code to an address, whether a user has it or not. With `purpose: 'link'`, the current user wants to sign in
     * with the address. Keep `challengeId` where the code is typed. Scope `auth:write`.
     * @throws email_sign_in_disabled, email_not_configured, email_locked
     */
    start: (body: Body<'/auth/email/start', 'post'>, options?: RequestOptions): Promise<EmailChallenge> =>
      one('post', '/auth/email/start', { body }, options),

    /** Signs in with the code. Scope `auth:write`. @throws invalid_code, challenge_expired, email_not_linked, email_locked */
    verify: (body: Body<'/auth/email/verify', 'post'>, options?: RequestOptions): Promise<SignedIn> =>
      one('post', '/auth/email/verify', { body }, options),

    /** Makes the address a way to sign in of the current user. @throws invalid_code, challenge_expired, already_exists */
    link: (body: Body<'/auth/email/link', 'post'>, options?: RequestOptions): Promise<User> =>
      one('post', '/auth/email/link', { body }, options),

    /**
     * Replaces the current user's address, after `start` with `purpose: 'change'`: with the code sent to the new address and, if
     * `currentChallengeId` was not null, the one sent to the old address.
     * @throws invalid_code, challenge_expired, already_exists
     */
    change: (body: Body<'/auth/email/change', 'post'>, options?: RequestOptions): Promise<User> =>
      one('post', '/auth/email/change', { body }, options),

    /**
     * Requests the recovery of an account that lost its passkeys, or continues it: after `start` with `purpose: 'recovery'`. When
     * its wait is over, `registration` is for `passkeys.registerVerify`. Scope `auth:write`.
     * @throws invalid_code, challenge_expired, email_recovery_disabled, recovery_not_needed, user_suspended
     */
    recover: (body: Body<'/auth/email/recovery', 'post'>, options?: RequestOptions): Promise<RecoveryStep> =>
      one('post', '/auth/email/recovery', { body }, options),

    /** Cancels the current user's pending recovery, or that of an email's link. @throws not_found, session_missing */
    cancelRecovery: (
      body: Body<'/auth/email/recovery/cancel', 'post'> = {},
      options?: RequestOptions,
    ): Promise<EmailRecovery> => one('post', '/auth/email/recovery/cancel', { body }, options),

    /** Lists recoveries of the current user's account, newest first. */
    recoveries: (query?: Query<'/auth/email/recoveries', 'get'>, options?: RequestOptions): List<EmailRecovery> =>
      list('/auth/email/recoveries', {}, query, options),
  }
}

/** Calls of sign-in and of the current user's sessions. Every method may also throw what any call does: see `HalfkeyError`. */
export function authOf(calls: Calls) {
  const { one, list } = calls
  return {
    passkeys: passkeysOf(calls),
    messenger: messengerOf(calls),
    email: emailOf(calls),
    identities: identitiesOf(calls),
    providers: providersOf(calls),
    wallets: walletsOf(calls),
    sessions: {
      /** Lists the current user's live sessions, newest first. */
      list: (query?: Query<'/auth/sessions', 'get'>, options?: RequestOptions): List<Session> =>
        list('/auth/sessions', {}, query, options),

      /** Ends one of the current user's sessions. @throws not_found */
      end: (id: string, options?: RequestOptions): Promise<Session> =>
        one('delete', '/auth/sessions/{id}', { path: { id } }, options),
    },

    /**
     * Exchanges a refresh token for the next one and a new access token. Store both: using an old refresh token again
     * ends the session. Scope `auth:write`. @throws session_invalid, session_expired, session_revoked
     */
    refresh: (refreshToken: string, options?: RequestOptions): Promise<Tokens> =>
      one('post', '/auth/refresh', { body: { refreshToken } }, options),

    /** Exchanges the code from the hosted sign-in page for a session. Scope `auth:write`. @throws code_invalid, code_expired */
    exchange: (body: Body<'/auth/exchange', 'post'>, options?: RequestOptions): Promise<SignedIn> =>
      one('post', '/auth/exchange', { body }, options),

    /**
     * Signs in with a token (JWT) of an issuer that the app trusts, such as your own login (RFC 8693). Scope `auth:write`.
     * @throws token_invalid, issuer_unavailable, identity_unknown, user_suspended
     */
    exchangeToken: (body: Body<'/auth/token/exchange', 'post'>, options?: RequestOptions): Promise<SignedIn> =>
      one('post', '/auth/token/exchange', { body }, options),

    /**
     * A token (JWT, RS256) that says to others who the current user is. Verify it with the app's `openid.issuer`. Needs the
     * user's access token. @throws guest_not_allowed, stronger_sign_in_required, id_token_claims_too_large
     */
    idToken: (body: Body<'/auth/id-token', 'post'> = {}, options?: RequestOptions): Promise<IdToken> =>
      one('post', '/auth/id-token', { body }, options),

    /** Ends the current session; with `everywhere`, all sessions of the current user. */
    logOut: (body: Body<'/auth/logout', 'post'> = {}, options?: RequestOptions): Promise<LoggedOut> =>
      one('post', '/auth/logout', { body }, options),
  }
}

/** Calls of emails. Every method may also throw what any call does: see `HalfkeyError`. */
export function emailsOf({ list }: Calls) {
  return {
    /** Lists emails that were sent or could not be sent, newest first, without what they say. Scope `emails:read`. */
    list: (query?: Query<'/emails', 'get'>, options?: RequestOptions): List<Email> =>
      list('/emails', {}, query, options),
  }
}
