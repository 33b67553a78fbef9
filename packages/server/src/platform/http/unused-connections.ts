import type { Server } from 'node:http'
import type { Socket } from 'node:net'

const GRACE_MS = 250
/** By then every answer that a stopping process waits for has come. */
const LAST_MS = 4_000

/**
 * Follows connections that have not sent a request yet. Node does not count them as idle, so one that a client opened in
 * advance would keep a closing server waiting for its time-out.
 */
export function followUnused(server: Server): { close(): void } {
  const unused = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    unused.add(socket)
    socket.once('close', () => unused.delete(socket))
  })
  server.on('request', (request) => unused.delete(request.socket))
  return {
    /**
     * Closes them after a moment, in which a request that is on its way still arrives; then, again and again, those that
     * have become idle, and at last all.
     */
    close() {
      const sweep = setInterval(() => {
        for (const socket of unused) socket.destroy()
        server.closeIdleConnections()
      }, GRACE_MS)
      const last = setTimeout(() => server.closeAllConnections(), LAST_MS)
      server.once('close', () => {
        clearInterval(sweep)
        clearTimeout(last)
      })
    },
  }
}
