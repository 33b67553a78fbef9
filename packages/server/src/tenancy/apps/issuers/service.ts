import { isDeepStrictEqual } from 'node:util'
import type { Db } from '../../../platform/db/db.ts'
import type { Deps } from '../../../platform/deps.ts'
import { EgressRefused } from '../../../platform/egress/egress.ts'
import { type AuditOnlyEntry, recordAuditOnly } from '../../../platform/events/audit-only-entries.ts'
import { publish } from '../../../platform/events/events.ts'
import { existing, failures, invalid, pathId } from '../../../platform/http/errors.ts'
import type { Call, Caller, Page } from '../../../platform/http/route.ts'
import { type Id, newId } from '../../../platform/ids.ts'
import { getApp, lockOwnApp } from '../service.ts'
import { knownIssuers } from './known-issuers.ts'
import type { CreateIssuer, Issuer, IssuerParams, ListIssuers, UpdateIssuer } from './schema.ts'
import * as store from './store.ts'

export type { IssuerRow } from './store.ts'

/** How many issuers an app can trust. Each can sign in as any user that it has created. */
const ISSUERS_MAX = 10

export const ISSUER_ERRORS = {
  issuer_url_blocked: [400, 'Halfkey cannot fetch keys from this URL.'],
  issuer_limit: [409, `An app can trust at most ${ISSUERS_MAX} issuers. Remove one first.`],
} as const

const fail = failures(ISSUER_ERRORS)

/**
 * Refuses addresses from which Halfkey may not fetch. Needs the network, so it runs before the transaction.
 * @throws issuer_url_blocked
 */
export async function checkSources(deps: Deps, input: Pick<UpdateIssuer, 'jwksUri' | 'discovery'>): Promise<void> {
  for (const field of ['jwksUri', 'discovery'] as const) {
    const url = input[field]
    if (url == null) continue
    try {
      await deps.egress.assertAllowed(url)
    } catch (error) {
      if (!(error instanceof EgressRefused)) throw error
      throw fail('issuer_url_blocked').about(field, error.message)
    }
  }
}

/** The row with the given fields. One source of keys replaces the other. @throws validation_failed */
function changed(before: store.IssuerRow, input: UpdateIssuer): store.IssuerRow {
  const { jwksUri, discovery, claims = {} } = input
  const both = jwksUri != null && discovery != null
  const kept = {
    jwks_uri: discovery != null && jwksUri === undefined ? null : before.jwks_uri,
    discovery: jwksUri != null && discovery === undefined ? null : before.discovery,
  }
  const row: store.IssuerRow = {
    ...before,
    jwks_uri: jwksUri === undefined ? kept.jwks_uri : jwksUri,
    discovery: discovery === undefined ? kept.discovery : discovery,
    audiences: input.audiences ?? before.audiences,
    algorithms: input.algorithms ?? before.algorithms,
    claims: {
      sub: claims.sub ?? before.claims.sub,
      email: claims.email === undefined ? before.claims.email : claims.email,
      emailVerified: claims.emailVerified === undefined ? before.claims.emailVerified : claims.emailVerified,
      name: claims.name === undefined ? before.claims.name : claims.name,
    },
    jit: input.jit ?? before.jit,
    max_token_age_seconds: input.maxTokenAgeSeconds ?? before.max_token_age_seconds,
    mfa_claim: input.mfaClaim === undefined ? before.mfa_claim : input.mfaClaim,
  }
  if (both || (row.jwks_uri === null) === (row.discovery === null))
    throw invalid('jwksUri', 'Send either jwksUri or discovery.', 'one_of')
  return row
}

function newRow({ tenantId, appId }: store.OfApp, input: CreateIssuer, now: Date): store.IssuerRow {
  const blank: store.IssuerRow = {
    tenant_id: tenantId,
    id: newId('iss'),
    app_id: appId,
    issuer: input.issuer,
    jwks_uri: null,
    discovery: null,
    audiences: [],
    algorithms: ['RS256', 'ES256'],
    claims: { sub: 'sub', email: 'email', emailVerified: 'email_verified', name: 'name' },
    jit: 'create',
    max_token_age_seconds: 3600,
    mfa_claim: null,
    created_at: now,
    updated_at: now,
    version: 0,
    mac: null,
  }
  return changed(blank, input)
}

/** Records a change of who can sign users in: as an event of the app, and in the audit log under the issuer's id. */
async function tell(
  tx: Db,
  deps: Deps,
  call: Call,
  row: store.IssuerRow,
  action: AuditOnlyEntry['action'],
): Promise<void> {
  const of = { tenantId: row.tenant_id, appId: row.app_id, cause: call }
  await recordAuditOnly(tx, deps, { ...of, action, target: row.id })
  const { name } = await getApp({ ...deps, db: tx }, call.caller, row.app_id)
  await publish(tx, deps, { ...of, type: 'app.updated', data: { appId: row.app_id, name, changed: ['issuers'] } })
  tx.afterCommit(() => knownIssuers(deps).forget())
}

const appOf = async (deps: Deps, caller: Caller, id: string): Promise<store.OfApp> => ({
  tenantId: caller.tenantId,
  appId: (await getApp(deps, caller, id)).id as Id<'app'>,
})

/** A page of the issuers that an app trusts, newest first. @throws not_found */
export async function listIssuers(deps: Deps, caller: Caller, id: string, query: ListIssuers): Promise<Page<Issuer>> {
  return store.listIssuers(deps.db, await appOf(deps, caller, id), query)
}

/** @throws not_found */
export async function getIssuer(deps: Deps, caller: Caller, { id, issuerId }: IssuerParams): Promise<Issuer> {
  const app = await appOf(deps, caller, id)
  return store.toIssuer(existing(await store.findIssuer(deps.db, app, pathId('iss', issuerId))))
}

/** Makes an app trust an issuer. @throws not_found, validation_failed, already_exists (names `issuer`), issuer_limit */
export async function createIssuer(deps: Deps, call: Call, id: string, input: CreateIssuer): Promise<Issuer> {
  return deps.db.tx(async (tx) => {
    const { tenant_id: tenantId, id: appId } = await lockOwnApp(tx, call.caller, id)
    const row = newRow({ tenantId, appId }, input, deps.now())
    const others = await store.issuersOf(tx, { tenantId, appId })
    if (others.some(({ issuer }) => issuer === row.issuer))
      throw fail('already_exists').about('issuer', 'This app already trusts this issuer.')
    if (others.length >= ISSUERS_MAX) throw fail('issuer_limit')
    await store.insertIssuer(tx, row)
    await tell(tx, deps, call, row, 'issuer.created')
    return store.toIssuer(row)
  })
}

async function lockIssuer(
  tx: Db,
  { caller }: Call,
  { id, issuerId }: IssuerParams,
  find = store.findIssuer,
): Promise<store.IssuerRow> {
  const { tenant_id: tenantId, id: appId } = await lockOwnApp(tx, caller, id)
  return existing(await find(tx, { tenantId, appId }, pathId('iss', issuerId)))
}

/** Changes the given fields. Emits no event if nothing changed. @throws not_found, validation_failed */
export async function updateIssuer(deps: Deps, call: Call, params: IssuerParams, input: UpdateIssuer): Promise<Issuer> {
  return deps.db.tx(async (tx) => {
    const before = await lockIssuer(tx, call, params)
    const row = changed(before, input)
    if (isDeepStrictEqual(store.toIssuer(row), store.toIssuer(before))) return store.toIssuer(before)
    row.updated_at = deps.now()
    await store.updateIssuer(tx, row)
    await tell(tx, deps, call, row, 'issuer.updated')
    return store.toIssuer(row)
  })
}

/** Ends the trust. Identities of the issuer stay, and sign nobody in. @throws not_found */
export async function removeIssuer(deps: Deps, call: Call, params: IssuerParams): Promise<Issuer> {
  return deps.db.tx(async (tx) => {
    const row = await lockIssuer(tx, call, params, store.findIssuerToRemove)
    await store.deleteIssuer(tx, row.tenant_id, row.id)
    await tell(tx, deps, call, row, 'issuer.deleted')
    return store.toIssuer(row)
  })
}

/** The issuer of this name that an app trusts: here at once after a change, elsewhere within a second. */
export async function trustedIssuer(
  deps: Deps,
  app: store.OfApp,
  issuer: string,
): Promise<store.IssuerRow | undefined> {
  return (await knownIssuers(deps).of(deps, app)).find((row) => row.issuer === issuer)
}
