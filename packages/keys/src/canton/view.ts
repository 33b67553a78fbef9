import type { Bytes } from '../bytes.ts'
import { type HashingScheme, hashOf } from './hash.ts'
import { idText, type Json, jsonOf, timeText } from './json.ts'
import { type Create, type GlobalKey, type Node, type Prepared, readPrepared } from './prepared.ts'

/** What nodes about a contract have in common. Ids of templates are `<package>:<module>:<entity>`. */
interface ContractView {
  readonly contractId: string
  readonly packageName: string
  readonly templateId: string
  readonly signatories: readonly string[]
  /** Stakeholders who are no signatories. */
  readonly observers: readonly string[]
  readonly key?: KeyView
}

export interface KeyView {
  readonly templateId: string
  readonly value: Json
  readonly maintainers: readonly string[]
}

export interface CreateView extends ContractView {
  readonly kind: 'create'
  readonly arguments: Json
}

export interface FetchView extends ContractView {
  readonly kind: 'fetch'
  readonly interfaceId?: string
  readonly actingParties: readonly string[]
}

export interface ExerciseView extends ContractView {
  readonly kind: 'exercise'
  /** The interface whose choice this is; absent for a choice of the template itself. */
  readonly interfaceId?: string
  readonly choice: string
  readonly arguments: Json
  /** Whether it archives the contract. */
  readonly consuming: boolean
  readonly actingParties: readonly string[]
  readonly choiceObservers: readonly string[]
  readonly result?: Json
  readonly children: readonly NodeView[]
}

/** What happened below it is undone, except that contracts were seen. */
export interface RollbackView {
  readonly kind: 'rollback'
  readonly children: readonly NodeView[]
}

export interface QueryView {
  readonly kind: 'query'
  readonly packageName: string
  readonly templateId: string
  readonly key: KeyView
  readonly exhaustive: boolean
  readonly contractIds: readonly string[]
}

export type NodeView = CreateView | FetchView | ExerciseView | RollbackView | QueryView

/** A contract that the transaction uses and does not create: as the preparing participant says that it is. */
export interface InputView extends ContractView {
  readonly arguments: Json
  readonly createdAt: string
}

/** A prepared transaction as a policy can judge it, and the hash that a signature over it signs. */
export interface PreparedView {
  readonly scheme: HashingScheme
  /** 32 bytes: the message of the signature. */
  readonly hash: Bytes
  readonly roots: readonly NodeView[]
  readonly actAs: readonly string[]
  readonly commandId: string
  readonly synchronizerId: string
  readonly transactionUuid: string
  /** Times are ISO 8601 with microseconds. */
  readonly preparedAt: string
  /** The bounds of the ledger time at which the transaction may happen; absent where it does not look at the time. */
  readonly minLedgerTime?: string
  readonly maxLedgerTime?: string
  /** After it the synchronizer refuses the transaction. Signed in V3; in V2 whoever passes the bytes on may change it. */
  readonly maxRecordTime?: string
  readonly inputs: readonly InputView[]
}

/**
 * Reads the bytes that a participant prepared, strictly: what is returned and what is hashed come from one reading, and nothing in the
 * bytes is left out of it, except what the algorithm itself leaves out (docs/ledgers/canton.md).
 *
 * @param bytes the protobuf `PreparedTransaction`, at most 4 MiB
 * @throws CantonError `malformed`, `unsupported`, `too_large`
 */
export function openPrepared(bytes: Uint8Array, scheme: HashingScheme): PreparedView {
  const prepared = readPrepared(bytes)
  const { metadata } = prepared
  const { minLedgerTime, maxLedgerTime, maxRecordTime } = metadata
  return {
    scheme,
    hash: hashOf(prepared, scheme),
    roots: prepared.roots.map((id) => viewOf(prepared, id)),
    actAs: metadata.actAs,
    commandId: metadata.commandId,
    synchronizerId: metadata.synchronizerId,
    transactionUuid: metadata.transactionUuid,
    preparedAt: timeText(metadata.preparationTime),
    ...(minLedgerTime !== undefined && { minLedgerTime: timeText(minLedgerTime) }),
    ...(maxLedgerTime !== undefined && { maxLedgerTime: timeText(maxLedgerTime) }),
    ...(maxRecordTime !== undefined && { maxRecordTime: timeText(maxRecordTime) }),
    inputs: metadata.inputContracts.map(({ create, createdAt }) => ({
      ...contract(create),
      arguments: jsonOf(create.argument),
      createdAt: timeText(createdAt),
    })),
  }
}

/** A transaction's nodes in the order in which they happen: each before what it caused. */
export function* nodesOf(nodes: readonly NodeView[]): Generator<NodeView> {
  const open = [...nodes].reverse()
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    yield node
    if ('children' in node) open.push(...[...node.children].reverse())
  }
}

function viewOf(prepared: Prepared, id: string): NodeView {
  // Reading has made sure that every id has its node.
  const node = prepared.nodes.get(id) as Node
  const children = (ids: readonly string[]) => ids.map((child) => viewOf(prepared, child))
  switch (node.kind) {
    case 'create':
      return { kind: 'create', ...contract(node), arguments: jsonOf(node.argument) }
    case 'fetch':
      return { kind: 'fetch', ...contract(node), ...interfaceOf(node), actingParties: node.actingParties }
    case 'exercise':
      return {
        kind: 'exercise',
        ...contract(node),
        ...interfaceOf(node),
        choice: node.choice,
        arguments: jsonOf(node.chosenValue),
        consuming: node.consuming,
        actingParties: node.actingParties,
        choiceObservers: node.choiceObservers,
        ...(node.result && { result: jsonOf(node.result) }),
        children: children(node.children),
      }
    case 'rollback':
      return { kind: 'rollback', children: children(node.children) }
    case 'queryByKey':
      return {
        kind: 'query',
        packageName: node.packageName,
        templateId: idText(node.templateId),
        key: keyOf(node.key),
        exhaustive: node.exhaustive,
        contractIds: node.result,
      }
  }
}

function contract(
  node: Pick<Create, 'contractId' | 'packageName' | 'templateId' | 'signatories' | 'stakeholders' | 'key'>,
) {
  return {
    contractId: node.contractId,
    packageName: node.packageName,
    templateId: idText(node.templateId),
    signatories: node.signatories,
    observers: node.stakeholders.filter((party) => !node.signatories.includes(party)),
    ...(node.key && { key: keyOf(node.key) }),
  }
}

const interfaceOf = ({ interfaceId }: Extract<Node, { kind: 'fetch' | 'exercise' }>) =>
  interfaceId === undefined ? {} : { interfaceId: idText(interfaceId) }

const keyOf = (key: GlobalKey): KeyView => ({
  templateId: idText(key.templateId),
  value: jsonOf(key.key),
  maintainers: key.maintainers,
})
