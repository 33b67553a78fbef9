import { expect } from 'vitest'
import type { Answer } from './harness.ts'

/** The specification's section 7. */
export const STATUSES = [200, 201, 400, 401, 403, 404, 409, 410, 429, 500]

/** That an answer is the error envelope, whole and nothing beside it, with this status and code. */
export function expectError(answer: Answer, status: number, code: string, what = ''): void {
  const context = `${what} → ${answer.status} ${answer.text.slice(0, 300)}`
  expect(`${answer.status} ${answer.body?.code}`, context).toBe(`${status} ${code}`)
  expect(STATUSES, context).toContain(answer.status)
  expect(Object.keys(answer.body), context).toEqual(['error', 'code', 'details'])
  expect(answer.body.error, context).toMatch(/\S/)
  // Every error links to its page.
  expect(answer.body.details.length, context).toBeGreaterThan(0)
  for (const detail of answer.body.details) {
    expect(detail, context).toMatchObject({
      code: expect.stringMatching(/^[a-z_]+$/),
      message: expect.stringMatching(/\S/),
      docs: expect.stringMatching(new RegExp(`^https?://[^/]+/docs/errors/${code}$`)),
    })
  }
  expect(answer.headers.get('content-type'), context).toBe('application/json; charset=utf-8')
  expect(answer.headers.get('x-request-id'), context).toMatch(/^[\x21-\x7e]{1,128}$/)
}

/** The same for a 400, whose details must say what is wrong; answers them. */
// biome-ignore lint/suspicious/noExplicitAny: looked into by path; the contract is what the tests state
export function expectRefusal(answer: Answer, code: string, what = ''): any[] {
  expectError(answer, 400, code, what)
  return answer.body.details
}
