import { describeConformance } from './conformance.fixture.ts'
import { STAGES } from './stage.fixture.ts'

describeConformance('a URL', STAGES.http)
describeConformance('a queue', () => STAGES.sqs(null))
describeConformance('a bucket', () => STAGES.s3(null))
