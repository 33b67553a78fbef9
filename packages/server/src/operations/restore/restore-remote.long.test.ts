import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, eventually, type Service } from '../../../test/harness/harness.ts'
import { hasMoto, Moto } from '../../../test/harness/moto.ts'
import { halfkey, type Installation, newInstallation } from './restore.fixture.ts'

const WHY = hasMoto ? '' : ' (skipped: moto is not installed in .cache/moto, see .ci/run)'
const PATIENCE_MS = 90_000
const readyz = (service: Service) => call(service.url, 'GET', '/readyz')
const users = (service: Service, key: string) => call(service.url, 'GET', '/v1/users', { key })

/** A place for one object: GET and PUT with a bearer token. It can be told to answer nothing. */
async function startPlace(token: string) {
  let stored: string | null = null
  let isHanging = false
  let asked = 0
  const server: Server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      asked += 1
      if (isHanging) return
      if (request.headers.authorization !== `Bearer ${token}`) return response.writeHead(401).end()
      if (request.method === 'PUT') {
        stored = Buffer.concat(chunks).toString()
        return response.writeHead(204).end()
      }
      return stored === null ? response.writeHead(404).end() : response.writeHead(200).end(stored)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/floor`,
    stored: () => stored,
    asked: () => asked,
    put(text: string) {
      stored = text
    },
    hang(hangs: boolean) {
      isHanging = hangs
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

let installation: Installation
let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'halfkey-floor-place-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

function credentials(text: string): string {
  const path = join(folder, 'credentials')
  writeFileSync(path, `${text}\n`, { mode: 0o600 })
  return path
}

/** Keeps a floor at an address, and puts the database back. Another machine than the first one notices it. */
async function expectNoticed(settings: Record<string, string>, stored: () => Promise<string | null>) {
  installation = await newInstallation()
  try {
    const first = await installation.start(settings)
    const tenant = await first.newTenant()
    await first.stop()
    const backup = await installation.copy()
    const second = await installation.start(settings)
    const before = await stored()
    expect(before).toContain('halfkey-floor/1')
    const made = await second.newTenant()
    await eventually('a higher floor', async () => (await stored())?.includes(`audit ${made.tenantId}`))
    expect(await stored()).not.toBe(before)
    await second.stop()
    installation.use(backup)
    const third = await installation.start(settings)
    expectError(await users(third, tenant.key), 500, 'database_behind_floor')
    expect((await readyz(third)).status).toBe(503)
    expect((await halfkey(third, 'restore', 'accept', '--keep-api-keys')).exitCode).toBe(0)
    await eventually('readiness', async () => (await readyz(third)).status === 200)
    expect((await users(third, tenant.key)).status).toBe(200)
    expect(JSON.parse((await stored())?.split('\n')[0] as string).epoch).toBe(1)
    await third.stop()
  } finally {
    await installation.remove()
  }
}

describe.skipIf(!hasMoto)(`a floor in a bucket, with moto${WHY}`, () => {
  test('is noticed by any machine, and unsigned requests could not write it', async () => {
    const moto = await Moto.start()
    try {
      const location =
        '<CreateBucketConfiguration><LocationConstraint>eu-central-1</LocationConstraint></CreateBucketConfiguration>'
      await moto.call('s3', '/floors', { method: 'PUT', body: location })
      const settings = {
        HALFKEY_FLOOR: `s3:${moto.url}/floors/halfkey/floor?region=${moto.region}`,
        HALFKEY_FLOOR_CREDENTIALS_FILE: credentials(`${moto.access.accessKeyId}:${moto.access.secretAccessKey}`),
      }
      await expectNoticed(settings, () => moto.call('s3', '/floors/halfkey/floor').catch(() => null))
      expect((await fetch(`${moto.url}/floors/halfkey/floor`, { method: 'PUT', body: 'x' })).status).toBe(403)
    } finally {
      await moto.stop()
    }
  })
})

describe('a floor at a URL', () => {
  test('is noticed by any machine that has its token', async () => {
    await using place = await startPlace('t0ken')
    const settings = { HALFKEY_FLOOR: place.url, HALFKEY_FLOOR_CREDENTIALS_FILE: credentials('t0ken') }
    await expectNoticed(settings, async () => place.stored())
  })

  test('that hangs stops neither a start, nor calls, nor a stop; and counts again when it answers', async () => {
    await using place = await startPlace('t0ken')
    const settings = { HALFKEY_FLOOR: place.url, HALFKEY_FLOOR_CREDENTIALS_FILE: credentials('t0ken') }
    installation = await newInstallation()
    try {
      const first = await installation.start(settings)
      const tenant = await first.newTenant()
      await eventually('a floor', async () => place.stored()?.includes(`audit ${tenant.tenantId}`))
      await first.stop()
      const backup = await installation.copy()
      const second = await installation.start(settings)
      const later = await second.newTenant()
      await eventually('a higher floor', async () => place.stored()?.includes(`audit ${later.tenantId}`))
      place.hang(true)
      const asked = place.asked()
      await second.newTenant()
      await eventually('a request that hangs', async () => place.asked() > asked)
      expect((await users(second, later.key)).status).toBe(200)
      await second.stop()
      installation.use(backup)
      // Nothing says that this database is an earlier one: the process goes on, and tells that it has no floor.
      const third = await installation.start(settings)
      expect((await users(third, tenant.key)).status).toBe(200)
      await eventually('the failure', async () => third.logs().includes('the floor could not be read'))
      const { body } = await readyz(third)
      expect(body.data.checks.find(({ name }: { name: string }) => name === 'floor').state).toBe('unknown')
      place.hang(false)
      // The next read is due 10 s after the failed one, and on a busy machine a process looks only every 10 s what has come of it.
      await eventually('the setback', async () => (await readyz(third)).status === 503, PATIENCE_MS)
      expectError(await users(third, tenant.key), 500, 'database_behind_floor')
      expect(place.stored()).toContain(`audit ${later.tenantId}`)
      await third.stop()
    } finally {
      await installation.remove()
    }
  })

  test('that hangs at a start, and was altered when it answers, is believed no more than at a start, and not replaced', async () => {
    await using place = await startPlace('t0ken')
    const settings = { HALFKEY_FLOOR: place.url, HALFKEY_FLOOR_CREDENTIALS_FILE: credentials('t0ken') }
    installation = await newInstallation()
    try {
      const first = await installation.start(settings)
      const tenant = await first.newTenant()
      await eventually('a floor', async () => place.stored()?.includes(`audit ${tenant.tenantId}`))
      await first.stop()
      const altered = place.stored()?.replace(/"records":\d+/, '"records":1') as string
      place.put(altered)
      place.hang(true)
      const second = await installation.start(settings)
      expect((await users(second, tenant.key)).status).toBe(200)
      place.hang(false)
      await eventually('the refusal', async () => (await readyz(second)).status === 503, PATIENCE_MS)
      expectError(await users(second, tenant.key), 500, 'database_behind_floor')
      expect(place.stored()).toBe(altered)
      await second.stop()
    } finally {
      await installation.remove()
    }
  })

  test('with another token is told, and never replaced', async () => {
    await using place = await startPlace('t0ken')
    installation = await newInstallation()
    try {
      const service = await installation.start({
        HALFKEY_FLOOR: place.url,
        HALFKEY_FLOOR_CREDENTIALS_FILE: credentials('wrong'),
      })
      await eventually('the failure', async () => service.logs().includes('the floor could not be read'))
      expect(service.logs()).not.toContain('wrong')
      expect([(await readyz(service)).status, place.stored()]).toEqual([200, null])
      await service.stop()
    } finally {
      await installation.remove()
    }
  })
})
