import { createHash } from 'node:crypto'
import type { Id } from '../../../platform/ids.ts'
import type { Arguments } from '../../../platform/ports/ledger.ts'
import { canonicalJson } from '../../../platform/security/canonical-json.ts'
import type { Template } from './template.ts'

const TAG = 'halfkey/contract-id/v2\0'
const LEGACY_TAG = 'halfkey/contract-id/v1\0'
/** An id of this form commits to the contract's contents. Those of earlier versions begin with `00` and do not. */
const COMMITTED = /^01/

/** A form that an id of a contract can have. */
export const CONTRACT_ID = /^0[01][0-9a-f]{64}$/

/** What the id of a new contract follows from. */
export interface ContractOrigin {
  tenantId: Id<'ten'>
  /** Of its transaction: 32 random bytes as hex. */
  seed: string
  /** Its number among the contracts that the transaction creates, from 0. */
  index: number
}

/**
 * `01` and 64 hex digits: SHA-256 over a tag and the RFC 8785 form of origin, template with its definition, and arguments.
 * Nobody can change a contract in the database and keep its id. Without the seed, nobody can guess the id.
 */
export function contractIdOf(
  { tenantId, seed, index }: ContractOrigin,
  { templateId, definition }: Pick<Template, 'templateId' | 'definition'>,
  contract: Arguments,
): string {
  const committed = { arguments: contract, definition, index, seed, templateId, tenantId }
  return `01${createHash('sha256').update(TAG).update(canonicalJson(committed)).digest('hex')}`
}

/** The id as earlier versions derived it: from the seed and the number alone. */
export function legacyContractIdOf(seed: string, index: number): string {
  const number = Buffer.alloc(4)
  number.writeUInt32BE(index)
  return `00${createHash('sha256').update(LEGACY_TAG).update(seed, 'hex').update(number).digest('hex')}`
}

/** A contract as it was read. */
interface ReadContract {
  contractId: string
  templateId: string
  arguments: Arguments
  signatories: readonly string[]
  observers: readonly string[]
  seed: string | null
  index: number | null
}

/** Who signs a contract and who else sees it, as its template says: both sorted, each party once. */
export function stakeholdersOf(
  template: Template,
  contract: Arguments,
): { signatories: string[]; observers: string[] } {
  const signatories = [...new Set(template.signatories(contract))].sort()
  const observers = [...new Set(template.observers(contract))].filter((party) => !signatories.includes(party)).sort()
  return { signatories, observers }
}

/** A contract in the database is not the one that its id commits to. */
class ContractAlteredError extends Error {}

/**
 * Checks that a contract is what its id commits to, and that its parties are those that follow from its contents. Costs one
 * SHA-256. Contracts with an id of an earlier version are not checked: `halfkey ledger verify` finds what was changed in them.
 * @throws ContractAlteredError
 */
export function requireUnaltered(tenantId: Id<'ten'>, contract: ReadContract, template: Template | undefined): void {
  const { contractId, seed, index } = contract
  if (!COMMITTED.test(contractId)) return
  const fits =
    template !== undefined &&
    seed !== null &&
    index !== null &&
    contractIdOf({ tenantId, seed, index }, template, contract.arguments) === contractId
  const parties = fits ? stakeholdersOf(template, contract.arguments) : undefined
  if (
    parties !== undefined &&
    parties.signatories.join(' ') === contract.signatories.join(' ') &&
    parties.observers.join(' ') === contract.observers.join(' ')
  )
    return
  throw new ContractAlteredError(
    `contract ${contractId} of ${tenantId} or its template was altered in the database. Run: halfkey ledger verify --tenant ${tenantId}`,
  )
}
