import { type Db, sql } from '../../../platform/db/db.ts'
import { insertion } from '../../../platform/db/rows.ts'
import type { Id } from '../../../platform/ids.ts'
import { readRecord, readRecords, readToEnd, type Sealed, sealed } from '../../../platform/security/records/access.ts'
import { MEMBER_CHALLENGE_RECORD, MEMBER_PASSKEY_RECORD } from '../records.ts'

/** A row of the table `member_passkeys`. */
export interface PasskeyRow extends Sealed {
  tenant_id: Id<'ten'>
  id: Id<'pky'>
  member_id: Id<'mem'>
  credential_id: Buffer
  public_key: Buffer
  rp_id: string
  device_type: 'singleDevice' | 'multiDevice'
  sign_count: number
  name: string
  last_used_at: Date | null
  created_at: Date
}

/** A row of the table `member_challenges`. */
export interface ChallengeRow extends Sealed {
  id: Id<'chl'>
  /** `oidc_…`: a sign-in, or a link, that is under way at the organisation's login. */
  kind: 'proof' | 'registration' | 'oidc_sign_in' | 'oidc_link'
  /** Of `oidc_…`, the hash of the browser's secret. */
  challenge: string
  /** The relying party; of `oidc_…`, the provider. */
  rp_id: string
  holder: string | null
  expires_at: Date
}

/** Stores a challenge. */
export async function insertChallenge(db: Db, row: ChallengeRow): Promise<void> {
  await db.run(insertion('member_challenges', await sealed(db, MEMBER_CHALLENGE_RECORD, row)))
}

/** Reads a challenge without using it up. */
export function findChallenge(db: Db, id: Id<'chl'>): Promise<ChallengeRow | undefined> {
  return readRecord<ChallengeRow>(db, MEMBER_CHALLENGE_RECORD, sql`select * from member_challenges where id = ${id}`)
}

/** Takes a challenge: of any number that ask for it, one gets it. */
export function takeChallenge(db: Db, id: Id<'chl'>, kind: ChallengeRow['kind']): Promise<ChallengeRow | undefined> {
  return readRecord<ChallengeRow>(
    db,
    MEMBER_CHALLENGE_RECORD,
    sql`delete from member_challenges where id = ${id} and kind = ${kind} returning *`,
  )
}

const CHALLENGES_A_DELETION = 5_000

/** Deletes a portion of the challenges that are over. @returns whether there may be more */
export async function deleteOldChallenges(db: Db, now: Date): Promise<boolean> {
  const gone = await db.run(sql`
    delete from member_challenges where id in (
      select id from member_challenges where expires_at <= ${now} limit ${CHALLENGES_A_DELETION})`)
  return gone === CHALLENGES_A_DELETION
}

/** Inserts a passkey. @returns false, and writes none, if somebody has its credential */
export async function insertPasskey(tx: Db, row: PasskeyRow): Promise<boolean> {
  const written = await tx.run(sql`
    ${insertion('member_passkeys', await sealed(tx, MEMBER_PASSKEY_RECORD, row))}
    on conflict (credential_id) do nothing`)
  return written === 1
}

/** The passkey of a credential, whosever it is. */
export function findByCredential(db: Db, credentialId: Buffer): Promise<PasskeyRow | undefined> {
  return readRecord<PasskeyRow>(
    db,
    MEMBER_PASSKEY_RECORD,
    sql`select * from member_passkeys where credential_id = ${credentialId}`,
  )
}

/** A member's passkeys, oldest first. */
export function listPasskeys(db: Db, tenantId: Id<'ten'>, memberId: Id<'mem'>): Promise<PasskeyRow[]> {
  return readRecords<PasskeyRow>(
    db,
    MEMBER_PASSKEY_RECORD,
    sql`select * from member_passkeys where tenant_id = ${tenantId} and member_id = ${memberId} order by id`,
  )
}

/** One of a member's passkeys, to remove it: somebody else may have changed it. */
export async function findToRemove(
  tx: Db,
  of: Pick<PasskeyRow, 'tenant_id' | 'member_id' | 'id'>,
): Promise<PasskeyRow | undefined> {
  const [row] = await readToEnd<PasskeyRow>(
    tx,
    MEMBER_PASSKEY_RECORD,
    sql`
    select * from member_passkeys
    where tenant_id = ${of.tenant_id} and member_id = ${of.member_id} and id = ${of.id} for update`,
  )
  return row
}

/** Deletes a passkey. */
export async function deletePasskey(tx: Db, row: PasskeyRow): Promise<void> {
  await tx.run(sql`delete from member_passkeys where tenant_id = ${row.tenant_id} and id = ${row.id}`)
}

/** Counts a use. @returns false if another one was counted since the row was read */
export async function countUse(tx: Db, row: PasskeyRow, signCount: number, now: Date): Promise<boolean> {
  const counted = await tx.run(sql`
    update member_passkeys set sign_count = ${signCount}, last_used_at = ${now}
    where tenant_id = ${row.tenant_id} and id = ${row.id} and sign_count = ${row.sign_count}`)
  return counted === 1
}
