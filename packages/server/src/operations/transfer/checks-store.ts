import type { Db } from '../../platform/db/db.ts'
import { COUNTER_METRICS } from '../../platform/events/counters.ts'
import { composed, quoted } from '../../platform/security/sealed-values.ts'
import { staged, type Table } from './tables.ts'

/*
 * A service writes only rows that keep to these rules, which no constraint states. Work for all tenants together relies on
 * them: one row that breaks a rule would stop it for everybody.
 */

/** Far beyond any counter of a service, while thousands of them can be added up. */
const COUNT_MAX = 2 ** 48

/** The one column that may hold -infinity: the period of figures of now. */
const TIMELESS = 'usage_meters.period_start'

/** `broken` is a condition on a staged row `t` that breaks the rule; `what` describes it. */
interface Rule {
  table: string
  broken: string
  what: string
}

/** When a column's value is out of bounds; none where its type has no bounds. */
function outOfBounds(table: string, { name, type }: Table['columns'][number]): string[] {
  const value = `t.${quoted(name)}`
  if (type === 'bigint') return [`${value} not between -${COUNT_MAX} and ${COUNT_MAX}`]
  if (type !== 'date' && type !== 'timestamp with time zone') return []
  const exception = `${table}.${name}` === TIMELESS ? ` and ${value} <> '-infinity'` : ''
  return [`(${value} < '1900-01-01' or ${value} >= '10000-01-01')${exception}`]
}

function rulesOf(importId: string, tables: readonly Table[]): Rule[] {
  const of = (table: string) => staged(importId, table)
  return [
    ...tables.flatMap(({ name, columns }) => {
      const odd = columns.flatMap((column) => outOfBounds(name, column))
      return odd.length === 0 ? [] : [{ table: name, broken: odd.join(' or '), what: 'numbers or times out of range' }]
    }),
    {
      table: 'feed',
      broken: `t.seq < 1 or t.seq > coalesce((select max(seq) from ${of('feed_heads')}), 0)`,
      what: 'events beyond the end of the feed',
    },
    {
      table: 'deliveries',
      broken: `exists (select from ${of('deliveries_done')} d where d.webhook_id = t.webhook_id and d.id = t.id)`,
      what: 'deliveries that are both finished and unfinished',
    },
    {
      table: 'deliveries',
      broken: `not exists (select from ${of('lanes')} l where l.id = t.lane_id)`,
      what: 'deliveries in lanes that are not in this export',
    },
    {
      table: 'counter_increments',
      broken: `t.n < 0 or t.metric not in (${COUNTER_METRICS.map((name) => `'${name}'`).join(', ')})`,
      what: 'counts of unknown metrics',
    },
  ]
}

/** The staged rows that break a rule, as `table: what`. */
export async function findBroken(db: Db, importId: string, tables: readonly Table[]): Promise<string[]> {
  const found: string[] = []
  for (const { table, broken, what } of rulesOf(importId, tables)) {
    const row = await db.one(composed(`select 1 from ${staged(importId, table)} t where ${broken} limit 1`))
    if (row !== undefined) found.push(`${table}: ${what}`)
  }
  return found
}

/** The ledgers of staged rows without the known ones. */
export async function findUnknownLedgers(db: Db, importId: string, known: readonly string[]): Promise<string[]> {
  const rows = await db.query<{ ledger: string }>(
    composed(
      `select ledger from ${staged(importId, 'wallets')} where ledger <> all($1)
      union select ledger from ${staged(importId, 'transactions')} where ledger <> all($1) order by 1 limit 5`,
      [known],
    ),
  )
  return rows.map(({ ledger }) => ledger)
}

/** Staged wallets with the key of a wallet here, if either key is shared: a shared key belongs to one wallet. */
export async function findSharedElsewhere(db: Db, importId: string): Promise<string[]> {
  const rows = await db.query<{ id: string }>(
    composed(
      `select s.id from ${staged(importId, 'wallets')} s where s.custody <> 'embedded' and exists (
        select from wallets p where p.public_key = s.public_key and p.custody <> 'embedded' and 'shared' in (p.custody, s.custody))
      limit 5`,
    ),
  )
  return rows.map(({ id }) => `wallets (public_key): ${id}`)
}
