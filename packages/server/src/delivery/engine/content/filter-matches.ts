import { LRUCache } from 'lru-cache'
import { type Db, sql } from '../../../platform/db/db.ts'
import { compileFilter, type EventFilter } from '../../../platform/events/event-filter.ts'
import { column, type Match } from '../write-deliveries.ts'

/** The text of the filters that stay compiled. */
const CACHED_CHARS_MAX = 8 * 1024 * 1024
/** The bodies that a batch parses, in equal shares of its tenants. The first one of a tenant is parsed whatever its size. */
const BODY_BYTES_A_BATCH = 1024 * 1024
/** How long filters are applied before other work of the process gets a turn. */
const SLICE_MS = 5

/** A webhook of an event, before its filter was applied. */
export interface Candidate extends Match {
  /** Counts the changes of the webhook's filter; null without a filter. */
  filter_version: number | null
}

/** An event with some of its webhooks, by id. */
interface Candidates {
  matches: readonly Candidate[]
}

/** Every event. */
const ALL: EventFilter = { matches: () => true, whyNot: () => null }

const keyOf = ({ tenant_id, event_id, webhook_id }: Candidate, part: 'event' | 'webhook') =>
  `${tenant_id} ${part === 'event' ? event_id : webhook_id}`

/** The first of these for each key. */
const distinct = (candidates: readonly Candidate[], part: 'event' | 'webhook'): Candidate[] => [
  ...new Map(candidates.map((candidate) => [keyOf(candidate, part), candidate])).values(),
]

/** The bodies of each tenant's first events, as many as a batch parses; null for an event that no longer exists. */
async function readBodies(tx: Db, filtered: readonly Candidate[]): Promise<ReadonlyMap<string, string | null>> {
  const events = distinct(filtered, 'event')
  const share = BODY_BYTES_A_BATCH / new Set(column(events, 'tenant_id')).size
  const rows = await tx.query<{ key: string; body: string | null }>(sql`
    select key, body from (
      select t.tenant_id || ' ' || t.event_id as key, e.body,
        sum(coalesce(octet_length(e.body), 0)) over (partition by t.tenant_id order by t.position)
          - coalesce(octet_length(e.body), 0) as before
      from unnest(${column(events, 'tenant_id')}::text[], ${column(events, 'event_id')}::text[]) with ordinality
        as t(tenant_id, event_id, position)
      left join events e on e.tenant_id = t.tenant_id and e.id = t.event_id) b
    where before < ${share}::float8`)
  return new Map(rows.map(({ key, body }) => [key, body]))
}

interface FilterRow {
  tenant_id: string
  id: string
  filter_version: number
  filter: string | null
}

/** Filters as they are now, which may be newer than what the candidates say. */
function readFilters(tx: Db, webhooks: readonly Candidate[]): Promise<FilterRow[]> {
  return tx.query<FilterRow>(sql`
    select tenant_id, id, filter_version, filter::text as filter from webhooks
    where (tenant_id, id) in (
      select * from unnest(${column(webhooks, 'tenant_id')}::text[], ${column(webhooks, 'webhook_id')}::text[]))`)
}

/** A filter that cannot be read, which only a restored or imported row can have, lets every event through: none is lost. */
function compiled(text: string | null): EventFilter {
  try {
    return text === null ? ALL : compileFilter(JSON.parse(text))
  } catch {
    return ALL
  }
}

function parsed(body: string | null | undefined): unknown {
  try {
    return JSON.parse(body ?? 'null')
  } catch {
    return null
  }
}

/** Lets the process do other work whenever `SLICE_MS` have passed. */
function createSlices() {
  let startedAt = performance.now()
  return async function turn(): Promise<void> {
    if (performance.now() - startedAt < SLICE_MS) return
    await new Promise((resolve) => setImmediate(resolve))
    startedAt = performance.now()
  }
}

/**
 * Applies the filters of webhooks. Each version of a filter is compiled once per process, each event is parsed once per
 * batch, and only if one of its webhooks has a filter.
 */
export function createFilters() {
  const cache = new LRUCache<string, EventFilter>({ maxSize: CACHED_CHARS_MAX })

  /** The filter of each webhook, by `keyOf`. Those that are not cached are compiled when they are first called for. */
  async function filtersOf(tx: Db, filtered: readonly Candidate[]): Promise<(webhook: Candidate) => EventFilter> {
    const webhooks = distinct(filtered, 'webhook')
    const versionKey = (key: string, version: number | null) => `${key} ${version}`
    const known = new Map<string, EventFilter>()
    const unknown: Candidate[] = []
    for (const webhook of webhooks) {
      const key = keyOf(webhook, 'webhook')
      const filter = cache.get(versionKey(key, webhook.filter_version))
      if (filter === undefined) unknown.push(webhook)
      else known.set(key, filter)
    }
    const rows = unknown.length === 0 ? [] : await readFilters(tx, unknown)
    const read = new Map(rows.map((row) => [`${row.tenant_id} ${row.id}`, row]))
    return (webhook) => {
      const key = keyOf(webhook, 'webhook')
      const before = known.get(key)
      if (before !== undefined) return before
      const row = read.get(key)
      const filter = compiled(row?.filter ?? null)
      known.set(key, filter)
      if (row?.filter != null) cache.set(versionKey(key, row.filter_version), filter, { size: row.filter.length })
      return filter
    }
  }

  /**
   * The events with the webhooks that get them. Events are missing if the bodies of all would be too much for one batch;
   * the first one of each tenant never is.
   */
  return async function filtered<T extends Candidates>(tx: Db, events: readonly T[]): Promise<T[]> {
    const withFilter = events.flatMap(({ matches }) => matches.filter((match) => match.filter_version !== null))
    if (withFilter.length === 0) return [...events]
    const bodies = await readBodies(tx, withFilter)
    const filterOf = await filtersOf(tx, withFilter)
    const turn = createSlices()
    const kept: T[] = []
    for (const each of events) {
      const first = each.matches.find((match) => match.filter_version !== null)
      if (first === undefined) {
        kept.push(each)
        continue
      }
      if (!bodies.has(keyOf(first, 'event'))) continue
      const event = parsed(bodies.get(keyOf(first, 'event')))
      const matches: Candidate[] = []
      for (const match of each.matches) {
        if (match.filter_version === null || filterOf(match).matches(event)) matches.push(match)
        await turn()
      }
      kept.push({ ...each, matches })
    }
    return kept
  }
}
