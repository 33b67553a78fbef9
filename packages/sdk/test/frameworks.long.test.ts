import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { findChromium } from '../../server/test/browser/chromium.ts'
import { newPerson, startChromium } from '../../server/test/browser/person.ts'
import { npmEnvironment } from '../../server/test/harness/environment.ts'
import { eventually, type Service, startService, type Tenant } from '../../server/test/harness/harness.ts'
import { freePort } from '../../server/test/harness/service-process.ts'
import { pack } from './packed.ts'

const SAMPLES = fileURLToPath(new URL('../../../examples/frameworks/', import.meta.url))
/** Created by installing and building; a checkout may have them. */
const NOT_COPIED = ['node_modules', '.next', 'dist']
const INSTALL_MS = 600_000
const BUILD_MS = 600_000

const execute = promisify(execFile)

let root: string
let folder: string
let service: Service
beforeAll(async () => {
  service = await startService()
  root = mkdtempSync(join(tmpdir(), 'halfkey-frameworks-'))
  // The same layout as the repository: the samples install the SDK from ../../packages/sdk.
  const sdk = join(root, 'repository/packages/sdk')
  mkdirSync(sdk, { recursive: true })
  await execute('tar', ['-xzf', await pack(join(root, 'build')), '--strip-components=1', '-C', sdk])
  folder = join(root, 'repository/examples/frameworks')
  cpSync(SAMPLES, folder, { recursive: true, filter: (path) => !NOT_COPIED.includes(basename(path)) })
  await run('npm', ['ci', '--no-audit', '--no-fund'])
}, INSTALL_MS)
afterAll(async () => {
  await service.stop()
  rmSync(root, { recursive: true, force: true })
})

/** Runs a program of the samples to its end. @throws Error with its output if it fails */
async function run(program: string, args: readonly string[], env: Record<string, string> = {}): Promise<void> {
  try {
    await execute(program, args, { cwd: folder, env: environment(env) })
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string }
    throw new Error(`${program} ${args.join(' ')}\n${stdout}${stderr}`, { cause: error })
  }
}

function environment(env: Record<string, string>): Record<string, string> {
  const all = npmEnvironment()
  return { ...all, PATH: `${join(folder, 'node_modules/.bin')}:${all.PATH}`, NEXT_TELEMETRY_DISABLED: '1', ...env }
}

const running: ChildProcess[] = []
afterEach(async () => {
  for (const child of running.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    const closed = new Promise((resolve) => child.once('close', resolve))
    // The whole group: a framework's command may start other processes.
    process.kill(-(child.pid as number), 'SIGKILL')
    await closed
  }
})

/** Starts a server and waits until it answers. Returns what it has printed so far. */
async function start(
  program: string,
  args: readonly string[],
  port: string,
  env: Record<string, string>,
): Promise<() => string> {
  const child = spawn(program, args, { cwd: folder, env: environment({ ...env, PORT: port }), detached: true })
  running.push(child)
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      output += chunk
    })
  await eventually(`${program} ${args.join(' ')} answers`, async () => {
    if (child.exitCode !== null) throw new Error(output)
    return fetch(`http://127.0.0.1:${port}/`).then(
      () => true,
      () => false,
    )
  })
  return () => output
}

/** The status of a delivery that is signed as the specification's section 6 says, without code of the SDK. */
async function post(url: string, signedBody: string, secret: string, sentBody = signedBody): Promise<number> {
  const timestamp = String(Math.floor(Date.now() / 1000))
  const mac = createHmac('sha256', secret).update(`${timestamp}.${signedBody}`).digest('hex')
  const headers = {
    'content-type': 'application/json',
    'x-service-signature': `sha256=${mac}`,
    'x-service-timestamp': timestamp,
  }
  return (await fetch(url, { method: 'POST', body: sentBody, headers })).status
}

const EVENT = JSON.stringify({
  id: 'evt_01jb2m7x9kq4t8v6w0r3s5y1zq',
  type: 'user.created',
  created_at: '2026-11-21T08:30:00.000Z',
  api_version: '2026-11-01',
  data: { userId: 'usr_01jb2m7x9kq4t8v6w0r3s5y1za', email: 'grace@example.com', partyId: 'usr::1220' },
})

/** The only delivery of a webhook, after its attempt with this number. */
function attempted(tenant: Tenant, webhookId: string, attempt: number) {
  return eventually(`attempt ${attempt}`, async () => {
    const { data } = (await tenant.get(`/webhooks/${webhookId}/deliveries`)).body
    return data[0]?.attempts.length === attempt ? data[0] : undefined
  })
}

const times = (text: string, part: string) => text.split(part).length - 1

/** How each receiver is started, in the folder of the samples. */
const RECEIVERS: Record<string, (port: string) => [program: string, ...args: string[]]> = {
  express: () => [process.execPath, '--no-warnings', 'express/server.ts'],
  fastify: () => [process.execPath, '--no-warnings', 'fastify/server.ts'],
  nextjs: (port) => ['next', 'start', 'nextjs', '--port', port, '--hostname', '127.0.0.1'],
}

test(
  'the Next.js sample has valid types and builds without settings, as on a build server',
  () => run('next', ['build', 'nextjs']),
  BUILD_MS,
)

test('the Express and Fastify samples have valid types', () => run('tsc', ['-p', '.']))

describe.each(Object.entries(RECEIVERS))('the receiver of %s', (name, commandOf) => {
  test('handles a real delivery once, and answers 400 to an altered one', async () => {
    const tenant = await service.newTenant()
    const port = String(await freePort())
    const url = `http://127.0.0.1:${port}/webhooks/halfkey`
    const webhook = (await tenant.post('/webhooks', { url, events: ['user.created'] })).body.data
    const [program, ...args] = commandOf(port)
    const env = { HALFKEY_URL: service.url, HALFKEY_KEY: tenant.key, HALFKEY_WEBHOOK_SECRET: webhook.secret }
    const output = await start(program, args, port, env)

    expect((await tenant.post('/users', { email: 'ada@example.com' })).status).toBe(201)
    const first = await attempted(tenant, webhook.id, 1)
    expect([first.status, first.attempts[0].statusCode], output()).toEqual(['succeeded', 200])
    const handled = `handled: user.created ${first.eventId}`
    await eventually('the event is handled', async () => output().includes(handled))
    expect(output()).toContain('welcome ada@example.com')

    expect((await tenant.post(`/webhooks/${webhook.id}/deliveries/${first.id}/retry`)).status).toBe(200)
    const second = await attempted(tenant, webhook.id, 2)
    expect([second.eventId, second.attempts[1].statusCode], output()).toEqual([first.eventId, 200])

    expect(await post(url, EVENT, webhook.secret, EVENT.replace('grace', 'gracf')), output()).toBe(400)
    await eventually('the reason is printed', async () => output().includes('refused: signature_mismatch'))
    expect((await fetch(url, { method: 'POST', body: EVENT })).status).toBe(400)
    expect(output()).not.toContain('gracf@example.com')
    // Unaltered, the same event is accepted.
    expect(await post(url, EVENT, webhook.secret), output()).toBe(200)
    await eventually('the event is handled', async () => output().includes('welcome grace@example.com'))
    expect(times(output(), handled)).toBe(1)

    if (name !== 'nextjs') return
    const page = await (await fetch(`http://127.0.0.1:${port}/`)).text()
    expect(page).toContain('ada@example.com')
    expect(page).not.toContain(tenant.key)
  })
})

describe('the page of React', () => {
  test(
    'has valid types, builds, and in a browser signs a user up, out and in',
    async (context) => {
      const key = await (await service.newTenant()).newKey({ publishable: true })
      await run('tsc', ['-p', 'react'])
      await run('vite', ['build', 'react'], { VITE_HALFKEY_URL: service.url, VITE_HALFKEY_KEY: key })
      if (findChromium() === undefined) context.skip('there is no Chromium here')
      const port = String(await freePort())
      await start('vite', ['preview', 'react', '--host', '127.0.0.1', '--port', port, '--strictPort'], port, {})
      const browser = await startChromium()
      context.onTestFinished(() => browser.close())
      const ada = await newPerson(browser)
      const press = (label: string) => ada.page.getByRole('button', { name: label, exact: true }).click()
      await ada.page.goto(`http://localhost:${port}/`)
      await ada.page.getByLabel('Email').fill('ada@example.com')
      await press('Create an account')
      await ada.page.getByText('Signed in as ada@example.com').waitFor()
      await press('Sign out')
      await press('Sign in')
      await ada.page.getByText('Signed in as ada@example.com').waitFor()
      await ada.leave()
    },
    BUILD_MS,
  )
})
