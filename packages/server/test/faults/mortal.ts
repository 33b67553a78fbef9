import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { newApiKey } from '../../src/platform/security/api-key.ts'
import { type Answer, eventually } from '../harness/harness.ts'
import { type DataFolder, query, ServiceProcess } from '../harness/service-process.ts'

const CHILD = fileURLToPath(new URL('execute-process.ts', import.meta.url))

/** A service that is killed and started again, always on the same database. */
export class Mortal {
  readonly key: string
  readonly failAtFile: string
  /** Further settings, from the next start on. */
  settings: Record<string, string> = {}
  #aheadMs = 0
  #process: ServiceProcess | undefined
  readonly folder: DataFolder
  readonly databaseUrl: string

  /** @param beside another one, on whose database and with whose key it runs */
  constructor(folder: DataFolder, databaseUrl: string, beside?: Mortal) {
    this.folder = folder
    this.databaseUrl = databaseUrl
    this.key = beside?.key ?? newApiKey('secret')
    this.failAtFile = join(folder.path, beside === undefined ? 'fail-at' : 'fail-at-beside')
  }

  get process(): ServiceProcess {
    if (this.#process === undefined) throw new Error('it has not been started')
    return this.#process
  }

  /** @param aheadMs how much later than before it is for the new process */
  async start(aheadMs = 0): Promise<void> {
    this.#aheadMs += aheadMs
    const env = this.folder.env({
      DATABASE_URL: this.databaseUrl,
      HALFKEY_ADMIN_KEY: this.key,
      FAIL_AT_FILE: this.failAtFile,
      AHEAD_MS: String(this.#aheadMs),
      ...this.settings,
    })
    const program = [process.execPath, CHILD]
    this.#process = await new ServiceProcess({ cwd: this.folder.path, env, program, args: [] }).ready()
  }

  dieAt(step: string): void {
    writeFileSync(this.failAtFile, step)
  }

  call(method: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<Answer> {
    return this.process.call(this.key, method, path, { ...(body === undefined ? {} : { body }), headers })
  }

  sql<Row extends object>(text: string, values: unknown[] = []): Promise<Row[]> {
    return query<Row>({ connectionString: this.databaseUrl }, text, values)
  }
}

/** Asks again under the same command id until that has an end. */
export function outcome(
  service: Mortal,
  path: string,
  body: object,
  headers: Record<string, string> = {},
): Promise<Answer> {
  return eventually('an outcome', async () => {
    const answer = await service.call('POST', path, body, headers)
    return (answer.status !== 200 || answer.body.data.status === 'completed') && answer
  })
}
