import { type Db, sql } from '../../../platform/db/db.ts'
import { readRecordPage } from '../../../platform/db/page.ts'
import { insertion, json, update, wire } from '../../../platform/db/rows.ts'
import type { Page, PageQuery } from '../../../platform/http/route.ts'
import type { Id } from '../../../platform/ids.ts'
import {
  readRecord,
  readRecords,
  readToEnd,
  resealed,
  sealed,
  type Versioned,
} from '../../../platform/security/records/access.ts'
import { ISSUER_RECORD } from './issuer-record.ts'
import type { Algorithm, Issuer, MfaClaim } from './schema.ts'

/** A row of the table `app_issuers`. */
export interface IssuerRow extends Versioned {
  tenant_id: Id<'ten'>
  id: Id<'iss'>
  app_id: Id<'app'>
  issuer: string
  jwks_uri: string | null
  discovery: string | null
  audiences: string[]
  algorithms: Algorithm[]
  claims: Issuer['claims']
  jit: Issuer['jit']
  max_token_age_seconds: number
  mfa_claim: MfaClaim | null
  created_at: Date
  updated_at: Date
}

/** A row in its API form. */
export function toIssuer(row: IssuerRow): Issuer {
  return wire(
    row,
    `id app_id issuer jwks_uri discovery audiences algorithms claims jit max_token_age_seconds mfa_claim created_at
    updated_at`,
  )
}

/** Which app's issuers. */
export interface OfApp {
  tenantId: Id<'ten'>
  appId: Id<'app'>
}

/** Inserts an issuer. */
export async function insertIssuer(tx: Db, made: IssuerRow): Promise<void> {
  const row = await sealed(tx, ISSUER_RECORD, made)
  await tx.run(insertion('app_issuers', { ...row, mfa_claim: json(row.mfa_claim) }))
}

/** Stores the columns that a PATCH can change, in the transaction that holds the row. */
export async function updateIssuer(tx: Db, before: IssuerRow): Promise<void> {
  const row = await resealed(tx, ISSUER_RECORD, before)
  const columns = `jwks_uri discovery audiences algorithms claims jit max_token_age_seconds mfa_claim updated_at version mac`
  await tx.run(update('app_issuers', { ...row, mfa_claim: json(row.mfa_claim) }, columns))
}

export async function deleteIssuer(tx: Db, tenantId: Id<'ten'>, id: Id<'iss'>): Promise<void> {
  await tx.run(sql`delete from app_issuers where tenant_id = ${tenantId} and id = ${id}`)
}

/** One of an app's issuers. */
export function findIssuer(db: Db, { tenantId, appId }: OfApp, id: Id<'iss'>): Promise<IssuerRow | undefined> {
  return readRecord<IssuerRow>(
    db,
    ISSUER_RECORD,
    sql`select * from app_issuers where tenant_id = ${tenantId} and app_id = ${appId} and id = ${id}`,
  )
}

/** The same to remove it: it may have been changed by somebody else, see `readToEnd`. */
export async function findIssuerToRemove(
  db: Db,
  { tenantId, appId }: OfApp,
  id: Id<'iss'>,
): Promise<IssuerRow | undefined> {
  const [row] = await readToEnd<IssuerRow>(
    db,
    ISSUER_RECORD,
    sql`select * from app_issuers where tenant_id = ${tenantId} and app_id = ${appId} and id = ${id}`,
  )
  return row
}

/** All of an app's issuers. */
export function issuersOf(db: Db, { tenantId, appId }: OfApp): Promise<IssuerRow[]> {
  return readRecords<IssuerRow>(
    db,
    ISSUER_RECORD,
    sql`select * from app_issuers where tenant_id = ${tenantId} and app_id = ${appId}`,
  )
}

/** A page of them, newest first. */
export function listIssuers(db: Db, { tenantId, appId }: OfApp, query: PageQuery): Promise<Page<Issuer>> {
  const found = sql`from app_issuers where tenant_id = ${tenantId} and app_id = ${appId}`
  return readRecordPage(db, ISSUER_RECORD, found, query, toIssuer)
}
