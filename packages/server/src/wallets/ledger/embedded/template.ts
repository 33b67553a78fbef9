import type { Arguments } from '../../../platform/ports/ledger.ts'
import type { Fields } from './fields.ts'

/** A contract that a choice creates. */
export interface NewContract {
  templateId: string
  arguments: Arguments
}

/** The input of a choice. */
interface Exercise {
  contract: Arguments
  arguments: Arguments
  /** The further contracts that it consumes, in the order of `consumes`. */
  others: readonly Arguments[]
  /** The path of an argument, for errors. */
  path: string
}

/** A choice that can be exercised on a contract. */
export interface Choice {
  fields: Fields
  /** Whether it archives the contract. */
  consuming: boolean
  /** Who must act. */
  controllers(contract: Arguments): string[]
  /** Templates of which it may create or archive contracts. */
  consequences: readonly string[]
  /** Ids of further contracts of the same template that it archives. */
  consumes?(given: Arguments): readonly string[]
  /** Pure: the arguments with defaults, and the created contracts. @throws LedgerError arguments_invalid */
  run(exercise: Exercise): { arguments: Arguments; creates: NewContract[] }
}

/** A kind of contract. Its functions take fields that have been checked. */
export interface Template {
  templateId: string
  /** What the ids of its contracts commit to: the SHA-256 of a declared definition, or the version of a built-in template. */
  definition: string
  fields: Fields
  signatories(contract: Arguments): string[]
  observers(contract: Arguments): string[]
  choices: ReadonlyMap<string, Choice>
}

/** A field that holds one text, a party or an amount. */
export const textOf = (of: Arguments, field: string): string => of[field] as string

/** A field that holds a list, or is absent. */
export const listOf = (of: Arguments, field: string): string[] =>
  Object.hasOwn(of, field) ? (of[field] as string[]) : []
