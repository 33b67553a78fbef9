// The palette finds a record by its id, and says so where there is none.
import { expect, test, vi } from 'vitest'
import { newSession, transfers } from '../../../src/delegation/delegated.fixture.ts'
import { createUser, deliveriesIn, subscribe } from '../../../src/delivery/engine/delivery.fixture.ts'
import { eventually } from '../../harness/harness.ts'
import { startReceiver } from '../../harness/receiver.ts'
import { dataOf, withAda } from './custody.fixture.ts'
import { useDashboard } from './support.ts'

vi.setConfig({ testTimeout: 240_000 })

const stage = useDashboard()
const UNKNOWN = '0'.repeat(26)

test('the palette opens the record of any id, and says where nothing has an id', async () => {
  const { tenant, ada } = await withAda(stage.service)
  const receiver = await startReceiver()
  const webhook = await subscribe(tenant, `${receiver.url}/hook`, { events: ['user.created'] })
  await createUser(tenant)
  const [delivery] = await deliveriesIn(tenant, webhook.id, 'succeeded')
  await receiver.close()
  const session = await newSession(stage.service, tenant, ada, { policy: transfers(ada, '10') })
  const [key] = await dataOf(tenant, '/api-keys')
  const entry = await eventually('an entry of the log', async () => (await dataOf(tenant, '/audit-log'))[0])
  const { page, look } = await stage.arrive(tenant)
  const palette = page.getByRole('dialog', { name: 'Search' })
  const type = async (id: string) => {
    await eventually('the palette takes what is typed', async () => {
      if (!(await palette.isVisible())) await page.keyboard.press('Control+k')
      return palette.locator('input:focus').isVisible()
    })
    await palette.locator('input').fill(id)
  }
  const places: [id: string, path: string][] = [
    [ada.walletId, `/wallets/${ada.walletId}`],
    [session.id, `/delegated-sessions/${session.id}`],
    [webhook.id, `/webhooks/${webhook.id}`],
    [delivery.eventId, `/events/${delivery.eventId}`],
    [delivery.id, `/webhooks/${webhook.id}/deliveries/${delivery.id}`],
    [key.id, `/api-keys?key=${key.id}`],
    [entry.id, `/audit-log?entry=${entry.id}`],
  ]
  for (const [id, path] of places) {
    await type(id)
    await palette.getByRole('option', { selected: true, name: id }).waitFor()
    await page.keyboard.press('Enter')
    await page.waitForURL((url) => url.pathname + url.search === `/dashboard${path}`)
    // A dialog over a list would take the keys.
    if (path.includes('?')) await page.getByRole('dialog').getByRole('button', { name: 'Close', exact: true }).click()
  }
  for (const prefix of ['evt', 'dlv', 'tx', 'dom', 'job', 'gst', 'aud', 'zzz']) {
    await type(`${prefix}_${UNKNOWN}`)
    await palette.getByText(`Nothing has the id ${prefix}_${UNKNOWN}.`).waitFor()
    expect(await palette.getByRole('option').count(), prefix).toBe(0)
  }
  await look('palette-unknown-id')
})
