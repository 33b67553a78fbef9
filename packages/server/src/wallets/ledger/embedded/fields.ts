import { AMOUNT_PATTERN, formatAmount, parseAmount } from '../../../platform/ports/amount.ts'
import { type Arguments, LedgerError } from '../../../platform/ports/ledger.ts'
import { PARTY_PATTERN } from '../../../platform/ports/party.ts'
import { CONTRACT_ID } from './contract-id.ts'

/** What a field of a contract, or an argument of a choice, can hold. */
export type FieldType = 'party' | 'parties' | 'text' | 'symbol' | 'amount' | 'contract_ids'

export interface Field {
  type: FieldType
  optional?: boolean
}

export type Fields = Readonly<Record<string, Field>>

const TEXT_CHARS_MAX = 4_000
const LIST_MAX = 100
const SYMBOL = /^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$/

/** Maximum size of a contract as JSON. Limits what one user can send to the wallet of another, and the size of a page. */
const CONTRACT_BYTES_MAX = 32 * 1024

const EXPECTED: Record<FieldType, string> = {
  party: 'a party: <hint>::1220<64 hex characters>',
  parties: `a list of at most ${LIST_MAX} different parties`,
  text: `text of at most ${TEXT_CHARS_MAX} characters`,
  symbol: 'a symbol of 1 to 32 letters, digits, dots, dashes',
  amount: 'a positive decimal string with at most 28 digits before the point and 10 after it',
  contract_ids: `a list of 1 to ${LIST_MAX} different contract ids`,
}

const isText = (value: unknown, pattern: RegExp): value is string => typeof value === 'string' && pattern.test(value)

function isList(value: unknown, pattern: RegExp): value is string[] {
  return (
    Array.isArray(value) &&
    value.length <= LIST_MAX &&
    new Set(value).size === value.length &&
    value.every((entry) => isText(entry, pattern))
  )
}

/** The value in its canonical form; undefined if it does not match the type. */
function normalised(type: FieldType, value: unknown): string | string[] | undefined {
  switch (type) {
    case 'party':
      return isText(value, PARTY_PATTERN) ? value : undefined
    case 'parties':
      return isList(value, PARTY_PATTERN) ? value : undefined
    case 'text':
      return typeof value === 'string' && value.length <= TEXT_CHARS_MAX ? value : undefined
    case 'symbol':
      return isText(value, SYMBOL) ? value : undefined
    case 'amount': {
      const units = isText(value, AMOUNT_PATTERN) ? parseAmount(value) : null
      return units === null || units === 0n ? undefined : formatAmount(units)
    }
    case 'contract_ids':
      return isList(value, CONTRACT_ID) && value.length > 0 ? value : undefined
  }
}

/**
 * Checks values against the declared fields and normalises them. @throws LedgerError arguments_invalid, naming the
 * field below `path`
 */
export function readArguments(fields: Fields, given: Arguments, path: string): Arguments {
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(fields, name))
      throw new LedgerError('arguments_invalid', `"${name}" is not a known field.`, { field: `${path}.${name}` })
  }
  const read: Arguments = {}
  for (const [name, { type, optional }] of Object.entries(fields)) {
    if (!Object.hasOwn(given, name)) {
      if (optional === true) continue
      throw new LedgerError('arguments_invalid', `"${name}" is required.`, { field: `${path}.${name}` })
    }
    const value = normalised(type, given[name])
    if (value === undefined)
      throw new LedgerError('arguments_invalid', `Must be ${EXPECTED[type]}.`, { field: `${path}.${name}` })
    read[name] = value
  }
  if (Buffer.byteLength(JSON.stringify(read)) > CONTRACT_BYTES_MAX)
    throw new LedgerError('arguments_invalid', `Must be at most ${CONTRACT_BYTES_MAX} bytes as JSON.`, { field: path })
  return read
}
