import type { Db } from '../../platform/db/db.ts'
import { formatAmount, parseAmount } from '../../platform/ports/amount.ts'
import type { Contract, Ledger } from '../../platform/ports/ledger.ts'
import type { WalletRow } from '../wallets/service.ts'
import type { Holding, ListHoldings, WalletHoldings } from './schema.ts'

const HOLDING = 'Token:Holding'
const BATCH = 500
/** How many contracts are looked at, its own or not: a call must not read without end, whatever others have sent or were sent. */
const LOOKED_MAX = 10_000

const textOf = (contract: Contract, field: string): string => contract.arguments[field] as string

const toHolding = (contract: Contract): Holding => ({
  contractId: contract.contractId,
  instrument: { admin: textOf(contract, 'issuer'), id: textOf(contract, 'symbol') },
  amount: textOf(contract, 'amount'),
  lock: null,
  createdAt: null,
})

/** Whether a holding comes after a place, newest first. */
function isAfter({ createdAtOffset: offset, contractId }: Contract, cursor: string | undefined): boolean {
  if (cursor === undefined) return true
  const [at = '', id = ''] = cursor.split(':')
  return offset < Number(at) || (offset === Number(at) && contractId < id)
}

/** What the wallet's ledger shows of its holdings that are listed, newest first, read in pages. */
async function read(
  db: Db,
  ledger: Ledger,
  { tenant_id: tenantId, party_id: party }: WalletRow,
  isListed: (contract: Contract) => boolean,
) {
  const held: Contract[] = []
  let cursor: string | null = null
  let looked = 0
  do {
    const query = { tenantId, party, templateIds: [HOLDING], accept: null, limit: BATCH, cursor }
    const page: Awaited<ReturnType<Ledger['query']>> = await ledger.query(db, query)
    // The issuer of a holding sees it, too.
    held.push(...page.contracts.filter((each) => textOf(each, 'owner') === party && isListed(each)))
    looked += page.contracts.length
    cursor = page.nextCursor
  } while (cursor !== null && looked < LOOKED_MAX)
  return { held, isAll: cursor === null }
}

function sumsOf(holdings: readonly Holding[]): WalletHoldings['instruments'] {
  const sums = new Map<string, { instrument: Holding['instrument']; units: bigint; holdings: number }>()
  for (const { instrument, amount } of holdings) {
    const key = JSON.stringify([instrument.admin, instrument.id])
    const { units, holdings: count } = sums.get(key) ?? { units: 0n, holdings: 0 }
    sums.set(key, { instrument, units: units + (parseAmount(amount) ?? 0n), holdings: count + 1 })
  }
  return [...sums.entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, { units, ...sum }]) => ({ ...sum, amount: formatAmount(units), locked: '0' }))
}

/** What a wallet holds of the standard token of the embedded ledger, counted as of now. */
export async function countHoldings(
  db: Db,
  ledger: Ledger,
  wallet: WalletRow,
  { admin, instrument, limit, cursor, instrumentsMax }: ListHoldings & { limit: number; instrumentsMax: number },
): Promise<Pick<WalletHoldings, 'asOf' | 'state' | 'instruments' | 'complete' | 'holdings' | 'nextCursor'>> {
  const { held: listed, isAll } = await read(
    db,
    ledger,
    wallet,
    (each) =>
      (admin === undefined || textOf(each, 'issuer') === admin) &&
      (instrument === undefined || textOf(each, 'symbol') === instrument),
  )
  const rest = listed.filter((each) => isAfter(each, cursor))
  const end = rest.length > limit ? rest[limit - 1] : undefined
  const sums = sumsOf(listed.map(toHolding))
  return {
    state: 'current',
    asOf: listed[0] === undefined ? null : { offset: listed[0].createdAtOffset, at: null },
    instruments: sums.slice(0, instrumentsMax),
    complete: isAll && sums.length <= instrumentsMax,
    holdings: rest.slice(0, limit).map(toHolding),
    nextCursor: end === undefined ? null : `${end.createdAtOffset}:${end.contractId}`,
  }
}
