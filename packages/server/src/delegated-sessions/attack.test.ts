import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../test/envelope.ts'
import { type Service, startService } from '../../test/harness.ts'
import * as keys from '../core/threshold.ts'
import { newSharedWallet } from '../key-shares/key-shares.fixture.ts'
import { expectData, start } from '../recovery/recovery.fixture.ts'
import { create, everything, expectStatus, ownSession } from './delegated.fixture.ts'

let service: Service
const reached: { at: ((step: string) => Promise<void>) | null } = { at: null }
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' }, { reached: async (step) => reached.at?.(step) })
})
afterAll(() => service.stop())

test('a part of a signature by shares that were replaced meanwhile does not leave', async () => {
  const tenant = await service.newTenant()
  const held = await newSharedWallet(service, tenant)
  const session = await ownSession(service, held, { policy: everything() })
  const begun = await start(held, [1, 2])
  const { commitments } = keys.commitNonces(held.share(2))
  const wire = { index: 2, hiding: keys.toHex(commitments.hiding), binding: keys.toHex(commitments.binding) }
  let replaced = 0
  reached.at = async (step) => {
    if (step !== 'cosigned' || replaced > 0) return
    replaced += 1
    expectData(await held.person.post('/mpc/recover', begun.body), 200)
  }
  const author = held.wallet.partyId
  const answer = await session
    .execute({ commands: [create('Note:Note', { author, text: 'x' })], commitments: wire })
    .finally(() => {
      reached.at = null
    })
  expect(replaced).toBe(1)
  // Decided on anew: what leaves is of the shares that there are now, which the old one can't complete.
  const { signingRequest } = expectStatus(answer, 200)
  const [row] = await service.sql<{ generation: number }>(
    `select (cosigned -> 'made' ->> 'generation')::int as generation from transactions where id = $1`,
    [signingRequest.id],
  )
  expect(row?.generation).toBe(2)
  const done = await session.execute({ signingRequestId: signingRequest.id, signature: '00'.repeat(64) })
  expectError(done, 400, 'signature_invalid', 'signature')
})
