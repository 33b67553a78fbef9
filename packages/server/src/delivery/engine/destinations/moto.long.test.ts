import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { verifyWebhook } from '../../../../../sdk/src/webhooks.ts'
import { eventually, type Service, startService } from '../../../../test/harness/harness.ts'
import { hasMoto, Moto } from '../../../../test/harness/moto.ts'
import { newId } from '../../../platform/ids.ts'
import { newType, ok } from '../../events/own-events.fixture.ts'
import { createUser, deliveriesIn } from '../delivery.fixture.ts'
import { describeConformance } from './conformance.fixture.ts'
import { onQueue, STAGES, type Stage } from './stage.fixture.ts'

const WHY = hasMoto ? '' : ' (skipped: moto is not installed in .cache/moto, see .ci/run)'

describe.skipIf(!hasMoto)(`with moto${WHY}`, () => {
  let moto: Moto
  let service: Service
  beforeAll(async () => {
    moto = await Moto.start()
    service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1h' })
  })
  afterAll(async () => {
    await service.stop()
    await moto.stop()
  })

  describeConformance('SQS', () => STAGES.sqs(moto))
  describeConformance('S3', () => STAGES.s3(moto))

  /** What a test delivery to a changed destination answers. */
  async function attemptAt({ target }: Stage, change: object) {
    const tenant = await service.newTenant()
    const { destination } = target as { destination: object }
    const body = { destination: { ...destination, ...change }, events: ['user.created'] }
    const { id } = ok(await tenant.post('/webhooks', body), 201)
    return ok(await tenant.post(`/webhooks/${id}/test`)).attempts[0]
  }

  describe.concurrent('what Amazon answers is told in plain words', () => {
    test.each([
      [
        'another secret',
        { secretAccessKey: 'wrong' },
        403,
        /: the secret access key is wrong \(SignatureDoesNotMatch\)$/,
      ],
      ['an unknown key', { accessKeyId: 'AKIANOBODY' }, 403, /: the access key id is not known \(\w+\)$/],
    ])('%s', async (_, change, statusCode, error) => {
      for (const open of [STAGES.sqs, STAGES.s3]) {
        const stage = await open(moto)
        await using _front = stage.front
        expect(await attemptAt(stage, change)).toMatchObject({ statusCode, error: expect.stringMatching(error) })
      }
    })

    test('a queue or bucket that does not exist', async () => {
      const queue = await STAGES.sqs(moto)
      await using front = queue.front
      expect(await attemptAt(queue, { queueUrl: `${front.url}/123456789012/none` })).toMatchObject({
        statusCode: 400,
        error: 'status 400: the queue does not exist (QueueDoesNotExist)',
      })
      const bucket = await STAGES.s3(moto)
      await using _front = bucket.front
      expect(await attemptAt(bucket, { bucket: 'no-such-bucket' })).toMatchObject({
        statusCode: 404,
        error: 'status 404: the bucket does not exist (NoSuchBucket)',
      })
    })
  })

  test('a message carries the headers of a webhook as attributes, which the SDK verifies', async () => {
    const name = newId('job')
    const stage = await onQueue(moto, name)
    await using _front = stage.front
    const tenant = await service.newTenant()
    const { id, secret } = ok(await tenant.post('/webhooks', { ...stage.target, events: ['user.created'] }), 201)
    const userId = await createUser(tenant)
    await deliveriesIn(tenant, id, 'succeeded')
    const { Messages } = await moto.sqs('ReceiveMessage', {
      QueueUrl: `${moto.url}/123456789012/${name}`,
      MessageAttributeNames: ['All'],
    })
    const [{ Body, MessageAttributes }] = Messages
    const attributes: Record<string, string> = Object.fromEntries(
      Object.entries<{ StringValue: string }>(MessageAttributes).map(([key, { StringValue }]) => [key, StringValue]),
    )
    expect(attributes).toMatchObject({ 'content-type': 'application/json', 'event-type': 'user.created' })
    expect(await verifyWebhook(Body, attributes, secret)).toMatchObject({ type: 'user.created', data: { userId } })
  })

  test('in a FIFO queue the ordering key is the group, and an event without one has its own', async () => {
    const name = `${newId('job')}.fifo`
    const stage = await onQueue(moto, name)
    await using _front = stage.front
    const tenant = await service.newTenant()
    await newType(tenant, 'acme.step')
    const { id } = ok(await tenant.post('/webhooks', { ...stage.target, events: ['acme.*'] }), 201)
    const long = 'ü'.repeat(200)
    for (const more of [{ orderingKey: 'order-1' }, { orderingKey: 'order-1' }, { orderingKey: long }, {}])
      ok(await tenant.post('/events', { type: 'acme.step', data: {}, ...more }), 201)
    await deliveriesIn(tenant, id, 'succeeded', 4)
    const found = new Map<string, { group: string; deduplication: string }>()
    await eventually('all messages', async () => {
      const { Messages = [] } = await moto.sqs('ReceiveMessage', {
        QueueUrl: `${moto.url}/123456789012/${name}`,
        AttributeNames: ['All'],
        MaxNumberOfMessages: 10,
        VisibilityTimeout: 0,
      })
      for (const { Body, Attributes } of Messages)
        found.set(JSON.parse(Body).id, {
          group: Attributes.MessageGroupId,
          deduplication: Attributes.MessageDeduplicationId,
        })
      return found.size === 4
    })
    for (const { deduplication } of found.values()) expect(deduplication).toMatch(/^dlv_\w+-0$/)
    const groups = [...found].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, { group }]) => group)
    const last = [...found.keys()].toSorted().at(-1)
    expect(groups).toEqual(['order-1', 'order-1', expect.stringMatching(/^[0-9a-f]{64}$/), last])
  })
})
