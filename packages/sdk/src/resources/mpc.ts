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
import { requireTrust, type ServiceTrust, verified } from '../trust/service-pin.ts'

/** Calls of distributed key generation: see `createSharedWallet` of `@halfkey/keys`. */
function keyGenerationOf({ one }: Calls) {
  return {
    /** Starts a distributed key generation. @throws wallet_exists, user_session_required, protocol_violated */
    startDkg: (body: Body<'/mpc/dkg', 'post'>, options?: RequestOptions): Promise<KeyGeneration> =>
      one('post', '/mpc/dkg', { body }, options),

    /** Exchanges the subshares. A repeat gets the same response. @throws protocol_violated, share_invalid, dkg_conflict, dkg_expired */
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

    /** Gets the state of a key generation. @throws not_found */
    getDkg: (id: string, options?: RequestOptions): Promise<KeyGeneration> =>
      one('get', '/mpc/dkg/{id}', { path: { id } }, options),

    /** Cancels a key generation; its secrets are destroyed. @throws not_found, dkg_conflict */
    cancelDkg: (id: string, options?: RequestOptions): Promise<KeyGeneration> =>
      one('delete', '/mpc/dkg/{id}', { path: { id } }, options),
  }
}

/** Calls of recovery: see `reshare` and `releaseKey` of `@halfkey/keys`. */
function recoveryOf({ one }: Calls) {
  return {
    /** Gets a challenge that the proofs and seals of a recovery are bound to; valid once, for five minutes. @throws not_found (names `walletId`) */
    challenge: (body: Body<'/mpc/challenge', 'post'>, options?: RequestOptions): Promise<RecoveryChallenge> =>
      one('post', '/mpc/challenge', { body }, options),

    /**
     * Releases the service's share (`release`), combines the shares to the key (`combine`) or reshares it (`reshare`, in two
     * steps). Fields of other steps are null in the response. Five attempts per hour and wallet.
     * @throws share_invalid, shares_insufficient, custody_violation, challenge_expired, reshare_expired, mfa_required,
     * reauthentication_required, rate_limited
     */
    recover: (body: Body<'/mpc/recover', 'post'>, options?: RequestOptions): Promise<Recovery> =>
      one('post', '/mpc/recover', { body }, options),
  }
}

/** Calls of key shares, all of the current user. Every method may also throw what any call does: see `HalfkeyError`. */
export function mpcOf(calls: Calls, trust: ServiceTrust) {
  const { one } = calls
  return {
    /** By what the service is recognised. With `trustOnFirstUse`, `pin` is set at the first call: keep it for the next client. */
    trust,

    /**
     * Gets the service's keys to seal shares to, newest first, if they are signed by the pinned service and have not expired.
     * @throws pin_required (without a call), service_unverified
     */
    async config(options?: RequestOptions): Promise<MpcConfig> {
      requireTrust(trust)
      return verified(await one('get', '/mpc/config', {}, options), trust)
    },

    /** Stores a share, either for the service to open or for the user only. @throws share_invalid, custody_violation, already_exists */
    storeShare: (body: Body<'/mpc/shares', 'post'>, options?: RequestOptions): Promise<KeyShare> =>
      one('post', '/mpc/shares', { body }, options),

    /** Gets the records of a wallet's shares, and the ciphertexts that the user stored. @throws not_found, mfa_required, custody_violation */
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

    /** Destroys the stored shares of one generation. @throws not_found, mfa_required */
    deleteShares: (
      walletId: string,
      query?: Query<'/mpc/shares/{walletId}', 'delete'>,
      options?: RequestOptions,
    ): Promise<DeletedKeyShares> => one('delete', '/mpc/shares/{walletId}', { path: { walletId }, query }, options),

    ...keyGenerationOf(calls),
    ...recoveryOf(calls),
  }
}
