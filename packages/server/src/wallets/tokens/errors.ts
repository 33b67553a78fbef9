import { type ErrorTable, failures } from '../../platform/http/errors.ts'

export const TOKEN_ERRORS = {
  holdings_unavailable: [409, 'The holdings of this wallet cannot be listed: its ledger is not followed.'],
} as const satisfies ErrorTable

export const fail = failures(TOKEN_ERRORS)
