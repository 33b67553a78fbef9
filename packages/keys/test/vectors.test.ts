import { createHash, createPrivateKey, createPublicKey } from 'node:crypto'
import { Aes128Gcm, Aes256Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from '@hpke/core'
import { ed25519_FROST } from '@noble/curves/ed25519.js'
import { describe, expect, test } from 'vitest'
import { Frost, Point, Scalars } from '../src/group.ts'
import * as keys from '../src/index.ts'
import { lagrange } from '../src/sharing.ts'
import { isPlainEd25519, pick } from './support.ts'

const { fromHex, toHex } = keys

describe('RFC 9591, appendix E.1: FROST(Ed25519, SHA-512)', () => {
  const secret = fromHex('7b1c33d3f5291d85de664833beb1ad469f7fb6025a0ec78b3a790c6e13a98304')
  const publicKey = fromHex('15d21ccd7ee42959562fc8aa63224c8851fb3ec85a3faf66040d380fb9738673')
  const coefficient = fromHex('178199860edd8c62f5212ee91eff1295d0d670ab4ed4506866bae57e7030b204')
  const message = fromHex('74657374')
  const shares = [
    '929dcc590407aae7d388761cddb0c0db6f5627aea8e217f4a033f2ec83d93509',
    'a91e66e012e4364ac9aaa405fcafd370402d9859f7b6685c07eed76bf409e80d',
    'd3cb090a075eb154e82fdb4b3cb507f110040905468bb9c46da8bdea643a9a02',
  ].map((scalar, at) => ({ index: at + 1, scalar: fromHex(scalar) }))
  const signers = [
    {
      index: 1,
      randomness: [
        '0fd2e39e111cdc266f6c0f4d0fd45c947761f1f5d3cb583dfcb9bbaf8d4c9fec',
        '69cd85f631d5f7f2721ed5e40519b1366f340a87c2f6856363dbdcda348a7501',
      ],
      hidingNonce: '812d6104142944d5a55924de6d49940956206909f2acaeedecda2b726e630407',
      bindingNonce: 'b1110165fc2334149750b28dd813a39244f315cff14d4e89e6142f262ed83301',
      hiding: 'b5aa8ab305882a6fc69cbee9327e5a45e54c08af61ae77cb8207be3d2ce13de3',
      binding: '67e98ab55aa310c3120418e5050c9cf76cf387cb20ac9e4b6fdb6f82a469f932',
      bindingFactor: 'f2cb9d7dd9beff688da6fcc83fa89046b3479417f47f55600b106760eb3b5603',
      sigShare: '001719ab5a53ee1a12095cd088fd149702c0720ce5fd2f29dbecf24b7281b603',
    },
    {
      index: 3,
      randomness: [
        '86d64a260059e495d0fb4fcc17ea3da7452391baa494d4b00321098ed2a0062f',
        '13e6b25afb2eba51716a9a7d44130c0dbae0004a9ef8d7b5550c8a0e07c61775',
      ],
      hidingNonce: 'c256de65476204095ebdc01bd11dc10e57b36bc96284595b8215222374f99c0e',
      bindingNonce: '243d71944d929063bc51205714ae3c2218bd3451d0214dfb5aeec2a90c35180d',
      hiding: 'cfbdb165bd8aad6eb79deb8d287bcc0ab6658ae57fdcc98ed12c0669e90aec91',
      binding: '7487bc41a6e712eea2f2af24681b58b1cf1da278ea11fe4e8b78398965f13552',
      bindingFactor: 'b087686bf35a13f3dc78e780a34b0fe8a77fef1b9938c563f5573d71d8d7890f',
      sigShare: 'bd86125de990acc5e1f13781d8e32c03a9bbd4c53539bbc106058bfd14326007',
    },
  ]
  const signature =
    '36282629c383bb820a88b71cae937d41f2f2adfcc3d02e55507e2fb9e2dd3cbe' +
    'bd9d2b0844e49ae0f3fa935161e1419aab7b47d21a37ebeae1f17d4987b3160b'

  const { commitment } = Frost.utils.generateSecretPolynomial({ min: 2, max: 3 }, secret, [
    Scalars.fromBytes(coefficient),
  ])
  const sharing: keys.Sharing = { threshold: 2, total: 3, commitments: commitment }
  const commitments = signers.map(({ index, hiding, binding }) => ({
    index,
    hiding: fromHex(hiding),
    binding: fromHex(binding),
  }))
  const signing: keys.Signing = { sharing, commitments, message }

  test('the group public key belongs to the group secret key', () => {
    expect(keys.publicKeyOf(secret)).toEqual(publicKey)
    expect(sharing.commitments[0]).toEqual(publicKey)
  })

  test('the shares are values of the polynomial, and any two give the group secret key', () => {
    for (const share of shares) {
      const value = Scalars.add(
        Scalars.fromBytes(secret),
        Scalars.mul(Scalars.fromBytes(coefficient), BigInt(share.index)),
      )
      expect(Scalars.toBytes(value)).toEqual(share.scalar)
      expect(keys.isShareOf(sharing, share)).toBe(true)
      expect(keys.verifyingShareOf(sharing, share.index)).toEqual(keys.publicKeyOf(share.scalar))
    }
    for (const [a, b] of [[1, 2] as const, [1, 3] as const, [2, 3] as const])
      expect(keys.joinShares(sharing, pick(shares, a, b))).toEqual(secret)
  })

  test.each(signers)('signer $index derives its nonces from the randomness, and commits to them', (signer) => {
    const randomness = signer.randomness.map(fromHex)
    const [share] = pick(shares, signer.index)
    const identifier = Frost.Identifier.fromNumber(signer.index)
    const drawn = Frost.commit(
      { identifier, signingShare: (share as keys.Share).scalar },
      () => randomness.shift() as Uint8Array<ArrayBuffer>,
    )
    expect(toHex(drawn.nonces.hiding)).toBe(signer.hidingNonce)
    expect(toHex(drawn.nonces.binding)).toBe(signer.bindingNonce)
    expect(toHex(drawn.commitments.hiding)).toBe(signer.hiding)
    expect(toHex(drawn.commitments.binding)).toBe(signer.binding)
  })

  test('the binding factors match sections 4.3, 4.4 and 6.1', () => {
    const sha512 = (...parts: (string | Uint8Array)[]) =>
      parts.reduce((hash, part) => hash.update(part), createHash('sha512')).digest()
    const suite = 'FROST-ED25519-SHA512-v1'
    const encoded = commitments.map(({ index, hiding, binding }) => [Scalars.toBytes(BigInt(index)), hiding, binding])
    const prefix = [publicKey, sha512(suite, 'msg', message), sha512(suite, 'com', ...encoded.flat())]
    for (const { index, bindingFactor } of signers) {
      const wide = sha512(suite, 'rho', ...prefix, Scalars.toBytes(BigInt(index)))
      const factor = Scalars.create(wide.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n))
      expect(toHex(Scalars.toBytes(factor))).toBe(bindingFactor)
    }
  })

  test.each(signers)('signer $index makes a valid part of the signature', (signer) => {
    const [share] = pick(shares, signer.index)
    const nonces = { hiding: fromHex(signer.hidingNonce), binding: fromHex(signer.bindingNonce) }
    const part = keys.signShare(signing, share as keys.Share, nonces)
    expect(part.index).toBe(signer.index)
    expect(toHex(part.value)).toBe(signer.sigShare)
    expect(keys.isSignatureShare(signing, part)).toBe(true)
  })

  test('z · B = D + ρE + λcY holds for each signer', () => {
    const R = Point.fromBytes(fromHex(signature.slice(0, 64)))
    const wide = createHash('sha512').update(R.toBytes()).update(publicKey).update(message).digest()
    const challenge = Scalars.create(wide.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n))
    for (const { index, hiding, binding, bindingFactor, sigShare } of signers) {
      const nonce = Point.fromHex(hiding).add(
        Point.fromHex(binding).multiply(Scalars.fromBytes(fromHex(bindingFactor))),
      )
      const weight = Scalars.mul(lagrange([1, 3], index), challenge)
      const verifyingShare = Point.fromBytes(keys.verifyingShareOf(sharing, index))
      const right = nonce.add(verifyingShare.multiply(weight))
      expect(Point.BASE.multiply(Scalars.fromBytes(fromHex(sigShare))).equals(right)).toBe(true)
    }
  })

  test('the parts combine to a plain Ed25519 signature', () => {
    const parts = signers.map(({ index, sigShare }) => ({ index, value: fromHex(sigShare) }))
    const made = keys.aggregate(signing, parts)
    expect(toHex(made)).toBe(signature)
    expect(keys.isSignature(made, message, publicKey)).toBe(true)
    expect(isPlainEd25519(made, message, publicKey)).toBe(true)
  })

  test('this suite signs like the library’s suite', () => {
    const [signer] = signers
    const own = ed25519_FROST.signShare(
      { identifier: ed25519_FROST.Identifier.fromNumber(1), signingShare: (shares[0] as keys.Share).scalar },
      { signers: { min: 2, max: 3 }, commitments: sharing.commitments, verifyingShares: {} },
      { hiding: fromHex(signer?.hidingNonce ?? ''), binding: fromHex(signer?.bindingNonce ?? '') },
      commitments.map(({ index, ...rest }) => ({ identifier: ed25519_FROST.Identifier.fromNumber(index), ...rest })),
      message,
    )
    expect(toHex(own)).toBe(signer?.sigShare)
  })
})

describe('RFC 9180: HPKE', () => {
  const info = fromHex('4f6465206f6e2061204772656369616e2055726e')
  const plaintext = fromHex('4265617574792069732074727574682c20747275746820626561757479')
  const aad = fromHex('436f756e742d30')
  const kem = new DhkemX25519HkdfSha256()
  const kdf = new HkdfSha256()

  /** This suite is not in appendix A, but in the vectors that the RFC's authors published with it (test-vectors.json). */
  const OURS = {
    aead: new Aes256Gcm(),
    ikmE: '2cd7c601cefb3d42a62b04b7a9041494c06c7843818e0ce28a8f704ae7ab20f9',
    ikmR: 'dac33b0e9db1b59dbbea58d59a14e7b5896e9bdf98fad6891e99d1686492b9ee',
    skRm: '497b4502664cfea5d5af0b39934dac72242a74f8480451e1aee7d6a53320333d',
    pkRm: '430f4b9859665145a6b1ba274024487bd66f03a2dd577d7753c68d7d7d00c00c',
    enc: '6c93e09869df3402d7bf231bf540fadd35cd56be14f97178f0954db94b7fc256',
    ct: 'e5d84cd531cfb583096e7cfa9641bd3079cf3a91cda813c52deb5f512be9931980a41de125a925cdad859d5b7a',
  }
  const A1 = {
    aead: new Aes128Gcm(),
    ikmE: '7268600d403fce431561aef583ee1613527cff655c1343f29812e66706df3234',
    ikmR: '6db9df30aa07dd42ee5e8181afdb977e538f5e1fec8a06223f33f7013e525037',
    skRm: '4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8',
    pkRm: '3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d',
    enc: '37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431',
    ct: 'f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a',
  }

  test.each([
    ['test-vectors.json, this suite (AES-256-GCM)', OURS],
    ['appendix A.1 (AES-128-GCM)', A1],
  ])('%s: the library derives, seals and opens as the vector says', async (_, vector) => {
    const suite = new CipherSuite({ kem, kdf, aead: vector.aead })
    const recipient = await suite.kem.deriveKeyPair(fromHex(vector.ikmR))
    expect(toHex(new Uint8Array(await suite.kem.serializePublicKey(recipient.publicKey)))).toBe(vector.pkRm)
    expect(toHex(new Uint8Array(await suite.kem.serializePrivateKey(recipient.privateKey)))).toBe(vector.skRm)
    const sender = await suite.createSenderContext({
      recipientPublicKey: recipient.publicKey,
      info,
      ekm: await suite.kem.deriveKeyPair(fromHex(vector.ikmE)),
    })
    expect(toHex(new Uint8Array(sender.enc))).toBe(vector.enc)
    expect(toHex(new Uint8Array(await sender.seal(plaintext, aad)))).toBe(vector.ct)
    const recipientKey = await suite.kem.deserializePrivateKey(fromHex(vector.skRm))
    const opened = await suite.open({ recipientKey, enc: fromHex(vector.enc), info }, fromHex(vector.ct), aad)
    expect(new Uint8Array(opened)).toEqual(plaintext)
  })

  test('a box opens with the same suite of the library, with the documented info and additional data', async () => {
    const sealed = await keys.sealTo(fromHex(OURS.pkRm), { purpose: 'recover', context: { b: 1, a: null } }, plaintext)
    const suite = new CipherSuite({ kem, kdf, aead: OURS.aead })
    const recipientKey = await suite.kem.deserializePrivateKey(fromHex(OURS.skRm))
    const opened = await suite.open(
      { recipientKey, enc: new Uint8Array(sealed.enc), info: keys.utf8('halfkey/v1/recover') },
      new Uint8Array(sealed.ct),
      keys.utf8('{"a":null,"b":1}'),
    )
    expect(new Uint8Array(opened)).toEqual(plaintext)
    expect(sealed.enc).toHaveLength(32)
  })
})

describe('RFC 8032, section 7.1: Ed25519', () => {
  const VECTORS = [
    {
      name: 'TEST 1',
      seed: '9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60',
      publicKey: 'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
      message: '',
      signature:
        'e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b',
    },
    {
      name: 'TEST 2',
      seed: '4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb',
      publicKey: '3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c',
      message: '72',
      signature:
        '92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00',
    },
    {
      name: 'TEST 3',
      seed: 'c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7',
      publicKey: 'fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025',
      message: 'af82',
      signature:
        '6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a',
    },
  ]

  test.each(VECTORS)('$name: the seed gives the public key', ({ seed, publicKey }) => {
    expect(toHex(keys.publicKeyOf(keys.scalarOfSeed(fromHex(seed))))).toBe(publicKey)
  })

  test.each(VECTORS)('$name: the signature is valid, and for nothing else', ({ message, signature, publicKey }) => {
    expect(keys.isSignature(fromHex(signature), fromHex(message), fromHex(publicKey))).toBe(true)
    expect(keys.isSignature(fromHex(signature), fromHex(`${message}00`), fromHex(publicKey))).toBe(false)
    const [other] = VECTORS.filter((vector) => vector.publicKey !== publicKey)
    expect(keys.isSignature(fromHex(signature), fromHex(message), fromHex(other?.publicKey ?? ''))).toBe(false)
  })

  test.each(VECTORS)('$name: the scalar of the seed signs with its key', ({ seed, message, publicKey }) => {
    const signed = keys.signWithScalar(fromHex(message), keys.scalarOfSeed(fromHex(seed)))
    expect(isPlainEd25519(signed, fromHex(message), fromHex(publicKey))).toBe(true)
  })

  test('any seed gives the same public key as with OpenSSL', () => {
    for (let n = 0; n < 50; n += 1) {
      const seed = crypto.getRandomValues(new Uint8Array(32))
      const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed])
      const openssl = createPublicKey(createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }))
      const { x } = openssl.export({ format: 'jwk' })
      expect(keys.toBase64Url(keys.publicKeyOf(keys.scalarOfSeed(seed)))).toBe(x)
    }
  })
})
