import { type Db, type Sql, sql } from '../db/db.ts'
import { insertion } from '../db/rows.ts'
import { type Id, newId } from '../ids.ts'
import { readJoined, readRecord, sealed } from './records/access.ts'
import { CHALLENGE_RECORD } from './records/challenge-record.ts'
import { recordColumns } from './records/kind.ts'

/** Something that has to be answered within minutes, once. */
export interface Challenge<Data> {
  id: Id<'chl'>
  appId: Id<'app'>
  /** Whom it is for; null where that is yet to be known. */
  userId: Id<'usr'> | null
  data: Data
  /** It has been answered before. */
  used: boolean
  /** It has been answered before, or its time is over. */
  over: boolean
}

export type ChallengeKind =
  | 'passkey_registration'
  | 'passkey_login'
  | 'mfa'
  | 'wallet'
  | 'recovery'
  | 'provider_start'
  | 'provider_return'
  | 'provider_link'
  | 'wallet_sign_in'
  | 'wallet_link'
  | 'agent_request'

/** How long a challenge can be answered, unless it says otherwise. */
export const CHALLENGE_MS = 5 * 60_000

/** Stores a challenge. `data` is what its answer will be held against. */
export async function createChallenge<Data extends object>(
  db: Db,
  now: Date,
  input: {
    tenantId: Id<'ten'>
    appId: Id<'app'>
    kind: ChallengeKind
    userId: Id<'usr'> | null
    data: Data
    /** How long it can be answered. Default: `CHALLENGE_MS`. */
    forMs?: number
  },
): Promise<{ id: Id<'chl'>; expiresAt: Date }> {
  const id = newId('chl')
  const expiresAt = new Date(now.getTime() + (input.forMs ?? CHALLENGE_MS))
  const row = await sealed(db, CHALLENGE_RECORD, {
    tenant_id: input.tenantId,
    id,
    app_id: input.appId,
    kind: input.kind,
    user_id: input.userId,
    data: input.data,
    expires_at: expiresAt,
    mac: null,
  })
  await db.run(insertion('challenges', row))
  return { id, expiresAt }
}

/** Which challenge: the tenant's (and, with `appId`, the app's) of this id and kind. */
interface WhichChallenge {
  tenantId: Id<'ten'>
  appId: Id<'app'> | null
  kind: ChallengeKind
  id: Id<'chl'>
}

const isThis = ({ tenantId, appId, kind, id }: WhichChallenge) => sql`
  tenant_id = ${tenantId} and id = ${id} and kind = ${kind} and (${appId}::text is null or app_id = ${appId})`

/** Reads a challenge without using it, for checks that take long. */
export function findChallenge<Data>(db: Db, now: Date, of: WhichChallenge): Promise<Challenge<Data> | undefined> {
  return readJoined(
    db,
    [CHALLENGE_RECORD],
    sql`
    select id, app_id as "appId", user_id as "userId", data, used_at is not null as used,
      used_at is not null or expires_at <= ${now} as over,
      ${recordColumns(CHALLENGE_RECORD, 'challenges')}
    from challenges where ${isThis(of)}`,
  )
}

/**
 * Takes a challenge of this kind: of any number that ask at once, one finds it not over. Undefined where the tenant (and,
 * with `appId`, the app) has none of this id and kind.
 */
export function takeChallenge<Data>(db: Db, now: Date, of: WhichChallenge): Promise<Challenge<Data> | undefined> {
  return readJoined(
    db,
    [CHALLENGE_RECORD],
    sql`
    with before as (select id, used_at from challenges where ${isThis(of)} for update)
    update challenges c set used_at = coalesce(c.used_at, ${now}) from before
    where c.tenant_id = ${of.tenantId} and c.id = before.id
    returning c.id, c.app_id as "appId", c.user_id as "userId", c.data,
      before.used_at is not null as used, before.used_at is not null or c.expires_at <= ${now} as over, ${recordColumns(CHALLENGE_RECORD, 'c')}`,
  )
}

const CHALLENGES_A_DELETION = 5_000

/** Deletes a portion of the challenges that were over ten minutes ago. @returns whether there may be more */
export async function deleteOldChallenges(db: Db): Promise<boolean> {
  const gone = await db.run(sql`
    delete from challenges where (tenant_id, id) in (
      select tenant_id, id from challenges where expires_at < now() - interval '10 minutes' limit ${CHALLENGES_A_DELETION})`)
  return gone === CHALLENGES_A_DELETION
}

/** The user's MFA challenge of this id, locked until the transaction ends. */
export function lockMfaChallenge(
  tx: Db,
  of: { tenantId: Id<'ten'>; appId: Id<'app'>; userId: Id<'usr'>; id: Id<'chl'> },
): Promise<{ used_at: Date | null; expires_at: Date } | undefined> {
  return readRecord(
    tx,
    CHALLENGE_RECORD,
    sql`
    select * from challenges
    where tenant_id = ${of.tenantId} and id = ${of.id} and kind = 'mfa' and app_id = ${of.appId} and user_id = ${of.userId} for update`,
  )
}

/** Uses up a challenge that the transaction has locked. */
export async function endChallenge(tx: Db, tenantId: Id<'ten'>, id: Id<'chl'>, now: Date): Promise<void> {
  await tx.run(sql`update challenges set used_at = ${now} where tenant_id = ${tenantId} and id = ${id}`)
}

/** A `with` part, `taken`, that uses up a challenge; empty where it was used before. */
function challengeTaken(of: { tenantId: Id<'ten'>; challengeId: Id<'chl'> }, at: Date): Sql {
  return sql`
    taken as (
      update challenges set used_at = ${at}
      where tenant_id = ${of.tenantId} and id = ${of.challengeId} and used_at is null returning 1)`
}

/** The same with the condition that it was not used before. */
export const challengeOnce = (of: { tenantId: Id<'ten'>; challengeId: Id<'chl'> }, at: Date) => ({
  writes: challengeTaken(of, at),
  holds: sql`exists (select from taken)`,
})

/** Deletes the challenges that know a user, that of their sign-up included. */
export async function deleteChallengesOfUser(tx: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<void> {
  await tx.run(sql`
    delete from challenges where tenant_id = ${tenantId} and (user_id = ${userId} or data->'signUp'->>'userId' = ${userId})`)
}

/** Deletes all challenges of an app. */
export async function deleteChallengesOfApp(tx: Db, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<void> {
  await tx.run(sql`delete from challenges where tenant_id = ${tenantId} and app_id = ${appId}`)
}
