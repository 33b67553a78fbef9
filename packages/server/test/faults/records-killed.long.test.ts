import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { eventually, newDatabase } from '../harness/harness.ts'
import { DataFolder, killAll, query, ServiceProcess, startProcess } from '../harness/service-process.ts'

const SESSIONS = 30_000
const KILLS = 3

afterAll(killAll)

test('killed again and again and run once more, the enforcement of records leaves none without a MAC, and all verify', async (context) => {
  const database = await newDatabase()
  const folder = new DataFolder()
  context.onTestFinished(async () => {
    await folder.remove()
    await database.drop()
  })
  const env = folder.env({ DATABASE_URL: database.url })
  const mark = join(folder.dataDir, 'kek.key.records')
  const sql = <Row extends object>(text: string, values: unknown[] = []) =>
    query<Row & object>({ connectionString: database.url }, text, values)
  const halfkey = (...args: string[]) => new ServiceProcess({ cwd: folder.path, env, args: [...args, '--json'] })
  const missing = async () =>
    (await sql<{ n: number }>('select count(*)::int as n from delegated_sessions where mac is null'))[0]?.n ?? 0

  const service = await startProcess({ cwd: folder.path, env })
  const { key } = service
  const user = (await service.call(key, 'POST', '/users', { body: {} })).body.data.id
  const headers = { 'x-user-id': user }
  expect((await service.call(key, 'POST', '/users/me/wallet', { body: {}, headers })).status).toBe(201)
  const policy = { allow: [{ templateId: 'Note:Note' }] }
  const made = await service.call(key, 'POST', '/delegated-sessions', { body: { policy }, headers })
  expect(made.status, made.text).toBe(201)
  await sql(
    `insert into delegated_sessions (tenant_id, id, app_id, user_id, wallet_id, token_hash, policy, server_execute, status, expires_at,
       created_at, updated_at)
     select tenant_id, 'dse_' || lpad(n::text, 26, '0'), app_id, user_id, wallet_id, sha256(n::text::bytea), policy, true, 'revoked',
       expires_at, created_at, updated_at from delegated_sessions, generate_series(1, $1) n`,
    [SESSIONS],
  )
  for (const table of ['api_keys', 'wallets', 'delegated_sessions']) await sql(`update ${table} set mac = null`)
  await service.kill()
  rmSync(mark)

  let killed = 0
  for (let n = 0; n < KILLS; n += 1) {
    const before = await missing()
    const run = halfkey('records', 'enforce')
    await eventually('a portion more', async () => run.exit !== null || (await missing()) < before)
    if (run.exit === null) killed += 1
    await run.kill()
  }
  expect(killed).toBeGreaterThan(1)
  expect([existsSync(mark), (await missing()) > 0]).toEqual([false, true])
  const last = halfkey('records', 'enforce')
  expect((await last.exited).code, last.stderr).toBe(0)
  expect([existsSync(mark), await missing()]).toEqual([true, 0])
  const verified = halfkey('records', 'verify')
  expect((await verified.exited).code, verified.stderr).toBe(0)
  expect(JSON.parse(verified.stdout)).toMatchObject({ bad: [], enforced: true })
  const again = await startProcess({ cwd: folder.path, env })
  expect((await again.call(key, 'GET', '/delegated-sessions')).status).toBe(200)
}, 240_000)
