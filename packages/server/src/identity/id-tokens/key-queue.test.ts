import { describe, expect, test } from 'vitest'
import type { OfApp } from '../../platform/hooks.ts'
import { newId } from '../../platform/ids.ts'
import { createKeyQueue } from './key-queue.ts'

const FOREVER_MS = 2 ** 30

/** Work that lasts until it is told to end, and counts how often and how much at once it ran. */
function slowWork() {
  const { promise, resolve } = Promise.withResolvers<void>()
  const counts = { runs: 0, now: 0, most: 0 }
  const work = async () => {
    counts.runs += 1
    counts.now += 1
    counts.most = Math.max(counts.most, counts.now)
    await promise
    counts.now -= 1
  }
  return { work, counts, end: resolve }
}

const appOf = (tenantId = newId('ten')): OfApp => ({ tenantId, appId: newId('app') })

describe('first keys of apps', () => {
  test('are made one at a time, and once for all that wait for the same app', async () => {
    const { run } = createKeyQueue(FOREVER_MS)
    const { work, counts, end } = slowWork()
    const [one, two] = [appOf(), appOf()]
    const calls = [one, two, one, two, one].map((of) => run(of, work))
    end()
    expect(await Promise.all(calls)).toEqual([true, true, true, true, true])
    expect(counts).toEqual({ runs: 2, now: 0, most: 1 })
  })

  test('of one tenant leave room for those of others: the third that waits is refused', async () => {
    const { run } = createKeyQueue(FOREVER_MS)
    const { work, counts, end } = slowWork()
    const tenantId = newId('ten')
    const calls = [run(appOf(tenantId), work)]
    await expect.poll(() => counts.runs).toBe(1)
    calls.push(run(appOf(tenantId), work), run(appOf(tenantId), work))
    expect(await run(appOf(tenantId), work)).toBeNull()
    calls.push(run(appOf(), work))
    end()
    expect(await Promise.all(calls)).toEqual([true, true, true, true])
    expect(counts.runs).toBe(4)
    expect(await run(appOf(tenantId), work)).toBe(true)
  })

  test('are not made for those who gave up, whose places are free at once', async () => {
    const { run } = createKeyQueue(1)
    const { work, counts, end } = slowWork()
    const tenantId = newId('ten')
    expect(await run(appOf(tenantId), work)).toBeNull()
    expect(counts.runs).toBe(1)
    for (let n = 0; n < 5; n += 1)
      expect(await Promise.all([run(appOf(tenantId), work), run(appOf(tenantId), work)])).toEqual([null, null])
    end()
    await expect.poll(() => counts.now).toBe(0)
    expect(await run(appOf(tenantId), async () => {})).toBe(true)
    expect(counts.runs).toBe(1)
  })

  test('fail for all that wait for them, and are tried again by the next call', async () => {
    const { run } = createKeyQueue(FOREVER_MS)
    const of = appOf()
    const failing = () => Promise.reject(new Error('no key service'))
    const results = await Promise.allSettled([run(of, failing), run(of, failing)])
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect(await run(of, async () => {})).toBe(true)
  })
})
