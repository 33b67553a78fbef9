// Creates a user with a wallet and an agent that may spend 10 tokens, and verifies a webhook.
//   npm run quickstart                                        starts a temporary service and removes it
//   HALFKEY_URL=http://127.0.0.1:8080 HALFKEY_KEY=hk_sk_… npm run quickstart      uses a service that runs on this machine
import { spawn } from 'node:child_process'
import { chmodSync, lstatSync, mkdtempSync, readlinkSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
// In your app, import from '@halfkey/sdk'.
import {
  createClient,
  type HalfkeyClient,
  isHalfkeyError,
  verifyWebhook,
  type WebhookEvent,
} from '../packages/sdk/src/index.ts'
import { buyTheWeather } from './x402.ts'

const MAIN = fileURLToPath(new URL('../packages/server/src/main.ts', import.meta.url))
const START_MS = 60_000
const EVENT_MS = 15_000

/** The service to use; `stop` ends it if this program started it. */
interface Service {
  url: string
  key: string
  stop(): Promise<void>
}

/** A party that is no user here: any well-formed party can receive tokens. */
const BOB = `bob::1220${'b0'.repeat(32)}`

let steps = 0
const say = (what: string, text: string) => console.log(`${++steps}. ${what.padEnd(12)} ${text}`)

function within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  const { promise: over, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`${what} took longer than ${ms / 1000} s`)), ms)
  return Promise.race([promise, over]).finally(() => clearTimeout(timer))
}

/** Removes the service's folder and its database. As root, the database may be elsewhere, behind a symbolic link. */
function clear(folder: string): void {
  const database = join(folder, 'data/postgres')
  if (lstatSync(database, { throwIfNoEntry: false })?.isSymbolicLink())
    rmSync(dirname(readlinkSync(database)), { recursive: true, force: true })
  rmSync(folder, { recursive: true, force: true })
}

/** Starts a service with its own database in a temporary folder, on a free port. */
async function startService(): Promise<Service> {
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-quickstart-'))
  // As root, PostgreSQL runs as another user, who must be able to enter the folder.
  chmodSync(folder, 0o711)
  const { PATH = '', HOME = '', TMPDIR = tmpdir() } = process.env
  const env = { PATH, HOME, TMPDIR, PORT: '0', HALFKEY_DATA_DIR: join(folder, 'data'), HALFKEY_DRAIN: '0' }
  const child = spawn(process.execPath, [MAIN, 'serve'], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const exited = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const stop = async () => {
    child.kill('SIGTERM')
    await exited
    clear(folder)
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      void stop().finally(() => process.exit(1))
    })
  let said = ''
  child.stderr.on('data', (chunk) => {
    said += chunk
  })
  const ready = new Promise<void>((resolve, reject) => {
    child.stdout.on('data', (chunk) => {
      said += chunk
      if (/^Ready\./m.test(said)) resolve()
    })
    child.once('close', () => reject(new Error(`The service ended:\n${said}`)))
  })
  try {
    await within(START_MS, 'Starting the service', ready)
    // The first start prints both.
    const [, key] = /export HALFKEY_KEY=(hk_sk_\w+)/.exec(said) as unknown as [string, string]
    const [, url] = /^API +(http:\/\/\S+)\/v1$/m.exec(said) as unknown as [string, string]
    return { url, key, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Receives webhooks on loopback. `completed` resolves with the session's first verified `tx.completed`. */
async function startReceiver(sessionId: string) {
  const { promise: completed, resolve, reject } = Promise.withResolvers<WebhookEvent<'tx.completed'>>()
  // A delivery may arrive before the response that contains the secret.
  const { promise: secret, resolve: knows } = Promise.withResolvers<string>()
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    try {
      const event = await verifyWebhook(Buffer.concat(chunks), request.headers, await secret)
      response.writeHead(204).end()
      if (event.type === 'tx.completed' && event.data.delegatedSessionId === sessionId) resolve(event)
    } catch (error) {
      response.writeHead(400).end()
      reject(error)
    }
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  // Without this handler, a failure before anyone awaits `completed` would end the process.
  completed.catch(() => {})
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  const close = () => {
    server.close()
    server.closeAllConnections()
  }
  return { url, completed, knows, close }
}

/** The webhook of an earlier run with a new secret, or a new webhook. */
async function subscribe(server: HalfkeyClient, url: string): Promise<{ id: string; secret: string }> {
  for await (const { id, metadata } of server.webhooks.list()) {
    if (metadata.example !== 'quickstart') continue
    const { secret } = await server.webhooks.rotate(id, { graceSeconds: 0 })
    await server.webhooks.update(id, { url, status: 'active' })
    return { id, secret: secret ?? '' }
  }
  const metadata = { example: 'quickstart' }
  return server.webhooks.create({ url, events: ['tx.completed'], description: 'Quick start', metadata })
}

/** Runs all steps. Revokes the session and the key at the end; user, transaction, webhook and delivery stay. */
async function run(baseUrl: string, apiKey: string): Promise<string> {
  const server = createClient({ baseUrl, apiKey })
  const user = await server.users.create({ email: `ada-${Date.now()}@example.com` })
  say('Sign-up', `${user.id} (${user.email}), created by the server; for sign-in see docs/sign-in.md`)

  const ada = createClient({ baseUrl, apiKey, userId: user.id })
  // The tokens below are those of the embedded ledger, which may not be the one for new wallets here.
  const wallet = await ada.wallet.create({ ledger: 'embedded' })
  say('Wallet', `${wallet.id}, custody ${wallet.custody}, ${wallet.status}`)

  const { contractId, issuer, symbol, amount } = await server.dev.faucet({
    userId: user.id,
    symbol: 'USDX',
    amount: '100',
  })
  say('Faucet', `${amount} ${symbol} in contract ${contractId.slice(0, 12)}…`)

  const session = await ada.delegatedSessions.create({
    name: 'Shopping agent',
    policy: {
      allow: [{ templateId: 'Token:Holding', actions: ['exercise'], choices: ['Transfer'] }],
      spend: [{ asset: { issuer, symbol }, amount: '10' }],
      query: { templateIds: ['Token:Holding'] },
    },
  })
  say('Session', `${session.id} may transfer at most 10 ${symbol} until ${session.expiresAt}`)

  const receiver = await startReceiver(session.id)
  const webhook = await subscribe(server, receiver.url)
  receiver.knows(webhook.secret)

  // The agent has no secret key, only a publishable key, which names the app, and the session's token.
  const publishable = await server.apiKeys.create({ name: 'Quick start', type: 'publishable', appId: user.appId })
  const agent = createClient({ baseUrl, apiKey: publishable.key, delegateToken: session.token })
  const send = (from: string, howMuch: string) =>
    agent.delegatedSessions.execute(session.id, {
      commands: [
        {
          exercise: {
            templateId: 'Token:Holding',
            contractId: from,
            choice: 'Transfer',
            arguments: { receiver: BOB, amount: howMuch },
          },
        },
      ],
    })
  const paid = await send(contractId, '3')
  say(
    'Execute 3',
    `${paid.transactionId} ${paid.status}; ${paid.remaining.spend[0]?.remaining} ${symbol} left to spend`,
  )

  const event = await within(EVENT_MS, 'Waiting for the webhook', receiver.completed)
  say('Webhook', `${event.type} of ${event.data.transactionId} received, its signature is valid`)

  const [rest] = (await agent.delegatedSessions.query(session.id)).contracts
  const refusal: unknown = await send(rest?.contractId ?? '', '8').then(
    () => new Error('A second transfer exceeded the cap.'),
    (error: unknown) => error,
  )
  if (!isHalfkeyError(refusal, 'spend_limit_exceeded')) throw refusal
  say('Execute 8', `${refusal.status} ${refusal.code}: ${refusal.details[0]?.message}`)

  for await (const { arguments: holding } of agent.delegatedSessions.queryAll(session.id))
    say('Query', `${user.email} holds ${holding.amount} ${holding.symbol}`)

  // The receiver ends with this program. Later events wait for the next run.
  await server.webhooks.update(webhook.id, { status: 'paused' })
  receiver.close()

  const bought = await buyTheWeather(server, agent, { issuer, symbol })
  say('x402', `${bought.transactionId} paid for an HTTP request, whose answer is: ${bought.text}`)

  await server.delegatedSessions.revoke(session.id)
  await server.apiKeys.revoke(publishable.id)
  return webhook.id
}

const { HALFKEY_URL: url = 'http://127.0.0.1:8080', HALFKEY_KEY: key } = process.env
const startedAt = performance.now()
const service: Service = key ? { url, key, stop: async () => {} } : await startService()
console.log(key ? `Using ${service.url}` : `Started a temporary service on ${service.url}`)
try {
  const webhookId = await run(service.url, service.key)
  if (key) say('Look', `${service.url}/dashboard shows webhook ${webhookId} and its delivery`)
} finally {
  await service.stop()
}
console.log(`Done in ${((performance.now() - startedAt) / 1000).toFixed(1)} s. More: docs/delegated-sessions.md`)
