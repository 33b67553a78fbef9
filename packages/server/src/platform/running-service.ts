import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from './config.ts'
import { processExists } from './db/embedded/cluster.ts'

const FILE = 'service.json'

interface Record {
  pid: number
  port: number
}

function read(dataDir: string): Record | null {
  try {
    const { pid, port } = JSON.parse(readFileSync(join(dataDir, FILE), 'utf8')) as Partial<Record>
    return Number.isInteger(pid) && Number.isInteger(port) ? { pid: pid as number, port: port as number } : null
  } catch {
    return null
  }
}

/** Addresses to listen on that include 127.0.0.1. */
const LOCAL_HOSTS = ['127.0.0.1', 'localhost', '0.0.0.0', '::']

/**
 * Notes the port of this process in its data folder, so that commands in the same folder find it. A service that 127.0.0.1
 * does not reach, or whose folder cannot be written, is not noted.
 * @returns what removes the note, unless another process has replaced it
 */
export function noteRunningService({ dataDir, host, port }: Config): () => Promise<void> {
  const path = join(dataDir, FILE)
  const draft = `${path}.${process.pid}`
  if (!LOCAL_HOSTS.includes(host)) return async () => {}
  try {
    writeFileSync(draft, JSON.stringify({ pid: process.pid, port } satisfies Record), { mode: 0o600 })
    renameSync(draft, path)
  } catch {
    return async () => {}
  }
  return async () => {
    if (read(dataDir)?.pid === process.pid) rmSync(path, { force: true })
  }
}

/**
 * The address of the service that runs in a data folder; null for none. Always on this machine: a folder from elsewhere must
 * not lead an API key to somebody else's server.
 */
export function findRunningService(dataDir: string): string | null {
  const found = read(dataDir)
  return found !== null && processExists(found.pid) ? `http://127.0.0.1:${found.port}` : null
}
