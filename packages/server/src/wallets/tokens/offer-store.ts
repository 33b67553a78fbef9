import { type Db, sql } from '../../platform/db/db.ts'
import { json, matching } from '../../platform/db/rows.ts'
import { type Id, newId } from '../../platform/ids.ts'
import type { Offer } from '../../platform/ports/tokens.ts'
import type { CursorRow, FollowedWallet } from './store.ts'

/** How many offers one statement stores or ends. */
const CHUNK = 500

type Direction = 'incoming' | 'outgoing'

/** `expired`: its time is over, and its contract may still be there. `ended`: it is over, and nobody knows how. */
export type OfferStatus = 'open' | 'accepted' | 'rejected' | 'withdrawn' | 'expired' | 'ended'

/** An offer as the table holds it. */
export interface OfferRow {
  tenant_id: Id<'ten'>
  id: Id<'ofr'>
  wallet_id: Id<'wal'>
  ledger: string
  contract_id: string
  original_id: string
  direction: Direction
  sender: string
  receiver: string
  admin: string
  instrument: string
  /** In its shortest form. */
  amount: string
  requested_at: Date
  execute_before: Date
  awaits: Offer['awaits']
  meta: Record<string, string> | null
  created_at: Date
  status: OfferStatus
  told: OfferStatus | null
  update_id: string | null
  ended_at: Date | null
  archived_at: Date | null
}

/** The same with whose it is, as events name them. */
export type OwnedOffer = OfferRow & Pick<FollowedWallet, 'app_id' | 'user_id' | 'party_id'>

const COLUMNS = sql`o.tenant_id, o.id, o.wallet_id, o.ledger, o.contract_id, o.original_id, o.direction, o.sender, o.receiver, o.admin,
  o.instrument, trim_scale(o.amount)::text as amount, o.requested_at, o.execute_before, o.awaits, o.meta, o.created_at, o.status,
  o.told, o.update_id, o.ended_at, o.archived_at`

/** An offer to be stored, and what is said of it if it is new. */
export interface NewOffer {
  offer: Offer
  status: 'open' | 'expired'
}

/** As the unique index has it: the id of a token can be longer than an entry of an index. */
const HASH_OF_TOKEN = sql`sha256(decode(replace(instrument, '\\', '\\\\'), 'escape'))`

/** Which transfer an offer is a step of, as the unique index has it. */
const transferOf = ({ instrument, originalId, sender, receiver, amount }: Offer): string =>
  JSON.stringify([instrument.admin, originalId, sender, receiver, amount, instrument.id])

/**
 * Stores offers of a wallet that are active. One that was there and goes on by another contract, or was gone and is there again, is
 * open again. What names the same first contract with other parties, or another token or amount, is an offer of its own.
 * @returns those that never were there
 */
export async function putOffers(
  tx: Db,
  ledger: string,
  { tenant_id: tenantId, wallet_id: walletId, party_id: party }: FollowedWallet,
  given: readonly NewOffer[],
): Promise<OfferRow[]> {
  // Two contracts that both say that they are the same transfer are one: a statement takes each row once.
  const offers = [...new Map(given.map((each) => [transferOf(each.offer), each])).values()]
  const made: OfferRow[] = []
  for (let from = 0; from < offers.length; from += CHUNK) {
    const some = offers.slice(from, from + CHUNK)
    const texts = (of: (offer: Offer) => string | null) => some.map(({ offer }) => of(offer))
    const told = some.map(({ status }) => (status === 'open' ? null : status))
    const rows = await tx.query<OfferRow & { is_new: boolean }>(sql`
      insert into token_offers as o (tenant_id, id, wallet_id, ledger, contract_id, original_id, direction, sender, receiver, admin,
        instrument, amount, requested_at, execute_before, awaits, meta, created_at, status, told)
      select ${tenantId}, n.id, ${walletId}, ${ledger}, n.contract_id, n.original_id, n.direction, n.sender, n.receiver, n.admin,
        n.instrument, n.amount::numeric, n.requested_at, n.execute_before, n.awaits, n.meta::json, n.created_at, n.status, n.told
      from unnest(${some.map(() => newId('ofr'))}::text[], ${texts((each) => each.contractId)}::text[],
        ${texts((each) => each.originalId)}::text[],
        ${texts((each) => (each.receiver === party ? 'incoming' : 'outgoing'))}::text[],
        ${texts((each) => each.sender)}::text[], ${texts((each) => each.receiver)}::text[],
        ${texts((each) => each.instrument.admin)}::text[], ${texts((each) => each.instrument.id)}::text[],
        ${texts((each) => each.amount)}::text[], ${texts((each) => each.requestedAt.toISOString())}::timestamptz[],
        ${texts((each) => each.executeBefore.toISOString())}::timestamptz[], ${texts((each) => each.awaits)}::text[],
        ${texts((each) => json(each.meta))}::text[], ${texts((each) => each.createdAt.toISOString())}::timestamptz[],
        ${some.map(({ status }) => status)}::text[], ${told}::text[])
        as n(id, contract_id, original_id, direction, sender, receiver, admin, instrument, amount, requested_at, execute_before,
          awaits, meta, created_at, status, told)
      on conflict (tenant_id, wallet_id, admin, original_id, sender, receiver, amount, ${HASH_OF_TOKEN}) do update set
        contract_id = excluded.contract_id, requested_at = excluded.requested_at, execute_before = excluded.execute_before,
        awaits = excluded.awaits, meta = excluded.meta, status = 'open', update_id = null, ended_at = null, archived_at = null
        where o.contract_id <> excluded.contract_id or o.archived_at is not null
      returning ${COLUMNS}, xmax = 0 as is_new`)
    made.push(...rows.filter((row) => row.is_new))
  }
  return made
}

/**
 * Deletes the offers of a wallet in one direction that are more than `most`. Those that are over go first, then the oldest ones of who made
 * many: a stranger's offers push out the stranger's own. @returns how many
 */
export function dropOffers(
  tx: Db,
  { tenant_id: tenantId, wallet_id: walletId }: FollowedWallet,
  direction: Direction,
  most: number,
): Promise<number> {
  return tx.run(sql`
    delete from token_offers where tenant_id = ${tenantId} and id in (
      select id from (
        select id, archived_at is not null as gone, created_at,
          row_number() over (partition by archived_at is not null, sender order by created_at desc, id desc) as nth
        from token_offers where tenant_id = ${tenantId} and wallet_id = ${walletId} and direction = ${direction}) o
      order by gone, nth, created_at desc, id desc offset ${most})`)
}

/** Which of these contracts are offers that are known, whatever became of them. */
export async function knownOffers(db: Db, ledger: string, contractIds: readonly string[]): Promise<Set<string>> {
  const rows = await db.query<{ contract_id: string }>(sql`
    select contract_id from token_offers where ledger = ${ledger} and contract_id = any(${contractIds}::text[])`)
  return new Set(rows.map((row) => row.contract_id))
}

const OWNED = sql`select ${COLUMNS}, w.app_id, w.user_id, w.party_id
    from token_offers o join wallets w on w.tenant_id = o.tenant_id and w.id = o.wallet_id`

/** The offers of these contracts that are there, locked. */
export function lockByContract(tx: Db, ledger: string, contractIds: readonly string[]): Promise<OwnedOffer[]> {
  return tx.query<OwnedOffer>(sql`${OWNED}
    where o.ledger = ${ledger} and o.contract_id = any(${contractIds}::text[]) and o.archived_at is null
    order by o.tenant_id, o.id for update of o for key share of w`)
}

/** The offers of a wallet that are there, but for those of these contracts, locked. */
export function lockOthers(
  tx: Db,
  { tenant_id: tenantId, wallet_id: walletId }: FollowedWallet,
  contractIds: readonly string[],
): Promise<OwnedOffer[]> {
  return tx.query<OwnedOffer>(sql`${OWNED}
    where o.tenant_id = ${tenantId} and o.wallet_id = ${walletId} and o.archived_at is null
      and not exists (select from unnest(${contractIds}::text[]) as still(id) where still.id = o.contract_id)
    order by o.tenant_id, o.id for update of o for key share of w`)
}

/** Open offers whose time was over at `before`, of wallets of which everything was read, locked. */
export function lockExpired(
  tx: Db,
  { ledger, generation }: CursorRow,
  before: Date,
  limit: number,
): Promise<OwnedOffer[]> {
  return tx.query<OwnedOffer>(sql`${OWNED}
    join token_views v on v.tenant_id = o.tenant_id and v.wallet_id = o.wallet_id and v.kind = 'offers'
    where o.ledger = ${ledger} and o.status = 'open' and o.execute_before < ${before}
      and v.generation = ${generation} and v.problem is null
    order by o.execute_before, o.id limit ${limit} for update of o for key share of w`)
}

/** Stores what became of locked offers. */
export async function setEnded(
  tx: Db,
  rows: readonly Pick<OfferRow, 'tenant_id' | 'id' | 'status' | 'told' | 'update_id' | 'ended_at' | 'archived_at'>[],
): Promise<void> {
  for (let from = 0; from < rows.length; from += CHUNK) {
    const some = rows.slice(from, from + CHUNK)
    const iso = (at: Date | null) => at?.toISOString() ?? null
    await tx.run(sql`
      update token_offers o set status = n.status, told = n.told, update_id = n.update_id, ended_at = n.ended_at,
        archived_at = n.archived_at
      from unnest(${some.map((row) => row.tenant_id)}::text[], ${some.map((row) => row.id)}::text[],
        ${some.map((row) => row.status)}::text[], ${some.map((row) => row.told)}::text[],
        ${some.map((row) => row.update_id)}::text[], ${some.map((row) => iso(row.ended_at))}::timestamptz[],
        ${some.map((row) => iso(row.archived_at))}::timestamptz[])
        as n(tenant_id, id, status, told, update_id, ended_at, archived_at)
      where o.tenant_id = n.tenant_id and o.id = n.id`)
  }
}

/** Deletes what has been gone for long. @returns whether there may be more */
export async function deleteArchivedOffers(db: Db, before: Date): Promise<boolean> {
  const deleted = await db.run(sql`
    delete from token_offers where (tenant_id, id) in (
      select tenant_id, id from token_offers where archived_at < ${before} order by archived_at limit ${CHUNK})`)
  return deleted === CHUNK
}

/** Which offers are listed. Undefined matches everything. */
export interface OfferFilter {
  tenantId: Id<'ten'>
  walletId: Id<'wal'>
  direction: Direction | undefined
  status: OfferStatus | undefined
  admin: string | undefined
  instrument: string | undefined
}

/** Offers before an id, newest first. */
export function pageOfOffers(db: Db, filter: OfferFilter, before: string | null, limit: number): Promise<OfferRow[]> {
  const { tenantId, walletId, direction, status, admin, instrument } = filter
  const rest = before === null ? sql`true` : sql`id < ${before}`
  return db.query<OfferRow>(sql`
    select ${COLUMNS} from token_offers o
    where ${matching({ tenant_id: tenantId, wallet_id: walletId, direction, status, admin, instrument })} and ${rest}
    order by id desc limit ${limit}`)
}

export function findOffer(db: Db, of: Pick<OfferFilter, 'tenantId' | 'walletId'>, id: Id<'ofr'>) {
  return db.one<OfferRow>(sql`
    select ${COLUMNS} from token_offers o where tenant_id = ${of.tenantId} and wallet_id = ${of.walletId} and id = ${id}`)
}
