import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { sql } from '../../../src/platform/db/db.ts'
import { openDatabase } from '../../../src/platform/db/pool.ts'
import { createServers } from '../../../src/platform/db/servers.ts'
import { openLog } from '../../../src/platform/observability/log.ts'
import { eventually, newDatabase } from '../../harness/harness.ts'

/** Longer than the test may take: what waits so long waits in vain. */
const NEVER_MS = 600_000

/** A server that does this with each connection, and is no database by itself. */
async function startServer(behave: (socket: Socket) => void) {
  const open = new Set<Socket>()
  const server = createServer((socket) => {
    open.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => open.delete(socket))
    behave(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      for (const socket of open) socket.destroy()
      server.close()
    },
  }
}

test('a request whose connection is being opened to a server that hangs gets one to the server that took its place', async (context) => {
  // Like a machine that hangs.
  const silence = await startServer(() => {})
  const url = `postgres://halfkey:x@${silence.host}/halfkey`
  const database = await newDatabase()
  const servers = createServers([url, database.url])
  const db = openDatabase({
    connection: { servers, connectionString: url },
    connectionsMax: 2,
    applicationName: 'test',
    log: openLog('silent').log,
    acquireTimeoutMs: NEVER_MS,
  })
  context.onTestFinished(async () => {
    silence.close()
    await db.close()
    await database.drop()
  })
  // One for each connection that the pool may have: none would be left to ask the other server.
  const asked = await Promise.all([1, 2].map((n) => db.one<{ n: number }>(sql`select ${n}::int as n`)))
  expect(asked).toEqual([{ n: 1 }, { n: 2 }])
  expect(servers.current()).toBe(database.url)
})

test('a server that is lost right after it was found is looked for again', async (context) => {
  const database = await newDatabase()
  const { hostname, port } = new URL(database.url)
  const host = decodeURIComponent(hostname)
  let connections = 0
  const front = await startServer((socket) => {
    connections += 1
    // The one that stays is lost; the looks before and after it are not.
    if (connections === 2) return void socket.destroy()
    const behind = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(Number(port), host)
    behind.on('error', () => {})
    behind.on('close', () => socket.destroy())
    socket.on('close', () => behind.destroy())
    socket.pipe(behind).pipe(socket)
  })
  const direct = new URL(database.url)
  direct.host = front.host
  const servers = createServers([direct.href])
  const stop = servers.watch(() => {})
  context.onTestFinished(async () => {
    stop()
    front.close()
    await database.drop()
  })
  await eventually('another look, and a connection that stays', async () => connections >= 4)
})
