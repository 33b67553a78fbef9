import { spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { settingsFile, settingsOf } from '../../server/test/canton/canton.fixture.ts'
import { SimulatedParticipant } from '../../server/test/canton/participant.ts'
import { childEnvironment } from '../../server/test/harness/environment.ts'
import { eventually, startService } from '../../server/test/harness/harness.ts'
import { createClient } from '../src/client.ts'

const QUICKSTART = fileURLToPath(new URL('../../../examples/quickstart.ts', import.meta.url))

function run(env: Record<string, string>): Promise<{ code: number | null; stdout: string; stderr: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [QUICKSTART], {
      env: { ...childEnvironment(), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const told = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const)
      child[name].on('data', (chunk) => {
        told[name] += chunk
      })
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, ...told }))
  })
}

/** The whole story, in its order; answers the transaction's id. */
function expectTheStory({ code, stdout, stderr }: Awaited<ReturnType<typeof run>>, stays = false): string {
  expect(code, stdout + stderr).toBe(0)
  expect(stderr).toBe('')
  const lines = [
    /^1\. Sign-up +usr_\w{26} \(ada-\d+@example\.com\)/,
    /^2\. Wallet +wal_\w{26}, custody embedded, ready$/,
    /^3\. Faucet +100 USDX in contract 01[0-9a-f]{10}…$/,
    /^4\. Session +dse_\w{26} may transfer at most 10 USDX until 20\d\d-/,
    /^5\. Execute 3 +tx_\w{26} completed; 7 USDX left to spend$/,
    /^6\. Webhook +tx\.completed of tx_\w{26} received, its signature is valid$/,
    /^7\. Execute 8 +403 spend_limit_exceeded: This would spend 8 USDX; 7 are left/,
    /^8\. Query +ada-\d+@example\.com holds 97 USDX$/,
    /^9\. x402 +tx_\w{26} paid for an HTTP request, whose answer is: sunny, for 0\.25 USDX$/,
    ...(stays ? [/^10\. Look +http:\/\/127\.0\.0\.1:\d+\/dashboard shows webhook wh_\w{26} and its delivery$/] : []),
    /^Done in \d+\.\d s\./,
  ]
  const said = stdout.trimEnd().split('\n').slice(1)
  expect(said).toHaveLength(lines.length)
  for (const [index, line] of lines.entries()) expect(said[index]).toMatch(line)
  // Neither key nor token.
  expect(stdout).not.toMatch(/hk_[sp]k_|dst_|whsec_/)
  const [executed, told] = [...stdout.matchAll(/tx_\w{26}/g)].map(([id]) => id)
  expect(told).toBe(executed)
  return executed as string
}

test('the quick start runs all steps on a temporary service, and leaves nothing behind', async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'hk-')))
  // Root's PostgreSQL runs as another user, who must pass and write.
  chmodSync(folder, 0o1777)
  try {
    const ended = await run({ TMPDIR: folder })
    expectTheStory(ended)
    expect(ended.stdout).toMatch(/^Started a temporary service on http:\/\/127\.0\.0\.1:\d+\n/)
    expect(readdirSync(folder)).toEqual([])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('the quick start runs all steps on a running service, and leaves event and delivery there', async () => {
  const service = await startService()
  try {
    const { key } = await service.newTenant()
    const client = createClient({ baseUrl: service.url, apiKey: key })
    const transactionId = expectTheStory(await run({ HALFKEY_URL: service.url, HALFKEY_KEY: key }), true)
    expect((await client.transactions.get(transactionId)).status).toBe('completed')
    expect((await client.delegatedSessions.list()).data.map(({ status }) => status)).toEqual(['revoked'])
    expect(
      (await client.apiKeys.list()).data.filter(({ status, type }) => status === 'active' && type === 'publishable'),
    ).toEqual([])
    const [webhook, ...others] = (await client.webhooks.list()).data
    expect([webhook?.status, others]).toEqual(['paused', []])
    const delivered = async () =>
      (await client.webhooks.deliveries.list(webhook?.id ?? '')).data.map(({ eventType, status }) => [
        eventType,
        status,
      ])
    await eventually('the delivery is noted', async () => (await delivered()).at(-1)?.[1] === 'succeeded')
    // What was paid for the HTTP request, after the webhook was paused, waits for the next run.
    expect(await delivered()).toEqual([
      ['tx.completed', 'pending'],
      ['tx.completed', 'succeeded'],
    ])
    // A second time is as good as the first, and takes the same webhook.
    expectTheStory(await run({ HALFKEY_URL: service.url, HALFKEY_KEY: key }), true)
    expect((await client.webhooks.list()).total).toBe(1)
    // The last of the four is made a moment after its payment.
    await eventually('each payment has its delivery', async () => (await delivered()).length === 4)
  } finally {
    await service.stop()
  }
})

test('the quick start runs all steps where new wallets are on Canton', async () => {
  const participant = await new SimulatedParticipant().start()
  const service = await startService({ HALFKEY_LEDGERS: `canton:${settingsFile(settingsOf(participant))}` })
  try {
    const { key } = await service.newTenant()
    expectTheStory(await run({ HALFKEY_URL: service.url, HALFKEY_KEY: key }), true)
  } finally {
    await service.stop()
    await participant.stop()
  }
})

test('the quick start fails with a reason if the key is wrong', async () => {
  const service = await startService()
  try {
    const ended = await run({ HALFKEY_URL: service.url, HALFKEY_KEY: 'hk_sk_wrong' })
    expect(ended.code).not.toBe(0)
    expect(ended.stderr).toContain('api_key_invalid')
  } finally {
    await service.stop()
  }
})
