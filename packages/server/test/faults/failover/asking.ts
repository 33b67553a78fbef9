import { call, eventually } from '../../harness/harness.ts'

const PAUSE_MS = 20

/** Writes through each API process, one call after the other, until each has answered after a given time. */
export async function startAsking(urls: readonly string[], key: string) {
  const made = await call(urls[0] as string, 'POST', '/v1/users', { key, body: { name: 'asked for' } })
  if (made.status !== 201) throw new Error(`no user: ${made.status} ${made.text}`)
  const path = `/v1/users/${made.body.data.id}`
  let over = false
  const answeredAt = urls.map(() => Number.NEGATIVE_INFINITY)
  const loops = urls.map(async (url, at) => {
    for (let n = 0; !over; n++) {
      const body = { name: `asked for ${at} ${n}` }
      const status = await call(url, 'PATCH', path, { key, body }).then(
        (answer) => answer.status,
        () => null,
      )
      if (status === 200) answeredAt[at] = performance.now()
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    }
  })
  return {
    /** Waits for an answer of each process at or after this time, and ends. @returns how long after it the last one came */
    async answeredAfter(sinceMs: number): Promise<number> {
      await eventually('an answer of each process', async () => answeredAt.every((at) => at >= sinceMs))
      const last = Math.max(...answeredAt)
      over = true
      await Promise.all(loops)
      return Math.round(last - sinceMs)
    },
  }
}
