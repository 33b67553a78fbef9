import { type ErrorTable, failures } from '../platform/http/errors.ts'

/** How many active sessions one wallet may have. */
export const SESSIONS_MAX = 1_000
/** How many entries an address book may have. */
export const RECIPIENTS_MAX = 200

export const DELEGATED_SESSION_ERRORS = {
  policy_denied: [403, "The session's policy does not allow this."],
  spend_limit_exceeded: [403, "This would spend more than the session's policy allows."],
  budget_exceeded: [403, 'This would spend more than a budget of the wallet allows.'],
  budget_of_owner: [403, "Only the wallet's owner can raise or remove a budget that they set."],
  approval_denied: [403, "The wallet's owner or an approver refused this."],
  approver_not_named: [403, 'The policy names other users who have to approve this. You can only refuse it.'],
  authorization_missing: [403, 'The ledger does not authorize this wallet to do that.'],
  user_session_required: [
    403,
    "This call needs the user's own access token. A server can act for them only if the app has mpc.allowServer.",
  ],
  wallet_not_found: [404, 'This user has no wallet.'],
  contract_not_found: [404, 'No contract with this id is visible to this wallet.'],
  wallet_frozen: [409, 'This wallet is frozen. Unfreeze it first: POST /wallets/:id/unfreeze.'],
  wallet_not_ready: [409, 'This wallet is not on its ledger yet. Wait for the event wallet.ready, then try again.'],
  custody_not_delegable: [
    409,
    'The service cannot sign alone for this wallet, so its sessions cannot have serverExecute. Omit the field.',
  ],
  session_limit_reached: [
    409,
    `This wallet has ${SESSIONS_MAX} active sessions, which is the limit. Revoke one first.`,
  ],
  recipient_exists: [409, 'The address book has this party already. To give it another label, remove it first.'],
  recipient_limit_reached: [
    409,
    `The address book has ${RECIPIENTS_MAX} entries, which is the limit. Remove one first.`,
  ],
  approval_pending: [409, 'An earlier request by the same rule is not decided yet. Repeat that one, or wait.'],
  approval_limit_reached: [
    409,
    'This wallet asked for approval too often. Wait until its requests are decided, or an hour.',
  ],
  approval_decided: [409, 'This approval was decided before.'],
  approval_outdated: [409, 'The transaction would no longer do what the approval says. Nothing was done.'],
  approvals_unavailable: [
    409,
    'Approvals work only for embedded wallets on a ledger in the database of the service. Remove `requireApproval`, and conditions with `require_approval`, from the policy.',
  ],
  simulation_unavailable: [409, 'Only wallets on a ledger in the database of the service can be simulated.'],
  duplicate_command: [409, 'This commandId was already used with other commands. Use another one.'],
  contract_archived: [409, 'A contract was already used up. Query the contracts again.'],
  uses_in_flight: [409, 'Transactions in progress hold all remaining uses. Try again when they have finished.'],
  signing_request_superseded: [
    409,
    'The key was reshared after this signature was started. Execute again with another commandId.',
  ],
  transaction_settled: [
    409,
    'This transaction no longer waits for a signature. Read its status with GET /transactions/:id.',
  ],
  delegated_session_revoked: [410, 'This delegated session was revoked.'],
  delegated_session_expired: [410, 'This delegated session has expired.'],
  delegated_session_exhausted: [410, 'This delegated session has no uses left.'],
  approval_expired: [410, 'It was not approved in time. Execute again with another commandId.'],
  approval_canceled: [410, 'The session ended before this was decided.'],
  prepared_expired: [410, 'This transaction has expired. Execute again with another commandId.'],
  template_unknown: [400, 'This ledger has no template with this id.'],
  choice_unknown: [400, 'The template has no choice with this name.'],
  arguments_invalid: [400, 'The arguments do not match the template.'],
  signature_invalid: [400, "The signature is not a valid signature of this digest by the wallet's key."],
  transaction_failed: [409, 'The ledger refused this transaction. Execute again with another commandId.'],
  ledger_unavailable: [500, 'The ledger cannot be reached. Try again with the same commandId.'],
} as const satisfies ErrorTable

export const fail = failures(DELEGATED_SESSION_ERRORS)

/** How a session can have ended. */
export const ENDED = ['delegated_session_revoked', 'delegated_session_expired', 'delegated_session_exhausted'] as const

/** Why a session's commands are not executed. */
export const EXECUTE_REFUSALS = [
  ...ENDED,
  'policy_denied',
  'spend_limit_exceeded',
  'budget_exceeded',
  'approval_denied',
  'approval_pending',
  'approval_limit_reached',
  'approval_outdated',
  'approval_expired',
  'approval_canceled',
  'authorization_missing',
  'template_unknown',
  'choice_unknown',
  'arguments_invalid',
  'signature_invalid',
  'contract_not_found',
  'contract_archived',
  'duplicate_command',
  'uses_in_flight',
  'transaction_settled',
  'signing_request_superseded',
  'share_invalid',
  'share_missing',
  'transaction_failed',
  'prepared_expired',
  'wallet_frozen',
  'wallet_not_ready',
  'user_suspended',
  'guest_expired',
  'quota_exceeded',
  'ledger_unavailable',
] as const
