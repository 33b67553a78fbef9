import type { Arguments } from '../../../platform/ports/ledger.ts'
import type { Fields } from './fields.ts'

/** A contract that a choice makes. */
export interface NewContract {
  templateId: string
  arguments: Arguments
}

/** What a choice is exercised with. */
interface Exercise {
  contract: Arguments
  arguments: Arguments
  /** The contracts that it consumes beside its own, in the order of `consumes`. */
  others: readonly Arguments[]
  /** Names an argument in a refusal. */
  path: string
}

/** What can be done with a contract. */
export interface Choice {
  fields: Fields
  /** Whether the contract ends with it. */
  consuming: boolean
  /** Who must act. */
  controllers(contract: Arguments): string[]
  /** Templates of which it may create or archive contracts. */
  consequences: readonly string[]
  /** Ids of further contracts of the same template that it archives. */
  consumes?(given: Arguments): readonly string[]
  /** Pure: the arguments with what was left out filled in, and what is created. @throws LedgerError arguments_invalid */
  run(exercise: Exercise): { arguments: Arguments; creates: NewContract[] }
}

/** A kind of contract. Its functions take fields that have been checked. */
export interface Template {
  templateId: string
  fields: Fields
  signatories(contract: Arguments): string[]
  observers(contract: Arguments): string[]
  choices: ReadonlyMap<string, Choice>
}

/** A field that holds one text, a party or an amount. */
export const textOf = (of: Arguments, field: string): string => of[field] as string

/** A field that holds a list, or was left out. */
export const listOf = (of: Arguments, field: string): string[] =>
  Object.hasOwn(of, field) ? (of[field] as string[]) : []
