import { randomBytes } from 'node:crypto'
import { publicUrl } from '../../platform/config.ts'
import { type Db, violatedConstraint } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { type EventInput, publish } from '../../platform/events/events.ts'
import { failures, invalid, notFoundField } from '../../platform/http/errors.ts'
import { type Caller, type Origin, type Page, paging } from '../../platform/http/route.ts'
import { isId, newId } from '../../platform/ids.ts'
import { raiseAuthEpoch } from '../../platform/security/authenticator.ts'
import { forgetApps, resolveApp } from '../apps/service.ts'
import { canonicalDomain, refuseUnownable } from './domain-name.ts'
import { CUSTOM_DOMAIN_ERRORS } from './errors.ts'
import { firstCheckAt } from './next-check.ts'
import type { CreateCustomDomain, CustomDomain, ListCustomDomains, RemoveCustomDomain } from './schema.ts'
import * as store from './store.ts'

const fail = failures(CUSTOM_DOMAIN_ERRORS)

/** Each is looked at by the service itself, every day. */
const DOMAINS_MAX = 1_000
const TOKEN_BYTES = 24

/** What an API call needs to be known of: the key for the rules, the origin for the audit log. */
export type Call = { caller: Caller; origin: Origin }

const publicHost = (deps: Pick<Deps, 'config'>) => new URL(publicUrl(deps.config)).hostname

/** The host that custom domains are to point at. */
export const targetHost = (deps: Pick<Deps, 'config'>): string => deps.config.domainTarget ?? publicHost(deps)

/** The hosts by which the service itself is reached. */
export const ownHosts = (deps: Pick<Deps, 'config'>): string[] => [publicHost(deps), targetHost(deps)]

/** A domain's event. */
export function domainEvent(
  row: store.DomainRow,
  type: 'custom_domain.verified' | 'custom_domain.failed' | 'custom_domain.removed',
  cause: EventInput['cause'],
): EventInput {
  const data = { domainId: row.id, domain: row.domain }
  return { tenantId: row.tenant_id, appId: row.app_id, type, data, cause }
}

/** Makes a change of what is verified count: in this process once it has committed, in the others within a second. */
export async function spread(tx: Db, deps: Deps): Promise<void> {
  await raiseAuthEpoch(tx)
  tx.afterCommit(deps.auth.forget)
}

const exists = () =>
  fail('already_exists', [{ field: 'domain', code: 'already_exists', message: 'You have registered this domain.' }])

/** The refusal of a name that another tenant has verified. */
export const taken = () =>
  fail('domain_taken', [{ field: 'domain', code: 'domain_taken', message: 'Whoever proves a domain first has it.' }])

function refused(deps: Deps, error: unknown): unknown {
  const constraint = violatedConstraint(error)
  if (constraint === 'custom_domains_domain') return exists()
  if (constraint !== 'custom_domains_app_fk') return error
  // The app was deleted after it was looked up.
  forgetApps(deps)
  return notFoundField('appId')
}

/**
 * Registers a domain, with a new token: what proved it before proves nothing now.
 * @throws validation_failed, not_found (names `appId`), already_exists, domain_taken, domain_limit_reached
 */
export async function createCustomDomain(deps: Deps, caller: Caller, input: CreateCustomDomain): Promise<CustomDomain> {
  const domain = canonicalDomain(input.domain)
  refuseUnownable(domain, ownHosts(deps))
  const appId = await resolveApp(deps, caller, input.appId)
  const now = deps.now()
  const row: store.DomainRow = {
    tenant_id: caller.tenantId,
    id: newId('dom'),
    app_id: appId,
    domain,
    status: 'pending',
    token: `halfkey-verification=${randomBytes(TOKEN_BYTES).toString('hex')}`,
    error: null,
    last_checked_at: null,
    next_check_at: firstCheckAt(now),
    missing_since: null,
    verified_at: null,
    created_at: now,
    updated_at: now,
  }
  const insert = async (tx: Db) => {
    if ((await store.findDomainByName(tx, caller.tenantId, domain, null)) !== undefined) throw exists()
    if (await store.isVerified(tx, domain)) throw taken()
    // Without a lock, which every registration would wait for: what is registered at the same moment may go past the limit.
    if ((await store.countUpTo(tx, caller.tenantId, DOMAINS_MAX)) >= DOMAINS_MAX)
      throw fail('domain_limit_reached', [
        { code: 'domain_limit_reached', message: `At most ${DOMAINS_MAX} custom domains.`, limit: DOMAINS_MAX },
      ])
    await store.insertDomain(tx, row)
  }
  await deps.db.tx(insert).catch((error: unknown) => {
    throw refused(deps, error)
  })
  return store.toCustomDomain(row, targetHost(deps))
}

/** A page of the caller's domains, newest first. @throws not_found (names `app_id`) */
export async function listCustomDomains(
  deps: Deps,
  caller: Caller,
  query: ListCustomDomains,
): Promise<Page<CustomDomain>> {
  const { page, pageSize, offset } = paging(query)
  const appId = query.app_id === undefined ? caller.appId : await resolveApp(deps, caller, query.app_id, 'app_id')
  const filter = { tenantId: caller.tenantId, appId, status: query.status ?? null }
  const { rows, total } = await store.listDomains(deps.db, filter, offset, pageSize)
  return { items: rows.map((row) => store.toCustomDomain(row, targetHost(deps))), total, page, pageSize }
}

/** @throws not_found, the same for another tenant's, another app's and none */
export async function getCustomDomain(deps: Deps, caller: Caller, id: string): Promise<CustomDomain> {
  const row = isId('dom', id) ? await store.findDomain(deps.db, caller.tenantId, id, caller.appId) : undefined
  if (row === undefined) throw fail('not_found')
  return store.toCustomDomain(row, targetHost(deps))
}

/** The one name that a query and a body give. @throws validation_failed where they give none, or two */
function namedIn(query: RemoveCustomDomain, body: RemoveCustomDomain): string {
  const [domain, other] = [query.domain, body.domain].flatMap((text) =>
    text === undefined ? [] : [canonicalDomain(text)],
  )
  if (domain === undefined) throw invalid('domain', 'Say which domain, as ?domain=… or as {"domain": "…"}.', 'required')
  if (other !== undefined && other !== domain)
    throw invalid('domain', 'The query and the body name different domains.', 'ambiguous')
  return domain
}

/** Removes a domain, which counts for nothing from then on. @throws validation_failed, not_found (names `domain`) */
export async function removeCustomDomain(
  deps: Deps,
  { caller, origin }: Call,
  query: RemoveCustomDomain,
  body: RemoveCustomDomain,
): Promise<CustomDomain> {
  const domain = namedIn(query, body)
  return deps.db.tx(async (tx) => {
    const row = await store.deleteDomain(tx, caller.tenantId, domain, caller.appId)
    if (row === undefined) throw notFoundField('domain')
    await publish(tx, deps, domainEvent(row, 'custom_domain.removed', { caller, origin }))
    if (row.status === 'verified') await spread(tx, deps)
    return store.toCustomDomain({ ...row, updated_at: deps.now() }, targetHost(deps))
  })
}
