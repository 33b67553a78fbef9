import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, eventually, type Service, startService } from '../../../test/harness/harness.ts'
import { eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import { EVENT_CATALOGUE } from '../../platform/events/event-catalogue.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'
import { sha256 } from '../../platform/security/crypto.ts'
import {
  create,
  everything,
  expectStatus,
  holdingsOf,
  newHolder,
  newSession,
  stateOf,
  transfer,
  transfers,
  unlimited,
} from '../delegated.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

async function begun(amount = '10', more: object = {}) {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const session = await newSession(service, tenant, ada, { policy: transfers(ada, amount), ...more })
  return { tenant, ada, session, holding: await ada.receive('100') }
}

const replayed = (answer: Answer) => answer.headers.get('idempotency-replayed')
const keyed = (key: string) => ({ headers: { 'idempotency-key': key } })

describe('a commandId', () => {
  test('that comes again, twenty times at once too, answers the first result and happens once', async () => {
    const { tenant, session, holding } = await begun()
    const body = { commandId: 'a', commands: [transfer(holding, '3')] }
    const answers = await Promise.all(Array.from({ length: 20 }, () => session.execute(body)))
    for (const answer of answers) expect([answer.status, answer.text]).toEqual([200, answers[0]?.text])
    expect(answers[0]?.body.data.remaining.spend[0].remaining).toBe('7')
    // However the session went on, the first answer stays what it was.
    const rest = (await holdingsOf(session))[0]?.contractId as string
    expectStatus(await session.execute({ commands: [transfer(rest, '2')] }), 200)
    expect((await session.execute(body)).text).toBe(answers[0]?.text)
    expect(await eventsOf(service, tenant, 'tx.completed')).toHaveLength(2)
    expect((await holdingsOf(session)).map(({ amount }) => amount)).toEqual(['95'])
  })

  test('with other commands is a conflict, however little they differ, before anything of them is judged', async () => {
    const { session, holding } = await begun()
    const command = transfer(holding, '3')
    expectStatus(await session.execute({ commandId: 'a', commands: [command] }), 200)
    for (const commands of [
      [transfer(holding, '4')],
      [transfer(holding, '3.0')],
      [command, command],
      [transfer(holding)],
      [create('Other:Thing', {})],
    ])
      expectError(await session.execute({ commandId: 'a', commands }), 409, 'duplicate_command')
  })

  test('whose row got the hash of other commands by SQL answers for neither, and happens for neither', async () => {
    const { session, holding } = await begun('50')
    const [paid, claimed] = [transfer(holding, '3'), transfer(holding, '40')]
    const first = expectStatus(await session.execute({ commandId: 'a', commands: [paid] }), 200)
    const exchange = (commands: object[]) =>
      service.sql('update transactions set commands_hash = $1 where id = $2', [
        sha256(canonicalJson(commands)),
        first.transactionId,
      ])
    await exchange([claimed])
    expectError(await session.execute({ commandId: 'a', commands: [claimed] }), 500, 'record_tampered')
    expectError(await session.execute({ commandId: 'a', commands: [paid] }), 409, 'duplicate_command')
    await exchange([paid])
    expect(expectStatus(await session.execute({ commandId: 'a', commands: [paid] }), 200)).toEqual(first)
    expect((await holdingsOf(session)).map(({ amount }) => amount)).toEqual(['97'])
  })

  test('with the same commands in another order of their fields is the same', async () => {
    const { session, holding } = await begun()
    const { exercise } = transfer(holding, '1')
    const first = await session.execute({ commandId: 'a', commands: [{ exercise }] })
    const { templateId, contractId, choice, arguments: given } = exercise
    const turned = { arguments: { amount: given.amount, receiver: given.receiver }, choice, contractId, templateId }
    const again = await session.execute({ commands: [{ exercise: turned }], commandId: 'a' })
    expect([again.status, again.text]).toEqual([200, first.text])
  })

  test("is one session's own: another session of the wallet has it to itself", async () => {
    const { tenant, ada, session, holding } = await begun()
    const other = await newSession(service, tenant, ada, { policy: transfers(ada, '10') })
    const done = expectStatus(await session.execute({ commandId: 'a', commands: [transfer(holding, '3')] }), 200)
    const rest = done.effects.at(-1).contractId
    const theirs = expectStatus(await other.execute({ commandId: 'a', commands: [transfer(rest, '3')] }), 200)
    expect(theirs.transactionId).not.toBe(done.transactionId)
    expect((await tenant.get('/transactions?command_id=a')).body.total).toBe(2)
  })

  test('that was refused is free again: nothing was done under it', async () => {
    const { session, holding } = await begun()
    const ask = (amount: string) => session.execute({ commandId: 'a', commands: [transfer(holding, amount)] })
    expectError(await ask('11'), 403, 'spend_limit_exceeded')
    expectError(await ask('0'), 400, 'arguments_invalid')
    expectStatus(await ask('3'), 200)
  })

  test('answers its first result after revocation, exhaustion and expiry, and to nobody else', async () => {
    const { tenant, ada, session, holding } = await begun('10', { maxUses: 1 })
    const body = { commandId: 'a', commands: [transfer(holding, '3')] }
    const done = await session.execute(body)
    await tenant.delete(`/delegated-sessions/${session.id}`)
    service.advance(2 * 3_600_000)
    await tenant.post(`/wallets/${ada.walletId}/freeze`)
    expect((await session.execute(body)).text).toBe(done.text)
    const other = await newSession(service, tenant, await newHolder(tenant), { policy: everything() })
    expectError(await session.execute(body, { headers: other.by.headers as Record<string, string> }), 404, 'not_found')
  })

  test('is made where none is given: the same commands twice are two transactions', async () => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    const session = await newSession(service, tenant, ada, { policy: everything() })
    const commands = [create('Note:Note', { author: ada.party, text: 'x' })]
    const [first, second] = [await session.execute({ commands }), await session.execute({ commands })]
    expect(first.body.data.commandId).toBe(first.body.data.transactionId)
    expect(second.body.data.transactionId).not.toBe(first.body.data.transactionId)
  })
})

describe('an Idempotency-Key', () => {
  test('beside a commandId replays the kept answer; without one it makes a call happen once', async () => {
    const { tenant, session, holding } = await begun()
    const body = { commands: [transfer(holding, '3')] }
    const ask = () =>
      eventually('an answer', async () => {
        const answer = await session.execute(body, keyed('k'))
        return answer.body.code !== 'idempotency_in_progress' && answer
      })
    const answers = await Promise.all(Array.from({ length: 20 }, ask))
    for (const answer of answers) expect([answer.status, answer.body]).toEqual([200, answers[0]?.body])
    expect(answers.filter((answer) => replayed(answer) === null)).toHaveLength(1)
    const [{ body: first }] = answers as [Answer]
    const { commandId } = first.data
    const byCommand = await session.execute({ ...body, commandId })
    expect([byCommand.body, replayed(byCommand)]).toEqual([first, null])
    expectError(await session.execute({ ...body, commandId }, keyed('k')), 409, 'idempotency_conflict')
    expect(await eventsOf(service, tenant, 'tx.completed')).toHaveLength(1)
  })

  test("is one delegate's own: another session's call under it is another call", async () => {
    const { tenant, ada, session } = await begun()
    const other = await newSession(service, tenant, ada, { policy: everything() })
    const mine = await newSession(service, tenant, ada, { policy: everything() })
    const body = { commands: [create('Note:Note', { author: ada.party, text: 'x' })] }
    const first = await mine.execute(body, keyed('k'))
    const second = await other.execute(body, keyed('k'))
    expect([replayed(first), replayed(second)]).toEqual([null, null])
    expect(first.body.data.transactionId).not.toBe(second.body.data.transactionId)
    expectError(
      await mine.execute(body, { headers: { ...keyed('k').headers, ...(session.by.headers as object) } }),
      404,
      'not_found',
    )
  })
})

test('what cannot be written whole is not written at all: no contract, transaction, spending or event', async () => {
  const { tenant, session, holding } = await begun()
  const body = { commandId: 'a', commands: [transfer(holding, '3')] }
  const denied = { commands: [transfer(holding, '11')] }
  await session.query()
  await service.sql(
    `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$`,
  )
  for (const table of [
    'transactions',
    'ledger_contracts',
    'ledger_updates',
    'delegated_sessions',
    'events',
    'outbox',
  ]) {
    const before = await stateOf(service)
    // As late as can be: when everything is written, and about to be committed.
    await service.sql(
      `create constraint trigger refuse after insert or update on ${table} deferrable initially deferred for each row execute function refuse()`,
    )
    try {
      expectError(await session.execute(body), 500, 'internal_error', table)
      // A denial, too, is told of whole or not at all.
      if (['delegated_sessions', 'events', 'outbox'].includes(table))
        expectError(await session.execute(denied), 500, 'internal_error', table)
    } finally {
      await service.sql(`drop trigger refuse on ${table}`)
    }
    expect(await stateOf(service), table).toBe(before)
  }
  expectStatus(await session.execute(body), 200)
  expectError(await session.execute(denied), 409, 'contract_archived')
  expect(await eventsOf(service, tenant, 'tx.completed')).toHaveLength(1)
})

test('every event of a session and its transactions has exactly the fields that the catalogue shows', async () => {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const policy = everything([unlimited(ada.issuer)])
  const session = await newSession(service, tenant, ada, { policy, maxUses: 1 })
  const revoked = await newSession(service, tenant, ada, { policy })
  await session.execute({ commands: [create('Other:Thing', {})] })
  const done = expectStatus(await session.execute({ commands: [transfer(await ada.receive('1'))] }), 200)
  await tenant.delete(`/delegated-sessions/${revoked.id}`)
  for (const type of [
    'delegated_session.created',
    'delegated_session.denied',
    'delegated_session.exhausted',
    'delegated_session.revoked',
    'tx.submitted',
    'tx.completed',
  ] as const) {
    const [event] = await eventsOf(service, tenant, type)
    expect(Object.keys(event ?? {}).sort(), type).toEqual(Object.keys(EVENT_CATALOGUE[type].data).sort())
    for (const [field, value] of Object.entries(EVENT_CATALOGUE[type].data))
      expect(typeof event?.[field], `${type} ${field}`).toBe(typeof value)
  }
  const [submitted] = await eventsOf(service, tenant, 'tx.submitted')
  expect(submitted).toEqual({
    transactionId: done.transactionId,
    commandId: done.commandId,
    userId: ada.userId,
    walletId: ada.walletId,
    partyId: ada.party,
    delegatedSessionId: session.id,
    ledger: 'embedded',
  })
  // No event says where a token or a policy's content is.
  const rows = await service.sql<{ body: string }>('select body from events where tenant_id = $1', [tenant.tenantId])
  for (const { body } of rows) expect(body).not.toMatch(/dst_|"policy"/)
})
