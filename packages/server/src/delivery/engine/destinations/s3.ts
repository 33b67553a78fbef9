import { createHash } from 'node:crypto'
import type { Deps } from '../../../platform/deps.ts'
import { idMs } from '../../../platform/ids.ts'
import type { S3Destination } from '../options/options.ts'
import { callAws } from './aws.ts'
import type { Destination, Outgoing, Sent } from './destination.ts'

const WINDOW_MS = 1_000
/** The most of a send's time that may pass before the object is written. */
const WINDOW_SHARE = 0.5
/** A sixteenth of what one tenant may have on its way in a process: see `dispatch.ts`. */
const BATCH_EVENTS_MAX = 64
const BATCH_BYTES_MAX = 5 * 1024 * 1024

/** Deliveries that become one object. */
interface Batch {
  outgoing: Outgoing[]
  bytes: number
  /** Ends the wait for more. */
  close(): void
  written: Promise<Sent>
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

/** `/2026/11/21/08`: the hour of a batch's first event. */
const hourOf = (deliveryId: string) => new Date(idMs(deliveryId)).toISOString().slice(0, 13).replace(/[-T]/g, '/')

/**
 * An S3-compatible bucket: deliveries that are due at the same time become one object, with a line for each. Its name
 * follows from the ids of the deliveries, so that the same batch is the same object at every attempt.
 */
export function createBucket(deps: Pick<Deps, 'egress'>, destination: S3Destination): Destination {
  let open: Batch | null = null

  async function write(outgoing: readonly Outgoing[], waitedMs: number): Promise<Sent> {
    const sorted = outgoing.toSorted((a, b) => (a.deliveryId < b.deliveryId ? -1 : 1))
    const [first] = sorted as [Outgoing, ...Outgoing[]]
    const id = sha256(sorted.map(({ deliveryId }) => deliveryId).join()).slice(0, 32)
    const body = sorted.map((each) => `${each.body}\n`).join('')
    const result = await callAws(deps, destination, {
      service: 's3',
      url: `${first.url}/${hourOf(first.deliveryId)}/${id}.jsonl`,
      headers: { 'content-type': 'application/x-ndjson', 'x-amz-content-sha256': sha256(body) },
      body,
      timeoutMs: Math.max(1, first.timeoutMs - waitedMs),
      nowMs: first.nowMs + waitedMs,
    })
    const batch = { id, max: BATCH_EVENTS_MAX }
    // S3 confirms an object with an empty response. A page comes from something else.
    if (result.ok && (result.responseSnippet ?? '').trim() !== '')
      return { ...result, ok: false, error: 'the response is not one of Amazon S3', batch }
    return { ...result, batch }
  }

  function begin(timeoutMs: number): Batch {
    const beganAt = performance.now()
    const closed = Promise.withResolvers<void>()
    const timer = setTimeout(() => batch.close(), Math.min(WINDOW_MS, timeoutMs * WINDOW_SHARE))
    const batch: Batch = {
      outgoing: [],
      bytes: 0,
      close() {
        clearTimeout(timer)
        if (open === batch) open = null
        closed.resolve()
      },
      written: closed.promise.then(() => write(batch.outgoing, Math.round(performance.now() - beganAt))),
    }
    return batch
  }

  return {
    send(outgoing) {
      const bytes = Buffer.byteLength(outgoing.body) + 1
      if (open !== null && open.bytes + bytes > BATCH_BYTES_MAX) open.close()
      open ??= begin(outgoing.timeoutMs)
      const batch = open
      batch.outgoing.push(outgoing)
      batch.bytes += bytes
      // While no more may be on their way, waiting brings no more.
      if (batch.outgoing.length >= Math.min(BATCH_EVENTS_MAX, outgoing.atOnce)) batch.close()
      return batch.written
    },
  }
}
