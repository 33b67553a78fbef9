import { createServer, type Server } from 'node:http'
import { join } from 'node:path'
import { Webhook as StandardWebhook } from 'standardwebhooks'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { verifyWebhook } from '../../../../../sdk/src/webhooks.ts'
import { eventually, newDatabase, type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { answer, startReceiver } from '../../../../test/harness/receiver.ts'
import { freePort, killAll, type ServiceProcess } from '../../../../test/harness/service-process.ts'
import { createUser } from '../../../delivery/engine/delivery.fixture.ts'
import { halfkey } from '../remote.fixture.ts'

// Each begins a process or two, which takes its time on a busy machine.
vi.setConfig({ testTimeout: 240_000 })

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterEach(() => killAll())
afterAll(() => service.stop())

interface Line {
  kind: string
  id?: string
  status?: number | null
  secret?: string
  cursor?: string
  forwarded?: number
}

const linesOf = ({ stdout }: ServiceProcess) =>
  stdout.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as Line]))

/** `halfkey listen`, once it has begun. */
async function listening(tenant: Tenant, to: string, args: string[] = [], env: Record<string, string> = {}) {
  const all = ['listen', '--forward-to', to, '--events', 'user.created', '--json', ...args]
  const process = await halfkey(service, tenant, all, env).until('the beginning', /listening/)
  return { process, secret: linesOf(process)[0]?.secret }
}

/** Ends it as Ctrl-C does; answers its last line. */
async function interrupt(process: ServiceProcess): Promise<Line> {
  process.signal('SIGINT')
  expect(await process.exited, process.stderr).toEqual({ code: 0, signal: null })
  return linesOf(process).at(-1) as Line
}

async function createUsers(tenant: Tenant, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let at = 0; at < count; at += 1) ids.push(await createUser(tenant))
  return ids
}

/** A receiver on a port that stays the same. */
function receiverOn(port: number, seen: string[], status = 200): Promise<Server> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    seen.push(JSON.parse(Buffer.concat(chunks).toString()).data.userId)
    response.writeHead(status).end()
  })
  return new Promise((resolve) => server.listen(port, '127.0.0.1', () => resolve(server)))
}

const closed = (server: Server) =>
  new Promise<void>((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })

test('events are forwarded as deliveries are: the same body, both signatures, in the order of the feed', async () => {
  const tenant = await service.newTenant()
  const receiver = await startReceiver()
  const { process, secret = '' } = await listening(tenant, `${receiver.url}/hook?a=b`)
  expect(secret).toMatch(/^whsec_/)
  const webhook = (await tenant.post('/webhooks', { url: `${receiver.url}/webhook`, events: ['user.created'] })).body
    .data
  const users = await createUsers(tenant, 5)
  const forwarded = await receiver.count('forwarded events', 5, ({ path }) => path === '/hook?a=b')
  const delivered = await receiver.count('deliveries', 5, ({ path }) => path === '/webhook')
  expect(forwarded.map(({ event }) => event.data.userId)).toEqual(users)
  for (const { body, headers, event } of forwarded) {
    expect((await verifyWebhook(body, headers, secret)).id).toBe(event.id)
    expect(() => new StandardWebhook(secret).verify(body, headers)).not.toThrow()
    await expect(verifyWebhook(body, headers, webhook.secret)).rejects.toThrow()
    const twin = delivered.find((one) => one.event.id === event.id)
    expect(body).toBe(twin?.body)
    const { connection: _, ...names } = headers
    expect(Object.keys({ ...names, connection: '' }).sort()).toEqual(Object.keys(twin?.headers ?? {}).sort())
    for (const name of ['content-type', 'user-agent', 'accept-encoding'])
      expect(headers[name]).toBe(twin?.headers[name])
  }
  expect(await interrupt(process)).toMatchObject({ kind: 'stopped', forwarded: 5 })
  await receiver.close()
})

test('a receiver that is restarted again and again gets every event once, in order', async () => {
  const tenant = await service.newTenant()
  const port = await freePort()
  const { process } = await listening(tenant, `http://127.0.0.1:${port}/hook`)
  const seen: string[] = []
  const users: string[] = []
  for (let round = 1; round <= 3; round += 1) {
    users.push(...(await createUsers(tenant, 4)))
    await eventually(
      'it is told',
      async () => linesOf(process).filter(({ kind }) => kind === 'waiting').length >= round,
    )
    const server = await receiverOn(port, seen)
    users.push(...(await createUsers(tenant, 2)))
    await eventually('all events', async () => seen.length >= users.length)
    await closed(server)
  }
  expect(seen).toEqual(users)
  expect(await interrupt(process)).toMatchObject({ forwarded: 18 })
})

test('interrupted anywhere, it says how to go on, and then nothing is lost or doubled', async () => {
  const tenant = await service.newTenant()
  const receiver = await startReceiver()
  const users = await createUsers(tenant, 10)
  await eventually('all in the feed', async () => {
    const { events } = (await tenant.get('/events?type=user.created')).body.data
    return events.length === 10
  })
  // The fifth one is not answered: that is where it is interrupted.
  receiver.behave((_, response) => {
    if (receiver.received.length < 5) response.end()
  })
  const first = await listening(tenant, receiver.url, ['--since', '1h'])
  await receiver.count('four and one', 5)
  await eventually(
    'four are told',
    async () => linesOf(first.process).filter(({ kind }) => kind === 'forwarded').length === 4,
  )
  const stopped = await interrupt(first.process)
  expect(stopped).toMatchObject({ kind: 'stopped', forwarded: 4 })
  receiver.behave(answer(204))
  const again = await listening(tenant, receiver.url, ['--since', stopped.cursor as string])
  const got = await receiver.count('the rest', 11)
  expect(got.slice(5).map(({ event }) => event.data.userId)).toEqual(users.slice(4))
  const end = await interrupt(again.process)
  expect(end.forwarded).toBe(6)
  const rest = await tenant.get(`/events?after=${end.cursor}&type=user.created`)
  expect(rest.body.data.events).toEqual([])
  await receiver.close()
})

test('what the receiver refuses is told, is not sent again, and holds nothing up; redirects are not followed', async () => {
  const tenant = await service.newTenant()
  const receiver = await startReceiver((_, response) => {
    const [status, headers] = [
      [500, {}],
      [302, { location: '/elsewhere' }],
      [201, {}],
    ][receiver.received.length - 1] as [number, object]
    response.writeHead(status, headers as Record<string, string>).end('x'.repeat(200_000))
  })
  const { process } = await listening(tenant, receiver.url)
  await createUsers(tenant, 3)
  const told = await eventually('three are told', async () => {
    const lines = linesOf(process).filter(({ kind }) => kind === 'forwarded')
    return lines.length === 3 && lines
  })
  expect(told.map(({ status }) => status)).toEqual([500, 302, 201])
  expect(receiver.received.map(({ path }) => path)).toEqual(['/', '/', '/'])
  await receiver.close()
})

test('a status line is an answer, whatever becomes of the body: the event does not come again', async () => {
  const tenant = await service.newTenant()
  const receiver = await startReceiver((_, response) => {
    response.writeHead(200, { 'content-length': '100' }).write('half of it', () => response.destroy())
  })
  const { process } = await listening(tenant, receiver.url)
  const users = await createUsers(tenant, 3)
  await eventually('three are told', async () => linesOf(process).filter(({ status }) => status === 200).length === 3)
  expect(receiver.received.map(({ event }) => event.data.userId)).toEqual(users)
  await receiver.close()
})

test("a secret of one's own signs, and is shown nowhere", async () => {
  const tenant = await service.newTenant()
  const receiver = await startReceiver()
  const own = `whsec_${Buffer.from('a secret of thirty-two bytes, ok').toString('base64')}`
  const args = ['listen', '--forward-to', receiver.url]
  const process = halfkey(service, tenant, args, { HALFKEY_WEBHOOK_SECRET: own })
  await eventually('the beginning', async () => process.stderr.includes('Forwarding'))
  await createUser(tenant)
  const { body, headers } = await receiver.until('the event', ({ event }) => event.type === 'user.created')
  expect((await verifyWebhook(body, headers, own)).type).toBe('user.created')
  await eventually('a line', async () => /user\.created +evt_\w+ +200 +\d+ ms/.test(process.stdout))
  process.signal('SIGINT')
  expect(await process.exited).toEqual({ code: 0, signal: null })
  expect(process.stderr).toMatch(/To continue: halfkey listen --forward-to \S+ --since cur_\w+\n/)
  expect(process.stdout + process.stderr).not.toContain(own)
  expect(process.stdout + process.stderr).not.toContain(tenant.key)
  await receiver.close()
})

test('a service that is restarted meanwhile is waited for', async () => {
  const database = await newDatabase()
  const kek = join(service.dataDir, 'restarted.key')
  const settings = { DATABASE_URL: database.url, PORT: String(await freePort()), HALFKEY_KEK_FILE: kek }
  const before = await startService(settings)
  const tenant = await before.newTenant()
  const receiver = await startReceiver()
  const env = { HALFKEY_URL: before.url }
  const { process } = await listening(tenant, receiver.url, [], env)
  const first = await createUser(tenant)
  await receiver.count('the first one', 1)
  await before.stop()
  await eventually('it is told', async () => linesOf(process).some(({ kind }) => kind === 'note'))
  const after = await startService(settings)
  const second = (await after.admin.call('POST', '/users', { body: {}, key: tenant.key })).body.data.id
  const got = await receiver.count('both', 2)
  expect(got.map(({ event }) => event.data.userId)).toEqual([first, second])
  await interrupt(process)
  await after.stop()
  await database.drop()
  await receiver.close()
})
