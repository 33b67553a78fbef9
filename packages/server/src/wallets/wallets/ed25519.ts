/** The field's prime: y coordinates are below it (RFC 8032, section 5.1). */
const P = 2n ** 255n - 19n

/**
 * The y coordinates of the eight points of small order, little-endian: of orders 4, 1, 8, 8, 2. With such a key,
 * one signature is valid for many messages and needs no secret. Source: libsodium, `ge25519_has_small_order`
 * (crypto_core/ed25519/ref10), whose other entries are the same points with y not reduced; Chalkias, Garillot and
 * Nikolaenko, "Taming the many EdDSAs", table 1.
 */
const SMALL_ORDER_Y = new Set([
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
])

const littleEndian = (bytes: Buffer) => BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`)

/**
 * Why 32 bytes cannot be a public key, or null: y is not reduced (RFC 8032, section 5.1.3, step 1), or it is a point of
 * small order, in any encoding. It does not check that the bytes are a point: verifying a signature does.
 */
export function keyProblem(rawPublicKey: Buffer): string | null {
  const y = Buffer.from(rawPublicKey)
  // The highest bit is the sign of x.
  y.writeUInt8(y.readUInt8(31) & 0x7f, 31)
  if (littleEndian(y) >= P) return 'Must be a canonical encoding (RFC 8032, section 5.1.3).'
  if (SMALL_ORDER_Y.has(y.toString('hex')))
    return 'Must not be a point of small order, because signatures of such a key prove nothing.'
  return null
}
