import { execFile } from 'node:child_process'
import { chmodSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, type TestContext, test } from 'vitest'
import { createSharedWallet, executeShared, type HeldShare } from '../../../keys/src/index.ts'
import { createClient, type HalfkeyClient, verifyWebhook } from '../../../sdk/src/index.ts'
import { UserLoad } from '../faults/load.ts'
import { debianPrograms, startDebianPostgres } from '../harness/debian-postgres.ts'
import { eventually } from '../harness/harness.ts'
import { type Receiver, startReceiver } from '../harness/receiver.ts'
import { DataFolder, killAll, query, type ServiceProcess, startProcess } from '../harness/service-process.ts'

const ROOT = new URL('../../../../', import.meta.url)
const MAIN = fileURLToPath(new URL('packages/server/src/main.ts', ROOT))
/** Tokens name it as their issuer: the same before and after, whatever port each process has. */
const PUBLIC_URL = 'http://localhost:8080'
const GUIDE = readFileSync(new URL('docs/backup.md', ROOT), 'utf8')

afterAll(killAll)

/** The commands of the guide under a mark, as they stand there. */
function commands(mark: string): string {
  const found = new RegExp(`<!-- run: ${mark} -->\\n\\n\`\`\`sh\\n([\\s\\S]*?)\`\`\``).exec(GUIDE)?.[1]
  if (found === undefined) throw new Error(`docs/backup.md has no commands marked ${mark}`)
  return found
}

/** A shell in which `halfkey` is this checkout's. */
async function shell(context: TestContext, programs: string) {
  const bin = mkdtempSync(join(tmpdir(), 'hk-bin-'))
  context.onTestFinished(() => rmSync(bin, { recursive: true, force: true }))
  writeFileSync(join(bin, 'halfkey'), `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`, { mode: 0o755 })
  const path = [bin, programs, process.env.PATH ?? ''].join(delimiter)
  return (text: string, env: Record<string, string>) =>
    new Promise<string>((resolve, reject) => {
      const options = { cwd: bin, env: { PATH: path, HOME: bin, ...env } }
      execFile('bash', ['-euo', 'pipefail', '-c', text], options, (error, stdout, stderr) => {
        if (error === null) resolve(stdout)
        else reject(new Error(`${text}\n${stdout}\n${stderr}`, { cause: error }))
      })
    })
}

type Policy = Parameters<HalfkeyClient['delegatedSessions']['create']>[0]['policy']

/** What an installation must still be able to do with what it held: each needs something that is sealed. */
interface Possessions {
  key: string
  webhookSecret: string
  /** A guest with a shared wallet: the tokens, and the device's share of the key. */
  accessToken: string
  refreshToken: string
  userId: string
  delegate: { sessionId: string; token: string; contractId: string; policy: Policy }
  device: HeldShare
}

const BOB = `bob::1220${'b0'.repeat(32)}`

async function acquire(service: ServiceProcess, receiver: Receiver): Promise<Possessions> {
  const { key, url: baseUrl } = service
  const webhook = await service.call(key, 'POST', '/webhooks', { body: { url: receiver.url, events: ['*'] } })
  const server = createClient({ baseUrl, apiKey: key })
  const { accessToken, refreshToken } = await server.guests.create()
  const mine = createClient({ baseUrl, apiKey: key, accessToken, pin: service.pin })
  const { wallet, device } = await createSharedWallet(mine)
  const { contractId, issuer } = await server.dev.faucet({ userId: wallet.userId, symbol: 'USDX', amount: '100' })
  const policy: Policy = {
    allow: [{ templateId: 'Token:Holding', actions: ['exercise'], choices: ['Transfer'] }],
    spend: [{ asset: { issuer, symbol: 'USDX' }, amount: '10' }],
  }
  const { id, token } = await mine.delegatedSessions.create({ policy })
  const webhookSecret = webhook.body.data.secret as string
  const { userId } = wallet
  const delegate = { sessionId: id, token, contractId, policy }
  return { key, webhookSecret, accessToken, refreshToken, userId, delegate, device }
}

/** Uses everything on the restored installation: keys, tokens, webhook secret, ledger-node key, the service's share. */
async function useAll(service: ServiceProcess, held: Possessions, receiver: Receiver): Promise<void> {
  const { key, delegate, device, userId } = held
  const made = await service.call(key, 'POST', '/users', { body: { email: 'after@example.com' } })
  expect(made.status).toBe(201)
  const received = await receiver.until(
    'an event of the restored installation',
    ({ event }) => event.data.userId === made.body.data.id,
  )
  await verifyWebhook(received.body, received.headers, held.webhookSecret)
  const asUser = { headers: { 'x-user-id': made.body.data.id as string } }
  const wallet = await service.call(key, 'POST', '/users/me/wallet', { body: {}, ...asUser })
  expect(wallet.body.data).toMatchObject({ custody: 'embedded', status: 'ready' })
  const pay = (sessionId: string, delegateToken: string) =>
    executeShared(createClient({ baseUrl: service.url, apiKey: key, delegateToken }), {
      sessionId,
      held: device,
      commands: [
        {
          exercise: {
            templateId: 'Token:Holding',
            contractId: delegate.contractId,
            choice: 'Transfer',
            arguments: { receiver: BOB, amount: '3' },
          },
        },
      ],
      approve: async () => {},
    })
  // The backup does not know what the session has spent since: it was ended, and a new one signs.
  await expect(pay(delegate.sessionId, delegate.token)).rejects.toMatchObject({ code: 'delegated_session_revoked' })
  // The guest cannot sign in again, but a server can act for them if the app lets it.
  const [app] = (await service.call(key, 'GET', '/apps')).body.data
  const allowed = await service.call(key, 'PATCH', `/apps/${app.id}`, { body: { mpc: { allowServer: true } } })
  expect(allowed.status).toBe(200)
  const owner = createClient({ baseUrl: service.url, apiKey: key, userId })
  const { id, token } = await owner.delegatedSessions.create({ policy: delegate.policy })
  expect((await pay(id, token)).status).toBe('completed')
}

const meStatus = async (service: ServiceProcess, { key, accessToken }: Possessions) =>
  (await service.call(key, 'GET', '/users/me/wallet', { headers: { authorization: `Bearer ${accessToken}` } })).status

/** What never changes once written, and what is sealed, of the rows that `ids` names. */
const LASTING: Record<string, string> = {
  tenants: 'id, name, node_public_key, node_key_sealed',
  apps: 'id, name, passkey, allowed_origins',
  users: 'id, email, party_id, created_at',
  api_keys: 'id, hash, scopes',
  webhooks: 'id, url, secret_sealed',
  signing_keys: 'id, private_key_sealed, refresh_secret_sealed',
  wallets: 'id, party_id, public_key, generation',
  events: 'id, type, body',
}

async function lasting(url: string, ids: Record<string, string[]>) {
  const rows = Object.entries(LASTING).map(async ([table, columns]) => {
    const [row] = await query<{ n: number; digest: string }>(
      { connectionString: url },
      `select count(*)::int as n, md5(string_agg(t::text, E'\\n' order by id)) as digest
      from (select ${columns} from ${table} where id = any($1)) t`,
      [ids[table]],
    )
    return [table, row] as const
  })
  return Object.fromEntries(await Promise.all(rows))
}

async function idsOf(url: string): Promise<Record<string, string[]>> {
  const lists = Object.keys(LASTING).map(async (table) => {
    const rows = await query<{ id: string }>({ connectionString: url }, `select id from ${table}`)
    return [table, rows.map(({ id }) => id)] as const
  })
  return Object.fromEntries(await Promise.all(lists))
}

test('the guide for a PostgreSQL of your own: a dump under load, restored, has all that was acknowledged, opens and signs, and revoked sessions stay out', async (context) => {
  const programs = debianPrograms()
  context.skip(programs === null, "Debian's postgresql is not installed here")
  const run = await shell(context, programs as string)
  const server = await startDebianPostgres(programs as string)
  const folder = new DataFolder()
  const receiver = await startReceiver()
  context.onTestFinished(async () => {
    await killAll()
    await folder.remove()
    await server.remove()
    await receiver.close()
  })
  const [backups, safe, kekFile] = ['backups', 'safe', 'kek.key'].map((name) => join(folder.path, name)) as [
    string,
    string,
    string,
  ]
  for (const path of [backups, safe]) mkdirSync(path, { mode: 0o700 })
  const env = folder.env({ DATABASE_URL: server.url(), HALFKEY_KEK_FILE: kekFile, HALFKEY_PUBLIC_URL: PUBLIC_URL })
  const variables = {
    DATABASE_URL: server.url(),
    HALFKEY_KEK_FILE: kekFile,
    BACKUPS: backups,
    SAFE: safe,
    ADMIN_URL: server.adminUrl,
    RESTORED_URL: server.url('halfkey_restored'),
  }
  const first = await startProcess({ cwd: folder.path, env })
  const held = await acquire(first, receiver)
  const load = new UserLoad({ url: first.url, key: held.key }).start()
  await load.more(300)
  const acknowledged = [...load.acknowledged.values()]
  expect(await run(commands('dump'), variables)).toContain('the dump can be read')
  await load.more(50)
  await load.stop()
  // Revoked since: the backup does not know.
  const authorization = { headers: { authorization: `Bearer ${held.accessToken}` } }
  expect((await first.call(held.key, 'POST', '/auth/logout', { body: {}, ...authorization })).status).toBe(200)
  expect(await meStatus(first, held)).toBe(401)
  await first.stop()
  rmSync(kekFile)

  await run(commands('restore'), variables)
  const restoredIds = await idsOf(variables.RESTORED_URL)
  expect(acknowledged.filter((id) => !restoredIds.users?.includes(id))).toEqual([])
  expect(await lasting(variables.RESTORED_URL, restoredIds)).toEqual(await lasting(server.url(), restoredIds))
  const [counts] = await query<{ users: number; events: number; counted: number }>(
    { connectionString: variables.RESTORED_URL },
    `select (select count(*) from users where not guest)::int as users, (select sum(n) from user_counts)::int as counted,
      (select count(*) from events where type = 'user.created')::int as events`,
  )
  expect(counts).toMatchObject({ users: restoredIds.users!.length - 1, events: counts?.users, counted: counts?.users })

  // Before the guide's last commands the revoked session is back, and the floor beside the key file shows it.
  const restored = { ...env, DATABASE_URL: variables.RESTORED_URL }
  const careless = await startProcess({ cwd: folder.path, env: restored })
  expect(await meStatus(careless, held)).toBe(500)
  await careless.stop()
  const said = await run(commands('revoke'), variables)
  expect(said).toMatch(/^Accepted as epoch 1\. /m)
  expect(said).toMatch(/^ok +key_file\.database /m)
  expect(said).toMatch(/^0 problems/m)

  const before = receiver.received.length
  const second = await startProcess({ cwd: folder.path, env: restored })
  expect(await meStatus(second, held)).toBe(401)
  const refreshed = await second.call(held.key, 'POST', '/auth/refresh', { body: { refreshToken: held.refreshToken } })
  expect(refreshed.status).toBe(401)
  await useAll(second, held, receiver)
  // What had not been handed over at the moment of the dump is, and what comes twice has one id.
  await eventually('an empty outbox', async () => {
    const [row] = await query<{ n: number }>(
      { connectionString: variables.RESTORED_URL },
      'select (select count(*) from outbox)::int + (select count(*) from deliveries)::int as n',
    )
    return row?.n === 0
  })
  const idsOfUser = new Map<string, Set<string>>()
  for (const { event } of receiver.received)
    if (event.type === 'user.created')
      idsOfUser.set(event.data.userId, (idsOfUser.get(event.data.userId) ?? new Set()).add(event.id))
  expect([...idsOfUser.values()].filter((ids) => ids.size > 1)).toEqual([])
  expect(acknowledged.filter((id) => !idsOfUser.has(id))).toEqual([])
  expect(receiver.received.length).toBeGreaterThan(before)
  await second.stop()
}, 180_000)

/** Root's PostgreSQL runs as another user, who cannot enter here: its data lies elsewhere and the folder only holds a link. */
const CLOSED = process.getuid?.() === 0

test('the guide for the embedded database: copied and unpacked elsewhere it opens and signs, wherever its data lay', async (context) => {
  const run = await shell(context, '/usr/bin')
  const folder = new DataFolder(join('inner', 'data'))
  mkdirSync(join(folder.path, 'inner'))
  chmodSync(join(folder.path, 'inner'), CLOSED ? 0o700 : 0o711)
  const elsewhere = new DataFolder()
  const receiver = await startReceiver()
  context.onTestFinished(async () => {
    await killAll()
    await folder.remove()
    await elsewhere.remove()
    await receiver.close()
  })
  const [backups, safe] = ['backups', 'safe'].map((name) => join(elsewhere.path, name)) as [string, string]
  for (const path of [backups, safe]) mkdirSync(path, { mode: 0o700 })
  const kekFile = join(folder.dataDir, 'kek.key')
  const first = await startProcess({ cwd: folder.path, env: folder.env({ HALFKEY_PUBLIC_URL: PUBLIC_URL }) })
  const held = await acquire(first, receiver)
  const load = new UserLoad({ url: first.url, key: held.key }).start()
  await load.more(50)
  await load.stop()
  const variables = {
    HALFKEY_DATA_DIR: folder.dataDir,
    HALFKEY_KEK_FILE: kekFile,
    BACKUPS: backups,
    SAFE: safe,
    RESTORED_DIR: elsewhere.dataDir,
  }
  // While it runs the guide's commands end before anything is copied.
  await expect(run(commands('copy'), variables)).rejects.toThrow()
  await first.stop()
  expect(lstatSync(join(folder.dataDir, 'postgres')).isSymbolicLink()).toBe(CLOSED)
  await run(commands('copy'), variables)
  expect(await run('tar --list --file="$(ls "$BACKUPS"/halfkey-*.tgz)"', variables)).not.toContain('kek.key')
  await folder.remove()
  const restored = { ...variables, HALFKEY_KEK_FILE: join(elsewhere.path, 'kek.key') }
  expect(await run(commands('unpack'), restored)).toMatch(/^0 problems/m)
  const second = await startProcess({
    cwd: elsewhere.path,
    env: elsewhere.env({ HALFKEY_KEK_FILE: restored.HALFKEY_KEK_FILE, HALFKEY_PUBLIC_URL: PUBLIC_URL }),
  })
  const users = await second.call(held.key, 'GET', '/users?page_size=100')
  const found = new Set(users.body.data.map(({ id }: { id: string }) => id))
  expect([...load.acknowledged.values()].filter((id) => !found.has(id))).toEqual([])
  expect(await meStatus(second, held)).toBe(401)
  await useAll(second, held, receiver)
  await second.stop()
}, 120_000)
