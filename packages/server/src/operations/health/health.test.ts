import { afterAll, beforeAll, expect, test } from 'vitest'
import { call, eventually, type Service, startService } from '../../../test/harness/harness.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const ready = () => call(service.url, 'GET', '/readyz')
const lookedAt = async () => (await ready()).body.data.checks[0].checkedAt as string

test('a hundred probes at once are answered by few looks at the database, and a later one by a new look', async () => {
  const times = await Promise.all(Array.from({ length: 100 }, lookedAt))
  expect(new Set(times).size).toBeLessThan(20)
  await eventually('a new look', async () => !times.includes(await lookedAt()), 2_000)
})

test('a process that begins to stop is not ready at once, whatever was found before', async () => {
  expect((await ready()).status).toBe(200)
  service.deps.lifecycle.draining = true
  const answer = await ready()
  service.deps.lifecycle.draining = false
  expect([answer.status, answer.body.code]).toEqual([503, 'not_ready'])
  expect(answer.body.details.map((each: { name: string }) => each.name)).toEqual(['shutdown'])
})
