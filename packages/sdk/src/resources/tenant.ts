import type { Calls, RequestOptions } from '../http.ts'
import type { Member, MemberSignIn, MemberWithLink, Tenant } from '../models.ts'
import type { Body, Query } from '../operations.ts'
import type { List } from '../paging.ts'

/** Calls of the key's tenant. Every method may also throw what any call does: see `HalfkeyError`. */
export function tenantOf({ one }: Calls) {
  return {
    /** Gets the tenant. Scope `tenant:read`. */
    get: (options?: RequestOptions): Promise<Tenant> => one('get', '/tenant', {}, options),

    /** Changes the given name and settings. Scope `tenant:write`, tenant-wide. @throws not_found (the default app) */
    update: (body: Body<'/tenant', 'patch'>, options?: RequestOptions): Promise<Tenant> =>
      one('patch', '/tenant', { body }, options),
  }
}

/** Calls of members, by tenant-wide keys. Every method may also throw what any call does: see `HalfkeyError`. */
export function membersOf({ one, list }: Calls) {
  return {
    /** Lists members, newest first, including removed ones. Scope `members:read`. */
    list: (query?: Query<'/members', 'get'>, options?: RequestOptions): List<Member> =>
      list('/members', {}, query, options),

    /**
     * Invites somebody. `link` is in this response only; it signs them in once, within 7 days. It is null with `delivery: 'email'`, where
     * Halfkey mails it to them. Scope `members:write`.
     * @throws insufficient_scope, not_found (an app), already_exists, member_limit, member_email_not_configured
     */
    invite: (body: Body<'/members', 'post'>, options?: RequestOptions): Promise<MemberWithLink> =>
      one('post', '/members', { body }, options),

    /** Gets a member. Scope `members:read`. @throws not_found */
    get: (id: string, options?: RequestOptions): Promise<Member> =>
      one('get', '/members/{id}', { path: { id } }, options),

    /**
     * Changes a member's name, role or apps, at once. Scope `members:write`.
     * @throws not_found, insufficient_scope, member_removed, last_owner
     */
    update: (id: string, body: Body<'/members/{id}', 'patch'>, options?: RequestOptions): Promise<Member> =>
      one('patch', '/members/{id}', { path: { id }, body }, options),

    /** Gets how members sign in to the dashboard, beside passkeys. Scope `members:read`. */
    getSignIn: (options?: RequestOptions): Promise<MemberSignIn> => one('get', '/member-sign-in', {}, options),

    /** Changes how members sign in. For owners in the dashboard: a key does not. @throws insufficient_scope, member_email_not_configured */
    updateSignIn: (body: Body<'/member-sign-in', 'patch'>, options?: RequestOptions): Promise<MemberSignIn> =>
      one('patch', '/member-sign-in', { body }, options),

    /** Removes a member and ends their sessions at once. Scope `members:write`. @throws not_found, insufficient_scope, last_owner */
    remove: (id: string, options?: RequestOptions): Promise<Member> =>
      one('delete', '/members/{id}', { path: { id } }, options),

    /**
     * Makes a new invitation for somebody who has not signed in yet; with `delivery: 'email'` mails it to them. Scope `members:write`.
     * @throws not_found, member_removed, member_email_not_configured
     */
    createLink: (
      id: string,
      body: Body<'/members/{id}/link', 'post'> = {},
      options?: RequestOptions,
    ): Promise<MemberWithLink> => one('post', '/members/{id}/link', { path: { id }, body }, options),
  }
}
