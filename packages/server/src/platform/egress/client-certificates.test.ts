import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeAuthority, type TestCertificate } from './certificates.fixture.ts'
import type { ClientIdentity } from './connections.ts'
import { createEgress, type Egress } from './egress.ts'

interface Seen {
  /** The common name of the client's certificate; undefined without one. */
  client: string | undefined
  port: number
  isResumed: boolean
}

const authority = makeAuthority('Test root')
const seen: Seen[] = []
let egress: Egress

/** Asks every client for a certificate. */
async function startServer(required: boolean) {
  const options = {
    ...authority.issue(['127.0.0.1']),
    ca: authority.ca,
    requestCert: true,
    rejectUnauthorized: required,
  }
  const server = createServer(options, (request, response) => {
    const socket = request.socket as TLSSocket
    const client = socket.getPeerCertificate().subject?.CN as string | undefined
    seen.push({ client, port: socket.remotePort ?? 0, isResumed: socket.isSessionReused() })
    // Closed at each `/close`, so that the next request resumes a session, if it may.
    response.writeHead(200, request.url === '/close' ? { connection: 'close' } : {}).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const identityOf = ({ cert, key }: TestCertificate): ClientIdentity => ({ certificate: cert, privateKey: key })
const ada = identityOf(authority.issue(['ada']))
const bob = identityOf(authority.issue(['bob']))

function post(url: string, clientCertificate?: ClientIdentity) {
  const request = { url, headers: {}, body: '{}', timeoutMs: 10_000 }
  return egress.post(clientCertificate === undefined ? request : { ...request, clientCertificate })
}

beforeAll(() => {
  egress = createEgress({ allow: [], allowLoopback: true, dnsServers: [], ca: authority.ca })
})
afterAll(() => egress.close())

test('a server that requires a certificate gets the one of the send, and refuses a send without', async () => {
  await using server = await startServer(true)
  expect(await post(server.url, ada)).toMatchObject({ ok: true })
  expect(seen.at(-1)?.client).toBe('ada')
  expect(await post(server.url)).toMatchObject({ ok: false, statusCode: null })
  const stranger = identityOf(makeAuthority('Other root').issue(['eve']))
  expect(await post(server.url, stranger)).toMatchObject({ ok: false, statusCode: null })
})

test('connections and TLS sessions are never shared by two clients, nor by one and none', async () => {
  await using server = await startServer(false)
  const begin = seen.length
  for (const path of ['/', '/close', '/'])
    for (const client of [ada, bob, undefined]) await post(server.url + path, client)
  const [first, second, third] = [0, 3, 6].map((at) => seen.slice(begin + at, begin + at + 3)) as [
    Seen[],
    Seen[],
    Seen[],
  ]
  for (const round of [first, second, third])
    expect(round.map(({ client }) => client)).toEqual(['ada', 'bob', undefined])
  expect(new Set(first.map(({ port }) => port)).size).toBe(3)
  // Each goes on with its own connection.
  expect(second.map(({ port }) => port)).toEqual(first.map(({ port }) => port))
  expect(first.map(({ isResumed }) => isResumed)).toEqual([false, false, false])
})

test('a certificate whose missing chain is added is used with it from then on', async () => {
  await using server = await startServer(true)
  const below = authority.below('Test intermediate')
  const { cert, key } = below.issue(['carol'])
  expect(await post(server.url, identityOf({ cert, key }))).toMatchObject({ ok: false, statusCode: null })
  expect(await post(server.url, identityOf({ cert: cert + below.ca, key }))).toMatchObject({ ok: true })
  expect(seen.at(-1)?.client).toBe('carol')
})

test('a certificate with another chain has a connection of its own', async () => {
  await using server = await startServer(true)
  const longer = { ...ada, certificate: ada.certificate + authority.ca }
  const begin = seen.length
  for (const client of [ada, longer, ada]) await post(server.url, client)
  const [first, second, third] = seen.slice(begin).map(({ port }) => port)
  expect(second).not.toBe(first)
  expect(third).toBe(first)
})
