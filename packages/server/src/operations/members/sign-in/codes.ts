import { randomBytes } from 'node:crypto'
import { readAddress } from '../../../identity/email-sign-in/address.ts'
import { requireRightCode } from '../../../identity/email-sign-in/answer.ts'
import { codeHmac, newCode } from '../../../identity/email-sign-in/code.ts'
import { fail as refuse } from '../../../identity/email-sign-in/errors.ts'
import { refuseUsed, usageWindows } from '../../../identity/email-sign-in/limits.ts'
import { operatorSends } from '../../../identity/emails/send.ts'
import { CODE_MINUTES, queueMemberEmail } from '../../../identity/emails/service.ts'
import type { Db } from '../../../platform/db/db.ts'
import type { Deps } from '../../../platform/deps.ts'
import { limitAccount, limitEmail, networkOf } from '../../../platform/http/rate-limits/limits.ts'
import { type Id, isId, newId } from '../../../platform/ids.ts'
import { equalSecrets, sha256 } from '../../../platform/security/crypto.ts'
import { fail as failPage } from '../../dashboard/errors.ts'
import { fail } from '../errors.ts'
import { sealCode } from '../mail.ts'
import * as members from '../store.ts'
import * as store from './store.ts'

const CODE_MS = CODE_MINUTES * 60_000

/** What the browser that asked for a code keeps in a cookie: its tenant and a secret. */
export interface CodeBinding {
  tenantId: Id<'ten'>
  secret: string
}

const hashOf = (secret: string): string => sha256(secret).toString('base64url')

/** The limits of an address, whoever asks. The address is locked. @throws rate_limited, email_locked */
async function refuseExhausted(tx: Db, now: Date, address: store.Address, step: 'start' | 'answer'): Promise<void> {
  const { startsSince, wrongSince } = usageWindows(now)
  refuseUsed(now, await store.countUsage(tx, address, startsSince, wrongSince), step)
}

/** Whether a code may sign a member in: one who has shown that the address is theirs, and whose rights have not changed since `at`. */
const isReached = (member: members.MemberRow | undefined, at: Date): member is members.MemberRow =>
  member?.status === 'active' &&
  members.hasProvenEmail(member) &&
  (member.rights_changed_at === null || member.rights_changed_at < at)

/**
 * Mails a code to a member. What is answered, stored and done is the same whether a member has the address or not.
 * @returns the challenge, and what the asking browser keeps
 * @throws validation_failed, member_email_code_disabled, member_email_not_configured, rate_limited, email_locked
 */
export async function startCode(
  deps: Deps,
  tenantId: Id<'ten'> | undefined,
  text: string,
  network: string,
): Promise<{ challengeId: Id<'chl'>; expiresAt: Date; binding: CodeBinding }> {
  if (tenantId === undefined || !(await store.isOn(deps.db, tenantId, 'email_code')))
    throw failPage('member_email_code_disabled')
  if (operatorSends(deps) === null) throw fail('member_email_not_configured')
  const { shown, key } = readAddress(text)
  await limitEmail(deps, tenantId, network)
  await limitAccount(deps, `member email ${tenantId} ${key} ${networkOf(network)}`)
  const found = await members.findMemberByEmail(deps.db, tenantId, key)
  const code = newCode()
  const id = newId('chl')
  const secret = randomBytes(32).toString('base64url')
  const hmac = await codeHmac(deps, id, code)
  // To the address that was proven, however somebody has typed it.
  const to = found?.email ?? shown
  const sealed = await sealCode(deps, tenantId, to, code)
  const now = deps.now()
  const expiresAt = new Date(now.getTime() + CODE_MS)
  await deps.db.tx(async (tx) => {
    await store.lockAddress(tx, { tenantId, key })
    await refuseExhausted(tx, now, { tenantId, key }, 'start')
    await store.endOthers(tx, { tenantId, key }, now)
    const member = await members.findMemberByEmail(tx, tenantId, key)
    const isSent = isReached(member, now) && member.email === to
    const memberId = isSent ? member.id : null
    await queueMemberEmail(tx, deps, sealed, {
      tenantId,
      memberId,
      address: to,
      purpose: 'member_code',
      expiresAt,
      skipped: !isSent,
    })
    await store.insertCode(tx, {
      tenant_id: tenantId,
      id,
      member_id: memberId,
      email_key: key,
      code_hmac: isSent ? hmac : null,
      browser_hash: hashOf(secret),
      wrong_answers: 0,
      expires_at: expiresAt,
      ended_at: null,
      created_at: now,
      version: 0,
      mac: null,
    })
  })
  return { challengeId: id, expiresAt, binding: { tenantId, secret } }
}

/** A code as it was typed, in a browser that has a cookie or not. */
export interface TypedCode {
  challengeId: string
  code: string
  binding: CodeBinding | undefined
}

/** The code's row, if this browser asked for it: nobody else uses up its tries. @throws challenge_expired */
async function findOwn(db: Db, { challengeId, binding }: TypedCode): Promise<store.CodeRow> {
  const row =
    binding !== undefined && isId('chl', challengeId)
      ? await store.findCode(db, binding.tenantId, challengeId)
      : undefined
  const isOwn =
    binding !== undefined &&
    row !== undefined &&
    equalSecrets(Buffer.from(row.browser_hash), Buffer.from(hashOf(binding.secret)))
  if (!isOwn) throw refuse('challenge_expired')
  return row
}

/**
 * Runs `body` for the member whose code was typed, in the transaction that uses the code up.
 * @throws challenge_expired (also for another browser, or if the member's rights have changed), invalid_code, email_locked, rate_limited
 */
export async function withMemberOfCode<T>(
  deps: Deps,
  typed: TypedCode,
  network: string,
  body: (tx: Db, member: members.MemberRow) => Promise<T>,
): Promise<T> {
  const asked = await findOwn(deps.db, typed)
  const { tenant_id: tenantId, email_key: key } = asked
  await limitAccount(deps, `member email ${tenantId} ${key} ${networkOf(network)}`)
  const hmac = await codeHmac(deps, asked.id, typed.code)
  return deps.db.tx(async (tx) => {
    const now = deps.now()
    await store.lockAddress(tx, { tenantId, key })
    const row = await findOwn(tx, typed)
    await requireRightCode(now, row, hmac, 'code', {
      refuse: () => refuseExhausted(tx, now, { tenantId, key }, 'answer'),
      countWrong: (ends) => store.countWrong(tx, row, ends, now),
    })
    const member = row.member_id === null ? undefined : await members.lockMember(tx, tenantId, row.member_id)
    const issuedAt = new Date(row.expires_at.getTime() - CODE_MS)
    const counts = isReached(member, issuedAt) && member.email_key === key
    if (!counts || !(await store.isOn(tx, tenantId, 'email_code'))) throw refuse('challenge_expired')
    await store.endCode(tx, row, now)
    return body(tx, member)
  })
}
