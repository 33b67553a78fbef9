import type { AuditEntry } from '@halfkey/sdk'
import { api } from '../api.ts'

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'
const TIME_CHARS = 10
/** An entry's id is made when the log follows its event, at most this much later. */
const LATE_MS = 60_000
const PAGE_SIZE = 100
const PAGES_MAX = 3

/** The time at which an id was made: its first ten characters in Crockford's base 32, in milliseconds. */
function timeOf(id: string): number {
  const text = id.slice(id.indexOf('_') + 1).slice(0, TIME_CHARS)
  return [...text].reduce((time, character) => time * ALPHABET.length + ALPHABET.indexOf(character), 0)
}

/**
 * An entry of the audit log by its id. The API has no call for that: this reads the oldest entries since shortly before
 * the id was made, which are the last pages of that list.
 * @returns null if it is not among them
 */
export async function findAuditEntry(id: string, signal: AbortSignal): Promise<AuditEntry | null> {
  const since = timeOf(id) - LATE_MS
  if (!(since > 0) || since > Date.now()) return null
  const query = { since: new Date(since).toISOString(), pageSize: PAGE_SIZE }
  const first = await api.auditLog.list(query, { signal })
  const last = Math.max(1, Math.ceil(first.total / PAGE_SIZE))
  for (let page = last; page > Math.max(0, last - PAGES_MAX); page -= 1) {
    const { data } = page === 1 ? first : await api.auditLog.list({ ...query, page }, { signal })
    const found = data.find((entry) => entry.id === id)
    if (found !== undefined) return found
  }
  return null
}
