import { createPublicKey, verify } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { dump, eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import { newSharedWallet, type SplitWallet, spellingsOf } from '../../keys/key-shares/key-shares.fixture.ts'
import * as keys from '../../platform/security/threshold/threshold.ts'
import {
  digestOf,
  everything,
  expectStatus,
  holdingsOf,
  newHolder,
  newSession,
  ownSession,
  type Session,
  sessionOf,
  transfer,
  unlimited,
} from '../delegated.fixture.ts'

let service: Service
const failpoint: { at: ((step: string) => Promise<void>) | null } = { at: null }
beforeAll(async () => {
  service = await startService({}, { failpoint: async (step) => failpoint.at?.(step) })
})
afterAll(() => service.stop())

const kekFile = () => service.deps.config.kekFile as string
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

/** A signer's side of one signature. */
function signer(of: SplitWallet, index = 2) {
  const share = of.share(index)
  const { nonces, commitments } = keys.commitNonces(share)
  const wire = { index, hiding: hex(commitments.hiding), binding: hex(commitments.binding) }
  return {
    wire,
    /** The whole signature, hex, over a digest. */
    sign(signingRequest: Asked['signingRequest'], digest = digestOf(signingRequest.preparedTransaction)): string {
      const { serverCommitments: theirs, serverSignatureShare: value } = signingRequest
      const signing = {
        sharing: of.sharing,
        commitments: [
          {
            index: theirs.index,
            hiding: Buffer.from(theirs.hiding, 'hex'),
            binding: Buffer.from(theirs.binding, 'hex'),
          },
          commitments,
        ],
        message: digest,
      }
      const mine = keys.signShare(signing, share, nonces)
      return hex(keys.aggregate(signing, [{ index: 1, value: Buffer.from(value, 'hex') }, mine]))
    },
  }
}

interface Asked {
  transactionId: string
  status: string
  signingRequest: {
    id: string
    preparedTransaction: string
    publicKey: string
    serverCommitments: { index: number; hiding: string; binding: string }
    serverSignatureShare: string
    expiresAt: string
  }
  remaining: { spend: { remaining: string }[] }
}

async function begun(amount = '10', more: object = {}) {
  const tenant = await service.newTenant()
  const split = await newSharedWallet(service, tenant)
  const { userId } = split.person
  const dripped = expectStatus(await tenant.post('/dev/faucet', { userId, symbol: 'USDX', amount: '100' }), 201)
  const spend = [{ asset: { issuer: dripped.issuer, symbol: 'USDX' }, amount }]
  const session = await ownSession(service, split, { policy: everything(spend), ...more })
  return { tenant, split, session, holding: dripped.contractId as string }
}

const ask = async (session: Session, body: object): Promise<Asked> => {
  const data = expectStatus(await session.execute(body), 200)
  expect(data.status).toBe('signature_required')
  return data
}

const complete = (session: Session, { signingRequest }: Asked, signature: string) =>
  session.execute({ signingRequestId: signingRequest.id, signature })

/** What a session's calls leave behind, apart from what is told of denials. */
const traceOf = async (session: Session): Promise<string> =>
  JSON.stringify([
    await service.sql('select uses, spent::text, version from delegated_sessions where id = $1', [session.id]),
    await service.sql('select * from transactions where delegated_session_id = $1', [session.id]),
  ])

describe('a co-signed transaction', () => {
  test('moves tokens by a signature that node:crypto takes for plain Ed25519 of the wallet’s key', async () => {
    const { tenant, split, session, holding } = await begun()
    const mine = signer(split)
    const asked = await ask(session, { commandId: 'a', commands: [transfer(holding, '3')], commitments: mine.wire })
    expect(asked.signingRequest).toMatchObject({
      publicKey: hex(split.publicKey),
      serverCommitments: { index: 1 },
      serverSignatureShare: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
    expect(asked.remaining.spend[0]?.remaining).toBe('7')
    const signature = mine.sign(asked.signingRequest)
    const key = { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(split.publicKey).toString('base64url') }
    const digest = digestOf(asked.signingRequest.preparedTransaction)
    const publicKey = createPublicKey({ key, format: 'jwk' })
    expect(verify(null, digest, publicKey, Buffer.from(signature, 'hex'))).toBe(true)
    const done = expectStatus(await complete(session, asked, signature), 200)
    expect(done).toMatchObject({ status: 'completed', signingRequest: null })
    expect((await holdingsOf(session)).map(({ amount }) => amount)).toEqual(['97'])
    expect(await eventsOf(service, tenant, 'tx.completed')).toHaveLength(1)
    // Asked for again, it is what happened; nothing is signed a second time.
    const again = expectStatus(
      await session.execute({ commandId: 'a', commands: [transfer(holding, '3')], commitments: mine.wire }),
      200,
    )
    expect(again).toMatchObject({ status: 'completed', transactionId: asked.transactionId })
  })

  test('is signed with the recovery share as well', async () => {
    const { split, session, holding } = await begun()
    const mine = signer(split, 3)
    const asked = await ask(session, { commands: [transfer(holding, '3')], commitments: mine.wire })
    expectStatus(await complete(session, asked, mine.sign(asked.signingRequest)), 200)
  })

  test('reserves what it spends before the service signs, and over the cap the service does not', async () => {
    const { split, session, holding } = await begun('10')
    const [one, two] = [signer(split), signer(split)]
    await ask(session, { commands: [transfer(holding, '8')], commitments: one.wire })
    const over = await session.execute({ commands: [transfer(holding, '3')], commitments: two.wire })
    expectError(over, 403, 'spend_limit_exceeded')
    expect(over.text).not.toContain('serverSignatureShare')
  })
})

describe('the service’s part of a signature', () => {
  test('is made once for a transaction: a repeat answers the same bytes, other commitments are a conflict', async () => {
    const { split, session, holding } = await begun()
    const [one, two] = [signer(split), signer(split)]
    const body = { commandId: 'a', commands: [transfer(holding, '3')] }
    const first = await session.execute({ ...body, commitments: one.wire })
    expectStatus(first, 200)
    expect((await session.execute({ ...body, commitments: one.wire })).text).toBe(first.text)
    expectError(await session.execute({ ...body, commitments: two.wire }), 409, 'duplicate_command', 'commitments')
    expectError(await session.execute(body), 409, 'duplicate_command', 'commitments')
  })

  test('is one and the same for twenty calls at once, whatever commitments they come with', async () => {
    const { split, session, holding } = await begun()
    const signers = Array.from({ length: 20 }, () => signer(split))
    const body = { commandId: 'a', commands: [transfer(holding, '3')] }
    const answers = await Promise.all(signers.map(({ wire }) => session.execute({ ...body, commitments: wire })))
    const made = answers.filter(({ status }) => status === 200)
    expect(made).toHaveLength(1)
    for (const answer of answers) if (answer !== made[0]) expectError(answer, 409, 'duplicate_command', 'commitments')
  })

  test('never comes twice out of one nonce, in whichever way the same is asked for', async () => {
    const { split, session, holding } = await begun('100')
    const { wire } = signer(split)
    const seen = new Set<string>()
    for (const commandId of ['a', 'b', 'c', 'd']) {
      const { signingRequest } = await ask(session, {
        commandId,
        commands: [transfer(holding, '3')],
        commitments: wire,
      })
      const { hiding, binding } = signingRequest.serverCommitments
      for (const point of [hiding, binding]) {
        expect(seen).not.toContain(point)
        seen.add(point)
      }
    }
  })

  test('is thrown away with its nonces where the transaction is not stored, as in a crash, and made anew', async () => {
    const { split, session, holding } = await begun()
    const { wire } = signer(split)
    const body = { commandId: 'a', commands: [transfer(holding, '3')], commitments: wire }
    const before = await traceOf(session)
    failpoint.at = async (step) => {
      if (step === 'cosigned') throw new Error('the process died here')
    }
    try {
      expectError(await session.execute(body), 500, 'internal_error')
    } finally {
      failpoint.at = null
    }
    expect(await traceOf(session)).toBe(before)
    const asked = await ask(session, body)
    expect(asked.remaining.spend[0]?.remaining).toBe('7')
  })

  test('does not leave where the share is destroyed while it is made', async () => {
    const { split, session, holding } = await begun()
    failpoint.at = async (step) => {
      if (step !== 'cosigned') return
      failpoint.at = null
      expectStatus(await split.person.delete(`/mpc/shares/${split.walletId}`), 200)
    }
    const answer = await session.execute({ commands: [transfer(holding, '3')], commitments: signer(split).wire })
    expect(failpoint.at).toBeNull()
    expectError(answer, 409, 'share_missing')
  })

  test('is made from other nonces after a restart, and where a restored backup knows of none', async () => {
    const { tenant, split, session, holding } = await begun()
    const { wire } = signer(split)
    const body = { commandId: 'a', commands: [transfer(holding, '3')], commitments: wire }
    const first = await ask(session, body)
    // Another process on the same database answers what was stored.
    const other = await startService({ DATABASE_URL: service.databaseUrl, HALFKEY_KEK_FILE: kekFile() })
    const there = sessionOf(other.url, session.by.key as string, session)
    try {
      expect((await ask(there, body)).signingRequest).toEqual(first.signingRequest)
      // A backup from before it was asked for: the part that was answered is forgotten, the delegate's commitments are not.
      await service.sql('delete from transactions where delegated_session_id = $1', [session.id])
      await service.sql(`update delegated_sessions set uses = 0, spent = '{}', version = 0 where id = $1`, [session.id])
      await service.recode(tenant.tenantId)
      await other.recode(tenant.tenantId)
      const again = await ask(there, body)
      const [one, two] = [first, again].map(({ signingRequest }) => signingRequest)
      expect(two?.serverCommitments.hiding).not.toBe(one?.serverCommitments.hiding)
      expect(two?.serverCommitments.binding).not.toBe(one?.serverCommitments.binding)
    } finally {
      await other.stop()
    }
  })

  test('leaves no share and no nonce in the database or the logs', async () => {
    const { split, session, holding } = await begun()
    const mine = signer(split)
    const asked = await ask(session, { commands: [transfer(holding, '3')], commitments: mine.wire })
    const everythingStored = await dump(service)
    for (const { scalar } of split.shares)
      for (const spelling of spellingsOf(scalar)) {
        expect(everythingStored).not.toContain(spelling)
        expect(service.logs()).not.toContain(spelling)
      }
    expect(asked.signingRequest.serverSignatureShare).not.toBe(hex(split.share(1).scalar))
  })
})

describe('refused', () => {
  test('without commitments, and with such that are none', async () => {
    const { split, session, holding } = await begun()
    const commands = [transfer(holding, '3')]
    const before = await traceOf(session)
    expectError(await session.execute({ commands }), 400, 'validation_failed', 'commitments')
    const { wire } = signer(split)
    const wrong: [object, string][] = [
      [{ ...wire, hiding: '00'.repeat(32) }, 'commitments'],
      // The identity, a point of order 8, one that is not canonical, one that is on no curve.
      [{ ...wire, hiding: `01${'00'.repeat(31)}` }, 'commitments'],
      [{ ...wire, binding: 'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a' }, 'commitments'],
      [{ ...wire, binding: `ee${'ff'.repeat(30)}7f` }, 'commitments'],
      [{ ...wire, binding: `02${'00'.repeat(31)}` }, 'commitments'],
      [{ ...wire, index: 1 }, 'commitments.index'],
      [{ ...wire, index: 4 }, 'commitments'],
      [{ ...wire, index: 0 }, 'commitments.index'],
      [{ ...wire, hiding: wire.hiding.slice(2) }, 'commitments.hiding'],
    ]
    for (const [commitments, field] of wrong) {
      const answer = await session.execute({ commands, commitments })
      expect([answer.status, answer.body.details[0].field], JSON.stringify(commitments)).toEqual([400, field])
    }
    expect(await traceOf(session)).toBe(before)
  })

  test('commitments for a wallet whose key is not shared', async () => {
    const { split } = await begun()
    const tenant = await service.newTenant()
    const holder = await newHolder(tenant)
    const session = await newSession(service, tenant, holder, { policy: everything() })
    const answer = await session.execute({
      commands: [transfer(`00${'0'.repeat(64)}`)],
      commitments: signer(split).wire,
    })
    expectError(answer, 400, 'validation_failed', 'commitments')
  })

  test('a session that a server would execute by itself', async () => {
    const { split } = await begun()
    const body = { policy: everything(), serverExecute: true }
    expectError(await split.person.post('/delegated-sessions', body), 409, 'custody_not_delegable')
    const asServer = { headers: { 'x-user-id': split.person.userId } }
    expectError(
      await split.tenant.post('/delegated-sessions', { policy: everything() }, asServer),
      403,
      'user_session_required',
    )
  })

  test('a revoked session, a frozen wallet: nothing is signed, and what was asked for before is not completed', async () => {
    for (const end of ['revoke', 'freeze'] as const) {
      const { tenant, split, session, holding } = await begun()
      const [one, two] = [signer(split), signer(split)]
      const asked = await ask(session, { commands: [transfer(holding, '3')], commitments: one.wire })
      const signature = one.sign(asked.signingRequest)
      if (end === 'revoke') expectStatus(await tenant.delete(`/delegated-sessions/${session.id}`), 200)
      else expectStatus(await tenant.post(`/wallets/${split.walletId}/freeze`), 200)
      const [status, code] = end === 'revoke' ? [410, 'delegated_session_revoked'] : [409, 'wallet_frozen']
      const more = await session.execute({ commands: [transfer(holding, '1')], commitments: two.wire })
      expectError(more, status as number, code as string)
      expectError(await complete(session, asked, signature), status as number, code as string)
    }
  })

  test('a wrong signature changes nothing; the tenth ends the session, and the wallet is as it was', async () => {
    const { tenant, split, session, holding } = await begun()
    const { issuer } = (await holdingsOf(session))[0] as unknown as { issuer: string }
    const other = await ownSession(service, split, { policy: everything([unlimited(issuer)]) })
    const mine = signer(split)
    const asked = await ask(session, { commands: [transfer(holding, '3')], commitments: mine.wire })
    const signature = mine.sign(asked.signingRequest)
    // The service's part alone, a flipped bit, a signature by the device share alone.
    const { serverCommitments, serverSignatureShare } = asked.signingRequest
    const digest = digestOf(asked.signingRequest.preparedTransaction)
    const wrong = [
      serverCommitments.hiding + serverSignatureShare,
      signature.replace(/^./, (digit) => (digit === '0' ? '1' : '0')),
      hex(keys.signWithScalar(digest, split.share(2).scalar)),
    ]
    for (let n = 0; n < 9; n += 1)
      expectError(await complete(session, asked, wrong[n % 3] as string), 400, 'signature_invalid', 'signature')
    expect((await tenant.get(`/delegated-sessions/${session.id}`)).body.data.status).toBe('active')
    expectError(await complete(session, asked, wrong[0] as string), 400, 'signature_invalid', 'signature')
    expectError(await complete(session, asked, signature), 410, 'delegated_session_revoked')
    expect(await eventsOf(service, tenant, 'delegated_session.revoked')).toHaveLength(1)
    expect((await tenant.get(`/wallets/${split.walletId}`)).body.data.status).toBe('ready')
    const next = signer(split)
    await ask(other, { commands: [transfer(holding)], commitments: next.wire })
  })

  test('a wallet whose user has not shown to hold share 2', async () => {
    const tenant = await service.newTenant()
    const split = await newSharedWallet(service, tenant, { proofs: [] })
    expect(split.wallet.status).toBe('pending')
    const session = await ownSession(service, split, { policy: everything() })
    const answer = await session.execute({
      commands: [transfer(`00${'0'.repeat(64)}`)],
      commitments: signer(split).wire,
    })
    expectError(answer, 409, 'wallet_not_ready')
  })

  test('a wallet whose service share was deleted', async () => {
    const { split, session, holding } = await begun()
    expectStatus(await split.person.delete(`/mpc/shares/${split.walletId}`), 200)
    const answer = await session.execute({ commands: [transfer(holding, '3')], commitments: signer(split).wire })
    expectError(answer, 409, 'share_missing')
  })
})

// Last, for it moves the clock: what the others left open is released by then.
describe('an open signing request', () => {
  test('that is not completed counts as spent for two minutes, then it can never happen', async () => {
    const { split, session, holding } = await begun('10')
    const mine = signer(split)
    const asked = await ask(session, { commands: [transfer(holding, '8')], commitments: mine.wire })
    const signature = mine.sign(asked.signingRequest)
    service.advance(121_000)
    expectError(await complete(session, asked, signature), 410, 'prepared_expired')
    const other = signer(split)
    await ask(session, { commands: [transfer(holding, '8')], commitments: other.wire })
  })
})
