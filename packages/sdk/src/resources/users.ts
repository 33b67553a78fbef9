import type { Calls, RequestOptions } from '../http.ts'
import type { EmailRecovery, Identity, Passkey, Session, User, UsersBulk, Wallet } from '../models.ts'
import type { Body, Query } from '../operations.ts'
import type { List } from '../paging.ts'

/** Calls of users. Every method may also throw what any call does: see `HalfkeyError`. */
export function usersOf({ one, list }: Calls) {
  return {
    /**
     * Lists users, by default newest first; sorted by `email` or `externalId`, those without one come last. `search` is
     * a literal part of email, name, external id, party or id, in any case. Scope `users:read`.
     */
    list: (query?: Query<'/users', 'get'>, options?: RequestOptions): List<User> => list('/users', {}, query, options),

    /** Creates a user, by default in the key's app or the default app. Scope `users:write`. @throws already_exists */
    create: (body: Body<'/users', 'post'> = {}, options?: RequestOptions): Promise<User> =>
      one('post', '/users', { body }, options),

    /** Gets a user. Scope `users:read`. @throws not_found */
    get: (id: string, options?: RequestOptions): Promise<User> => one('get', '/users/{id}', { path: { id } }, options),

    /** Gets the current user: the one whose access token the client has, or of `userId`. @throws session_missing */
    me: (options?: RequestOptions): Promise<User> => one('get', '/users/me', {}, options),

    /** Changes the given fields; null clears a field, metadata is merged by key. Scope `users:write`. @throws not_found, already_exists */
    update: (id: string, body: Body<'/users/{id}', 'patch'>, options?: RequestOptions): Promise<User> =>
      one('patch', '/users/{id}', { path: { id }, body }, options),

    /** Lists a user's live sessions, newest first; `status: 'ended'` lists those of the last 30 days that have ended. Scope `users:read`. @throws not_found */
    sessions: (id: string, query?: Query<'/users/{id}/sessions', 'get'>, options?: RequestOptions): List<Session> =>
      list('/users/{id}/sessions', { path: { id } }, query, options),

    /** Lists a user's identities: accounts elsewhere that sign them in. Newest first. Scope `users:read`. @throws not_found */
    identities: (
      id: string,
      query?: Query<'/users/{id}/identities', 'get'>,
      options?: RequestOptions,
    ): List<Identity> => list('/users/{id}/identities', { path: { id } }, query, options),

    /** Lists recoveries of a user's account by email, newest first. Scope `users:read`. @throws not_found */
    recoveries: (
      id: string,
      query?: Query<'/users/{id}/recoveries', 'get'>,
      options?: RequestOptions,
    ): List<EmailRecovery> => list('/users/{id}/recoveries', { path: { id } }, query, options),

    /** Lists a user's passkeys, newest first. Scope `users:read`. @throws not_found */
    passkeys: (id: string, query?: Query<'/users/{id}/passkeys', 'get'>, options?: RequestOptions): List<Passkey> =>
      list('/users/{id}/passkeys', { path: { id } }, query, options),

    /** Gets the wallet of a user, or of a guest. Scope `wallets:read`. @throws not_found, wallet_not_found */
    wallet: (id: string, options?: RequestOptions): Promise<Wallet> =>
      one('get', '/users/{id}/wallet', { path: { id } }, options),

    /**
     * Deletes a user and returns the record's final state. Scope `users:write`. A repeat after a lost response gets
     * `not_found`. @throws not_found
     */
    delete: (id: string, options?: RequestOptions): Promise<User> =>
      one('delete', '/users/{id}', { path: { id } }, options),

    /** Up to 1000 users at once, by a job of the server. */
    bulk: {
      /** Starts a job that suspends, activates or deletes users, or ends their sessions. Scope `users:write`. */
      start: (body: Body<'/users/bulk', 'post'>, options?: RequestOptions): Promise<UsersBulk> =>
        one('post', '/users/bulk', { body }, options),

      /** Gets a job: how many users are done, and for whom it failed. Scope `users:read`. @throws not_found */
      get: (id: string, options?: RequestOptions): Promise<UsersBulk> =>
        one('get', '/users/bulk/{id}', { path: { id } }, options),
    },
  }
}
