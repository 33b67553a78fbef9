import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it, type TestContext } from 'vitest'
import { keyIdOf, open, seal, sealedPrefix } from '../../src/platform/security/crypto.ts'
import { openKeyFile } from '../../src/platform/security/key-provider.ts'
import { eventually, newDatabase } from '../harness/harness.ts'
import { startReceiver } from '../harness/receiver.ts'
import { DataFolder, killAll, query, ServiceProcess, startProcess } from '../harness/service-process.ts'
import { expectNothingLost, settle, subscribe, UserLoad } from './load.ts'
import { long, report, scale } from './report.ts'

const TEST_MS = 240_000 + 30_000 * scale
const VALUES = 20_000 * scale
const PORTION = 1_000
/** Events with ordering keys, signed while the secrets are sealed anew. */
const ORDERED_A_KILL = 15

afterAll(killAll)

const scopeOf = (n: number) => createHash('sha256').update(`value ${n}`).digest()

/** A service, its key file, and the command that rotates it, each a process of its own. */
async function newInstallation(context: TestContext) {
  const database = await newDatabase()
  const folder = new DataFolder()
  context.onTestFinished(async () => {
    await folder.remove()
    await database.drop()
  })
  const env = folder.env({ DATABASE_URL: database.url })
  const kekFile = join(folder.dataDir, 'kek.key')
  return {
    kekFile,
    start: () => startProcess({ cwd: folder.path, env }),
    rotate: (...more: string[]) =>
      new ServiceProcess({ cwd: folder.path, env, args: ['keys', 'rotate-kek', '--wait', '2s', ...more] }),
    lines: () => readFileSync(kekFile, 'utf8').trim().split('\n'),
    keys: () => openKeyFile(kekFile, { create: false }),
    sql: <Row extends object>(text: string, values: unknown[] = []) =>
      query<Row>({ connectionString: database.url }, text, values),
  }
}

type Installation = Awaited<ReturnType<typeof newInstallation>>

/** So many values more than the calls of a test could seal. */
async function sealMany({ keys, sql }: Installation, tenantId: string): Promise<void> {
  const held = await keys()
  for (let from = 0; from < VALUES; from += PORTION) {
    const numbers = Array.from({ length: PORTION }, (_, at) => from + at)
    const sealed = await Promise.all(numbers.map((n) => seal(held, `answer ${n}`, [String(n)])))
    await sql(
      `insert into idempotency_keys (tenant_id, scope_hash, request_hash, status, answer, sealed, expires_at)
      select $1, scope, scope, 200, answer, true, now() + interval '1 day' from unnest($2::bytea[], $3::bytea[]) x (scope, answer)`,
      [tenantId, numbers.map(scopeOf), sealed],
    )
  }
}

/** How many of the many values this key wraps. */
async function countUnder({ sql }: Installation, keyId: string): Promise<number> {
  const prefix = sealedPrefix(keyId)
  const [row] = await sql<{ n: number }>(
    'select count(*)::int as n from idempotency_keys where sealed and substring(answer from 2 for $2) = $1',
    [prefix, prefix.length],
  )
  return row?.n ?? 0
}

/** How many of the many values open by the first key of the file alone. */
async function countOpened({ keys, sql }: Installation): Promise<number> {
  const held = await keys()
  const rows = await sql<{ scope_hash: Buffer; answer: Buffer }>(
    'select scope_hash, answer from idempotency_keys where sealed',
  )
  const answers = new Map(rows.map((row) => [row.scope_hash.toString('hex'), row.answer]))
  let opened = 0
  for (let n = 0; n < VALUES; n += 1) {
    const answer = answers.get(scopeOf(n).toString('hex'))
    if (answer === undefined || keyIdOf(answer) !== held.keyId) continue
    const text = await open(held, answer, [String(n)]).catch(() => '')
    if (text.toString() === `answer ${n}`) opened += 1
  }
  return opened
}

/** The service answers, and seals and opens a secret. */
async function expectAlive(service: ServiceProcess, key: string): Promise<void> {
  const hook = { url: 'http://127.0.0.1:18099/', events: ['user.created'] }
  const headers = { 'idempotency-key': `alive-${Math.random()}` }
  const made = await service.call(key, 'POST', '/webhooks', { body: hook, headers })
  expect(made.status, made.text).toBe(201)
  const again = await service.call(key, 'POST', '/webhooks', { body: hook, headers })
  expect(again.body.data.secret).toBe(made.body.data.secret)
}

describe('a rotation of the key-encryption key', () => {
  it(
    'killed at any point and run again is finished by the last run, while the service goes on',
    async (context: TestContext) => {
      const installation = await newInstallation(context)
      const { rotate, lines, start, sql } = installation
      let service = await start()
      const { key } = service
      const receiver = await startReceiver()
      context.onTestFinished(() => receiver.close())
      const paths = await subscribe(service.url, key, receiver, 2, { ordered: true })
      const load = new UserLoad({ url: service.url, key })
      const [tenant] = await sql<{ id: string }>('select id from tenants')
      await sealMany(installation, tenant?.id as string)
      const [oldLine] = lines() as [string]
      let killed = 1

      const beginning = rotate('--wait', '60s')
      await eventually('the new key', async () => lines().length === 2)
      const second = rotate()
      const refused = await second.exited
      expect([refused.code, second.stderr]).toEqual([1, expect.stringContaining('Another `halfkey keys rotate-kek`')])
      expect(beginning.exit).toBe(null)
      await beginning.kill()
      const [newLine] = lines() as [string]
      expect(lines()).toEqual([newLine, oldLine])
      const { keyId } = await installation.keys()
      expect(await countUnder(installation, keyId)).toBe(0)
      await expectAlive(service, key)

      for (const part of [0.1, 0.3, 0.5, 0.7]) {
        const running = rotate()
        load.start(2, 2)
        await eventually(`${part} of the values`, async () => (await countUnder(installation, keyId)) > part * VALUES)
        await running.kill()
        const done = await countUnder(installation, keyId)
        killed += 1
        expect(done).toBeLessThan(VALUES)
        expect(lines()).toEqual([newLine, oldLine])
        await expectAlive(service, key)
        if (part === 0.3) {
          await service.kill()
          service = await start()
          load.moveTo(service.url)
        }
        await load.more(ORDERED_A_KILL)
        await load.stop()
      }

      // Half a minute each: what began under the old key is waited for.
      const more = long ? ['--drop-old'] : []
      if (long) {
        const settling = rotate(...more)
        await eventually('the wait before the drop', async () => settling.stderr.includes('has ended'), 30_000)
        await settling.kill()
        expect(lines()).toEqual([newLine, oldLine])
      }

      const fromMs = performance.now()
      const last = rotate(...more)
      await eventually('the last run at work', async () => last.stderr.includes('Waiting until every'))
      await expectAlive(service, key)
      const finished = await last.exited
      const recoveredMs = Math.round(performance.now() - fromMs)
      const settled = await settle(load, receiver, paths)
      const lost = VALUES - (await countOpened(installation))
      const fault = `kill -9 of a key rotation, ${killed} times`
      const figures = { acknowledged: VALUES, delivered: null, duplicates: null, inFlight: null }
      report(context, { fault, ...figures, lost, outOfOrder: settled.overtaking.length, recoveredMs })
      expect(finished, last.stderr).toEqual({ code: 0, signal: null })
      expect(lines()).toEqual(long ? [newLine] : [newLine, oldLine])
      expect(existsSync(`${installation.kekFile}.new`)).toBe(false)
      expect(await countUnder(installation, keyId)).toBeGreaterThanOrEqual(VALUES)
      expect(lost).toBe(0)
      expectNothingLost(load, new Map(), settled)

      // By the new key alone, a new process too.
      writeFileSync(installation.kekFile, `${newLine}\n`)
      await expectAlive(service, key)
      await service.kill()
      service = await start()
      await expectAlive(service, key)
      expect(service.stderr).not.toContain('"level":50')
      await service.stop()
    },
    TEST_MS,
  )
})
