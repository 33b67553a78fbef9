import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, eventually, type Service, startService } from '../../../test/harness/harness.ts'
import { signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { BOB, expectStatus } from '../delegated.fixture.ts'
import {
  allowed,
  atMcp,
  authorize,
  begin,
  type Clients,
  codeOf,
  confirmed,
  connected,
  details,
  exchangeOf,
  page,
  REDIRECT,
  refreshOf,
  request,
  revocation,
  type Scene,
  startClients,
  statusOf,
  token,
  tokensOf,
} from './connect.fixture.ts'

let service: Service
let clients: Clients
beforeAll(async () => {
  ;[service, clients] = await Promise.all([startService(), startClients()])
})
afterAll(async () => {
  clients.stop()
  await service.stop()
})

const MINUTE_MS = 60_000
const scene = () => begin(service, clients)
const grantError = (answer: { status: number; body: { error: string } }) => [answer.status, answer.body.error]
const INVALID = [400, 'invalid_grant']

describe('metadata', () => {
  test('says what agents call and who gives them tokens for it, to everybody', async () => {
    const { tenant, issuer, resource } = await scene()
    const read = async (path: string) => {
      const answer = await call(service.url, 'GET', path)
      expect(answer.status, answer.text).toBe(200)
      expect(answer.headers.get('access-control-allow-origin')).toBe('*')
      return answer.body
    }
    expect(await read(`/.well-known/oauth-protected-resource/mcp/${tenant.appId}`)).toMatchObject({
      resource,
      authorization_servers: [issuer],
    })
    expect(await read(`/.well-known/oauth-authorization-server/oauth/${tenant.appId}`)).toMatchObject({
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      revocation_endpoint: `${issuer}/revoke`,
      code_challenge_methods_supported: ['S256'],
      token_endpoint_auth_methods_supported: ['none'],
      authorization_response_iss_parameter_supported: true,
      client_id_metadata_document_supported: true,
    })
  })

  test('is not there for apps that do not connect agents, and neither is anything else', async () => {
    const tenant = await service.newTenant()
    for (const appId of [tenant.appId, 'app_none', '%00']) {
      for (const path of [
        `/.well-known/oauth-protected-resource/mcp/${appId}`,
        `/.well-known/oauth-authorization-server/oauth/${appId}`,
      ])
        expectError(await call(service.url, 'GET', path), 404, 'not_found')
      expect((await call(service.url, 'GET', `/oauth/${appId}/authorize`)).status).toBe(404)
    }
    expect(grantError(await token({ service, tenant }, { grant_type: 'refresh_token' }))).toEqual(INVALID)
  })
})

describe('a user', () => {
  test('connects an agent: it gets tokens for a delegated session that is where sessions are', async () => {
    const all = await scene()
    const answer = await confirmed(all)
    expect(answer.href.startsWith(`${REDIRECT}&code=agc_`)).toBe(true)
    expect(answer.searchParams.get('state')).toBe('a state/with?all&kinds=of#text')
    expect(answer.searchParams.get('iss')).toBe(all.issuer)
    const got = await token(all, exchangeOf(all, answer.searchParams.get('code') ?? ''))
    expect(got.headers.get('cache-control')).toBe('no-store')
    expect(got.body).toMatchObject({ token_type: 'Bearer', expires_in: 900 })
    const { sessionId, access } = tokensOf(got)
    const session = expectStatus(await all.tenant.get(`/delegated-sessions/${sessionId}`), 200)
    expect(session).toMatchObject({
      name: `${new URL(all.clientId).host} (Shopping agent)`,
      status: 'active',
      serverExecute: false,
      policy: details(all)[0]?.policy,
    })
    expect((await atMcp(all, access)).status).toBe(200)
    const event = await eventually('the event', async () => {
      const { events } = expectStatus(await all.tenant.get('/events?last=50'), 200)
      return events.find(({ type }: { type: string }) => type === 'agent.connected')
    })
    expect(event.data).toMatchObject({ delegatedSessionId: sessionId, clientId: all.clientId })
  })

  test('sees who asks by its address, and every rule in words', async () => {
    const all = await scene()
    const asked = expectStatus(await page(all, 'GET', await request(all)), 200)
    expect(asked).toMatchObject({
      client: { id: all.clientId, name: 'Shopping agent', host: new URL(all.clientId).host },
      redirect: { kind: 'website', name: 'agent.example.com' },
      wallet: { partyId: all.ada.party, frozen: false },
      expiresInSeconds: 86_400,
    })
    expect(asked.words.map(({ text }: { text: string }) => text)).toContain(
      `Can spend at most 10 "USDX" (issued by ${all.ada.issuer}) in the whole session.`,
    )
  })

  test('sees which app they are sent to, and not what its address calls itself', async () => {
    const all = await scene()
    const redirect_uri = 'com.evil.app://claude.ai/cb'
    const clientId = clients.publish({ redirect_uris: [redirect_uri, 'http://127.0.0.1/cb'] })
    const shown = async (uri: string) =>
      expectStatus(await page(all, 'GET', await request(all, { client_id: clientId, redirect_uri: uri })), 200).redirect
    expect(await shown(redirect_uri)).toEqual({ kind: 'app', name: 'com.evil.app' })
    expect(await shown('http://127.0.0.1:5051/cb')).toEqual({ kind: 'device', name: '127.0.0.1' })
  })

  test('is not warned of a time that the page proposes itself', async () => {
    const all = await scene()
    const asked = JSON.stringify(details(all, '0', { expiresInSeconds: undefined }))
    const id = await request(all, { authorization_details: asked })
    const { warnings, expiresInSeconds, proposedSeconds } = expectStatus(await page(all, 'GET', id), 200)
    expect([expiresInSeconds, proposedSeconds]).toEqual([null, 7 * 86_400])
    expect(warnings.map(({ code }: { code: string }) => code)).toEqual(['cap_zero'])
  })

  test('finds the agent by the host of its client, however long its name is', async () => {
    const all = await scene()
    const clientId = clients.publish({ client_name: '🛒'.repeat(200) })
    const named = { ...all, clientId }
    const { sessionId } = await connected(named)
    const { name } = expectStatus(await all.tenant.get(`/delegated-sessions/${sessionId}`), 200)
    expect(name).toBe(`${new URL(clientId).host} (${'🛒'.repeat(80)})`)
  })

  test('gives amounts of what they hold to an agent that asks for nothing in particular', async () => {
    const all = await scene()
    const id = await request(all, { authorization_details: null })
    const asset = { issuer: all.ada.issuer, symbol: 'USDX' }
    expect(expectStatus(await page(all, 'GET', id), 200)).toMatchObject({
      policy: null,
      holdings: [{ asset, amount: '100' }],
    })
    const { redirectTo } = expectStatus(await page(all, 'POST', `${id}/connect`, allowed(all, '4')), 200)
    const code = new URL(redirectTo).searchParams.get('code') ?? ''
    const { body } = await token(all, exchangeOf(all, code))
    expect(body.authorization_details[0].policy).toEqual({
      allow: [{ templateId: 'Token:Holding', choices: ['Transfer'] }],
      query: { templateIds: ['Token:Holding'] },
      spend: [{ asset, amount: '4' }],
    })
  })

  test('lowers amount, time and recipients, and never raises any of them', async () => {
    const all = await scene()
    const id = await request(all)
    const asset = { issuer: all.ada.issuer, symbol: 'USDX' }
    const wider: [object, string][] = [
      [allowed(all, '10.0000000001'), 'spend.0.amount'],
      [allowed(all, null), 'spend.0.amount'],
      [allowed(all, '10', { expiresInSeconds: 86_401 }), 'expiresInSeconds'],
      [allowed(all, '10', { spend: [] }), 'spend'],
      [allowed(all, '10', { spend: [{ asset: { ...asset, symbol: 'EURX' }, amount: '1' }] }), 'spend.0.asset'],
      [
        allowed(all, '10', {
          spend: [
            { asset, amount: '1' },
            { asset, amount: '1' },
          ],
        }),
        'spend',
      ],
      [allowed(all, '10', { policy: { allow: [{ templateId: 'Note:Note' }] } }), 'policy'],
      [allowed(all, '10', { serverExecute: true }), 'serverExecute'],
      [allowed(all, '-1'), 'spend.0.amount'],
    ]
    for (const [body, field] of wider) {
      const answer = await page(all, 'POST', `${id}/connect`, body)
      expectError(answer, 400, 'validation_failed', field)
      expect(answer.body.details[0].field).toBe(field)
    }
    // A refusal uses nothing up.
    const lower = allowed(all, '2.5', { recipients: [BOB], expiresInSeconds: 3_600 })
    const { redirectTo } = expectStatus(await page(all, 'POST', `${id}/connect`, lower), 200)
    const { body } = await token(all, exchangeOf(all, new URL(redirectTo).searchParams.get('code') ?? ''))
    expect(body.authorization_details[0].policy).toEqual({
      allow: [
        {
          templateId: 'Token:Holding',
          actions: ['exercise'],
          where: [{ path: 'receiver', op: 'in', value: [BOB] }],
        },
      ],
      spend: [{ asset, amount: '2.5' }],
      query: { templateIds: ['Token:Holding'] },
    })
    const ends = Date.parse(body.authorization_details[0].expiresAt) - service.deps.now().getTime()
    expect(ends).toBeLessThanOrEqual(3_600_000)
  })

  test('refuses, and the agent is told so', async () => {
    const all = await scene()
    const id = await request(all)
    const { redirectTo } = expectStatus(await page(all, 'POST', `${id}/refuse`), 200)
    const { searchParams } = new URL(redirectTo)
    expect([searchParams.get('error'), searchParams.get('iss')]).toEqual(['access_denied', all.issuer])
    expectError(await page(all, 'POST', `${id}/connect`, allowed(all)), 404, 'not_found')
  })

  test('confirms with a sign-in of the last five minutes', async () => {
    const all = await scene()
    const id = await request(all)
    service.advance(6 * MINUTE_MS)
    expectError(await page(all, 'POST', `${id}/connect`, allowed(all)), 403, 'reauthentication_required')
    expectStatus(await page(await resigned(all), 'POST', `${id}/connect`, allowed(all)), 200)
  })

  test('decides once: of calls at the same time one connects, and a request ends after half an hour', async () => {
    const all = await scene()
    const id = await request(all)
    const answers = await Promise.all(Array.from({ length: 8 }, () => page(all, 'POST', `${id}/connect`, allowed(all))))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 404)).toHaveLength(7)
    expect((await all.tenant.get('/delegated-sessions')).body.total).toBe(1)
    const late = await request(all)
    service.advance(31 * MINUTE_MS)
    expectError(await page(await resigned(all), 'GET', late), 404, 'not_found')
  })

  test('of another app or tenant, or nobody, meets a request as if there were none', async () => {
    const [all, other] = await Promise.all([scene(), scene()])
    const id = await request(all)
    for (const unknown of [id, 'chl_01jb2m7x9kq4t8v6w0r3s5y1zb', '%00'])
      expectError(await page(other, 'GET', unknown), 404, 'not_found')
    for (const what of ['connect', 'refuse'])
      expectError(
        await page(other, 'POST', `${id}/${what}`, what === 'connect' ? allowed(other) : undefined),
        404,
        'not_found',
      )
    const nobody = { headers: { 'x-halfkey-app': all.tenant.appId } }
    const path = `/signin/api/agent-requests/${id}`
    expectError(await call(service.url, 'GET', path, nobody), 401, 'session_missing')
    expectError(await page(all, 'GET', id, undefined, { 'sec-fetch-site': 'cross-site' }), 403, 'origin_not_allowed')
    // There is no such endpoint for keys.
    expectError(await all.tenant.get(`/agent-requests/${id}`), 404, 'not_found')
    expectStatus(await page(all, 'GET', id), 200)
  })

  test('who does not have the whole link meets a request as if there were none, and uses nothing up', async () => {
    const all = await scene()
    const reference = await request(all)
    const [id = '', secret = ''] = reference.split('.')
    for (const wrong of [id, `${id}.`, `${id}.${secret.slice(1)}`, `${id}.${randomBytes(16).toString('base64url')}`]) {
      expectError(await page(all, 'GET', wrong), 404, 'not_found')
      expectError(await page(all, 'POST', `${wrong}/refuse`), 404, 'not_found')
      expectError(await page(all, 'POST', `${wrong}/connect`, allowed(all)), 404, 'not_found')
    }
    expectStatus(await page(all, 'POST', `${reference}/connect`, allowed(all)), 200)
  })

  test('without a wallet, or with a frozen one, connects nothing', async () => {
    const all = await scene()
    await all.tenant.post(`/wallets/${all.ada.walletId}/freeze`)
    const id = await request(all)
    expect(expectStatus(await page(all, 'GET', id), 200).wallet.frozen).toBe(true)
    expectError(await page(all, 'POST', `${id}/connect`, allowed(all)), 409, 'wallet_frozen')
  })
})

/** Ada again, who has just signed in. */
async function resigned(all: Scene): Promise<Scene> {
  return { ...all, ada: { ...all.ada, person: await signInAs(service, all.tenant, { userId: all.ada.userId }) } }
}

describe('a code', () => {
  const wrong: [string, (all: Scene) => Record<string, string>][] = [
    ['another verifier', () => ({ code_verifier: randomBytes(32).toString('base64url') })],
    ['another client', () => ({ client_id: clients.publish() })],
    ['another redirect', () => ({ redirect_uri: 'https://agent.example.com/callback' })],
  ]
  test.each(wrong)('with %s gets nothing, and its session ends', async (_, change) => {
    const all = await scene()
    const code = await codeOf(all)
    const answer = await token(all, { ...exchangeOf(all, code), ...change(all) })
    expect(grantError(answer)).toEqual(INVALID)
    expect(grantError(await token(all, exchangeOf(all, code)))).toEqual(INVALID)
    expect((await all.tenant.get('/delegated-sessions?status=revoked')).body.total).toBe(1)
  })

  test('that is used twice ends the session, and with it the tokens', async () => {
    const all = await scene()
    const code = await codeOf(all)
    const { access, refresh, sessionId } = tokensOf(await token(all, exchangeOf(all, code)))
    expect(grantError(await token(all, exchangeOf(all, code)))).toEqual(INVALID)
    expect(await statusOf(all, sessionId)).toBe('revoked')
    expectError(await atMcp(all, access), 401, 'session_invalid')
    expect(grantError(await token(all, refreshOf(all, refresh)))).toEqual(INVALID)
  })

  test('of any number at once is exchanged by one', async () => {
    const all = await scene()
    const code = await codeOf(all)
    const answers = await Promise.all(Array.from({ length: 6 }, () => token(all, exchangeOf(all, code))))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
  })

  test('counts for a minute', async () => {
    const all = await scene()
    const code = await codeOf(all)
    service.advance(61_000)
    expect(grantError(await token(all, exchangeOf(all, code)))).toEqual(INVALID)
  })

  test('of another app, or of a user who was suspended meanwhile, gets nothing', async () => {
    const [all, other] = await Promise.all([scene(), scene()])
    const code = await codeOf(all)
    const elsewhere = { ...exchangeOf(all, code), resource: other.resource }
    expect(grantError(await token(other, elsewhere))).toEqual(INVALID)
    expectStatus(await all.tenant.patch(`/users/${all.ada.userId}`, { status: 'suspended' }), 200)
    expect(grantError(await token(all, exchangeOf(all, code)))).toEqual(INVALID)
  })

  test('is for the resource that it was asked for', async () => {
    const [all, other] = await Promise.all([scene(), scene()])
    const code = await codeOf(all)
    const answer = await token(all, { ...exchangeOf(all, code), resource: other.resource })
    expect(grantError(answer)).toEqual([400, 'invalid_target'])
    tokensOf(await token(all, exchangeOf(all, code)))
  })
})

describe('a refresh token', () => {
  test('gives new tokens, and works again for a moment only, if the answer was lost', async () => {
    const all = await scene()
    const { refresh } = await connected(all)
    const first = tokensOf(await token(all, refreshOf(all, refresh)))
    const again = tokensOf(await token(all, refreshOf(all, refresh)))
    expect([again.refresh, again.access === first.access]).toEqual([first.refresh, false])
    for (const { access } of [first, again]) expect((await atMcp(all, access)).status).toBe(200)
    const next = tokensOf(await token(all, refreshOf(all, first.refresh)))
    // Its successor has been used: somebody has a copy.
    expect(grantError(await token(all, refreshOf(all, refresh)))).toEqual(INVALID)
    expect(await statusOf(all, next.sessionId)).toBe('revoked')
    expectError(await atMcp(all, next.access), 401, 'session_invalid')
    expect(grantError(await token(all, refreshOf(all, next.refresh)))).toEqual(INVALID)
  })

  test('that comes back after half a minute ends the session', async () => {
    const all = await scene()
    const { refresh, sessionId } = await connected(all)
    tokensOf(await token(all, refreshOf(all, refresh)))
    service.advance(31_000)
    expect(grantError(await token(all, refreshOf(all, refresh)))).toEqual(INVALID)
    expect(await statusOf(all, sessionId)).toBe('revoked')
  })

  test('that comes several times at once has one successor', async () => {
    const all = await scene()
    const { refresh } = await connected(all)
    const answers = await Promise.all(Array.from({ length: 6 }, () => token(all, refreshOf(all, refresh))))
    expect(new Set(answers.map((answer) => tokensOf(answer).refresh)).size).toBe(1)
  })

  test('is for its client, its app and its resource, and is not used up by others', async () => {
    const [all, other] = await Promise.all([scene(), scene()])
    const { refresh } = await connected(all)
    expect(grantError(await token(all, { ...refreshOf(all, refresh), client_id: other.clientId }))).toEqual(INVALID)
    expect(grantError(await token(other, { ...refreshOf(all, refresh), resource: other.resource }))).toEqual(INVALID)
    const elsewhere = { ...refreshOf(all, refresh), resource: other.resource }
    expect(grantError(await token(all, elsewhere))).toEqual([400, 'invalid_target'])
    tokensOf(await token(all, refreshOf(all, refresh)))
  })
})

describe('tokens', () => {
  const ends: [string, (all: Scene, sessionId: string) => Promise<unknown>][] = [
    ['the session is revoked', (all, id) => all.tenant.delete(`/delegated-sessions/${id}`)],
    ['the owner revokes it', (all, id) => all.ada.person.delete(`/delegated-sessions/${id}`)],
    ['the wallet is frozen', (all) => all.tenant.post(`/wallets/${all.ada.walletId}/freeze`)],
    ['the user is suspended', (all) => all.tenant.patch(`/users/${all.ada.userId}`, { status: 'suspended' })],
    ['all sessions are revoked', (all) => all.tenant.post(`/apps/${all.tenant.appId}/sessions/revoke-all`)],
    ['the session expires', async () => service.advance(86_400_000)],
  ]
  test.each(ends)('count no more once %s', async (_, end) => {
    const all = await scene()
    const { access, refresh, sessionId } = await connected(all)
    expect((await atMcp(all, access)).status).toBe(200)
    await end(all, sessionId)
    expectError(await atMcp(all, access), 401, 'session_invalid')
    expect(grantError(await token(all, refreshOf(all, refresh)))).toEqual(INVALID)
  })

  test('count for 15 minutes, and never longer than their session', async () => {
    const all = await scene()
    const { access } = await connected(all)
    const short = await token(all, exchangeOf(all, await codeOf(all, allowed(all, '1', { expiresInSeconds: 120 }))))
    expect(short.body.expires_in).toBeLessThanOrEqual(120)
    service.advance(15 * MINUTE_MS)
    expectError(await atMcp(all, access), 401, 'session_invalid')
  })

  test("open their app's /mcp and nothing else", async () => {
    const [all, other] = await Promise.all([scene(), scene()])
    const { access, refresh, sessionId } = await connected(all)
    const key = await all.tenant.newKey({ publishable: true })
    for (const bearer of [access, refresh]) {
      const headers = { authorization: `Bearer ${bearer}` }
      const calls = [
        call(service.url, 'GET', '/v1/delegated-sessions/me', { key, headers }),
        call(service.url, 'GET', `/v1/delegated-sessions/${sessionId}`, { key, headers }),
        call(service.url, 'GET', '/agent/api/delegated-sessions/me', { headers }),
        call(service.url, 'POST', '/mcp', { body: {}, headers }),
        atMcp(other, bearer),
      ]
      for (const answer of await Promise.all(calls)) expectError(answer, 401, 'session_invalid')
    }
    expectError(await atMcp(all, refresh), 401, 'session_invalid')
  })

  test('are refused from a page of others, and by an address that is no app', async () => {
    const all = await scene()
    const { access } = await connected(all)
    const headers = { authorization: `Bearer ${access}`, origin: 'https://evil.example' }
    const foreign = await call(service.url, 'POST', `/mcp/${all.tenant.appId}`, { body: {}, headers })
    expectError(foreign, 403, 'origin_not_allowed')
    for (const appId of ['x', 'app_none', '"', '%22', `${all.tenant.appId}x`])
      expectError(await atMcp(all, access, appId), 404, 'not_found')
  })

  test('are asked for where they are to be had', async () => {
    const all = await scene()
    const metadata = `${new URL(all.resource).origin}/.well-known/oauth-protected-resource/mcp/${all.tenant.appId}`
    const missing = await atMcp(all, null)
    expectError(missing, 401, 'session_missing')
    expect(missing.headers.get('www-authenticate')).toBe(`Bearer realm="halfkey", resource_metadata="${metadata}"`)
    const wrong = await atMcp(all, 'x')
    expect(wrong.headers.get('www-authenticate')).toContain('error="invalid_token"')
  })

  test('are in no log, and the database has neither them nor the token of their session', async () => {
    const all = await scene()
    const code = await codeOf(all)
    const { access, refresh } = tokensOf(await token(all, exchangeOf(all, code)))
    const [{ rows } = { rows: '' }] = await service.sql<{ rows: string }>(
      `select string_agg(t::text, '') as rows from agent_tokens t where tenant_id = $1`,
      [all.tenant.tenantId],
    )
    for (const secret of [code, access, refresh]) {
      expect(service.logs()).not.toContain(secret)
      expect(rows).not.toContain(secret)
      expect(rows).not.toContain(Buffer.from(secret).toString('hex'))
    }
    expect(rows).not.toContain(Buffer.from('dst_').toString('hex'))
  })

  test('of an app that stops connecting agents are not renewed', async () => {
    const all = await scene()
    const { refresh } = await connected(all)
    await all.tenant.patch(`/apps/${all.tenant.appId}`, { agents: { connect: false } })
    expect(grantError(await token(all, refreshOf(all, refresh)))).toEqual(INVALID)
    expect((await authorize(all)).status).toBe(404)
  })

  test('are deleted with their user', async () => {
    const all = await scene()
    await connected(all)
    const count = async () =>
      (await service.sql('select from agent_tokens where tenant_id = $1', [all.tenant.tenantId])).length
    expect(await count()).toBe(3)
    expectStatus(await all.tenant.delete(`/users/${all.ada.userId}`), 200)
    expect(await count()).toBe(0)
  })

  test('whose row was changed are refused', async () => {
    const all = await scene()
    const { access, refresh } = await connected(all)
    service.advance(16 * MINUTE_MS)
    await service.sql(`update agent_tokens set expires_at = expires_at + interval '1 hour' where tenant_id = $1`, [
      all.tenant.tenantId,
    ])
    expectError(await atMcp(all, access), 500, 'record_tampered')
    expectError(await token(all, refreshOf(all, refresh)), 500, 'record_tampered')
  })
})

describe('a client that disconnects', () => {
  test.each(['access', 'refresh'] as const)(
    'with its %s token ends the session, once and for all its tokens',
    async (which) => {
      const all = await scene()
      const agent = await connected(all)
      const given = { token: agent[which], client_id: all.clientId, token_type_hint: 'refresh_token' }
      for (const _ of [1, 2]) expect([(await revocation(all, given)).status]).toEqual([200])
      expect(await statusOf(all, agent.sessionId)).toBe('revoked')
      expectError(await atMcp(all, agent.access), 401, 'session_invalid')
      expect(grantError(await token(all, refreshOf(all, agent.refresh)))).toEqual(INVALID)
      const ended = await service.sql(
        `select from audit_only_entries where tenant_id = $1 and action = 'agent.connection_ended'`,
        [all.tenant.tenantId],
      )
      expect(ended).toHaveLength(1)
    },
  )

  const hindrances: [string, (all: Scene) => Promise<unknown>, (all: Scene) => Promise<unknown>][] = [
    [
      'the wallet is frozen',
      (all) => all.tenant.post(`/wallets/${all.ada.walletId}/freeze`),
      (all) => all.tenant.post(`/wallets/${all.ada.walletId}/unfreeze`),
    ],
    [
      'the user is suspended',
      (all) => all.tenant.patch(`/users/${all.ada.userId}`, { status: 'suspended' }),
      (all) => all.tenant.patch(`/users/${all.ada.userId}`, { status: 'active' }),
    ],
    [
      'no agent can connect',
      (all) => all.tenant.patch(`/apps/${all.tenant.appId}`, { agents: { connect: false } }),
      (all) => all.tenant.patch(`/apps/${all.tenant.appId}`, { agents: { connect: true } }),
    ],
  ]
  test.each(hindrances)('ends it also while %s', async (_, begin, end) => {
    const all = await scene()
    const { refresh, sessionId } = await connected(all)
    await begin(all)
    expect((await revocation(all, { token: refresh, client_id: all.clientId })).status).toBe(200)
    await end(all)
    expect(await statusOf(all, sessionId)).toBe('revoked')
    expect(grantError(await token(all, refreshOf(all, refresh)))).toEqual(INVALID)
  })

  test('cannot end what another client, app or tenant has, and learns nothing from tokens that are none', async () => {
    const [all, other] = await Promise.all([scene(), scene()])
    const { access, refresh, sessionId } = await connected(all)
    const mine = { token: refresh, client_id: all.clientId }
    expect(grantError(await revocation(all, { ...mine, client_id: other.clientId }))).toEqual(INVALID)
    for (const [at, given] of [
      [other, mine],
      [all, { ...mine, token: `${refresh}x` }],
      [all, { ...mine, token: 'x' }],
    ] as const)
      expect((await revocation(at, given)).status).toBe(200)
    expect(grantError(await revocation(all, { client_id: all.clientId }))).toEqual([400, 'invalid_request'])
    expect(grantError(await revocation(all, { ...mine, client_secret: 'x' }))).toEqual([400, 'invalid_client'])
    expect(await statusOf(all, sessionId)).toBe('active')
    expect((await atMcp(all, access)).status).toBe(200)
  })
})
