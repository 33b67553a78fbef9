import type pg from 'pg'

/**
 * A table of ours that Citus has spread over servers or copied to them; undefined where all are PostgreSQL's own.
 * Citus lists them in a catalogue that every node has and every role may read. Its schema is named: whoever may create a table or a
 * view elsewhere must not have this statement run what it says.
 */
export async function findDistributed(client: pg.Client): Promise<string | undefined> {
  const { rows: known } = await client.query<{ listed: boolean }>(
    "select to_regclass('pg_catalog.pg_dist_partition') is not null as listed",
  )
  if (known[0]?.listed !== true) return undefined
  const { rows } = await client.query<{ name: string }>(`
    select c.oid::regclass::text as name from pg_catalog.pg_dist_partition p
    join pg_class c on c.oid = p.logicalrelid join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = any(current_schemas(false)) order by 1 limit 1`)
  return rows[0]?.name
}
