import { violatedConstraint } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { type EventInput, publish } from '../../platform/events/events.ts'
import { failures, type HttpError, notFoundField } from '../../platform/http/errors.ts'
import type { Call } from '../../platform/http/route.ts'
import { DnsBusy, DnsUnavailable, dnsRecords } from './dns-records.ts'
import { canonicalDomain } from './domain-name.ts'
import { afterCheck, type DomainCheck } from './next-check.ts'
import type { CustomDomain, VerifyCustomDomain } from './schema.ts'
import { CUSTOM_DOMAIN_ERRORS, domainEvent, spread, taken, targetHost } from './service.ts'
import * as store from './store.ts'

const fail = failures(CUSTOM_DOMAIN_ERRORS)

/** How many domains are rechecked together. */
const PORTION = 20
/** For so long, no other process takes a due domain. It is longer than a lookup and storing its outcome. */
const TAKEN_MS = 60_000
/** Limits of the foreign DNS data in errors. */
const OBSERVED_MAX = 10
const OBSERVED_CHARS_MAX = 255

/**
 * The texts at a domain's record. Null if no server answered. The lookup counts for the limit of `owner`.
 * @throws DnsBusy
 */
async function readRecord(deps: Deps, row: store.DomainRow, owner: string): Promise<string[] | null> {
  try {
    return await dnsRecords(deps.config).texts(store.recordName(row), owner)
  } catch (error) {
    if (error instanceof DnsUnavailable) return null
    throw error
  }
}

/**
 * Stores the outcome of a lookup, and publishes a change of the status, once if several run concurrently.
 * @returns the row; undefined if it was removed meanwhile
 */
async function storeLookup(
  deps: Deps,
  { tenant_id, id }: store.DomainRow,
  texts: readonly string[] | null,
  cause?: EventInput['cause'],
): Promise<store.DomainRow | undefined> {
  const lookAt = ({ token }: store.DomainRow): DomainCheck => {
    if (texts === null) return 'unanswered'
    return texts.some((text) => text.trim() === token) ? 'found' : 'missing'
  }
  const storeAs = (known: DomainCheck | null) =>
    deps.db.tx(async (tx) => {
      const before = await store.lockDomain(tx, tenant_id, id)
      if (before === undefined) return undefined
      const row = afterCheck(before, known ?? lookAt(before), deps.now())
      await store.updateChecked(tx, row)
      if (row.status === before.status) return row
      const type = row.status === 'verified' ? 'custom_domain.verified' : 'custom_domain.failed'
      await publish(tx, deps, domainEvent(row, type, cause))
      await spread(tx, deps)
      return row
    })
  return storeAs(null).catch((error: unknown) => {
    if (violatedConstraint(error) !== 'custom_domains_verified') throw error
    return storeAs('taken')
  })
}

/** Makes foreign text safe to display. */
const harmless = (text: string) => text.slice(0, OBSERVED_CHARS_MAX).replace(/[^\x20-\x7e]/g, '?')

function missing(row: store.DomainRow, texts: readonly string[]): HttpError {
  const name = store.recordName(row)
  const message =
    texts.length === 0
      ? `There is no TXT record at ${name}. A new record can take minutes to become visible.`
      : `No TXT record at ${name} has the expected value. A change can take minutes to become visible.`
  const observed = texts.slice(0, OBSERVED_MAX).map(harmless)
  return fail('dns_record_missing').about('domain', message, { name, expected: row.token, observed })
}

function unavailable(row: store.DomainRow): HttpError {
  const name = store.recordName(row)
  const message = `The DNS servers of ${name} failed or did not answer in time, so the record could not be checked. Try again.`
  return fail('dns_unavailable').about('domain', message, { name, retryable: true })
}

/** The same for an API call. @throws rate_limited */
async function readRecordFor(deps: Deps, row: store.DomainRow): Promise<string[] | null> {
  try {
    return await readRecord(deps, row, row.tenant_id)
  } catch (error) {
    if (!(error instanceof DnsBusy)) throw error
    const message = 'Too many domains are being verified at once.'
    throw fail('rate_limited', [{ code: 'too_many_lookups', message }], { 'retry-after': '2' })
  }
}

/**
 * Looks up a domain's record, within 5 s, and verifies the domain if the record has its token. Outside any transaction.
 * @throws validation_failed, not_found (names `domain`), dns_record_missing, dns_unavailable, domain_taken, rate_limited
 */
export async function verifyCustomDomain(
  deps: Deps,
  { caller, origin }: Call,
  input: VerifyCustomDomain,
): Promise<CustomDomain> {
  const domain = canonicalDomain(input.domain)
  const found = await store.findDomainByName(deps.db, caller, domain)
  if (found === undefined) throw notFoundField('domain')
  const texts = await readRecordFor(deps, found)
  const row = await storeLookup(deps, found, texts, { caller, origin })
  if (row === undefined) throw notFoundField('domain')
  if (row.error === 'domain_taken') throw taken()
  if (texts === null) throw unavailable(row)
  if (row.error === 'dns_record_missing') throw missing(row, texts)
  return store.toCustomDomain(row, targetHost(deps))
}

/**
 * Rechecks a portion of the domains that are due, of all tenants: pending ones, and verified ones every day. No connection
 * is held during lookups. @returns whether there may be more
 */
export async function recheckDomains(deps: Deps): Promise<boolean> {
  const now = deps.now()
  const rows = await store.takeDue(deps.db, now, new Date(now.getTime() + TAKEN_MS), PORTION)
  const one = async (row: store.DomainRow) => {
    try {
      await storeLookup(deps, row, await readRecord(deps, row, 'recheck'))
    } catch (error) {
      // It is due again once `TAKEN_MS` are over.
      if (error instanceof DnsBusy) return
      deps.log.warn({ err: error, tenantId: row.tenant_id, domainId: row.id }, 'a custom domain could not be checked')
    }
  }
  await Promise.all(rows.map(one))
  return rows.length === PORTION
}
