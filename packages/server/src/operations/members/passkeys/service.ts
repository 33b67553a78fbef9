import { randomBytes } from 'node:crypto'
import type { LoginVerify, RegisterVerify } from '../../../identity/passkeys/schema.ts'
import { type Ceremony, verifyAssertion, verifyAttestation } from '../../../identity/passkeys/webauthn/ceremony.ts'
import { ALGORITHMS } from '../../../identity/passkeys/webauthn/cose-key.ts'
import { publicUrl } from '../../../platform/config.ts'
import type { Db } from '../../../platform/db/db.ts'
import type { Deps } from '../../../platform/deps.ts'
import { type Id, isId, newId } from '../../../platform/ids.ts'
import * as members from '../store.ts'
import * as store from './store.ts'

/** How many passkeys a member can have. */
const PASSKEYS_MAX = 20
const CHALLENGE_MS = 5 * 60_000
const CHALLENGE_BYTES = 32
const NAME_CHARS_MAX = 100

/** Which member, of which tenant. */
interface Holder {
  tenantId: Id<'ten'>
  memberId: Id<'mem'>
}

const holderText = ({ tenantId, memberId }: Holder) => `${tenantId} ${memberId}`

/** The dashboard's own host: passkeys of apps have another relying party, or are not in the members' table. */
const rpIdOf = (deps: Deps): string => new URL(publicUrl(deps.config)).hostname

const expectedOf = (deps: Deps, row: store.ChallengeRow) => {
  const { origin } = new URL(publicUrl(deps.config))
  const ceremony: Ceremony = { challenge: row.challenge, rpId: row.rp_id, origin, userVerification: 'required' }
  return { ceremony, isAllowedOrigin: (one: string) => one === origin, log: deps.log }
}

async function newChallenge(deps: Deps, kind: store.ChallengeRow['kind'], holder: string | null) {
  const row: store.ChallengeRow = {
    id: newId('chl'),
    kind,
    challenge: randomBytes(CHALLENGE_BYTES).toString('base64url'),
    rp_id: rpIdOf(deps),
    holder,
    expires_at: new Date(deps.now().getTime() + CHALLENGE_MS),
    mac: null,
  }
  await store.insertChallenge(deps.db, row)
  return row
}

/**
 * Takes a challenge, committed at once: it is answered once, right or wrong.
 * @returns undefined for one that is unknown, used or over
 */
async function take(deps: Deps, id: string, kind: store.ChallengeRow['kind']): Promise<store.ChallengeRow | undefined> {
  const row = isId('chl', id) ? await store.takeChallenge(deps.db, id, kind) : undefined
  return row !== undefined && row.expires_at > deps.now() ? row : undefined
}

/** Options for `navigator.credentials.get`: any of the person's passkeys, so that the answer says nothing about who is known. */
export async function proofOptions(deps: Deps) {
  const { id, challenge, rp_id: rpId } = await newChallenge(deps, 'proof', null)
  return {
    challengeId: id,
    publicKey: { challenge, rpId, timeout: CHALLENGE_MS, allowCredentials: [], userVerification: 'required' as const },
  }
}

/** Options for `navigator.credentials.create`, for a member who is signed in. */
export async function registrationOptions(deps: Deps, holder: Holder, names: { email: string; name: string }) {
  const { id, challenge, rp_id: rpId } = await newChallenge(deps, 'registration', holderText(holder))
  const known = await store.listPasskeys(deps.db, holder.tenantId, holder.memberId)
  return {
    challengeId: id,
    publicKey: {
      rp: { id: rpId, name: 'Halfkey' },
      user: { id: Buffer.from(holder.memberId).toString('base64url'), name: names.email, displayName: names.name },
      challenge,
      pubKeyCredParams: ALGORITHMS.map((alg) => ({ type: 'public-key' as const, alg })),
      timeout: CHALLENGE_MS,
      excludeCredentials: known.map((row) => ({
        id: row.credential_id.toString('base64url'),
        type: 'public-key' as const,
      })),
      authenticatorSelection: {
        residentKey: 'required' as const,
        requireResidentKey: true,
        userVerification: 'required' as const,
      },
      attestation: 'none' as const,
    },
  }
}

/** Why a new passkey was refused. */
export type Refusal = 'passkey_challenge_over' | 'passkey_invalid' | 'passkey_limit'

/** Verifies a new passkey. The challenge is used up. */
export async function verifyNew(deps: Deps, holder: Holder, input: Omit<RegisterVerify, 'deviceName'>) {
  const challenge = await take(deps, input.challengeId, 'registration')
  if (challenge === undefined || challenge.holder !== holderText(holder)) return 'passkey_challenge_over' as const
  const made = await verifyAttestation(input.credential, expectedOf(deps, challenge))
  return made === null ? ('passkey_invalid' as const) : { made, rpId: challenge.rp_id }
}

type Verified = Exclude<Awaited<ReturnType<typeof verifyNew>>, string>

/** Adds a verified passkey to a member, whose row lists it. @returns its id, or why it was refused */
export async function addPasskey(
  tx: Db,
  deps: Deps,
  { tenantId, memberId }: Holder,
  { made, rpId }: Verified,
  name: string | undefined,
): Promise<{ id: Id<'pky'> } | Refusal> {
  const member = await members.lockMember(tx, tenantId, memberId)
  if (member?.status !== 'active') return 'passkey_invalid'
  if (member.passkeys.length >= PASSKEYS_MAX) return 'passkey_limit'
  const now = deps.now()
  const id = newId('pky')
  const added = await store.insertPasskey(tx, {
    tenant_id: tenantId,
    id,
    member_id: memberId,
    credential_id: made.credentialId,
    public_key: made.publicKey,
    rp_id: rpId,
    device_type: made.deviceType,
    sign_count: made.signCount,
    name: (name ?? 'Passkey').trim().normalize('NFC').slice(0, NAME_CHARS_MAX),
    last_used_at: null,
    created_at: now,
    mac: null,
  })
  if (!added) return 'passkey_invalid'
  await members.updateMember(tx, { ...member, passkeys: [...member.passkeys, id], updated_at: now })
  return { id }
}

/** Removes a passkey from its member. @returns whether there was one */
export async function removePasskey(tx: Db, deps: Deps, holder: Holder, id: string): Promise<boolean> {
  if (!isId('pky', id)) return false
  const member = await members.lockMember(tx, holder.tenantId, holder.memberId)
  const row = await store.findToRemove(tx, { tenant_id: holder.tenantId, member_id: holder.memberId, id })
  if (member === undefined || row === undefined) return false
  await store.deletePasskey(tx, row)
  const passkeys = member.passkeys.filter((one) => one !== id)
  await members.updateMember(tx, { ...member, passkeys, updated_at: deps.now() })
  return true
}

/** A passkey as its member sees it. */
export async function listPasskeys(deps: Deps, { tenantId, memberId }: Holder) {
  const rows = await store.listPasskeys(deps.db, tenantId, memberId)
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    lastUsedAt: row.last_used_at?.toISOString() ?? null,
    createdAt: row.created_at.toISOString(),
  }))
}

/** A passkey whose answer is right, with the counter that it brought. */
export interface Proof {
  row: store.PasskeyRow
  signCount: number
}

/**
 * Assertions of unknown passkeys are verified against this key, and fail: so they take as long. The point is the generator of P-256
 * (SEC 2, section 2.4.2).
 */
const NOBODY = {
  publicKey: Buffer.from(
    'a50102032620012158206b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2962258204fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5',
    'hex',
  ),
  signCount: 0,
  deviceType: 'singleDevice' as const,
}

/** Verifies an answer to `proofOptions`. The challenge is used up. @returns the passkey, or why it was refused */
export async function verifyProof(deps: Deps, { challengeId, credential }: LoginVerify): Promise<Proof | Refusal> {
  const challenge = await take(deps, challengeId, 'proof')
  if (challenge === undefined) return 'passkey_challenge_over'
  const row = await store.findByCredential(deps.db, Buffer.from(credential.id, 'base64url'))
  const key =
    row === undefined ? NOBODY : { publicKey: row.public_key, signCount: row.sign_count, deviceType: row.device_type }
  const assertion = await verifyAssertion(credential, expectedOf(deps, challenge), key)
  if (assertion === null || row === undefined || row.rp_id !== challenge.rp_id) return 'passkey_invalid'
  const handle = credential.response.userHandle
  if (handle != null && !Buffer.from(handle, 'base64url').equals(Buffer.from(row.member_id))) return 'passkey_invalid'
  return { row, signCount: assertion.signCount }
}

/**
 * Counts a proof, in the transaction that it is for. @returns the active member whose passkey it is; undefined if it is no longer
 * theirs, or was counted before
 */
export async function useProof(tx: Db, deps: Deps, { row, signCount }: Proof): Promise<members.MemberRow | undefined> {
  const member = await members.lockMember(tx, row.tenant_id, row.member_id)
  // That the member lists it: a passkey that was removed may have been put back.
  if (member?.status !== 'active' || !member.passkeys.includes(row.id)) return undefined
  return (await store.countUse(tx, row, signCount, deps.now())) ? member : undefined
}
