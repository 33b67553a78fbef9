import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  BOB,
  create,
  digestOf,
  everything,
  expectStatus,
  type Holder,
  newHolder,
  newKeyHolder,
  newSession,
  ownSession,
  type Session,
  transfer,
  transfers,
} from '../../src/delegation/delegated.fixture.ts'
import { dump, eventsOf, signInAs } from '../../src/identity/sessions/sessions.fixture.ts'
import { newRecipient, newSharedWallet, type SplitWallet } from '../../src/keys/key-shares/key-shares.fixture.ts'
import { releaseBody } from '../../src/keys/recovery/recovery.fixture.ts'
import { newApiKey, newDelegateToken } from '../../src/platform/security/api-key.ts'
import { seal, unwrapKey } from '../../src/platform/security/crypto.ts'
import * as keys from '../../src/platform/security/threshold/threshold.ts'
import { loginOptions, loginVerify, newAuthenticator, signUp } from '../harness/authenticator.ts'
import { newLink, postSession } from '../harness/dashboard-page.ts'
import { expectError } from '../harness/envelope.ts'
import { type Answer, call, eventually, type Service, startService, type Tenant } from '../harness/harness.ts'

// An attacker with write access to the database, accounts of their own and no key-encryption key.

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const sha256 = (text: string) => createHash('sha256').update(text).digest()

/** Refused as tampered with, without a word about what; reported to the tenant. */
async function expectTampered(tenant: Tenant, answer: Answer, record: string, id?: string): Promise<void> {
  expectError(answer, 500, 'record_tampered')
  expect(answer.text).not.toMatch(/(ten|dse|wal|key|pky|shr|tx|usr)_[0-9a-z]{26}/)
  const reported = await eventually('record.tampered', async () => {
    const events = await eventsOf(service, tenant, 'record.tampered')
    return events.find((event) => event.record === record && (id === undefined || event.recordId === id))
  })
  expect(reported.recordId).toMatch(/\S/)
}

interface Stage {
  tenant: Tenant
  holder: Holder
  session: Session
  /** A holding of 1000. */
  holding: string
}

/** A session with a cap of 1. */
async function begun(): Promise<Stage> {
  const tenant = await service.newTenant()
  const holder = await newHolder(tenant)
  const holding = await holder.receive('1000')
  const session = await newSession(service, tenant, holder, { policy: transfers(holder, '1') })
  return { tenant, holder, session, holding }
}

const take = ({ session, holding }: Pick<Stage, 'session' | 'holding'>, amount: string) =>
  session.execute({ commands: [transfer(holding, amount)] })

/** How much of the holder's tokens moved to somebody else. */
async function movedBy({ tenant, holder }: Stage): Promise<number> {
  const rows = await service.sql<{ amount: string }>(
    `select arguments ->> 'amount' as amount from ledger_contracts
     where tenant_id = $1 and archived_offset is null and arguments ->> 'owner' = $2`,
    [tenant.tenantId, holder.party],
  )
  return 1000 - rows.reduce((sum, { amount }) => sum + Number(amount), 0)
}

const policyOf = (holder: Holder, cap: string) => JSON.stringify(transfers(holder, cap))

describe('a delegated session', () => {
  const attacks: Record<string, (stage: Stage) => Promise<unknown>> = {
    'with a raised cap': ({ session, holder }) =>
      service.sql('update delegated_sessions set policy = $2 where id = $1', [session.id, policyOf(holder, '500')]),
    'with its spending taken back': async (stage) => {
      expectStatus(await take(stage, '1'), 200)
      const [left] = await service.sql<{ id: string }>(
        `select contract_id as id from ledger_contracts where archived_offset is null and arguments ->> 'owner' = $1`,
        [stage.holder.party],
      )
      stage.holding = left?.id as string
      await service.sql(`update delegated_sessions set spent = '{}' where id = $1`, [stage.session.id])
    },
    'whose end was put off': ({ session }) =>
      service.sql(`update delegated_sessions set expires_at = expires_at + interval '1 day' where id = $1`, [
        session.id,
      ]),
    'that a server alone may use now': ({ session }) =>
      service.sql('update delegated_sessions set server_execute = not server_execute where id = $1', [session.id]),
    'of another user': ({ session }) =>
      service
        .sql(`update delegated_sessions set app_id = 'app_01jb2m7x9kq4t8v6w0r3s5y1zb' where id = $1`, [session.id])
        .then(() =>
          service.sql(
            'update delegated_sessions s set app_id = w.app_id, max_uses = 99 from wallets w where w.id = s.wallet_id and s.id = $1',
            [session.id],
          ),
        ),
    'without its MAC': ({ session }) =>
      service.sql('update delegated_sessions set mac = null where id = $1', [session.id]),
    'with a MAC of zeros': ({ session }) =>
      service.sql('update delegated_sessions set mac = $2 where id = $1', [session.id, Buffer.alloc(33)]),
    'with the next version': ({ session }) =>
      service.sql('update delegated_sessions set version = version + 1 where id = $1', [session.id]),
    'with the end of time': ({ session }) =>
      service.sql(`update delegated_sessions set expires_at = 'infinity' where id = $1`, [session.id]),
    'with policy and MAC of another tenant': async ({ session }) => {
      const other = await begun()
      await service.sql(
        `update delegated_sessions s set policy = o.policy, token_hash = s.token_hash, mac = o.mac, version = o.version
         from delegated_sessions o where s.id = $1 and o.id = $2`,
        [session.id, other.session.id],
      )
    },
    'with policy and MAC of another one of its wallet': async ({ tenant, holder, session }) => {
      const wide = await newSession(service, tenant, holder, { policy: transfers(holder, '500') })
      await service.sql(
        `update delegated_sessions s set policy = o.policy, spent = o.spent, expires_at = o.expires_at, mac = o.mac
         from delegated_sessions o where s.id = $1 and o.id = $2`,
        [session.id, wide.id],
      )
    },
  }
  test.for(Object.keys(attacks))('%s moves nothing', async (name) => {
    const stage = await begun()
    await attacks[name]?.(stage)
    const before = await movedBy(stage)
    await expectTampered(stage.tenant, await take(stage, '1'), 'delegated_session', stage.session.id)
    await expectTampered(
      stage.tenant,
      await stage.tenant.get(`/delegated-sessions/${stage.session.id}`),
      'delegated_session',
    )
    await expectTampered(stage.tenant, await stage.tenant.get('/delegated-sessions'), 'delegated_session')
    expect(await movedBy(stage)).toBe(before)
  })

  test('with the token hash of somebody else’s token does nothing for them', async () => {
    const stage = await begun()
    const { token, hash } = newDelegateToken()
    await service.sql('update delegated_sessions set token_hash = $2, policy = $3 where id = $1', [
      stage.session.id,
      hash,
      policyOf(stage.holder, '500'),
    ])
    const body = { commands: [transfer(stage.holding, '500')] }
    const path = `/v1/delegated-sessions/${stage.session.id}/execute`
    const headers = { authorization: `Bearer ${token}` }
    const answer = await call(service.url, 'POST', path, { key: stage.session.by.key as string, headers, body })
    await expectTampered(stage.tenant, answer, 'delegated_session', stage.session.id)
    expect(await movedBy(stage)).toBe(0)
  })

  test('that the attacker inserted does nothing', async () => {
    const stage = await begun()
    const { token, hash } = newDelegateToken()
    await service.sql(
      `insert into delegated_sessions (tenant_id, id, app_id, user_id, wallet_id, token_hash, policy, server_execute, expires_at,
         created_at, updated_at, mac)
       select tenant_id, 'dse_01jb2m7x9kq4t8v6w0r3s5y1zg', app_id, user_id, wallet_id, $2, $3, true, expires_at, created_at,
         updated_at, mac from delegated_sessions where id = $1`,
      [stage.session.id, hash, policyOf(stage.holder, '500')],
    )
    const path = '/v1/delegated-sessions/dse_01jb2m7x9kq4t8v6w0r3s5y1zg/execute'
    const headers = { authorization: `Bearer ${token}` }
    const body = { commands: [transfer(stage.holding, '500')] }
    const answer = await call(service.url, 'POST', path, { key: stage.session.by.key as string, headers, body })
    await expectTampered(stage.tenant, answer, 'delegated_session')
    expect(await movedBy(stage)).toBe(0)
  })

  test('that was restored as it was before it spent is refused by every process that saw it since', async () => {
    const stage = await begun()
    await service.sql('create table stolen as select * from delegated_sessions where id = $1', [stage.session.id])
    const done = expectStatus(await take(stage, '1'), 200)
    await service.sql(
      `update delegated_sessions s set uses = o.uses, completed = o.completed, spent = o.spent, version = o.version, mac = o.mac
       from stolen o where s.id = o.id`,
    )
    await service.sql('drop table stolen')
    expect(done.status).toBe('completed')
    await expectTampered(stage.tenant, await take(stage, '1'), 'delegated_session', stage.session.id)
    expect(await movedBy(stage)).toBe(1)
  })

  test('can be revoked whatever was changed, and stays refused', async () => {
    const stage = await begun()
    await service.sql('update delegated_sessions set policy = $2, version = 2147483647 where id = $1', [
      stage.session.id,
      policyOf(stage.holder, '500'),
    ])
    const revoked = await stage.tenant.delete(`/delegated-sessions/${stage.session.id}`)
    expect(expectStatus(revoked, 200).status).toBe('revoked')
    await service.sql(`update delegated_sessions set status = 'active', revoked_at = null where id = $1`, [
      stage.session.id,
    ])
    await expectTampered(stage.tenant, await take(stage, '1'), 'delegated_session', stage.session.id)
  })

  test('expires on time with what was changed in it, and its neighbours too', async () => {
    const stage = await begun()
    const other = await newSession(service, stage.tenant, stage.holder, { policy: everything() })
    await service.sql('update delegated_sessions set max_uses = 99 where id = $1', [stage.session.id])
    const own = await startService({
      DATABASE_URL: service.databaseUrl,
      HALFKEY_KEK_FILE: service.deps.config.kekFile as string,
      HALFKEY_PUBLIC_URL: 'http://localhost:8080',
    })
    try {
      own.advance(3_700_000)
      await eventually('both have expired', async () => {
        const rows = await service.sql<{ status: string; marked: boolean }>(
          'select status, octet_length(mac) = 1 as marked from delegated_sessions where id = any($1) order by id',
          [[stage.session.id, other.id]],
        )
        return (
          rows.every(({ status }) => status === 'expired') && rows.map(({ marked }) => marked).join() === 'true,false'
        )
      })
    } finally {
      await own.stop()
    }
  })
})

/** D1 of the review. */
describe('the service’s share', () => {
  const shared = async (): Promise<SplitWallet> => newSharedWallet(service, await service.newTenant())

  test('a: is not read by the owner of a wallet that was made a self-custody one', async () => {
    const split = await shared()
    await service.sql(`update wallets set custody = 'self_custody' where id = $1`, [split.walletId])
    const { publicKey } = await newRecipient()
    const answer = await split.person.get(`/mpc/shares/${split.walletId}?recipient_public_key=${publicKey}`)
    await expectTampered(split.tenant, answer, 'wallet', split.walletId)
  })

  /** Commitments of the same key under which the attacker knows share 2, or at least a share that they say is it. */
  const forgedFor = ({ sharing }: SplitWallet) => {
    const forged = keys.dealShares(keys.SHARED_SIGNERS, keys.scalarOfSeed(randomBytes(32)))
    const points = [sharing.commitments[0], forged.sharing.commitments[1]] as [Uint8Array, Uint8Array]
    return { commitments: points.map((point) => Buffer.from(point)), share: forged.shares[1] as keys.Share }
  }
  const storeForged = ({ walletId }: SplitWallet, commitments: Buffer[]) =>
    service.sql('update key_shares set commitments = $2::bytea[] where wallet_id = $1', [walletId, commitments])

  test('b: is not released for a share that the attacker chose', async () => {
    const split = await shared()
    await storeForged(split, forgedFor(split).commitments)
    const { body } = await releaseBody(split)
    await expectTampered(split.tenant, await split.person.post('/mpc/recover', body), 'key_share')
  })

  test('b: is not released to a user whom the attacker made the owner of the wallet', async () => {
    const split = await shared()
    const eve = await signInAs(service, split.tenant)
    await storeForged(split, forgedFor(split).commitments)
    await service.sql('update wallets set user_id = $2 where id = $1', [split.walletId, eve.userId])
    const asked = await eve.post('/mpc/challenge', { walletId: split.walletId, purpose: 'release' })
    await expectTampered(split.tenant, asked, 'wallet', split.walletId)
  })

  test('b: nor does a wallet that was given to another user open to them', async () => {
    const split = await shared()
    const other = expectStatus(await split.tenant.post('/users', {}), 201).id as string
    await service.sql('update wallets set user_id = $2 where id = $1', [split.walletId, other])
    await expectTampered(split.tenant, await split.tenant.get(`/users/${other}/wallet`), 'wallet', split.walletId)
  })

  test('is bound to its sharing by its seal too, even if the MACs said otherwise', async () => {
    const split = await shared()
    const { commitments, share } = forgedFor(split)
    await storeForged(split, commitments)
    await service.recode(split.tenant.tenantId)
    const held = { ...split, sharing: { ...split.sharing, commitments }, share: () => share }
    const { body } = await releaseBody(held, { of: [2] })
    const answer = await split.person.post('/mpc/recover', body)
    expect(answer.status, answer.text).not.toBe(200)
    expect(answer.text).not.toContain('sealedShare')
  })

  test('is not released to a wallet that is frozen by a row that says it is not', async () => {
    const split = await shared()
    expectStatus(await split.tenant.post(`/wallets/${split.walletId}/freeze`), 200)
    await service.sql('update wallets set frozen_at = null where id = $1', [split.walletId])
    await expectTampered(
      split.tenant,
      await split.person.post('/mpc/challenge', { walletId: split.walletId, purpose: 'release' }),
      'wallet',
    )
  })
})

describe('a wallet', () => {
  test('whose row was changed signs nothing for its sessions, and can still be frozen', async () => {
    const stage = await begun()
    await service.sql(`update wallets set key_origin = 'dkg' where id = $1`, [stage.holder.walletId])
    await expectTampered(stage.tenant, await take(stage, '1'), 'wallet', stage.holder.walletId)
    expect(await movedBy(stage)).toBe(0)
    const frozen = await stage.tenant.post(`/wallets/${stage.holder.walletId}/freeze`)
    expect(expectStatus(frozen, 200).status).toBe('frozen')
    const thawed = await stage.tenant.post(`/wallets/${stage.holder.walletId}/unfreeze`)
    await expectTampered(stage.tenant, thawed, 'wallet', stage.holder.walletId)
  })
})

describe('an API key', () => {
  test('that was inserted opens nothing', async () => {
    const tenant = await service.newTenant()
    const key = newApiKey('secret')
    await service.sql(
      `insert into api_keys (tenant_id, id, name, type, scopes, hash, prefix, last4, created_at, updated_at, mac)
       select tenant_id, 'key_01jb2m7x9kq4t8v6w0r3s5y1zj', 'mine', type, scopes, $2, prefix, last4, now(), now(), mac
       from api_keys where tenant_id = $1 limit 1`,
      [tenant.tenantId, sha256(key)],
    )
    await expectTampered(tenant, await tenant.get('/users', { key }), 'api_key', 'key_01jb2m7x9kq4t8v6w0r3s5y1zj')
    await expectTampered(tenant, await tenant.get('/api-keys'), 'api_key')
  })

  test('that was widened, or given another value, opens nothing, and can be revoked', async () => {
    const tenant = await service.newTenant()
    const made = expectStatus(
      await tenant.post('/api-keys', { name: 'x', type: 'secret', scopes: ['users:read'] }),
      201,
    )
    await service.sql(`update api_keys set scopes = '{*}' where id = $1`, [made.id])
    service.deps.auth.forget()
    await expectTampered(tenant, await tenant.get('/users', { key: made.key }), 'api_key', made.id)
    expect(expectStatus(await tenant.delete(`/api-keys/${made.id}`), 200).status).toBe('revoked')
    await service.sql('update api_keys set revoked_at = null where id = $1', [made.id])
    await expectTampered(tenant, await tenant.get('/users', { key: made.key }), 'api_key', made.id)
  })

  test('that was revoked does not come back as it was before', async () => {
    const tenant = await service.newTenant()
    const made = expectStatus(await tenant.post('/api-keys', { name: 'x', type: 'secret', scopes: ['*'] }), 201)
    expectStatus(await tenant.get('/users', { key: made.key }), 200)
    await service.sql('create table stolen_key as select * from api_keys where id = $1', [made.id])
    expectStatus(await tenant.delete(`/api-keys/${made.id}`), 200)
    await service.sql('delete from api_keys where id = $1', [made.id])
    await service.sql('insert into api_keys select * from stolen_key')
    await service.sql('drop table stolen_key')
    await expectTampered(tenant, await tenant.get('/users', { key: made.key }), 'api_key', made.id)
  })
})

describe('a passkey', () => {
  test('of the attacker signs nobody else in', async () => {
    const tenant = await service.newTenant()
    const victim = expectStatus(await tenant.post('/users', { email: 'ada@example.com' }), 201).id as string
    const { user, authenticator } = await signUp(tenant, { email: 'eve@example.com' })
    await service.sql(`update passkeys set user_id = $2 where user_id = $1`, [user.id, victim])
    const asked = await loginOptions(tenant)
    const credential = authenticator.get(asked.publicKey)
    await expectTampered(tenant, await loginVerify(tenant, asked.challengeId, credential), 'passkey')
    const byEmail = await tenant.get('/auth/passkey/login-options?email=ada@example.com')
    await expectTampered(tenant, byEmail, 'passkey')
  })

  test('that was inserted for a user signs nobody in', async () => {
    const tenant = await service.newTenant()
    const victim = expectStatus(await tenant.post('/users', { email: 'ada@example.com' }), 201).id as string
    const authenticator = newAuthenticator()
    const { user } = await signUp(tenant, { email: 'eve@example.com' }, { authenticator })
    await service.sql(
      `insert into passkeys (tenant_id, id, app_id, user_id, credential_id, public_key, sign_count, rp_id, aaguid, transports,
         device_type, backed_up, created_at, updated_at, mac)
       select tenant_id, 'pky_01jb2m7x9kq4t8v6w0r3s5y1zf', app_id, $2, '\\x01', public_key, 0, rp_id, aaguid, transports, device_type,
         backed_up, created_at, updated_at, mac from passkeys where user_id = $1`,
      [user.id, victim],
    )
    const byEmail = await tenant.get('/auth/passkey/login-options?email=ada@example.com')
    await expectTampered(tenant, byEmail, 'passkey', 'pky_01jb2m7x9kq4t8v6w0r3s5y1zf')
  })
})

describe('an account', () => {
  test('is not signed in to by a session of another user, whose row says that it is this one’s', async () => {
    const tenant = await service.newTenant()
    const victim = await signInAs(service, tenant)
    const eve = await signInAs(service, tenant)
    await service.sql('update sessions set user_id = $2 where id = $1', [eve.sessionId, victim.userId])
    const answer = await tenant.call('POST', '/auth/refresh', {
      key: eve.key,
      body: { refreshToken: eve.refreshToken },
    })
    await expectTampered(tenant, answer, 'session', eve.sessionId)
    // Their own access token, which was signed before, is still theirs, and the session can be ended.
    expectStatus(await eve.get('/auth/sessions'), 200)
    expect(expectStatus(await victim.delete(`/auth/sessions/${eve.sessionId}`), 200).status).toBe('revoked')
  })

  test('is not reached by a session that was revoked, or by a step-up or a sign-in that never was', async () => {
    const tenant = await service.newTenant()
    const changes = [
      'revoked_at = null',
      `mfa_at = now()`,
      `signed_in_at = now() + interval '1 minute'`,
      `passkey_at = now()`,
      `issuer_mfa_at = now()`,
    ]
    for (const change of changes) {
      const victim = await signInAs(service, tenant)
      if (change.startsWith('revoked')) expectStatus(await victim.delete(`/auth/sessions/${victim.sessionId}`), 200)
      await service.sql(`update sessions set ${change} where id = $1`, [victim.sessionId])
      const body = { refreshToken: victim.refreshToken }
      await expectTampered(tenant, await tenant.call('POST', '/auth/refresh', { key: victim.key, body }), 'session')
      if (!change.startsWith('revoked')) await expectTampered(tenant, await victim.post('/mfa/setup'), 'session')
    }
  })

  test('keeps a session revoked for its access token, although the row says that it is not', async () => {
    const tenant = await service.newTenant()
    const victim = await signInAs(service, tenant)
    expectStatus(await victim.delete(`/auth/sessions/${victim.sessionId}`), 200)
    expectError(await victim.get('/auth/sessions'), 401, 'session_revoked')
    await service.sql('update sessions set revoked_at = null where id = $1', [victim.sessionId])
    await expectTampered(tenant, await victim.get('/users/me'), 'session', victim.sessionId)
  })

  test('has no second factor in its access tokens that the row names and nobody showed', async () => {
    const tenant = await service.newTenant()
    const victim = await signInAs(service, tenant)
    await service.sql(`update sessions set amr = amr || '{otp,mfa}' where id = $1`, [victim.sessionId])
    const { data } = (await victim.post('/auth/refresh', { refreshToken: victim.refreshToken })).body
    const { amr } = JSON.parse(Buffer.from(data.accessToken.split('.')[1], 'base64url').toString())
    expect(amr).toEqual(['hwk', 'user'])
  })

  test('is not reached by an address that the attacker gave it, and keeps its second factor', async () => {
    const tenant = await service.newTenant()
    expectStatus(await tenant.patch(`/apps/${tenant.appId}`, { email: { enabled: true } }), 200)
    const victim = await signInAs(service, tenant, { email: 'ada@example.com' })
    const change = `email = 'eve@example.com', email_key = 'eve@example.com', email_verified = true`
    await service.sql(`update users set ${change} where id = $1`, [victim.userId])
    const asked = await tenant.post('/auth/email/start', { email: 'eve@example.com' })
    await expectTampered(tenant, asked, 'user', victim.userId)
    await expectTampered(tenant, await tenant.get(`/users/${victim.userId}`), 'user')
    await expectTampered(tenant, await victim.post('/mfa/setup'), 'user')
    // Suspending and deleting still work.
    expectStatus(await tenant.patch(`/users/${victim.userId}`, { status: 'suspended' }), 200)
    expectStatus(await tenant.delete(`/users/${victim.userId}`), 200)
  })

  test('is not given to whoever answers a challenge whose row names its user', async () => {
    const tenant = await service.newTenant()
    const victim = await signInAs(service, tenant)
    const eve = await signInAs(service, tenant)
    const asked = expectStatus(await eve.post('/auth/passkey/register-options', {}), 200)
    await service.sql(`update challenges set user_id = $2, data = replace(data::text, $3, $2)::jsonb where id = $1`, [
      asked.challengeId,
      victim.userId,
      eve.userId,
    ])
    const credential = newAuthenticator().create(asked.publicKey)
    const answer = await eve.post('/auth/passkey/register-verify', { challengeId: asked.challengeId, credential })
    await expectTampered(tenant, answer, 'challenge', asked.challengeId)
    expect(await service.sql('select from passkeys where user_id = $1', [victim.userId])).toHaveLength(0)
  })

  test('is not signed in to with a key that the attacker sealed by a data key that they know', async () => {
    const { keys } = service.deps
    const tenant = await service.newTenant()
    const { person } = await newKeyHolder(service, tenant)
    const [header = '', payload = ''] = person.accessToken.split('.')
    const { publicKey, privateKey } = generateKeyPairSync('ed25519')
    const id = 'planted'
    await service.sql(
      `insert into signing_keys (id, public_key, private_key_sealed, refresh_secret_sealed, created_at)
       values ($1, $2, $3, $4, now())`,
      [
        id,
        publicKey.export({ type: 'spki', format: 'der' }),
        await seal(keys, privateKey.export({ type: 'pkcs8', format: 'der' }), ['signing key', 'private', id]),
        await seal(keys, randomBytes(32), ['signing key', 'refresh', id]),
      ],
    )
    const other = await startService({
      DATABASE_URL: service.databaseUrl,
      HALFKEY_KEK_FILE: service.deps.config.kekFile as string,
      HALFKEY_PUBLIC_URL: `http://localhost:${new URL(service.url).port}`,
      HALFKEY_ROLE: 'api',
    })
    try {
      const own = Buffer.from(JSON.stringify({ ...JSON.parse(Buffer.from(header, 'base64url').toString()), kid: id }))
      const message = `${own.toString('base64url')}.${payload}`
      const forged = `${message}.${sign(null, Buffer.from(message), privateKey).toString('base64url')}`
      const as = (token: string) =>
        call(other.url, 'GET', '/v1/auth/sessions', { key: person.key, headers: { authorization: `Bearer ${token}` } })
      expectError(await as(forged), 401, 'session_invalid')
      // The planted key takes nothing else down.
      expectStatus(await as(person.accessToken), 200)
    } finally {
      await other.stop()
      await service.sql('delete from signing_keys where id = $1', [id])
    }
  })
})

describe('an app', () => {
  test('whose settings the attacker relaxed relaxes no check', async () => {
    const tenant = await service.newTenant()
    const person = await signInAs(service, tenant)
    for (const change of [
      `mpc = '{"allowServer": true}'`,
      `recovery = '{"serverCombine": true}'`,
      `mfa = '{"policy": "never", "enforceForServer": false}'`,
      `email = jsonb_set(email, '{webhookUrl}', '"https://eve.example.com"')`,
      'bot_token_sealed = null, mac = null',
      `sign_in_hook = '{"url": null, "onFailure": "allow"}'`,
      `brand_links = jsonb_set(brand_links, '{supportUrl}', '"https://eve.example.com"')`,
    ]) {
      await service.sql('create table kept as select * from apps where id = $1', [tenant.appId])
      await service.sql(`update apps set ${change} where id = $1`, [tenant.appId])
      await expectTampered(tenant, await tenant.get(`/apps/${tenant.appId}`), 'app', tenant.appId)
      await expectTampered(tenant, await person.post('/mfa/setup'), 'app', tenant.appId)
      await service.sql(`
        update apps a set mpc = k.mpc, recovery = k.recovery, mfa = k.mfa, email = k.email, bot_token_sealed = k.bot_token_sealed,
          sign_in_hook = k.sign_in_hook, brand_links = k.brand_links, mac = k.mac from kept k where a.id = k.id`)
      await service.sql('drop table kept')
    }
    expectStatus(await tenant.get(`/apps/${tenant.appId}`), 200)
  })

  test('trusts no issuer that the attacker inserted or changed', async () => {
    const tenant = await service.newTenant()
    const issuer = { issuer: 'https://id.example.com', jwksUri: 'https://id.example.com/jwks', audiences: ['shop'] }
    const made = expectStatus(await tenant.post(`/apps/${tenant.appId}/issuers`, issuer), 201)
    await service.sql(`update app_issuers set jwks_uri = 'https://eve.example.com/jwks' where id = $1`, [made.id])
    const path = `/apps/${tenant.appId}/issuers/${made.id}`
    await expectTampered(tenant, await tenant.get(path), 'issuer', made.id)
    expectStatus(await tenant.delete(path), 200)
  })
})

describe('a template', () => {
  test('that was changed before its first contract makes none, and moves none', async () => {
    const tenant = await service.newTenant()
    const definition = {
      templateId: 'Shop:Voucher',
      fields: { shop: { type: 'party' }, holder: { type: 'party' } },
      signatories: ['shop'],
      observers: ['holder'],
      choices: { Redeem: { controllers: ['shop'] } },
    }
    expectStatus(await tenant.post('/templates', definition), 201)
    const holder = await newHolder(tenant)
    const session = await newSession(service, tenant, holder, { policy: { allow: [{ templateId: 'Shop:Voucher' }] } })
    const issue = () =>
      session.execute({
        commands: [create('Shop:Voucher', { shop: holder.party, holder: BOB })],
      })
    await service.sql(
      `update ledger_templates set definition = replace(definition::text, '"controllers":["shop"]', '"controllers":["holder"]')::json
       where tenant_id = $1`,
      [tenant.tenantId],
    )
    await expectTampered(tenant, await issue(), 'template', 'Shop:Voucher')
    await expectTampered(tenant, await tenant.get('/templates/Shop:Voucher'), 'template')
  })
})

describe('an open transaction', () => {
  test('whose bytes, app or status were changed is not completed', async () => {
    const tenant = await service.newTenant()
    for (const change of [
      `prepared = prepared || '\\x20'`,
      `app_id = 'app_01jb2m7x9kq4t8v6w0r3s5y1zb'`,
      `status = 'reserved'`,
      `expires_at = expires_at + interval '1 day'`,
      `spends = '[{"entry":0,"bucket":"","units":"-5"}]'`,
      'mac = null',
    ]) {
      const ada = await newKeyHolder(service, tenant)
      const session = await ownSession(service, ada, { policy: everything() })
      const commands = [create('Note:Note', { author: ada.party, text: 'x' })]
      const { transactionId } = expectStatus(await session.execute({ commands }), 200)
      await service.sql(`update transactions set ${change} where id = $1`, [transactionId])
      const answer = await session.execute({ signingRequestId: transactionId, signature: '00'.repeat(64) })
      await expectTampered(tenant, answer, 'transaction', transactionId)
    }
  })

  test('that waits for a signature is not taken for completed', async () => {
    const tenant = await service.newTenant()
    const ada = await newKeyHolder(service, tenant)
    const session = await ownSession(service, ada, { policy: everything() })
    const commands = [create('Note:Note', { author: ada.party, text: 'x' })]
    const { transactionId } = expectStatus(await session.execute({ commands }), 200)
    await service.sql(`update transactions set status = 'completed', prepared = null where id = $1`, [transactionId])
    const answer = await session.execute({ signingRequestId: transactionId, signature: '00'.repeat(64) })
    await expectTampered(tenant, answer, 'transaction', transactionId)
  })

  test('that waits for a signature is not completed by the update of another that the same party signed', async () => {
    const tenant = await service.newTenant()
    const ada = await newKeyHolder(service, tenant)
    const session = await ownSession(service, ada, { policy: everything() })
    const ask = async (text: string) => {
      const commands = [create('Note:Note', { author: ada.party, text })]
      const { signingRequest } = expectStatus(await session.execute({ commands }), 200)
      const signature = ada.sign(digestOf(signingRequest.preparedTransaction))
      return { id: signingRequest.id, signed: { signingRequestId: signingRequest.id, signature } }
    }
    const [first, second] = [await ask('first'), await ask('second')]
    expectStatus(await session.execute(first.signed), 200)
    await service.sql(
      `with done as (update transactions set command_id = 'gone' where id = $1 returning update_id)
       update transactions t set status = 'completed', prepared = null, command_id = $1, update_id = done.update_id
       from done where t.id = $2`,
      [first.id, second.id],
    )
    expectError(await session.execute(second.signed), 400, 'signature_invalid')
  })

  test('that waits for a signature is not completed by its own update, inserted before anybody had signed it', async () => {
    const tenant = await service.newTenant()
    const ada = await newKeyHolder(service, tenant)
    const session = await ownSession(service, ada, { policy: everything() })
    const commands = [create('Note:Note', { author: ada.party, text: 'x' })]
    const { signingRequest } = expectStatus(await session.execute({ commandId: 'a', commands }), 200)
    const bytes = Buffer.from(signingRequest.preparedTransaction, 'base64')
    await service.sql(
      `insert into ledger_updates (tenant_id, "offset", update_id, act_as, command_id, prepared, signatures, recorded_at)
       values ($1, 900000000, $2, $3, $4, $5, '[]', now())`,
      [tenant.tenantId, `1220${signingRequest.digest}`, ada.party, `${session.id}/a`, bytes],
    )
    const signature = ada.sign(digestOf(signingRequest.preparedTransaction))
    expectError(await session.execute({ signingRequestId: signingRequest.id, signature }), 409, 'duplicate_command')
    expect((await tenant.get('/transactions?status=completed')).body.total).toBe(0)
  })

  test('that has ended is not opened again', async () => {
    const stage = await begun()
    const done = expectStatus(await take(stage, '1'), 200)
    await service.sql(`update transactions set status = 'reserved', check_at = now() where id = $1`, [
      done.transactionId,
    ])
    await expectTampered(stage.tenant, await stage.tenant.get(`/transactions/${done.transactionId}`), 'transaction')
  })
})

describe('the dashboard', () => {
  test('has no session for a link or a cookie that was inserted', async () => {
    const token = `hk_dl_${randomBytes(32).toString('base64url')}`
    await service.sql(
      `insert into dashboard_links (hash, expires_at, created_at) values ($1, now() + interval '1 hour', now())`,
      [sha256(token)],
    )
    expectError(await postSession(service, { link: token }), 500, 'record_tampered')
    const cookie = randomBytes(32).toString('base64url')
    await service.sql(
      `insert into dashboard_sessions (hash, last_used_at, expires_at, created_at)
       values ($1, now(), now() + interval '1 hour', now())`,
      [sha256(cookie)],
    )
    const answer = await call(service.url, 'GET', '/dashboard/api/session', {
      headers: { cookie: `halfkey_dashboard=${cookie}` },
    })
    expectError(answer, 500, 'record_tampered')
  })

  test('does not make a tenant’s link the operator’s', async () => {
    const { tenantId } = await service.newTenant()
    const link = await newLink(service, tenantId)
    await service.sql('update dashboard_links set tenant_id = null where hash = $1', [sha256(link)])
    expectError(await postSession(service, { link }), 500, 'record_tampered')
  })
})

describe('a public key', () => {
  test('that the attacker put in place of the token-signing key’s verifies no token of theirs', async () => {
    const tenant = await service.newTenant()
    const { person } = await newKeyHolder(service, tenant)
    const { key } = person
    const [header = '', payload = ''] = person.accessToken.split('.')
    const { publicKey, privateKey } = generateKeyPairSync('ed25519')
    const stored = await service.sql<{ id: string; public_key: Buffer }>('select id, public_key from signing_keys')
    await service.sql('update signing_keys set public_key = $1', [publicKey.export({ type: 'spki', format: 'der' })])
    const other = await startService({
      DATABASE_URL: service.databaseUrl,
      HALFKEY_KEK_FILE: service.deps.config.kekFile as string,
      HALFKEY_PUBLIC_URL: `http://localhost:${new URL(service.url).port}`,
      HALFKEY_ROLE: 'api',
    })
    try {
      const forged = `${header}.${payload}.${sign(null, Buffer.from(`${header}.${payload}`), privateKey).toString('base64url')}`
      const as = (token: string) =>
        call(other.url, 'GET', '/v1/auth/sessions', { key, headers: { authorization: `Bearer ${token}` } })
      expectError(await as(forged), 401, 'session_invalid')
      expectStatus(await as(person.accessToken), 200)
    } finally {
      await other.stop()
      for (const row of stored)
        await service.sql('update signing_keys set public_key = $2 where id = $1', [row.id, row.public_key])
    }
  })

  test('that the attacker put in place of the one that clients seal shares to is not handed out', async () => {
    const tenant = await service.newTenant()
    const { person } = await newKeyHolder(service, tenant)
    const before = expectStatus(await person.get('/mpc/config'), 200).keys
    await service.sql('update encryption_keys set public_key = $1', [randomBytes(32)])
    expect(expectStatus(await person.get('/mpc/config'), 200).keys).toEqual(before)
  })

  test('that the attacker put in place of the node’s names no party, and takes none over', async () => {
    const stage = await begun()
    await service.sql('update tenants set node_public_key = $2 where id = $1', [stage.tenant.tenantId, randomBytes(32)])
    const other = await startService({
      DATABASE_URL: service.databaseUrl,
      HALFKEY_KEK_FILE: service.deps.config.kekFile as string,
      HALFKEY_ROLE: 'api',
    })
    try {
      const made = await call(other.url, 'POST', '/v1/users', { key: stage.tenant.key, body: {} })
      expect(expectStatus(made, 201).partyId.split('::')[1]).toBe(stage.holder.party.split('::')[1])
    } finally {
      await other.stop()
    }
  })
})

describe('a record key', () => {
  test('that was deleted, or exchanged for another tenant’s, verifies nothing', async () => {
    const [one, two] = [await begun(), await begun()]
    await service.sql('delete from record_keys where tenant_id = $1', [one.tenant.tenantId])
    await service.sql(
      'update record_keys k set key_sealed = o.key_sealed from record_keys o where k.tenant_id = $1 and o.tenant_id = $2',
      [two.tenant.tenantId, service.admin.tenantId],
    )
    const other = await startService({
      DATABASE_URL: service.databaseUrl,
      HALFKEY_KEK_FILE: service.deps.config.kekFile as string,
      HALFKEY_ROLE: 'api',
    })
    try {
      for (const { tenant } of [one, two]) {
        const answer = await call(other.url, 'GET', '/v1/users', { key: tenant.key })
        expectError(answer, 500, 'record_tampered')
      }
    } finally {
      await other.stop()
    }
  })

  test('is in the database only wrapped, and opens for its own tenant alone', async () => {
    const { tenantId } = await service.newTenant()
    const [row] = await service.sql<{ key_sealed: Buffer }>('select key_sealed from record_keys where tenant_id = $1', [
      tenantId,
    ])
    const sealed = row?.key_sealed as Buffer
    const key = await unwrapKey(service.deps.keys, sealed, ['record key', tenantId])
    const stolen = await dump(service)
    for (const encoding of ['hex', 'base64'] as const) expect(stolen).not.toContain(key.toString(encoding))
    await expect(unwrapKey(service.deps.keys, sealed, ['record key', service.admin.tenantId])).rejects.toThrow()
    // A data key that somebody knows from elsewhere makes no record key.
    await expect(
      unwrapKey(service.deps.keys, await seal(service.deps.keys, key, ['record key', tenantId]), [
        'record key',
        tenantId,
      ]),
    ).rejects.toThrow()
  })
})
