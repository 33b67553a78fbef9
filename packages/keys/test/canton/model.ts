import { encodeMessage, type Tap } from './protobuf.ts'

/*
 * Prepared transactions as plain objects: names as in the public protobuf definitions, 64-bit numbers as decimal texts, bytes
 * as hexadecimal texts. Written to protobuf by protobuf.ts, hashed a second time by second-opinion.ts, and read by the Python reference.
 */

export interface Id {
  package_id: string
  module_name: string
  entity_name: string
}

export type LfValue =
  | { unit: object }
  | { bool: boolean }
  | { int64: string }
  | { date: number }
  | { timestamp: string }
  | { numeric: string }
  | { party: string }
  | { text: string }
  | { contract_id: string }
  | { optional: { value?: LfValue } }
  | { list: { elements: LfValue[] } }
  | { text_map: { entries: { key: string; value: LfValue }[] } }
  | { gen_map: { entries: { key: LfValue; value: LfValue }[] } }
  | { record: { record_id?: Id; fields: { label: string; value: LfValue }[] } }
  | { variant: { variant_id?: Id; constructor: string; value: LfValue } }
  | { enum: { enum_id?: Id; constructor: string } }

export interface Key {
  key: { template_id: Id; package_name: string; key: LfValue; hash: string }
  maintainers: string[]
}

export interface LfCreate {
  lf_version: string
  contract_id: string
  package_name: string
  template_id: Id
  argument: LfValue
  signatories: string[]
  stakeholders: string[]
  key?: Key
}

export interface LfFetch extends Omit<LfCreate, 'argument'> {
  acting_parties: string[]
  interface_id?: Id
  by_key?: boolean
}

export interface LfExercise extends LfFetch {
  choice_id: string
  chosen_value: LfValue
  consuming: boolean
  children: string[]
  exercise_result?: LfValue
  choice_observers: string[]
  external_call_results?: object[]
}

export interface LfQuery {
  lf_version: string
  package_name: string
  template_id: Id
  exhaustive: boolean
  key: Key
  result: string[]
}

export type LfNode =
  | { create: LfCreate }
  | { fetch: LfFetch }
  | { exercise: LfExercise }
  | { rollback: { children: string[] } }
  | { query_by_key: LfQuery }

export interface LfTransaction {
  version: string
  roots: string[]
  nodes: { node_id: string; v1: LfNode }[]
  node_seeds: { node_id: number; seed: string }[]
}

export interface LfMetadata {
  submitter_info: { act_as: string[]; command_id: string }
  synchronizer_id: string
  mediator_group: number
  transaction_uuid: string
  preparation_time: string
  input_contracts: { v1: LfCreate; created_at: string; event_blob: string }[]
  min_ledger_effective_time?: string
  max_ledger_effective_time?: string
  max_record_time?: string
  global_key_mapping?: object[]
}

export interface Model {
  transaction: LfTransaction
  metadata: LfMetadata
}

/** The bytes that a participant would answer for it. */
export const encodeModel = (model: Model, tap?: Tap): Buffer => encodeMessage('PreparedTransaction', model, tap)
