import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { newDelegateToken } from '../../server/src/platform/security/api-key.ts'
import { expectError } from '../../server/test/harness/envelope.ts'
import { call, type Service, startService } from '../../server/test/harness/harness.ts'
import { begin, callsOf, completed, note, pay } from './agent.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const bearing = (token: string) => ({ authorization: `Bearer ${token}` })

/** A client of the MCP's own SDK over Streamable HTTP. */
async function connectOverHttp(token: string, mode: 'legacy' | 'auto' = 'auto') {
  const transport = new StreamableHTTPClientTransport(new URL('/mcp', service.url), {
    requestInit: { headers: bearing(token) },
  })
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
  await client.connect(transport)
  onTestFinished(() => client.close())
  return callsOf(client)
}

const INITIALIZE = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
}
const ACCEPT = { accept: 'application/json, text/event-stream' }
const post = (body: unknown, headers: Record<string, string> = {}) =>
  call(service.url, 'POST', '/mcp', { body, headers: { ...ACCEPT, ...headers } })

describe.each(['legacy', 'auto'] as const)('over HTTP, a client of the protocol of the %s era', (mode) => {
  test('lists the tools and calls each', async () => {
    const { tenant, session, ada } = await begin(service)
    const { client, call: tool } = await connectOverHttp(session.token, mode)
    expect(client.getProtocolEra()).toBe(mode === 'auto' ? 'modern' : 'legacy')
    const names = (await client.listTools()).tools.map(({ name }) => name)
    expect([names.length, names.includes('x402_fetch')]).toEqual([6, false])
    expect((await tool('wallet_status')).data.wallet.partyId).toBe(ada.party)
    expect((await tool('wallet_holdings')).data.totals).toMatchObject([{ amount: '100' }])
    expect((await tool('payment_check', pay('3'))).data.allowed).toBe(true)
    for (const repeated of [false, true])
      expect((await tool('payment_send', pay('3', { commandId: 'a' }))).data).toMatchObject({ paid: true, repeated })
    expect((await tool('transaction_get', { commandId: 'a' })).data.transaction.status).toBe('completed')
    const refused = await tool('contract_execute', { commandId: 'b', commands: [note(ada.party, 'x')] })
    expect(refused.data.refusal).toMatchObject({ code: 'policy_denied', rule: 'allow' })
    expect((await tool('payment_send', pay('8'))).data.refusal).toMatchObject({ rule: 'spend[0]', remaining: '7' })
    expect(await completed(tenant)).toBe(1)
  })
})

describe('over HTTP,', () => {
  test('the same payment ten times at once is one, and ten payments stop at the cap', async () => {
    const { tenant, session } = await begin(service)
    const { call: tool } = await connectOverHttp(session.token)
    const same = await Promise.all(Array.from({ length: 10 }, () => tool('payment_send', pay('3'))))
    expect(new Set(same.map(({ data }) => data.transactionId)).size).toBe(1)
    for (let n = 0; n < 10; n += 1) await tool('payment_send', pay('1', { reference: `${n}` }))
    expect(await completed(tenant)).toBe(8)
  })

  test('who has no token of a session is asked for one, and told nothing else', async () => {
    const { tenant, session } = await begin(service)
    const wrong: [Record<string, string>, string, string][] = [
      [{}, 'session_missing', 'Bearer realm="halfkey"'],
      [bearing(newDelegateToken().token), 'session_invalid', 'Bearer realm="halfkey", error="invalid_token"'],
      [bearing(tenant.key), 'session_invalid', 'Bearer realm="halfkey", error="invalid_token"'],
      [{ 'x-api-key': tenant.key }, 'session_missing', 'Bearer realm="halfkey"'],
      [{ cookie: `token=${session.token}` }, 'session_missing', 'Bearer realm="halfkey"'],
    ]
    for (const [headers, code, challenge] of wrong) {
      const answer = await post(INITIALIZE, headers)
      expectError(answer, 401, code)
      expect(answer.headers.get('www-authenticate')).toBe(challenge)
    }
    expectError(await call(service.url, 'GET', '/mcp'), 401, 'session_missing')
  })

  test('a page of others is refused with a valid token too', async () => {
    const { session } = await begin(service)
    const foreign = { ...bearing(session.token), origin: 'https://evil.example' }
    expectError(await post(INITIALIZE, foreign), 403, 'origin_not_allowed')
  })

  test('a session that has ended lists its tools, and each says that it has', async () => {
    const { tenant, session } = await begin(service)
    const { call: tool } = await connectOverHttp(session.token)
    await tenant.delete(`/delegated-sessions/${session.id}`)
    expect((await tool('payment_send', pay('3'))).data.refusal.code).toBe('delegated_session_revoked')
  })

  test('nothing is kept between two requests, and no answer stays open', async () => {
    const { session } = await begin(service)
    for (const method of ['GET', 'DELETE']) {
      const headers = { ...bearing(session.token), ...ACCEPT }
      expect((await call(service.url, method, '/mcp', { headers })).status).toBe(405)
    }
    const listen = {
      jsonrpc: '2.0',
      id: 7,
      method: 'subscriptions/listen',
      params: {
        notifications: { toolsListChanged: true },
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    }
    const headers = {
      ...bearing(session.token),
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'subscriptions/listen',
    }
    const answer = await post(listen, headers)
    expect(answer.text).toMatch(/error/)
  })

  test('a batch is refused, so that each message counts against the limit', async () => {
    const { session } = await begin(service)
    const message = JSON.stringify(INITIALIZE)
    for (const raw of [`[${message}]`, ` \r\n\t[${message},${message}]`, `\ufeff[${message}]`]) {
      const answer = await call(service.url, 'POST', '/mcp', { raw, headers: { ...bearing(session.token), ...ACCEPT } })
      expect([answer.status, answer.body]).toMatchObject([400, { error: { code: -32_600 } }])
    }
  })

  test('broken, huge and hostile bodies are refused, and the next request is unharmed', async () => {
    const { session } = await begin(service)
    const by = { ...bearing(session.token), ...ACCEPT }
    const bodies = [
      '',
      '{',
      '[]',
      'null',
      '7',
      '{"__proto__":{}}',
      '['.repeat(10_000),
      `{"a":"${'x'.repeat(900_000)}"}`,
    ]
    for (const raw of bodies) {
      const answer = await call(service.url, 'POST', '/mcp', { raw, headers: by })
      expect([raw.slice(0, 20), answer.status >= 400 && answer.status < 500]).toEqual([raw.slice(0, 20), true])
    }
    const huge = await call(service.url, 'POST', '/mcp', { raw: 'x'.repeat(2_000_000), headers: by })
    expectError(huge, 400, 'payload_too_large')
    expect((await post(INITIALIZE, by)).status).toBe(200)
    expect(service.logs()).not.toContain(session.token)
  })
})
