// An agent with the tools of the MCP, over HTTP, on a wallet on Canton.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest'
import { callsOf } from '../../../mcp/test/agent.fixture.ts'
import { expectStatus } from '../../src/delegation/delegated.fixture.ts'
import { eventsOf } from '../../src/identity/sessions/sessions.fixture.ts'
import type { Tenant } from '../harness/harness.ts'
import { BOB, type CantonService, coinsOf, ISSUER, newScene, pay, startCanton } from './canton.fixture.ts'
import { COIN } from './daml.ts'

let service: CantonService
let tenant: Tenant
beforeAll(async () => {
  service = await startCanton()
  tenant = await service.newTenant()
})
afterEach(() => service.participant.heal())
afterAll(() => service.stop())

async function connect(token: string) {
  const transport = new StreamableHTTPClientTransport(new URL('/mcp', service.url), {
    requestInit: { headers: { authorization: `Bearer ${token}` } },
  })
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(transport)
  onTestFinished(() => client.close())
  return callsOf(client)
}

test('an agent pays within its cap, once for each command id, and is refused beyond it', async () => {
  const { ada, coin, session, spent, paid } = await newScene(service, tenant)
  const { call: tool } = await connect(session.token)
  expect((await tool('wallet_status')).data.wallet.partyId).toBe(ada.party)
  const command = { commandId: 'a', commands: [pay(coin, '3')] }
  for (const again of [false, true]) {
    const { data } = await tool('contract_execute', command)
    expect(data, String(again)).toMatchObject({ status: 'completed', refusal: null })
  }
  expect(coinsOf(service, BOB)).toEqual(['3'])
  const [rest] = service.participant.active(COIN, { owner: ada.party, issuer: ISSUER })
  const beyond = { commandId: 'b', commands: [pay(rest?.contractId ?? '', '3')] }
  expect((await tool('contract_execute', beyond)).data.refusal).toMatchObject({
    code: 'spend_limit_exceeded',
    remaining: '2',
  })
  const other = { commandId: 'c', commands: [{ exercise: { ...pay(coin, '1').exercise, choice: 'Archive' } }] }
  expect((await tool('contract_execute', other)).data.refusal).toMatchObject({ code: 'policy_denied' })
  expect([await spent(), paid()]).toEqual(['3', 3])
  expect(await eventsOf(service, tenant, 'tx.completed')).toHaveLength(1)
  // A revoked agent is out.
  expectStatus(await tenant.delete(`/delegated-sessions/${session.id}`), 200)
  const late = await tool('contract_execute', { ...beyond, commandId: 'd' })
  expect(late.data.refusal).toMatchObject({ code: 'delegated_session_revoked' })
})
