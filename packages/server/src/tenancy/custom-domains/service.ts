import { randomBytes } from 'node:crypto'
import { publicUrl } from '../../platform/config.ts'
import { type Db, violatedConstraint } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import { type EventInput, eventOf, publish } from '../../platform/events/events.ts'
import { type ErrorTable, existing, failures, invalid, notFoundField, pathId } from '../../platform/http/errors.ts'
import type { Call, Caller, Page } from '../../platform/http/route.ts'
import { newId } from '../../platform/ids.ts'
import { raiseAuthEpoch } from '../../platform/security/authenticator.ts'
import { forgetApps, listScope, resolveApp } from '../apps/service.ts'
import { canonicalDomain, refuseUnownable } from './domain-name.ts'
import { firstCheckAt } from './next-check.ts'
import type { CreateCustomDomain, CustomDomain, ListCustomDomains, RemoveCustomDomain } from './schema.ts'
import * as store from './store.ts'

export const CUSTOM_DOMAIN_ERRORS = {
  dns_record_missing: [400, 'The TXT record that proves this domain was not found.'],
  dns_unavailable: [400, 'The DNS servers of this domain did not answer. Try again.'],
  domain_taken: [409, 'Another tenant of this service has verified this domain.'],
  domain_limit_reached: [409, 'The tenant has reached its limit of custom domains. Remove one first.'],
} as const satisfies ErrorTable

const fail = failures(CUSTOM_DOMAIN_ERRORS)

/** The service checks each of them every day. */
const DOMAINS_MAX = 1_000
const TOKEN_BYTES = 24

const publicHost = (deps: Pick<Deps, 'config'>) => new URL(publicUrl(deps.config)).hostname

/** The host that custom domains must point at. */
export const targetHost = (deps: Pick<Deps, 'config'>): string => deps.config.domainTarget ?? publicHost(deps)

/** The hosts of the service itself. */
export const ownHosts = (deps: Pick<Deps, 'config'>): string[] => [publicHost(deps), targetHost(deps)]

/** A domain's event. */
export function domainEvent(
  row: store.DomainRow,
  type: 'custom_domain.verified' | 'custom_domain.failed' | 'custom_domain.removed',
  cause: EventInput['cause'],
): EventInput {
  return eventOf(row, type, { domainId: row.id, domain: row.domain }, cause)
}

/** Drops caches of verified domains: in this process after the commit, in others within a second. */
export async function spread(tx: Db, deps: Deps): Promise<void> {
  await raiseAuthEpoch(tx)
  tx.afterCommit(deps.auth.forget)
}

const exists = () => fail('already_exists').about('domain', 'You have already registered this domain.')

/** The error for a name that another tenant has verified. */
export const taken = () => fail('domain_taken').about('domain', 'A domain belongs to the first tenant that proves it.')

function refused(deps: Deps, error: unknown): unknown {
  const constraint = violatedConstraint(error)
  if (constraint === 'custom_domains_domain') return exists()
  if (constraint !== 'custom_domains_app_fk') return error
  // The app was deleted after it was looked up.
  forgetApps(deps)
  return notFoundField('appId')
}

/**
 * Registers a domain, with a new token: the record of an earlier registration does not prove it.
 * @throws validation_failed, not_found (names `appId`), already_exists, domain_taken, domain_limit_reached
 */
export async function createCustomDomain(deps: Deps, call: Call, input: CreateCustomDomain): Promise<CustomDomain> {
  const { caller } = call
  const domain = canonicalDomain(input.domain)
  refuseUnownable(domain, ownHosts(deps))
  const appId = await resolveApp(deps, caller, input.appId)
  const now = deps.now()
  const insert = async (tx: Db) => {
    const scope = { tenantId: caller.tenantId, appId: null }
    if ((await store.findDomainByName(tx, scope, domain)) !== undefined) throw exists()
    if (await store.isVerified(tx, domain)) throw taken()
    // Without a lock, which every registration would wait for: concurrent registrations may exceed the limit.
    if ((await store.countUpTo(tx, caller.tenantId, DOMAINS_MAX)) >= DOMAINS_MAX)
      throw fail('domain_limit_reached', [
        {
          code: 'domain_limit_reached',
          message: `A tenant can have at most ${DOMAINS_MAX} custom domains.`,
          limit: DOMAINS_MAX,
        },
      ])
    const made = await store.insertDomain(tx, {
      tenant_id: caller.tenantId,
      id: newId('dom'),
      app_id: appId,
      domain,
      token: `halfkey-verification=${randomBytes(TOKEN_BYTES).toString('hex')}`,
      next_check_at: firstCheckAt(now),
      created_at: now,
    })
    const about = { tenantId: caller.tenantId, appId, target: made.id }
    await recordAuditOnly(tx, deps, { ...about, action: 'custom_domain.registered', cause: call })
    return made
  }
  const row = await deps.db.tx(insert).catch((error: unknown) => {
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
  const scope = await listScope(deps, caller, query)
  return store.listDomains(deps.db, { ...scope, status: query.status ?? null }, query, targetHost(deps))
}

/** @throws not_found, the same for unknown domains and those of another tenant or app */
export async function getCustomDomain(deps: Deps, caller: Caller, id: string): Promise<CustomDomain> {
  return store.toCustomDomain(existing(await store.findDomain(deps.db, caller, pathId('dom', id))), targetHost(deps))
}

/** The name in the query or the body. @throws validation_failed without a name, or with two */
function namedIn(query: RemoveCustomDomain, body: RemoveCustomDomain): string {
  const [domain, other] = [query.domain, body.domain].flatMap((text) =>
    text === undefined ? [] : [canonicalDomain(text)],
  )
  if (domain === undefined) throw invalid('domain', 'Send the domain as ?domain=… or as {"domain": "…"}.', 'required')
  if (other !== undefined && other !== domain)
    throw invalid('domain', 'The query and the body name different domains.', 'ambiguous')
  return domain
}

/** Removes a domain. @throws validation_failed, not_found (names `domain`) */
export async function removeCustomDomain(
  deps: Deps,
  { caller, origin }: Call,
  query: RemoveCustomDomain,
  body: RemoveCustomDomain,
): Promise<CustomDomain> {
  const domain = namedIn(query, body)
  return deps.db.tx(async (tx) => {
    const row = await store.deleteDomain(tx, caller, domain)
    if (row === undefined) throw notFoundField('domain')
    await publish(tx, deps, domainEvent(row, 'custom_domain.removed', { caller, origin }))
    if (row.status === 'verified') await spread(tx, deps)
    return store.toCustomDomain({ ...row, updated_at: deps.now() }, targetHost(deps))
  })
}
