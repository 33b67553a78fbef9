import { afterAll, expect, it, type TestContext } from 'vitest'
import { call, eventually } from '../harness/harness.ts'
import { killAll } from '../harness/service-process.ts'
import { startApart } from './apart.ts'
import { report, scale } from './report.ts'

const AT_ONCE = 50
/** How long another process may serve a revoked key. */
const OTHERS_MS = 1_000

afterAll(killAll)

interface Made {
  startedAt: number
  endedAt: number
  status: number
}

it(
  'a key revoked while a hundred calls fly is refused at once here, and by other processes from their first refusal on',
  async (context: TestContext) => {
    const apart = await startApart(context)
    const { api: here, key: admin } = apart
    const there = await apart.start('api')
    let slowestMs = 0
    let acknowledged = 0
    for (let round = 0; round < scale; round++) {
      const made = await here.call(admin, 'POST', '/api-keys', {
        body: { name: 'doomed', type: 'secret', scopes: ['users:read'] },
      })
      const { key, id } = made.body.data
      const calls = { here: [] as Made[], there: [] as Made[] }
      let stopping = false
      const fly = async (url: string, into: Made[]) => {
        while (!stopping) {
          const startedAt = performance.now()
          const { status } = await call(url, 'GET', '/v1/users?page_size=1', { key })
          into.push({ startedAt, endedAt: performance.now(), status })
        }
      }
      const flights = Array.from({ length: AT_ONCE }, () => [
        fly(here.url, calls.here),
        fly(there.url, calls.there),
      ]).flat()
      await eventually('calls in both', async () => calls.here.length > 200 && calls.there.length > 200)
      const revoked = await here.call(admin, 'DELETE', `/api-keys/${id}`)
      const answeredAt = performance.now()
      const after = (all: Made[], at: number) => all.filter(({ startedAt }) => startedAt > at)
      const firstRefusal = () => calls.there.find(({ status }) => status === 401)?.endedAt ?? Number.POSITIVE_INFINITY
      // Both must have been asked after it, or this says nothing.
      await eventually(
        'calls long after',
        async () =>
          after(calls.here, answeredAt).length > AT_ONCE && after(calls.there, firstRefusal()).length > AT_ONCE,
      )
      stopping = true
      await Promise.all(flights)
      expect(revoked.status).toBe(200)
      const served = after(calls.there, answeredAt).filter(({ status }) => status === 200)
      slowestMs = Math.max(slowestMs, ...served.map(({ startedAt }) => Math.round(startedAt - answeredAt)))
      acknowledged += [...calls.here, ...calls.there].filter(({ status }) => status === 200).length
      expect(after(calls.here, answeredAt).filter(({ status }) => status !== 401)).toEqual([])
      expect(after(calls.there, firstRefusal()).filter(({ status }) => status !== 401)).toEqual([])
      expect([...calls.here, ...calls.there].filter(({ status }) => status !== 200 && status !== 401)).toEqual([])
    }
    report(context, {
      fault: `key revoked under 100 calls in two processes × ${scale}: last served by the other after`,
      acknowledged,
      delivered: null,
      lost: null,
      duplicates: null,
      inFlight: 2 * AT_ONCE,
      recoveredMs: slowestMs,
      limitMs: OTHERS_MS,
    })
    for (const process of [here, there]) expect(await process.stop()).toEqual({ code: 0, signal: null })
  },
  120_000 + 5_000 * scale,
)
