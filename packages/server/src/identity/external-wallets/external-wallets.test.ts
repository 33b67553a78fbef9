import { createPrivateKey, createPublicKey, generateKeyPairSync, sign as signBytes } from 'node:crypto'
import { secp256k1 } from '@noble/curves/secp256k1.js'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newAuthenticator, register } from '../../../test/harness/authenticator.ts'
import { expectError } from '../../../test/harness/envelope.ts'
import {
  type Answer,
  type CallOptions,
  type Service,
  startService,
  type Tenant,
} from '../../../test/harness/harness.ts'
import { eventsOf, newApp, personOf, publishableKey, signInAs } from '../sessions/sessions.fixture.ts'
import { addressOf, readAddress } from './address.ts'
import { isSignedBy, personalHash, signerOf } from './proof.ts'

const ORIGIN = 'https://shop.example.com'
const ALL = { types: ['eip4361', 'ed25519'], chainIds: [1, 8453] }

let service: Service
let tenant: Tenant
let key: string
beforeAll(async () => {
  service = await startService()
  tenant = await newShop()
  key = await publishableKey(tenant)
})
afterAll(async () => {
  await service.stop()
})

async function newShop(externalWallets: object = ALL): Promise<Tenant> {
  const made = await service.newTenant()
  const answer = await made.patch(`/apps/${made.appId}`, {
    allowedOrigins: [ORIGIN, 'http://localhost:3000'],
    externalWallets,
  })
  expect(answer.status, answer.text).toBe(200)
  return made
}

/** Somebody's key outside of Halfkey, which signs a text as their wallet does. */
interface Wallet {
  asks: object
  subject: string
  sign(message: string): string
}

function ethereum(secret = secp256k1.utils.randomSecretKey()): Wallet {
  const subject = addressOf(secp256k1.getPublicKey(secret, false))
  return {
    asks: { type: 'eip4361', address: subject.toLowerCase() },
    subject,
    sign(message) {
      const recovered = secp256k1.sign(personalHash(Buffer.from(message)), secret, {
        prehash: false,
        format: 'recovered',
      })
      return `0x${Buffer.from([...recovered.subarray(1), 27 + (recovered[0] as number)]).toString('hex')}`
    },
  }
}

function ed25519(): Wallet {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const subject = Buffer.from(publicKey.export({ format: 'jwk' }).x as string, 'base64url').toString('hex')
  return {
    asks: { type: 'ed25519', publicKey: subject },
    subject,
    sign: (message) => signBytes(null, Buffer.from(message), privateKey).toString('base64'),
  }
}

const BOTH = [
  ['an Ethereum account', ethereum],
  ['an Ed25519 key', ed25519],
] as const

const BROWSER = { headers: { origin: ORIGIN } }

const start = (wallet: Wallet, more: object = {}, options: CallOptions = {}) =>
  tenant.post('/auth/wallet/start', { ...wallet.asks, ...more }, { key, ...BROWSER, ...options })

async function ask(wallet: Wallet, more: object = {}, options: CallOptions = {}) {
  const started = await start(wallet, more, options)
  expect(started.status, started.text).toBe(200)
  return started.body.data as { challengeId: string; message: string; nonce: string; expiresAt: string }
}

const verify = (challengeId: string, signature: string, options: CallOptions = {}): Promise<Answer> =>
  tenant.post('/auth/wallet/verify', { challengeId, signature }, { key, ...BROWSER, ...options })

async function signIn(wallet: Wallet) {
  const { challengeId, message } = await ask(wallet)
  const answer = await verify(challengeId, wallet.sign(message))
  expect(answer.status, answer.text).toBe(200)
  return answer.body.data
}

async function link(person: Awaited<ReturnType<typeof signInAs>>, wallet: Wallet) {
  const { challengeId, message } = await ask(
    wallet,
    { purpose: 'link' },
    { headers: { ...person.bearer, origin: ORIGIN } },
  )
  return person.post('/auth/wallet/link', { challengeId, signature: wallet.sign(message) })
}

describe.each(BOTH)('%s', (_, newWallet) => {
  test('begins an account, and signs the same user in again', async () => {
    const wallet = newWallet()
    const first = await signIn(wallet)
    expect(first).toMatchObject({ isNewUser: true, user: { email: null, emailVerified: false } })
    const second = await signIn(wallet)
    expect(second).toMatchObject({ isNewUser: false, user: { id: first.user.id } })
    const { data } = (await tenant.get(`/users/${first.user.id}/identities`)).body
    const { type } = wallet.asks as { type: string }
    expect(data).toMatchObject([{ provider: type, issuer: null, subject: wallet.subject }])
    const told = (await eventsOf(service, tenant, 'user.signed_in')).filter(({ userId }) => userId === first.user.id)
    expect(told.map(({ method }) => method)).toEqual(['wallet', 'wallet'])
    const headers = { authorization: `Bearer ${second.accessToken}`, origin: ORIGIN }
    const { idToken } = (await tenant.post('/auth/id-token', {}, { key, headers })).body.data
    expect(decodeJwt(idToken)).toMatchObject({ sub: first.user.id, amr: ['wallet'] })
    const linked = { identityId: data[0].id, userId: first.user.id, provider: type, issuer: null }
    expect(await eventsOf(service, tenant, 'identity.linked')).toContainEqual(linked)
  })

  test('answers a challenge once, also in parallel', async () => {
    const wallet = newWallet()
    await signIn(wallet)
    const { challengeId, message } = await ask(wallet)
    const signature = wallet.sign(message)
    const answers = await Promise.all(Array.from({ length: 5 }, () => verify(challengeId, signature)))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 410, 410, 410, 410])
    expectError(await verify(challengeId, signature), 410, 'challenge_expired')
  })

  test('has five minutes', async () => {
    const wallet = newWallet()
    const { challengeId, message } = await ask(wallet)
    service.advance(5 * 60_000 + 1)
    expectError(await verify(challengeId, wallet.sign(message)), 410, 'challenge_expired')
  })

  test('is believed for its own signature of the very message alone; a wrong one uses the challenge up', async () => {
    const wallet = newWallet()
    const wrong = [
      (message: string) => newWallet().sign(message),
      (message: string) => wallet.sign(`${message} `),
      (message: string) => wallet.sign(message.replace('Sign in.', 'Sign on.')),
      () => '00'.repeat(65),
      () => '00'.repeat(64),
    ]
    for (const signatureOf of wrong) {
      const { challengeId, message } = await ask(wallet)
      expectError(await verify(challengeId, signatureOf(message)), 401, 'wallet_signature_invalid')
      expectError(await verify(challengeId, wallet.sign(message)), 410, 'challenge_expired')
    }
  })

  test('is linked by a signature that this session asked for, and then signs this user in', async () => {
    const wallet = newWallet()
    const ada = await signInAs(service, tenant)
    const linked = await link(ada, wallet)
    expect(linked.status, linked.text).toBe(201)
    expect(linked.body.data).toMatchObject({ userId: ada.userId, subject: wallet.subject })
    expect((await signIn(wallet)).user.id).toBe(ada.userId)
    const eve = await signInAs(service, tenant)
    const refused = await link(eve, wallet)
    expectError(refused, 409, 'already_exists')
    expect(refused.text).not.toContain(ada.userId)
  })

  test('is not linked by a signature for signing in, by another session, or after a long time', async () => {
    const wallet = newWallet()
    const [ada, eve] = [await signInAs(service, tenant), await signInAs(service, tenant)]
    const plain = await ask(wallet)
    const answer = { challengeId: plain.challengeId, signature: wallet.sign(plain.message) }
    expectError(await ada.post('/auth/wallet/link', answer), 404, 'not_found')
    const asked = await ask(wallet, { purpose: 'link' }, { headers: { ...ada.bearer, origin: ORIGIN } })
    expect(asked.message).toContain(`\nLink this key to the account ${ada.userId}. `)
    const signed = { challengeId: asked.challengeId, signature: wallet.sign(asked.message) }
    expectError(await eve.post('/auth/wallet/link', signed), 404, 'not_found')
    expectError(await verify(signed.challengeId, signed.signature), 404, 'not_found')
    service.advance(6 * 60_000)
    expectError(await ada.post('/auth/wallet/link', signed), 410, 'challenge_expired')
    const late = await start(wallet, { purpose: 'link' }, { headers: { ...ada.bearer, origin: ORIGIN } })
    expectError(late, 403, 'reauthentication_required')
  })

  test('of one app or tenant is nobody in another', async () => {
    const wallet = newWallet()
    const { user } = await signIn(wallet)
    const appId = await newApp(tenant, { allowedOrigins: [ORIGIN], externalWallets: ALL })
    const otherKey = await publishableKey(tenant, appId)
    const { challengeId, message } = await ask(wallet)
    const signature = wallet.sign(message)
    expectError(await verify(challengeId, signature, { key: otherKey }), 404, 'not_found')
    const foreign = await newShop()
    const body = { challengeId, signature }
    expectError(await foreign.post('/auth/wallet/verify', body), 404, 'not_found')
    const there = await ask(wallet, {}, { key: otherKey })
    const signedIn = await verify(there.challengeId, wallet.sign(there.message), { key: otherKey })
    expect(signedIn.body.data.isNewUser).toBe(true)
    expect(signedIn.body.data.user.id).not.toBe(user.id)
  })

  test('reaches nothing that a passkey of the account protects, and is not removed as the last way in', async () => {
    const wallet = newWallet()
    const personBy = async () => {
      const { user, ...tokens } = await signIn(wallet)
      return personOf(service.url, key, { userId: user.id, appId: tenant.appId }, tokens)
    }
    const first = await personBy()
    const [identity] = (await first.get('/auth/identities')).body.data
    expectError(await first.delete(`/auth/identities/${identity.id}`), 409, 'last_sign_in_method')
    const added = await register(
      { url: service.url, key },
      {},
      { authenticator: newAuthenticator(), headers: first.bearer },
    )
    expect(added.status, added.text).toBe(200)
    const weak = await personBy()
    expectError(await weak.delete(`/auth/identities/${identity.id}`), 403, 'stronger_sign_in_required')
    const linking = await start(newWallet(), { purpose: 'link' }, { headers: { ...weak.bearer, origin: ORIGIN } })
    expectError(linking, 403, 'stronger_sign_in_required')
  })

  test('signs nobody in, and is no way in, once the app has turned it off', async () => {
    const own = await newShop()
    const ownKey = await publishableKey(own)
    const wallet = newWallet()
    const { challengeId, message } = await ask(wallet, {}, { key: ownKey })
    await own.patch(`/apps/${own.appId}`, { externalWallets: { types: [] } })
    const answer = await verify(challengeId, wallet.sign(message), { key: ownKey })
    expectError(answer, 404, 'external_wallets_disabled')
    expectError(await start(wallet, {}, { key: ownKey }), 404, 'external_wallets_disabled')
    await own.patch(`/apps/${own.appId}`, { externalWallets: { ...ALL, signUp: false } })
    const again = await ask(wallet, {}, { key: ownKey })
    expectError(await verify(again.challengeId, wallet.sign(again.message), { key: ownKey }), 403, 'identity_unknown')
  })
})

describe('a start', () => {
  test('makes the text of EIP-4361 for the page that asks', async () => {
    const wallet = ethereum()
    const { message, nonce, expiresAt } = await ask(wallet, { chainId: 8453 })
    const issuedAt = new Date(Date.parse(expiresAt) - 5 * 60_000).toISOString()
    expect(message).toBe(
      `shop.example.com wants you to sign in with your Ethereum account:\n${wallet.subject}\n\nSign in. This costs nothing and moves nothing.\n\nURI: ${ORIGIN}\nVersion: 1\nChain ID: 8453\nNonce: ${nonce}\nIssued At: ${issuedAt}\nExpiration Time: ${expiresAt}`,
    )
    expect(nonce).toMatch(/^[A-Za-z0-9]{8,}$/)
  })

  test('takes no page, chain or key that is not the app’s or not sound', async () => {
    const wallet = ethereum()
    const wrongCase = `${wallet.subject.slice(0, -1)}${wallet.subject.slice(-1)}`.replace(
      /[a-zA-Z](?=[^a-zA-Z]*$)/,
      (c) => (c === c.toLowerCase() ? c.toUpperCase() : c.toLowerCase()),
    )
    for (const more of [
      { origin: 'https://evil.example.com' },
      { chainId: 5 },
      { address: wrongCase },
      { publicKey: '11'.repeat(32) },
      { address: undefined },
    ])
      expectError(await start(wallet, more), 400, 'validation_failed', JSON.stringify(more))
    // Points of small order, one that is not canonical, and one that is no point.
    for (const publicKey of [
      '01'.padEnd(64, '0'),
      '0'.repeat(64),
      `ed${'f'.repeat(60)}7f`,
      `ee${'f'.repeat(60)}7f`,
      '02'.padEnd(64, '0'),
    ])
      expectError(await start(ed25519(), { publicKey }), 400, 'validation_failed', publicKey)
    const server = await tenant.post('/auth/wallet/start', wallet.asks)
    expectError(server, 400, 'validation_failed')
    expect((await tenant.post('/auth/wallet/start', { ...wallet.asks, origin: ORIGIN })).status).toBe(200)
    expectError(await start(wallet, { purpose: 'link' }), 401, 'session_missing')
  })

  test('is off by default', async () => {
    const fresh = await service.newTenant()
    const body = { ...ethereum().asks, origin: 'http://localhost:3000' }
    expectError(await fresh.post('/auth/wallet/start', body), 404, 'external_wallets_disabled')
  })
})

describe('published vectors', () => {
  test('of EIP-55', () => {
    for (const address of [
      '0x52908400098527886E0F7030069857D2E4169EE7',
      '0xde709f2102306220921060314715629080e2fb77',
      '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
      '0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359',
      '0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB',
      '0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb',
    ])
      expect(readAddress(address.toLowerCase())).toBe(address)
    expect(readAddress('0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed')).toBeUndefined()
  })

  // web3.js, documentation of `eth.accounts.sign` and `recover`.
  test('of EIP-191', () => {
    const message = Buffer.from('Some data')
    const signature = `b91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a0291c`
    expect(Buffer.from(personalHash(message)).toString('hex')).toBe(
      '1da44b586eb0729ff70a73c326926f6ed5a25f5b056e7f47fbc6e58d86871655',
    )
    const bytes = Buffer.from(signature, 'hex')
    expect(signerOf(message, bytes)).toBe('0x2c7536E3605D9C16a7a3D7b1898e529396a65c23')
    // The same signature with a high s, which every verifier of curves takes.
    const high = secp256k1.Point.Fn.ORDER - BigInt(`0x${signature.slice(64, 128)}`)
    const other = Buffer.from(`${signature.slice(0, 64)}${high.toString(16).padStart(64, '0')}1b`, 'hex')
    expect(signerOf(message, other)).toBeUndefined()
  })

  test('of RFC 8032, section 7.1', () => {
    const secret = Buffer.from('4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb', 'hex')
    const privateKey = createPrivateKey({
      key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), secret]),
      format: 'der',
      type: 'pkcs8',
    })
    const subject = '3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c'
    expect(createPublicKey(privateKey).export({ format: 'jwk' }).x).toBe(
      Buffer.from(subject, 'hex').toString('base64url'),
    )
    const signature =
      '92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00'
    expect(isSignedBy({ type: 'ed25519', subject }, 'r', signature)).toBe(true)
    expect(isSignedBy({ type: 'ed25519', subject }, 's', signature)).toBe(false)
  })
})
