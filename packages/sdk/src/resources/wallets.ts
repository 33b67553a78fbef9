import { type Calls, newUuid, type RequestOptions } from '../http.ts'
import type {
  AddressBook,
  Execution,
  Recipient,
  RevokedSessions,
  TransferOffer,
  TransferOffers,
  Wallet,
  WalletBudgets,
  WalletChallenge,
  WalletCustody,
  WalletHoldings,
  WalletOnboarding,
} from '../models.ts'
import type { Body, Query } from '../operations.ts'
import type { List } from '../paging.ts'

/** Calls of the current user's wallet. Every method may also throw what any call does: see `HalfkeyError`. */
export function walletOf({ one }: Calls) {
  return {
    /**
     * Creates the user's only wallet. By default it is `embedded`: the service signs for it. `self_custody` needs the answer
     * to a challenge; for `shared` see `createSharedWallet` of `@halfkey/keys`.
     * @throws wallet_exists, user_session_required, signature_invalid, challenge_expired, not_found (the challenge)
     */
    create: (body: Body<'/users/me/wallet', 'post'> = {}, options?: RequestOptions): Promise<Wallet> =>
      one('post', '/users/me/wallet', { body }, options),

    /** Gets it. @throws wallet_not_found */
    get: (options?: RequestOptions): Promise<Wallet> => one('get', '/users/me/wallet', {}, options),

    /** Gets a message for the user's own key to sign, for `create`; it is valid once, for five minutes. */
    challenge: (body: Body<'/users/me/wallet/challenge', 'post'>, options?: RequestOptions): Promise<WalletChallenge> =>
      one('post', '/users/me/wallet/challenge', { body }, options),
  }
}

type AnswerBody = Body<'/wallets/{id}/transfer-offers/{offerId}/accept', 'post'>

/** Calls that answer offers, with the session's token or, where it has `serverExecute`, with a secret key. */
function answersOf({ one }: Calls) {
  const answer =
    (path: `/wallets/{id}/transfer-offers/{offerId}/${'accept' | 'reject' | 'withdraw'}`) =>
    (id: string, offerId: string, body: AnswerBody, options?: RequestOptions): Promise<Execution> =>
      // With a command id, a repeat after a lost response is the same transaction.
      one('post', path, { path: { id, offerId }, body: { commandId: newUuid(), ...body } }, options)
  return {
    /**
     * Takes the tokens of an incoming offer, by a delegated session whose policy allows it. What it returns and throws, `execute` of
     * `delegatedSessions` does, too. `contractId` is that of the offer as you decided about it.
     * @throws offer_settled, offer_changed, offer_not_yours, offers_unavailable, policy_denied, contract_archived
     */
    acceptOffer: answer('/wallets/{id}/transfer-offers/{offerId}/accept'),

    /** Gives the tokens of an incoming offer back, as `acceptOffer` takes them. */
    rejectOffer: answer('/wallets/{id}/transfer-offers/{offerId}/reject'),

    /** Takes the tokens of an outgoing offer back, as `acceptOffer` takes those of an incoming one. */
    withdrawOffer: answer('/wallets/{id}/transfer-offers/{offerId}/withdraw'),
  }
}

/** Calls of wallets. Every method may also throw what any call does: see `HalfkeyError`. */
export function walletsOf(calls: Calls) {
  const { one, list } = calls
  return {
    ...answersOf(calls),

    /** Lists wallets, newest first, including those of guests. Scope `wallets:read`. */
    list: (query?: Query<'/wallets', 'get'>, options?: RequestOptions): List<Wallet> =>
      list('/wallets', {}, query, options),

    /** Gets a wallet. Scope `wallets:read`. @throws not_found */
    get: (id: string, options?: RequestOptions): Promise<Wallet> =>
      one('get', '/wallets/{id}', { path: { id } }, options),

    /** Gets who can sign with a wallet's key now, according to the records. Scope `wallets:read`. @throws not_found */
    custody: (id: string, options?: RequestOptions): Promise<WalletCustody> =>
      one('get', '/wallets/{id}/custody', { path: { id } }, options),

    /**
     * Lists what a wallet holds: the sum of each token, and a page of the contracts. Scope `wallets:read`.
     * @throws not_found, holdings_unavailable
     */
    holdings: (
      id: string,
      query?: Query<'/wallets/{id}/holdings', 'get'>,
      options?: RequestOptions,
    ): Promise<WalletHoldings> => one('get', '/wallets/{id}/holdings', { path: { id }, query }, options),

    /**
     * Lists the transfers of tokens that were offered to or by a wallet, newest first. Scope `wallets:read`, or the owner's access
     * token. @throws not_found, offers_unavailable
     */
    transferOffers: (
      id: string,
      query?: Query<'/wallets/{id}/transfer-offers', 'get'>,
      options?: RequestOptions,
    ): Promise<TransferOffers> => one('get', '/wallets/{id}/transfer-offers', { path: { id }, query }, options),

    /** Gets one of them, as `transferOffers` lists it. @throws not_found, offers_unavailable */
    transferOffer: (id: string, offerId: string, options?: RequestOptions): Promise<TransferOffer> =>
      one('get', '/wallets/{id}/transfer-offers/{offerId}', { path: { id, offerId } }, options),

    /**
     * Gets how far the party of the user's own wallet is, and what its key has to sign: only on ledgers that are reached over a network.
     * @throws not_found
     */
    onboarding: (id: string, options?: RequestOptions): Promise<WalletOnboarding> =>
      one('get', '/wallets/{id}/onboarding', { path: { id } }, options),

    /**
     * Sends the key's signatures over what `onboarding` says, or, with a shared key, first the commitments to nonces that the
     * service answers with its parts of the signatures. A wallet that is ready is answered as it is.
     * @throws not_found, nothing_to_sign, signature_invalid, user_session_required, wallet_frozen, share_invalid, share_missing
     */
    signOnboarding: (
      id: string,
      body: Body<'/wallets/{id}/onboarding', 'post'>,
      options?: RequestOptions,
    ): Promise<WalletOnboarding> => one('post', '/wallets/{id}/onboarding', { path: { id }, body }, options),

    /** Freezes a wallet: nothing is signed for it until it is unfrozen. Scope `wallets:write`. @throws not_found */
    freeze: (id: string, options?: RequestOptions): Promise<Wallet> =>
      one('post', '/wallets/{id}/freeze', { path: { id } }, options),

    /**
     * Ends every delegated session of the wallet: after this response, nothing is signed for any of them. `inFlight` lists what
     * was signed before and may still happen. Scope `delegated_sessions:write`, or the owner's access token. @throws not_found
     */
    revokeSessions: (id: string, options?: RequestOptions): Promise<RevokedSessions> =>
      one('post', '/wallets/{id}/sessions/revoke-all', { path: { id } }, options),

    /**
     * Gets what all delegated sessions of the wallet together may spend, with what is spent and left of it. Scope `wallets:read`, or
     * the owner's access token. @throws not_found
     */
    budgets: (id: string, options?: RequestOptions): Promise<WalletBudgets> =>
      one('get', '/wallets/{id}/budgets', { path: { id } }, options),

    /**
     * Replaces the wallet's own budgets. Scope `wallets:write`, or the owner's access token; only the owner, with a step-up, raises
     * or removes a budget that they set. @throws budget_of_owner, mfa_required, reauthentication_required, not_found
     */
    setBudgets: (
      id: string,
      body: Body<'/wallets/{id}/budgets', 'put'>,
      options?: RequestOptions,
    ): Promise<WalletBudgets> => one('put', '/wallets/{id}/budgets', { path: { id }, body }, options),

    /**
     * Gets the parties that sessions with the condition `recipients: 'address_book'` may pay. Scope `wallets:read`, or the owner's
     * access token. @throws not_found
     */
    recipients: (id: string, options?: RequestOptions): Promise<AddressBook> =>
      one('get', '/wallets/{id}/recipients', { path: { id } }, options),

    /**
     * Adds a party to the address book. With the owner's access token and a step-up; it counts after the app's cooling-off time.
     * @throws recipient_exists, recipient_limit_reached, mfa_required, reauthentication_required, not_found
     */
    addRecipient: (
      id: string,
      body: Body<'/wallets/{id}/recipients', 'post'>,
      options?: RequestOptions,
    ): Promise<Recipient> => one('post', '/wallets/{id}/recipients', { path: { id }, body }, options),

    /**
     * Removes an entry of the address book: after this response, no session pays the party because of it. Scope `wallets:write`,
     * or the owner's access token. @throws not_found
     */
    removeRecipient: (id: string, recipientId: string, options?: RequestOptions): Promise<Recipient> =>
      one('delete', '/wallets/{id}/recipients/{recipientId}', { path: { id, recipientId } }, options),

    /** Ends a freeze. Scope `wallets:write`. @throws not_found, guest_expired (an ended guest's stays frozen) */
    unfreeze: (id: string, options?: RequestOptions): Promise<Wallet> =>
      one('post', '/wallets/{id}/unfreeze', { path: { id } }, options),
  }
}
