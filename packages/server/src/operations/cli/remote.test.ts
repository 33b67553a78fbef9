import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { answer, startReceiver } from '../../../test/harness/receiver.ts'
import { DataFolder, killAll, startProcess } from '../../../test/harness/service-process.ts'
import { newHolder, newSession, transfer, transfers } from '../../delegation/delegated.fixture.ts'
import { createUser, deliveriesIn, insertDeadLetters, subscribe } from '../../delivery/engine/delivery.fixture.ts'
import { newApiKey } from '../../platform/security/api-key.ts'
import { runCli } from './cli.ts'
import { halfkey } from './remote.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '10ms,10ms,10ms,10ms,10ms' })
})
afterEach(() => {
  vi.unstubAllEnvs()
  return killAll()
})
afterAll(() => service.stop())

/** In this process: a command that ends by itself needs no other. */
async function run(tenant: Pick<Tenant, 'key'>, args: string[], env: Record<string, string> = {}) {
  for (const [name, value] of Object.entries({ HALFKEY_URL: service.url, HALFKEY_KEY: tenant.key, ...env }))
    vi.stubEnv(name, value)
  const [lines, err]: [string[], string[]] = [[], []]
  const code = await runCli(args, {
    openDeps: () => Promise.reject(new Error('opened')),
    out: (line) => void lines.push(line),
    err: (line) => void err.push(line),
  })
  return { code, lines, out: lines.join('\n'), err: err.join('\n') }
}

async function createUsers(tenant: Tenant, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let at = 0; at < count; at += 1) ids.push(await createUser(tenant))
  await eventually('all in the feed', async () => {
    const { events } = (await tenant.get('/events?type=user.created&limit=1000')).body.data
    return events.length >= count
  })
  return ids
}

test('events tail shows the last events, a line each, for people and for programs', async () => {
  const tenant = await service.newTenant()
  const users = await createUsers(tenant, 4)
  const shown = await run(tenant, ['events', 'tail', '--type', 'user.*', '--limit', '3', '--json'])
  expect(shown.lines.map((line) => JSON.parse(line).data.userId)).toEqual(users.slice(1))
  expect(Object.keys(JSON.parse(shown.lines[0] as string))).toEqual(['id', 'type', 'created_at', 'api_version', 'data'])
  const people = await run(tenant, ['events', 'tail', '--limit', '1', '--type', 'user.created'])
  expect(people.out).toMatch(new RegExp(`^\\S+Z +user\\.created +evt_\\w+ +\\{.*${users[3]}.*\\}$`))
})

test('events publish publishes an event of a type that exists, once for an idempotency key', async () => {
  const tenant = await service.newTenant()
  const publish = (...more: string[]) => run(tenant, ['events', 'publish', '--type', 'acme.paid', ...more])
  const missing = await publish('--data', '{}')
  expect([missing.code, missing.err]).toEqual([1, expect.stringContaining('POST /event-types')])
  expect((await tenant.post('/event-types', { name: 'acme.paid' })).status).toBe(201)
  const once = ['--data', '{"total":"1"}', '--idempotency-key', 'one', '--json']
  const [first, again] = [await publish(...once), await publish(...once)]
  expect(JSON.parse(first.out)).toMatchObject({ type: 'acme.paid', data: { total: '1' } })
  expect(again.out).toBe(first.out)
  for (const data of ['[1]', '{', 'null', '1']) expect((await publish('--data', data)).code, data).toBe(2)
})

test('what others have named reaches no terminal as a command to it, and a program reads it as it is', async () => {
  const tenant = await service.newTenant()
  const hostile = 'Shop \u009b2J\u007f \u001b[2J'
  const made = await tenant.post('/api-keys', { name: hostile, type: 'secret', scopes: ['users:read'] })
  expect(made.status, made.text).toBe(201)
  const named = (event: { data: { name?: string } }) => event.data.name === hostile
  await eventually('it is in the feed', async () => {
    const { events } = (await tenant.get('/events?type=api_key.created')).body.data
    return events.some(named)
  })
  const tail = ['events', 'tail', '--type', 'api_key.created']
  for (const args of [tail, [...tail, '--json']]) expect((await run(tenant, args)).out).not.toMatch(/[^\P{Cc}\n\t]/u)
  const { lines } = await run(tenant, [...tail, '--json'])
  expect(lines.map((line) => JSON.parse(line)).some(named)).toBe(true)
})

test('events tail -f shows events as they come, until Ctrl-C', async () => {
  const tenant = await service.newTenant()
  const process = halfkey(service, tenant, ['events', 'tail', '-f', '--type', 'user.created', '--json'])
  const [first] = await createUsers(tenant, 1)
  await process.until('the first', new RegExp(first as string))
  const second = await createUser(tenant)
  await process.until('the second', new RegExp(second))
  process.signal('SIGINT')
  expect(await process.exited).toEqual({ code: 0, signal: null })
  expect(process.stderr).toBe('')
})

test('a reader who has seen enough ends events tail without a word', async () => {
  const tenant = await service.newTenant()
  await createUsers(tenant, 2)
  const main = fileURLToPath(new URL('../../main.ts', import.meta.url))
  const { PATH = '' } = process.env
  const env = { PATH, HALFKEY_URL: service.url, HALFKEY_KEY: tenant.key }
  const shell = spawn('bash', ['-c', `"$0" "$1" events tail -f --json | head -1`, process.execPath, main], {
    env,
    // A shell that finds a socket there takes itself for a remote one, and reads its profile.
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [out, err]: [string[], string[]] = [[], []]
  shell.stdout.on('data', (chunk) => void out.push(String(chunk)))
  shell.stderr.on('data', (chunk) => void err.push(String(chunk)))
  const ended = new Promise((resolve) => shell.once('close', resolve))
  await eventually('a line', async () => out.length > 0, 60_000)
  await createUser(tenant)
  expect(await ended).toBe(0)
  expect([out.join('').trim().split('\n').length, err.join('')]).toEqual([1, ''])
}, 180_000)

test('the key may stand in a file, and --url go before the environment', async () => {
  const tenant = await service.newTenant()
  await createUsers(tenant, 1)
  const file = join(service.dataDir, 'key')
  writeFileSync(file, `${tenant.key}\n`)
  const env = { HALFKEY_KEY: '', HALFKEY_URL: 'http://127.0.0.1:1' }
  const args = ['events', 'tail', '--key-file', file, '--url', `${service.url}/v1/`, '--type', 'user.created', '--json']
  expect((await run(tenant, args, env)).lines).toHaveLength(1)
})

/** A webhook with one dead letter. */
async function deadLetter(tenant: Tenant) {
  const receiver = await startReceiver(answer(500, 'no'))
  const webhook = await subscribe(tenant, receiver.url)
  await createUser(tenant)
  const [delivery] = await deliveriesIn(tenant, webhook.id, 'dead_letter')
  return { receiver, webhook, delivery: delivery as { id: string; eventId: string } }
}

test('a dead letter is listed, retried by its id, and arrives with the same event id', async () => {
  const tenant = await service.newTenant()
  const { receiver, webhook, delivery } = await deadLetter(tenant)
  const list = await run(tenant, ['deliveries', 'list', '--status', 'dead_letter'])
  expect([list.code, list.lines.length]).toEqual([0, 1])
  expect(list.out).toContain(delivery.id)
  expect(list.out).toContain('6 attempts, last: 500')
  const json = await run(tenant, ['deliveries', 'list', '--webhook', webhook.id, '--json'])
  expect(JSON.parse(json.out)).toMatchObject({ webhookId: webhook.id, deliveries: [{ id: delivery.id }] })

  const refused = await run(tenant, ['deliveries', 'retry', '--delivery', delivery.id])
  expect([refused.code, refused.out.includes('500')]).toEqual([1, true])
  await deliveriesIn(tenant, webhook.id, 'dead_letter')

  receiver.behave(answer(200))
  const before = receiver.received.length
  const retried = await run(tenant, ['deliveries', 'retry', '--delivery', delivery.id, '--json'])
  expect(JSON.parse(retried.out)).toMatchObject({ delivery: { id: delivery.id, status: 'succeeded' } })
  expect(receiver.received.slice(before).map(({ event }) => event.id)).toEqual([delivery.eventId])
  const gone = await run(tenant, ['deliveries', 'retry', '--delivery', 'dlv_x'])
  expect([gone.code, gone.err.includes('halfkey deliveries list')]).toEqual([1, true])
  await receiver.close()
})

test('dead letters of one type are sent again, and which could not be', async () => {
  const tenant = await service.newTenant()
  const { receiver, webhook, delivery } = await deadLetter(tenant)
  receiver.behave(answer(200))
  await insertDeadLetters(service, tenant, webhook.id, 2)
  const set = 'update deliveries_done set event_type = $3, attempts = $4 where tenant_id = $1 and id <> $2'
  await service.sql(set, [tenant.tenantId, delivery.id, 'wallet.created', 100])
  const none = await run(tenant, ['deliveries', 'retry', '--all-dead-letters', '--type', 'wallet.created'])
  expect(none.out).toMatch(/^0 dead letters are being sent again/)
  expect(none.out.match(/was not sent again: This delivery cannot be retried/g)).toHaveLength(2)
  const done = await run(tenant, ['deliveries', 'retry', '--since', '2020-01-01', '--type', 'user.created', '--json'])
  expect(JSON.parse(done.out)).toMatchObject({ job: { status: 'succeeded', progress: 1, failures: [] } })
  await deliveriesIn(tenant, webhook.id, 'succeeded')
  const wrong = await run(tenant, ['deliveries', 'retry', '--delivery', delivery.id, '--type', 'user.created'])
  expect([wrong.code, wrong.err.includes('--type needs')]).toEqual([2, true])
  await receiver.close()
})

test('all dead letters are sent again by a job that outlives the command', async () => {
  const tenant = await service.newTenant()
  const { receiver, webhook } = await deadLetter(tenant)
  receiver.behave(answer(200))
  await insertDeadLetters(service, tenant, webhook.id, 1_200)
  const done = await run(tenant, ['deliveries', 'retry', '--all-dead-letters'])
  expect(done.code, done.err).toBe(0)
  expect(done.out).toMatch(/^1201 dead letters are being sent again \(job job_\w+\)\.$/)
  expect(done.err).toMatch(/halfkey deliveries retry --job job_\w+/)
  expect(done.err).toContain('100 %, 1201 of 1201')
  const job = /job_\w+/.exec(done.out)?.[0] as string
  const again = await run(tenant, ['deliveries', 'retry', '--job', job, '--json'])
  expect(JSON.parse(again.out)).toMatchObject({ job: { id: job, status: 'succeeded', progress: 1201 } })
  const [delivered] = await deliveriesIn(tenant, webhook.id, 'succeeded')
  expect(delivered).toBeDefined()
  const since = new Date(Date.now() + 3_600_000).toISOString()
  const future = await run(tenant, ['deliveries', 'retry', '--since', since])
  expect([future.code, future.err.includes('future')]).toEqual([1, true])
  await receiver.close()
})

test('a paused webhook keeps what is retried, a disabled one refuses, and both say how to go on', async () => {
  const tenant = await service.newTenant()
  const { receiver, webhook, delivery } = await deadLetter(tenant)
  await tenant.patch(`/webhooks/${webhook.id}`, { status: 'paused' })
  const paused = await run(tenant, ['deliveries', 'retry', '--delivery', delivery.id])
  expect([paused.code, paused.err.includes('"status":"active"'), paused.out.includes('waits')]).toEqual([0, true, true])
  await service.sql("update webhooks set status = 'disabled' where tenant_id = $1", [tenant.tenantId])
  for (const args of [['--delivery', delivery.id], ['--all-dead-letters']]) {
    const disabled = await run(tenant, ['deliveries', 'retry', ...args])
    expect([disabled.code, disabled.err.includes('"status":"active"')], disabled.err).toEqual([1, true])
  }
  await receiver.close()
})

test('several webhooks are listed where none is named', async () => {
  const tenant = await service.newTenant()
  const one = await subscribe(tenant, 'http://127.0.0.2:49150/one')
  const two = await subscribe(tenant, 'http://127.0.0.2:49150/two')
  const { code, err } = await run(tenant, ['deliveries', 'list'])
  expect([code, err.includes(one.id), err.includes(two.id)]).toEqual([2, true, true])
})

test.each([
  [['listen'], {}, 2, '--forward-to is missing'],
  [['listen', '--forward-to', 'localhost:3000'], {}, 2, 'http://localhost:3000/hook'],
  [['listen', '--forward-to', 'http://localhost:1', '--since', 'yesterday'], {}, 2, '15m'],
  [['listen', '--forward-to', 'http://localhost:1', '--since', 'cur_nonsense'], {}, 1, 'after'],
  [['listen', '--forward-to', 'http://localhost:1', '--events', 'users'], {}, 1, 'user.*'],
  [['listen', '--forward-to', 'http://localhost:1'], { HALFKEY_WEBHOOK_SECRET: 'nonsense' }, 2, 'whsec_'],
  [['listen', '--forward-to', 'http://localhost:1'], { HALFKEY_KEY: '' }, 2, 'export HALFKEY_KEY='],
  [['listen', '--forward-to', 'http://localhost:1'], { HALFKEY_KEY: 'hk_sk_nonsense' }, 2, 'copied it completely'],
  [['listen', '--forward-to', 'http://localhost:1', '--key-file', '/nonexistent'], {}, 1, "can't be read"],
  [['events', 'tail'], { HALFKEY_URL: 'http://127.0.0.1:1' }, 1, 'halfkey serve'],
  [['events', 'tail', '--url', 'ftp://x'], {}, 2, '--url'],
  [['events', 'tail', '--limit', '1001'], {}, 2, '--limit'],
  [['deliveries', 'list'], {}, 1, 'no webhook yet'],
  [['deliveries', 'list', '--webhook', 'wh_nonsense'], {}, 1, 'This key sees no webhook'],
  [['deliveries', 'retry'], {}, 2, '--all-dead-letters'],
  [['deliveries', 'retry', '--since', 'x', '--all-dead-letters'], {}, 2, 'one of'],
  [['deliveries', 'retry', '--since', 'x'], {}, 2, '--since'],
  [['deliveries', 'retry', '--job', 'job_x'], {}, 1, 'There is no job'],
] as [string[], Record<string, string>, number, string][])(
  '%j %j ends with %i and says what to do',
  async (args, env, code, told) => {
    const tenant = await service.newTenant()
    const ended = await run(tenant, args, env)
    expect([ended.code, ended.out]).toEqual([code, ''])
    expect(ended.err).toContain(told)
  },
)

test('a key of another service is told by its variable, and what answers and is no Halfkey too', async () => {
  const stranger = await run({ key: newApiKey('secret') }, ['events', 'tail', '--json'])
  expect([stranger.code, JSON.parse(stranger.err).error.includes('HALFKEY_KEY')]).toEqual([1, true])
  const server = createServer((_, response) => response.end('<html>hello'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as { port: number }).port}`
  const wrong = await run(service.admin, ['events', 'tail', '--url', url])
  expect([wrong.code, wrong.err.includes('is not Halfkey')]).toEqual([1, true])
  await new Promise((resolve) => server.close(resolve))
})

test('every command has help, for people and as JSON', async () => {
  const said: string[] = []
  const context = {
    openDeps: () => Promise.reject(new Error('opened')),
    out: (line: string) => void said.push(line),
    err: () => {},
  }
  expect(await runCli(['help', '--json'], context)).toBe(0)
  const { commands } = JSON.parse(said.pop() as string) as { commands: { name: string; summary: string }[] }
  expect(commands.length).toBeGreaterThan(15)
  for (const { name, summary } of commands) {
    if (name === 'serve' || name === 'help') continue
    expect(await runCli(['help', ...name.split(' '), '--json'], context), name).toBe(0)
    expect(JSON.parse(said.pop() as string)).toMatchObject({ command: name, summary })
    // What is not understood is told in JSON too.
    const errors: string[] = []
    const told = { ...context, err: (line: string) => void errors.push(line) }
    expect(await runCli([...name.split(' '), '--nonsense', '--json'], told), name).toBe(2)
    expect(JSON.parse(errors.join(''))).toMatchObject({ exitCode: 2, error: expect.stringContaining('Usage: halfkey') })
  }
})

test('denials says what was refused and why; events show says where an event went', async () => {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const session = await newSession(service, tenant, ada, { policy: transfers(ada, '10') })
  expect((await run(tenant, ['denials', '--user', ada.userId])).out).toBe('No denials.')
  await session.execute({ commands: [transfer(await ada.receive('11'))] })
  const refused = await run(tenant, ['denials', '--session', session.id])
  expect(refused.out).toMatch(new RegExp(`^\\S+Z  1×  ${session.id}  spend\\[0\\]  .*11 USDX`))
  const [denial] = JSON.parse((await run(tenant, ['denials', '--wallet', ada.walletId, '--json'])).out).denials
  expect(denial).toMatchObject({ rule: 'spend[0]', remaining: '10' })

  const webhook = await subscribe(tenant, 'http://127.0.0.2:49150/hook')
  const userId = await createUser(tenant)
  const event = await eventually('the event', async () => {
    const { events } = (await tenant.get('/events?type=user.created')).body.data
    return events.find(({ data }: { data: { userId: string } }) => data.userId === userId)
  })
  const shown = await run(tenant, ['events', 'show', '--id', event.id])
  expect(shown.out).toContain('Sent to one webhook:')
  expect(shown.out).toContain(webhook.id)
  const unknown = await run(tenant, ['events', 'show', '--id', 'evt_none'])
  expect([unknown.code, unknown.err]).toEqual([1, expect.stringContaining('This key sees no event evt_none')])
})

test('without HALFKEY_URL a command finds the service that runs in its folder', async () => {
  const folder = new DataFolder()
  const running = await startProcess({ cwd: folder.path, env: folder.env({ DATABASE_URL: '' }) })
  const found = await run({ key: running.key }, ['events', 'tail', '--limit', '1'], {
    HALFKEY_URL: '',
    HALFKEY_DATA_DIR: folder.dataDir,
  })
  expect([found.code, found.err]).toEqual([0, ''])
  await running.stop()
  const gone = await run({ key: running.key }, ['events', 'tail'], {
    HALFKEY_URL: '',
    HALFKEY_DATA_DIR: folder.dataDir,
  })
  expect([gone.code, gone.err]).toEqual([1, expect.stringContaining('http://127.0.0.1:8080')])
  await folder.remove()
})
