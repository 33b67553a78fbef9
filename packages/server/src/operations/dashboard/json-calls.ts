import { type ErrorDetail, fail, invalid } from '../../platform/http/errors.ts'
import { parseJson } from '../../platform/http/json.ts'
import type { PlainAnswer, PlainRequest } from '../../platform/http/route.ts'

/** Where the dashboard's calls go, and how they are limited. */
export const DASHBOARD_CALLS = { base: '/dashboard/api', limit: 'secret' } as const

/** An answer to the page, which nobody keeps. */
export const answer = (body: string, headers: Record<string, string>): PlainAnswer => ({
  status: 200,
  contentType: 'application/json; charset=utf-8',
  headers: { 'cache-control': 'no-store', ...headers },
  body,
})

/**
 * JSON alone: what other pages can send without asking first, a form's body, is refused before it is looked at.
 * @throws unsupported_media_type, validation_failed
 */
export function readJson<T>(
  { headers, body }: PlainRequest,
  check: (value: unknown, bytes: number) => ErrorDetail[],
): T {
  const type = String(headers['content-type'] ?? '').split(';', 1)[0]
  if (type?.trim().toLowerCase() !== 'application/json')
    throw fail('unsupported_media_type', [
      { field: 'content-type', code: 'unsupported_media_type', message: 'Must be application/json.' },
    ])
  if (body.length === 0) throw invalid('body', 'Send a JSON object.', 'required')
  const value = parseJson(body)
  const [wrong, ...more] = check(value, body.length)
  if (wrong !== undefined) throw fail('validation_failed', [wrong, ...more])
  return value as T
}
