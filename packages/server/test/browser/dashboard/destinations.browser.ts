import { expect, test, vi } from 'vitest'
import { eventually } from '../../harness/harness.ts'
import { answer } from '../../harness/receiver.ts'
import { useWebhookTests } from './webhooks.fixture.ts'

// Each state is looked at four times.
vi.setConfig({ testTimeout: 240_000 })

const { newTenant, newReceiver, open } = useWebhookTests()

const SECRET = 's3cr3t-of-the-cloud-account'

test('a queue is registered, listed, tested and given new credentials; its secret is never shown', async () => {
  const tenant = await newTenant()
  const receiver = await newReceiver(answer(200, '{"MessageId":"1"}'))
  const queueUrl = `${receiver.url}/123456789012/events`
  const { page, look } = await open(tenant, '/webhooks?register=1')
  await page.getByLabel('Send to').click()
  await page.getByRole('option', { name: 'Amazon SQS queue' }).click()
  await page.getByLabel('Queue URL').fill('https://10.0.0.1/123456789012/events')
  await page.getByLabel('Region').fill('eu-central-1')
  await page.getByLabel('Access key id').fill('AKIAIOSFODNN7EXAMPLE')
  await page.getByLabel('Secret access key').fill(SECRET)
  await page.getByRole('checkbox', { name: 'All events' }).click()
  await look('webhook-register-queue')
  await page.getByRole('dialog').getByRole('button', { name: 'Register' }).click()
  await eventually(
    'the URL is refused',
    async () => (await page.getByLabel('Queue URL').getAttribute('aria-invalid')) === 'true',
  )
  await page.getByLabel('Queue URL').fill(queueUrl)
  await page.getByRole('dialog').getByRole('button', { name: 'Register' }).click()
  await page.getByRole('heading', { name: 'Signing secret' }).waitFor()
  expect(await page.getByText('Example receiver').count()).toBe(0)
  const [made] = (await tenant.get('/webhooks')).body.data
  expect(made.destination).toMatchObject({ type: 'sqs', queueUrl, accessKeyId: 'AKIAIOSFODNN7EXAMPLE' })
  expect(await page.content()).not.toContain(SECRET)

  await page.goto(page.url().replace(/\/webhooks.*/, '/webhooks'))
  await page.getByRole('link', { name: `SQS ${queueUrl}` }).waitFor()
  await look('webhooks-queue')
  await page.getByRole('link', { name: `SQS ${queueUrl}` }).click()
  await page.getByText('Amazon SQS queue in eu-central-1').waitFor()
  await page.getByRole('tab', { name: 'Settings' }).click()
  await page.getByRole('button', { name: 'Save credentials' }).waitFor()
  expect(await page.getByLabel('URL', { exact: true }).count()).toBe(0)
  expect(await page.getByText('Headers, OAuth and a client certificate.').count()).toBe(0)
  await look('webhook-queue-settings')
  await page.getByLabel('Access key id').fill('AKIANEW')
  await page.getByLabel('Secret access key').fill(`new-${SECRET}`)
  await page.getByRole('button', { name: 'Save credentials' }).click()
  await page.getByText('Credentials saved', { exact: true }).first().waitFor()
  expect((await tenant.get(`/webhooks/${made.id}`)).body.data.destination).toEqual({
    ...made.destination,
    accessKeyId: 'AKIANEW',
  })
  await tenant.post(`/webhooks/${made.id}/test`)
  const sent = await receiver.until('the message', ({ event }) => event.QueueUrl === queueUrl)
  expect(sent.headers.authorization).toContain('Credential=AKIANEW/')
  expect(await page.content()).not.toContain(SECRET)
})
