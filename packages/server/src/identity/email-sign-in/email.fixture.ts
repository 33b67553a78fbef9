import { expect } from 'vitest'
import {
  type Answer,
  type CallOptions,
  type Service,
  startService,
  type Tenant,
} from '../../../test/harness/harness.ts'
import { type ReceivedMail, type SmtpServer, startSmtpServer } from '../../../test/harness/smtp-server.ts'

/** A service that sends emails through a mail server of its own. */
export interface MailingService {
  service: Service
  smtp: SmtpServer
  stop(): Promise<void>
}

export const FROM = 'no-reply@halfkey.example'

export async function startMailing(settings: Record<string, string> = {}): Promise<MailingService> {
  const smtp = await startSmtpServer()
  const service = await startService({ HALFKEY_SMTP_URL: smtp.url, HALFKEY_MAIL_FROM: FROM, ...settings })
  return {
    service,
    smtp,
    async stop() {
      await service.stop()
      await smtp.close()
    },
  }
}

/** The code in an email. */
export const codeIn = (mail: ReceivedMail): string => /^\d{6}$/m.exec(mail.parts['text/plain'] as string)?.[0] as string

/** Six digits that are not the code. */
export const wrongFor = (code: string, by = 1): string => String((Number(code) + by) % 1_000_000).padStart(6, '0')

/** An app whose users sign in by email, as a page sees it. */
export interface EmailApp {
  tenant: Tenant
  /** A publishable key. */
  key: string
  start(email: string, more?: object, options?: CallOptions): Promise<Answer>
  verify(challengeId: string, code: string, more?: object, options?: CallOptions): Promise<Answer>
  /** Asks for a code and waits for its email. */
  ask(
    email: string,
    more?: object,
    options?: CallOptions,
  ): Promise<{ challengeId: string; code: string; mail: ReceivedMail }>
  /** Signs in, and must succeed. */
  // biome-ignore lint/suspicious/noExplicitAny: looked into by path; the contract is what the tests state
  signIn(email: string): Promise<any>
}

/** A new tenant's default app, with these settings of emails. */
export async function newEmailApp({ service, smtp }: MailingService, email: object = {}): Promise<EmailApp> {
  const tenant = await service.newTenant()
  const answer = await tenant.patch(`/apps/${tenant.appId}`, { name: 'Shop', email: { enabled: true, ...email } })
  expect(answer.status, answer.text).toBe(200)
  const key = await tenant.newKey({ publishable: true })
  const app: EmailApp = {
    tenant,
    key,
    start: (address, more = {}, options = {}) =>
      tenant.post('/auth/email/start', { email: address, ...more }, { key, ...options }),
    verify: (challengeId, code, more = {}, options = {}) =>
      tenant.post('/auth/email/verify', { challengeId, code, ...more }, { key, ...options }),
    async ask(address, more, options) {
      const started = await app.start(address, more, options)
      expect(started.status, started.text).toBe(200)
      const mail = await smtp.next(address.trim())
      return { challengeId: started.body.data.challengeId, code: codeIn(mail), mail }
    },
    async signIn(address) {
      const { challengeId, code } = await app.ask(address)
      const signedIn = await app.verify(challengeId, code)
      expect(signedIn.status, signedIn.text).toBe(200)
      return signedIn.body.data
    },
  }
  return app
}
