import { afterAll, beforeAll } from 'vitest'
import { describeConformance } from '../src/ledger/conformance.fixture.ts'
import { embeddedStage } from '../src/ledger/embedded/embedded.fixture.ts'
import { createFaultyLedger } from './faulty-ledger.ts'
import { type Service, startService } from './harness.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

// What stands in for a remote ledger in other tests is one, as long as it is not told to fail.
describeConformance('test', async () => {
  const stage = await embeddedStage(service)
  return { ...stage, ledger: createFaultyLedger(stage.ledger, service.deps.db) }
})
