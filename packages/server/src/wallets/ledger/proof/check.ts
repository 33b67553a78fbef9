import { keyFingerprint } from '../../../platform/ports/party.ts'
import { type ChainEntry, hashEntry, isSignedHead, type LedgerHead } from './chain.ts'
import { LedgerFault, nameOf, type Replay } from './replay.ts'

/** A place in a chain that was noted earlier. */
export interface NotedPlace {
  seq: number
  hash: string
}

/** A ledger that was found to be whole. */
export interface WholeLedger {
  tenantId: string
  updates: number
  /** Updates that are not in the chain yet. */
  pending: number
  /** Contracts that are active. */
  active: number
  /** The chain's end, to be noted elsewhere. Null without updates. */
  head: NotedPlace | null
  /** Fingerprint of the tenant's node key, with which the ids of its parties end. */
  signer: string
}

/** Whom the chain is checked against. */
export interface ChainExpectation {
  tenantId: string
  /** Raw: the tenant's proof key; null if it has none yet. */
  publicKey: Buffer | null
  /** Raw: the tenant's ledger node. */
  nodePublicKey: Buffer
  noted: NotedPlace | null
}

/** Follows the chain of updates that were replayed. */
export interface ChainCheck {
  /** The next entry, by `seq`. @throws LedgerFault */
  take(entry: ChainEntry): void
  /** The chain's end. `isBegun`: whether there must be a head. @throws LedgerFault */
  end(head: LedgerHead | null, isBegun: boolean): WholeLedger
}

const missing = (from: number, to: number, why: string) =>
  new LedgerFault(
    `${from === to ? `entry ${from} of the chain is` : `entries ${from} to ${to} of the chain are`} missing: ${why}.`,
  )

function checkHead({ tenantId, publicKey }: ChainExpectation, last: NotedPlace, head: LedgerHead): void {
  if (publicKey === null || !isSignedHead(publicKey, tenantId, head))
    throw new LedgerFault(
      `The head names entry ${head.seq} as the last one, but its signature is not from the tenant's proof key: it was altered.`,
    )
  if (last.seq < head.seq) throw missing(last.seq + 1, head.seq, `the signed head counts ${head.seq} updates`)
  if (last.seq > head.seq)
    throw new LedgerFault(
      `Entry ${last.seq} of the chain was inserted: by the signed head, ${head.seq} is the last one.`,
    )
  if (last.hash !== head.hash)
    throw new LedgerFault(`Entry ${last.seq} of the chain was altered: the signed head differs.`)
}

/** Starts a check of the chain. */
export function checkChain(expected: ChainExpectation, { updates, contracts }: Replay): ChainCheck {
  const { tenantId, nodePublicKey, noted } = expected
  let last: NotedPlace = { seq: 0, hash: '' }
  const chained = new Set<string>()

  function checkUpdate(entry: ChainEntry): void {
    const offset = updates.get(entry.updateId)
    if (offset === undefined)
      throw new LedgerFault(`${nameOf(entry)} is missing: entry ${entry.seq} of the chain names it.`)
    if (offset !== entry.offset)
      throw new LedgerFault(
        `${nameOf({ ...entry, offset })} was altered: its offset was ${entry.offset} when it was chained.`,
      )
    if (chained.has(entry.updateId)) throw new LedgerFault(`Entry ${entry.seq} of the chain names an update again.`)
    chained.add(entry.updateId)
  }

  return {
    take(entry) {
      if (entry.seq > last.seq + 1) throw missing(last.seq + 1, entry.seq - 1, `entry ${entry.seq} comes next`)
      if (entry.seq < last.seq + 1 || hashEntry(tenantId, last.hash, entry) !== entry.hash)
        throw new LedgerFault(`Entry ${entry.seq} of the chain was altered or inserted: its hash does not match.`)
      if (noted?.seq === entry.seq && noted.hash !== entry.hash)
        throw new LedgerFault(
          `Entry ${entry.seq} of the chain, or one before it, was altered: its hash was ${noted.hash}.`,
        )
      checkUpdate(entry)
      last = { seq: entry.seq, hash: entry.hash }
    },
    end(head, isBegun) {
      if (head !== null) checkHead(expected, last, head)
      else if (last.seq > 0 || isBegun)
        throw new LedgerFault(`No signed head confirms the ${updates.size} updates: it was removed, or no worker runs.`)
      if (noted !== null && noted.seq > last.seq)
        throw missing(last.seq + 1, noted.seq, `the chain reached entry ${noted.seq} when its head was noted`)
      let active = 0
      for (const { archived } of contracts.values()) if (!archived) active += 1
      return {
        tenantId,
        updates: updates.size,
        pending: updates.size - chained.size,
        active,
        head: last.seq === 0 ? null : last,
        signer: keyFingerprint(nodePublicKey),
      }
    },
  }
}
