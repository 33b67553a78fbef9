import { afterAll, beforeAll } from 'vitest'
import { createFaultyLedger } from '../../../test/harness/faulty-ledger.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { describeConformance } from './conformance.fixture.ts'
import { embeddedStage } from './embedded/embedded.fixture.ts'

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
