import { randomBytes } from 'node:crypto'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it, type TestContext } from 'vitest'
import { newApiKey } from '../../src/platform/security/api-key.ts'
import { call, eventually, newDatabase } from '../harness/harness.ts'
import { DataFolder, freePort, killAll, query, ServiceProcess, startProcess } from '../harness/service-process.ts'

const EX_CONFIG = 78
const TEST_MS = 90_000

const occurrences = (text: string, what: string) => text.split(what).length - 1

afterAll(killAll)

/** A folder for one test; it and what runs in it end with the test. */
function newFolder(context: TestContext): DataFolder {
  const folder = new DataFolder()
  context.onTestFinished(() => folder.remove())
  return folder
}

describe('a first start in an empty folder', { timeout: TEST_MS }, () => {
  it('shows changed settings, database, addresses and once the key, before it is ready; the second start shows no key', async (context) => {
    const folder = newFolder(context)
    const port = await freePort()
    const env = { PORT: String(port), HALFKEY_DATA_DIR: folder.dataDir }
    const service = new ServiceProcess({ cwd: folder.path, env })
    const firstReady = await eventually(
      'readiness',
      async () => {
        const response = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null)
        return response?.status === 200 && { stdout: service.stdout }
      },
      60_000,
    )
    expect(firstReady.stdout).toContain(`export HALFKEY_KEY=${service.key}\n`)
    await service.ready()
    expect(occurrences(service.stdout, 'hk_sk_')).toBe(1)
    expect(service.stdout).toMatch(/^Settings +PORT=\d+\n +HALFKEY_DATA_DIR=\S+data$/m)
    expect(service.stdout).not.toContain('HALFKEY_ENV')
    expect(service.stdout).toContain(`export HALFKEY_URL=http://127.0.0.1:${port}\n`)
    const lines = service.stdout.trimEnd().split('\n')
    expect(lines.length).toBeLessThan(20)
    expect(lines.at(-2)).toMatch(/^Dashboard +http:/)
    expect(service.stdout).toMatch(/^Database +embedded PostgreSQL 18\.\d+, created, data in \S+$/m)
    for (const path of ['/v1', '/docs']) expect(service.stdout).toContain(`http://127.0.0.1:${port}${path}`)
    const made = await service.call(service.key, 'POST', '/users', { body: { email: 'ada@example.com' } })
    expect(made.status).toBe(201)
    expect(await service.stop()).toEqual({ code: 0, signal: null })
    expect(service.stderr).not.toContain('hk_sk_')

    const second = await startProcess({ cwd: folder.path, env })
    expect(second.stdout).not.toContain('hk_sk_')
    expect((await second.call(service.key, 'GET', `/users/${made.body.data.id}`)).status).toBe(200)
    expect(await second.stop()).toEqual({ code: 0, signal: null })
  })

  it('takes the key of HALFKEY_ADMIN_KEY and never shows it; a later start ignores the variable', async (context) => {
    const folder = newFolder(context)
    const [first, other] = [newApiKey('secret'), newApiKey('secret')]
    const database = await newDatabase()
    const settings = { DATABASE_URL: database.url, HALFKEY_LOG_LEVEL: 'debug' }
    const start = (key: string) =>
      startProcess({ cwd: folder.path, env: folder.env({ ...settings, HALFKEY_ADMIN_KEY: key }) })
    const service = await start(first)
    expect((await service.call(first, 'GET', '/tenant')).status).toBe(200)
    expect(await service.stop()).toEqual({ code: 0, signal: null })
    expect(service.stdout + service.stderr).not.toContain('hk_sk_')
    const later = await start(other)
    expect((await later.call(first, 'GET', '/tenant')).status).toBe(200)
    expect((await later.call(other, 'GET', '/tenant')).status).toBe(401)
    await later.stop()
    await database.drop()
  })
})

describe.concurrent('a start that cannot be', { timeout: TEST_MS }, () => {
  /** Runs to its end, which must come soon and before it ever listens. */
  async function refused(folder: DataFolder, env: Record<string, string>) {
    const service = new ServiceProcess({ cwd: folder.path, env: { PORT: '0', ...env } })
    const exit = await service.exited
    expect(service.stdout).not.toContain('Ready.')
    return { code: exit.code, message: service.stderr, stdout: service.stdout }
  }

  it('names every problem of the configuration at once, and ends with 78', async (context) => {
    const folder = newFolder(context)
    const { code, message, stdout } = await refused(folder, {
      PORT: 'eighty',
      HALFKEY_ENV: 'staging',
      HALFKEY_WEBHOOK_TIMEOUT: '2h',
      HALFKEY_RATE_LIMITS: 'maybe',
    })
    expect(code).toBe(EX_CONFIG)
    for (const name of ['PORT', 'HALFKEY_ENV', 'HALFKEY_WEBHOOK_TIMEOUT', 'HALFKEY_RATE_LIMITS'])
      expect(message).toMatch(new RegExp(`^ {2}- ${name} must be `, 'm'))
    expect(stdout).toBe('')
  })

  it('refuses production without key file and database, and every unsafe setting, by name', async (context) => {
    const folder = newFolder(context)
    const unsafe = { HALFKEY_INSECURE_DEV: '1', HALFKEY_RATE_LIMITS: 'off', HALFKEY_PUBLIC_URL: 'http://example.com' }
    const { code, message } = await refused(folder, { HALFKEY_ENV: 'production', ...unsafe })
    expect(code).toBe(EX_CONFIG)
    for (const name of [...Object.keys(unsafe), 'HALFKEY_KEK_FILE', 'DATABASE_URL or HALFKEY_DATA_DIR'])
      expect(message).toMatch(new RegExp(`^ {2}- ${name} must `, 'm'))
  })

  it('refuses production whose key file is missing, and makes none', async (context) => {
    const folder = newFolder(context)
    const kek = join(folder.path, 'kek.key')
    const { code, message } = await refused(folder, {
      HALFKEY_ENV: 'production',
      HALFKEY_KEK_FILE: kek,
      HALFKEY_DATA_DIR: folder.dataDir,
    })
    expect(code).toBe(EX_CONFIG)
    expect(message).toContain(kek)
  })

  it('refuses another HOST than loopback in development, unless told that it is known', async (context) => {
    const folder = newFolder(context)
    const { code, message } = await refused(folder, { HOST: '0.0.0.0', HALFKEY_DATA_DIR: folder.dataDir })
    expect(code).toBe(EX_CONFIG)
    expect(message).toMatch(/HOST must be a loopback address in development, not 0\.0\.0\.0/)
    const database = await newDatabase()
    const known = await startProcess({
      cwd: folder.path,
      env: folder.env({ HOST: '0.0.0.0', HALFKEY_INSECURE_DEV: '1', DATABASE_URL: database.url }),
    })
    expect((await call(known.url.replace('0.0.0.0', '127.0.0.1'), 'GET', '/healthz')).status).toBe(200)
    await known.stop()
    await database.drop()
  })

  it('refuses a key file that did not seal this database, and a taken port, in words', async (context) => {
    const folder = newFolder(context)
    const database = await newDatabase()
    const env = folder.env({ DATABASE_URL: database.url })
    const service = await startProcess({ cwd: folder.path, env })
    const { port } = new URL(service.url)
    const taken = await refused(folder, { ...env, PORT: port })
    expect(taken.code).not.toBe(0)
    expect(taken.message).toMatch(new RegExp(`^Halfkey cannot start: port ${port} is already in use\\.`, 'm'))
    const empty = newFolder(context)
    await refused(empty, { ...empty.env(), PORT: port })
    expect(existsSync(empty.dataDir)).toBe(false)
    expect((await service.call(service.key, 'GET', '/healthz')).status).toBe(200)
    await service.stop()

    const wrong = join(folder.path, 'wrong.key')
    writeFileSync(wrong, randomBytes(32).toString('base64'), { mode: 0o600 })
    const other = await refused(folder, { ...env, HALFKEY_KEK_FILE: wrong })
    expect(other.code).toBe(EX_CONFIG)
    expect(other.message).toContain(`The key in ${wrong}`)
    await database.drop()
  })

  it('says that the database does not answer, and does not show its password', async (context) => {
    const folder = newFolder(context)
    const port = await freePort()
    const { code, message, stdout } = await refused(folder, {
      ...folder.env(),
      DATABASE_URL: `postgres://halfkey:very-secret@127.0.0.1:${port}/halfkey`,
    })
    expect(code).toBe(1)
    expect(message).toMatch(/the database does not respond/)
    expect(message + stdout).not.toContain('very-secret')
  })
})

describe.concurrent('several processes on one installation', { timeout: TEST_MS }, () => {
  it('two that start at once on an empty database: one makes schema and tenant, none fails', async (context) => {
    const folder = newFolder(context)
    const database = await newDatabase()
    const env = folder.env({ DATABASE_URL: database.url, HALFKEY_ROLE: 'api' })
    const both = [new ServiceProcess({ cwd: folder.path, env }), new ServiceProcess({ cwd: folder.path, env })]
    await Promise.all(both.map((each) => each.ready()))
    const keys = both.filter(({ stdout }) => stdout.includes('export HALFKEY_KEY='))
    expect(keys).toHaveLength(1)
    for (const each of both) expect((await each.call(keys[0]!.key, 'GET', '/tenant')).status).toBe(200)
    const rows = await query<{ n: number }>(
      { connectionString: database.url },
      'select count(*)::int as n from tenants',
    )
    expect(rows[0]?.n).toBe(1)
    for (const each of both) expect(await each.stop()).toEqual({ code: 0, signal: null })
    await database.drop()
  })

  it('three `migrate` at once on an empty database: one applies, the others find it done', async (context) => {
    const folder = newFolder(context)
    const database = await newDatabase()
    const migrators = [1, 2, 3].map(
      () =>
        new ServiceProcess({ cwd: folder.path, env: folder.env({ DATABASE_URL: database.url }), args: ['migrate'] }),
    )
    for (const each of migrators) expect(await each.exited, each.stderr).toEqual({ code: 0, signal: null })
    expect(migrators.filter(({ stdout }) => /^Applied \d+: 0001_/m.test(stdout))).toHaveLength(1)
    expect(migrators.filter(({ stdout }) => /up to date/.test(stdout))).toHaveLength(2)
    await database.drop()
  })

  it('a second `all` on the same data folder is refused by name, while `api` and `worker` join', async (context) => {
    const folder = newFolder(context)
    const owner = await startProcess({ cwd: folder.path, env: folder.env() })
    const second = new ServiceProcess({ cwd: folder.path, env: folder.env() })
    const start = (role: string) => startProcess({ cwd: folder.path, env: folder.env({ HALFKEY_ROLE: role }) })
    const [api, worker, exit] = await Promise.all([start('api'), start('worker'), second.exited])
    expect(exit.code).toBe(EX_CONFIG)
    expect(second.stderr).toContain(
      `Another Halfkey process already runs on the embedded database in ${folder.dataDir}`,
    )
    const made = await api.call(owner.key, 'POST', '/users', { body: {} })
    expect((await owner.call(owner.key, 'GET', `/users/${made.body.data.id}`)).status).toBe(200)
    // The database stays for those who joined, and ends with the last of them.
    expect(await owner.stop()).toEqual({ code: 0, signal: null })
    expect((await api.call(owner.key, 'GET', `/users/${made.body.data.id}`)).status).toBe(200)
    expect(await worker.stop()).toEqual({ code: 0, signal: null })
    expect(await api.stop()).toEqual({ code: 0, signal: null })
    expect(folder.postmaster()).toBeNull()
  })
})
