import { defineRecord } from './kind.ts'

/** The MAC of a challenge: for whom it is, and what its answer is held against. */
export const CHALLENGE_RECORD = defineRecord({
  name: 'challenge',
  table: 'challenges',
  key: ['id'],
  versioned: false,
  columns: { app_id: 'text', kind: 'text', user_id: 'text', data: 'json', expires_at: 'time' },
  notAuthority: { used_at: 'a second use needs the first answer, which is not kept' },
})
