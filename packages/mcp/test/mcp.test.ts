import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { everything, type Holder, unlimited } from '../../server/src/delegation/delegated.fixture.ts'
import { newDelegateToken } from '../../server/src/platform/security/api-key.ts'
import { type Service, startService } from '../../server/test/harness/harness.ts'
import { begin, completed, connect, envOf, note, pay } from './agent.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const begun = (policy?: (ada: Holder) => object, more: object = {}) => begin(service, policy, more)

const TOOLS = [
  'wallet_status',
  'wallet_holdings',
  'payment_check',
  'payment_send',
  'contract_execute',
  'transaction_get',
  'x402_fetch',
]

describe.each(['legacy', 'auto'] as const)('a client of the protocol of the %s era', (mode) => {
  test('lists the seven tools and calls each, with results as their schemas say', async () => {
    const { session, ada, tenant } = await begun((holder) => everything([unlimited(holder.issuer)]))
    const { client, call, said } = await connect({ env: envOf(service.url, session), mode })
    expect(client.getProtocolEra()).toBe(mode === 'auto' ? 'modern' : 'legacy')
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).toEqual(TOOLS)
    for (const { name, outputSchema, inputSchema, description } of tools)
      expect([name, outputSchema?.type, inputSchema.additionalProperties, typeof description]).toEqual([
        name,
        'object',
        false,
        'string',
      ])
    expect((await call('wallet_status')).data.wallet.partyId).toBe(ada.party)
    expect((await call('wallet_holdings')).data.totals).toEqual([{ issuer: ada.issuer, symbol: 'USDX', amount: '100' }])
    expect((await call('payment_check', pay('3'))).data.allowed).toBe(true)
    const paid = await call('payment_send', pay('3'))
    expect(paid.data).toMatchObject({ paid: true, status: 'completed', repeated: false })
    const noted = await call('contract_execute', { commandId: 'note-1', commands: [note(ada.party, 'hello')] })
    expect(noted.data).toMatchObject({ status: 'completed', commandId: 'note-1' })
    const looked = await call('transaction_get', { transactionId: paid.data.transactionId })
    expect(looked.data.transaction).toMatchObject({ status: 'completed', commandId: paid.data.commandId })
    expect(await completed(tenant)).toBe(2)
    // The text is the same as the structure, for clients that know only text.
    expect(JSON.parse(paid.text)).toEqual(paid.data)
    expect(said()).toBe('')
  })
})

describe('the token', () => {
  test('is in no result, no error and nothing that the server writes', async () => {
    const { token } = newDelegateToken()
    const unknown = await connect({ env: envOf(service.url, { token }) })
    const away = await connect({ env: envOf('http://127.0.0.1:9', { token }) })
    const { agent, session } = await begun()
    const said: string[] = []
    for (const [who, secret] of [
      [unknown, token],
      [away, token],
      [agent, session.token],
    ] as const)
      for (const name of TOOLS) {
        if (who === away && name !== 'wallet_status') continue
        const fetched = { url: service.url, maxAmount: '1', symbol: secret, purchaseId: secret }
        if (name === 'x402_fetch') {
          said.push(JSON.stringify(await who.call(name, fetched)))
          continue
        }
        const args = name === 'contract_execute' ? { commandId: secret, commands: [note('a', secret)] } : pay('3')
        const given = name.startsWith('wallet') ? {} : name === 'transaction_get' ? { commandId: secret } : args
        said.push(JSON.stringify(await who.call(name, given)), who.said())
      }
    for (const text of said) for (const secret of [token, session.token]) expect(text).not.toContain(secret)
    expect(said.join()).toContain('session_invalid')
    expect(said.join()).toContain('network_error')
  })
})
