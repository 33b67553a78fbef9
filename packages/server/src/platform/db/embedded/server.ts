import { closeSync, fchownSync, openSync, readFileSync, renameSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Binaries } from './binaries.ts'
import { type PostmasterFile, readPostmasterFile } from './cluster.ts'
import { EmbeddedDatabaseError } from './errors.ts'
import type { Location } from './location.ts'
import { run, runDetached } from './run.ts'
import type { Endpoint, Identity } from './session.ts'

const STOP_TIMEOUT_MS = 10_000
const LOG_BYTES_MAX = 10 * 1024 * 1024
const LOG_TAIL_CHARS = 2_000
const SOCKET_PATH_BYTES_MAX = 100
const SOCKET_PORT = 5432

/** A postmaster we have spawned. */
export interface Launch {
  /** its process id; 0 where pg_ctl started it (Windows) */
  pid: number
  /** true once it has ended: it lost the race for the folder, or cannot run */
  hasExited(): boolean
  /** what it wrote to server.log, last part */
  logTail(): string
}

/**
 * Where the next server of this cluster shall listen. A Unix socket inside the cluster: only its user and root get
 * there, its name never changes, and no other program can sit on it. Its path is limited to about 100 bytes
 * (sun_path) and some mounts hold no sockets; there, and on Windows, a port of 127.0.0.1, the last one if it is free.
 */
export async function chooseEndpoint(
  cluster: string,
  options: { useTcp: boolean; lastPort?: number },
): Promise<Endpoint> {
  const path = join(cluster, `.s.PGSQL.${SOCKET_PORT}`)
  const fits =
    process.platform !== 'win32' && Buffer.byteLength(path) <= SOCKET_PATH_BYTES_MAX && !cluster.includes(',')
  if (fits && !options.useTcp) return { host: cluster, port: SOCKET_PORT }
  const lastPort = options.lastPort && (await isFree(options.lastPort)) ? options.lastPort : await freePort()
  return { host: '127.0.0.1', port: lastPort }
}

async function isFree(port: number): Promise<boolean> {
  return (await listen(port)) !== null
}

async function freePort(): Promise<number> {
  const port = await listen(0)
  if (port === null) throw new EmbeddedDatabaseError('start_failed', 'This machine has no free port on 127.0.0.1.')
  return port
}

function listen(port: number): Promise<number | null> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(null))
    server.listen({ host: '127.0.0.1', port, exclusive: true }, () => {
      const address = server.address()
      server.close(() => resolve(address !== null && typeof address === 'object' ? address.port : null))
    })
  })
}

/** Starts PostgreSQL and returns at once; its own lock on the folder (postmaster.pid) decides between several starters. */
export async function launch(binaries: Binaries, location: Location, endpoint: Endpoint): Promise<Launch> {
  const { cluster, account } = location
  const logPath = join(location.dataDir, 'server.log')
  const logFile = openLog(logPath, location)
  const logStart = statSync(logPath).size
  const onSocket = endpoint.host !== '127.0.0.1'
  const listenArgs = ['-p', String(endpoint.port), '-h', onSocket ? '' : endpoint.host]
  const logTail = () => readFileSync(logPath).subarray(logStart).toString('utf8').trim().slice(-LOG_TAIL_CHARS)
  try {
    if (process.platform === 'win32') {
      // pg_ctl sheds an administrator's rights, with which PostgreSQL would refuse to run.
      const options = `-p ${endpoint.port} -h ${endpoint.host}`
      const result = await run(
        binaries.pgCtl,
        ['start', '-W', '-s', '-D', cluster, '-l', logPath, '-o', options],
        account,
      )
      return { pid: 0, hasExited: () => result.exitCode !== 0, logTail }
    }
    const args = ['-D', cluster, ...listenArgs, '-k', onSocket ? endpoint.host : '']
    const child = await runDetached(binaries.postgres, args, account, logFile)
    return { pid: child.pid ?? 0, hasExited: () => child.exitCode !== null || child.signalCode !== null, logTail }
  } finally {
    closeSync(logFile)
  }
}

function openLog(path: string, { dataDir }: Location): number {
  const old = statSync(path, { throwIfNoEntry: false })
  if (old && old.size > LOG_BYTES_MAX) renameSync(path, `${path}.1`)
  const file = openSync(path, 'a', 0o600)
  const owner = statSync(dataDir)
  if (process.getuid?.() === 0) fchownSync(file, owner.uid, owner.gid)
  return file
}

/** Whether the file speaks of the server that a live connection has just identified: only then may its pid be signalled. */
function isSameServer(file: PostmasterFile | null, identity: Identity): boolean {
  // postmaster.pid holds the second the process began, pg_postmaster_start_time() a moment later.
  return file !== null && Math.abs(file.startedAtSeconds - identity.startedAtSeconds) <= 2
}

/**
 * Stops the server that `identity` was read from, over a connection that is still open: a live backend means a live
 * postmaster, so the pid pg_ctl signals cannot have passed to another process. @returns whether it ended in 10 s
 */
export async function stopServer(binaries: Binaries, location: Location, identity: Identity): Promise<boolean> {
  const file = readPostmasterFile(location.cluster)
  if (!isSameServer(file, identity)) return false
  const result = await run(binaries.pgCtl, ['stop', '-D', location.cluster, '-m', 'fast', '-W', '-s'], location.account)
  const deadline = Date.now() + STOP_TIMEOUT_MS
  while (Date.now() < deadline) {
    // It removes its file as its last act; another pid means that someone has started the next server already.
    const current = readPostmasterFile(location.cluster)
    if (current === null || current.pid !== file?.pid) return true
    if (result.exitCode !== 0) return false
    await pause(10)
  }
  return false
}
