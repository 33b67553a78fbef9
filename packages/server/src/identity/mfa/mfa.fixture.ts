import { generate } from 'otplib'
import { expect } from 'vitest'
import type { Answer, Service } from '../../../test/harness/harness.ts'
import type { Person } from '../sessions/sessions.fixture.ts'

const STEP_MS = 30_000
export const MINUTE_MS = 60_000

/** The code that an authenticator app shows now, or so many steps later. By a library that the service does not use. */
export function codeNow(service: Service, secret: string, steps = 0): Promise<string> {
  const epoch = Math.floor(service.deps.now().getTime() / 1000) + steps * 30
  return generate({ secret, epoch })
}

/** Six digits that are no code of this secret anywhere near. */
export async function wrongCode(service: Service, secret: string): Promise<string> {
  const near = await Promise.all([-3, -2, -1, 0, 1, 2, 3].map((steps) => codeNow(service, secret, steps)))
  for (let guess = 0; ; guess += 1) {
    const code = String(guess).padStart(6, '0')
    if (!near.includes(code)) return code
  }
}

/** Moves on to well within the step so many later: what follows is over before the next begins. */
export function moveOn(service: Service, steps: number): void {
  const intoStepMs = service.deps.now().getTime() % STEP_MS
  service.advance(steps * STEP_MS - intoStepMs + STEP_MS / 3)
}

/** What calls for a user: a person's session, or a server that acts for them. */
export type Actor = Pick<Person, 'get' | 'post' | 'delete'>

export interface Enrolled {
  secret: string
  recoveryCodes: string[]
}

/** Sets a second factor up, and moves on to a step whose code has not been used. */
export async function enrol(service: Service, actor: Actor): Promise<Enrolled> {
  const setup = await actor.post('/mfa/setup')
  expect(setup.status, setup.text).toBe(200)
  const { secret } = setup.body.data as { secret: string }
  const verified = await actor.post('/mfa/verify-setup', { code: await codeNow(service, secret) })
  expect(verified.status, verified.text).toBe(200)
  moveOn(service, 2)
  return { secret, recoveryCodes: verified.body.data.recoveryCodes }
}

/** A new challenge. */
export async function challengeOf(actor: Actor): Promise<string> {
  const answer = await actor.post('/mfa/challenge')
  expect(answer.status, answer.text).toBe(200)
  return answer.body.data.challengeId
}

/** Answers a new challenge. */
export async function answerWith(actor: Actor, proof: { code: string } | { recoveryCode: string }): Promise<Answer> {
  return actor.post('/mfa/verify', { challengeId: await challengeOf(actor), ...proof })
}

/** Verifies by a fresh code, and moves on to the next. */
export async function stepUp(service: Service, actor: Actor, { secret }: Pick<Enrolled, 'secret'>): Promise<Answer> {
  const answer = await answerWith(actor, { code: await codeNow(service, secret) })
  expect(answer.status, answer.text).toBe(200)
  moveOn(service, 1)
  return answer
}
