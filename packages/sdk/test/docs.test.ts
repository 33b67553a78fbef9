import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type DnsServer, startDnsServer } from '../../server/test/dns-server.ts'
import { eventually, type Service, startService } from '../../server/test/harness.ts'
import { type StripeFake, startStripeFake } from '../../server/test/stripe-fake.ts'

const ROOT = new URL('../../../', import.meta.url)
const PACKAGES = { '@halfkey/sdk': 'packages/sdk/src/index.ts', '@halfkey/keys': 'packages/keys/src/index.ts' }
/** Each page's samples run in order on a tenant of their own: what is `sh` in one shell, what is `ts` as one module. */
const PAGES = [
  'docs/users.md',
  'docs/wallets.md',
  'docs/delegated-sessions.md',
  'docs/shared-keys.md',
  'docs/analytics.md',
  'docs/custom-domains.md',
  'docs/billing.md',
  'docs/audit-log.md',
]

/** The command line, on the service's own database and key file. */
const HALFKEY = `halfkey() { "${process.execPath}" "${fileURLToPath(new URL('packages/server/src/main.ts', ROOT))}" "$@"; }`

/** Has no record of any name: what the samples register is not there yet. */
let dns: DnsServer
let stripe: StripeFake
let service: Service
let folder: string
beforeAll(async () => {
  dns = await startDnsServer()
  stripe = await startStripeFake()
  service = await startService({ HALFKEY_DNS_SERVERS: dns.address, ...stripe.settings })
  folder = mkdtempSync(join(tmpdir(), 'halfkey-docs-'))
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await service.stop()
  await dns.close()
  await stripe.close()
})

function samples(page: string, language: 'sh' | 'ts'): string[] {
  const text = readFileSync(new URL(page, ROOT), 'utf8')
  return [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].flatMap(([, of, code = '']) =>
    of === language ? [code] : [],
  )
}

function run(command: string, args: readonly string[], env: Record<string, string>) {
  return new Promise<{ code: number | null; output: string }>((resolve, reject) => {
    const { PATH = '', HOME = '' } = process.env
    const child = spawn(command, args, { cwd: folder, env: { PATH, HOME, ...env } })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        output += chunk
      })
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, output }))
  })
}

async function settings(): Promise<Record<string, string>> {
  const ofCommandLine = { DATABASE_URL: service.databaseUrl, HALFKEY_DATA_DIR: service.dataDir }
  const tenant = await service.newTenant()
  // As for whoever types: by the second command what the first start did is in the audit log.
  await eventually('a first entry', async () => (await tenant.get('/audit-log')).body.total > 0)
  return { HALFKEY_URL: service.url, HALFKEY_KEY: tenant.key, ...ofCommandLine }
}

describe.each(PAGES)('%s', (page) => {
  const code = samples(page, 'sh')
  if (code.length > 0)
    test('its shell samples run, and none is refused', async (context) => {
      context.skip((await run('bash', ['-c', 'command -v curl'], {})).code !== 0, 'there is no curl here')
      expect(code.length).toBeGreaterThan(1)
      // Refusals end it; without these lines curl takes them for success.
      const strict = ['set -euo pipefail', 'curl() { command curl --fail-with-body "$@"; echo; }', HALFKEY]
      const { code: status, output } = await run('bash', ['-c', [...strict, ...code].join('\n')], await settings())
      expect(status, output).toBe(0)
    })

  test('its TypeScript samples run, and print what they say', async () => {
    const code = samples(page, 'ts').join('\n')
    const file = join(folder, `${page.replaceAll('/', '-')}.ts`)
    const found = Object.entries(PACKAGES).reduce(
      (text, [name, path]) => text.replaceAll(`'${name}'`, `'${new URL(path, ROOT).href}'`),
      code,
    )
    writeFileSync(file, found)
    const { code: status, output } = await run(process.execPath, ['--no-warnings', file], await settings())
    expect(status, output).toBe(0)
    const promised = [...code.matchAll(/console\.log\(.*\) \/\/ (.+)$|^\/\/ (false .+)$/gm)].map(
      ([, beside, below]) => beside ?? below ?? '',
    )
    expect(promised.length).toBeGreaterThan(2)
    const onOneLine = output.replace(/\s+/g, ' ')
    for (const line of promised) {
      const [start = ''] = line.split('…')
      expect(onOneLine, line).toContain(start)
    }
  })
})
