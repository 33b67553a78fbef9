import type { Remedy } from './remedy.ts'

/** Of wallets, their keys and shares. */
export const WALLET_REMEDIES = {
  user_session_required: {
    means:
      "The call touches a key that is the user's own, in whole or in part: a server that acts by `x-user-id` may not make it.",
    causes: ['Your server creates a `shared` or `self_custody` wallet, or reads shares, for a user.'],
    fix: [
      "Make the call from the user's device with their access token.",
      "For tests and special cases the app can set `mpc.allowServer`, where the call's page says so. Know what it means: your server then stands in for the user.",
    ],
    retry: 'never',
  },
  wallet_not_found: {
    means: 'The user is there and is yours, and has no wallet.',
    causes: ['It was never made: users come without.'],
    fix: ['`POST /v1/users/me/wallet` for this user ([wallets](../wallets.md)).'],
    retry: 'never',
  },
  wallet_exists: {
    means: 'The user has a wallet; there is one for each user.',
    causes: ['A retry without its `Idempotency-Key`.', 'A wallet of another custody is wanted.'],
    fix: [
      'Use the one that is there: `GET /v1/users/me/wallet`.',
      'Custody does not change; another kind needs another user.',
    ],
    retry: 'never',
  },
  wallet_frozen: {
    means: 'The wallet is frozen: nothing is signed for it by its sessions, and its shares stay where they are.',
    causes: [
      '`POST /v1/wallets/:id/freeze`, by your server or the dashboard.',
      'It belongs to a guest whose session has ended: then for good.',
    ],
    fix: ['Find out who froze it (`GET /v1/audit-log`), and `POST /v1/wallets/:id/unfreeze` when that is settled.'],
    retry: 'never',
  },
  wallet_not_ready: {
    means: "The wallet's party is not on its ledger yet.",
    causes: ['The ledger is a network away and has not confirmed the party; `status` is `pending`.'],
    fix: [
      'Wait for the event `wallet.ready`, or look at `status`.',
      'If it is `failed`, the event `wallet.failed` says why.',
    ],
    retry: 'later',
  },
  custody_unsupported: {
    means: 'What was asked for does not exist for this kind of wallet.',
    causes: [
      "Shares or recovery were asked for an `embedded` wallet, whose key is the service's.",
      'A `mode` of recovery that fits another custody.',
    ],
    fix: [
      '`GET /v1/wallets/:id/custody` says what a wallet is. [Wallets](../wallets.md#who-can-sign) says what each kind can do.',
    ],
    retry: 'never',
    detail: {
      field: 'walletId',
      code: 'custody_unsupported',
      message: 'The key of an embedded wallet is not in shares.',
    },
  },
  custody_violation: {
    means:
      'Carrying this out would let the service sign alone, or give out what makes the key together with what else it could open. It refuses, always.',
    causes: [
      'A second share of a shared wallet was to be stored in a form that the service can open, or protected by a password only.',
      'More than `threshold − 1` shares of a key were to lie here.',
    ],
    fix: [
      'Store that share protected by a passkey (`clientCiphertext` with the PRF extension), or outside this service.',
      "Recover by proofs of the user's own shares: [shared keys](../shared-keys.md#when-something-is-lost).",
    ],
    retry: 'never',
    detail: {
      code: 'custody_violation',
      message: 'The service would hold enough shares to sign alone. It must never.',
    },
  },
  share_invalid: {
    means:
      'A share does not lie on the polynomial that the commitments describe, or a proof or partial signature is not made with it. No key was made of it.',
    causes: [
      'A share of another wallet or of an older generation.',
      "A changed byte, or an index that is not the share's.",
      'Commitments of one sharing with shares of another.',
    ],
    fix: [
      "`details[0].indices` names the shares. Take the ones of the wallet's present `generation`.",
      'If a share was lost, reshare with the others.',
    ],
    retry: 'never',
    detail: { field: 'shares', code: 'share_invalid', message: 'These do not fit the commitments.', indices: [2] },
  },
  shares_insufficient: {
    means: 'Fewer shares came than the threshold asks for.',
    causes: ['Only one of two was sent.', 'Two copies of one share: they count once.'],
    fix: [
      'Send shares of different indices, as many as `threshold` says, or use a mode of recovery in which the service adds its own.',
    ],
    retry: 'never',
  },
  seal_invalid: {
    means:
      'What was sealed to the service does not open: it was made for another key, another purpose, or was changed.',
    causes: [
      'The encryption key of `GET /v1/mpc/config` was kept for months: it changes every 60 days, and one counts for 90.',
      'Wallet, generation, index or challenge that it was bound to is another.',
    ],
    fix: [
      'Read `GET /v1/mpc/config` anew and seal again, best with `@halfkey/keys`, which binds what has to be bound.',
    ],
    retry: 'never',
    detail: { field: 'sealed', code: 'seal_invalid', message: 'Does not open.' },
  },
  protocol_violated: {
    means: 'The messages of a key generation contradict each other. No key was made.',
    causes: [
      'The two sides saw different transcripts (`transcript_differs`) or computed different keys (`key_differs`).',
      'Messages of two generations were mixed.',
    ],
    fix: [
      'Begin a new key generation (`POST /v1/mpc/dkg`) and send each message once, unchanged.',
      'If it comes again, what lies between client and service changes messages: find out what.',
    ],
    retry: 'never',
    detail: { field: 'transcriptHash', code: 'transcript_differs', message: 'The two sides saw different messages.' },
  },
  dkg_conflict: {
    means: 'The key generation is at another step than this message belongs to.',
    causes: [
      'The second round was answered already with other content (`already_answered`).',
      'It was confirmed before the second round (`too_early`), or cancelled after it made a wallet (`confirmed`).',
    ],
    fix: [
      'Read where it stands (`GET /v1/mpc/dkg/:id`) and go on from there; repeats of the same message are answered alike.',
    ],
    retry: 'never',
    detail: { code: 'too_early', message: 'The second round comes first.' },
  },
  dkg_expired: {
    means: 'The key generation is over: its time has passed, or it was cancelled. No wallet was made of it.',
    causes: ['The user left between the rounds.', 'A newer one of the same user took its place.'],
    fix: ['Begin another one. The device forgets what it kept of the old.'],
    retry: 'never',
  },
  share_missing: {
    means: 'The service has no share of this key any more, so it cannot do its part.',
    causes: [
      'The share was deleted (`DELETE /v1/mpc/shares/:walletId`).',
      'The wallet was given out and its share destroyed.',
    ],
    fix: [
      "The user's two shares still make the key: sign with them, or reshare with both ([shared keys](../shared-keys.md#when-something-is-lost)).",
    ],
    retry: 'never',
  },
  share_would_be_lost: {
    means: 'After this nobody could open a share that is stored here.',
    causes: [
      'The last passkey that protects the share is to be removed.',
      'All wraps of a share are to be replaced by none.',
    ],
    fix: [
      'Protect the share with another passkey first (`PATCH /v1/mpc/shares/:walletId`), or delete the share knowingly.',
    ],
    retry: 'never',
    detail: { field: 'wraps', code: 'share_would_be_lost', message: 'Nothing could open this share any more.' },
  },
  share_limit: {
    means: 'The wallet has as many stored shares, generations or bytes of ciphertexts as there may be.',
    causes: ['Every sign-in stored a new backup instead of replacing the one that is there.'],
    fix: ['Delete the shares of old generations (`DELETE /v1/mpc/shares/:walletId`), then store the new one.'],
    retry: 'never',
  },
  reshare_expired: {
    means: 'The resharing was not confirmed in time. The shares are those from before, and all of them still work.',
    causes: ['The device did not store the new shares, or the confirmation got lost for long.'],
    fix: ['Forget the new shares and begin again; `reshare` of `@halfkey/keys` does both steps.'],
    retry: 'never',
  },
} as const satisfies Record<string, Remedy>
