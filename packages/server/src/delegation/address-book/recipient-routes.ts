import { currentUser, eitherKey, IdParam, one, type Route, route } from '../../platform/http/route.ts'
import { addRecipient, getAddressBook, removeRecipient } from './manage.ts'
import { AddRecipient, AddressBook, Recipient, RecipientParams } from './recipient-schema.ts'

/** Whom a wallet's sessions may pay, where their policy says so. */
export const recipientRoutes: Route[] = [
  route(
    'GET /wallets/:id/recipients',
    {
      summary: "Get a wallet's address book",
      description:
        "The parties that delegated sessions with the condition `recipients: 'address_book'` may pay. For the wallet's owner, and for a server.",
      callers: eitherKey('wallets:read', 'optional'),
      params: IdParam,
      reply: one(AddressBook),
      extension: true,
    },
    (deps, { caller, origin, user, params }) => getAddressBook(deps, { caller, origin, user }, params.id),
  ),
  route(
    'POST /wallets/:id/recipients',
    {
      summary: "Add to a wallet's address book",
      description:
        "For the wallet's owner, with their access token and a step-up. The entry counts after a cooling-off time: 24 hours, unless the app's `addressBook.coolingOffSeconds` says otherwise. An address book has at most 200 entries. Emits `recipient.added`.",
      callers: currentUser(),
      params: IdParam,
      body: AddRecipient,
      reply: one(Recipient),
      status: 201,
      errors: [
        'session_missing',
        'recipient_exists',
        'recipient_limit_reached',
        'mfa_required',
        'mfa_enrollment_required',
        'reauthentication_required',
        'user_session_required',
        'stronger_sign_in_required',
      ],
      extension: true,
    },
    (deps, { caller, origin, user, params, body }) => addRecipient(deps, { caller, origin, user }, params.id, body),
  ),
  route(
    'DELETE /wallets/:id/recipients/:recipientId',
    {
      summary: "Remove from a wallet's address book",
      description:
        "For the wallet's owner, and for a server. After the response, no delegated session pays the party because of this entry. Emits `recipient.removed`.",
      callers: eitherKey('wallets:write', 'optional'),
      params: RecipientParams,
      reply: one(Recipient),
      extension: true,
    },
    (deps, { caller, origin, user, params }) =>
      removeRecipient(deps, { caller, origin, user }, params.id, params.recipientId),
  ),
]
