// Requests per second through the guard against bare undici, to a local receiver in a process of its own.
// node packages/server/bench/egress.ts [rounds] [requests per round] [concurrent]
import { fork } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { Pool } from 'undici'
import { createEgress } from '../src/platform/egress/egress.ts'

const BODY = JSON.stringify({ id: 'evt_1', type: 'user.created', data: { name: 'x'.repeat(400) } })
const HEADERS = {
  'content-type': 'application/json',
  'x-service-event-id': 'evt_1',
  'x-service-timestamp': '1790000000',
  'x-service-signature': 'a'.repeat(64),
}

function receive(): void {
  const server = createServer((request, response) => {
    request.resume()
    request.on('end', () => response.end('{"received":true}'))
  })
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
}

/** `cpuMicros` is the sender's own, which the receiver's speed does not hide. */
interface Round {
  perSecond: number
  cpuMicros: number
}

async function measure(requests: number, concurrent: number, send: () => Promise<unknown>): Promise<Round> {
  let left = requests
  const cpuBefore = process.cpuUsage()
  const startedAt = performance.now()
  await Promise.all(
    Array.from({ length: concurrent }, async () => {
      while (left-- > 0) await send()
    }),
  )
  const { user, system } = process.cpuUsage(cpuBefore)
  return { perSecond: (requests / (performance.now() - startedAt)) * 1_000, cpuMicros: (user + system) / requests }
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}

async function main(): Promise<void> {
  const [rounds = 9, requests = 15_000, concurrent = 64] = process.argv.slice(2).map(Number)
  const receiver = fork(fileURLToPath(import.meta.url), { env: { ...process.env, EGRESS_BENCH_RECEIVER: '1' } })
  const port = await new Promise<number>((resolve) => receiver.once('message', (message) => resolve(Number(message))))
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: concurrent, allowH2: false })
  const egress = createEgress({ allow: [], allowLoopback: true, dnsServers: [] })
  const post = (host: string) => async () => {
    const result = await egress.post({
      url: `http://${host}:${port}/hook`,
      headers: HEADERS,
      body: BODY,
      timeoutMs: 30_000,
    })
    if (!result.ok) throw new Error(result.error ?? 'failed')
  }
  const contenders: Record<string, () => Promise<unknown>> = {
    'undici request': async () => {
      const { body } = await pool.request({ path: '/hook', method: 'POST', headers: HEADERS, body: BODY })
      await body.text()
    },
    'egress, address': post('127.0.0.1'),
    'egress, name': post('localhost'),
  }
  const measured = new Map<string, Round[]>(Object.keys(contenders).map((name) => [name, []]))
  for (let round = -1; round < rounds; round++) {
    // Rotated, because the garbage of one is collected in the time of the next.
    const order = Object.entries(contenders)
    for (const [name, send] of [...order.slice(round % 3), ...order.slice(0, round % 3)]) {
      const result = await measure(requests, concurrent, send)
      // The first round warms up.
      if (round >= 0) measured.get(name)?.push(result)
    }
  }
  const perSecond = (name: string) => median((measured.get(name) ?? []).map((round) => round.perSecond))
  for (const [name, all] of measured) {
    const ratio = perSecond(name) / perSecond('undici request')
    const cpuMicros = median(all.map((round) => round.cpuMicros))
    console.log(
      `${name.padEnd(16)} ${perSecond(name).toFixed(0).padStart(7)} req/s   ratio ${ratio.toFixed(3)}   ${cpuMicros.toFixed(1)} µs CPU each`,
    )
  }
  await Promise.all([egress.close(), pool.close()])
  receiver.kill()
}

if (process.env.EGRESS_BENCH_RECEIVER) receive()
else await main()
