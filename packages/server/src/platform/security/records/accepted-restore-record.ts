import { defineRecord, EVERY_ROW } from './kind.ts'

/** The MAC of an operator's decision that an earlier state of the database is the present one. */
export const ACCEPTED_RESTORE_RECORD = defineRecord({
  name: 'accepted_restore',
  table: 'accepted_restores',
  key: ['id'],
  owner: 'none',
  versioned: false,
  alwaysSealed: EVERY_ROW,
  columns: { epoch: 'bigint', accepted_at: 'time' },
  notAuthority: {},
})
