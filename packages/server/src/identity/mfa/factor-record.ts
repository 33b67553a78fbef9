import { defineRecord } from '../../platform/security/records/kind.ts'

/**
 * The MAC of a second factor: its secret, which codes it has taken, how many were wrong, and which recovery codes are left. Which
 * version of the row counts, the user's record says.
 */
export const FACTOR_RECORD = defineRecord({
  name: 'second_factor',
  table: 'mfa_factors',
  key: ['user_id'],
  since: 2,
  versioned: true,
  columns: {
    secret_sealed: 'sealed',
    pending_secret_sealed: 'sealed',
    pending_until: 'time',
    last_step: 'bigint',
    failures: 'integer',
    locked_until: 'time',
    enabled_at: 'time',
    recovery_digest: 'bytes',
  },
  notAuthority: {},
  sets: {
    recovery_digest: {
      now: `(
        select sha256(coalesce(string_agg(r.hash, ''::bytea order by r.hash), ''::bytea)) from recovery_codes r
        where r.tenant_id = mfa_factors.tenant_id and r.user_id = mfa_factors.user_id and r.used_at is null)`,
      type: 'bytea',
      since: 2,
    },
  },
})
