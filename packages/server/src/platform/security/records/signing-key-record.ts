import { defineRecord } from './kind.ts'

/**
 * The MAC of a token-signing key. A sealed value alone could be made by somebody who knows the data key of any other: see
 * `wrapKey`.
 */
export const SIGNING_KEY_RECORD = defineRecord({
  name: 'signing_key',
  table: 'signing_keys',
  key: ['id'],
  owner: 'none',
  versioned: true,
  floor: true,
  columns: {
    private_key_sealed: 'sealed',
    remote_public_key: 'bytes',
    refresh_secret_sealed: 'sealed',
    created_at: 'time',
    retires_at: 'time',
    revoked_at: 'time',
  },
  initial: { remote_public_key: null },
  // Such a row says itself which tokens it verifies: nothing that it seals would contradict it.
  alwaysSealed: { rows: 'private_key_sealed is null', holds: (row) => row.private_key_sealed === null },
  notAuthority: { public_key: 'never read: it is derived from the private key' },
})
