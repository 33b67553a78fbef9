import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Service, startService } from '../../server/test/harness.ts'

const ROOT = new URL('../../../', import.meta.url)
const PACKAGES = { '@halfkey/sdk': 'packages/sdk/src/index.ts', '@halfkey/keys': 'packages/keys/src/index.ts' }
/** Each page's samples run in order on a tenant of their own: what is `sh` in one shell, what is `ts` as one module. */
const PAGES = ['docs/wallets.md', 'docs/delegated-sessions.md', 'docs/shared-keys.md']

let service: Service
let folder: string
beforeAll(async () => {
  service = await startService()
  folder = mkdtempSync(join(tmpdir(), 'halfkey-docs-'))
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await service.stop()
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
  return { HALFKEY_URL: service.url, HALFKEY_KEY: (await service.newTenant()).key }
}

describe.each(PAGES)('%s', (page) => {
  const code = samples(page, 'sh')
  if (code.length > 0)
    test('its shell samples run, and none is refused', async (context) => {
      context.skip((await run('bash', ['-c', 'command -v curl'], {})).code !== 0, 'there is no curl here')
      expect(code.length).toBeGreaterThan(1)
      // Refusals end it; without these lines curl takes them for success.
      const strict = ['set -euo pipefail', 'curl() { command curl --fail-with-body "$@"; echo; }']
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
