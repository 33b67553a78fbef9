import { call } from '../../harness/harness.ts'
import { BOB, type Scene, transfer } from '../scene.ts'

const LANES = 4
const PAUSE_AFTER_FAILURE_MS = 20

/** Spends a session's holdings through several API processes. A call without an outcome is made again, under its command id. */
export function startSpending(urls: readonly string[], key: string, scene: Scene) {
  const acknowledged = new Set<string>()
  const refused = new Set<string>()
  let next = 0
  let turn = 0

  /** Until it has an outcome. */
  async function pay(body: { commandId: string }): Promise<void> {
    for (;;) {
      const url = urls[turn++ % urls.length] as string
      const answer = await call(url, 'POST', `/v1${scene.path}`, { key, body }).catch(() => null)
      const code: string | undefined = answer?.body?.code
      if (answer?.status === 200 && answer.body.data.status === 'completed') {
        acknowledged.add(body.commandId)
        return
      }
      if (answer !== null && answer.status !== 200 && answer.status < 500) {
        refused.add(code ?? answer.text)
        return
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_AFTER_FAILURE_MS))
    }
  }

  return {
    acknowledged,
    /** The codes of final refusals. */
    get refused(): string[] {
      return [...refused]
    },
    /** Makes the next payments, a few at once, each of one holding. */
    async run(count: number): Promise<void> {
      const left = scene.ids.slice(next, next + count).map((id, at) => ({
        commandId: `payment-${next + at}`,
        commands: [transfer(id, undefined, BOB)],
      }))
      next += count
      const lane = async () => {
        for (let body = left.shift(); body !== undefined; body = left.shift()) await pay(body)
      }
      await Promise.all(Array.from({ length: LANES }, lane))
    },
  }
}
