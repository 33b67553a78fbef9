import { afterAll, beforeAll, expect, test } from 'vitest'
import { startSession } from '../../src/identity/sessions/service.ts'
import { halfkey, importFrom, newWorkbench } from '../../src/operations/transfer/transfer.fixture.ts'
import type { Id } from '../../src/platform/ids.ts'
import { newDatabase } from '../harness/harness.ts'
import { type Receiver, startReceiver } from '../harness/receiver.ts'
import { readAnswers, withoutTexts } from './answers.ts'
import { type Answers, copyKeyFile, fixturePath, type Held, readFixture } from './fixture.ts'
import { deliverAll, openShares, redirect, signInAll, useKeys, useSessions } from './kept-promises.ts'
import { type Served, serve } from './serve.ts'

const COMMIT = 'f109ad7'
const held: Held = JSON.parse(readFixture(COMMIT, 'held.json'))
const bench = newWorkbench()

/** What stays behind in the old installation: sessions, jobs, the plan; and keys of the installation, which is another one. */
const LEFT_BEHIND = /^\/(users\/\w+\/sessions|jobs\/|billing\/)/

let database: Awaited<ReturnType<typeof newDatabase>>
let receiver: Receiver
let service: Served
const kekFile = bench.newKey('new.kek')

beforeAll(async () => {
  receiver = await startReceiver()
  database = await newDatabase()
  service = await serve({ databaseUrl: database.url, kekFile, at: held.at, settings: { HALFKEY_ROLE: 'api' } })
  const keyFile = copyKeyFile(COMMIT, 'transfer.key', bench.path('transfer.key'))
  const imported = await importFrom(service, fixturePath(COMMIT, 'tenant.halfkey'), keyFile)
  expect(imported.exitCode, imported.err).toBe(0)
})
afterAll(async () => {
  await service?.stop()
  await database?.drop()
  await receiver?.close()
  bench.remove()
})

// In this order: what is read is compared before it is used.
test(`a tenant that ${COMMIT} exported, imported into a new installation, has every record as it was`, async () => {
  const before: Answers = withoutTexts(JSON.parse(readFixture(COMMIT, 'answers.json.gz')))
  const moved = Object.keys(before).filter((path) => !LEFT_BEHIND.test(path))
  const after = withoutTexts(await readAnswers(service.url, held.admin, null))
  for (const path of moved) expect(after, path).toMatchObject({ [path]: before[path] })
})

test('its audit log verifies', async () => {
  const verified = await halfkey(service, 'audit', 'verify', '--tenant', held.tenantId)
  expect(verified.exitCode, verified.err + verified.out).toBe(0)
})

test('its API keys open what they opened, and no more', () => useKeys(service, held))

test('its users sign in by passkey, second factor and messenger', () => signInAll(service, held))

test('its delegated sessions execute within what is left of their caps', () => useSessions(service, held))

// Afterwards, for giving a key out ends the delegated sessions of its wallet.
test('its stored shares open', async () => {
  // A guest has no way to sign in again: sessions don't move.
  const { accessToken } = await startSession(service.deps, {
    tenantId: held.tenantId as Id<'ten'>,
    appId: held.appId as Id<'app'>,
    userId: held.dan.userId as Id<'usr'>,
    amr: ['hwk', 'user'],
    method: 'passkey',
    caller: { keyId: 'key_test' } as never,
    origin: { requestId: 'test', address: '203.0.113.7', userAgent: 'test', webOrigin: null, actor: null },
  })
  await openShares(service, held, accessToken)
})

test('its pending deliveries are delivered, and its dead letters can be sent again', async () => {
  await redirect(service, held, receiver)
  await service.stop()
  service = await serve({ databaseUrl: database.url, kekFile })
  await deliverAll(service, held, receiver)
  const verified = await halfkey(service, 'audit', 'verify', '--tenant', held.tenantId)
  expect(verified.exitCode, verified.err + verified.out).toBe(0)
})
