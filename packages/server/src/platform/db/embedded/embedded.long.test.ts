import { spawn } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, onTestFinished, test } from 'vitest'
import { eventually, Folder, Installation, orNull, query, type Said } from '../../../../test/harness/embedded/driver.ts'

/** `HALFKEY_KILLS=50` for the long durability run. */
const KILLS = Number(process.env.HALFKEY_KILLS ?? 4)
const isRoot = process.getuid?.() === 0
const NOBODY = { uid: 65534, gid: 65534 }
const folders: Folder[] = []

function newFolder(options: ConstructorParameters<typeof Folder>[0] = {}): Folder {
  const folder = new Folder(options)
  folders.push(folder)
  return folder
}

/** Opens, and fails with the child's words when refused. */
async function open(folder: Folder, role: string, options = {}) {
  const process = folder.start(role, options)
  const said = await process.opened()
  if (!said.connection) throw new Error(said.message)
  return {
    process,
    state: said.state,
    connection: said.connection,
    dataDir: said.dataDir ?? '',
    tookMs: said.tookMs ?? 0,
  }
}

async function refusal(folder: Folder, role: string): Promise<Said> {
  const process = folder.start(role)
  const said = await process.opened()
  await process.exited
  return said
}

afterEach(async () => {
  for (const folder of folders.splice(0)) await folder.remove()
})

test('a first start makes a durable, private database that knows the letters of every script', async () => {
  const folder = newFolder()
  const { state, connection } = await open(folder, 'all')
  expect(state).toBe('created')
  for (const extension of ['pg_trgm', 'pgcrypto', 'citext']) await query(connection, `create extension ${extension}`)
  const [facts] = await query<Record<string, unknown>>(
    connection,
    `select current_setting('fsync') fsync, show_trgm('кот') <> '{}' trigrams, 'КОТ' ilike 'кот' folded,
            current_setting('is_superuser') superuser, current_setting('server_encoding') encoding`,
  )
  expect(facts).toEqual({ fsync: 'on', trigrams: true, folded: true, superuser: 'off', encoding: 'UTF8' })
  expect(statSync(join(folder.path, 'database.json')).mode & 0o777).toBe(0o600)
  expect(statSync(folder.cluster()).mode & 0o777).toBe(0o700)
  await expect(query({ ...connection, password: 'wrong' }, 'select 1')).rejects.toMatchObject({ code: '28P01' })
})

test('no value of a failed statement reaches the server log', async () => {
  const folder = newFolder()
  const { connection } = await open(folder, 'all')
  await query(connection, 'create table secrets (value text primary key)')
  await query(connection, `insert into secrets values ('hk_sk_hidden')`)
  await expect(query(connection, `insert into secrets values ('hk_sk_hidden')`)).rejects.toMatchObject({
    code: '23505',
  })
  await expect(query(connection, `select 'hk_sk_hidden'::int`)).rejects.toMatchObject({ code: '22P02' })
  expect(readFileSync(join(folder.path, 'server.log'), 'utf8')).not.toContain('hk_sk_hidden')
})

test('PostgreSQL and the data outlive kill -9 of the owner, and the next start adopts them', async () => {
  const folder = newFolder()
  const first = await open(folder, 'all')
  await query(first.connection, 'create table kept as select 1 as n')
  const before = folder.postmaster()
  await first.process.kill()
  const second = await open(folder, 'all')
  expect(second.state).toBe('adopted')
  expect(folder.postmaster()).toEqual(before)
  expect(await query(second.connection, 'select n from kept')).toEqual([{ n: 1 }])
})

test('a second all is refused by the name of the folder, while api, worker and tool join', async () => {
  const folder = newFolder()
  await open(folder, 'all')
  const said = await refusal(folder, 'all')
  expect(said.code).toBe('data_dir_in_use')
  expect(said.message).toContain(folder.path)
  expect(said.message).toContain('HALFKEY_ROLE')
  for (const role of ['api', 'worker', 'tool']) expect((await open(folder, role)).state).toBe('joined')
})

test('the last attached process stops the server, not an earlier one, and the data is there again', async () => {
  const folder = newFolder()
  const owner = await open(folder, 'all')
  const worker = await open(folder, 'worker')
  await query(owner.connection, 'create table kept as select 1 as n')
  await owner.process.detach()
  expect(await query(worker.connection, 'select n from kept')).toEqual([{ n: 1 }])
  await worker.process.detach()
  expect(folder.postmaster()).toBeNull()
  const again = await open(folder, 'api')
  expect(again.state).toBe('started')
  expect(await query(again.connection, 'select n from kept')).toEqual([{ n: 1 }])
})

test('processes that leave at the same moment leave no server behind', async () => {
  const folder = newFolder()
  const opened = await Promise.all(['all', 'api', 'worker', 'tool'].map((role) => open(folder, role)))
  await Promise.all(opened.map(({ process }) => process.detach()))
  expect(folder.postmaster()).toBeNull()
})

test('a process that comes while the last one leaves ends up with a working database', async () => {
  const folder = newFolder()
  let current = await open(folder, 'worker')
  for (let round = 0; round < 5; round++) {
    const leaving = current.process.detach()
    current = await open(folder, 'worker')
    await leaving
    expect(await query(current.connection, 'select 1 as n')).toEqual([{ n: 1 }])
  }
})

test('first starts at the same moment share one cluster', async () => {
  const folder = newFolder()
  const opened = await Promise.all(['all', 'api', 'worker', 'worker'].map((role) => open(folder, role)))
  const systems = await Promise.all(
    opened.map(({ connection }) =>
      query<{ id: string }>(connection, 'select system_identifier::text id from pg_control_system()'),
    ),
  )
  expect(new Set(systems.map((rows) => rows[0]?.id)).size).toBe(1)
  expect(opened.filter(({ state }) => state === 'created')).toHaveLength(1)
  expect(readdirSync(folder.path).filter((name) => name.includes('.init-'))).toEqual([])
})

test('a folder left by kill -9 in the middle of initdb starts', async () => {
  const folder = newFolder()
  const killed = folder.start('all')
  await eventually('building', () => readdirSync(folder.path).find((name) => name.includes('.init-')) ?? null)
  await killed.kill()
  expect((await open(folder, 'all')).state).toBe('created')
})

test('a killed postmaster is brought back, and the address of old pools stays true', async () => {
  const folder = newFolder()
  const owner = await open(folder, 'all')
  const worker = await open(folder, 'worker')
  await query(owner.connection, 'create table kept as select 1 as n')
  const before = folder.postmaster()
  process.kill(before!.pid, 'SIGKILL')
  const rows = await eventually('answering again', () => orNull(query(owner.connection, 'select n from kept')))
  expect(rows).toEqual([{ n: 1 }])
  expect(folder.postmaster()!.pid).not.toBe(before!.pid)
  await worker.process.until('return', (said) => said.log?.includes('is running again') === true)
  await owner.process.until('return', (said) => said.log?.includes('is running again') === true)
  expect((await refusal(folder, 'all')).code).toBe('data_dir_in_use')
  await owner.process.detach()
  await worker.process.detach()
  expect(folder.postmaster()).toBeNull()
})

test('another major version is refused with both numbers and a way out', async () => {
  const folder = newFolder()
  await (await open(folder, 'all')).process.detach()
  writeFileSync(join(folder.cluster(), 'PG_VERSION'), '17\n')
  const said = await refusal(folder, 'all')
  expect(said.code).toBe('major_version_mismatch')
  expect(said.message).toMatch(/PostgreSQL 17.*PostgreSQL 18.*DATABASE_URL/s)
})

test('a cluster other than the recorded one, or none where one was, is refused', async () => {
  const folder = newFolder()
  await (await open(folder, 'all')).process.detach()
  const record = join(folder.path, 'database.json')
  const text = readFileSync(record, 'utf8')
  writeFileSync(record, text.replace(/"systemIdentifier": "\d+"/, '"systemIdentifier": "42"'))
  expect((await refusal(folder, 'all')).code).toBe('data_dir_mismatch')
  writeFileSync(record, text)
  rmSync(folder.cluster(), { recursive: true })
  expect((await refusal(folder, 'all')).code).toBe('data_dir_mismatch')
  expect(existsSync(folder.cluster())).toBe(false)
})

test('a running copy of the cluster is not taken for ours, even where our stale files point at it', async () => {
  const ours = newFolder()
  const first = await open(ours, 'all')
  await query(first.connection, 'create table whose as select 1 as ours')
  await first.process.detach()
  const copy = newFolder()
  cpSync(ours.cluster(), copy.cluster(), { recursive: true, preserveTimestamps: true })
  const { uid, gid } = statSync(ours.cluster())
  for (const name of ['', ...(readdirSync(copy.cluster(), { recursive: true }) as string[])]) {
    chownSync(join(copy.cluster(), name), uid, gid)
  }
  chmodSync(copy.cluster(), 0o700)
  await open(copy, 'all')
  const pointer = readFileSync(join(copy.cluster(), 'postmaster.pid'), 'utf8').split('\n')
  // A pid that cannot exist, as after a crash; address and port are the copy's.
  writeFileSync(join(ours.cluster(), 'postmaster.pid'), ['4194305', ours.cluster(), ...pointer.slice(2)].join('\n'))
  const again = await open(ours, 'all')
  expect(again.state).toBe('started')
  expect(await query(again.connection, `select current_setting('is_superuser') s`)).toEqual([{ s: 'off' }])
  expect(again.connection.host).toBe(ours.cluster())
})

test.runIf(process.platform === 'linux')(
  'a stale lock whose pid now belongs to a stranger does not keep it down',
  async () => {
    const folder = newFolder()
    await (await open(folder, 'all')).process.detach()
    const { uid, gid } = statSync(folder.cluster())
    // A live process of the same user that has nothing to do with PostgreSQL. The system's own program: that user may
    // have no way to the Node of this checkout.
    const options = isRoot ? { uid, gid } : {}
    const stranger = spawn('sleep', ['1000000'], { stdio: 'ignore', ...options })
    const lines = [stranger.pid, folder.cluster(), 1, 5432, folder.cluster(), '', '', 'ready', '']
    writeFileSync(join(folder.cluster(), 'postmaster.pid'), lines.join('\n'))
    try {
      const opened = await Promise.all(['all', 'api', 'worker'].map((role) => open(folder, role)))
      expect(opened.filter(({ state }) => state === 'started')).toHaveLength(1)
      expect(stranger.exitCode).toBeNull()
    } finally {
      stranger.kill('SIGKILL')
    }
  },
)

test('where no socket path fits, it listens on a port of 127.0.0.1 and keeps it over a restart', async () => {
  const folder = newFolder({ longName: true })
  const first = await open(folder, 'all')
  expect(first.connection.host).toBe('127.0.0.1')
  await first.process.detach()
  const second = await open(folder, 'all')
  expect(second.connection).toEqual(first.connection)
})

test.runIf(isRoot)(
  'root keeps the data elsewhere when the folder is closed to its unprivileged user, and finds it again',
  async () => {
    const folder = newFolder({ isClosed: true })
    const first = await open(folder, 'all')
    expect(first.dataDir).toMatch(/^\/var\/lib\/halfkey\/data-[0-9a-f]{16}-/)
    await query(first.connection, 'create table kept as select 1 as n')
    await first.process.detach()
    const second = await open(folder, 'all')
    expect(second.dataDir).toBe(first.dataDir)
    expect(await query(second.connection, 'select n from kept')).toEqual([{ n: 1 }])
  },
)

test.runIf(isRoot)('an unprivileged user runs it in a folder of its own, and root may join there', async () => {
  const installation = new Installation()
  onTestFinished(() => installation.remove())
  const folder = newFolder({ isClosed: true })
  chownSync(folder.path, NOBODY.uid, NOBODY.gid)
  const first = await open(folder, 'all', { ...NOBODY, command: installation.command })
  expect(first.dataDir).toBe(join(folder.path, 'postgres'))
  expect((await open(folder, 'tool')).state).toBe('joined')
})

test(`kill -9 × ${KILLS}, of the owner and of PostgreSQL by turns, loses nothing acknowledged`, {
  timeout: 60_000 + KILLS * 15_000,
}, async () => {
  const folder = newFolder()
  let acknowledged = 0
  for (let round = 0; round < KILLS; round++) {
    const { process: owner, connection } = await open(folder, 'all')
    if (round === 0) await query(connection, 'create table acknowledged (n int primary key)')
    const [last] = await query<{ n: number }>(
      connection,
      'select coalesce(max(n), 0) n, count(*)::int found from acknowledged',
    )
    expect(last!.n).toBeGreaterThanOrEqual(acknowledged)
    // At most the one insert in flight was kept without having been acknowledged.
    expect(last!.n).toBeLessThanOrEqual(acknowledged + 1)
    owner.command(`write ${last!.n + 1}`)
    await owner.until('writes', (said) => (said.n ?? 0) >= last!.n + 50 + round * 7)
    const postmaster = folder.postmaster()
    if (round % 2 === 1) process.kill(postmaster!.pid, 'SIGKILL')
    await owner.kill()
    acknowledged = Math.max(last!.n, ...owner.said.map((said) => said.n ?? 0))
  }
  const { connection } = await open(folder, 'all')
  const [all] = await query<{ n: number; found: number }>(
    connection,
    'select max(n) n, count(*)::int found from acknowledged',
  )
  expect(all!.n).toBeGreaterThanOrEqual(acknowledged)
  expect(all!.found).toBe(all!.n)
})
