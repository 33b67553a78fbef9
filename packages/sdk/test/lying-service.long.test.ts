import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createSharedWallet, executeShared, releaseKey, reshare, ShareError } from '../../keys/src/index.ts'
import { type Service, startService } from '../../server/test/harness/harness.ts'
import { createClient, type HalfkeyClient } from '../src/client.ts'
import { transfer, upTo } from './delegating.ts'

let service: Service
let client: HalfkeyClient
let clientOf: (tokens: { accessToken?: string; delegateToken?: string }) => HalfkeyClient
beforeAll(async () => {
  service = await startService({ HALFKEY_RATE_LIMITS: 'off' })
  const { key: apiKey } = await service.newTenant()
  clientOf = (tokens) => createClient({ baseUrl: `${service.url}/v1`, apiKey, pin: service.running.pin, ...tokens })
  client = clientOf({})
})
afterAll(() => service.stop())

// biome-ignore lint/suspicious/noExplicitAny: an answer, to be changed in whichever place
type Answer = any
type Lie = (answer: Answer) => void

/** An API one of whose calls' answers is changed; of `recover` and `execute`, the first. */
function lying<Api extends object>(api: Api, group: keyof Api, method: string, lie: Lie): Api {
  const calls = api[group] as Record<string, (...given: unknown[]) => Promise<object>>
  let lied = false
  const wrapped = async (...given: unknown[]) => {
    const answer = structuredClone(await calls[method]?.(...given))
    if (!lied) lie(answer)
    lied = true
    return answer
  }
  return { ...api, [group]: { ...calls, [method]: wrapped } }
}

const flip = (hex: string): string => (hex.startsWith('0') ? '1' : '0') + hex.slice(1)
const POINT = '5866666666666666666666666666666666666666666666666666666666666666'

const newUser = async () => {
  const guest = await client.guests.create()
  return { guest, mine: clientOf({ accessToken: guest.accessToken }) }
}

const SUBJECT: [string, Lie][] = [
  ['another wallet', ({ subject }) => Object.assign(subject, { walletId: 'wal_01jb2m7x9kq4t8v6w0r3s5y1zc' })],
  ['another generation', ({ subject }) => Object.assign(subject, { generation: 7 })],
  ['another challenge', ({ subject }) => Object.assign(subject, { challengeId: 'chl_01jb2m7x9kq4t8v6w0r3s5y1zc' })],
]

describe('a service that lies during key generation is detected, and the user gets no wallet:', () => {
  const lies: [string, string, Lie][] = [
    ...SUBJECT.map(([name, lie]) => ['startDkg', name, lie] as [string, string, Lie]),
    ['startDkg', 'another index', ({ round1 }) => Object.assign(round1, { index: 2 })],
    ['startDkg', 'another commitment', ({ round1 }) => round1.commitments.splice(1, 1, POINT)],
    ['startDkg', 'a missing commitment', ({ round1 }) => round1.commitments.pop()],
    [
      'startDkg',
      'a wrong proof',
      ({ round1 }) => Object.assign(round1, { proofOfKnowledge: flip(round1.proofOfKnowledge) }),
    ],
    [
      'startDkg',
      'another transcript',
      (answer) => Object.assign(answer, { transcriptHash: flip(answer.transcriptHash) }),
    ],
    ['dkgRound2', 'no part', (answer) => answer.sealedSubshares.pop()],
    ['dkgRound2', 'parts mixed up', ({ sealedSubshares: [a, b] }) => ([a.ct, b.ct] = [b.ct, a.ct])],
    ['confirmDkg', 'another key', ({ wallet }) => Object.assign(wallet, { publicKey: POINT })],
    ['confirmDkg', 'another party', ({ wallet }) => Object.assign(wallet, { partyId: `x::1220${'e'.repeat(64)}` })],
    ['confirmDkg', 'no party of a key', ({ wallet }) => Object.assign(wallet, { partyId: 'x' })],
  ]
  for (const [method, name, lie] of lies)
    test(`${method}: ${name}`, async () => {
      const { mine } = await newUser()
      const failed = createSharedWallet(lying(mine, 'mpc', method, lie))
      await expect(failed).rejects.toBeInstanceOf(ShareError)
    })
})

describe('a service that lies when a transaction is signed', () => {
  test('gets no signature for another transaction than the requested one', async () => {
    const { guest, mine } = await newUser()
    const { device } = await createSharedWallet(mine)
    const dripped = await client.dev.faucet({ userId: guest.userId, symbol: 'USDX', amount: '5' })
    const { id: sessionId, token } = await mine.delegatedSessions.create({ policy: upTo('50', dripped) })
    const delegate = clientOf({ delegateToken: token })
    const other = (change: (document: Answer) => object) => (answer: Answer) => {
      const request = answer.signingRequest
      const document = JSON.parse(Buffer.from(request.preparedTransaction, 'base64').toString())
      const bytes = Buffer.from(JSON.stringify({ ...document, ...change(document) }))
      Object.assign(request, { preparedTransaction: bytes.toString('base64') })
    }
    const effect = { type: 'archived', command: 0, contractId: 'another', templateId: 'Token:Holding', choice: null }
    const changed = (effects: Answer[], type: string, more: object) =>
      effects.map((each) => (each.type === type ? { ...each, arguments: { ...each.arguments, ...more } } : each))
    const changes: ((document: Answer) => object)[] = [
      () => ({ commands: [transfer(dripped.contractId, '5')] }),
      () => ({ commands: [] }),
      () => ({ commandId: 'another' }),
      () => ({ tenantId: 'ten_01jb2m7x9kq4t8v6w0r3s5y1zc' }),
      () => ({ actAs: `x::1220${'e'.repeat(64)}` }),
      () => ({ actAs: undefined }),
      () => ({ expiresAt: '2099-01-01T00:00:00.000Z' }),
      () => ({ expiresAt: 'soon' }),
      ({ effects }) => ({ effects: [...effects, effect] }),
      ({ effects }) => ({ effects: effects.map((each: object) => ({ ...each, command: 1 })) }),
      ({ effects }) => ({ effects: [...effects, effects.find(({ type }: Answer) => type === 'exercised')] }),
      ({ effects }) => ({ effects: changed(effects, 'exercised', { receiver: `mallory::1220${'e'.repeat(64)}` }) }),
      ({ effects }) => ({ effects: changed(effects, 'exercised', { amount: '5' }) }),
      ({ effects }) => ({ effects: changed(effects, 'created', { owner: `mallory::1220${'e'.repeat(64)}` }) }),
      ({ effects }) => ({ effects: effects.filter(({ type }: { type: string }) => type !== 'exercised') }),
    ]
    for (const change of changes) {
      const api = lying(delegate, 'delegatedSessions', 'execute', other(change))
      const failed = executeShared(api, { sessionId, held: device, commands: [transfer(dripped.contractId, '1')] })
      await expect(failed, String(change)).rejects.toMatchObject({ code: 'protocol_violated' })
    }
  })
})

describe('a service that lies during resharing is detected before the old shares are replaced:', () => {
  const lies: [string, string, Lie][] = [
    ...SUBJECT.map(([name, lie]) => ['challenge', name, lie] as [string, string, Lie]),
    ['recover', 'no dealing', (answer) => Object.assign(answer, { dealings: [] })],
    ['recover', 'another commitment', ({ dealings: [one] }) => one.commitments.splice(1, 1, POINT)],
    ['recover', 'another share dealt', ({ dealings: [one] }) => one.commitments.splice(0, 1, POINT)],
    ['recover', 'a wrong proof', ({ dealings: [one] }) => Object.assign(one, { proof: flip(one.proof) })],
    [
      'recover',
      'parts mixed up',
      ({
        dealings: [
          {
            sealedSubshares: [a, b],
          },
        ],
      }) => ([a.ct, b.ct] = [b.ct, a.ct]),
    ],
    ['recover', 'one part', ({ dealings: [one] }) => one.sealedSubshares.pop()],
    [
      'recover',
      'another transcript',
      (answer) => Object.assign(answer, { transcriptHash: flip(answer.transcriptHash) }),
    ],
    [
      'recover',
      'a wrong part',
      (answer) => Object.assign(answer, { serverSignatureShare: flip(answer.serverSignatureShare) }),
    ],
    ['recover', 'no part', (answer) => Object.assign(answer, { serverSignatureShare: null })],
    ['recover', 'other nonces', ({ serverCommitments: one }) => Object.assign(one, { hiding: POINT })],
    ['recover', 'the same generation', (answer) => Object.assign(answer, { generation: 1 })],
    ['recover', 'a later generation', (answer) => Object.assign(answer, { generation: 9 })],
  ]
  test('in any of its answers', async () => {
    for (const [method, name, lie] of lies) {
      const { mine } = await newUser()
      const { device, recovery } = await createSharedWallet(mine)
      let kept = false
      const failed = reshare(lying(mine, 'mpc', method, lie), [recovery], () => {
        kept = true
      })
      const refusal: Error = await failed.then(
        () => new Error('nothing'),
        (error) => error,
      )
      expect([name, refusal.name, kept]).toEqual([name, 'ShareError', false])
      // What there was works as before.
      const renewed = await reshare(mine, [device], () => {})
      expect(renewed.device.generation).toBe(2)
    }
  }, 180_000)
})

test('a service that lies about its dealing of zero is detected before the old shares are replaced', async () => {
  const lies: Lie[] = [
    (answer) => Object.assign(answer, { dealings: [] }),
    ({ dealings: [one] }) => one.commitments.splice(0, 1, POINT),
    ({ dealings: [one] }) => one.commitments.splice(1, 1, POINT),
    ({ dealings: [one] }) => one.commitments.splice(0, 1),
    ({ dealings: [one] }) => Object.assign(one, { proof: flip(one.proof) }),
    ({ dealings: [one] }) => Object.assign(one, { from: 2 }),
    ({ dealings: [one] }) => one.sealedSubshares.pop(),
    ({ dealings }) => dealings.push(dealings[0]),
  ]
  const { mine } = await newUser()
  const { device, recovery } = await createSharedWallet(mine)
  const keep = () => {
    throw new Error('kept')
  }
  for (const lie of lies) {
    const api = lying(mine, 'mpc', 'recover', lie)
    await expect(reshare(api, [device, recovery], keep), String(lie)).rejects.toBeInstanceOf(ShareError)
  }
  await expect(reshare(mine, [device, recovery], () => {})).resolves.toMatchObject({ device: { generation: 2 } })
})

test('a service that releases another share than its own is detected', async () => {
  const lies: Lie[] = [
    (answer) => Object.assign(answer, { index: 2 }),
    (answer) => Object.assign(answer, { index: 3 }),
    (answer) => Object.assign(answer, { holder: 'recovery' }),
    (answer) => Object.assign(answer, { sealedShare: null }),
  ]
  for (const lie of lies) {
    const { mine } = await newUser()
    const { device } = await createSharedWallet(mine)
    await expect(releaseKey(lying(mine, 'mpc', 'recover', lie), device)).rejects.toBeInstanceOf(ShareError)
  }
})

test('a service that asks to sign something else, or sends an invalid part, gets no signature', async () => {
  const { guest, mine } = await newUser()
  const { device } = await createSharedWallet(mine)
  const dripped = await client.dev.faucet({ userId: guest.userId, symbol: 'USDX', amount: '9' })
  const { id: sessionId, token } = await mine.delegatedSessions.create({ policy: upTo('9', dripped) })
  const commands = [transfer(dripped.contractId, '1')]
  const other = Buffer.from('{}').toString('base64')
  const lies: Lie[] = [
    ({ signingRequest: one }) => Object.assign(one, { preparedTransaction: other }),
    ({ signingRequest: one }) => Object.assign(one, { serverSignatureShare: flip(one.serverSignatureShare) }),
    ({ signingRequest: one }) => Object.assign(one, { serverSignatureShare: null }),
    ({ signingRequest: one }) => Object.assign(one.serverCommitments, { index: 2 }),
    ({ signingRequest: one }) => Object.assign(one.serverCommitments, { index: 3 }),
    ({ signingRequest: one }) => Object.assign(one.serverCommitments, { binding: POINT }),
  ]
  for (const lie of lies) {
    const delegate = lying(clientOf({ delegateToken: token }), 'delegatedSessions', 'execute', lie)
    await expect(executeShared(delegate, { sessionId, held: device, commands })).rejects.toBeInstanceOf(ShareError)
  }
})
