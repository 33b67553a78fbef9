import { type Db, sql } from '../../platform/db/db.ts'
import { change, insertion, json } from '../../platform/db/rows.ts'
import type { Id } from '../../platform/ids.ts'
import type { KeptSignature } from '../../platform/ports/signature.ts'
import { readRecord, resealed, sealed, type Versioned } from '../../platform/security/records/access.ts'
import type { RecordRow } from '../../platform/security/records/kind.ts'
import { ONBOARDING_RECORD } from './onboarding-record.ts'

/** What a wallet's user has to sign, as the table holds it. */
export interface OnboardingRow extends Versioned {
  tenant_id: Id<'ten'>
  wallet_id: Id<'wal'>
  /** What the ledger prepared. */
  prepared: Buffer
  /** In the order of what is to be signed; null until the user has signed. */
  signatures: KeptSignature[] | null
  expires_at: Date
  created_at: Date
  updated_at: Date
}

/** Which wallet's. */
export interface OfWallet {
  tenantId: Id<'ten'>
  walletId: Id<'wal'>
}

/** A wallet's onboarding, while something has to be signed for it. */
export function findOnboarding(db: Db, { tenantId, walletId }: OfWallet): Promise<OnboardingRow | undefined> {
  return readRecord<OnboardingRow>(
    db,
    ONBOARDING_RECORD,
    sql`select * from wallet_onboardings where tenant_id = ${tenantId} and wallet_id = ${walletId}`,
  )
}

/** What is new of an onboarding. */
type NewOnboarding = Pick<OnboardingRow, 'tenant_id' | 'wallet_id' | 'prepared' | 'expires_at' | 'updated_at'>

/** Stores what is to be signed, in place of what was there. The caller holds the wallet's row. */
export async function putOnboarding(tx: Db, given: NewOnboarding): Promise<void> {
  const before = await findOnboarding(tx, { tenantId: given.tenant_id, walletId: given.wallet_id })
  // Its versions go on: an older one would pass for a row that somebody put back.
  if (before !== undefined) return setOnboarding(tx, { ...before, ...given, signatures: null })
  const row: OnboardingRow = { ...given, signatures: null, created_at: given.updated_at, version: 0, mac: null }
  await tx.run(insertion('wallet_onboardings', await sealed(tx, ONBOARDING_RECORD, row)))
}

/** Stores a change, such as the user's signatures. The caller holds the wallet's row. */
export async function setOnboarding(tx: Db, before: OnboardingRow): Promise<void> {
  const row = await resealed(tx, ONBOARDING_RECORD, before)
  const { tenant_id: tenantId, wallet_id: walletId } = row
  const changed = await tx.run(sql`
    update wallet_onboardings
    set ${change({ ...row, signatures: json(row.signatures) }, 'prepared signatures expires_at updated_at version mac')}
    where tenant_id = ${tenantId} and wallet_id = ${walletId} and version = ${before.version}`)
  if (changed !== 1) throw new Error(`the onboarding of ${walletId} was changed by another transaction`)
  tx.afterCommit(() => tx.records.committed(ONBOARDING_RECORD, row as object as RecordRow))
}

/** Deletes a wallet's, if there is one. */
export async function deleteOnboarding(tx: Db, { tenantId, walletId }: OfWallet): Promise<void> {
  await tx.run(sql`delete from wallet_onboardings where tenant_id = ${tenantId} and wallet_id = ${walletId}`)
}
