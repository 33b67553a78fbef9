import { defineRecord } from '../../../platform/security/records/kind.ts'

/** The MAC of a trusted issuer: whose word an app takes for who somebody is. */
export const ISSUER_RECORD = defineRecord({
  name: 'issuer',
  table: 'app_issuers',
  key: ['id'],
  versioned: true,
  floor: true,
  columns: {
    app_id: 'text',
    issuer: 'text',
    jwks_uri: 'text',
    discovery: 'text',
    audiences: 'texts',
    algorithms: 'texts',
    claims: 'json',
    jit: 'text',
    max_token_age_seconds: 'integer',
    mfa_claim: 'json',
  },
  notAuthority: { created_at: 'shown only', updated_at: 'shown only' },
})
