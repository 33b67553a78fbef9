// Real local receivers for the guard's tests: a well-behaved one, and raw sockets that misbehave as told.
import { createServer as createHttpServer, type IncomingHttpHeaders } from 'node:http'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer, type TlsOptions } from 'node:tls'

/** One request as it arrived. */
interface Received {
  method: string
  path: string
  headers: IncomingHttpHeaders
  body: string
  /** of the name that SNI asked for; null over http: */
  servername: string | null
}

/** A receiver on a loopback address. */
export interface Receiver {
  port: number
  received: Received[]
  /** connections that are open now */
  sockets: Set<Socket>
  /** how many connections were ever accepted */
  connections(): number
  close(): Promise<void>
}

/** Answers 200 with `answer`, over TLS when `tls` is given, and keeps connections alive. */
export async function startReceiver(
  options: { host?: string; answer?: string; tls?: TlsOptions } = {},
): Promise<Receiver> {
  const received: Received[] = []
  const http = createHttpServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const servername = 'servername' in request.socket ? String(request.socket.servername) : null
      const { method = '', url: path = '', headers } = request
      received.push({ method, path, headers, body: Buffer.concat(chunks).toString(), servername })
      response.end(options.answer ?? 'received')
    })
  })
  const server = options.tls
    ? createTlsServer(options.tls, (socket) => http.emit('connection', socket))
    : createServer((socket) => http.emit('connection', socket))
  return { received, ...(await listen(server, options.host)) }
}

/** Hands each accepted socket to `behave`; errors of the socket are expected and ignored. */
export async function startRawReceiver(
  behave: (socket: Socket) => void,
  at?: { host: string; port: number },
): Promise<Receiver> {
  return { received: [], ...(await listen(createServer(behave), at?.host, at?.port)) }
}

/** A raw receiver that runs `answer` once per request, that is, once the request's body was read. `count` starts at 1. */
export function startScriptedReceiver(answer: (socket: Socket, count: number) => void): Promise<Receiver> {
  return startRawReceiver((socket) => {
    let pending = ''
    let count = 0
    socket.on('data', (chunk) => {
      pending += chunk.toString('latin1')
      for (let match = requestIn(pending); match !== null; match = requestIn(pending)) {
        pending = pending.slice(match)
        count += 1
        answer(socket, count)
      }
    })
  })
}

/** The length of the first whole request in `text`, null when it is not whole yet. */
function requestIn(text: string): number | null {
  const headersEnd = text.indexOf('\r\n\r\n')
  if (headersEnd < 0) return null
  const length = headersEnd + 4 + Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0)
  return text.length >= length ? length : null
}

async function listen(server: Server, host = '127.0.0.1', port = 0): Promise<Omit<Receiver, 'received'>> {
  const sockets = new Set<Socket>()
  let accepted = 0
  server.on('tlsClientError', () => {})
  // 'connection' is the plain TCP socket for TLS servers too.
  server.on('connection', (socket) => {
    accepted += 1
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, host, 1024, resolve))
  return {
    port: (server.address() as AddressInfo).port,
    sockets,
    connections: () => accepted,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}
