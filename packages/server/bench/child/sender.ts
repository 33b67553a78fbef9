// The raw limit of deliveries: bare undici posts the same bytes with the same signatures, without a database.
import { Pool } from 'undici'
import { newEvent } from '../../src/platform/events/events.ts'
import { newId } from '../../src/platform/ids.ts'
import { signatureHeaders, signingKey } from '../../src/platform/security/webhook-signature.ts'
import { serveCalls } from './serve-calls.ts'

export interface Sending {
  ports: number[]
  /** Requests at once to each port. */
  concurrency: number
  forMs: number
}

export interface Sent {
  count: number
  failed: number
  perSecond: number
}

const key = signingKey(`whsec_${Buffer.alloc(32, 7).toString('base64')}`)
const tenantId = newId('ten')
const appId = newId('app')

async function postOne(pool: Pool): Promise<boolean> {
  const userId = newId('usr')
  const data = {
    userId,
    email: 'emitted-1000@example.com',
    partyId: `${userId}::1220123087e6bf66d225d047e6af8b0944bc50cc470cb46afd9515a558bf55605441`,
  }
  const event = newEvent(new Date(), { tenantId, appId, type: 'user.created', data })
  const headers = signatureHeaders(event.id, event.body, key, null, Math.floor(Date.now() / 1000))
  headers['user-agent'] = 'Halfkey-Webhooks/1'
  headers['accept-encoding'] = 'identity'
  const answer = await pool.request({ path: '/raw', method: 'POST', headers, body: event.body })
  await answer.body.text()
  return answer.statusCode === 200
}

async function send({ ports, concurrency, forMs }: Sending): Promise<Sent> {
  const pools = ports.map((port) => new Pool(`http://127.0.0.1:${port}`, { connections: concurrency, allowH2: false }))
  let count = 0
  let failed = 0
  const startedAt = performance.now()
  const loop = async (pool: Pool) => {
    while (performance.now() - startedAt < forMs) {
      if (await postOne(pool).catch(() => false)) count += 1
      else failed += 1
    }
  }
  await Promise.all(pools.flatMap((pool) => Array.from({ length: concurrency }, () => loop(pool))))
  const perSecond = (count / (performance.now() - startedAt)) * 1000
  await Promise.all(pools.map((pool) => pool.close()))
  return { count, failed, perSecond }
}

serveCalls({ send })
