import { writeFileSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { inspectConfig } from '../../src/config.ts'
import { expectStatus } from '../../src/delegation/delegated.fixture.ts'
import { checkLedgers } from '../../src/operations/doctor/ledgers.ts'
import { makeAuthority } from '../../src/platform/egress/certificates.fixture.ts'
import type { Ledger } from '../../src/platform/ports/ledger.ts'
import { readLedgers } from '../../src/wallets/ledger/configured.ts'
import { onboardWallets } from '../../src/wallets/onboarding/onboarding.ts'
import { type Service, startService } from '../harness/harness.ts'
import { newScene, pay, settingsFile, settingsOf, startCanton } from './canton.fixture.ts'
import { PARTICIPANT, SimulatedParticipant } from './participant.ts'

let participant: SimulatedParticipant
beforeAll(async () => {
  participant = await new SimulatedParticipant().start()
})
afterEach(() => participant.heal())
afterAll(() => participant.stop())

const configOf = (ledgers: string) => inspectConfig({ HALFKEY_LEDGERS: ledgers }).config
const read = (...files: string[]) => readLedgers(configOf(files.map((file) => `canton:${file}`).join(',')))

describe('HALFKEY_LEDGERS', () => {
  test('is embedded by default, and the embedded ledger is always there', async () => {
    expect(await readLedgers(inspectConfig({}).config)).toEqual(['embedded'])
    const file = settingsFile(settingsOf(participant))
    expect((await read(file)).map((each) => (each === 'embedded' ? each : each.name))).toEqual(['canton', 'embedded'])
    expect((await readLedgers(configOf(`embedded,canton:${file}`)))[0]).toBe('embedded')
  })

  test.each(['evm', 'canton', 'canton:', 'embedded,embedded', ',', 'embedded;canton:/x'])(
    'is refused as "%s"',
    (text) => {
      const { problems } = inspectConfig({ HALFKEY_LEDGERS: text })
      expect(problems.join()).toMatch(/^HALFKEY_LEDGERS must be /)
    },
  )

  test.each<[what: string, settings: object, problem: RegExp]>([
    ['without a URL', { url: undefined }, /"url"/],
    ['with a URL of another kind', { url: 'ftp://x' }, /"url": must be an http\(s\) URL/],
    ['with a password in its URL', { url: 'https://a:b@x' }, /"url"/],
    ['over plain HTTP', { url: 'http://participant.example:7575' }, /must be https/],
    [
      'with a token endpoint over plain HTTP',
      { auth: { type: 'client_credentials', tokenUrl: 'http://idp.example/t', clientId: 'a', clientSecretFile: 'b' } },
      /idp\.example.* must be https/,
    ],
    ['with another participant', { participant: 'node' }, /"participant": must be/],
    ['with another hash', { hashVersion: 'V4' }, /"hashVersion"/],
    ['named embedded', { name: 'embedded' }, /"name": must not be/],
    ['with an unknown field', { synchroniser: 'x' }, /synchroniser/],
    ['with another kind of token', { auth: { type: 'basic' } }, /"auth/],
    ['with half a certificate', { tls: { certFile: 'a' } }, /both certFile and keyFile/],
    [
      'with a registry over plain HTTP',
      {
        tokens: {
          transferFactory: `${'5a'.repeat(32)}:A:F`,
          transferInstruction: `${'5a'.repeat(32)}:A:I`,
          registries: [{ admin: `dso::1220${'d5'.repeat(32)}`, url: 'http://registry.example' }],
        },
      },
      /registry\.example must be https/,
    ],
    ['with interfaces of no package', { tokens: { transferFactory: '#name:A:F' } }, /"tokens.transferFactory"/],
    [
      'with an asset of no field',
      {
        assets: [{ templateId: `${'c0'.repeat(32)}:A:B`, issuer: 'i', owner: 'o..x', symbol: { is: '' }, amount: 'a' }],
      },
      /"assets.0.owner": must name a field.*"assets.0.symbol/,
    ],
    [
      'with an asset of no package',
      { assets: [{ templateId: 'A:B', issuer: 'i', owner: 'o', symbol: 's', amount: 'a' }] },
      /"assets.0.templateId"/,
    ],
  ])('refuses a file %s, and says why', async (_, more, problem) => {
    await expect(read(settingsFile(settingsOf(participant, more)))).rejects.toThrow(problem)
    await expect(read(settingsFile(settingsOf(participant, more)))).rejects.toThrow(/^HALFKEY_LEDGERS: /)
  })

  test('refuses files that are missing, no JSON, or of one name', async () => {
    await expect(read('/nowhere/canton.json')).rejects.toThrow(/cannot be read \(ENOENT\)/)
    const file = settingsFile({})
    writeFileSync(file, '{')
    await expect(read(file)).rejects.toThrow(/is not valid JSON/)
    const two = [settingsFile(settingsOf(participant)), settingsFile(settingsOf(participant))]
    await expect(read(...two)).rejects.toThrow(/two ledgers have the name canton/)
    const named = settingsFile(settingsOf(participant, { name: 'other' }))
    expect(await read(two[0] as string, named)).toHaveLength(3)
  })

  test('stops the start of a service whose file is wrong', async () => {
    const file = settingsFile(settingsOf(participant, { hashVersion: 'V9' }))
    await expect(startService({ HALFKEY_LEDGERS: `canton:${file}` })).rejects.toThrow(/"hashVersion"/)
  })

  test('makes its first ledger that of new wallets which name none', async () => {
    const file = settingsFile(settingsOf(participant))
    const service: Service = await startService({ HALFKEY_LEDGERS: `canton:${file}`, HALFKEY_ROLE: 'api' })
    try {
      const tenant = await service.newTenant()
      const asUser = { headers: { 'x-user-id': await tenant.userId() } }
      const made = expectStatus(await tenant.post('/users/me/wallet', {}, asUser), 201)
      expect(made).toMatchObject({ ledger: 'canton', status: 'pending' })
      const faucet = { userId: await tenant.userId(), symbol: 'USDX', amount: '1' }
      expect((await tenant.post('/dev/faucet', faucet)).status).not.toBe(500)
    } finally {
      await service.stop()
    }
  })
})

describe('halfkey doctor', () => {
  const look = async (more: object = {}) => {
    const [finding] = await checkLedgers(configOf(`canton:${settingsFile(settingsOf(participant, more))}`))
    return finding
  }

  test('says which version answers', async () => {
    expect(await look()).toMatchObject({ check: 'ledgers.canton', level: 'ok', seen: expect.stringContaining('3.5.1') })
  })

  test('finds a participant that is away, another one, one without its synchronizer, and an unknown version', async () => {
    expect(await look({ url: 'http://127.0.0.1:1' })).toMatchObject({
      level: 'problem',
      seen: expect.stringContaining('did not answer'),
    })
    participant.participantId = PARTICIPANT.replace('node', 'other')
    expect(await look()).toMatchObject({
      level: 'problem',
      seen: expect.stringContaining('The participant there is other'),
    })
    participant.heal()
    participant.synchronizers = []
    expect(await look()).toMatchObject({ level: 'problem', seen: expect.stringContaining('not connected') })
    Object.assign(participant, { synchronizers: [settingsOf(participant).synchronizer], version: '2.9.0' })
    expect(await look()).toMatchObject({ level: 'problem', seen: expect.stringContaining('2.9.0 is not supported') })
    participant.version = '3.5.1'
  })

  test('says what is wrong with a settings file', async () => {
    const [finding] = await checkLedgers(configOf('canton:/nowhere/canton.json'))
    expect(finding).toMatchObject({ check: 'ledgers', level: 'problem', seen: expect.stringContaining('/nowhere') })
  })
})

test('TLS: the participant’s certificate is checked, and the service shows its own', async () => {
  const [ours, others] = [makeAuthority('Ours'), makeAuthority('Others')]
  const node = await new SimulatedParticipant().start({
    ...ours.issue(['127.0.0.1']),
    ca: ours.ca,
    requestCert: true,
    rejectUnauthorized: true,
  })
  const own = ours.issue(['halfkey'])
  const fileOf = (text: string) => {
    const file = settingsFile({})
    writeFileSync(file, text)
    return file
  }
  const client = { certFile: fileOf(own.cert), keyFile: fileOf(own.key) }
  const look = async (tls: object) => {
    const [finding] = await checkLedgers(configOf(`canton:${settingsFile(settingsOf(node, { tls }))}`))
    return finding?.level
  }
  try {
    expect(await look({ ...client, caFile: fileOf(ours.ca) })).toBe('ok')
    expect(await look({ ...client, caFile: fileOf(others.ca) })).toBe('problem')
    expect(await look(client)).toBe('problem')
    expect(await look({ caFile: fileOf(ours.ca) })).toBe('problem')
  } finally {
    await node.stop()
  }
})

describe('the participant’s token', () => {
  test('is read from its file for each request, so that it can be replaced', async () => {
    const file = settingsFile({})
    writeFileSync(file, 'first\n')
    const service = await startCanton({ auth: { type: 'token', file } })
    try {
      service.participant.tokens = new Set(['first'])
      const tenant = await service.newTenant()
      const { session, coin } = await newScene(service, tenant)
      service.participant.tokens = new Set(['second'])
      expect((await session.execute({ commandId: 'a', commands: [pay(coin, '1')] })).status).toBe(500)
      writeFileSync(file, 'second\n')
      expectStatus(await session.execute({ commandId: 'a', commands: [pay(coin, '1')] }), 200)
      expect(service.logs()).not.toContain('second')
    } finally {
      await service.stop()
    }
  })

  test('by client credentials is requested once for all, and again when the participant refuses it', async () => {
    const secret = settingsFile({})
    writeFileSync(secret, 'hush')
    const issuer = await new SimulatedParticipant().start()
    const auth = {
      type: 'client_credentials',
      clientId: 'halfkey',
      clientSecretFile: secret,
      tokenUrl: `${issuer.url}/token`,
    }
    const service = await startCanton({ auth })
    try {
      const health = () => (service.deps.ledgers.get('canton') as Ledger).health(service.deps.db)
      service.participant.tokens = new Set(['token-1', 'token-2'])
      await Promise.all([health(), health(), health()])
      expect(issuer.tokensIssued).toBe(1)
      service.participant.tokens.delete('token-1')
      await health()
      expect(issuer.tokensIssued).toBe(2)
      service.participant.tokens.clear()
      await expect(health()).rejects.toThrow(/UNAUTHENTICATED/)
      expect(service.logs()).not.toContain('hush')
    } finally {
      await service.stop()
      await issuer.stop()
    }
  })
})

test('a wallet of another participant behind the same URL gets no party', async () => {
  const service = await startCanton()
  try {
    service.participant.participantId = PARTICIPANT.replace('node', 'other')
    const tenant = await service.newTenant()
    const asUser = { headers: { 'x-user-id': await tenant.userId() } }
    expectStatus(await tenant.post('/users/me/wallet', { ledger: 'canton' }, asUser), 201)
    await onboardWallets(service.deps)
    expect(expectStatus(await tenant.get('/users/me/wallet', asUser), 200).status).toBe('failed')
    expect(service.participant.parties.size).toBe(0)
  } finally {
    await service.stop()
  }
})
