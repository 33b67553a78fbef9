import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createContext, runInContext } from 'node:vm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Service, startService, type Tenant } from '../../server/test/harness/harness.ts'
import { bundle, gzipBytes } from './bundle.ts'
import { filesOf, installPacked, type Project, pack } from './packed.ts'

const KB = 1_000
/** What the package may weigh: docs/sdk.md promises it. A client has 0.7 kB that verify the service's key against its pin. */
const TARBALL_BYTES_MAX = 200 * KB
const SIZES: [what: string, code: string, gzipBytesMax: number][] = [
  ['the client', "export { createClient } from '@halfkey/sdk'", 7.4 * KB],
  ['verifyWebhook', "export { verifyWebhook } from '@halfkey/sdk'", 1.8 * KB],
  ['the fetch handler', "export { webhookHandler } from '@halfkey/sdk/fetch'", 2.6 * KB],
  ['both sides of x402', "export { createPayer, paywall } from '@halfkey/sdk/x402'", 5.4 * KB],
  [
    'the client of pages, with passkeys',
    "export { createBrowserClient, createPasskey, signIn } from '@halfkey/sdk/browser'",
    10.6 * KB,
  ],
  [
    'all of a page, with the hooks',
    "export * from '@halfkey/sdk/browser'; export * from '@halfkey/sdk/react'",
    13 * KB,
  ],
]
const PACKING_MS = 120_000

let project: Project
let service: Service
let tenant: Tenant
beforeAll(async () => {
  project = await installPacked()
  service = await startService()
  tenant = await service.newTenant()
}, PACKING_MS)
afterAll(async () => {
  project?.remove()
  await service?.stop()
})

/** What somebody's server does with the package: a user, a wallet, a delegated session, and a webhook by its handler. */
const PROGRAM = `
import { createServer } from 'node:http'
import { createClient, isHalfkeyError } from '@halfkey/sdk'
import { webhookHandler } from '@halfkey/sdk/express'

const { HALFKEY_URL: baseUrl, HALFKEY_KEY: apiKey } = process.env
const halfkey = createClient({ baseUrl, apiKey })
const told = Promise.withResolvers()
let handle
const server = createServer((request, response) => handle(request, response, told.reject))
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const url = 'http://127.0.0.1:' + server.address().port + '/hook'
const webhook = await halfkey.webhooks.create({ url, events: ['tx.completed'] })
handle = webhookHandler(webhook.secret, (event) => told.resolve(event))

const user = await halfkey.users.create({ email: 'ada@example.com' })
const mine = createClient({ baseUrl, apiKey, userId: user.id })
const wallet = await mine.wallet.create()
const { contractId, issuer, symbol } = await halfkey.dev.faucet({ userId: user.id, symbol: 'USDX', amount: '100' })
const { partyId: receiver } = await halfkey.users.create()
const session = await mine.delegatedSessions.create({
  policy: {
    allow: [{ templateId: 'Token:Holding', actions: ['exercise'], choices: ['Transfer'] }],
    spend: [{ asset: { issuer, symbol }, amount: '10' }],
  },
})
const agent = createClient({ baseUrl, apiKey, delegateToken: session.token })
const transfer = (amount) => ({
  commands: [
    { exercise: { templateId: 'Token:Holding', contractId, choice: 'Transfer', arguments: { receiver, amount } } },
  ],
})
const refused = await agent.delegatedSessions.execute(session.id, transfer('30')).catch((error) => error)
const execution = await agent.delegatedSessions.execute(session.id, transfer('3'))
const event = await told.promise
server.close()
server.closeAllConnections()
console.log(JSON.stringify({
  custody: wallet.custody,
  status: execution.status,
  event: event.type,
  same: event.data.transactionId === execution.transactionId,
  refused: isHalfkeyError(refused) && refused.code,
}))
`

/** What a strict project of somebody's writes. */
const CONSUMER = `
import { createClient, type ErrorCode, HalfkeyError, isHalfkeyError, type User, type WebhookEvent } from '@halfkey/sdk'
import { type BrowserClient, createBrowserClient, PasskeyError, signIn, withStepUp } from '@halfkey/sdk/browser'
import { webhookHandler as express } from '@halfkey/sdk/express'
import { webhookPlugin } from '@halfkey/sdk/fastify'
import { webhookHandler } from '@halfkey/sdk/fetch'
import { HalfkeyProvider, useSession, useWallet } from '@halfkey/sdk/react'
import { createPayer, expressPaywall, fastifyPaywall, type PaywallOptions, paywall, X402Error } from '@halfkey/sdk/x402'
import { createElement } from 'react'

const halfkey = createClient({ baseUrl: 'https://wallets.example.com', apiKey: 'hk_sk_x' })
export async function names(): Promise<string[]> {
  const all: string[] = []
  for await (const user of halfkey.users.list({ trustLevel: 'embedded' })) all.push((user satisfies User).id)
  return all
}
export function wordsFor(error: unknown): ErrorCode | string {
  if (isHalfkeyError(error, 'not_found')) return error.code satisfies 'not_found'
  // @ts-expect-error no error has this code
  isHalfkeyError(error, 'not_fuond')
  if (error instanceof PasskeyError) return error.reason
  return error instanceof HalfkeyError ? error.code : 'unknown'
}
export const fetchHandler: (request: Request) => Promise<Response> = webhookHandler(['a', 'b'], (event: WebhookEvent) => {
  if (event.type === 'user.created') return event.data.email.length
  // @ts-expect-error no event of this kind
  return event.type === 'user.creatd'
})
export const others = [express('a', () => undefined), webhookPlugin('a', () => undefined, { path: '/hook' })]
const client: BrowserClient = createBrowserClient({ baseUrl: '/v1', publishableKey: 'hk_pk_x', storage: sessionStorage })
function Who() {
  const session = useSession()
  const { wallet } = useWallet()
  return createElement('p', null, session.status === 'signed_in' ? session.userId : session.status, wallet?.address)
}
export const page = createElement(HalfkeyProvider, { client }, createElement(Who))
export const again = () => withStepUp(client, () => client.api.mpc.config(), { askCode: async () => ({ code: '1' }) })
export const back = () => signIn(client, { autofill: true }).then(({ user }) => user.email)
export const selling = (options: PaywallOptions) => [
  paywall(options, (request: Request, { amount }) => new Response(request.url + amount)),
  expressPaywall(options),
  fastifyPaywall(options),
]
export const buying = createPayer({
  session: halfkey.delegatedSessions,
  asset: { issuer: 'issuer::1220', symbol: 'USDX' },
  maxAmount: '1',
})('https://api.example.com/', { method: 'GET' }).catch((error) => error instanceof X402Error && error.code)
// @ts-expect-error an option that there is not
createClient({ baseUrl: 'https://wallets.example.com', apiKey: 'hk_sk_x', retries: 1 })
`

test('the packed keys package has compiled and typed files, and none that only the repository needs', async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-keys-'))
  context.onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const files = await filesOf(await pack(folder, 'keys'))
  expect(files).toEqual(
    expect.arrayContaining(['LICENSE', 'README.md', 'package.json', 'dist/index.js', 'dist/index.d.ts']),
  )
  expect(files.filter((name) => !/^(dist\/.*\.(js|d\.ts)|LICENSE|README\.md|package\.json)$/.test(name))).toEqual([])
})

describe('the packed package', () => {
  test('has its exports, compiled and typed, and no files that only the repository needs', () => {
    const manifest = JSON.parse(readFileSync(join(project.folder, 'node_modules/@halfkey/sdk/package.json'), 'utf8'))
    const exported = Object.values<string | Record<string, string>>(manifest.exports).flatMap((entry) =>
      typeof entry === 'string' ? [entry] : Object.values(entry),
    )
    expect(exported.length).toBeGreaterThan(12)
    for (const path of exported) expect(project.files).toContain(path.replace('./', ''))
    expect(
      project.files.filter((name) => !/^(dist\/.*\.(js|d\.ts)|LICENSE|README\.md|package\.json)$/.test(name)),
    ).toEqual([])
    expect(project.files).toEqual(expect.arrayContaining(['LICENSE', 'README.md']))
    // No name that the repository alone could resolve.
    for (const name of project.files.filter((each) => each.endsWith('.js'))) {
      const text = readFileSync(join(project.folder, 'node_modules/@halfkey/sdk', name), 'utf8')
      expect(text, name).not.toMatch(/from '[^']+\.ts'|node:/)
    }
  })

  test('installs without a network and other packages, and stays below its size limit', async () => {
    const lock = JSON.parse(readFileSync(join(project.folder, 'package-lock.json'), 'utf8'))
    expect(Object.keys(lock.packages)).toEqual(['', 'node_modules/@halfkey/sdk'])
    expect(project.tarballBytes).toBeLessThan(TARBALL_BYTES_MAX)
  })

  test.each(SIZES)('stays below its size limit in a bundle: %s', async (what, code, gzipBytesMax) => {
    const text = await bundle(project.write('entry.js', code), { external: ['react'] })
    expect(gzipBytes(text), what).toBeLessThan(gzipBytesMax)
    expect(text).not.toMatch(/node:|\bBuffer\b|\bprocess\b/)
  })

  test('runs in Node against a service: user, wallet, delegated session, webhook handler', async () => {
    const file = project.write('program.mjs', PROGRAM)
    const output = await project.run(process.execPath, [file], { HALFKEY_URL: service.url, HALFKEY_KEY: tenant.key })
    expect(JSON.parse(output)).toEqual({
      custody: 'embedded',
      status: 'completed',
      event: 'tx.completed',
      same: true,
      refused: 'spend_limit_exceeded',
    })
  })

  test.each([
    ['nodenext', 'nodenext'],
    ['esnext', 'bundler'],
  ])('has valid types in a strict project, module %s, resolution %s', async (module, moduleResolution) => {
    project.write('consumer.ts', CONSUMER)
    const compilerOptions = {
      strict: true,
      noEmit: true,
      target: 'es2022',
      lib: ['es2022', 'dom', 'dom.iterable'],
      types: [],
      module,
      moduleResolution,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
    }
    project.write('tsconfig.json', JSON.stringify({ compilerOptions, files: ['consumer.ts'] }))
    await project.run('tsc', ['-p', 'tsconfig.json'])
  })

  test('receives webhooks without Node, with the Fetch standard only', async () => {
    const entry = project.write('worker.js', "export { webhookHandler } from '@halfkey/sdk/fetch'")
    const code = await bundle(entry, { platform: 'neutral', globalName: 'worker' })
    // What the Minimum Common Web API has, of which workers have all.
    const { Request, Response, Headers, crypto, TextEncoder, TextDecoder, atob, btoa, URL, AbortController } =
      globalThis
    const web = { Request, Response, Headers, crypto, TextEncoder, TextDecoder, atob, btoa, URL, AbortController }
    const context = createContext({ ...web, events: [], refused: [] })
    runInContext(code, context)
    const secret = 'whsec_c2VjcmV0IG9mIGEgd29ya2VyIGluIHRoZSB0ZXN0cw=='
    runInContext(
      `handle = worker.webhookHandler('${secret}', (event) => events.push(event.type), { onRejected: (error) => refused.push(error.reason) })`,
      context,
    )
    const { createHmac } = await import('node:crypto')
    const body =
      '{"id":"evt_1","type":"user.created","created_at":"2026-11-20T00:00:00.000Z","api_version":"2026-11-01","data":{}}'
    const timestamp = String(Math.floor(Date.now() / 1000))
    const signature = createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')
    const send = (mac: string) => {
      const headers = { 'x-service-signature': `sha256=${mac}`, 'x-service-timestamp': timestamp }
      const worker = context as unknown as { handle(request: Request): Promise<Response> }
      return worker.handle(new Request('https://worker.example/hook', { method: 'POST', body, headers }))
    }
    expect((await send(signature)).status).toBe(200)
    expect((await send('0'.repeat(64))).status).toBe(400)
    expect(runInContext('JSON.stringify([events, refused])', context)).toBe('[["user.created"],["signature_mismatch"]]')
  })
})
