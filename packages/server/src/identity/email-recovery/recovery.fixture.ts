import { expect } from 'vitest'
import { newAuthenticator, ORIGIN, register } from '../../../test/harness/authenticator.ts'
import type { Answer, CallOptions } from '../../../test/harness/harness.ts'
import type { ReceivedMail } from '../../../test/harness/smtp-server.ts'
import { type EmailApp, type MailingService, newEmailApp } from '../email-sign-in/email.fixture.ts'
import { type Person, personOf } from '../sessions/sessions.fixture.ts'

export const HOUR_MS = 3_600_000
const ORIGIN_HEADER = { origin: ORIGIN }

/** An app whose users recover their account by email. */
export interface RecoveryApp extends EmailApp {
  /** Proves the mailbox with a new code. */
  recover(email: string, options?: CallOptions): Promise<Answer>
  /** An account with a confirmed address and a passkey, in the session of the passkey. */
  account(email: string): Promise<Account>
  /** The same with a recovery that was requested and told of. */
  requested(email: string): Promise<Account & { recoveryId: string; availableAt: string; notice: ReceivedMail }>
  /** Lets the wait of a recovery pass, with its reminder. */
  wait(email: string, hours?: number): Promise<ReceivedMail>
  /** Registers a new passkey by what a ready recovery returned. */
  complete(registration: Answer['body'], options?: CallOptions): Promise<Answer>
}

interface Account {
  email: string
  person: Person
  authenticator: ReturnType<typeof newAuthenticator>
}

export async function newRecoveryApp(mailing: MailingService, emailRecovery: object = {}): Promise<RecoveryApp> {
  const { service, smtp } = mailing
  const app = await newEmailApp(mailing)
  const { tenant, key } = app
  const set = await tenant.patch(`/apps/${tenant.appId}`, { emailRecovery: { enabled: true, ...emailRecovery } })
  expect(set.status, set.text).toBe(200)
  const self: RecoveryApp = {
    ...app,
    async recover(email, options = {}) {
      const { challengeId, code } = await app.ask(email, { purpose: 'recovery' })
      return tenant.post('/auth/email/recovery', { challengeId, code }, { key, ...options })
    },
    async account(email) {
      const signedIn = await app.signIn(email)
      const who = { userId: signedIn.user.id, appId: signedIn.user.appId }
      const weak = personOf(service.url, key, who, signedIn)
      const authenticator = newAuthenticator()
      const added = await register({ url: service.url, key }, {}, { authenticator, headers: weak.bearer })
      expect(added.status, added.text).toBe(200)
      return { email, authenticator, person: personOf(service.url, key, who, added.body.data) }
    },
    async requested(email) {
      const account = await self.account(email)
      const answer = await self.recover(email)
      expect(answer.status, answer.text).toBe(200)
      const { recovery, registration } = answer.body.data
      expect(recovery.status).toBe('pending')
      expect(registration).toBeNull()
      const notice = await smtp.next(email)
      return { ...account, recoveryId: recovery.id, availableAt: recovery.availableAt, notice }
    },
    async wait(email, hours = 72) {
      service.advance((hours - 13) * HOUR_MS)
      service.deps.wake.tasks()
      const reminder = await smtp.next(email)
      service.advance(13 * HOUR_MS)
      return reminder
    },
    async complete(registration, options = {}) {
      const authenticator = newAuthenticator()
      const credential = authenticator.create(registration.publicKey)
      const body = { challengeId: registration.challengeId, credential }
      return tenant.post('/auth/passkey/register-verify', body, { key, headers: ORIGIN_HEADER, ...options })
    },
  }
  return self
}

/** The token in the link of a notice. */
export const cancelTokenIn = (mail: ReceivedMail): string =>
  /#cancel_recovery=(\S+)/.exec(mail.parts['text/plain'] as string)?.[1] as string

/** The status of a user's newest recovery, for a developer. */
export async function latest({ tenant }: RecoveryApp, userId: string) {
  const answer = await tenant.get(`/users/${userId}/recoveries`)
  expect(answer.status, answer.text).toBe(200)
  return answer.body.data[0]
}
