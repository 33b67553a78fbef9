import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  createSharedWallet,
  type HeldShare,
  joinShares,
  releaseKey,
  reshare,
  type ServiceConfig,
  storeHeldShare,
  verifyServiceConfig,
} from '../../keys/src/index.ts'
import { rotateIdentityKey } from '../../server/src/platform/security/identity-key.ts'
import { type Service, startService, type Tenant } from '../../server/test/harness/harness.ts'
import { createClient, type HalfkeyClient } from '../src/client.ts'
import type { ClientOptions } from '../src/http.ts'
import { newIdentity, signedBy, startRelay } from './relay.ts'

const UNVERIFIED = { code: 'service_unverified' }
const DAY_MS = 86_400_000

let service: Service
let tenant: Tenant
beforeAll(async () => {
  service = await startService({ HALFKEY_RATE_LIMITS: 'off' })
  tenant = await service.newTenant()
})
afterAll(() => service.stop())

const clientOf = (options: Partial<ClientOptions> = {}): HalfkeyClient =>
  createClient({ baseUrl: service.url, apiKey: tenant.key, ...options })

const pinned = () => ({ pin: service.running.pin })

/** A user's access token. */
const signIn = async () => (await clientOf().guests.create()).accessToken

/** A user with a shared wallet. */
async function owner() {
  const accessToken = await signIn()
  return { accessToken, ...(await createSharedWallet(clientOf({ ...pinned(), accessToken }))) }
}

/** The genuine answer, as it comes over the wire. */
const genuine = async () => (await tenant.get('/mpc/config')).body.data

/** What a client of the SDK and the keys package make of an answer: `ok`, or the code of their refusal. */
async function verdicts(config: object, pin: string): Promise<string[]> {
  const client = clientOf({ pin, fetch: async () => Response.json({ data: config }) })
  const bySdk = await client.mpc.config().then(
    () => 'ok',
    (error) => error.code as string,
  )
  try {
    verifyServiceConfig(config as ServiceConfig, { pin })
    return [bySdk, 'ok']
  } catch (error) {
    return [bySdk, (error as { code: string }).code]
  }
}

const TRUSTED = ['ok', 'ok']
const REFUSED = ['service_unverified', 'service_unverified']

/** All flows that send shares to the service. */
function flows(mine: HalfkeyClient, { device, recovery }: { device: HeldShare; recovery: HeldShare }) {
  const keep = () => {
    throw new Error('there was something to keep')
  }
  return {
    'key generation': () => createSharedWallet(mine, { keep }),
    'resharing with the service': () => reshare(mine, [recovery], keep),
    'resharing without the service’s share': () => reshare(mine, [device, recovery], keep),
    'client-dealt creation, or a recovery that combines': () => mine.mpc.config(),
    'storing a share': () => storeHeldShare(mine, { appId: tenant.appId, userId: 'usr_1' }, device, {} as never),
  }
}

describe('a client without a pin', () => {
  test('refuses every flow that sends shares, and makes no call', async () => {
    const { accessToken, device, recovery } = await owner()
    const relay = await startRelay()
    const mine = clientOf({ accessToken, fetch: relay.fetch })
    for (const [name, flow] of Object.entries(flows(mine, { device, recovery })))
      await expect(flow(), name).rejects.toMatchObject({ code: 'pin_required' })
    expect(relay.requests).toEqual([])
    // Nothing is sealed to the service here.
    await expect(releaseKey(mine, device)).resolves.toHaveLength(32)
  })

  test('and with trustOnFirstUse keeps the pin of the first answer, and refuses every other key from then on', async () => {
    let identity = newIdentity()
    const fetchAs: ClientOptions['fetch'] = async () => Response.json({ data: signedBy(identity, await genuine()) })
    const client = clientOf({ trustOnFirstUse: true, fetch: fetchAs })
    expect(client.mpc.trust.pin).toBeUndefined()
    await client.mpc.config()
    expect(client.mpc.trust.pin).toBe(identity.pin)
    identity = newIdentity()
    await expect(client.mpc.config()).rejects.toMatchObject(UNVERIFIED)
    // The keys package remembers likewise, for clients other than the SDK's.
    const trust = { trustOnFirstUse: true }
    verifyServiceConfig(signedBy(identity, await genuine()), trust)
    expect(trust).toMatchObject({ pin: identity.pin })
    expect(() => verifyServiceConfig(signedBy(newIdentity(), {}), trust)).toThrow()
  })

  test.each([
    'hk_pin_',
    'hk_sk_x',
    '',
    `hk_pin_${'a'.repeat(42)}`,
    `hk_pin_${'a'.repeat(44)}`,
    ` hk_pin_${'a'.repeat(43)}`,
  ])('is not created with the pin %j', (pin) => {
    expect(() => clientOf({ pin })).toThrow(TypeError)
    expect(() => verifyServiceConfig({} as ServiceConfig, { pin })).toThrow(/hk_pin_/)
  })
})

describe('a relay that puts its own key in place of the service’s', () => {
  const forgeries = {
    'and leaves the signature': (config: object) => config,
    'and signs with its own identity key': (config: object) => signedBy(newIdentity(), config),
    'and leaves the identity key out': ({ identity: _, ...config }: { identity?: object }) => config,
  }
  test.each(Object.entries(forgeries))(
    '%s: learns nothing, for a client with a pin sends it nothing',
    async (_, forge) => {
      const { accessToken, device, recovery } = await owner()
      const relay = await startRelay(forge)
      const mine = clientOf({ ...pinned(), accessToken, fetch: relay.fetch })
      for (const [name, flow] of Object.entries(flows(mine, { device, recovery })))
        await expect(flow(), name).rejects.toMatchObject(UNVERIFIED)
      expect(relay.learned).toEqual([])
      expect(new Set(relay.requests)).toEqual(new Set(['GET /mpc/config']))
      // The same client without the relay is served.
      const direct = clientOf({ ...pinned(), accessToken })
      await expect(reshare(direct, [device], () => {})).resolves.toMatchObject({ device: { generation: 2 } })
    },
  )

  test('reads what a client sends that trusted it at first use: its attack is a real one', async () => {
    const relay = await startRelay((config) => signedBy(newIdentity(), config))
    const mine = clientOf({ trustOnFirstUse: true, accessToken: await signIn(), fetch: relay.fetch })
    const { wallet } = await createSharedWallet(mine)
    expect(wallet.status).toBe('ready')
    expect(relay.learned).toHaveLength(2)
  })

  test('and reads all that the user deals, still lacks a part of share 1: the service adds a dealing of zero', async () => {
    const { accessToken, device, recovery } = await owner()
    const identity = newIdentity()
    const relay = await startRelay((config) => signedBy(identity, config))
    const mine = clientOf({ trustOnFirstUse: true, accessToken, fetch: relay.fetch })
    const fresh = await reshare(mine, [device, recovery], () => {})
    expect(relay.learned).toHaveLength(2)
    const order = 2n ** 252n + 27742317777372353535851937790883648493n
    const numberOf = (scalar: Uint8Array) => BigInt(`0x${Buffer.from(scalar).reverse().toString('hex')}`)
    const sum = relay.learned.map(numberOf).reduce((a, b) => a + b) % order
    const scalar = Buffer.from(sum.toString(16).padStart(64, '0'), 'hex').reverse()
    const joined = () => joinShares(fresh.device.sharing, [{ index: 1, scalar }, fresh.device.share])
    expect(joined).toThrow(expect.objectContaining({ code: 'share_invalid', indices: [1] }))
    // The service's true share makes the key with the device's, and the key is the one before.
    const key = await releaseKey(mine, fresh.device)
    expect(key).toEqual(joinShares(fresh.device.sharing, [fresh.device.share, fresh.recovery.share]))
    expect(fresh.device.publicKey).toBe(device.publicKey)
  })
})

describe('an answer', () => {
  test('of the pinned service is accepted, and one with any changed field is refused', async () => {
    const config = await genuine()
    const { pin } = service.running
    expect(await verdicts(config, pin)).toEqual(TRUSTED)
    const [key] = config.keys
    const later = new Date(Date.now() + 9 * DAY_MS).toISOString()
    const changed = (more: object) => ({ ...config, identity: { ...config.identity, ...more } })
    const wrong: object[] = [
      { ...config, suite: 'another' },
      { ...config, tenantId: service.admin.tenantId },
      { ...config, keys: [] },
      { ...config, keys: [{ ...key, kid: '0'.repeat(16) }] },
      { ...config, keys: [{ ...key, publicKey: '0'.repeat(64) }] },
      { ...config, keys: [{ ...key, notAfter: later }] },
      { ...config, keys: [key, key] },
      changed({ notAfter: later }),
      changed({ signature: '0'.repeat(128) }),
      changed({ signature: '' }),
      changed({ signature: 'zz' }),
      changed({ publicKey: '' }),
      changed({ publicKey: 'zz' }),
      { ...config, identity: null },
      { ...config, identity: undefined },
    ]
    for (const each of wrong) expect([each, await verdicts(each, pin)]).toEqual([each, REFUSED])
    const { pin: other } = newIdentity()
    expect(await verdicts(config, other)).toEqual(REFUSED)
  })

  test('that has expired, or whose keys have all expired, is refused', async () => {
    const config = await genuine()
    const identity = newIdentity()
    const over = new Date(Date.now() - 1).toISOString()
    const [key] = config.keys
    expect(await verdicts(signedBy(identity, config), identity.pin)).toEqual(TRUSTED)
    for (const notAfter of [over, 'soon', '']) {
      const old = { ...config, identity: { ...config.identity, notAfter } }
      expect(await verdicts(signedBy(identity, old), identity.pin)).toEqual(REFUSED)
      const oldKeys = { ...config, keys: [{ ...key, notAfter }] }
      expect(await verdicts(signedBy(identity, oldKeys), identity.pin)).toEqual(REFUSED)
    }
    // Of several keys, the first that has not expired is used.
    const mixed = signedBy(identity, { ...config, keys: [{ ...key, kid: 'old', notAfter: over }, key] })
    expect(verifyServiceConfig(mixed, { pin: identity.pin }).kid).toBe(key.kid)
    const client = clientOf({ pin: identity.pin, fetch: async () => Response.json({ data: mixed }) })
    expect((await client.mpc.config()).keys).toEqual([key])
  })

  test('for another tenant than the exchange’s is refused before a share is sent', async () => {
    const { accessToken, device, recovery } = await owner()
    const other = (await (await service.newTenant()).get('/mpc/config')).body.data
    const mine = clientOf({ ...pinned(), accessToken })
    const misled = { ...mine, mpc: { ...mine.mpc, config: async () => other } }
    const sent: string[] = []
    const recording = {
      ...misled.mpc,
      recover: async () => {
        sent.push('recover')
        throw new Error('sent')
      },
      dkgRound2: async () => {
        sent.push('round2')
        throw new Error('sent')
      },
    }
    for (const shares of [[recovery], [device, recovery]])
      await expect(reshare({ mpc: recording } as never, shares, () => {})).rejects.toMatchObject(UNVERIFIED)
    const newcomer = clientOf({ ...pinned(), accessToken: await signIn() })
    const dkg = { mpc: { ...newcomer.mpc, config: misled.mpc.config, dkgRound2: recording.dkgRound2 } }
    await expect(createSharedWallet(dkg as never)).rejects.toMatchObject(UNVERIFIED)
    expect(sent).toEqual([])
    // A share says itself whose it is.
    const stranger = { ...device, tenantId: 'ten_other' }
    await expect(reshare(mine, [stranger], () => {})).rejects.toMatchObject(UNVERIFIED)
  })
})

describe('a rotation of the identity key', () => {
  test('is followed by clients with the old pin if the old key signed it, for one step', async () => {
    const { pin: first } = service.running
    const { pin: second } = await rotateIdentityKey(service.deps, { compromised: false })
    expect(second).not.toBe(first)
    const config = await genuine()
    expect([await verdicts(config, first), await verdicts(config, second)]).toEqual([TRUSTED, TRUSTED])
    const mine = clientOf({ pin: first, accessToken: await signIn() })
    await expect(createSharedWallet(mine)).resolves.toMatchObject({ wallet: { status: 'ready' } })
    const { pin: third } = await rotateIdentityKey(service.deps, { compromised: false })
    const next = await genuine()
    expect(await verdicts(next, first)).toEqual(REFUSED)
    expect(await verdicts(next, second)).toEqual(TRUSTED)
    // Replaced as compromised: the earlier pin leads nowhere.
    const { pin: fourth } = await rotateIdentityKey(service.deps, { compromised: true })
    const last = await genuine()
    expect(last.identity.previous).toBeNull()
    expect(await verdicts(last, third)).toEqual(REFUSED)
    expect(await verdicts(last, fourth)).toEqual(TRUSTED)
  })

  test('that is forged is refused', async () => {
    const [old, thief, third] = [newIdentity(), newIdentity(), newIdentity()]
    const config = await genuine()
    const step = (from: typeof old, to: typeof old, signer = from) => ({
      publicKey: from.publicKey,
      signature: signer.sign('identity-rotation', { from: from.publicKey, to: to.publicKey }),
    })
    expect(await verdicts(signedBy(thief, config, step(old, thief)), old.pin)).toEqual(TRUSTED)
    const forged = [
      step(old, thief, thief),
      step(old, third),
      { ...step(old, thief), signature: '' },
      { ...step(old, thief), signature: '0'.repeat(128) },
      { publicKey: old.publicKey, signature: old.sign('mpc-config', { from: old.publicKey, to: thief.publicKey }) },
      step(third, thief),
      { publicKey: old.publicKey },
      {},
    ]
    for (const each of forged)
      expect([each, await verdicts(signedBy(thief, config, each), old.pin)]).toEqual([each, REFUSED])
  })
})
