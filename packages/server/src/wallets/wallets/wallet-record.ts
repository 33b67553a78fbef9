import { defineRecord } from '../../platform/security/records/kind.ts'

const OF_WALLET = 's.tenant_id = wallets.tenant_id and s.wallet_id = wallets.id'

/** The ids of a wallet's active delegated sessions, in order. */
const SESSIONS = `(
  select coalesce(string_agg(s.id, ' ' order by s.id), '') from delegated_sessions s where ${OF_WALLET} and s.status = 'active')`

/** A session that has ended may still be listed, but none is missing, and none is active that is not listed. */
const SESSIONS_HOLD = `
  wallets.sessions is not null
  and not exists (
    select from delegated_sessions s
    where ${OF_WALLET} and s.status = 'active' and not string_to_array(wallets.sessions, ' ') @> array[s.id::text])
  and not exists (
    select from unnest(string_to_array(wallets.sessions, ' ')) l(id)
    where not exists (select from delegated_sessions s where ${OF_WALLET} and s.id = l.id))`

/** The ids of the entries of a wallet's address book, in order. */
const RECIPIENTS = `(
  select coalesce(string_agg(r.id, ' ' order by r.id), '') from wallet_recipients r
  where r.tenant_id = wallets.tenant_id and r.wallet_id = wallets.id)`

/** The MAC of a wallet: whose it is, who can sign for it, and whether anybody may. */
export const WALLET_RECORD = defineRecord({
  name: 'wallet',
  table: 'wallets',
  key: ['id'],
  versioned: true,
  columns: {
    app_id: 'text',
    user_id: 'text',
    ledger: 'text',
    custody: 'text',
    party_id: 'text',
    address: 'text',
    public_key: 'bytes',
    curve: 'text',
    threshold: 'integer',
    total: 'integer',
    generation: 'integer',
    key_origin: 'text',
    exported_at: 'time',
    status: 'text',
    frozen_at: 'time',
    recovery_tried_at: 'times',
    recovery_strikes: 'integer',
    recovery_after: 'time',
    sessions: 'text',
    budgets: 'json',
    recipients: 'text',
  },
  initial: { budgets: null, sessions: null, recipients: null },
  sets: {
    sessions: { now: SESSIONS, type: 'text', since: 2, holds: SESSIONS_HOLD },
    // A wallet that never had an entry has no list.
    recipients: { now: RECIPIENTS, type: 'text', since: 1, holds: `coalesce(wallets.recipients, '') = ${RECIPIENTS}` },
  },
  notAuthority: {
    onboard_at: 'when the allocation of its party is tried next; what is allocated is checked against party and key',
    onboard_attempts: 'how often that was tried: decides on the pause between two attempts',
    created_at: 'shown only',
    updated_at: 'shown only',
  },
})
