import { inspect } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Service, startService, type Tenant } from '../../server/test/harness/harness.ts'
import type { Fetch } from '../src/attempt.ts'
import { createClient, type HalfkeyClient } from '../src/client.ts'
import { readPreparedTransaction } from '../src/prepared.ts'
import { newHolder, transfer, upTo } from './delegating.ts'

let service: Service
let tenant: Tenant
let client: HalfkeyClient
let publishable: string

beforeAll(async () => {
  service = await startService()
  tenant = await service.newTenant()
  client = createClient({ baseUrl: service.url, apiKey: tenant.key })
  publishable = await tenant.newKey({ publishable: true })
})
afterAll(() => service.stop())

/** A session that may spend 10, and its agent: a publishable key and the token, sending by `fetch`. */
async function newAgent(sender: Fetch = fetch) {
  const holder = await newHolder(client, (userId) => createClient({ baseUrl: service.url, apiKey: tenant.key, userId }))
  const { id, token } = await holder.mine.delegatedSessions.create({ policy: upTo('10', holder.dripped) })
  const agent = createClient({ baseUrl: service.url, apiKey: publishable, delegateToken: token, fetch: sender })
  return { ...holder, id, token, agent: agent.delegatedSessions }
}

/** Records each request's body and idempotency key; loses the answers of those that `loses` says. */
function recorder(loses: (n: number) => boolean = () => false) {
  const seen: { path: string; body: Record<string, unknown>; idempotencyKey: string | undefined }[] = []
  const sender: Fetch = async (url, init) => {
    const { 'idempotency-key': idempotencyKey } = init.headers as Record<string, string>
    const body = init.body === undefined ? {} : JSON.parse(String(init.body))
    seen.push({ path: new URL(url).pathname, body, idempotencyKey })
    const response = await fetch(url, init)
    if (!loses(seen.length)) return response
    await response.body?.cancel()
    throw new TypeError('fetch failed')
  }
  return { seen, sender }
}

describe('execute', () => {
  test('happens once if responses are lost, and returns the first result', async () => {
    const { seen, sender } = recorder((n) => n <= 2)
    const { id, agent, dripped } = await newAgent(sender)
    const done = await agent.execute(id, { commands: [transfer(dripped.contractId, '3')] })
    expect(done.status).toBe('completed')
    expect(seen).toHaveLength(3)
    // One command id for all attempts: were the kept answer gone, there would still be no second transaction.
    expect(new Set(seen.map(({ body }) => body.commandId))).toEqual(new Set([done.commandId]))
    expect(new Set(seen.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1)
    const { data } = await client.transactions.list({ delegatedSessionId: id })
    expect(data.map((one) => one.id)).toEqual([done.transactionId])
    expect((await agent.get(id)).remaining.spend[0]?.spent).toBe('3')
  })

  test('with an own command id can be repeated by another process, and refuses other commands under that id', async () => {
    const { id, agent, dripped } = await newAgent()
    const order = { commandId: 'order-7', commands: [transfer(dripped.contractId, '4')] }
    const done = await agent.execute(id, order)
    expect(await agent.execute(id, order)).toEqual(done)
    await expect(agent.execute(id, { ...order, commands: [transfer(dripped.contractId, '5')] })).rejects.toMatchObject({
      status: 409,
      code: 'duplicate_command',
    })
  })

  test('without a command id makes one transaction for each call', async () => {
    const { id, agent, dripped } = await newAgent()
    const first = await agent.execute(id, { commands: [transfer(dripped.contractId, '1')] })
    const [rest] = (await agent.query(id)).contracts
    const second = await agent.execute(id, { commands: [transfer(rest?.contractId as string, '1')] })
    expect(second.transactionId).not.toBe(first.transactionId)
    expect(second.remaining.spend[0]?.spent).toBe('2')
  })

  test('over the spend cap is refused, and the error has the amounts', async () => {
    const { id, agent, dripped } = await newAgent()
    const refused = agent.execute(id, { commands: [transfer(dripped.contractId, '10.5')] })
    await expect(refused).rejects.toMatchObject({
      status: 403,
      code: 'spend_limit_exceeded',
      details: [{ rule: 'spend[0]', asked: '10.5', remaining: '10' }],
    })
  })
})

describe('a call that changes nothing', () => {
  test('(a dry run, a query) has no idempotency key or command id, and is retried', async () => {
    const { seen, sender } = recorder((n) => n === 1 || n === 3)
    const { id, agent, dripped } = await newAgent(sender)
    const dry = await agent.dryRun(id, [transfer(dripped.contractId, '11')])
    expect(dry.decision).toMatchObject({ allowed: false, code: 'spend_limit_exceeded', rule: 'spend[0]' })
    expect((await agent.query(id)).contracts).toHaveLength(1)
    expect(seen).toHaveLength(4)
    for (const { body, idempotencyKey } of seen) {
      expect(idempotencyKey).toBeUndefined()
      expect(body.commandId).toBeUndefined()
    }
  })
})

describe('queryAll', () => {
  test('returns every contract of every page, and requests a page only when it is needed', async () => {
    const { seen, sender } = recorder()
    const { id, agent, user } = await newAgent(sender)
    for (const amount of ['1', '2', '3', '4']) await client.dev.faucet({ userId: user.id, symbol: 'USDX', amount })
    const amounts: unknown[] = []
    for await (const contract of agent.queryAll(id, { limit: 2 })) amounts.push(contract.arguments.amount)
    expect(amounts).toEqual(['4', '3', '2', '1', '100'])
    expect(seen).toHaveLength(3)
    for await (const contract of agent.queryAll(id, { limit: 2 })) if (contract.arguments.amount === '3') break
    expect(seen).toHaveLength(4)
  })

  test('filters, and continues after pages without a match', async () => {
    const { id, agent, user } = await newAgent()
    for (const amount of ['1', '2', '3']) await client.dev.faucet({ userId: user.id, symbol: 'USDX', amount })
    const where = [{ path: 'amount', op: 'gte' as const, value: '50' }]
    const found: unknown[] = []
    for await (const contract of agent.queryAll(id, { limit: 1, where })) found.push(contract.arguments.amount)
    expect(found).toEqual(['100'])

    // A server that has looked at as many contracts as it will at once answers an empty page that leads on.
    const cursors: unknown[] = []
    const sender: Fetch = async (_, init) => {
      const { cursor } = JSON.parse(String(init.body))
      cursors.push(cursor)
      const last = cursor === 'there'
      return Response.json({
        data: { contracts: last ? [{ contractId: '00' }] : [], nextCursor: last ? null : 'there' },
      })
    }
    const far = createClient({ baseUrl: service.url, apiKey: publishable, delegateToken: 'dst_x', fetch: sender })
    const all: unknown[] = []
    for await (const { contractId } of far.delegatedSessions.queryAll('dse_1', { where })) all.push(contractId)
    expect(all).toEqual(['00'])
    expect(cursors).toEqual([null, 'there'])
  })

  test('throws the error of a page', async () => {
    const { id, agent } = await newAgent()
    await client.delegatedSessions.revoke(id)
    await expect(agent.queryAll(id).next()).rejects.toMatchObject({ code: 'delegated_session_revoked' })
  })
})

describe('a delegated session’s token', () => {
  test('is not in a printed client or in its errors', async () => {
    const { id, token, agent } = await newAgent()
    const secretive = createClient({ baseUrl: service.url, apiKey: publishable, delegateToken: token })
    const error = await agent.execute(id, { commands: [transfer('00', '1')] }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ name: 'HalfkeyError' })
    for (const shown of [secretive, { ...secretive }, error])
      expect(inspect(shown, { depth: 9, showHidden: true })).not.toContain(token)
  })
})

describe('readPreparedTransaction', () => {
  test.each([
    ['nothing', ''],
    ['no base64', '*'],
    ['no JSON', btoa('halfkey')],
    ['null', btoa('null')],
    ['another version', btoa('{"version":"halfkey/transaction/v2"}')],
    ['broken UTF-8', btoa('{"version":"halfkey/transaction/v1","actAs":"\xff"}')],
  ])('refuses %s', async (_, text) => {
    await expect(readPreparedTransaction(text)).rejects.toThrow(TypeError)
  })
})
