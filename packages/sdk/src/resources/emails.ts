import type { Calls, RequestOptions } from '../http.ts'
import type { Email } from '../models.ts'
import type { Query } from '../operations.ts'
import type { List } from '../paging.ts'

/** Calls of emails. Every method may also throw what any call does: see `HalfkeyError`. */
export function emailsOf({ list }: Calls) {
  return {
    /** Lists emails that were sent or could not be sent, newest first, without what they say. Scope `emails:read`. */
    list: (query?: Query<'/emails', 'get'>, options?: RequestOptions): List<Email> =>
      list('/emails', {}, query, options),
  }
}
