import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { generate } from 'otplib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newApiKey } from '../../src/platform/security/api-key.ts'
import { expectError } from '../harness/envelope.ts'
import { call, eventually, type Service, startService, type Tenant } from '../harness/harness.ts'
import { type Receiver, startReceiver } from '../harness/receiver.ts'

const ADMIN_KEY = newApiKey('secret')
const METRICS_TOKEN = 'a-token-for-the-scraper'
const BOT_TOKEN = '110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw'

let service: Service
let receiver: Receiver
/** Everything that opens something, and that must be found nowhere. */
const secrets = new Map<string, string>([
  ['admin key', ADMIN_KEY],
  ['metrics token', METRICS_TOKEN],
  ['bot token', BOT_TOKEN],
])
beforeAll(async () => {
  receiver = await startReceiver()
  service = await startService({
    HALFKEY_ADMIN_KEY: ADMIN_KEY,
    HALFKEY_METRICS_TOKEN: METRICS_TOKEN,
    HALFKEY_LOG_LEVEL: 'debug',
  })
  const tenant = await service.newTenant()
  secrets.set('tenant key', tenant.key)
  await useKeys(tenant)
  await useWebhooks(tenant)
  await useApps(tenant)
  await useSignIn(tenant)
  await putKeysWhereTheyDoNotBelong(tenant)
  await failInTheDatabase(tenant)
})
afterAll(async () => {
  await service.stop()
  await receiver.close()
})

async function useKeys(tenant: Tenant): Promise<void> {
  const body = { name: 'Backend', type: 'secret', scopes: ['*'] }
  const made = await tenant.post('/api-keys', body, { headers: { 'idempotency-key': 'one' } })
  const rotated = await tenant.post(`/api-keys/${made.body.data.id}/rotate`, { graceSeconds: 60 })
  const publishable = await tenant.newKey({ publishable: true })
  for (const [name, key] of [
    ['key', made.body.data.key],
    ['rotated key', rotated.body.data.key],
    ['publishable key', publishable],
  ]) {
    secrets.set(name, key)
    expect((await tenant.get('/healthz', { key })).status).toBe(200)
  }
  await tenant.delete(`/api-keys/${made.body.data.id}`)
  expect((await tenant.get('/healthz', { key: rotated.body.data.key })).status).toBe(401)
  expect(
    (await call(service.url, 'GET', '/metrics', { headers: { authorization: `Bearer ${METRICS_TOKEN}` } })).status,
  ).toBe(200)
}

async function useWebhooks(tenant: Tenant): Promise<void> {
  const made = await tenant.post(
    '/webhooks',
    { url: receiver.url, events: ['user.*'] },
    { headers: { 'idempotency-key': 'one' } },
  )
  secrets.set('webhook secret', made.body.data.secret)
  await tenant.post('/users', { name: 'Ada' })
  await receiver.count('the event of a new user', 1)
  const rotated = await tenant.post(
    `/webhooks/${made.body.data.id}/rotate`,
    {},
    { headers: { 'idempotency-key': 'two' } },
  )
  secrets.set('rotated webhook secret', rotated.body.data.secret)
  receiver.behave((_, response) => void response.socket?.destroy())
  await tenant.post(`/webhooks/${made.body.data.id}/test`, {})
}

async function useApps(tenant: Tenant): Promise<void> {
  const headers = { 'idempotency-key': 'one' }
  const made = await tenant.post('/apps', { name: 'Shop', messenger: { botToken: BOT_TOKEN } }, { headers })
  expect(made.body.data.messenger).toMatchObject({ configured: true, botId: '110201543' })
  expect(made.text).not.toContain(BOT_TOKEN)
  await tenant.patch(`/apps/${made.body.data.id}`, { messenger: { botToken: BOT_TOKEN } }, { headers })
  await tenant.patch(`/apps/${made.body.data.id}`, { messenger: { botToken: `${BOT_TOKEN} ` } })
}

/** Signs in, sets a second factor up and hands a session over, with everything that can go wrong said in between. */
async function useSignIn(tenant: Tenant): Promise<void> {
  const redirectUri = 'https://shop.example.com/signed-in'
  await tenant.patch(`/apps/${tenant.appId}`, { allowedRedirectUrls: [redirectUri] })
  const guest = await tenant.post('/guests', {}, { headers: { 'idempotency-key': 'guest' } })
  const { accessToken, refreshToken } = guest.body.data
  secrets.set('access token', accessToken).set('refresh token', refreshToken)
  const headers = { authorization: `Bearer ${accessToken}` }
  const keyed = { headers: { ...headers, 'idempotency-key': 'set-up' } }
  const setup = await tenant.post('/mfa/setup', {}, keyed)
  const { secret } = setup.body.data
  secrets.set('TOTP secret', secret)
  const verified = await tenant.post('/mfa/verify-setup', { code: await generate({ secret }) }, keyed)
  for (const code of verified.body.data.recoveryCodes) secrets.set(`recovery code ${code.slice(0, 4)}`, code)
  const made = await call(service.url, 'POST', '/signin/api/code', {
    body: { redirectUri, codeChallenge: createHash('sha256').update('v'.repeat(43)).digest('base64url') },
    headers: { ...headers, 'x-halfkey-app': tenant.appId },
  })
  const { code } = made.body.data
  secrets.set('sign-in code', code)
  expect((await tenant.post('/auth/exchange', { code, codeVerifier: 'w'.repeat(43), redirectUri })).status).toBe(400)
  for (const token of [accessToken, refreshToken, code]) {
    await tenant.get(`/users/${token}`, { headers: { ...headers, 'x-request-id': token, 'user-agent': token } })
    await tenant.post('/auth/refresh', { refreshToken: `${token}x` }, { headers: { 'user-agent': token } })
    await tenant.get('/auth/sessions', { headers: { 'x-user-id': token } })
    await call(service.url, 'GET', `/signin?app=${token}&redirect_uri=${token}`)
  }
  const refreshed = await tenant.post('/auth/refresh', { refreshToken }, { headers: { 'user-agent': refreshToken } })
  secrets.set('next refresh token', refreshed.body.data.refreshToken)
}

async function putKeysWhereTheyDoNotBelong(tenant: Tenant): Promise<void> {
  const { key } = tenant
  const unknown = newApiKey('secret')
  secrets.set('unknown key', unknown)
  for (const wrong of [unknown, `${key}x`, `Bearer ${key}`]) await tenant.get('/tenant', { key: wrong })
  const headers = {
    'x-request-id': key,
    'user-agent': key,
    referer: `https://x/?k=${key}`,
    cookie: `k=${key}`,
    authorization: `Bearer ${key}`,
    origin: `https://${key.toLowerCase()}`,
  }
  for (const [path, body] of [
    ['/users', { name: 'Eve' }],
    ['/api-keys', { name: 'x', type: 'secret', scopes: ['*'] }],
    ['/apps', { name: 'x' }],
  ] as const)
    await tenant.post(path, body, { headers: { ...headers, 'idempotency-key': key } })
  await tenant.patch('/tenant', { name: 'Other' }, { headers })
  for (const path of [
    `/users/${key}`,
    `/users?search=${key}`,
    `/users?${key}=1`,
    `/users?app_id=${key}`,
    `/${key}`,
    `/users/%zz${key}`,
    `/users/${key}?k=${key}`,
  ])
    await tenant.get(path, { headers })
  for (const raw of [`{"name":"${key}`, `{"name":${key}}`, `{"${key}":1}`, `{"appId":"${key}"}`, `{"email":"${key}"}`])
    await tenant.post('/users', undefined, { raw, headers })
  await call(service.url, 'GET', `/nothing/${key}`, { headers })
  await call(service.url, 'GET', `/healthz?k=${key}`, { headers })
}

async function failInTheDatabase(tenant: Tenant): Promise<void> {
  await service.sql(`create function refuse() returns trigger language plpgsql as $$
    begin raise exception 'refused: % %', new.name, new.id using detail = new.name, hint = new.name; end $$`)
  await service.sql('create trigger refuse before insert on users for each row execute function refuse()')
  const answer = await tenant.post('/users', { name: tenant.key }, { headers: { 'x-request-id': tenant.key } })
  await service.sql('drop trigger refuse on users')
  expect([answer.status, answer.body.details.length]).toEqual([500, 1])
  expectError(answer, 500, 'internal_error')
  expect(answer.text).not.toContain('refused')
}

/** A secret in the forms in which it might stand somewhere. */
function formsOf(secret: string): string[] {
  const core = secret.replace(/^(hk_(?:[sp]k|rt|sc)_|whsec_)/, '')
  const raw = secret.startsWith('whsec_')
    ? [Buffer.from(core, 'base64').toString('latin1'), Buffer.from(core, 'base64').toString('hex')]
    : []
  return [
    core,
    Buffer.from(secret).toString('hex'),
    Buffer.from(secret).toString('base64').replace(/=+$/, ''),
    JSON.stringify(core).slice(1, -1),
    ...raw,
  ]
}

function expectNoSecret(text: string, where: string): void {
  for (const [name, secret] of secrets)
    for (const form of formsOf(secret))
      expect(
        text.includes(form),
        `${name} stands in ${where}: …${text.slice(Math.max(0, text.indexOf(form) - 200), text.indexOf(form))}`,
      ).toBe(false)
}

test('no log line holds a key, a token, a code, a webhook or TOTP secret, a bot token', async () => {
  const logs = await eventually(
    'the log of the failure',
    async () => service.logs().includes('request failed') && service.logs(),
  )
  expect(logs.split('\n').length).toBeGreaterThan(30)
  // What the log says of them instead: the test above looked at the right lines.
  expect(logs).toContain('"requestId":"[redacted]"')
  expect(logs).toMatch(/refused: \[redacted\] usr_/)
  expectNoSecret(logs, 'the log')
})

test('every request is one log line with its id, route and status, and no path, query or body', async () => {
  const answer = await service.admin.get('/users/none', { headers: { 'x-request-id': 'look-for-me' } })
  const line = await eventually('the line', async () =>
    service
      .logs()
      .split('\n')
      .find((text) => text.includes('look-for-me')),
  )
  const { time, ms, ...rest } = JSON.parse(line)
  expect(rest).toEqual({
    level: 30,
    msg: 'request',
    requestId: 'look-for-me',
    method: 'GET',
    route: '/v1/users/:id',
    status: answer.status,
    tenantId: service.admin.tenantId,
    keyId: expect.stringMatching(/^key_/),
  })
  expect(typeof ms).toBe('number')
  expect(time).toMatch(/Z$/)
})

test('no column of any table holds one', async () => {
  const tables = await service.sql<{ name: string }>(
    `select quote_ident(table_name) as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'`,
  )
  expect(tables.length).toBeGreaterThan(15)
  let filled = 0
  for (const { name } of tables) {
    const rows = await service.sql<Record<string, unknown>>(`select * from ${name}`)
    if (rows.length > 0) filled += 1
    for (const row of rows)
      for (const [column, value] of Object.entries(row)) {
        const text = Buffer.isBuffer(value)
          ? value.toString('latin1')
          : typeof value === 'string'
            ? value
            : JSON.stringify(value ?? '')
        expectNoSecret(text, `${name}.${column}`)
      }
  }
  expect(filled).toBeGreaterThan(8)
})

test('the files of the process hold none', async () => {
  for (const name of readdirSync(service.dataDir, { recursive: true, encoding: 'utf8' })) {
    const path = join(service.dataDir, name)
    if (statSync(path).isFile()) expectNoSecret(readFileSync(path, 'latin1'), path)
  }
})
