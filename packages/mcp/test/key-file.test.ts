import { spawn } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newSession, transfers } from '../../server/src/delegation/delegated.fixture.ts'
import { call, type Service, startService } from '../../server/test/harness/harness.ts'
import { begin, connect, envOf, MAIN, pay } from './agent.fixture.ts'

let service: Service
let folder: string
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
  folder = mkdtempSync(join(tmpdir(), 'halfkey-agent-'))
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await service.stop()
})

/** Runs `halfkey-mcp key`. */
function printKey(
  env: Record<string, string>,
  args = ['key'],
): Promise<{ status: number | null; out: string; said: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [MAIN, ...args], { env })
    let [out, said] = ['', '']
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
    child.on('close', (status) => resolve({ status, out, said }))
  })
}

describe('halfkey-mcp key', () => {
  test('creates a key that only this user can read, and prints its public half, the same at each call', async () => {
    const path = join(folder, 'new', 'key.json')
    const all = await Promise.all([1, 2, 3].map(() => printKey({ HALFKEY_KEY_FILE: path })))
    const [first] = all as [(typeof all)[0]]
    expect(JSON.parse(first.out)).toEqual({
      kty: 'EC',
      crv: 'P-256',
      x: expect.stringMatching(/^[\w-]{43}$/),
      y: expect.stringMatching(/^[\w-]{43}$/),
    })
    for (const one of all) expect(one).toEqual({ status: 0, out: first.out, said: '' })
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(readdirSync(join(folder, 'new'))).toEqual(['key.json'])
    expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject({ ...JSON.parse(first.out), d: expect.any(String) })
  })

  test('refuses a file that others can read, one that is no key, no file at all, and other commands', async () => {
    const open = join(folder, 'open.json')
    await printKey({ HALFKEY_KEY_FILE: open })
    const { d } = JSON.parse(readFileSync(open, 'utf8'))
    const wrong = join(folder, 'wrong.json')
    writeFileSync(wrong, '{"kty":"oct","k":"c2VjcmV0"}', { mode: 0o600 })
    for (const mode of [0o644, 0o640, 0o604, 0o620]) {
      chmodSync(open, mode)
      const { status, out, said } = await printKey({ HALFKEY_KEY_FILE: open })
      expect([status, out, said]).toEqual([78, '', expect.stringContaining('chmod 600')])
      expect(said).not.toContain(d)
    }
    const noKey = await printKey({ HALFKEY_KEY_FILE: wrong })
    expect([noKey.status, noKey.said]).toEqual([78, expect.stringContaining('private P-256 key')])
    expect(noKey.said).not.toContain('c2VjcmV0')
    expect((await printKey({})).status).toBe(78)
    expect((await printKey({}, ['keys'])).status).toBe(78)
  })

  test('alone creates the file: a server whose file is missing says so and does not start', async () => {
    const path = join(folder, 'missing.json')
    const settings = {
      HALFKEY_URL: 'https://api.example.com',
      HALFKEY_TOKEN: `dst_${'a'.repeat(49)}`,
      HALFKEY_KEY_FILE: path,
    }
    const { status, said } = await printKey(settings, [])
    expect([status, said]).toEqual([78, expect.stringContaining('halfkey-mcp key')])
    expect(existsSync(path)).toBe(false)
  })

  test.runIf(process.geteuid?.() === 0)('refuses a file of another user', async () => {
    const path = join(folder, 'theirs.json')
    await printKey({ HALFKEY_KEY_FILE: path })
    chownSync(path, 65_534, 65_534)
    const { status, out, said } = await printKey({ HALFKEY_KEY_FILE: path })
    expect([status, out, said]).toEqual([78, '', expect.stringContaining('another user')])
  })
})

describe('an agent whose session is bound to the key in its file', () => {
  async function bound() {
    const keyFile = join(folder, `${crypto.randomUUID()}.json`)
    const boundKey = JSON.parse((await printKey({ HALFKEY_KEY_FILE: keyFile })).out)
    const { tenant, ada } = await begin(service)
    const session = await newSession(service, tenant, ada, { policy: transfers(ada, '10'), boundKey })
    return { session, keyFile, env: { ...envOf(service.url, session), HALFKEY_KEY_FILE: keyFile } }
  }

  test('looks at its wallet and pays once', async () => {
    const { env } = await bound()
    const { call: use, said } = await connect({ env })
    expect((await use('wallet_status')).data.session.status).toBe('active')
    expect((await use('payment_check', pay('3'))).data.allowed).toBe(true)
    expect((await use('payment_send', pay('3'))).data).toMatchObject({ paid: true, repeated: false })
    expect((await use('payment_send', pay('3'))).data).toMatchObject({ paid: true, repeated: true })
    expect(said()).toBe('')
  })

  test('is told what is missing without the file, and with another one', async () => {
    const { session, env } = await bound()
    const without = await connect({ env: envOf(service.url, session) })
    expect((await without.call('wallet_status')).text).toContain('dpop_proof_required')
    const otherFile = join(folder, 'other.json')
    await printKey({ HALFKEY_KEY_FILE: otherFile })
    const other = await connect({ env: { ...env, HALFKEY_KEY_FILE: otherFile } })
    expect((await other.call('payment_send', pay('3'))).text).toContain('dpop_proof_invalid')
  })

  test('cannot connect over HTTP, by either scheme', async () => {
    const { session } = await bound()
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
    for (const scheme of ['Bearer', 'DPoP']) {
      const headers = { authorization: `${scheme} ${session.token}`, accept: 'application/json, text/event-stream' }
      const answer = await call(service.url, 'POST', '/mcp', { headers, body })
      expect([answer.status, answer.body.code]).toEqual([401, 'dpop_proof_required'])
      expect(answer.body.details[0].message).toContain('HALFKEY_KEY_FILE')
    }
  })
})
