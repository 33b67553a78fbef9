import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { publishableKey } from '../../identity/sessions/sessions.fixture.ts'
import { approve, askingAbove, newOwner } from '../approvals/approvals.fixture.ts'
import { create, digestOf, everything, expectStatus, newKeyHolder, transfer, transfers } from '../delegated.fixture.ts'
import { boundCalls, newBound, newTestKey, proofFor } from './proofs.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

/** Another process on the same database, whose clock is off by so much. */
async function processWithClock(offByMs: number): Promise<Service> {
  const settings = { DATABASE_URL: service.databaseUrl, HALFKEY_KEK_FILE: service.deps.config.kekFile as string }
  const other = await startService({ HALFKEY_ROLE: 'api', ...settings })
  other.advance(offByMs)
  return other
}

test('a delegate of a self-custody wallet completes by the owner’s signature, and each of the two calls has its proof', async () => {
  const tenant = await service.newTenant()
  const ada = await newKeyHolder(service, tenant)
  const key = newTestKey()
  const body = { policy: transfers(ada, '10'), boundKey: key.jwk }
  const made = expectStatus(await ada.person.post('/delegated-sessions', body), 201)
  const session = boundCalls(service, { key, made, apiKey: await publishableKey(tenant) })
  const commands = [transfer(await ada.receive('5'), '3')]
  const { signingRequest } = expectStatus(await session.execute({ commandId: 'one', commands }), 200)
  const signature = ada.sign(digestOf(signingRequest.preparedTransaction))
  const signed = { signingRequestId: signingRequest.id, signature }
  expectError(await session.execute(signed, { key: newTestKey() }), 401, 'dpop_proof_invalid')
  expect(expectStatus(await session.execute(signed), 200).status).toBe('completed')
})

test('the owner approves as for any session, and the delegate learns of it with another proof', async () => {
  const own = await startService({ HALFKEY_ROLE: 'api' })
  try {
    const tenant = await own.newTenant()
    const owner = await newOwner(own, tenant)
    // The clock of this service is a day ahead: an owner's passkey has to be that old.
    const ahead = () => ({ claims: { iat: Math.floor(own.deps.now().getTime() / 1000) } })
    const session = await newBound(own, tenant, { holder: owner, policy: askingAbove(owner, '5') })
    const body = { commandId: 'one', commands: [transfer(await owner.receive('7'))] }
    const { status, approval } = expectStatus(await session.execute(body, ahead()), 200)
    expect(status).toBe('approval_required')
    expectStatus(await approve(owner, approval.id), 200)
    expect(expectStatus(await session.execute(body, ahead()), 200).status).toBe('completed')
  } finally {
    await own.stop()
  }
})

test('a row that says both, bound and serverExecute, is executed by its delegate alone', async () => {
  const tenant = await service.newTenant()
  const session = await newBound(service, tenant)
  await service.sql('update delegated_sessions set server_execute = true where id = $1', [session.id])
  await service.recode(tenant.tenantId)
  const body = { commandId: 'one', commands: [create('Note:Note', { author: session.holder.party, text: 'x' })] }
  expectError(await tenant.post(`/delegated-sessions/${session.id}/execute`, body), 401, 'session_missing')
  expectStatus(await session.execute(body), 200)
})

describe('processes whose clocks are apart', () => {
  test('accept a proof within sixty seconds back and five ahead of their own clock, and each only once', async () => {
    const session = await newBound(service, await service.newTenant(), { policy: everything() })
    const url = `${service.url}/v1/delegated-sessions/${session.id}/query`
    const proofs = () => proofFor({ ...session, method: 'POST', url, body: '{}' })
    for (const [offByMs, isAccepted] of [
      [30_000, true],
      [75_000, false],
      [-3_000, true],
      [-30_000, false],
    ] as const) {
      const other = await processWithClock(offByMs)
      try {
        const proof = await proofs()
        const there = await session.query({ proof, url: other.url })
        expect([there.status, there.body.details?.[0].code], String(offByMs)).toEqual(
          isAccepted ? [200, undefined] : [401, 'proof_iat'],
        )
        const here = await session.query({ proof })
        expect([here.status, here.body.details?.[0].code], String(offByMs)).toEqual(
          isAccepted ? [401, 'proof_replayed'] : [200, undefined],
        )
      } finally {
        await other.stop()
      }
    }
  })
})
