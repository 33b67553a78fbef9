import { describe, expect, test } from 'vitest'
import { cbor } from '../forged.fixture.ts'
import { type Expected, type StoredCredential, verifyAssertion, verifyAttestation } from './ceremony.ts'

// Web Authentication Level 3, section 16: vectors of registrations and of the authentications that belong to them, in hex
// as the specification prints them. All are for the relying party `example.org` at `https://example.org`.

const silent = { debug() {}, info() {}, warn() {}, error() {} } as unknown as Expected['log']

const base64url = (hex: string) => Buffer.from(hex, 'hex').toString('base64url')

const expected = (challenge: string, change: object = {}): Expected => ({
  ceremony: {
    challenge: base64url(challenge),
    rpId: 'example.org',
    origin: null,
    userVerification: 'preferred',
    ...change,
  },
  isAllowedOrigin: (origin) => origin === 'https://example.org',
  log: silent,
})

interface Registration {
  id: string
  challenge: string
  clientDataJSON: string
  attestationObject: string
}

interface Authentication {
  challenge: string
  clientDataJSON: string
  authenticatorData: string
  signature: string
}

function register(of: Registration, change: object = {}) {
  const response = {
    clientDataJSON: base64url(of.clientDataJSON),
    attestationObject: base64url(of.attestationObject),
  }
  const id = base64url(of.id)
  return verifyAttestation({ id, rawId: id, type: 'public-key', response }, expected(of.challenge, change))
}

function authenticate(id: string, of: Authentication, stored: StoredCredential, change: object = {}) {
  const response = {
    clientDataJSON: base64url(of.clientDataJSON),
    authenticatorData: base64url(of.authenticatorData),
    signature: base64url(of.signature),
  }
  const credential = { id: base64url(id), rawId: base64url(id), type: 'public-key' as const, response }
  return verifyAssertion(credential, expected(of.challenge, change), stored)
}

/** The same hex with one bit of its last byte turned. */
const spoilt = (hex: string) =>
  hex.slice(0, -2) + (Number.parseInt(hex.slice(-2), 16) ^ 1).toString(16).padStart(2, '0')

const vectors: { name: string; aaguid: string; registration: Registration; authentication: Authentication }[] = [
  {
    name: '16.2 ES256 without attestation',
    aaguid: '8446ccb9-ab1d-b374-750b-2367ff6f3a1f',
    registration: {
      id: 'f91f391db4c9b2fde0ea70189cba3fb63f579ba6122b33ad94ff3ec330084be4',
      challenge: '00c30fb78531c464d2b6771dab8d7b603c01162f2fa486bea70f283ae556e130',
      clientDataJSON:
        '7b2274797065223a22776562617574686e2e637265617465222c226368616c6c656e6765223a22414d4d507434557878475453746e63647134313759447742466938767049612d7077386f4f755657345441222c226f726967696e223a2268747470733a2f2f6578616d706c652e6f7267222c2263726f73734f726967696e223a66616c73652c22657874726144617461223a22636c69656e74446174614a534f4e206d617920626520657874656e6465642077697468206164646974696f6e616c206669656c647320696e20746865206675747572652c207375636820617320746869733a20426b5165446a646354427258426941774a544c453551227d',
      attestationObject:
        'a363666d74646e6f6e656761747453746d74a068617574684461746158a4bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b559000000008446ccb9ab1db374750b2367ff6f3a1f0020f91f391db4c9b2fde0ea70189cba3fb63f579ba6122b33ad94ff3ec330084be4a5010203262001215820afefa16f97ca9b2d23eb86ccb64098d20db90856062eb249c33a9b672f26df61225820930a56b87a2fca66334b03458abf879717c12cc68ed73290af2e2664796b9220',
    },
    authentication: {
      challenge: '39c0e7521417ba54d43e8dc95174f423dee9bf3cd804ff6d65c857c9abf4d408',
      authenticatorData: 'bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b51900000000',
      clientDataJSON:
        '7b2274797065223a22776562617574686e2e676574222c226368616c6c656e6765223a224f63446e55685158756c5455506f334a5558543049393770767a7a59425039745a63685879617630314167222c226f726967696e223a2268747470733a2f2f6578616d706c652e6f7267222c2263726f73734f726967696e223a66616c73657d',
      signature:
        '3046022100f50a4e2e4409249c4a853ba361282f09841df4dd4547a13a87780218deffcd380221008480ac0f0b93538174f575bf11a1dd5d78c6e486013f937295ea13653e331e87',
    },
  },
  {
    name: '16.3 ES256 with self attestation',
    aaguid: 'df850e09-db6a-fbdf-ab51-697791506cfc',
    registration: {
      id: '455ef34e2043a87db3d4afeb39bbcb6cc32df9347c789a865ecdca129cbef58c',
      challenge: '7869c2b772d4b58eba9378cf8f29e26cf935aa77df0da89fa99c0bdc0a76f7e5',
      clientDataJSON:
        '7b2274797065223a22776562617574686e2e637265617465222c226368616c6c656e6765223a2265476e4374334c55745936366b336a506a796e6962506b31716e666644616966715a774c33417032392d55222c226f726967696e223a2268747470733a2f2f6578616d706c652e6f7267222c2263726f73734f726967696e223a66616c73652c22657874726144617461223a22636c69656e74446174614a534f4e206d617920626520657874656e6465642077697468206164646974696f6e616c206669656c647320696e20746865206675747572652c207375636820617320746869733a205539685458764b453255526b4d6e625f307859485667227d',
      attestationObject:
        'a363666d74667061636b65646761747453746d74a263616c672663736967584630440220067a20754ab925005dbf378097c92120031581c73228d1fb4f5b881bcd7da98302207fc7b147558c7c0eba3af18bd9d121fa3d3a26d17fe3f220272178f473b6006d68617574684461746158a4bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b55d00000000df850e09db6afbdfab51697791506cfc0020455ef34e2043a87db3d4afeb39bbcb6cc32df9347c789a865ecdca129cbef58ca5010203262001215820eb151c8176b225cc651559fecf07af450fd85802046656b34c18f6cf193843c5225820927b8aa427a2be1b8834d233a2d34f61f13bfd44119c325d5896e183fee484f2',
    },
    authentication: {
      challenge: '4478a10b1352348dd160c1353b0d469b5db19eb91c27f7dfa6fed39fe26af20b',
      authenticatorData: 'bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b50900000000',
      clientDataJSON:
        '7b2274797065223a22776562617574686e2e676574222c226368616c6c656e6765223a225248696843784e534e493352594d45314f7731476d3132786e726b634a5f6666707637546e2d4a71386773222c226f726967696e223a2268747470733a2f2f6578616d706c652e6f7267222c2263726f73734f726967696e223a66616c73652c22657874726144617461223a22636c69656e74446174614a534f4e206d617920626520657874656e6465642077697468206164646974696f6e616c206669656c647320696e20746865206675747572652c207375636820617320746869733a206754623533727a36456853576f6d58477a696d433151227d',
      signature:
        '304402203310b9431903c401f1be2bdc8d23a4007682dbbddcf846994947b7f465daf84002204e94dd00047b316061b3b99772b7efd95994a83ef584b3b6b825ea3550251b66',
    },
  },
  {
    name: '16.11 Ed25519 with an attestation of the maker',
    aaguid: 'd5aa3358-1e8c-a478-e20f-e713f5d32ff2',
    registration: {
      id: 'ce9f840ed96599580cd140fbc7bb3230633f50f61041aff73308ae71caa8a2bd',
      challenge: 'a8abf9dabdc6b0df63466b39bda9e8a34a34e185337a59f1c579990676d3b3bd',
      clientDataJSON:
        '7b2274797065223a22776562617574686e2e637265617465222c226368616c6c656e6765223a22714b763532723347734e396a526d733576616e6f6f306f303459557a656c6e7878586d5a426e6254733730222c226f726967696e223a2268747470733a2f2f6578616d706c652e6f7267222c2263726f73734f726967696e223a66616c73652c22657874726144617461223a22636c69656e74446174614a534f4e206d617920626520657874656e6465642077697468206164646974696f6e616c206669656c647320696e20746865206675747572652c207375636820617320746869733a20425f44543567375a445f2d394f544c59583549764551227d',
      attestationObject:
        'a363666d74667061636b65646761747453746d74a363616c67266373696758483046022100d83f60bd80269537583218858aefb03ac57d45fa06e42feaae332d187f62da9f022100a02bd3cb6f7e1d283c93bad1f3f4b5a4c0494463da7fdbf256949116754d1f17637835638159022730820223308201c8a003020102021100b2cfc9ea33c8643b0e1a760463eaf164300a06082a8648ce3d0403023062311e301c06035504030c15576562417574686e207465737420766563746f7273310c300a060355040a0c0357334331253023060355040b0c1c41757468656e74696361746f72204174746573746174696f6e204341310b30090603550406130241413020170d3234303130313030303030305a180f33303234303130313030303030305a305f311e301c06035504030c15576562417574686e207465737420766563746f7273310c300a060355040a0c0357334331223020060355040b0c1941757468656e74696361746f72204174746573746174696f6e310b30090603550406130241413059301306072a8648ce3d020106082a8648ce3d03010703420004dd2b7a564b73b8c0b81c4c62e521925c4d1198ec9f583dbf1eebe364b65cd9c29a9bdf346aaa81fb6b9507e5249a52fdaf8e39e26b0b7dc45992a7e233b70f70a360305e300c0603551d130101ff04023000300e0603551d0f0101ff040403020780301d0603551d0e041604140ae27546bc7eccb1b4b597bd354f0c0b1f1f8f8e301f0603551d2304183016801445aff715b0dd786741fee996ebc16547a3931b1e300a06082a8648ce3d0403020349003046022100a0d434ecb5fc3bfd7da5f41904517ad2836249f561bd834ba7a438a8ab7a4ce8022100fac845bb7a02513b58e9f319654dbe49b0f02b95835bac568c71f8a18cdde9ab6861757468446174615881bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b54100000000d5aa33581e8ca478e20fe713f5d32ff20020ce9f840ed96599580cd140fbc7bb3230633f50f61041aff73308ae71caa8a2bda401010327200621582044e06ddd331c36a8dc667bab52bcae63486c916aa5e339e6acebaa84934bf832',
    },
    authentication: {
      challenge: '895957e01c633a698348a2d8a31a54b7db27e8c1c43b2080d79ae2190267bfd2',
      authenticatorData: 'bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b50100000000',
      clientDataJSON:
        '7b2274797065223a22776562617574686e2e676574222c226368616c6c656e6765223a2269566c583442786a4f6d6d44534b4c596f7870557439736e364d48454f7943413135726947514a6e763949222c226f726967696e223a2268747470733a2f2f6578616d706c652e6f7267222c2263726f73734f726967696e223a66616c73657d',
      signature:
        'f5c59c7e46c34f6f8cc197101ddf9934fa2595f68eb1913a637e8419eb9ba4cfdfc48f85393bc0d40b011f0d6fecb097d6607525713223a0dc0d453993dae00b',
    },
  },
]

describe.each(vectors)('W3C WebAuthn L3, $name', ({ aaguid, registration, authentication }) => {
  const made = async () => {
    const credential = await register(registration)
    if (credential === null) throw new Error('not registered')
    return credential
  }

  test('the registration and the authentication by its credential are verified', async () => {
    const credential = await made()
    expect(credential).toMatchObject({ aaguid, signCount: 0 })
    expect(credential.credentialId.toString('hex')).toBe(registration.id)
    expect(await authenticate(registration.id, authentication, credential)).toMatchObject({ signCount: 0 })
  })

  test('neither is with one bit of it changed, another challenge or another relying party', async () => {
    const credential = await made()
    const { challenge } = authentication
    const changed: [Registration, object][] = [
      [{ ...registration, challenge: spoilt(registration.challenge) }, {}],
      [{ ...registration, id: spoilt(registration.id) }, {}],
      [registration, { rpId: 'example.com' }],
      [registration, { origin: 'https://example.org:8443' }],
    ]
    for (const [one, change] of changed) expect(await register(one, change)).toBeNull()
    const answers: [Authentication, object][] = [
      [{ ...authentication, challenge: spoilt(challenge) }, {}],
      [{ ...authentication, signature: spoilt(authentication.signature) }, {}],
      [{ ...authentication, authenticatorData: spoilt(authentication.authenticatorData) }, {}],
      [authentication, { rpId: 'example.com' }],
      [authentication, { origin: 'https://example.org:8443' }],
    ]
    for (const [one, change] of answers) expect(await authenticate(registration.id, one, credential, change)).toBeNull()
  })
})

test('16.2 did not verify its user, and is refused where that is required', async () => {
  const [{ registration, authentication }] = vectors as [(typeof vectors)[0]]
  const credential = await register(registration)
  const required = { userVerification: 'required' }
  expect(credential?.userVerified).toBe(false)
  expect(await register(registration, required)).toBeNull()
  expect(await authenticate(registration.id, authentication, credential as StoredCredential, required)).toBeNull()
})

test('16.3 with a wrong self attestation is refused: it proves that the credential’s key is there', async () => {
  const { registration } = vectors[1] as (typeof vectors)[0]
  const attestationObject = registration.attestationObject.replace('73b6006d', '73b6006c')
  expect(attestationObject).not.toBe(registration.attestationObject)
  expect(await register({ ...registration, attestationObject })).toBeNull()
})

test('16.10 an RS256 assertion is verified', async () => {
  // The specification's key: the product of the Mersenne primes 2^1279 - 1 and 2^2203 - 1.
  const n = ((2n ** 1279n - 1n) * (2n ** 2203n - 1n)).toString(16).padStart(872, '0')
  const publicKey = cbor(
    new Map<number, number | Uint8Array>([
      [1, 3],
      [3, -257],
      [-1, new Uint8Array(Buffer.from(n, 'hex'))],
      [-2, new Uint8Array([1, 0, 1])],
    ]),
  )
  const stored: StoredCredential = { publicKey, signCount: 0, deviceType: 'multiDevice' }
  const authentication: Authentication = {
    challenge: '295f59f5fa8fe62c5aca9e27626c78c8da376ae6d8cd2dd29aebad601e1bc4c5',
    authenticatorData: 'bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b51900000000',
    clientDataJSON:
      '7b2274797065223a22776562617574686e2e676574222c226368616c6c656e6765223a224b56395a39667150356978617970346e596d7834794e6f33617562597a5333536d75757459423462784d55222c226f726967696e223a2268747470733a2f2f6578616d706c652e6f7267222c2263726f73734f726967696e223a66616c73657d',
    signature:
      '01063d52d7c39b4d432fc7063c5d93e582bdcb16889cd71f888d67d880ea730a428498d3bc8e1ee11f2b1ecbe6c292b118c55ffaaddefa8cad0a54dd137c51f1eec673f1bb6c4d1789d6826a222b22d0f585fc901fdc933212e579d199b89d672aa44891333e6a1355536025e82b25590256c3538229b55737083b2f6b9377e49e2472f11952f79fdd0da180b5ffd901b4049a8f081bb40711bef76c62aed943571f2d0575304cb549d68d8892f95086a30f93716aee818f8dc06e96c0d5e0ed4cfa9fd8773d90464b68cf140f7986666ff9c9e3302acd0535d60d769f465e2ab57ef8aabc89fccfef7ba32a64154a8b3d26be2298f470b8cc5377dbe3dfd4b0b45f8f01e63bde6cfc76b62771f9b70aa27cf40152cad93aa5acd784fd4b90f676e2ea828d0bf2400aebbaae4153e5838f537f88b6228346782a93a899be66ec77de45b3efcf311da6321c92e6b0cd11bfe653bf3e98cee8e341f02d67dbb6f9c98d9e8178090cfb5b70fbc6d541599ac794ae2f1d4de1286ec8de8c2daf7b1d15c8438e90d924df5c19045220a4c8438c1b979bbe016cf3d0eeec23c3999d4882cc645b776de930756612cdc6dd398160ff02a6',
  }
  const id = '992a18acc83f67533600c1138a4b4c4bd236de13629cf025ed17cb00b00b74df'
  expect(await authenticate(id, authentication, stored)).toMatchObject({ signCount: 0, userVerified: false })
  const wrong = { ...authentication, signature: spoilt(authentication.signature) }
  expect(await authenticate(id, wrong, stored)).toBeNull()
})

test('16.4 and 16.5, made within a frame of another site, are refused', async () => {
  const crossOrigin: Registration = {
    id: '6e1050c0d2ca2f07c755cb2c66a74c64fa43065c18f938354d9915db2bd5ce57',
    challenge: '3be5aacd03537142472340ab5969f240f1d87716e20b6807ac230655fa4b3b49',
    clientDataJSON:
      '7b2274797065223a22776562617574686e2e637265617465222c226368616c6c656e6765223a224f2d57717a514e5463554a484930437257576e7951504859647862694332674872434d475666704c4f306b222c226f726967696e223a2268747470733a2f2f6578616d706c652e6f7267222c2263726f73734f726967696e223a747275652c22657874726144617461223a22636c69656e74446174614a534f4e206d617920626520657874656e6465642077697468206164646974696f6e616c206669656c647320696e20746865206675747572652c207375636820617320746869733a207a5a7175457444523944577170573574425754467567227d',
    attestationObject:
      'a363666d74646e6f6e656761747453746d74a068617574684461746158a4bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b54500000000883f4f6014f19c09d87aa38123be48d000206e1050c0d2ca2f07c755cb2c66a74c64fa43065c18f938354d9915db2bd5ce57a501020326200121582022200a473f90b11078851550d03b4e44a2279f8c4eca27b3153dedfe03e4e97d225820cbd0be95e746ad6f5a8191be11756e4c0420e72f65b466d39bc56b8b123a9c6e',
  }
  const topOrigin: Registration = {
    id: 'b8ad59b996047ab18e2ceb57206c362da57458793481f4a8ebf101c7ca7cc0f1',
    challenge: '4e1f4c6198699e33c14f192153f49d7e0e8e3577d5ac416c5f3adc92a41f27e5',
    clientDataJSON:
      '7b2274797065223a22776562617574686e2e637265617465222c226368616c6c656e6765223a225468394d595a68706e6a504254786b68555f53646667364f4e58665672454673587a72636b7151664a2d55222c226f726967696e223a2268747470733a2f2f6578616d706c652e6f7267222c2263726f73734f726967696e223a747275652c22746f704f726967696e223a2268747470733a2f2f6578616d706c652e636f6d227d',
    attestationObject:
      'a363666d74646e6f6e656761747453746d74a068617574684461746158a4bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b5410000000097586fd09799a76401c200455099ef2a0020b8ad59b996047ab18e2ceb57206c362da57458793481f4a8ebf101c7ca7cc0f1a5010203262001215820a1c47c1d82da4ebe82cd72207102b380670701993bc35398ae2e5726427fe01d22582086c1080d82987028c7f54ecb1b01185de243b359294a0ed210cd47480f0adc88',
  }
  for (const one of [crossOrigin, topOrigin]) {
    expect(await register(one)).toBeNull()
    // It is the frame alone that is wrong with them.
    const clientDataJSON = Buffer.from(one.clientDataJSON, 'hex')
      .toString()
      .replace('"crossOrigin":true', '"crossOrigin":false')
      .replace(',"topOrigin":"https://example.com"', '')
    expect(await register({ ...one, clientDataJSON: Buffer.from(clientDataJSON).toString('hex') })).not.toBeNull()
  }
})
