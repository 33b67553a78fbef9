import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, type Service, startService } from '../../../test/harness/harness.ts'
import type { Db } from '../db/db.ts'
import { createSigningKeys, rotateSigningKey } from './signing-keys.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

/** The keys as another process knows them, whose readings are counted and can be held after the database has answered. */
function elsewhere() {
  const { deps } = service
  const readings = { begun: 0, held: Promise.resolve() }
  const db: Db = {
    ...deps.db,
    async query(statement) {
      const rows = await deps.db.query(statement)
      readings.begun += 1
      await readings.held
      return rows as never
    },
  }
  const { keys, signers, log, now } = deps
  return { readings, found: createSigningKeys({ db, keys, signers, log, now }) }
}

test('a new key is found though the keys were being read, for one that nobody has, when it was made', async () => {
  const { readings, found } = elsewhere()
  await found.current()
  const { promise, resolve } = Promise.withResolvers<void>()
  readings.held = promise
  const before = readings.begun
  const missed = found.find('unknown')
  await eventually('the keys are read', async () => readings.begun > before)
  const { id } = await rotateSigningKey(service.deps, { revoke: false })
  const first = found.find(id)
  resolve()
  expect(await missed).toBeUndefined()
  expect((await first)?.id).toBe(id)
  expect((await found.current()).id).toBe(id)
})

test('a reading that ends late does not undo what a later one has found', async () => {
  const { readings, found } = elsewhere()
  await found.current()
  const { promise, resolve } = Promise.withResolvers<void>()
  readings.held = promise
  const before = readings.begun
  const slow = found.find('unknown')
  await eventually('the keys are read', async () => readings.begun > before)
  readings.held = Promise.resolve()
  const { id } = await rotateSigningKey(service.deps, { revoke: false })
  expect((await found.find(id))?.id).toBe(id)
  resolve()
  await slow
  expect((await found.current()).id).toBe(id)
})

test('many unknown ids at once share a reading or two', async () => {
  const { readings, found } = elsewhere()
  await found.current()
  const before = readings.begun
  const all = await Promise.all(Array.from({ length: 100 }, (_, n) => found.find(`unknown ${n}`)))
  expect(new Set(all)).toEqual(new Set([undefined]))
  expect(readings.begun - before).toBeLessThanOrEqual(2)
})
