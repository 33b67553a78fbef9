import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { loadConfig } from '../../src/config.ts'
import type { Deps } from '../../src/platform/deps.ts'
import { openLog } from '../../src/platform/observability/log.ts'
import { start } from '../../src/start.ts'

/** Today's service on a database of an earlier commit. */
export interface Served {
  url: string
  deps: Deps
  stop(): Promise<void>
}

/** Where the service runs and when. */
export interface Place {
  databaseUrl: string
  kekFile: string
  /** What time it is for the service when it starts, ISO 8601; by default the real time. */
  at?: string
  settings?: Record<string, string>
}

/** Starts today's service in this process. Its clock runs from the start on, for a key made later must not be older than it is. */
export async function serve({ databaseUrl, kekFile, at, settings = {} }: Place): Promise<Served> {
  const dataDir = mkdtempSync(join(tmpdir(), 'halfkey-compatibility-'))
  const offsetMs = at === undefined ? 0 : Date.parse(at) - Date.now()
  const config = loadConfig({
    PORT: '0',
    DATABASE_URL: databaseUrl,
    HALFKEY_DATA_DIR: dataDir,
    HALFKEY_KEK_FILE: kekFile,
    HALFKEY_PUBLIC_URL: 'http://localhost:8080',
    HALFKEY_DRAIN: '0',
    HALFKEY_RATE_LIMITS: 'off',
    HALFKEY_DATABASE_CONNECTIONS: '13',
    // However old a fixture becomes, nothing of it is deleted for its age.
    HALFKEY_RETENTION: '3650d',
    HALFKEY_DEAD_LETTER_RETENTION: '3650d',
    // No name is looked up outside.
    HALFKEY_DNS_SERVERS: '127.0.0.1:1',
    ...settings,
  })
  const silence = new Writable({ write: (_chunk, _encoding, done) => done() })
  const running = await start(config, openLog(config.logLevel, silence as never), {
    now: () => new Date(Date.now() + offsetMs),
  })
  return {
    url: `http://127.0.0.1:${running.address?.port}`,
    deps: running.deps,
    async stop() {
      await running.stop()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}
