import { afterAll, beforeAll } from 'vitest'
import { type Service, startService } from '../../../../test/harness/harness.ts'
import { describeConformance } from '../conformance.fixture.ts'
import { embeddedStage } from './embedded.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

describeConformance('embedded', () => embeddedStage(service))
