import type { Db } from '../../../platform/db/db.ts'
import type { Id } from '../../../platform/ids.ts'
import { canonicalJson } from '../../../platform/security/canonical-json.ts'
import { LedgerFault, type Replay, type ReplayedContract } from './replay.ts'
import * as store from './store.ts'

const PORTION = 1_000

const contentOf = ({
  templateId,
  arguments: given,
  signatories,
  observers,
  createdOffset,
}: store.StoredContract | ReplayedContract) =>
  canonicalJson({ templateId, arguments: given, signatories, observers, createdOffset })

function checkContract(row: store.StoredContract, made: ReplayedContract | undefined): void {
  const { contractId, archivedOffset } = row
  if (made === undefined) throw new LedgerFault(`contract ${contractId} was inserted: no update created it.`)
  if (contentOf(row) !== contentOf(made))
    throw new LedgerFault(
      `contract ${contractId} was altered: the update at offset ${made.createdOffset} made another one.`,
    )
  if (archivedOffset === made.archivedOffset) return
  const [now, then] = [archivedOffset, made.archivedOffset].map((at) =>
    at === null ? 'active' : `archived at offset ${at}`,
  )
  throw new LedgerFault(`contract ${contractId} was altered: it is ${now}, but by the updates it is ${then}.`)
}

async function checkContracts(tx: Db, tenantId: Id<'ten'>, { contracts }: Replay): Promise<void> {
  let found = 0
  const seen = new Set<string>()
  for (let after = ''; ; ) {
    const rows = await store.contractsAfter(tx, tenantId, after, PORTION)
    for (const row of rows) {
      checkContract(row, contracts.get(row.contractId))
      seen.add(row.contractId)
    }
    found += rows.length
    if (rows.length < PORTION) break
    after = rows.at(-1)?.contractId as string
  }
  if (found === contracts.size) return
  for (const { contractId, createdOffset } of contracts.values())
    if (!seen.has(contractId))
      throw new LedgerFault(`contract ${contractId} is missing: the update at offset ${createdOffset} created it.`)
}

/** Whom queries show a contract to: the parties of each active one, and nobody else. */
async function checkStakes(tx: Db, tenantId: Id<'ten'>, { contracts }: Replay): Promise<void> {
  const expected = new Set<string>()
  for (const { archived, contractId, templateId, createdOffset, signatories, observers } of contracts.values())
    if (!archived)
      for (const party of [...signatories, ...observers])
        expected.add(JSON.stringify([party, templateId, createdOffset, contractId]))
  for (let after: store.Stake | null = null; ; ) {
    const rows: store.Stake[] = await store.stakesAfter(tx, tenantId, after, PORTION)
    for (const { party, templateId, createdOffset, contractId } of rows)
      if (!expected.delete(JSON.stringify([party, templateId, createdOffset, contractId])))
        throw new LedgerFault(`the stake of ${party} in contract ${contractId} was inserted or altered.`)
    if (rows.length < PORTION) break
    after = rows.at(-1) as store.Stake
  }
  const [first] = expected
  if (first === undefined) return
  const [party, , , contractId] = JSON.parse(first) as [string, string, number, string]
  throw new LedgerFault(`the stake of ${party} in contract ${contractId} is missing.`)
}

/** Checks that the tables which transactions read say what the updates made. @throws LedgerFault */
export async function checkTables(tx: Db, tenantId: Id<'ten'>, replay: Replay): Promise<void> {
  await checkContracts(tx, tenantId, replay)
  await checkStakes(tx, tenantId, replay)
  const lost = await store.findLostTransaction(tx, tenantId)
  if (lost !== undefined)
    throw new LedgerFault(
      `update ${lost.updateId.slice(0, 20)}… is missing: transaction ${lost.id} was answered with it.`,
    )
}
