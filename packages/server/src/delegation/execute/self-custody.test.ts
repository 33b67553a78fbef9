import { createHash, createPublicKey, verify } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService } from '../../../test/harness/harness.ts'
import { eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'
import { newWalletKey } from '../../wallets/wallets/wallets.fixture.ts'
import {
  create,
  digestOf,
  everything,
  expectStatus,
  holdingsOf,
  type KeyHolder,
  newHolder,
  newKeyHolder,
  newSession,
  ownSession,
  type Session,
  transfer,
} from '../delegated.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

async function begun(amount = '10', more: object = {}) {
  const tenant = await service.newTenant()
  const ada = await newKeyHolder(service, tenant)
  const spend = [{ asset: { issuer: ada.issuer, symbol: 'USDX' }, amount }]
  const session = await ownSession(service, ada, { policy: everything(spend), ...more })
  return { tenant, ada, session, holding: await ada.receive('100') }
}

interface Asked {
  transactionId: string
  signingRequest: { id: string; preparedTransaction: string; digest: string; publicKey: string; expiresAt: string }
  remaining: { uses: number | null; spend: { remaining: string }[] }
  effects: { contractId: string; type: string }[]
}

async function asked(session: Session, body: object): Promise<Asked> {
  const data = expectStatus(await session.execute(body), 200)
  expect(data).toMatchObject({ status: 'signature_required', updateId: null, offset: null, decision: null })
  return data
}

/** Signs what was asked for, over a digest computed here. */
const signatureOf = (holder: KeyHolder, { signingRequest }: Asked) =>
  holder.sign(digestOf(signingRequest.preparedTransaction))

const answer = (session: Session, { signingRequest }: Asked, signature: string): Promise<Answer> =>
  session.execute({ signingRequestId: signingRequest.id, signature })

describe('what is to be signed', () => {
  test("is the canonical form of what was asked for, in the wallet's name, and its digest is computed from it alone", async () => {
    const { tenant, ada, session, holding } = await begun()
    const command = transfer(holding, '3.0')
    const { signingRequest, transactionId, effects, remaining } = await asked(session, {
      commandId: 'order-1',
      commands: [command],
    })
    expect(signingRequest).toEqual({
      id: transactionId,
      preparedTransaction: expect.stringMatching(/^[A-Za-z0-9+/]+={0,2}$/),
      digest: digestOf(signingRequest.preparedTransaction).toString('hex'),
      publicKey: ada.key.publicKey,
      serverCommitments: null,
      serverSignatureShare: null,
      expiresAt: expect.stringMatching(/Z$/),
    })
    expect(remaining.spend[0]?.remaining).toBe('7')
    const text = Buffer.from(signingRequest.preparedTransaction, 'base64').toString()
    const document = JSON.parse(text)
    expect(canonicalJson(document)).toBe(text)
    expect(Object.keys(document)).toEqual(Object.keys(document).sort())
    expect(document).toMatchObject({
      version: 'halfkey/transaction/v1',
      tenantId: tenant.tenantId,
      actAs: ada.party,
      commands: [command],
      effects,
      expiresAt: signingRequest.expiresAt,
    })
    expect(document.commandId).toContain(session.id)
    expect(document.seed).toMatch(/^[0-9a-f]{64}$/)
    // The ids of what it creates follow from its seed and their contents.
    const created = document.effects.filter(({ type }: { type: string }) => type === 'created')
    const derived = created.map(
      ({ templateId, arguments: contract }: { templateId: string; arguments: object }, index: number) => {
        const { seed, tenantId } = document
        const committed = { arguments: contract, definition: 'built-in/1', index, seed, templateId, tenantId }
        return `01${createHash('sha256').update('halfkey/contract-id/v2\0').update(canonicalJson(committed)).digest('hex')}`
      },
    )
    expect(created.map(({ contractId }: { contractId: string }) => contractId)).toEqual(derived)
  })

  test('is the same when asked for again, and has moved nothing yet', async () => {
    const { tenant, session, holding } = await begun()
    const body = { commandId: 'a', commands: [transfer(holding, '3')] }
    const answers = await Promise.all(Array.from({ length: 20 }, () => session.execute(body)))
    for (const one of answers) expect([one.status, one.text]).toEqual([200, answers[0]?.text])
    expect((await holdingsOf(session)).map(({ amount }) => amount)).toEqual(['100'])
    for (const type of ['tx.submitted', 'tx.completed', 'tx.failed'])
      expect(await eventsOf(service, tenant, type)).toEqual([])
    expect((await tenant.get('/transactions')).body).toMatchObject({
      total: 1,
      data: [{ status: 'signature_required' }],
    })
  })

  test('is nothing that the policy denies: no digest of it is ever shown', async () => {
    const { session, holding } = await begun()
    const over = await session.execute({ commands: [transfer(holding, '11')] })
    expectError(over, 403, 'spend_limit_exceeded')
    expect(over.text).not.toContain('digest')
    expectError(await session.execute({ commands: [create('Other:Thing', {})] }), 403, 'policy_denied')
    const dry = await session.execute({ dryRun: true, commands: [transfer(holding, '1')] })
    expect(expectStatus(dry, 200)).toMatchObject({ status: 'dry_run', signingRequest: null })
    expect(dry.text).not.toContain('preparedTransaction')
  })
})

describe('the signature', () => {
  test('completes the transaction, with its events, and the ledger keeps it', async () => {
    const { tenant, ada, session, holding } = await begun()
    const request = await asked(session, { commandId: 'a', commands: [transfer(holding, '3')] })
    const signature = signatureOf(ada, request)
    const done = expectStatus(await answer(session, request, signature), 200)
    expect(done).toMatchObject({
      transactionId: request.transactionId,
      commandId: 'a',
      status: 'completed',
      signingRequest: null,
      effects: request.effects,
      remaining: request.remaining,
    })
    expect((await holdingsOf(session)).map(({ amount }) => amount)).toEqual(['97'])
    expect(await eventsOf(service, tenant, 'tx.submitted')).toHaveLength(1)
    expect(await eventsOf(service, tenant, 'tx.completed')).toMatchObject([
      { transactionId: request.transactionId, updateId: done.updateId, offset: done.offset, partyId: ada.party },
    ])
    const [row] = await service.sql<{ prepared: Buffer; signatures: { publicKey: string; signature: string }[] }>(
      'select prepared, signatures from ledger_updates where tenant_id = $1 and act_as = $2',
      [tenant.tenantId, ada.party],
    )
    const [kept] = row?.signatures ?? []
    const x = Buffer.from(kept?.publicKey ?? '', 'hex').toString('base64url')
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
    const digest = digestOf((row?.prepared ?? Buffer.alloc(0)).toString('base64'))
    expect(verify(null, digest, key, Buffer.from(kept?.signature ?? '', 'hex'))).toBe(true)
    expect(kept?.publicKey).toBe(ada.key.publicKey)
  })

  test('may come in base64, with or without padding, and again: the answer stays the same', async () => {
    const { tenant, ada, session, holding } = await begun()
    const request = await asked(session, { commandId: 'a', commands: [transfer(holding, '3')] })
    const bytes = Buffer.from(signatureOf(ada, request), 'hex')
    const first = await answer(session, request, bytes.toString('base64'))
    expectStatus(first, 200)
    for (const form of ['hex', 'base64', 'base64url'] as const)
      expect((await answer(session, request, bytes.toString(form))).text).toBe(first.text)
    const repeat = await session.execute({ commandId: 'a', commands: [transfer(holding, '3')] })
    expect(repeat.text).toBe(first.text)
    expect(await eventsOf(service, tenant, 'tx.completed')).toHaveLength(1)
  })

  test('twenty times at once completes once', async () => {
    const { tenant, ada, session, holding } = await begun('10', { maxUses: 1 })
    const request = await asked(session, { commands: [transfer(holding, '3')] })
    const signature = signatureOf(ada, request)
    const answers = await Promise.all(Array.from({ length: 20 }, () => answer(session, request, signature)))
    for (const one of answers) expect([one.status, one.text]).toEqual([200, answers[0]?.text])
    for (const type of ['tx.submitted', 'tx.completed', 'delegated_session.exhausted'])
      expect(await eventsOf(service, tenant, type)).toHaveLength(1)
  })

  test('that is forged, cut, of another key, over something else, is refused, and the right one still counts', async () => {
    const { tenant, ada, session, holding } = await begun()
    const request = await asked(session, { commands: [transfer(holding, '3')] })
    const other = await asked(session, { commands: [create('Note:Note', { author: ada.party, text: 'x' })] })
    const digest = digestOf(request.signingRequest.preparedTransaction)
    const right = ada.sign(digest)
    const flipped = (at: number) => `${right.slice(0, at)}${right[at] === '0' ? '1' : '0'}${right.slice(at + 1)}`
    const bytes = Buffer.from(request.signingRequest.preparedTransaction, 'base64')
    const forged = [
      flipped(0),
      flipped(64),
      flipped(127),
      '0'.repeat(128),
      'f'.repeat(128),
      newWalletKey().sign(digest).toString('hex'),
      ada.sign(digestOf(other.signingRequest.preparedTransaction)),
      ada.sign(bytes),
      ada.sign(createHash('sha256').update(bytes).digest()),
      ada.key.sign(digest.toString('hex')).toString('hex'),
      right.slice(64) + right.slice(0, 64),
    ]
    for (const signature of forged) {
      const refused = await answer(session, request, signature)
      expectError(refused, 400, 'signature_invalid')
      expect(refused.body.details[0].field).toBe('signature')
    }
    for (const cut of [right.slice(2), `${right}00`, '', right.toUpperCase()])
      expectError(await answer(session, request, cut), 400, 'validation_failed')
    expect((await tenant.get(`/transactions/${request.transactionId}`)).body.data.status).toBe('signature_required')
    expect((await holdingsOf(session)).map(({ contractId }) => contractId)).toEqual([holding])
    expect(await eventsOf(service, tenant, 'tx.failed')).toEqual([])
    expectStatus(await answer(session, request, right), 200)
  })

  test('is not malleable: the same with S + L is refused', async () => {
    const { ada, session, holding } = await begun()
    const request = await asked(session, { commands: [transfer(holding, '3')] })
    const bytes = Buffer.from(signatureOf(ada, request), 'hex')
    const order = 2n ** 252n + 27742317777372353535851937790883648493n
    const s = BigInt(`0x${Buffer.from(bytes.subarray(32)).reverse().toString('hex')}`) + order
    const high = Buffer.from(s.toString(16).padStart(64, '0'), 'hex').reverse()
    const other = Buffer.concat([bytes.subarray(0, 32), high]).toString('hex')
    expectError(await answer(session, request, other), 400, 'signature_invalid')
  })

  test("for another session's request, an unknown one, or none is a 404 that names the field", async () => {
    const { tenant, ada, session, holding } = await begun()
    const request = await asked(session, { commands: [transfer(holding, '3')] })
    const signature = signatureOf(ada, request)
    const other = await ownSession(service, ada, { policy: everything() })
    const eve = await newHolder(tenant)
    const theirs = await newSession(service, tenant, eve, { policy: everything() })
    for (const [by, id] of [
      [other, request.signingRequest.id],
      [theirs, request.signingRequest.id],
      [session, 'tx_01jb2m7x9kq4t8v6w0r3s5y1zn'],
      [session, session.id],
      [session, ''],
    ] as const) {
      const refused = await by.execute({ signingRequestId: id, signature })
      expectError(refused, 404, 'not_found', id)
      expect(refused.body.details[0].field).toBe('signingRequestId')
    }
    expectStatus(await answer(session, request, signature), 200)
  })

  test('is asked of repeats, too: a wrong one is not told that it completed', async () => {
    const { ada, session, holding } = await begun()
    const request = await asked(session, { commands: [transfer(holding, '3')] })
    const other = await asked(session, { commands: [transfer(holding, '2')] })
    const signature = signatureOf(ada, request)
    const done = expectStatus(await answer(session, request, signature), 200)
    for (const wrong of ['0'.repeat(128), signatureOf(ada, other)])
      expectError(await answer(session, request, wrong), 400, 'signature_invalid')
    expect(expectStatus(await answer(session, request, signature), 200).updateId).toBe(done.updateId)
  })

  test('has nothing to complete where a server signs', async () => {
    const { tenant } = await begun()
    const eve = await newHolder(tenant)
    const theirs = await newSession(service, tenant, eve, { policy: everything() })
    const done = expectStatus(
      await theirs.execute({ commands: [create('Note:Note', { author: eve.party, text: 'x' })] }),
      200,
    )
    const again = await theirs.execute({ signingRequestId: done.transactionId, signature: '0'.repeat(128) })
    expectError(again, 400, 'signature_invalid')
  })
})

describe('until it is signed', () => {
  test('what it spends and its use are taken', async () => {
    const { tenant, ada, session, holding } = await begun('10', { maxUses: 2 })
    const second = await ada.receive('50')
    const request = await asked(session, { commands: [transfer(holding, '8')] })
    expectError(await session.execute({ commands: [transfer(second, '3')] }), 403, 'spend_limit_exceeded')
    await asked(session, { commands: [transfer(second, '2')] })
    expectError(
      await session.execute({ commands: [create('Note:Note', { author: ada.party, text: 'x' })] }),
      409,
      'uses_in_flight',
    )
    expect((await tenant.get(`/delegated-sessions/${session.id}`)).body.data).toMatchObject({
      status: 'active',
      uses: 2,
    })
    expectStatus(await answer(session, request, signatureOf(ada, request)), 200)
    expect((await tenant.get(`/delegated-sessions/${session.id}`)).body.data).toMatchObject({
      status: 'active',
      uses: 2,
    })
  })

  test('a hundred that ask at once take no more than the cap', async () => {
    const { tenant, ada, session } = await begun('10')
    const holdings = await Promise.all(Array.from({ length: 100 }, () => ada.receive('1')))
    const answers = await Promise.all(holdings.map((id) => session.execute({ commands: [transfer(id)] })))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10)
    for (const one of answers) if (one.status !== 200) expectError(one, 403, 'spend_limit_exceeded')
    expect((await tenant.get('/transactions?status=signature_required')).body.total).toBe(10)
  })

  test('time can run out: 410, and nothing moves', async () => {
    const { ada, session, holding } = await begun('10', { expiresInSeconds: 86_400 })
    const request = await asked(session, { commands: [transfer(holding, '3')] })
    const signature = signatureOf(ada, request)
    service.advance(Date.parse(request.signingRequest.expiresAt) - service.deps.now().getTime() + 1)
    expectError(await answer(session, request, signature), 410, 'prepared_expired')
    expectError(await answer(session, request, signature), 410, 'prepared_expired')
    expect((await holdingsOf(session)).map(({ contractId }) => contractId)).toEqual([holding])
  })

  test('what it needs can be used up elsewhere: 409, tx.failed, and what it had taken is free again', async () => {
    const { tenant, ada, session, holding } = await begun('10', { maxUses: 1 })
    const other = await ownSession(service, ada, {
      policy: everything([{ asset: { issuer: ada.issuer, symbol: 'USDX' }, amount: '100' }]),
    })
    const body = { commandId: 'a', commands: [transfer(holding, '8')] }
    const request = await asked(session, body)
    const theirs = await asked(other, { commands: [transfer(holding, '1')] })
    expectStatus(await answer(other, theirs, signatureOf(ada, theirs)), 200)
    const signature = signatureOf(ada, request)
    const failed = await answer(session, request, signature)
    expectError(failed, 409, 'contract_archived')
    expect((await answer(session, request, signature)).text).toBe(failed.text)
    expect((await session.execute(body)).text).toBe(failed.text)
    const [event, ...more] = await eventsOf(service, tenant, 'tx.failed')
    expect(more).toEqual([])
    expect(event).toEqual({
      transactionId: request.transactionId,
      commandId: 'a',
      userId: ada.userId,
      walletId: ada.walletId,
      partyId: ada.party,
      delegatedSessionId: session.id,
      ledger: 'embedded',
      code: 'contract_archived',
      error: expect.stringMatching(/\S/),
    })
    expect((await tenant.get(`/transactions/${request.transactionId}`)).body.data).toMatchObject({
      status: 'failed',
      effects: [],
      error: { code: 'contract_archived' },
      completedAt: null,
    })
    expect((await tenant.get(`/delegated-sessions/${session.id}`)).body.data).toMatchObject({
      status: 'active',
      uses: 0,
    })
    const [rest] = await holdingsOf(session)
    const again = await asked(session, { commands: [transfer(rest?.contractId as string, '10')] })
    expectStatus(await answer(session, again, signatureOf(ada, again)), 200)
    expect(await eventsOf(service, tenant, 'delegated_session.exhausted')).toHaveLength(1)
  })

  test.each([
    ['revoked', 410, 'delegated_session_revoked'],
    ['frozen', 409, 'wallet_frozen'],
    ['suspended', 403, 'user_suspended'],
  ] as const)(
    'it can be %s in between: the signature comes too late, and nothing moves',
    async (what, status, code) => {
      const { tenant, ada, session, holding } = await begun()
      const request = await asked(session, { commands: [transfer(holding, '3')] })
      if (what === 'revoked')
        expect(expectStatus(await tenant.delete(`/delegated-sessions/${session.id}`), 200).inFlight).toEqual([])
      else if (what === 'frozen') await tenant.post(`/wallets/${ada.walletId}/freeze`)
      else await tenant.patch(`/users/${ada.userId}`, { status: 'suspended' })
      const late = await Promise.all(
        Array.from({ length: 5 }, () => answer(session, request, signatureOf(ada, request))),
      )
      for (const one of late) expectError(one, status, code)
      expect(await eventsOf(service, tenant, 'tx.completed')).toEqual([])
      const [row] = await service.sql<{ archived_offset: number | null }>(
        'select archived_offset from ledger_contracts where contract_id = $1',
        [holding],
      )
      expect(row?.archived_offset).toBeNull()
    },
  )

  test('it can come to the end of its session’s time, which is an end for it too', async () => {
    const { ada, session, holding } = await begun('10', { expiresInSeconds: 60 })
    const request = await asked(session, { commands: [transfer(holding, '3')] })
    service.advance(60_001)
    expectError(await answer(session, request, signatureOf(ada, request)), 410, 'delegated_session_expired')
  })
})
