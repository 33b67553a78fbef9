import { violatedConstraint } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { type EventInput, publish } from '../../platform/events/events.ts'
import { failures, type HttpError, notFoundField } from '../../platform/http/errors.ts'
import { DnsBusy, DnsUnavailable, dnsRecords } from './dns-records.ts'
import { canonicalDomain } from './domain-name.ts'
import { CUSTOM_DOMAIN_ERRORS } from './errors.ts'
import { afterCheck, type DomainCheck } from './next-check.ts'
import type { CustomDomain, VerifyCustomDomain } from './schema.ts'
import { type Call, domainEvent, spread, taken, targetHost } from './service.ts'
import * as store from './store.ts'

const fail = failures(CUSTOM_DOMAIN_ERRORS)

/** What is shown of a stranger's DNS. */
const OBSERVED_MAX = 10
const OBSERVED_CHARS_MAX = 255

/** What stands at a domain's record; null where no server would say. `owner` is who the look-up counts for. @throws DnsBusy */
export async function readRecord(deps: Deps, row: store.DomainRow, owner: string): Promise<string[] | null> {
  try {
    return await dnsRecords(deps.config).texts(store.recordName(row), owner)
  } catch (error) {
    if (error instanceof DnsUnavailable) return null
    throw error
  }
}

async function settleAs(
  deps: Deps,
  { tenant_id, id }: Pick<store.DomainRow, 'tenant_id' | 'id'>,
  lookAt: (row: store.DomainRow) => DomainCheck,
  cause: EventInput['cause'],
): Promise<store.DomainRow | undefined> {
  return deps.db.tx(async (tx) => {
    const before = await store.lockDomain(tx, tenant_id, id)
    if (before === undefined) return undefined
    const row = afterCheck(before, lookAt(before), deps.now())
    await store.updateChecked(tx, row)
    if (row.status === before.status) return row
    const type = row.status === 'verified' ? 'custom_domain.verified' : 'custom_domain.failed'
    await publish(tx, deps, domainEvent(row, type, cause))
    await spread(tx, deps)
    return row
  })
}

/**
 * Draws the conclusions from what was read at a domain's record, and tells of them if its status changes. Of several at
 * once one does. @returns the row; undefined when it was removed meanwhile
 */
export async function recordCheck(
  deps: Deps,
  found: store.DomainRow,
  texts: readonly string[] | null,
  cause?: EventInput['cause'],
): Promise<store.DomainRow | undefined> {
  const look = ({ token }: store.DomainRow): DomainCheck => {
    if (texts === null) return 'unanswered'
    return texts.some((text) => text.trim() === token) ? 'found' : 'missing'
  }
  try {
    return await settleAs(deps, found, look, cause)
  } catch (error) {
    if (violatedConstraint(error) !== 'custom_domains_verified') throw error
    return settleAs(deps, found, () => 'taken', cause)
  }
}

/** A stranger's text as it can be shown anywhere. */
const harmless = (text: string) => text.slice(0, OBSERVED_CHARS_MAX).replace(/[^\x20-\x7e]/g, '?')

function missing(row: store.DomainRow, texts: readonly string[]): HttpError {
  const name = store.recordName(row)
  const message =
    texts.length === 0
      ? `There is no TXT record at ${name}. A new one can take minutes to be seen.`
      : `No TXT record at ${name} has the expected value. A changed one can take minutes to be seen.`
  const observed = texts.slice(0, OBSERVED_MAX).map(harmless)
  return fail('dns_record_missing', [
    { field: 'domain', code: 'dns_record_missing', message, name, expected: row.token, observed },
  ])
}

function unavailable(row: store.DomainRow): HttpError {
  const name = store.recordName(row)
  const message = `The DNS servers of ${name} failed or did not answer in time. This says nothing of the record: try again.`
  return fail('dns_unavailable', [{ field: 'domain', code: 'dns_unavailable', message, name, retryable: true }])
}

/** The same, as a refusal to begin. @throws rate_limited */
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
 * Looks at a domain's record, within 5 s, and verifies the domain if it says what it should. Outside any transaction.
 * @throws validation_failed, not_found (names `domain`), dns_record_missing, dns_unavailable, domain_taken, rate_limited
 */
export async function verifyCustomDomain(
  deps: Deps,
  { caller, origin }: Call,
  input: VerifyCustomDomain,
): Promise<CustomDomain> {
  const domain = canonicalDomain(input.domain)
  const found = await store.findDomainByName(deps.db, caller.tenantId, domain, caller.appId)
  if (found === undefined) throw notFoundField('domain')
  const texts = await readRecordFor(deps, found)
  const row = await recordCheck(deps, found, texts, { caller, origin })
  if (row === undefined) throw notFoundField('domain')
  if (row.error === 'domain_taken') throw taken()
  if (texts === null) throw unavailable(row)
  if (row.error === 'dns_record_missing') throw missing(row, texts)
  return store.toCustomDomain(row, targetHost(deps))
}
