import type { Calls, RequestOptions } from '../http.ts'
import type {
  DeletedKeyShares,
  KeyGeneration,
  KeyShare,
  KeyShares,
  MpcConfig,
  Recovery,
  RecoveryChallenge,
  Wallet,
} from '../models.ts'
import type { Body, Data, Query } from '../operations.ts'

/** Calls of distributed key generation: see `createSharedWallet` of `@halfkey/keys`. */
function keyGenerationOf({ one }: Calls) {
  return {
    /** Begins to generate a key together. @throws wallet_exists, user_session_required, protocol_violated */
    startDkg: (body: Body<'/mpc/dkg', 'post'>, options?: RequestOptions): Promise<KeyGeneration> =>
      one('post', '/mpc/dkg', { body }, options),

    /** Exchanges the parts of the shares. The same again gets the same answer. @throws protocol_violated, share_invalid, dkg_conflict, dkg_expired */
    dkgRound2: (
      id: string,
      body: Body<'/mpc/dkg/{id}/round2', 'post'>,
      options?: RequestOptions,
    ): Promise<Data<'/mpc/dkg/{id}/round2', 'post'>> =>
      one('post', '/mpc/dkg/{id}/round2', { path: { id }, body }, options),

    /** Makes the generated key the user's wallet. @throws share_invalid, protocol_violated, wallet_exists, dkg_expired */
    confirmDkg: (
      id: string,
      body: Body<'/mpc/dkg/{id}/confirm', 'post'>,
      options?: RequestOptions,
    ): Promise<{ wallet: Wallet }> => one('post', '/mpc/dkg/{id}/confirm', { path: { id }, body }, options),

    /** Says how far a key generation is. @throws not_found */
    getDkg: (id: string, options?: RequestOptions): Promise<KeyGeneration> =>
      one('get', '/mpc/dkg/{id}', { path: { id } }, options),

    /** Ends one; what was secret in it is destroyed. @throws not_found, dkg_conflict */
    cancelDkg: (id: string, options?: RequestOptions): Promise<KeyGeneration> =>
      one('delete', '/mpc/dkg/{id}', { path: { id } }, options),
  }
}

/** Calls of recovery: see `reshare` and `releaseKey` of `@halfkey/keys`. */
function recoveryOf({ one }: Calls) {
  return {
    /** Asks for what the proofs and seals of a recovery are bound to; five minutes, one use. @throws not_found (names `walletId`) */
    challenge: (body: Body<'/mpc/challenge', 'post'>, options?: RequestOptions): Promise<RecoveryChallenge> =>
      one('post', '/mpc/challenge', { body }, options),

    /**
     * Has the service's share given out (`release`), the key put together (`combine`) or shared anew (`reshare`, in two
     * steps). What is not of the step is null in the answer. Five tries an hour for a wallet.
     * @throws share_invalid, shares_insufficient, custody_violation, challenge_expired, reshare_expired, mfa_required,
     * reauthentication_required, rate_limited
     */
    recover: (body: Body<'/mpc/recover', 'post'>, options?: RequestOptions): Promise<Recovery> =>
      one('post', '/mpc/recover', { body }, options),
  }
}

/** Calls of key shares, all of the current user. Every method may also throw what any call does: see `HalfkeyError`. */
export function mpcOf(calls: Calls) {
  const { one } = calls
  return {
    /** The service's keys to seal shares to, the newest first. */
    config: (options?: RequestOptions): Promise<MpcConfig> => one('get', '/mpc/config', {}, options),

    /** Stores a share that the service can open, or one that only the user can. @throws share_invalid, custody_violation, already_exists */
    storeShare: (body: Body<'/mpc/shares', 'post'>, options?: RequestOptions): Promise<KeyShare> =>
      one('post', '/mpc/shares', { body }, options),

    /** What is known of a wallet's shares, and what the user sealed of them. @throws not_found, mfa_required, custody_violation */
    getShares: (
      walletId: string,
      query?: Query<'/mpc/shares/{walletId}', 'get'>,
      options?: RequestOptions,
    ): Promise<KeyShares> => one('get', '/mpc/shares/{walletId}', { path: { walletId }, query }, options),

    /** Replaces the passkeys that open a stored share. @throws not_found, share_would_be_lost, mfa_required */
    replaceWraps: (
      walletId: string,
      body: Body<'/mpc/shares/{walletId}', 'patch'>,
      options?: RequestOptions,
    ): Promise<KeyShare> => one('patch', '/mpc/shares/{walletId}', { path: { walletId }, body }, options),

    /** Destroys what is kept of one generation of shares. @throws not_found, mfa_required */
    deleteShares: (
      walletId: string,
      query?: Query<'/mpc/shares/{walletId}', 'delete'>,
      options?: RequestOptions,
    ): Promise<DeletedKeyShares> => one('delete', '/mpc/shares/{walletId}', { path: { walletId }, query }, options),

    ...keyGenerationOf(calls),
    ...recoveryOf(calls),
  }
}
