import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  everything,
  expectStatus,
  newHolder,
  newSession,
  transfer,
  transfers,
} from '../../src/delegation/delegated.fixture.ts'
import {
  exchange,
  newSubject,
  startIssuer,
  type TestIssuer,
  trust,
  weakSession,
} from '../../src/identity/foreign-tokens/issuer.fixture.ts'
import { answerWith, codeNow, enrol, moveOn, stepUp, wrongCode } from '../../src/identity/mfa/mfa.fixture.ts'
import { newApp, signInAs } from '../../src/identity/sessions/sessions.fixture.ts'
import { verifyRecords } from '../../src/platform/security/records/walk.ts'
import { loginOptions, loginVerify, newAuthenticator, register, signUp } from '../harness/authenticator.ts'
import { expectError } from '../harness/envelope.ts'
import { type Answer, type Service, startService } from '../harness/harness.ts'

// An attacker with write access to the database who deletes rows, or puts rows back as they once were, with their MACs. The
// processes were started anew since: what they remember of versions is not what refuses these rows.

let service: Service
let issuer: TestIssuer
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
  issuer = await startIssuer(service)
})
afterAll(async () => {
  await issuer.close()
  await service.stop()
})

const NAMES = {
  passkeys: 'id',
  identities: 'id',
  mfa_factors: 'user_id',
  delegated_sessions: 'id',
  users: 'id',
} as const

/** Keeps a row of a table, to put it back as it was. */
async function steal(table: keyof typeof NAMES | 'recovery_codes', column: string, value: string) {
  const rows = await service.sql<Record<string, unknown>>(
    `select to_json(t)::text as row from ${table} t where ${column} = $1`,
    [value],
  )
  expect(rows.length).toBeGreaterThan(0)
  return {
    async hide() {
      // As somebody deletes a row who does not care what refers to it.
      await service.sql(`delete from ${table} where ${column} = $1`, [value])
    },
    /** Puts the row back in place of the present one, which nothing that refers to it notices. */
    async overwrite() {
      const names = Object.keys(JSON.parse(rows[0]?.row as string)).map((name) => `"${name}"`)
      await service.sql(
        `update ${table} t set (${names.join(', ')}) = (select ${names.join(', ')} from json_populate_record(null::${table}, $2::json))
         where ${column} = $1`,
        [value, rows[0]?.row],
      )
      service.deps.db.records.forgetVersions()
    },
    async putBack() {
      await service.sql(`delete from ${table} where ${column} = $1`, [value])
      for (const { row } of rows)
        await service.sql(`insert into ${table} select * from json_populate_record(null::${table}, $1::json)`, [row])
      service.deps.db.records.forgetVersions()
    },
  }
}

const refused = (answer: Answer) => expectError(answer, 500, 'record_tampered')

/** The records that `halfkey records verify` names. */
async function named(tenantId: string): Promise<string[]> {
  const found: string[] = []
  for (const kind of service.deps.recordKinds)
    for await (const { bad } of verifyRecords(service.deps.db, kind, { tenantId, goOn: () => {} }))
      found.push(...bad.map(({ kind: name, id }) => `${name} ${id}`))
  return found
}

describe('a passkey', () => {
  test('that was removed signs nobody in when its row comes back, and the record of its user is named', async () => {
    const tenant = await service.newTenant()
    const lost = newAuthenticator()
    const { user, accessToken } = await signUp(tenant, { email: 'ada@example.com' }, { authenticator: lost })
    const bearer = { authorization: `Bearer ${accessToken}` }
    await register(tenant, {}, { authenticator: newAuthenticator(), headers: bearer })
    const [{ id }] = await service
      .sql<{ id: string }>('select id from passkeys where user_id = $1 order by id', [user.id])
      .then((rows) => rows as [{ id: string }])
    const stolen = await steal('passkeys', 'id', id)
    expectStatus(await tenant.delete(`/auth/passkeys/${id}`, { headers: bearer }), 200)
    expect(await named(tenant.tenantId)).toEqual([])
    await stolen.putBack()
    const asked = await loginOptions(tenant)
    refused(await loginVerify(tenant, asked.challengeId, lost.get(asked.publicKey)))
    expect(await named(tenant.tenantId)).toEqual([`user ${user.id}`])
  })

  test('that was deleted does not make its account one without a passkey', async () => {
    const tenant = await service.newTenant()
    await trust(tenant, issuer)
    const sub = newSubject()
    const first = await weakSession(service, tenant, issuer, sub)
    const caller = { url: service.url, key: first.key }
    expectStatus(await register(caller, {}, { authenticator: newAuthenticator(), headers: first.bearer }), 200)
    const weak = await weakSession(service, tenant, issuer, sub)
    expectError(await weak.post('/mfa/setup'), 403, 'stronger_sign_in_required')
    await service.sql('delete from passkeys where user_id = $1', [weak.userId])
    expectError(await weak.post('/mfa/setup'), 403, 'stronger_sign_in_required')
    expect(await named(tenant.tenantId)).toEqual([`user ${weak.userId}`])
  })
})

describe('an identity', () => {
  test('that was unlinked signs nobody in when its row comes back', async () => {
    const tenant = await service.newTenant()
    await trust(tenant, issuer)
    const sub = newSubject()
    const person = await weakSession(service, tenant, issuer, sub)
    const caller = { url: service.url, key: person.key }
    expectStatus(await register(caller, {}, { authenticator: newAuthenticator(), headers: person.bearer }), 200)
    const [identity] = expectStatus(await tenant.get(`/users/${person.userId}/identities`), 200)
    const stolen = await steal('identities', 'id', identity.id)
    const asServer = { headers: { 'x-user-id': person.userId } }
    expectStatus(await tenant.delete(`/auth/identities/${identity.id}`, asServer), 200)
    await stolen.putBack()
    refused(await exchange(service, tenant, await issuer.token({ claims: { sub } })))
  })
})

describe('a second factor', () => {
  const enrolled = async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    return { tenant, ada, ...(await enrol(service, ada)) }
  }

  test('whose used recovery code was made an unused one takes no recovery code', async () => {
    const { ada, recoveryCodes, tenant } = await enrolled()
    const [code = '', other = ''] = recoveryCodes
    expectStatus(await answerWith(ada, { recoveryCode: code }), 200)
    await service.sql('update recovery_codes set used_at = null where user_id = $1', [ada.userId])
    for (const recoveryCode of [code, other]) refused(await answerWith(ada, { recoveryCode }))
    expect(await named(tenant.tenantId)).toEqual([`second_factor ${ada.userId}`])
  })

  test('that comes back as it was, with its codes, is not the newest', async () => {
    const { ada, secret, recoveryCodes, tenant } = await enrolled()
    const [factor, codes] = [
      await steal('mfa_factors', 'user_id', ada.userId),
      await steal('recovery_codes', 'user_id', ada.userId),
    ]
    const recoveryCode = recoveryCodes[0] as string
    expectStatus(await answerWith(ada, { recoveryCode }), 200)
    await codes.putBack()
    await factor.putBack()
    refused(await answerWith(ada, { recoveryCode }))
    refused(await answerWith(ada, { code: await codeNow(service, secret) }))
    expect(await named(tenant.tenantId)).toEqual([`user ${ada.userId}`])
  })

  test('counts wrong codes although its row comes back as it was before them', async () => {
    const { ada, secret } = await enrolled()
    const factor = await steal('mfa_factors', 'user_id', ada.userId)
    expectError(await answerWith(ada, { code: await wrongCode(service, secret) }), 400, 'invalid_code')
    await factor.putBack()
    refused(await answerWith(ada, { code: await wrongCode(service, secret) }))
  })

  test('that was deleted, or taken from its user, is not replaced by another one', async () => {
    const { ada, secret } = await enrolled()
    const factor = await steal('mfa_factors', 'user_id', ada.userId)
    await factor.hide()
    refused(await ada.post('/mfa/setup'))
    await factor.putBack()
    expectStatus(await answerWith(ada, { code: await codeNow(service, secret) }), 200)
    await service.sql('update users set mfa_enabled = false where id = $1', [ada.userId])
    refused(await ada.post('/mfa/setup'))
  })

  test('that its user disabled does not come back beside the next one', async () => {
    const { tenant, ada, secret } = await enrolled()
    const factor = await steal('mfa_factors', 'user_id', ada.userId)
    await stepUp(service, ada, { secret })
    expectStatus(await ada.delete('/mfa'), 200)
    moveOn(service, 1)
    await enrol(service, await signInAs(service, tenant, { userId: ada.userId }))
    await factor.putBack()
    refused(await answerWith(ada, { code: await codeNow(service, secret) }))
  })
})

describe('a delegated session', () => {
  const begun = async () => {
    const tenant = await service.newTenant()
    const holder = await newHolder(tenant)
    const holding = await holder.receive('1000')
    const session = await newSession(service, tenant, holder, { policy: transfers(holder, '5') })
    const take = () => session.execute({ commands: [transfer(holding, '1')] })
    return { tenant, holder, session, take, stolen: await steal('delegated_sessions', 'id', session.id) }
  }

  test('that was revoked stays revoked when its row comes back', async () => {
    const { tenant, holder, session, take, stolen } = await begun()
    const other = await newSession(service, tenant, holder, { policy: everything() })
    expectStatus(await tenant.delete(`/delegated-sessions/${session.id}`), 200)
    expect(await named(tenant.tenantId)).toEqual([])
    await stolen.putBack()
    refused(await take())
    refused(await session.query())
    expect(await named(tenant.tenantId)).toEqual([`wallet ${holder.walletId}`])
    expectStatus(await other.query(), 200)
  })

  test('that spent does not get its cap back when its row comes back', async () => {
    const { tenant, holder } = await begun()
    const session = await newSession(service, tenant, holder, { policy: transfers(holder, '1') })
    const holding = await holder.receive('10')
    const stolen = await steal('delegated_sessions', 'id', session.id)
    expectStatus(await session.execute({ commands: [transfer(holding, '1')] }), 200)
    await stolen.overwrite()
    refused(await session.execute({ commands: [transfer(holding, '1')] }))
  })

  test('that was hidden while all of its wallet were revoked was revoked too', async () => {
    const { tenant, holder, session, take, stolen } = await begun()
    await stolen.hide()
    expect(await named(tenant.tenantId)).toEqual([`wallet ${holder.walletId}`])
    expectError(await tenant.delete(`/delegated-sessions/${session.id}`), 404, 'not_found')
    expectStatus(await tenant.post(`/wallets/${holder.walletId}/sessions/revoke-all`), 200)
    await stolen.putBack()
    refused(await take())
  })

  test('that was hidden while all of its app were revoked was revoked too', async () => {
    const { tenant, take, stolen } = await begun()
    await stolen.hide()
    expectStatus(await tenant.post(`/apps/${tenant.appId}/sessions/revoke-all`), 200)
    await stolen.putBack()
    refused(await take())
  })

  test('that was revoked while its row named another wallet stays revoked', async () => {
    const { tenant, session, take, stolen } = await begun()
    const other = await newHolder(tenant)
    await service.sql('update delegated_sessions set wallet_id = $2, user_id = $3 where id = $1', [
      session.id,
      other.walletId,
      other.userId,
    ])
    expectStatus(await tenant.delete(`/delegated-sessions/${session.id}`), 200)
    await stolen.putBack()
    refused(await take())
  })

  test('goes on beside others of its wallet that begin, end and expire', async () => {
    const { tenant, holder, take } = await begun()
    const short = await newSession(service, tenant, holder, { policy: everything(), expiresInSeconds: 60 })
    const ended = await newSession(service, tenant, holder, { policy: everything() })
    expectStatus(await tenant.delete(`/delegated-sessions/${ended.id}`), 200)
    await newSession(service, tenant, holder, { policy: everything() })
    expectStatus(await short.query(), 200)
    expectStatus(await take(), 200)
    expect(await named(tenant.tenantId)).toEqual([])
  })
})

describe('a suspended user', () => {
  test('who was made an active one by SQL neither signs in nor acts by a server or a delegated session', async () => {
    const tenant = await service.newTenant()
    const { user, authenticator } = await signUp(tenant, { email: 'ada@example.com' })
    const asUser = { headers: { 'x-user-id': user.id } }
    expectStatus(await tenant.post('/users/me/wallet', {}, asUser), 201)
    const session = await newSession(service, tenant, { asUser }, { policy: everything() })
    expectStatus(await session.query(), 200)
    expectStatus(await tenant.patch(`/users/${user.id}`, { status: 'suspended' }), 200)
    await service.sql(`update users set status = 'active' where id = $1`, [user.id])
    const asked = await loginOptions(tenant)
    refused(await loginVerify(tenant, asked.challengeId, authenticator.get(asked.publicKey)))
    refused(await tenant.get('/auth/passkeys', asUser))
    refused(await session.query())
  })
})

describe('a step-up of a server', () => {
  test('that was inserted, or made a newer one, is none', async () => {
    const tenant = await service.newTenant()
    const appId = await newApp(tenant, { mfa: { policy: 'if_enrolled', enforceForServer: true } })
    const ada = await signInAs(service, tenant, { appId })
    const factor = await enrol(service, ada)
    const headers = { 'x-user-id': ada.userId }
    const server = {
      get: (path: string) => tenant.get(path, { headers }),
      post: (path: string, body?: unknown) => tenant.post(path, body, { headers }),
      delete: (path: string) => tenant.delete(path, { headers }),
    }
    expectError(await server.post('/auth/passkey/register-options', {}), 403, 'mfa_required')
    await stepUp(service, server, factor)
    expectStatus(await server.post('/auth/passkey/register-options', {}), 200)
    service.advance(6 * 60_000)
    expectError(await server.post('/auth/passkey/register-options', {}), 403, 'mfa_required')
    await service.sql(`update server_verifications set mfa_at = mfa_at + interval '6 minutes' where user_id = $1`, [
      ada.userId,
    ])
    refused(await server.post('/auth/passkey/register-options', {}))
  })
})
