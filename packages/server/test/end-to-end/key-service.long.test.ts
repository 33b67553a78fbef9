import { readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, type TestContext, test, vi } from 'vitest'
import { idTokenOf, kidsOf, partOf, readPublic } from '../../src/identity/id-tokens/id-tokens.fixture.ts'
import { rotateIdTokenKeys } from '../../src/identity/id-tokens/service.ts'
import { newApp, signInAs } from '../../src/identity/sessions/sessions.fixture.ts'
import { eventually, newDatabase, type Service, startService } from '../harness/harness.ts'
import { hasMoto, Moto } from '../harness/moto.ts'
import { startReceiver } from '../harness/receiver.ts'
import { DataFolder, ServiceProcess } from '../harness/service-process.ts'

describe.skipIf(!hasMoto)(
  `a key-encryption key that AWS KMS wraps${hasMoto ? '' : ' (skipped: moto is not installed)'}`,
  () => {
    let moto: Moto
    let kms: string
    let env: Record<string, string>
    beforeAll(async () => {
      moto = await Moto.start()
      kms = `awskms:${moto.region}/${(await moto.kms('CreateKey', {})).KeyMetadata.KeyId}`
      env = {
        AWS_ACCESS_KEY_ID: moto.access.accessKeyId,
        AWS_SECRET_ACCESS_KEY: moto.access.secretAccessKey,
        AWS_ENDPOINT_URL_KMS: moto.url,
      }
    })
    afterAll(() => moto?.stop())
    afterEach(() => void vi.unstubAllEnvs())

    const reach = (url = moto.url) => {
      for (const [name, value] of Object.entries({ ...env, AWS_ENDPOINT_URL_KMS: url })) vi.stubEnv(name, value)
    }

    /** A place for services with one database and key file. */
    async function newPlace(context: TestContext) {
      const database = await newDatabase('migrated')
      const folder = new DataFolder()
      context.onTestFinished(async () => {
        await folder.remove()
        await database.drop()
      })
      const kekFile = join(folder.path, 'kek.key')
      const settings = { DATABASE_URL: database.url, HALFKEY_KEK_FILE: kekFile, HALFKEY_DATA_DIR: folder.dataDir }
      return {
        lines: () => readFileSync(kekFile, 'utf8').trim().split('\n'),
        write: (...lines: string[]) =>
          writeFileSync(kekFile, lines.map((line) => `${line}\n`).join(''), { mode: 0o600 }),
        async start(more: Record<string, string> = {}) {
          const service = await startService({ ...settings, ...more })
          context.onTestFinished(() => service.stop())
          return service
        },
        /** Runs a command. @returns how it ended, and what it said */
        async run(args: readonly string[], more: Record<string, string> = {}) {
          const process = new ServiceProcess({
            cwd: folder.path,
            env: { ...folder.env({ ...settings, ...more }), ...env },
            args,
          })
          const { code } = await process.exited
          return { code, said: process.stdout + process.stderr }
        },
      }
    }

    /** Something that needs an opened secret: the signature of a webhook. */
    async function delivers(service: Service, context: TestContext): Promise<void> {
      const receiver = await startReceiver()
      context.onTestFinished(() => receiver.close())
      const tenant = await service.newTenant()
      const made = await tenant.post('/webhooks', { url: receiver.url, events: ['user.created'] })
      expect(made.status).toBe(201)
      await tenant.post('/users', {})
      await receiver.count('a delivery', 1)
    }

    test('is made at the first start, never lies plain in the file, and is found again', async (context) => {
      reach()
      const place = await newPlace(context)
      const service = await place.start({ HALFKEY_KEK: kms })
      expect(place.lines()).toEqual([expect.stringMatching(new RegExp(`^${kms} [0-9a-f]{16} \\S+$`))])
      await delivers(service, context)
      const again = await place.start({ HALFKEY_KEK: kms })
      expect((await again.deps.keys.wrap(Buffer.alloc(32), Buffer.alloc(0))).keyId).toBe(
        place.lines()[0]?.split(' ')[1],
      )
    })

    test('without the service no process starts; those that run go on', async (context) => {
      reach()
      const place = await newPlace(context)
      const service = await place.start({ HALFKEY_KEK: kms })
      reach('http://127.0.0.1:9')
      await expect(place.start({ HALFKEY_KEK: kms })).rejects.toThrow(/AWS KMS, Decrypt/)
      await delivers(service, context)
    })

    test('past its lifetime without the service, what needs a key is refused with a time to retry, and nothing else', async (context) => {
      reach()
      const place = await newPlace(context)
      const service = await place.start({ HALFKEY_KEK: kms, HALFKEY_KEK_LIFETIME: '10s' })
      const webhook = () => service.admin.post('/webhooks', { url: 'https://example.com/', events: ['user.created'] })
      expect((await webhook()).status).toBe(201)
      reach('http://127.0.0.1:9')
      const refused = await eventually('a refusal', async () => {
        const answer = await webhook()
        return answer.status === 201 ? null : answer
      })
      expect([refused.status, refused.body.code]).toEqual([500, 'key_service_unavailable'])
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
      expect((await service.admin.get('/webhooks')).status).toBe(200)
      expect((await fetch(`${service.url}/healthz`)).status).toBe(200)
      reach()
      await eventually('keys again', async () => (await webhook()).status === 201)
    })

    test('without the service, an app that has a key of ID tokens goes on, and another one gets its first key later', async (context) => {
      reach()
      const place = await newPlace(context)
      const service = await place.start({ HALFKEY_KEK: kms, HALFKEY_KEK_LIFETIME: '10s' })
      const other = await newApp(service.admin)
      const ada = await signInAs(service, service.admin)
      const bob = await signInAs(service, service.admin, { appId: other })
      const kid = partOf(await idTokenOf(ada), 0).kid
      reach('http://127.0.0.1:9')
      const refused = await eventually('a refusal', async () => {
        const answer = await service.admin.post('/webhooks', { url: 'https://example.com/', events: ['user.created'] })
        return answer.status === 201 ? null : answer
      })
      expect(refused.body.code).toBe('key_service_unavailable')
      expect(partOf(await idTokenOf(ada), 0).kid).toBe(kid)
      expect(await kidsOf(service, ada.appId)).toEqual([kid])
      for (const answer of [await bob.post('/auth/id-token'), await readPublic(service, other, 'jwks.json')]) {
        expect([answer.status, answer.body.code]).toEqual([500, 'key_service_unavailable'])
        expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
      }
      // Tokens by a key that was replaced still count, although the next key cannot be made.
      await rotateIdTokenKeys(service.deps, { revoke: false })
      expect((await ada.post('/auth/id-token')).body.code).toBe('key_service_unavailable')
      expect(await kidsOf(service, ada.appId)).toEqual([kid])
      expect((await readPublic(service, ada.appId, 'jwks.json')).headers.get('cache-control')).toBe('public, max-age=0')
      reach()
      await eventually('a key', async () => (await bob.post('/auth/id-token')).status === 200)
      expect(await kidsOf(service, other)).toHaveLength(1)
    })

    test('a plain key moves to the service and back while processes run, and is replaced by one that was never plain', async (context) => {
      reach()
      const place = await newPlace(context)
      expect((await place.run(['keys', 'generate-kek'])).code).toBe(0)
      const first = await place.start()
      const [plain] = place.lines()
      const keyId = async (service: Service) => (await service.deps.keys.wrap(Buffer.alloc(32), Buffer.alloc(0))).keyId
      const before = await keyId(first)
      const moved = await place.run(['keys', 'migrate', '--to', kms])
      expect([moved.code, moved.said]).toEqual([0, expect.stringContaining('Lines changed: 1')])
      expect(place.lines()).toEqual([expect.stringContaining(`${kms} ${before} `)])
      await delivers(first, context)
      expect(await keyId(first)).toBe(before)
      await delivers(await place.start({ HALFKEY_KEK: kms }), context)

      const rotated = await place.run(['keys', 'rotate-kek', '--wait', '2s'], { HALFKEY_KEK: kms })
      expect([rotated.code, rotated.said]).toEqual([0, expect.stringContaining('created now')])
      const lines = place.lines()
      expect(lines.map((line) => line.split(' ')[0])).toEqual([kms, kms])
      await eventually('the new key', async () => (await keyId(first)) === lines[0]?.split(' ')[1])
      await delivers(first, context)

      expect((await place.run(['keys', 'migrate', '--to', 'file'])).code).toBe(0)
      expect(place.lines()[1]).toBe(plain)
      await delivers(first, context)
    })

    test('a plain key in the file is refused where a service is set, with what to do', async (context) => {
      reach()
      const place = await newPlace(context)
      await place.start()
      await expect(place.start({ HALFKEY_KEK: kms })).rejects.toThrow(`halfkey keys migrate --to '${kms}'`)
    })

    test('a line that the service did not wrap for this key starts nothing', async (context) => {
      reach()
      const place = await newPlace(context)
      await place.start({ HALFKEY_KEK: kms })
      const [service, , wrapped] = (place.lines()[0] as string).split(' ')
      place.write(`${service} 0123456789abcdef ${wrapped}`)
      await expect(place.start({ HALFKEY_KEK: kms })).rejects.toThrow(/AWS KMS, Decrypt/)
    })

    test('no transaction waits for the service, neither when a lifetime is renewed nor when the file changes', async (context) => {
      reach()
      const place = await newPlace(context)
      const service = await place.start({ HALFKEY_KEK: kms, HALFKEY_KEK_LIFETIME: '10s' })
      const [line] = place.lines()
      const next = await place.run(['keys', 'generate-kek', '--service', kms])
      // From here on the service takes every connection and says nothing.
      let asked = 0
      const silent = createServer(() => {
        asked += 1
      })
      await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
      const sockets = new Set<Socket>()
      silent.on('connection', (socket) => void sockets.add(socket))
      context.onTestFinished(() => {
        for (const socket of sockets) socket.destroy()
        silent.close()
      })
      reach(`http://127.0.0.1:${(silent.address() as AddressInfo).port}`)
      const webhook = () => service.admin.post('/webhooks', { url: 'https://example.com/', events: ['user.created'] })
      const open = () =>
        service.sql(
          `select pid, xact_start::text from pg_stat_activity
            where datname = current_database() and state like 'idle in transaction%'`,
        )
      // Ten calls that seal, and the transactions that stood open before them and after.
      const seals = async () => {
        const before = (await open()).map((row) => JSON.stringify(row))
        for (let round = 0; round < 10; round += 1) expect((await webhook()).status).toBe(201)
        return (await open()).filter((row) => before.includes(JSON.stringify(row)))
      }
      await eventually('the service is asked again', async () => asked > 0)
      expect(await seals()).toEqual([])
      const before = asked
      place.write(next.said.trim(), line as string)
      await eventually('the service is asked for the new line', async () => {
        await webhook()
        return asked > before
      })
      expect(await seals()).toEqual([])
    })
  },
)
