import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createClient } from '../../../sdk/src/index.ts'
import { halfkey, newWorkbench } from '../../src/operations/transfer/transfer.fixture.ts'
import { newDatabase } from '../harness/harness.ts'
import { type Receiver, startReceiver } from '../harness/receiver.ts'
import { readAnswers, withoutTexts } from './answers.ts'
import { type Answers, copyKeyFile, type Held, readFixture } from './fixture.ts'
import { deliverAll, openShares, redirect, signInAll, useKeys, useSessions } from './kept-promises.ts'
import { type Served, serve } from './serve.ts'

const COMMIT = 'f109ad7'
const held: Held = JSON.parse(readFixture(COMMIT, 'held.json'))
const bench = newWorkbench()
const kekFile = copyKeyFile(COMMIT, 'kek.key', bench.path('kek.key'))

let database: Awaited<ReturnType<typeof newDatabase>>
let receiver: Receiver
let service: Served

/** Runs a dump of statements, as `psql --file` would. */
async function restore(url: string, statements: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statements)
  } finally {
    await client.end()
  }
}

beforeAll(async () => {
  receiver = await startReceiver()
  database = await newDatabase()
  await restore(database.url, readFixture(COMMIT, 'database.sql.gz'))
  const settings = { HALFKEY_ROLE: 'api' }
  service = await serve({ databaseUrl: database.url, kekFile, at: held.at, settings })
})
afterAll(async () => {
  await service?.stop()
  await database?.drop()
  await receiver?.close()
  bench.remove()
})

// In this order: what is read is compared before it is used.
test(`a database of ${COMMIT}, migrated, answers every request for a record as it did`, async () => {
  const before: Answers = withoutTexts(JSON.parse(readFixture(COMMIT, 'answers.json.gz')))
  const after = withoutTexts(await readAnswers(service.url, held.admin, held.jobId))
  expect(Object.keys(before).length).toBeGreaterThan(50)
  for (const [path, data] of Object.entries(before)) expect(after, path).toMatchObject({ [path]: data })
})

test('its audit log verifies', async () => {
  const verified = await halfkey(service, 'audit', 'verify', '--tenant', held.tenantId)
  expect(verified.exitCode, verified.err + verified.out).toBe(0)
})

test('its API keys open what they opened, and no more', () => useKeys(service, held))

test('its users sign in by passkey, second factor and messenger', () => signInAll(service, held))

test('its delegated sessions execute within what is left of their caps', () => useSessions(service, held))

// Afterwards, for giving a key out ends the delegated sessions of its wallet.
test('its user sessions go on by their refresh tokens, and stored shares open', async () => {
  const { auth } = createClient({ baseUrl: service.url, apiKey: held.publishable })
  const ada = await auth.refresh(held.ada.refreshToken)
  const { auth: ofAda } = createClient({ baseUrl: service.url, apiKey: held.publishable, accessToken: ada.accessToken })
  expect((await ofAda.sessions.list()).data.map(({ current }) => current)).toContain(true)
  const { accessToken } = await auth.refresh(held.dan.refreshToken)
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
