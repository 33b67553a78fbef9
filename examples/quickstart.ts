// A wallet, an agent that may spend 10 of its tokens, and a verified webhook, from nothing.
//   npm run quickstart                                        starts a service of its own and clears it away
//   HALFKEY_URL=http://127.0.0.1:8080 HALFKEY_KEY=hk_sk_… npm run quickstart      uses one that runs on this machine
import { spawn } from 'node:child_process'
import { chmodSync, lstatSync, mkdtempSync, readlinkSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
// In an app of yours: from '@halfkey/sdk'.
import {
  createClient,
  type HalfkeyClient,
  isHalfkeyError,
  verifyWebhook,
  type WebhookEvent,
} from '../packages/sdk/src/index.ts'

const MAIN = fileURLToPath(new URL('../packages/server/src/main.ts', import.meta.url))
const START_MS = 60_000
const EVENT_MS = 15_000

/** A service to use, and how to leave it. */
interface Service {
  url: string
  key: string
  stop(): Promise<void>
}

/** A party that is nobody here: any well-formed one can receive. */
const BOB = `bob::1220${'b0'.repeat(32)}`

let steps = 0
const say = (what: string, text: string) => console.log(`${++steps}. ${what.padEnd(12)} ${text}`)

function within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  const { promise: over, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`${what}: not within ${ms / 1000} s`)), ms)
  return Promise.race([promise, over]).finally(() => clearTimeout(timer))
}

/** Clears the service's folder away, and the database that root's service keeps elsewhere where that folder is closed. */
function clear(folder: string): void {
  const database = join(folder, 'data/postgres')
  if (lstatSync(database, { throwIfNoEntry: false })?.isSymbolicLink())
    rmSync(dirname(readlinkSync(database)), { recursive: true, force: true })
  rmSync(folder, { recursive: true, force: true })
}

/** Starts the service on a temporary folder, with a database of its own, on a free port. */
async function startService(): Promise<Service> {
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-quickstart-'))
  // Root's PostgreSQL runs as another user, who must pass.
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
    child.once('close', () => reject(new Error(`the service ended:\n${said}`)))
  })
  try {
    await within(START_MS, 'the start of the service', ready)
    // What the first start prints for people.
    const [, key] = /export HALFKEY_KEY=(hk_sk_\w+)/.exec(said) as unknown as [string, string]
    const [, url] = /^API +(http:\/\/\S+)\/v1$/m.exec(said) as unknown as [string, string]
    return { url, key, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Receives webhooks on loopback, and lets a session's first `tx.completed` be waited for, once it has verified. */
async function startReceiver(sessionId: string) {
  const { promise: completed, resolve, reject } = Promise.withResolvers<WebhookEvent<'tx.completed'>>()
  // Something may arrive before the answer that says the secret.
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
  // Whoever waits for it hears of a failure; it must not end the process before.
  completed.catch(() => {})
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  const close = () => {
    server.close()
    server.closeAllConnections()
  }
  return { url, completed, knows, close }
}

/** The quick start's webhook: the one of an earlier run where there is one, by a secret that only this run knows. */
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

/** The story. What could still do something it ends; user, transaction, webhook and delivery stay, to be looked at. */
async function run(baseUrl: string, apiKey: string): Promise<string> {
  const server = createClient({ baseUrl, apiKey })
  const user = await server.users.create({ email: `ada-${Date.now()}@example.com` })
  say('Sign-up', `${user.id} (${user.email}), made by the server; ways to sign in: docs/sign-in.md`)

  const ada = createClient({ baseUrl, apiKey, userId: user.id })
  const wallet = await ada.wallet.create()
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
  say('Session', `${session.id} may transfer ${symbol}, 10 at most, until ${session.expiresAt}`)

  const receiver = await startReceiver(session.id)
  const webhook = await subscribe(server, receiver.url)
  receiver.knows(webhook.secret)

  // The agent has no secret key: a publishable one, which says which app, and the session's token.
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

  const event = await within(EVENT_MS, 'the webhook', receiver.completed)
  say('Webhook', `${event.type} of ${event.data.transactionId} came, and its signature fits`)

  const [rest] = (await agent.delegatedSessions.query(session.id)).contracts
  const refusal: unknown = await send(rest?.contractId ?? '', '8').then(
    () => new Error('a second transfer went beyond the cap'),
    (error: unknown) => error,
  )
  if (!isHalfkeyError(refusal, 'spend_limit_exceeded')) throw refusal
  say('Execute 8', `${refusal.status} ${refusal.code}: ${refusal.details[0]?.message}`)

  for await (const { arguments: holding } of agent.delegatedSessions.queryAll(session.id))
    say('Query', `${user.email} holds ${holding.amount} ${holding.symbol}`)

  await server.delegatedSessions.revoke(session.id)
  await server.apiKeys.revoke(publishable.id)
  // Nobody receives any more: what comes from now on waits for the next run.
  await server.webhooks.update(webhook.id, { status: 'paused' })
  receiver.close()
  return webhook.id
}

const { HALFKEY_URL: url = 'http://127.0.0.1:8080', HALFKEY_KEY: key } = process.env
const startedAt = performance.now()
const service: Service = key ? { url, key, stop: async () => {} } : await startService()
console.log(key ? `Using ${service.url}` : `Started a service of its own on ${service.url}`)
try {
  const webhookId = await run(service.url, service.key)
  if (key) say('Look', `${service.url}/dashboard shows webhook ${webhookId} and its delivery`)
} finally {
  await service.stop()
}
console.log(`Done in ${((performance.now() - startedAt) / 1000).toFixed(1)} s. More: docs/delegated-sessions.md`)
