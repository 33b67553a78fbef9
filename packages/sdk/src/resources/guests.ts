import type { Calls, RequestOptions } from '../http.ts'
import type { ConvertedGuest, ExpiredGuests, Guest, GuestWithTokens } from '../models.ts'
import type { Body, Query } from '../operations.ts'
import type { List } from '../paging.ts'

/** Calls of guest sessions. Every method may also throw what any call does: see `HalfkeyError`. */
export function guestsOf({ one, list }: Calls) {
  return {
    /** Lists guest sessions, newest first. Scope `guests:read`. */
    list: (query?: Query<'/guests', 'get'>, options?: RequestOptions): List<Guest> =>
      list('/guests', {}, query, options),

    /** Creates a guest session and signs the guest in. Scope `guests:write`. */
    create: (body: Body<'/guests', 'post'> = {}, options?: RequestOptions): Promise<GuestWithTokens> =>
      one('post', '/guests', { body }, options),

    /** Gets a guest session, also an ended one. Scope `guests:read`, or the guest's own access token. @throws not_found */
    get: (id: string, options?: RequestOptions): Promise<Guest> =>
      one('get', '/guests/{id}', { path: { id } }, options),

    /**
     * Converts a guest to a user: id, party and wallet stay the same. Scope `guests:write`, or the guest's own access token.
     * @throws not_found, already_converted, already_exists, guest_expired
     */
    convert: (
      id: string,
      body: Body<'/guests/{id}/convert', 'post'>,
      options?: RequestOptions,
    ): Promise<ConvertedGuest> => one('post', '/guests/{id}/convert', { path: { id }, body }, options),

    /** Ends a guest session. Scope `guests:write`, or the guest's own access token. @throws not_found, already_converted */
    expire: (id: string, options?: RequestOptions): Promise<Guest> =>
      one('delete', '/guests/{id}', { path: { id } }, options),

    /** Ends expired guest sessions, or those older than a given age. Scope `guests:write`. */
    cleanUp: (body: Body<'/guests/cleanup', 'post'> = {}, options?: RequestOptions): Promise<ExpiredGuests> =>
      one('post', '/guests/cleanup', { body }, options),
  }
}
