import { type ErrorTable, failures } from '../platform/http/errors.ts'

/** How many active sessions one wallet may have. */
export const SESSIONS_MAX = 1_000

export const DELEGATED_SESSION_ERRORS = {
  policy_denied: [403, "The session's policy denies this."],
  spend_limit_exceeded: [403, "This would spend more than the session's policy allows."],
  authorization_missing: [403, 'The ledger does not let this wallet do that.'],
  user_session_required: [
    403,
    "This needs the user's own access token; a server can do it in their name only where the app has mpc.allowServer.",
  ],
  wallet_not_found: [404, 'This user has no wallet.'],
  contract_not_found: [404, 'There is no such contract that this wallet sees.'],
  wallet_frozen: [409, 'This wallet is frozen.'],
  wallet_not_ready: [409, 'This wallet is not on its ledger yet.'],
  custody_not_delegable: [409, 'Nobody but its owner signs for this wallet: no session of it can execute by itself.'],
  session_limit_reached: [409, `This wallet has ${SESSIONS_MAX} active sessions, which is as many as there may be.`],
  duplicate_command: [409, 'This commandId was used with other commands.'],
  contract_archived: [409, 'A contract was used up already.'],
  uses_in_flight: [409, 'All uses that are left are taken by transactions whose outcome is open.'],
  signing_request_superseded: [409, 'The key was shared anew since. Execute it again under another commandId.'],
  transaction_settled: [409, 'This transaction waits for no signature.'],
  delegated_session_revoked: [410, 'This delegated session was revoked.'],
  delegated_session_expired: [410, 'This delegated session has expired.'],
  delegated_session_exhausted: [410, 'This delegated session has used up its uses.'],
  prepared_expired: [410, 'This transaction has expired. Execute it again under another commandId.'],
  template_unknown: [400, 'There is no such template on this ledger.'],
  choice_unknown: [400, 'The template has no such choice.'],
  arguments_invalid: [400, 'The arguments do not fit the template.'],
  signature_invalid: [400, 'The signature is not one of the wallet over this digest.'],
  transaction_failed: [409, 'The ledger refused this transaction.'],
  ledger_unavailable: [500, 'The ledger cannot be reached. Try again under the same commandId.'],
} as const satisfies ErrorTable

export const fail = failures(DELEGATED_SESSION_ERRORS)
