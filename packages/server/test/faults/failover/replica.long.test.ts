import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { routesOf } from '../../../src/app.ts'
import { call, eventually, type Service, startService } from '../../harness/harness.ts'
import { PostgresProcess } from '../../harness/postgres-process.ts'

let primary: PostgresProcess
let standby: PostgresProcess
let service: Service
let users = 0
const dataDir = mkdtempSync(join(tmpdir(), 'halfkey-data-'))

const replicaUrl = () => primary.url.replace(`:${primary.port}/`, `:${standby.port}/`)
/** With one key file, so that it may be started again. */
const start = () =>
  startService({ DATABASE_URL: primary.url, DATABASE_REPLICA_URL: replicaUrl(), HALFKEY_DATA_DIR: dataDir })

beforeAll(async () => {
  primary = await PostgresProcess.create()
  standby = await primary.makeStandby('standby')
  service = await start()
})
afterAll(async () => {
  await service?.stop()
  await Promise.all([primary?.remove(), standby?.remove()])
  rmSync(dataDir, { recursive: true, force: true })
})

/** How many lists each server has answered. */
async function answered(by: 'replica' | 'primary'): Promise<number> {
  const { values } = await service.deps.metrics.replicaReads.get()
  return values.find(({ labels }) => labels.server === by)?.value ?? 0
}

async function createUser(): Promise<string> {
  users += 1
  const { status, body } = await service.admin.post('/users', { externalId: `user-${users}` })
  expect(status).toBe(201)
  return body.data.id
}

async function newestUser(): Promise<string> {
  const { status, body } = await service.admin.get('/users')
  expect(status).toBe(200)
  return body.data[0]?.id
}

/** Waits until the replica answers lists. */
const untilReplicaAnswers = () =>
  eventually('the replica answers', async () => {
    const before = await answered('replica')
    await newestUser()
    return (await answered('replica')) > before
  })

test('a list shows what was written before it was asked for, and the replica answers it', async () => {
  await untilReplicaAnswers()
  const before = await answered('replica')
  // A replica that is late leaves a list to the primary: one on a busy machine is late often.
  let rounds = 0
  await eventually('thirty lists, of which the replica answers one', async () => {
    const created = await createUser()
    expect(await newestUser()).toBe(created)
    rounds += 1
    return rounds >= 30 && (await answered('replica')) > before
  })
})

test('forty calls at once share a look at the primary, and each sees what was written before it', async () => {
  const seen = await Promise.all(
    Array.from({ length: 40 }, async () => {
      const created = await createUser()
      const { body } = await service.admin.get('/users?page_size=100')
      return body.data.some(({ id }: { id: string }) => id === created)
    }),
  )
  expect(seen).toEqual(seen.map(() => true))
})

test('every route that a replica may answer reads without writing', async () => {
  const userId = await createUser()
  const webhook = await service.admin.post('/webhooks', { url: 'https://example.com/hook', events: ['user.created'] })
  const wallet = await service.admin.post('/users/me/wallet', {}, { headers: { 'x-user-id': userId } })
  const policy = { allow: [{ templateId: 'Token:Holding', actions: ['exercise'], choices: ['Transfer'] }] }
  const session = await service.admin.post(
    '/delegated-sessions',
    { walletId: wallet.body.data.id, policy },
    { headers: { 'x-user-id': userId } },
  )
  expect([webhook.status, wallet.status, session.status]).toEqual([201, 201, 201])
  const event = await eventually('an event', async () => (await service.admin.get('/events')).body.data.events[0])
  const ids: Record<string, string> = {
    '/webhooks': webhook.body.data.id,
    '/delegated-sessions': session.body.data.id,
    '/events': event.id,
  }
  const paths = routesOf(service.deps.config)
    .filter((route) => route.replica === true)
    .map(({ method, path }) => {
      expect(method).toBe('GET')
      return path.replace(/^(\/[^/]+)\/:id/, (_, base) => `${base}/${ids[base]}`)
    })
  expect(paths.length).toBeGreaterThan(8)
  // What the service itself writes meanwhile may have the primary answer now and then. What writes, it answers always.
  for (const path of paths)
    await eventually(`the replica answers ${path}`, async () => {
      const before = await answered('replica')
      expect([path, (await service.admin.get(path)).status]).toEqual([path, 200])
      return (await answered('replica')) === before + 1
    })
})

test('while the replica is behind, the primary answers; a revoked key is refused at once', async () => {
  await untilReplicaAnswers()
  const made = await service.admin.post('/api-keys', { name: 'short', type: 'secret', scopes: ['users:read'] })
  await standby.admin('select pg_wal_replay_pause()')
  await eventually('the pause', async () => {
    const [row] = await standby.admin<{ state: string }>('select pg_get_wal_replay_pause_state() as state')
    return row?.state === 'paused'
  })
  const created = await createUser()
  const before = await answered('replica')
  expect(await newestUser()).toBe(created)
  expect(await answered('replica')).toBe(before)
  const withKey = () => service.admin.get('/users', { key: made.body.data.key })
  expect((await withKey()).status).toBe(200)
  await service.admin.delete(`/api-keys/${made.body.data.id}`)
  expect((await withKey()).status).toBe(401)
  await standby.admin('select pg_wal_replay_resume()')
  await untilReplicaAnswers()
})

test('a replica that hangs, is stopped or comes back costs no list', async () => {
  await untilReplicaAnswers()
  await standby.freeze('SIGSTOP')
  const created = await createUser()
  expect(await newestUser()).toBe(created)
  await standby.freeze('SIGCONT')
  await standby.kill()
  expect(await newestUser()).toBe(created)
  const other = await start()
  const { status, body } = await call(other.url, 'GET', '/v1/users', { key: service.admin.key })
  expect([status, body.data[0].id]).toEqual([200, created])
  await other.stop()
  await standby.start()
  await untilReplicaAnswers()
})

test('a standby that was promoted is no replica any more', async () => {
  await untilReplicaAnswers()
  await standby.admin('select pg_promote()')
  const created = await createUser()
  expect(await newestUser()).toBe(created)
  const before = await answered('replica')
  for (let round = 0; round < 5; round += 1) expect(await newestUser()).toBe(created)
  expect(await answered('replica')).toBe(before)
})
