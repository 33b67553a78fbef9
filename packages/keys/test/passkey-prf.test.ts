import { createHash, createHmac, randomBytes } from 'node:crypto'
import { afterEach, describe, expect, test, vi } from 'vitest'
import * as keys from '../src/index.ts'
import { refusalOf, SIGNERS } from './support.ts'

interface Asked {
  publicKey: {
    challenge: Uint8Array
    rpId: string
    userVerification: string
    allowCredentials: { type: string; id: Uint8Array }[]
    extensions: { prf: { eval?: { first: Uint8Array }; evalByCredential: Record<string, { first: Uint8Array }> } }
  }
}

const RP = 'example.com'

/** A browser with these passkeys; as WebAuthn Level 3, section 10.1.4, and CTAP's hmac-secret say. */
function browserWith(passkeys: ReadonlyMap<string, Buffer>, answer: (output: Buffer) => unknown = (output) => output) {
  const asked: Asked[] = []
  const get = async (options: Asked) => {
    asked.push(options)
    const { allowCredentials, extensions } = options.publicKey
    const [id] = allowCredentials
      .map((each) => Buffer.from(each.id).toString('base64url'))
      .filter((each) => passkeys.has(each))
    const secret = passkeys.get(id ?? '')
    if (id === undefined || secret === undefined) throw new DOMException('No passkey here.', 'NotAllowedError')
    const { first } = extensions.prf.evalByCredential[id] ?? extensions.prf.eval ?? {}
    const salt = createHash('sha256')
      .update('WebAuthn PRF\0')
      .update(first as Uint8Array)
      .digest()
    const output = createHmac('sha256', secret).update(salt).digest()
    const results = answer(output)
    return {
      id,
      getClientExtensionResults: () => (results === undefined ? {} : { prf: { results: { first: results } } }),
    }
  }
  vi.stubGlobal('navigator', { credentials: { get } })
  return asked
}

const newPasskey = () => keys.toBase64Url(randomBytes(20))
const arrayBuffer = (bytes: Buffer) => new Uint8Array(bytes).buffer
const one = newPasskey()
const two = newPasskey()
const secrets = new Map([
  [one, randomBytes(32)],
  [two, randomBytes(32)],
])
const ask = (credentialId: string, prfSalt = keys.newPrfSalt()) => ({ credentialId, rpId: RP, prfSalt })

afterEach(() => {
  vi.unstubAllGlobals()
})

describe('a passkey’s secret', () => {
  test('is requested with its passkey, relying party and salt, with user verification and a fresh challenge', async () => {
    const asked = browserWith(secrets, arrayBuffer)
    const request = ask(one)
    await keys.prfOutput(request)
    await keys.prfOutput(request)
    const [first, second] = asked.map(({ publicKey }) => publicKey) as [Asked['publicKey'], Asked['publicKey']]
    expect(first).toMatchObject({ rpId: RP, userVerification: 'required', allowCredentials: [{ type: 'public-key' }] })
    expect(first.allowCredentials.map(({ id }) => keys.toBase64Url(id))).toEqual([one])
    const salt = { first: keys.fromBase64Url(request.prfSalt) }
    expect(first.extensions).toEqual({ prf: { eval: salt, evalByCredential: { [one]: salt } } })
    expect(first.challenge).toHaveLength(32)
    expect(keys.toHex(first.challenge)).not.toBe(keys.toHex(second.challenge))
  })

  test('is the same for the same salt, and different for another salt or passkey', async () => {
    browserWith(secrets, arrayBuffer)
    const request = ask(one)
    const output = keys.toHex(await keys.prfOutput(request))
    expect(output).toMatch(/^[0-9a-f]{64}$/)
    expect(keys.toHex(await keys.prfOutput(request))).toBe(output)
    expect(keys.toHex(await keys.prfOutput(ask(one)))).not.toBe(output)
    expect(keys.toHex(await keys.prfOutput(ask(two, request.prfSalt)))).not.toBe(output)
  })

  test('is also read from a view of a buffer', async () => {
    const request = ask(one)
    browserWith(secrets, arrayBuffer)
    const output = await keys.prfOutput(request)
    browserWith(secrets, (bytes) => new Uint8Array([9, ...bytes, 9]).subarray(1, 33))
    expect(await keys.prfOutput(request)).toEqual(output)
  })

  test('protects a share for two passkeys, and each of them opens it', async () => {
    browserWith(secrets, arrayBuffer)
    const { sharing, shares } = keys.dealShares(SIGNERS)
    const share = shares[1] as keys.Share
    const context = {
      walletId: 'wal_1',
      generation: 1,
      index: 2,
      publicKey: keys.toHex(sharing.commitments[0] as Uint8Array),
    }
    const first = await keys.prfOutputOfAny([ask(one)])
    const alone = await keys.protectShare(share, context, first)
    const both = await keys.addWrap(alone, context, { openBy: first, newBy: await keys.prfOutputOfAny([ask(two)]) })
    for (const id of [one, two]) {
      browserWith(new Map([[id, secrets.get(id) as Buffer]]), arrayBuffer)
      const opener = await keys.prfOutputOfAny(both.wraps as keys.PasskeyWrap[])
      expect(opener.credentialId).toBe(id)
      expect(await keys.openProtected(both, context, opener)).toEqual(share)
    }
  })
})

describe('without a passkey’s secret', () => {
  test('an authenticator without PRF is a PrfUnavailableError that says so', async () => {
    browserWith(secrets, () => undefined)
    const error = await refusalOf(keys.prfOutput(ask(one)))
    expect(error).toBeInstanceOf(keys.PrfUnavailableError)
    expect(error.message).toContain('PRF')
    browserWith(secrets, (output) => arrayBuffer(output.subarray(1)))
    expect(await refusalOf(keys.prfOutput(ask(one)))).toBeInstanceOf(keys.PrfUnavailableError)
  })

  test('a missing browser or secure context is a PrfUnavailableError that says so', async () => {
    for (const navigator of [undefined, {}]) {
      vi.stubGlobal('navigator', navigator)
      expect(await refusalOf(keys.prfOutput(ask(one)))).toBeInstanceOf(keys.PrfUnavailableError)
    }
  })

  test('another passkey than the requested one is refused', async () => {
    const get = async () => ({
      id: two,
      getClientExtensionResults: () => ({ prf: { results: { first: new ArrayBuffer(32) } } }),
    })
    vi.stubGlobal('navigator', { credentials: { get } })
    expect(await refusalOf(keys.prfOutput(ask(one)))).toBeInstanceOf(keys.PrfUnavailableError)
    vi.stubGlobal('navigator', { credentials: { get: async () => null } })
    expect(await refusalOf(keys.prfOutput(ask(one)))).toBeInstanceOf(keys.PrfUnavailableError)
  })

  test('the browser’s error for a user who cancels is passed on', async () => {
    browserWith(new Map())
    await expect(keys.prfOutput(ask(one))).rejects.toMatchObject({ name: 'NotAllowedError' })
  })

  test('no passkey, or passkeys of two relying parties, are refused without a prompt', async () => {
    const asked = browserWith(secrets)
    expect((await refusalOf(keys.prfOutputOfAny([]))).code).toBe('share_invalid')
    expect((await refusalOf(keys.prfOutputOfAny([ask(one), { ...ask(two), rpId: 'example.org' }]))).code).toBe(
      'share_invalid',
    )
    expect(asked).toHaveLength(0)
  })
})

test('salts are 32 random bytes', () => {
  const salts = Array.from({ length: 20 }, () => keys.newPrfSalt())
  expect(new Set(salts).size).toBe(20)
  for (const salt of salts) expect(keys.fromBase64Url(salt)).toHaveLength(32)
})
