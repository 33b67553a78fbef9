// Calls to the service under test, for what a benchmark prepares.
import { Pool } from 'undici'
import type { Bed, Service } from './service.ts'

interface Target {
  bed: Pick<Bed, 'key'>
  service: Pick<Service, 'port'>
}

const pools = new Map<number, Pool>()

/** One API call. @throws Error for any status that is not 2xx */
export async function call<T>(
  { bed, service }: Target,
  method: 'GET' | 'POST',
  path: string,
  body?: unknown,
): Promise<T> {
  const pool =
    pools.get(service.port) ?? new Pool(`http://127.0.0.1:${service.port}`, { connections: 16, allowH2: false })
  pools.set(service.port, pool)
  const answer = await pool.request({
    method,
    path: `/v1${path}`,
    headers: { 'x-api-key': bed.key, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await answer.body.text()
  if (answer.statusCode >= 300) throw new Error(`${method} ${path}: ${answer.statusCode} ${text}`)
  return JSON.parse(text) as T
}

/** The tenant that the first start made. */
export async function firstTenant(bed: Bed): Promise<{ tenantId: string; appId: string }> {
  const [row] = await bed.sql<{ id: string; app: string }>(
    'select id, default_app_id as app from tenants order by id limit 1',
  )
  if (row === undefined) throw new Error('the service made no tenant')
  return { tenantId: row.id, appId: row.app }
}

/** Does `work` for 0 … n − 1, sixteen at a time. */
export async function forEachOf(n: number, work: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      while (next < n) {
        next += 1
        await work(next - 1)
      }
    }),
  )
}
