import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Service, startService } from '../../../../test/harness/harness.ts'
import { ok } from '../../events/own-events.fixture.ts'
import { STAGES } from './stage.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1h', HALFKEY_WEBHOOK_TIMEOUT: '2s' })
})
afterAll(() => service.stop())

/** The attempt of a test event that the queue answers like this. */
async function attemptAnswered(status: number, body: string | ((secret: string) => string)) {
  const stage = await STAGES.sqs(null)
  await using front = stage.front
  const tenant = await service.newTenant()
  const { id } = ok(await tenant.post('/webhooks', { ...stage.target, events: ['user.created'] }), 201)
  front.script.push({ status, body: typeof body === 'string' ? body : body(stage.secret as string) })
  const tested = ok(await tenant.post(`/webhooks/${id}/test`))
  return { status: tested.status, ...tested.attempts[0] }
}

const typed = (type: string) => JSON.stringify({ __type: type, message: 'why' })

describe.concurrent('an SQS queue', () => {
  test.each([
    ['RequestThrottled', 'too many requests (RequestThrottled)'],
    ['com.amazonaws.sqs#QueueDoesNotExist', 'the queue does not exist (QueueDoesNotExist)'],
    ['AWS.SimpleQueueService.NonExistentQueue', 'the queue does not exist (NonExistentQueue)'],
    ['com.amazon.coral.service#InvalidMessageContents', 'InvalidMessageContents'],
    ['AccessDeniedException', 'these credentials are not allowed to write here (AccessDeniedException)'],
  ])('says what the answer %s means', async (type, words) => {
    const attempt = await attemptAnswered(400, typed(type))
    expect(attempt).toMatchObject({ statusCode: 400, error: `status 400: ${words}`, responseSnippet: typed(type) })
  })

  test.each([
    ['no JSON', 400, '<html>no</html>'],
    ['a code that is none', 400, JSON.stringify({ __type: '<script>' })],
    ['nothing', 503, ''],
  ])('an error with %s is told by its status', async (_, status, body) => {
    expect(await attemptAnswered(status, body)).toMatchObject({ error: `status ${status}`, responseSnippet: body })
  })

  test.each([
    ['nothing', ''],
    ['a page', '<html>Welcome</html>'],
    ['null', 'null'],
    ['other JSON', '{"ok":true}'],
  ])('a 200 with %s is no confirmation', async (_, body) => {
    expect(await attemptAnswered(200, body)).toMatchObject({
      status: 'failed',
      statusCode: 200,
      error: 'the response is not one of Amazon SQS',
    })
  })

  test('a response that repeats the secret is stored without it, also escaped', async () => {
    const attempt = await attemptAnswered(403, (secret) => JSON.stringify({ secret }).replaceAll('/', '\\/'))
    expect(attempt.responseSnippet).toBe('{"secret":"[redacted]"}')
  })
})
