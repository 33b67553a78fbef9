import { afterAll, beforeAll, expect, test } from 'vitest'
import { newAuthenticator, ORIGIN, register } from '../../../test/harness/authenticator.ts'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, call, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { forgeAssertion, forgeCreation, type Lies, newForger, UP, UV } from '../../identity/passkeys/forged.fixture.ts'
import { signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { partyOf } from '../../platform/ports/party.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'
import { newWalletKey } from '../../wallets/wallets/wallets.fixture.ts'
import { digestOf, expectStatus, holdingsOf, newSession, signedIn, transfer } from '../delegated.fixture.ts'
import {
  addPasskey,
  approve,
  ask,
  asking,
  askingAbove,
  assertion,
  DAY_MS,
  newOwner,
  type Owner,
} from './approvals.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const post = (owner: Pick<Owner, 'person'>, id: string, credential: unknown) =>
  owner.person.post(`/approvals/${id}/approve`, { credential })

const pending = async (owner: Pick<Owner, 'person'>, id: string) =>
  expect(expectStatus(await owner.person.get(`/approvals/${id}`), 200).status).toBe('pending')

/** How many transactions of a tenant have happened. */
const happened = async (tenant: Tenant): Promise<number> =>
  (await tenant.get('/transactions?status=completed')).body.total

test("another user's and another tenant's approval is the 404 of one that does not exist, whatever is done with it", async () => {
  const other = await asking(service)
  const { tenant, owner, session } = await asking(service)
  const stranger = await newOwner(service, tenant)
  for (const one of [owner, other.owner]) {
    const of = one === owner ? tenant : other.tenant
    one.person = await signInAs(service, of, { userId: one.userId })
  }
  const { approval } = await ask(session, owner)
  const credential = await assertion(owner, approval.id)
  const none = 'apr_00000000000000000000000000'
  const calls: ((id: string) => Promise<Answer>)[] = [
    (id) => stranger.person.get(`/approvals/${id}`),
    (id) => post(stranger, id, credential),
    (id) => stranger.person.post(`/approvals/${id}/deny`, {}),
    (id) => other.owner.person.get(`/approvals/${id}`),
    (id) => post(other.owner, id, credential),
    (id) => other.tenant.get(`/approvals/${id}`),
    (id) => other.tenant.post(`/approvals/${id}/deny`, {}, other.owner.asUser),
  ]
  for (const attempt of calls) {
    const [found, missing] = [await attempt(approval.id), await attempt(none)]
    expectError(found, 404, 'not_found')
    expect(found.text).toBe(missing.text)
  }
  expect((await stranger.person.get('/approvals')).body.total).toBe(0)
  expectError(await stranger.person.get(`/approvals?user_id=${owner.userId}`), 404, 'not_found')
  for (const id of ['x', `${approval.id}x`, approval.id.replace('apr_', 'tx_'), '%00', "' OR 1=1"])
    expectError(await owner.person.get(`/approvals/${encodeURIComponent(id)}`), 404, 'not_found')
})

test('neither the delegate nor a server can decide', async () => {
  const { tenant, owner, session } = await asking(service)
  const { approval } = await ask(session, owner)
  const credential = await assertion(owner, approval.id)
  for (const what of ['approve', 'deny']) {
    const body = what === 'approve' ? { credential } : {}
    const path = `/approvals/${approval.id}/${what}`
    expectError(await tenant.post(path, body, owner.asUser), 401, 'session_missing')
    expectError(await tenant.post(path, body), 401, 'session_missing')
    expectError(await call(service.url, 'POST', `/v1${path}`, { ...session.by, body }), 401, 'session_invalid')
    const asAgent = { headers: session.by.headers ?? {}, body }
    expect((await call(service.url, 'POST', `/agent/api${path}`, asAgent)).status).toBe(404)
  }
  expectError(await call(service.url, 'GET', '/v1/approvals', { key: owner.person.key }), 401, 'session_missing')
  await pending(owner, approval.id)
})

test('a payment is not taken for one that happened, by a row that says so, with or without an update of the ledger', async () => {
  const { tenant, owner, session } = await asking(service)
  const { transactionId, commandId, commands } = await ask(session, owner)
  const repeat = () => session.execute({ commandId, commands })
  await service.sql(`update transactions set status = 'completed', completed_at = now() where id = $1`, [transactionId])
  expectError(await repeat(), 500, 'record_tampered')
  // With the update of another command, under this one's name.
  const other = expectStatus(await session.execute({ commands: [transfer(await owner.receive('1'))] }), 200)
  await service.sql(
    `insert into ledger_updates (tenant_id, "offset", update_id, act_as, command_id, prepared, signatures, recorded_at)
     select u.tenant_id, u."offset", u.update_id, u.act_as, t.delegated_session_id || '/' || t.command_id, u.prepared,
       u.signatures, u.recorded_at
     from transactions t join ledger_updates u on u.tenant_id = t.tenant_id and u.update_id = $2 where t.id = $1`,
    [transactionId, other.updateId],
  )
  await service.sql('update transactions set update_id = $2 where id = $1', [transactionId, other.updateId])
  expectError(await repeat(), 500, 'record_tampered')
  // With an update for this very command, signed by a party of the attacker, whom the row then names.
  const mallory = newWalletKey()
  const actAs = partyOf('mallory', Buffer.from(mallory.publicKey, 'hex'))
  const [update] = await service.sql<{ prepared: Buffer }>(
    `delete from ledger_updates where act_as = $1 and update_id = $2 and command_id like '%/' || $3 returning prepared`,
    [owner.party, other.updateId, commandId],
  )
  const document = JSON.parse(String(update?.prepared))
  const bytes = Buffer.from(canonicalJson({ ...document, actAs, commandId: `${session.id}/${commandId}` }))
  const digest = digestOf(bytes.toString('base64'))
  const updateId = `1220${digest.toString('hex')}`
  const signed = [{ party: actAs, publicKey: mallory.publicKey, signature: mallory.sign(digest).toString('hex') }]
  await service.sql(
    `insert into ledger_updates (tenant_id, "offset", update_id, act_as, command_id, prepared, signatures, recorded_at)
     values ($1, 900000000, $2, $3, $4, $5, $6, now())`,
    [tenant.tenantId, updateId, actAs, `${session.id}/${commandId}`, bytes, JSON.stringify(signed)],
  )
  await service.sql('update transactions set update_id = $2, party_id = $3 where id = $1', [
    transactionId,
    updateId,
    actAs,
  ])
  expectError(await repeat(), 500, 'record_tampered')
  expect((await tenant.get(`/transactions/${other.transactionId}`)).body.data.updateId).toBe(other.updateId)
})

test('an assertion of another challenge, of another approval, or for a sign-in approves nothing', async () => {
  const { tenant, owner, session } = await asking(service)
  const first = await ask(session, owner)
  const replayed = await assertion(owner, first.approval.id)
  expectStatus(await post(owner, first.approval.id, replayed), 200)
  const second = await ask(session, owner, '8', 'order-2')
  expectError(await post(owner, second.approval.id, replayed), 401, 'assertion_invalid')
  const path = '/auth/passkey/login-options'
  const login = expectStatus(await owner.person.get(path, { headers: { origin: ORIGIN } }), 200)
  expectError(await post(owner, second.approval.id, owner.authenticator.get(login.publicKey)), 401, 'assertion_invalid')
  const { publicKey } = expectStatus(await owner.person.get(`/approvals/${second.approval.id}`), 200)
  const off = { ...publicKey, challenge: Buffer.alloc(32, 7).toString('base64url') }
  expectError(await post(owner, second.approval.id, owner.authenticator.get(off)), 401, 'assertion_invalid')
  expectStatus(await tenant.patch(`/apps/${tenant.appId}`, { allowedOrigins: [ORIGIN] }), 200)
  const elsewhere = owner.authenticator.get(publicKey, 'http://localhost:3999')
  expectError(await post(owner, second.approval.id, elsewhere), 401, 'assertion_invalid')
  expect(await happened(tenant)).toBe(1)
  await pending(owner, second.approval.id)
})

test('a forged assertion approves nothing: without user verification, too, although the app asks for none', async () => {
  const tenant = await service.newTenant()
  expectStatus(await tenant.patch(`/apps/${tenant.appId}`, { passkey: { userVerification: 'discouraged' } }), 200)
  const before = await signedIn(service, tenant)
  const forger = newForger()
  await addPasskey(before.person, { create: (publicKey) => forgeCreation(forger, publicKey), get: () => null })
  service.advance(DAY_MS)
  const owner = { ...before, person: await signInAs(service, tenant, { userId: before.userId }) }
  const session = await newSession(service, tenant, owner, { policy: askingAbove(owner, '5') })
  const { approval } = await ask(session, owner)
  const { publicKey } = expectStatus(await owner.person.get(`/approvals/${approval.id}`), 200)
  expect(publicKey.userVerification).toBe('required')
  const lies: Record<string, Lies> = {
    'no user verification': { flags: UP },
    'no user presence': { flags: UV },
    'another type': { type: 'webauthn.create' },
    'another origin': { origin: 'https://evil.example' },
    'a frame of another site': { clientData: { crossOrigin: true } },
    'another relying party': { rpId: 'evil.example' },
    'another user': { userHandle: Buffer.from('usr_00000000000000000000000000').toString('base64url') },
    'another credential': { id: Buffer.alloc(32, 1) },
    'a rawId that is not the id': { rawId: Buffer.alloc(32, 1) },
    'a signature of zeros': { signature: Buffer.from('3006020100020100', 'hex') },
  }
  for (const [name, lie] of Object.entries(lies)) {
    const credential = forgeAssertion(forger, publicKey, owner.userId, lie)
    expectError(await post(owner, approval.id, credential), 401, 'assertion_invalid', name)
  }
  await pending(owner, approval.id)
  const right = forgeAssertion(forger, publicKey, owner.userId, { signCount: 5 })
  expectStatus(await post(owner, approval.id, right), 200)
  // A counter that went back: the authenticator was copied.
  const next = await ask(session, owner, '8', 'order-2')
  const options = expectStatus(await owner.person.get(`/approvals/${next.approval.id}`), 200).publicKey
  const copied = forgeAssertion(forger, options, owner.userId, { signCount: 5 })
  expectError(await post(owner, next.approval.id, copied), 401, 'assertion_invalid')
})

test('a passkey younger than a day cannot approve, and one that a server had a part in never can', async () => {
  const { tenant, owner, session } = await asking(service)
  const { approval } = await ask(session, owner)
  const { publicKey } = expectStatus(await owner.person.get(`/approvals/${approval.id}`), 200)
  const young = await addPasskey(owner.person)
  const byServer = newAuthenticator()
  expect((await register(tenant, {}, { authenticator: byServer, headers: { 'x-user-id': owner.userId } })).status).toBe(
    200,
  )
  // Asked for by a server, completed in a browser.
  const half = newAuthenticator()
  const options = expectStatus(await tenant.post('/auth/passkey/register-options', {}, owner.asUser), 200)
  const body = { challengeId: options.challengeId, credential: half.create(options.publicKey) }
  const headers = { origin: ORIGIN }
  const verified = await call(service.url, 'POST', '/v1/auth/passkey/register-verify', {
    key: owner.person.key,
    body,
    headers,
  })
  expectStatus(verified, 200)

  const shown = expectStatus(await owner.person.get(`/approvals/${approval.id}`), 200)
  expect(shown.publicKey.allowCredentials).toEqual(publicKey.allowCredentials)
  const open = { ...publicKey, allowCredentials: [] }
  for (const authenticator of [young, byServer, half])
    expectError(await post(owner, approval.id, authenticator.get(open)), 403, 'passkey_cannot_approve')
  service.advance(DAY_MS - 60_000)
  const person = await signInAs(service, tenant, { userId: owner.userId })
  const later = { ...owner, person }
  for (const authenticator of [young, byServer, half])
    expectError(await post(later, approval.id, authenticator.get(open)), 403, 'passkey_cannot_approve')
})

test('a suspended user, a frozen wallet and a revoked session stop an approval', async () => {
  const { tenant, owner, session } = await asking(service)
  const { approval } = await ask(session, owner)
  const credential = await assertion(owner, approval.id)
  expectStatus(await tenant.post(`/wallets/${owner.walletId}/freeze`), 200)
  expectError(await post(owner, approval.id, credential), 409, 'wallet_frozen')
  expectStatus(await tenant.post(`/wallets/${owner.walletId}/unfreeze`), 200)
  await pending(owner, approval.id)
  expectStatus(await tenant.patch(`/users/${owner.userId}`, { status: 'suspended' }), 200)
  expect([401, 403]).toContain((await post(owner, approval.id, credential)).status)
  expectStatus(await tenant.patch(`/users/${owner.userId}`, { status: 'active' }), 200)
  const person = await signInAs(service, tenant, { userId: owner.userId })
  expectStatus(await tenant.delete(`/delegated-sessions/${session.id}`), 200)
  const late = await post({ person }, approval.id, await reassert(owner, person, approval.id, credential))
  expectError(late, 410, 'delegated_session_revoked')
  expect(await happened(tenant)).toBe(0)
})

/** The assertion from before: after a revocation nothing asks for another one. */
async function reassert(_: Owner, person: Owner['person'], id: string, credential: unknown): Promise<unknown> {
  const { publicKey, status } = expectStatus(await person.get(`/approvals/${id}`), 200)
  expect([publicKey, status]).toEqual([null, 'canceled'])
  return credential
}

test('what the transaction needs was used up meanwhile: nothing happens, and what was held is released', async () => {
  const { tenant, owner, session } = await asking(service)
  const asked = await ask(session, owner)
  const beside = await newSession(service, tenant, owner, { policy: askingAbove(owner, '100') })
  expect(expectStatus(await beside.execute({ commands: asked.commands }), 200).status).toBe('completed')
  expectError(await approve(owner, asked.approval.id), 409, 'contract_archived')
  expect(expectStatus(await owner.person.get(`/approvals/${asked.approval.id}`), 200).status).toBe('failed')
  const repeat = await session.execute({ commandId: 'order-1', commands: asked.commands })
  expectError(repeat, 409, 'contract_archived')
  const { remaining } = expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200)
  expect(remaining.spend[0]).toMatchObject({ spent: '0' })
  expect(await happened(tenant)).toBe(1)
})

test('of parallel approvals exactly one executes, and beside a refusal one of the two wins', async () => {
  const { tenant, owner, session } = await asking(service)
  const one = await ask(session, owner)
  const credential = await assertion(owner, one.approval.id)
  const answers = await Promise.all(Array.from({ length: 8 }, () => post(owner, one.approval.id, credential)))
  for (const answer of answers) expect(expectStatus(answer, 200).status).toBe('executed')
  expect(await happened(tenant)).toBe(1)
  let expected = 1
  for (let round = 0; round < 5; round += 1) {
    const asked = await ask(session, owner, '6', `round-${round}`)
    const assertionOf = await assertion(owner, asked.approval.id)
    const [approved, denied] = await Promise.all([
      post(owner, asked.approval.id, assertionOf),
      owner.person.post(`/approvals/${asked.approval.id}/deny`, {}),
    ])
    expect([approved.status, denied.status].sort()).toEqual([200, 409])
    expected += approved.status === 200 ? 1 : 0
    expect(await happened(tenant)).toBe(expected)
  }
})

test('of parallel requests by one rule one asks, and the others are told of it', async () => {
  const { tenant, owner, session } = await asking(service)
  const ids: string[] = []
  for (let n = 0; n < 6; n += 1) ids.push(await owner.receive('7'))
  const answers = await Promise.all(
    ids.map((id, n) => session.execute({ commandId: `order-${n}`, commands: [transfer(id)] })),
  )
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409, 409, 409])
  for (const answer of answers.filter(({ status }) => status === 409)) expectError(answer, 409, 'approval_pending')
  expect((await tenant.get('/approvals')).body.total).toBe(1)
  const { remaining } = expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200)
  expect(remaining.spend[0]).toMatchObject({ spent: '7' })
  // The same under an idempotency key: nothing is left of the refused ones.
  const again = await session.execute(
    { commands: [transfer(ids[0] as string)] },
    { headers: { 'idempotency-key': 'k1' } },
  )
  expectError(again, 409, 'approval_pending')
  expect((await tenant.get('/transactions')).body.total).toBe(1)
})

test('the command id asks for these commands only', async () => {
  const { owner, session } = await asking(service)
  await ask(session, owner)
  const other = await session.execute({ commandId: 'order-1', commands: [transfer(await owner.receive('9'))] })
  expectError(other, 409, 'duplicate_command')
})

test('a row that somebody changed in the database is refused, and nothing is executed', async () => {
  const set = {
    status: "'executed'",
    document: `replace(document::text, '"7"', '"1"')::json`,
    recipients: "array['mallory']",
    user_id: "'usr_00000000000000000000000000'",
    expires_at: "expires_at + interval '9 days'",
    rule: "'requireApproval[1]'",
  }
  for (const [column, value] of Object.entries(set)) {
    const { tenant, owner, session } = await asking(service)
    const { approval } = await ask(session, owner)
    const credential = await assertion(owner, approval.id)
    await service.sql(`update approvals set ${column} = ${value} where tenant_id = $1`, [tenant.tenantId])
    expectError(await post(owner, approval.id, credential), 500, 'record_tampered', column)
    expectError(await tenant.get(`/approvals/${approval.id}`), 500, 'record_tampered', column)
    expect(await happened(tenant)).toBe(0)
  }
})

test('a passkey whose time to approve was changed in the database approves nothing', async () => {
  const { tenant, owner, session } = await asking(service)
  const { approval } = await ask(session, owner)
  const credential = await assertion(owner, approval.id)
  await service.sql(`update passkeys set approves_at = approves_at - interval '1 day' where tenant_id = $1`, [
    tenant.tenantId,
  ])
  expectError(await post(owner, approval.id, credential), 500, 'record_tampered')
  expect(await happened(tenant)).toBe(0)
})

test('input of the wrong form is refused, and hostile text stays text', async () => {
  const { owner, session } = await asking(service)
  const { approval, commands } = await ask(session, owner)
  for (const body of [{}, { credential: null }, { credential: {} }, { credential: 'x' }, { status: 'executed' }])
    expectError(await owner.person.post(`/approvals/${approval.id}/approve`, body), 400, 'validation_failed')
  for (const body of [{ reason: 5 }, { reason: 'x'.repeat(501) }, { status: 'denied' }])
    expectError(await owner.person.post(`/approvals/${approval.id}/deny`, body), 400, 'validation_failed')
  const reason = `<img src=x onerror=alert(1)>\u202e"'&`
  expectStatus(await owner.person.post(`/approvals/${approval.id}/deny`, { reason }), 200)
  const answer = await session.execute({ commandId: 'order-1', commands })
  expectError(answer, 403, 'approval_denied')
  expect(answer.body.details[0].reason).toBe(reason)
  expect((await holdingsOf(session)).length).toBe(1)
})

test('a transaction that would do something else than the document says is not signed', async () => {
  for (const [what, lie] of [
    ['"amount":"7"', '"amount":"1"'],
    ['"effectsHash":"', '"effectsHash":"00'],
    ['"commandsHash":"', '"commandsHash":"00'],
    ['"recipients":["bob', '"recipients":["rob'],
  ]) {
    const { tenant, owner, session } = await asking(service)
    const asked = await ask(session, owner)
    // As if it had been asked for that, and what the commands do had changed since.
    await service.sql(`update approvals set document = replace(document::text, $2, $3)::json where tenant_id = $1`, [
      tenant.tenantId,
      what,
      lie,
    ])
    await service.recode(tenant.tenantId)
    expectError(await approve(owner, asked.approval.id), 409, 'approval_outdated', what)
    expect(await happened(tenant)).toBe(0)
    const repeat = await session.execute({ commandId: 'order-1', commands: asked.commands })
    expectError(repeat, 409, 'approval_outdated')
    const { remaining } = expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200)
    expect(remaining.spend[0]).toMatchObject({ spent: '0' })
  }
})
