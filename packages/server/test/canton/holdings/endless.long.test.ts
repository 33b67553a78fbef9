// An update whose answer never comes stops nobody, and is made good.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HoldingsScene, startHoldings } from './holdings.fixture.ts'

let scene: HoldingsScene
beforeAll(async () => {
  scene = await startHoldings({ timeoutMs: 1_000 })
})
afterAll(() => scene.stop())

test('an update that is not told in time is passed over after three tries and counted, and read again', async () => {
  const { service, registry, follow, newHolder, sums, amounts } = scene
  const [ada, bob] = [await newHolder(), await newHolder()]
  await service.sql('update token_cursors set begun_at = $1', [service.deps.now()])
  registry.mint(ada.party, '2')
  service.participant.endless.add(service.participant.log.end)
  registry.mint(bob.party, '4')
  await follow()
  expect([await sums(ada), await sums(bob)]).toEqual([{}, { GOLD: '4' }])
  const metric = service.deps.metrics.registry.getSingleMetric('halfkey_token_updates_skipped_total')
  expect((await metric?.get())?.values).toContainEqual({ labels: { reason: 'timeout' }, value: 1 })
  service.participant.endless.clear()
  service.advance(600_000)
  await follow()
  expect([await sums(ada), await amounts(ada), await amounts(bob)]).toEqual([{ GOLD: '2' }, ['2'], ['4']])
})
