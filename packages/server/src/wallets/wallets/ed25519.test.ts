import { expect, test } from 'vitest'
import { isSignedBy, signatureBytes } from '../../platform/ports/signature.ts'
import { keyProblem } from './ed25519.ts'

/** RFC 8032, section 7.1, tests 1 to 3: public key, message, signature. */
const VECTORS = [
  [
    'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
    '',
    'e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b',
  ],
  [
    '3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c',
    '72',
    '92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00',
  ],
  [
    'fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025',
    'af82',
    '6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a',
  ],
] as const

const hex = (text: string) => Buffer.from(text, 'hex')

test.each(VECTORS)(
  'the signatures of RFC 8032 hold, in hex and in base64, and with any bit changed do not (%s)',
  (key, message, signature) => {
    expect(keyProblem(hex(key))).toBeNull()
    const bytes = signatureBytes(signature)
    expect(signatureBytes(bytes.toString('base64'))).toEqual(bytes)
    expect(signatureBytes(signature.toUpperCase())).toEqual(bytes)
    expect(isSignedBy(hex(key), hex(message), bytes)).toBe(true)
    expect(isSignedBy(hex(key), Buffer.concat([hex(message), Buffer.from([0])]), bytes)).toBe(false)
    for (let bit = 0; bit < 512; bit += 1) {
      const spoilt = Buffer.from(bytes)
      spoilt[bit >> 3] = (spoilt[bit >> 3] as number) ^ (1 << (bit & 7))
      expect(isSignedBy(hex(key), hex(message), spoilt), `bit ${bit}`).toBe(false)
    }
  },
)

test('a signature is not taken a second time in another form: S is below the order (RFC 8032, section 5.1.7)', () => {
  const [key, message, signature] = VECTORS[1]
  const bytes = hex(signature)
  const order = 2n ** 252n + 27742317777372353535851937790883648493n
  const s = BigInt(`0x${Buffer.from(bytes.subarray(32)).reverse().toString('hex')}`) + order
  const other = Buffer.concat([bytes.subarray(0, 32), hex(s.toString(16).padStart(64, '0')).reverse()])
  expect(isSignedBy(hex(key), hex(message), other)).toBe(false)
})

/* The curve -x² + y² = 1 + dx²y² over the integers modulo p, as in RFC 8032, section 5.1, and nothing of the code's. */
const P = 2n ** 255n - 19n
const mod = (a: bigint) => ((a % P) + P) % P
function power(base: bigint, exponent: bigint): bigint {
  let result = 1n
  for (let b = mod(base), e = exponent; e > 0n; e >>= 1n, b = mod(b * b)) if (e & 1n) result = mod(result * b)
  return result
}
const inverse = (a: bigint) => power(a, P - 2n)
const D = mod(-121665n * inverse(121666n))
const SQRT_MINUS_ONE = power(2n, (P - 1n) / 4n)
type Point = { x: bigint; y: bigint }
const add = (a: Point, b: Point): Point => {
  const cross = mod(D * a.x * b.x * a.y * b.y)
  return {
    x: mod((a.x * b.y + a.y * b.x) * inverse(1n + cross)),
    y: mod((a.y * b.y + a.x * b.x) * inverse(1n - cross)),
  }
}
function root(square: bigint): bigint | null {
  const candidate = power(square, (P + 3n) / 8n)
  for (const x of [candidate, mod(candidate * SQRT_MINUS_ONE)]) if (mod(x * x - square) === 0n) return x
  return null
}
const xOf = (y: bigint) => root(mod((y * y - 1n) * inverse(D * y * y + 1n)))

/** Every 32 bytes that some implementation reads as a point of small order. */
function smallOrderEncodings(): string[] {
  // Any point times the large prime order is one of the eight; some such generates them all.
  const order = 2n ** 252n + 27742317777372353535851937790883648493n
  const all = new Map<string, Point>()
  for (let y = 2n; all.size < 8; y += 1n) {
    const x = xOf(y)
    if (x === null) continue
    let torsion: Point = { x: 0n, y: 1n }
    for (let bit = 255n; bit >= 0n; bit -= 1n) {
      torsion = add(torsion, torsion)
      if ((order >> bit) & 1n) torsion = add(torsion, { x, y })
    }
    let point: Point = { x: 0n, y: 1n }
    for (let n = 0; n < 8; n += 1) {
      all.set(`${point.x} ${point.y}`, point)
      point = add(point, torsion)
    }
  }
  const texts = new Set<string>()
  for (const { x, y } of all.values()) {
    for (const written of [y, y + P]) {
      if (written >= 2n ** 255n) continue
      for (const sign of x === 0n ? [0n, 1n] : [x & 1n])
        texts.add(
          hex((written + (sign << 255n)).toString(16).padStart(64, '0'))
            .reverse()
            .toString('hex'),
        )
    }
  }
  return [...texts]
}

test('no point of small order can be a key, in none of its encodings', () => {
  const encodings = smallOrderEncodings()
  expect(encodings).toHaveLength(14)
  for (const text of encodings) expect(keyProblem(hex(text)), text).not.toBeNull()
})

test('y is below the prime, whatever the sign of x', () => {
  const bytes = (y: bigint) => hex(y.toString(16).padStart(64, '0')).reverse()
  for (const sign of [0n, 1n << 255n]) {
    for (const y of [P, P + 3n, 2n ** 255n - 1n]) expect(keyProblem(bytes(y + sign)), `${y}`).toMatch(/canonical/)
    for (const y of [3n, P - 2n]) expect(keyProblem(bytes(y + sign)), `${y}`).toBeNull()
  }
})

test('bytes that are no point sign nothing, and do no harm', () => {
  let none = 2n
  while (xOf(none) !== null) none += 1n
  const key = hex(none.toString(16).padStart(64, '0')).reverse()
  expect(isSignedBy(key, Buffer.from('x'), Buffer.alloc(64))).toBe(false)
})
