import { generateKeyPairSync } from 'node:crypto'
import { SignJWT } from 'jose'
import { describe, expect, test } from 'vitest'
import type { Config } from '../../config.ts'
import { sha256 } from '../crypto.ts'
import { addressesOf, verifyProof } from './proof.ts'
import { hasPrimeOrder, readPublicJwk, thumbprintOf } from './public-jwk.ts'

/** RFC 8037, appendix A.2. */
const ED25519 = { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' }
/** The key of the examples of RFC 9449. */
const P256 = {
  kty: 'EC',
  x: 'l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs',
  y: '9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA',
  crv: 'P-256',
}

const thumbprint = (jwk: object) => {
  const read = readPublicJwk(jwk)
  return read === null || !hasPrimeOrder(read.jwk) ? null : thumbprintOf(read.jwk)
}

describe('a key', () => {
  test('has the thumbprint of RFC 8037, appendix A.3, and of RFC 9449, section 6.1, whatever else its JWK says', () => {
    expect(thumbprint(ED25519)).toBe('kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k')
    expect(thumbprint(P256)).toBe('0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I')
    expect(thumbprint({ use: 'sig', kid: 'x', alg: 'ES256', ...P256 })).toBe(thumbprint(P256))
  })

  test.for<[string, object]>([
    ['with its private half', { ...P256, d: P256.x }],
    ['with an empty private half', { ...ED25519, d: '' }],
    ['of another curve', { ...P256, crv: 'secp256k1' }],
    ['of another type', { ...P256, kty: 'OKP' }],
    ['that is symmetric', { kty: 'oct', k: P256.x }],
    ['that is no point of its curve', { ...P256, y: P256.x }],
    ['of small order', { ...ED25519, x: 'AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' }],
    ['of another spelling', { ...ED25519, x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURp' }],
    ['with padding', { ...ED25519, x: `${ED25519.x}=` }],
    ['of 31 bytes', { ...ED25519, x: ED25519.x.slice(0, -2) }],
    ['that is none', []],
  ])('%s is refused', (_case, jwk) => {
    expect(thumbprint(jwk)).toBeNull()
  })
})

describe('the address in a proof', () => {
  const config = (publicUrl: string | null, env: 'production' | 'development' = 'production') =>
    ({ env, publicUrl, port: 8080 }) as Config
  const token = 'dst_x'
  /** Whether a proof for this address would be one for a request with this path. */
  async function isFor(htu: string, path: string, isOurs: (address: string) => boolean): Promise<boolean> {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    const now = new Date(1_800_000_000_000)
    const claims = { htm: 'GET', htu, iat: now.getTime() / 1000, jti: 'x', ath: sha256(token).toString('base64url') }
    const proof = await new SignJWT(claims)
      .setProtectedHeader({ typ: 'dpop+jwt', alg: 'EdDSA', jwk: publicKey.export({ format: 'jwk' }) as object })
      .sign(privateKey)
    const wrong = await verifyProof({ method: 'GET', path, bodyHash: null, proof, isOurs }, token, now).catch(
      (error: { details: { code: string }[] }) => error.details[0]?.code,
    )
    expect(typeof wrong === 'object' || wrong === 'proof_htu').toBe(true)
    return typeof wrong === 'object'
  }

  test('is the public one or a custom domain, in any case of the host and with the default port, and no loopback in production', async () => {
    const isOurs = addressesOf(config('https://wallets.example.com'), ['https://pay.shop.example'])
    for (const address of [
      'https://wallets.example.com',
      'HTTPS://Wallets.Example.COM',
      'https://wallets.example.com:443',
      'https://pay.shop.example',
    ])
      expect(await isFor(`${address}/v1/x`, '/v1/x', isOurs), address).toBe(true)
    for (const address of [
      'http://wallets.example.com',
      'https://wallets.example.com:8443',
      'https://wallets.example.com.',
      'https://xwallets.example.com',
      'https://wallets.example.com.evil.example',
      'https://evil.example/https://wallets.example.com',
      'https://wallets.example.com@evil.example',
      'https://wallets.example.com\\@evil.example',
      'https:wallets.example.com',
      'https://shop.example',
      'http://localhost:8080',
      'http://127.0.0.1:8080',
      '',
    ])
      expect(await isFor(`${address}/v1/x`, '/v1/x', isOurs), address).toBe(false)
  })

  test('has the path of the public address, as it is written there', async () => {
    const isOurs = addressesOf(config('https://example.com/Wallets'))
    expect(await isFor('https://EXAMPLE.com/Wallets/v1/x', '/v1/x', isOurs)).toBe(true)
    expect(
      await isFor('https://xn--bcher-kva.example/v1/x', '/v1/x', addressesOf(config('https://bücher.example'))),
    ).toBe(true)
    for (const base of ['', '/wallets', '/Wallets/', '/x/../Wallets', '/%57allets'])
      expect(await isFor(`https://example.com${base}/v1/x`, '/v1/x', isOurs), base).toBe(false)
  })

  test('may be any on loopback in development', async () => {
    const isOurs = addressesOf(config(null, 'development'))
    for (const address of ['http://localhost:8080', 'http://127.0.0.1:5173', 'http://[::1]:8080'])
      expect(await isFor(`${address}/v1/x`, '/v1/x', isOurs), address).toBe(true)
    for (const address of ['http://localhost.evil.example', 'http://0.0.0.0:8080', 'http://127.0.0.1.nip.example'])
      expect(await isFor(`${address}/v1/x`, '/v1/x', isOurs), address).toBe(false)
  })
})

describe('the example of RFC 9449, section 7.1,', () => {
  const token = 'Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU'
  const proof =
    'eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.2oW9RP35yRqzhrtNP86L-Ey71EOptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA'
  const request = {
    method: 'GET',
    path: '/protectedresource',
    bodyHash: null,
    proof,
    isOurs: (address: string) => address === 'https://resource.example.org',
  }

  test('is valid for its request, and for sixty seconds', async () => {
    const { jkt, expiresAt } = await verifyProof(request, token, new Date(1562262618_000))
    expect(jkt).toBe('0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I')
    expect(expiresAt).toEqual(new Date(1562262678_000))
    await verifyProof(request, token, new Date(1562262678_000))
    await verifyProof(request, token, new Date(1562262613_000))
    for (const at of [1562262678_001, 1562262612_999])
      await expect(verifyProof(request, token, new Date(at))).rejects.toMatchObject({
        code: 'dpop_proof_invalid',
        details: [{ code: 'proof_iat' }],
      })
  })

  test('is not valid for another token, method, path or address', async () => {
    const at = new Date(1562262618_000)
    const refused = (more: object, of = token) =>
      verifyProof({ ...request, ...more }, of, at).then(
        () => 'valid',
        (error: { details: { code: string }[] }) => error.details[0]?.code,
      )
    expect(await refused({}, `${token}x`)).toBe('proof_ath')
    expect(await refused({ method: 'HEAD' })).toBe('proof_htm')
    expect(await refused({ path: '/protectedresource/' })).toBe('proof_htu')
    expect(await refused({ path: '/resource' })).toBe('proof_htu')
    expect(await refused({ isOurs: () => false })).toBe('proof_htu')
    expect(await refused({ bodyHash: 'x' })).toBe('proof_body_hash')
  })
})
