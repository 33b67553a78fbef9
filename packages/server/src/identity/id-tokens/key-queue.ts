import pLimit from 'p-limit'
import type { OfApp } from '../../platform/hooks.ts'

/** Of one tenant, besides the app whose turn it is: the first keys of other tenants' apps do not wait for all of its apps. */
const WAITING_OF_TENANT_MAX = 2
/** Of all tenants: some seconds of work. */
const WAITING_MAX = 50
/** How long a call waits: its key may still be made afterwards, for the repeat. */
const WAIT_MS = 5_000

interface Entry {
  tenantId: string
  calls: number
  begun: boolean
  /** Resolves to false if all calls gave up before its turn. */
  done: Promise<boolean>
}

/**
 * Makes first keys of apps: one at a time in a process, because everybody who reads key sets can cause it and it shares its
 * threads with other work; once for all calls that wait for the same app; and what nobody waits for any more not at all.
 */
export function createKeyQueue(waitMs = WAIT_MS) {
  const entries = new Map<string, Entry>()
  const runAlone = pLimit(1)

  const isFull = (tenantId: string) => {
    const waiting = [...entries.values()].filter(({ begun }) => !begun)
    const own = waiting.filter((entry) => entry.tenantId === tenantId)
    return waiting.length >= WAITING_MAX || own.length >= WAITING_OF_TENANT_MAX
  }

  function add(key: string, tenantId: string, work: () => Promise<unknown>): Entry {
    const entry: Entry = { tenantId, calls: 0, begun: false, done: Promise.resolve(false) }
    const leave = () => {
      if (entries.get(key) === entry) entries.delete(key)
    }
    entry.done = runAlone(async () => {
      if (entry.calls === 0) return false
      entry.begun = true
      await work()
      return true
    }).finally(leave)
    entries.set(key, entry)
    return entry
  }

  /** Null if it takes too long. A call that waits no more takes its app out of the queue, unless another one waits for it. */
  async function waitFor(key: string, entry: Entry): Promise<true | null> {
    entry.calls += 1
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<null>((resolve) => {
      timer = setTimeout(resolve, waitMs, null)
    })
    try {
      return (await Promise.race([entry.done, late])) || null
    } finally {
      clearTimeout(timer)
      entry.calls -= 1
      if (entry.calls === 0 && !entry.begun && entries.get(key) === entry) entries.delete(key)
    }
  }

  return {
    /** Waits until `work` has run for the app, by this call or another. Null where too many wait, or for too long. */
    async run({ tenantId, appId }: OfApp, work: () => Promise<unknown>): Promise<true | null> {
      const key = `${tenantId} ${appId}`
      const known = entries.get(key)
      if (known === undefined && isFull(tenantId)) return null
      return waitFor(key, known ?? add(key, tenantId, work))
    },
  }
}
