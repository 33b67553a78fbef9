import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { hasMoto, Moto } from '../../../../test/harness/moto.ts'
import { makeSoftHsm, NO_SOFTHSM, type SoftHsm } from '../../../../test/harness/softhsm.ts'
import { idOf, keyOf, lineFor, readLine } from './key-lines.ts'
import { KeyServiceAddressError, KeyServiceError, type KeyServiceFailure } from './key-service.ts'
import { openKeyService } from './open-key-service.ts'

const key = randomBytes(32)

/** A real key service, and what can go wrong with it. */
interface Stage {
  address: string
  /** Another key of the same service. */
  other: string
  /** A key that it does not have. */
  missing: string
  /** Has it refuse us, until the returned function is called. */
  deny(): () => void
  /** Replaces what is behind the address inside the service; what was wrapped before still unwraps until `retire`. */
  rotate?(): Promise<{ retire(): Promise<void> }>
  /** Where nothing answers. */
  away?: { address: string; during(): () => void }
  stop(): Promise<void> | void
}

/** Sets variables of this process until the returned function is called. */
function withEnv(variables: Record<string, string>): () => void {
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value)
  return () => vi.unstubAllEnvs()
}

/** A server that takes connections and says nothing. */
let silent: Server
let silentUrl: string
beforeAll(async () => {
  silent = createServer(() => {})
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  silentUrl = `http://127.0.0.1:${(silent.address() as { port: number }).port}`
})
afterAll(() => void silent.close())

async function awsStage(): Promise<Stage> {
  const moto = await Moto.start()
  const make = async () => (await moto.kms('CreateKey', {})).KeyMetadata.KeyId as string
  const [first, second] = [await make(), await make()]
  const env = {
    AWS_ACCESS_KEY_ID: moto.access.accessKeyId,
    AWS_SECRET_ACCESS_KEY: moto.access.secretAccessKey,
    AWS_ENDPOINT_URL_KMS: moto.url,
  }
  const restore = () => void withEnv(env)
  restore()
  const of = (id: string) => `awskms:${moto.region}/${id}`
  const during = (change: Record<string, string>) => () => {
    withEnv({ ...env, ...change })
    return restore
  }
  return {
    address: of(first),
    other: of(second),
    missing: of('alias/none'),
    deny: during({ AWS_SECRET_ACCESS_KEY: 'wrong' }),
    away: { address: of(first), during: during({ AWS_ENDPOINT_URL_KMS: silentUrl }) },
    stop: () => moto.stop(),
  }
}

function pkcs11Stage(): Stage {
  const hsm: SoftHsm = makeSoftHsm('first', 'second')
  withEnv(hsm.env)
  return {
    address: hsm.address('first'),
    other: hsm.address('second'),
    missing: hsm.address('none'),
    deny() {
      writeFileSync(hsm.pinFile, '000000')
      return () => writeFileSync(hsm.pinFile, '824317')
    },
    stop: () => hsm.remove(),
  }
}

/** A Vault in development mode, with its root token: `VAULT_ADDR` and `VAULT_TOKEN`. */
async function vaultStage(): Promise<Stage> {
  const { VAULT_ADDR: server = '', VAULT_TOKEN: token = '' } = process.env
  const call = (path: string, body: object) =>
    fetch(`${server}/v1/${path}`, {
      method: 'POST',
      headers: { 'x-vault-token': token, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const mount = `transit-${randomBytes(4).toString('hex')}`
  await call(`sys/mounts/${mount}`, { type: 'transit' })
  for (const name of ['first', 'second']) await call(`${mount}/keys/${name}`, {})
  const restore = () => void withEnv({ VAULT_ADDR: server, VAULT_TOKEN: token })
  const during = (change: Record<string, string>) => () => {
    withEnv(change)
    return restore
  }
  return {
    address: `vault:${mount}/first`,
    other: `vault:${mount}/second`,
    missing: `vault:none-${mount}/first`,
    deny: during({ VAULT_TOKEN: 'wrong' }),
    async rotate() {
      await call(`${mount}/keys/first/rotate`, {})
      return { retire: async () => void (await call(`${mount}/keys/first/config`, { min_decryption_version: 2 })) }
    },
    away: { address: `vault:${mount}/first`, during: during({ VAULT_ADDR: silentUrl }) },
    stop: async () =>
      void (await fetch(`${server}/v1/sys/mounts/${mount}`, { method: 'DELETE', headers: { 'x-vault-token': token } })),
  }
}

const STAGES: { name: string; missing: string | null; open: () => Promise<Stage> | Stage }[] = [
  { name: 'AWS KMS (moto)', missing: hasMoto ? null : 'moto is not installed', open: awsStage },
  { name: 'PKCS #11 (SoftHSM)', missing: NO_SOFTHSM, open: pkcs11Stage },
  {
    name: 'Vault',
    missing: process.env.VAULT_ADDR === undefined ? 'VAULT_ADDR is not set' : null,
    open: vaultStage,
  },
]

const refusal = async (work: Promise<unknown>): Promise<KeyServiceFailure> => {
  const error = await work.then(
    () => new Error('it went well'),
    (failure: Error) => failure,
  )
  expect(error).toBeInstanceOf(KeyServiceError)
  expect(error.message).not.toContain(key.toString('base64'))
  return (error as KeyServiceError).failure
}

describe.each(STAGES)('$name', ({ missing, open }) => {
  if (missing !== null) {
    test.skip(`is not tested here: ${missing}`, () => {})
    return
  }
  let stage: Stage
  beforeAll(async () => {
    stage = await open()
  })
  afterAll(async () => {
    await stage?.stop()
    vi.unstubAllEnvs()
  })

  test('unwraps what it wrapped, which differs each time and does not hold the key', async () => {
    const service = await openKeyService(stage.address)
    const [one, two] = [await service.wrap(key, 'a'), await service.wrap(key, 'a')]
    expect(one.equals(two)).toBe(false)
    expect(one.includes(key)).toBe(false)
    for (const wrapped of [one, two]) expect((await service.unwrap(wrapped, 'a')).equals(key)).toBe(true)
    await service.close()
  })

  test('refuses another context, changed bytes and what another key wrapped', async () => {
    const [service, other] = [await openKeyService(stage.address), await openKeyService(stage.other)]
    const wrapped = await service.wrap(key, 'a')
    const changed = Buffer.from(wrapped)
    changed[changed.length - 1] = (changed.at(-1) as number) ^ 1
    expect(await refusal(service.unwrap(wrapped, 'b'))).toBe('corrupt')
    expect(await refusal(service.unwrap(changed, 'a'))).toBe('corrupt')
    // A service that looks at permissions first says no more than that.
    expect(['corrupt', 'denied']).toContain(await refusal(other.unwrap(wrapped, 'a')))
    expect(await refusal(service.unwrap(Buffer.from('nothing'), 'a'))).toBe('corrupt')
  })

  test('says that a key is gone, or that it is denied', async () => {
    const service = await openKeyService(stage.missing)
    expect(await refusal(service.wrap(key, 'a'))).toBe('gone')
    const allow = stage.deny()
    expect(await refusal((await openKeyService(stage.address)).wrap(key, 'a'))).toBe('denied')
    allow()
    await (await openKeyService(stage.address)).wrap(key, 'a')
  })

  test('holds a line of a key file, whose id is the key that it must give', async () => {
    const text = await lineFor(key, stage.address)
    const line = readLine(text)
    expect(line).toMatchObject({ keyId: idOf(key), service: stage.address })
    expect((await keyOf(line as NonNullable<typeof line>)).equals(key)).toBe(true)
    const strange = readLine(text.replace(idOf(key), idOf(randomBytes(32))))
    expect(await refusal(keyOf(strange as NonNullable<typeof strange>))).toBe('corrupt')
  })

  test('unwraps what it wrapped before a rotation inside it, until that version is retired', async (context) => {
    if (stage.rotate === undefined) return context.skip('it rotates by itself, or not at all')
    const service = await openKeyService(stage.address)
    const before = await service.wrap(key, 'a')
    const { retire } = await stage.rotate()
    expect((await service.unwrap(before, 'a')).equals(key)).toBe(true)
    const after = await service.wrap(key, 'a')
    await retire()
    expect(await refusal(service.unwrap(before, 'a'))).toBe('gone')
    expect((await service.unwrap(after, 'a')).equals(key)).toBe(true)
    await service.close()
  })

  test('that hangs is unavailable in bounded time', { timeout: 40_000 }, async (context) => {
    if (stage.away === undefined) return context.skip('a local library has no network to hang in')
    const restore = stage.away.during()
    const service = await openKeyService(stage.away.address)
    expect(await refusal(service.wrap(key, 'a'))).toBe('unavailable')
    await service.close()
    restore()
  })
})

test.each([
  ['gcpkms:somewhere', /is no key service. Known are/],
  ['awskms:nowhere', /awskms:<region>/],
  ['vault:transit', /vault:<mount>\/<key>/],
  ['pkcs11:token=a', /module-path/],
])('the address %s is refused with the right form', async (address, message) => {
  const opening = openKeyService(address)
  await expect(opening).rejects.toThrow(KeyServiceAddressError)
  await expect(opening).rejects.toThrow(message)
})
