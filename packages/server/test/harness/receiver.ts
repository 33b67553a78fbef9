import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hurry } from './hurry.ts'

/** One delivery as a receiver got it. */
export interface Received {
  path: string
  headers: Record<string, string>
  /** The exact text of the body. */
  body: string
  // biome-ignore lint/suspicious/noExplicitAny: looked into by path; the contract is what the tests state
  event: any
  atMs: number
}

type Behaviour = (received: Received, response: ServerResponse, request: IncomingMessage) => void

export interface Receiver {
  url: string
  received: Received[]
  /** How the next requests are answered. */
  behave(behaviour: Behaviour): void
  /** The first request, past or future, that fits; fails after `timeoutMs`. */
  until(what: string, fits: (received: Received) => boolean, timeoutMs?: number): Promise<Received>
  /** Waits until so many requests that fit have come. */
  count(what: string, n: number, fits?: (received: Received) => boolean, timeoutMs?: number): Promise<Received[]>
  /** The most requests that were open at once. */
  mostAtOnce(): number
  close(): Promise<void>
}

/** Answers with a status and nothing else. */
export function answer(status: number, body = ''): Behaviour {
  return (_, response) => response.writeHead(status).end(body)
}

/** A real HTTP endpoint that keeps everything it gets. */
export async function startReceiver(behaviour: Behaviour = answer(200)): Promise<Receiver> {
  const received: Received[] = []
  const waiting = new Set<() => void>()
  let behave = behaviour
  let open = 0
  let mostAtOnce = 0
  const server = createServer((request, response) => {
    open += 1
    mostAtOnce = Math.max(mostAtOnce, open)
    response.on('close', () => {
      open -= 1
    })
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString()
      const one: Received = {
        path: request.url ?? '',
        headers: request.headers as Record<string, string>,
        body,
        event: JSON.parse(body),
        atMs: Date.now(),
      }
      received.push(one)
      behave(one, response, request)
      for (const look of waiting) look()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  function wait<T>(what: string, find: () => T | undefined, timeoutMs: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const hurrying = setInterval(hurry, 100)
      const timer = setTimeout(() => {
        clearInterval(hurrying)
        waiting.delete(look)
        reject(new Error(`${what}: not within ${timeoutMs} ms; got ${received.length} requests`))
      }, timeoutMs)
      const look = () => {
        const found = find()
        if (found === undefined) return
        clearTimeout(timer)
        clearInterval(hurrying)
        waiting.delete(look)
        resolve(found)
      }
      waiting.add(look)
      look()
    })
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    behave(next) {
      behave = next
    },
    until: (what, fits, timeoutMs = 60_000) => wait(what, () => received.find(fits), timeoutMs),
    count: (what, n, fits = () => true, timeoutMs = 60_000) =>
      wait(
        what,
        () => {
          const found = received.filter(fits)
          return found.length >= n ? found : undefined
        },
        timeoutMs,
      ),
    mostAtOnce: () => mostAtOnce,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
