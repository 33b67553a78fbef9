import { defineRecord } from '../../../platform/security/records/kind.ts'

/** The MAC of a declared template: what its contracts do, and who may make them do it. It is never changed. */
export const TEMPLATE_RECORD = defineRecord({
  name: 'template',
  table: 'ledger_templates',
  key: ['template_id'],
  since: 2,
  versioned: false,
  columns: { definition: 'json' },
  notAuthority: { created_at: 'shown only' },
})
