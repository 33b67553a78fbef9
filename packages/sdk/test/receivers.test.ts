import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { eventually, type Service, startService, type Tenant } from '../../server/test/harness/harness.ts'
import { freePort } from '../../server/test/harness/service-process.ts'

const EXAMPLES = fileURLToPath(new URL('../../../examples/', import.meta.url))
/** Where Go is put by its own installer; Debian's is on the path. */
const GO_FOLDER = '/usr/local/go/bin'
/** Go builds its standard library the first time: a minute or more on a busy machine. */
const BUILD_MS = 300_000

let service: Service
let folder: string
beforeAll(async () => {
  service = await startService()
  folder = mkdtempSync(join(tmpdir(), 'halfkey-receivers-'))
})
afterAll(async () => {
  await service.stop()
  rmSync(folder, { recursive: true, force: true })
})

const running: ChildProcess[] = []
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await new Promise((resolve) => child.once('close', resolve))
}
afterEach(async () => {
  await Promise.all(running.splice(0).map(end))
})

function found(tool: string, ...args: string[]): string | null {
  for (const command of [tool, join(GO_FOLDER, tool)]) {
    try {
      execFileSync(command, args, { stdio: 'ignore' })
      return command
    } catch {
      // Not there, or not of use: the next one.
    }
  }
  return null
}

/** How to start each receiver; null where its language is not installed here. */
const LANGUAGES: Record<string, () => [command: string, ...args: string[]] | null> = {
  'receivers/receiver.ts': () => [process.execPath, '--no-warnings', join(EXAMPLES, 'receivers/receiver.ts')],
  'receivers/receiver.mjs': () => [process.execPath, join(EXAMPLES, 'receivers/receiver.mjs')],
  'receiver.mjs': () => [process.execPath, join(EXAMPLES, 'receiver.mjs')],
  'receivers/receiver.py': () => {
    const python = found('python3', '--version')
    return python === null ? null : [python, join(EXAMPLES, 'receivers/receiver.py')]
  },
  'receivers/receiver.go': () => {
    const go = found('go', 'version')
    if (go === null) return null
    const program = join(folder, 'receiver')
    if (!existsSync(program)) {
      const { PATH = '', HOME = folder } = process.env
      // In the user's own cache: from the second time on it is a matter of a second.
      execFileSync(go, ['build', '-o', program, join(EXAMPLES, 'receivers/receiver.go')], {
        cwd: folder,
        env: { GOFLAGS: '-mod=mod', GOTOOLCHAIN: 'local', HOME, PATH: [PATH, GO_FOLDER].join(delimiter) },
      })
    }
    return [program]
  },
}

interface Receiver {
  url: string
  said(): string
  post(body: string, headers: Record<string, string>): Promise<number>
}

/** Starts a receiver that knows these secrets, and waits until it says that it listens. */
async function start([command, ...args]: [string, ...string[]], port: number, secrets: string[]): Promise<Receiver> {
  const { PATH = '' } = process.env
  const env = { PATH, HOME: folder, PORT: String(port), HALFKEY_WEBHOOK_SECRET: secrets.join(',') }
  const child = spawn(command, args, { env, cwd: folder })
  running.push(child)
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk) => {
      said += chunk
    })
  await eventually(`${command} listens`, async () => {
    if (child.exitCode !== null) throw new Error(said)
    return said.includes('Receiving on')
  })
  const url = `http://127.0.0.1:${port}/hook`
  const post = async (body: string, headers: Record<string, string>) =>
    (await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json', ...headers } })).status
  return { url, said: () => said, post }
}

/** Signed by the specification's section 6, without any code of ours. */
function signed(body: string, secret: string, timestamp = Math.floor(Date.now() / 1000)): Record<string, string> {
  const mac = createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')
  return {
    'x-service-signature': `sha256=${mac}`,
    'x-service-timestamp': String(timestamp),
    'x-service-event-id': JSON.parse(body).id,
  }
}

async function subscribe(tenant: Tenant, port: number): Promise<{ id: string; secret: string }> {
  const answer = await tenant.post('/webhooks', { url: `http://127.0.0.1:${port}/hook`, events: ['user.created'] })
  expect(answer.status, answer.text).toBe(201)
  return answer.body.data
}

/** Makes a user; answers the event's delivery once it has ended. */
async function deliver(tenant: Tenant, webhookId: string) {
  const user = (await tenant.post('/users', {})).body.data
  return eventually('the delivery has ended', async () => {
    const { body } = await tenant.get(`/webhooks/${webhookId}/deliveries`)
    for (const { id, status, attempts } of body.data) {
      if (attempts.length === 0) continue
      const whole = (await tenant.get(`/webhooks/${webhookId}/deliveries/${id}`)).body.data
      if (JSON.stringify(whole.payload).includes(user.id)) return { ...whole, status }
    }
    return undefined
  })
}

const body = JSON.stringify({
  id: 'evt_01jb2m7x9kq4t8v6w0r3s5y1zq',
  type: 'user.created',
  created_at: '2026-11-21T08:30:00.000Z',
  api_version: '2026-11-01',
  data: { userId: 'usr_01jb2m7x9kq4t8v6w0r3s5y1za', email: 'ádá@example.com', partyId: 'usr::1220' },
})
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const OTHER = `whsec_${Buffer.alloc(32, 8).toString('base64')}`

describe.each(Object.entries(LANGUAGES))('examples/%s', (name, find) => {
  test(
    'accepts real deliveries before, during and after a rotation of the secret',
    async (context) => {
      const command = find()
      if (command === null) return context.skip(`${name}: its language is not installed here`)
      const tenant = await service.newTenant()
      const port = await freePort()
      const { id, secret } = await subscribe(tenant, port)
      const before = await start(command, port, [secret])
      const first = await deliver(tenant, id)
      expect([first.status, first.attempts[0].statusCode], before.said()).toEqual(['succeeded', 204])
      await eventually('it says so', async () => before.said().includes(`verified: user.created ${first.eventId}`))

      const { body: rotated } = await tenant.post(`/webhooks/${id}/rotate`, { graceSeconds: 3600 })
      await end(running.pop() as ChildProcess)
      const both = await start(command, port, [secret, rotated.data.secret])
      expect((await deliver(tenant, id)).attempts[0].statusCode, both.said()).toBe(204)
      expect((await tenant.post(`/webhooks/${id}/rotate`, { endGrace: true })).status).toBe(200)
      expect((await deliver(tenant, id)).attempts[0].statusCode, both.said()).toBe(204)
    },
    BUILD_MS,
  )

  test(
    'refuses altered, old, future, unsigned and wrongly signed deliveries, and handles a duplicate once',
    async (context) => {
      const command = find()
      if (command === null) return context.skip(`${name}: its language is not installed here`)
      const receiver = await start(command, await freePort(), [OTHER, SECRET])
      const good = signed(body, SECRET)
      const now = Math.floor(Date.now() / 1000)
      const refused: [what: string, body: string, headers: Record<string, string>][] = [
        ['a changed character', body.replace('ádá', 'ádä'), good],
        ['an additional space, which parsers ignore', `${body} `, good],
        ['an old timestamp', body, signed(body, SECRET, now - 310)],
        ['a future timestamp', body, signed(body, SECRET, now + 310)],
        [
          'a fresh timestamp on an old signature',
          body,
          { ...signed(body, SECRET, now - 3600), 'x-service-timestamp': String(now) },
        ],
        ['an invalid timestamp', body, { ...good, 'x-service-timestamp': 'soon' }],
        ['an empty timestamp', body, { ...good, 'x-service-timestamp': '' }],
        ['another secret', body, signed(body, `whsec_${Buffer.alloc(32, 9).toString('base64')}`)],
        ['no signature', body, { 'x-service-timestamp': String(now) }],
        ['no headers', body, {}],
        [
          'half a signature',
          body,
          { ...good, 'x-service-signature': (good['x-service-signature'] as string).slice(0, 40) },
        ],
        ['no sha256=', body, { ...good, 'x-service-signature': (good['x-service-signature'] as string).slice(7) }],
        ['an empty signature', body, { ...good, 'x-service-signature': 'sha256=' }],
        ['a signature that is not ASCII', body, { ...good, 'x-service-signature': `sha256=${'é'.repeat(64)}` }],
      ]
      for (const [what, text, headers] of refused)
        expect(await receiver.post(text, headers), `${what}: ${receiver.said()}`).toBe(400)
      expect(receiver.said()).not.toContain('verified')
      // Whatever came before it, and by either secret.
      expect(await receiver.post(body, good), receiver.said()).toBe(204)
      expect(await receiver.post(body, signed(body, OTHER)), receiver.said()).toBe(204)
      await eventually('the repeat was told from the first', async () =>
        receiver.said().includes('duplicate: user.created evt_'),
      )
      expect(receiver.said().match(/verified:/g)).toHaveLength(1)
    },
    BUILD_MS,
  )
})
