import { spawn } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type DnsServer, startDnsServer } from '../../server/test/harness/dns-server.ts'
import { childEnvironment } from '../../server/test/harness/environment.ts'
import { eventually, type Service, startService } from '../../server/test/harness/harness.ts'
import { freePort } from '../../server/test/harness/service-process.ts'
import { type StripeFake, startStripeFake } from '../../server/test/harness/stripe-fake.ts'

const ROOT = new URL('../../../', import.meta.url)
const PACKAGES: Record<string, string> = {
  '@halfkey/sdk': 'packages/sdk/src/index.ts',
  '@halfkey/sdk/browser': 'packages/sdk/src/browser.ts',
  '@halfkey/sdk/express': 'packages/sdk/src/express.ts',
  '@halfkey/sdk/fastify': 'packages/sdk/src/fastify.ts',
  '@halfkey/sdk/fetch': 'packages/sdk/src/fetch.ts',
  '@halfkey/sdk/x402': 'packages/sdk/src/x402/x402.ts',
  '@halfkey/keys': 'packages/keys/src/index.ts',
}
const text = (path: string) => readFileSync(new URL(path, ROOT), 'utf8')

/**
 * Every guide. A page's samples run in order on a tenant of their own: what is `sh` in one shell, what is `ts` as one
 * module. A new page is among them by being there.
 */
const PAGES = [...globSync('docs/*.md', { cwd: fileURLToPath(ROOT) }).sort(), 'packages/sdk/README.md']

/** Whose samples need more than a service: the test that runs them. */
const RUN_BY: Record<string, string> = {
  'docs/backup.md': 'packages/server/test/end-to-end/operating-backup.long.test.ts',
  'docs/moving.md': 'packages/server/src/operations/transfer/transfer-resume.long.test.ts',
}

/** Blocks that run in a page, and the test that has a browser for them. */
const IN_BROWSERS = ['js', 'jsx']
const BROWSER_TEST = 'packages/server/test/browser/sdk-docs.browser.ts'

/** Starts the samples of `examples/frameworks`, each named by its folder. */
const FRAMEWORKS_TEST = 'packages/sdk/test/frameworks.long.test.ts'

/** Blocks that nobody runs, by what they are: commands that change a machine, output, settings, what goes over the wire. */
const NOT_RUN = ['console', 'text', 'ini', 'http', 'json', 'caddyfile', 'html']

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
  // As in a checkout, and as in an app that has installed the packages.
  for (const name of ['examples', 'node_modules'])
    symlinkSync(fileURLToPath(new URL(name, ROOT)), join(folder, name), 'dir')
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await service.stop()
  await dns.close()
  await stripe.close()
})

interface Sample {
  language: string
  code: string
  /** The file that it is the text of; null for what stands in the guide alone. */
  file: string | null
}

/** The code blocks of a guide, those in lists too, in their order. */
function samples(page: string): Sample[] {
  const found: Sample[] = []
  const blocks = /(?:<!-- file: (\S+) -->\n+)?^( *)```(\w*)\n([\s\S]*?)^\2```$/gm
  for (const [, file, indent = '', language = '', code = ''] of text(page).matchAll(blocks))
    found.push({ language, file: file ?? null, code: code.replaceAll(new RegExp(`^${indent}`, 'gm'), '') })
  return found
}

function run(command: string, args: readonly string[], env: Record<string, string>) {
  return new Promise<{ code: number | null; output: string }>((resolve, reject) => {
    const child = spawn(command, args, { cwd: folder, env: { ...childEnvironment(), ...env } })
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
  const publicUrl = `http://localhost:${new URL(service.url).port}`
  const own = { HALFKEY_URL: service.url, HALFKEY_PUBLIC_URL: publicUrl, PORT: String(await freePort()) }
  return { ...own, HALFKEY_KEY: tenant.key, HALFKEY_PIN: service.running.pin, ...ofCommandLine }
}

test.each(PAGES)(
  'every code block of %s has a language, and is run, parsed, or equal to a file that is run',
  (page) => {
    for (const { language, code, file } of samples(page)) {
      const context = `${page}: ${language} ${code.slice(0, 60)}`
      if (file !== null) {
        // `generate --check` compares the block with the file. A test runs the file.
        const isFramework = file.startsWith('examples/frameworks/')
        if (isFramework) expect(text(FRAMEWORKS_TEST), context).toMatch(new RegExp(`'${file.split('/')[2]}['/]`))
        else expect(text('packages/sdk/test/receivers.test.ts'), context).toContain(file.replace('examples/', ''))
      } else if (language === 'json') expect(() => JSON.parse(code), context).not.toThrow()
      else if (IN_BROWSERS.includes(language)) expect(text(BROWSER_TEST), context).toContain(page)
      else expect(['sh', 'ts', ...NOT_RUN], context).toContain(language)
    }
    const runBy = RUN_BY[page]
    if (runBy !== undefined) expect(text(runBy)).toContain(page)
  },
)

/** What of a page is run here. */
function runnable(page: string, language: string): string[] {
  if (RUN_BY[page] !== undefined) return []
  return samples(page).flatMap((sample) => (sample.language === language && sample.file === null ? [sample.code] : []))
}

const toRun = PAGES.filter((page) => runnable(page, 'sh').length + runnable(page, 'ts').length > 0)

describe.each(toRun)('%s', (page) => {
  const shell = runnable(page, 'sh')
  const script = runnable(page, 'ts').join('\n')
  if (shell.length > 0)
    test('its shell samples run without an error', async (context) => {
      context.skip((await run('bash', ['-c', 'command -v curl'], {})).code !== 0, 'there is no curl here')
      // Refusals end it; without these lines curl takes them for success.
      const strict = ['set -euo pipefail', 'curl() { command curl --fail-with-body "$@"; echo; }', HALFKEY]
      const { code: status, output } = await run('bash', ['-c', [...strict, ...shell].join('\n')], await settings())
      expect(status, output).toBe(0)
    })

  if (script !== '')
    test('its TypeScript samples run and print what their comments say', async () => {
      const file = join(folder, `${page.replaceAll('/', '-')}.ts`)
      const found = Object.entries(PACKAGES).reduce(
        (code, [name, path]) => code.replaceAll(`'${name}'`, `'${new URL(path, ROOT).href}'`),
        script,
      )
      writeFileSync(file, found)
      const { code: status, output } = await run(process.execPath, ['--no-warnings', file], await settings())
      expect(status, output).toBe(0)
      const promised = [...script.matchAll(/console\.log\(.*\) \/\/ (.+)$|^\/\/ (false .+)$/gm)].map(
        ([, beside, below]) => beside ?? below ?? '',
      )
      expect(promised.length, 'a sample that says nothing proves nothing').toBeGreaterThan(0)
      const onOneLine = output.replace(/\s+/g, ' ')
      for (const line of promised) {
        const [start = ''] = line.split('…')
        expect(onOneLine, line).toContain(start)
      }
    })
})
