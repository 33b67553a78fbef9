import { LedgerError, type LedgerErrorCode } from '../../../platform/ports/ledger.ts'
import { PlaceLost } from '../../../platform/ports/tokens.ts'
import { ParticipantError } from './participant.ts'

// Error codes and categories: docs.digitalasset.com, "Error codes" of Canton.

const CODES: Readonly<Record<string, LedgerErrorCode>> = {
  CONTRACT_NOT_FOUND: 'contract_not_found',
  CONTRACT_NOT_ACTIVE: 'contract_archived',
  LOCAL_VERDICT_INACTIVE_CONTRACTS: 'contract_archived',
  DAML_AUTHORIZATION_ERROR: 'authorization_missing',
  TEMPLATES_OR_INTERFACES_NOT_FOUND: 'template_unknown',
  PACKAGE_NOT_FOUND: 'template_unknown',
  COMMAND_PREPROCESSING_FAILED: 'arguments_invalid',
  INVALID_ARGUMENT: 'arguments_invalid',
  INVALID_FIELD: 'arguments_invalid',
  MISSING_FIELD: 'arguments_invalid',
  INVALID_PRESCRIBED_SYNCHRONIZER_ID: 'ledger_unavailable',
}

/**
 * What may pass: 1 transient, 2 contention, 3 no answer in time, 4 internal error, 5 and 13 a faulty system, 6 and 7 credentials and
 * permissions, which the operator can repair.
 */
const PASSING = new Set([1, 2, 3, 4, 5, 6, 7, 13])

/** The categories in which a verdict on what was sent is final: 8 and 14 the request itself, 9 to 11 the state of the ledger. */
const FINAL = new Set([8, 9, 10, 11, 14])

/** The code of a refusal by its error code id. */
export const ledgerCode = (code: string): LedgerErrorCode => CODES[code] ?? 'prepared_invalid'

/**
 * A participant's error as the port has it. `changesNothing`: the request was a question, so nothing can have happened. Other
 * errors are returned as they are.
 */
export function asLedgerError(error: unknown, { changesNothing }: { changesNothing: boolean }): unknown {
  if (!(error instanceof ParticipantError)) return error
  const { status, code, category, message } = error
  const definite = changesNothing || error.definite || status === 401 || status === 403 || status === 413
  const isFinal = category !== null && FINAL.has(category) && !PASSING.has(category)
  const known = ledgerCode(code)
  const told =
    isFinal && definite && known !== 'ledger_unavailable'
      ? new LedgerError(known, message)
      : new LedgerError('ledger_unavailable', message, { retryable: true, definite })
  return Object.assign(told, { cause: error })
}

/** Asks, with the participant's errors as the port has them. */
export async function asking<T>(ask: () => Promise<T>, changesNothing = true): Promise<T> {
  try {
    return await ask()
  } catch (error) {
    throw asLedgerError(error, { changesNothing })
  }
}

/**
 * Rejections after which the same signed transaction can never happen: a contract that it uses up is gone for good. After any
 * other, such as contention, it may be sent again.
 */
const NEVER = new Set(['LOCAL_VERDICT_INACTIVE_CONTRACTS', 'CONTRACT_NOT_ACTIVE'])

/** The error code id with which Canton begins a status message: `CODE(category,correlation): text`. Empty without one. */
export const codeIn = (message: string): string => /^([A-Z][A-Z0-9_]*)\(/.exec(message)?.[1] ?? ''

export const isNever = (message: string): boolean => NEVER.has(codeIn(message))

/** What came before an offset is not there any more. */
export const PRUNED = 'PARTICIPANT_PRUNED_DATA_ACCESSED'
const LOST = new Set(['OFFSET_AFTER_LEDGER_END', 'OFFSET_OUT_OF_RANGE', PRUNED])

/** Asks for something at an offset. @throws PlaceLost, LedgerError */
export async function askAt<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask()
  } catch (error) {
    if (error instanceof ParticipantError && LOST.has(error.code))
      throw Object.assign(new PlaceLost(error.message), { cause: error })
    throw asLedgerError(error, { changesNothing: true })
  }
}

/** Why the answer was not read though there is one; null for other errors. */
export function unreadIn(error: unknown): 'oversize' | 'timeout' | null {
  const cause = error instanceof LedgerError ? error.cause : error
  return cause instanceof ParticipantError ? cause.unread : null
}
