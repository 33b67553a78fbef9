import { generateKeyPairSync } from 'node:crypto'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { makeAuthority, type TestCertificate } from '../../../platform/egress/certificates.fixture.ts'
import { createUser, deliveriesIn } from '../../engine/delivery.fixture.ts'

const authority = makeAuthority('Test root')
const trusted = getCACertificates('default')
/** The common names of the clients that sent something, by path. */
const clients = new Map<string, string>()
let service: Service
let url: string

const server = createServer(
  { ...authority.issue(['127.0.0.1']), ca: authority.ca, requestCert: true, rejectUnauthorized: true },
  (request, response) => {
    clients.set(request.url ?? '', String((request.socket as TLSSocket).getPeerCertificate().subject.CN))
    response.end()
  },
)
beforeAll(async () => {
  // What the operator's NODE_EXTRA_CA_CERTS does for a process.
  setDefaultCACertificates([...trusted, authority.ca])
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1h' })
})
afterAll(async () => {
  await service.stop()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  setDefaultCACertificates(trusted)
})

const inputOf = ({ cert, key }: TestCertificate) => ({ certificate: cert, privateKey: key })

const create = (tenant: Tenant, clientCertificate: unknown, path = '') =>
  tenant.post('/webhooks', { url: url + path, events: ['user.created'], clientCertificate })

describe.concurrent('a client certificate', () => {
  test('is what deliveries show an endpoint that asks for one; a new one replaces it', async () => {
    const tenant = await service.newTenant()
    const made = await create(tenant, inputOf(authority.issue(['client-of-ada'])), '/ada')
    expect(made.status).toBe(201)
    const { id } = made.body.data
    await createUser(tenant)
    await deliveriesIn(tenant, id, 'succeeded')
    expect(clients.get('/ada')).toBe('client-of-ada')
    const renewed = inputOf(authority.issue(['renewed']))
    expect((await tenant.patch(`/webhooks/${id}`, { clientCertificate: renewed })).status).toBe(200)
    await createUser(tenant)
    await deliveriesIn(tenant, id, 'succeeded', 2)
    expect(clients.get('/ada')).toBe('renewed')
    expect((await tenant.patch(`/webhooks/${id}`, { clientCertificate: null })).body.data.clientCertificate).toBeNull()
    const tested = await tenant.post(`/webhooks/${id}/test`)
    expect(tested.body.data).toMatchObject({ status: 'failed', attempts: [{ statusCode: null }] })
  })

  test('is shown by subject, fingerprint and expiry; its key is sealed', async () => {
    const tenant = await service.newTenant()
    const pair = authority.issue(['shown'])
    const made = await create(tenant, inputOf(pair))
    expect(made.body.data.clientCertificate).toEqual({
      subject: 'CN=shown',
      fingerprint: expect.stringMatching(/^([0-9A-F]{2}:){31}[0-9A-F]{2}$/),
      expiresAt: expect.stringMatching(/^\d{4}-.*Z$/),
    })
    const secret = pair.key.split('\n')[1] as string
    expect((await tenant.get(`/webhooks/${made.body.data.id}`)).text).not.toContain(secret)
    const [row] = await service.sql<{ text: string }>('select w::text from webhooks w where id = $1', [
      made.body.data.id,
    ])
    expect(JSON.stringify(row)).not.toContain(Buffer.from(secret).toString('hex'))
    expect(service.logs()).not.toContain(secret)
    // What is shown is no input.
    const again = await tenant.patch(`/webhooks/${made.body.data.id}`, {
      clientCertificate: made.body.data.clientCertificate,
    })
    expect(again.status).toBe(400)
  })

  const pair = authority.issue(['a'])
  const large = generateKeyPairSync('rsa', { modulusLength: 4_608 })
  const locked = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' },
  })
  test.each([
    [
      'the key of another',
      { certificate: pair.cert, privateKey: authority.issue(['b']).key },
      'privateKey',
      'key_mismatch',
    ],
    ['an expired certificate', inputOf(authority.issue(['old'], -1_000)), 'certificate', 'certificate_expired'],
    ['no certificate in it', { certificate: 'x', privateKey: pair.key }, 'certificate', 'invalid'],
    ['a key instead of a certificate', { certificate: pair.key, privateKey: pair.key }, 'certificate', 'invalid'],
    ['a certificate instead of a key', { certificate: pair.cert, privateKey: pair.cert }, 'privateKey', 'invalid'],
    ['a locked key', { certificate: pair.cert, privateKey: locked.privateKey }, 'privateKey', 'invalid'],
    [
      'a key that takes long to sign with',
      { certificate: pair.cert, privateKey: large.privateKey.export({ type: 'pkcs8', format: 'pem' }) },
      'privateKey',
      'invalid',
    ],
    [
      'a broken chain',
      {
        certificate: `${pair.cert}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n`,
        privateKey: pair.key,
      },
      'certificate',
      'invalid',
    ],
  ])('with %s is 400, and names the field', async (_, input, field, code) => {
    const tenant = await service.newTenant()
    const refused = await create(tenant, input)
    expect([refused.status, refused.body.code]).toEqual([400, 'validation_failed'])
    expect(refused.body.details[0]).toMatchObject({ field: `clientCertificate.${field}`, code })
    expect(refused.text).not.toContain('BEGIN')
    expect((await tenant.get('/webhooks')).body.total).toBe(0)
  })

  test('needs https: an endpoint over http is 400, also when it comes later', async () => {
    const tenant = await service.newTenant()
    const body = { url: 'http://127.0.0.1:8099/', events: ['*'], clientCertificate: inputOf(pair) }
    const refused = await tenant.post('/webhooks', body)
    expect([refused.status, refused.body.details[0].field]).toEqual([400, 'clientCertificate'])
    const { id } = (await create(tenant, inputOf(pair))).body.data
    const moved = await tenant.patch(`/webhooks/${id}`, { url: body.url })
    expect([moved.status, moved.body.details[0].field]).toEqual([400, 'clientCertificate'])
    // Its key is never sent, so it goes along to another host.
    expect((await tenant.patch(`/webhooks/${id}`, { url: 'https://other.example.com/' })).status).toBe(200)
  })
})

test('a client certificate that expires later fails the attempt, says so, and sends nothing', async () => {
  const tenant = await service.newTenant()
  // It is taken by a process whose clock is behind, and has expired by the time of the database, which counts when it is sent.
  service.advance(-60_000)
  const made = await create(tenant, inputOf(authority.issue(['short'], -1_000)), '/short')
  service.advance(60_000)
  expect(made.status).toBe(201)
  const { data } = (await tenant.post(`/webhooks/${made.body.data.id}/test`)).body
  expect(data).toMatchObject({
    status: 'failed',
    attempts: [{ statusCode: null, error: 'tls: the client certificate has expired', responseSnippet: null }],
  })
  expect(clients.has('/short')).toBe(false)
})
