// The inspector of the Model Context Protocol, by its command line: a client that nobody here wrote.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { newHolder, newSession, type Session, transfers } from '../../server/src/delegation/delegated.fixture.ts'
import { type Service, startService } from '../../server/test/harness/harness.ts'
import { completed, envOf, MAIN, note, pay } from './agent.fixture.ts'

const INSPECTOR = fileURLToPath(new URL('../../../.cache/inspector/node_modules/.bin/mcp-inspector', import.meta.url))
const isThere = existsSync(INSPECTOR)

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

/** Runs it once and reads what it prints. It ends with an error code if a tool refuses. */
async function inspect(target: readonly string[], args: readonly string[]) {
  const run = promisify(execFile)(process.execPath, [INSPECTOR, '--cli', ...target, ...args])
  const { stdout, stderr } = await run.catch((error: { stdout: string; stderr: string }) => error)
  expect(stdout, stderr).not.toBe('')
  return JSON.parse(stdout)
}

const callTool = async (target: readonly string[], name: string, given: object = {}) => {
  const pairs = Object.entries(given).map(([key, value]) => `${key}=${JSON.stringify(value)}`)
  const args = pairs.length === 0 ? [] : ['--tool-arg', ...pairs]
  return (await inspect(target, ['--method', 'tools/call', '--tool-name', name, ...args])).structuredContent
}

/** A page that costs nothing. */
async function startPage(): Promise<string> {
  const server = createServer((_, response) => response.end('sunny'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const OVER: Record<string, (session: Session, origin: string) => string[]> = {
  stdio: (session, origin) => {
    const env = { ...envOf(service.url, session), HALFKEY_X402_ORIGINS: origin }
    return [...Object.entries(env).flatMap(([name, value]) => ['-e', `${name}=${value}`]), process.execPath, MAIN]
  },
  HTTP: ({ token }) => [`${service.url}/mcp`, '--transport', 'http', '--header', `Authorization: Bearer ${token}`],
}

describe.skipIf(!isThere)(`the inspector${isThere ? '' : ' (skipped: .ci/run installs it)'}`, () => {
  test.each(Object.entries(OVER))('lists the tools over %s and calls each', async (transport, targetOf) => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    await ada.receive('100')
    const session = await newSession(service, tenant, ada, { policy: transfers(ada, '10') })
    const origin = await startPage()
    const target = targetOf(session, origin)
    const tool = (name: string, given?: object) => callTool(target, name, given)
    // `--strict`: a schema that clients cannot read would be an error.
    const { tools } = await inspect(target, ['--method', 'tools/list', '--strict'])
    const names = tools.map(({ name }: { name: string }) => name)
    expect([names.length, names.includes('x402_fetch')]).toEqual(transport === 'stdio' ? [7, true] : [6, false])
    expect((await tool('wallet_status')).wallet.partyId).toBe(ada.party)
    expect((await tool('wallet_holdings')).totals).toMatchObject([{ amount: '100' }])
    expect((await tool('payment_check', pay('3'))).allowed).toBe(true)
    expect(await tool('payment_send', pay('3', { commandId: 'a' }))).toMatchObject({ paid: true, repeated: false })
    expect((await tool('transaction_get', { commandId: 'a' })).transaction.status).toBe('completed')
    const refused = await tool('contract_execute', { commandId: 'b', commands: [note(ada.party, 'x')] })
    expect(refused.refusal).toMatchObject({ code: 'policy_denied', rule: 'allow' })
    if (transport === 'stdio') {
      const wanted = { url: `${origin}/weather`, maxAmount: '1', symbol: 'USDX', purchaseId: 'one' }
      expect(await tool('x402_fetch', wanted)).toMatchObject({ status: 200, body: 'sunny' })
    }
    expect(await completed(tenant)).toBe(1)
  })
})
