import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import type * as keys from '../../platform/security/threshold/threshold.ts'
import {
  deal,
  holderOf,
  newSplitWallet,
  passkeyProtected,
  protectedShare,
  type SplitWallet,
} from './key-shares.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

/** A ciphertext as large as the bounds of its fields allow: 35 KB. */
function largest(scalar: Uint8Array) {
  const ids = Array.from({ length: 20 }, (_, n) => String(n).padStart(1024, 'A'))
  const { clientCiphertext } = passkeyProtected(scalar, ids)
  const wraps = clientCiphertext.wraps.map((wrap) => ({
    ...wrap,
    rpId: 'x'.repeat(253),
    wrappedDek: 'A'.repeat(340),
  }))
  return { ...clientCiphertext, wraps }
}

const keptBytes = async ({ walletId }: SplitWallet): Promise<number> => {
  const [row] = await service.sql<{ n: string }>(
    'select sum(length(client_ciphertext::text)) as n from key_shares where wallet_id = $1',
    [walletId],
  )
  return Number(row?.n)
}

test('a user cannot keep so much of a wallet that a look at its shares holds everybody up', async () => {
  const of = await newSplitWallet(service, await service.newTenant(), { dealt: deal({ threshold: 2, total: 15 }) })
  const answers = await Promise.all(
    of.shares.map(({ index, scalar }) =>
      of.person.post('/mpc/shares', protectedShare(of, index, { clientCiphertext: largest(scalar) })),
    ),
  )
  const stored = answers.filter(({ status }) => status === 201)
  expect(stored).toHaveLength(7)
  for (const answer of answers) if (!stored.includes(answer)) expectError(answer, 409, 'share_limit')
  expect(await keptBytes(of)).toBeLessThanOrEqual(256 * 1024)
  // Nor by way of the wraps of small ones.
  const free = of.shares.find(({ index }) => !stored.some(({ body }) => body.data.index === index)) as keys.Share
  const clientCiphertext = passkeyProtected(free.scalar).clientCiphertext
  const small = protectedShare(of, free.index, { clientCiphertext, holder: holderOf(free.index) })
  expect((await of.person.post('/mpc/shares', small)).status).toBe(201)
  const wraps = [...clientCiphertext.wraps, ...largest(free.scalar).wraps.slice(1)]
  const grown = await of.person.call('PATCH', `/mpc/shares/${of.walletId}`, { body: { index: free.index, wraps } })
  expectError(grown, 409, 'share_limit')
  // What goes makes room.
  expect((await of.person.delete(`/mpc/shares/${of.walletId}`)).status).toBe(200)
  expect((await of.person.post('/mpc/shares', small)).status).toBe(201)
})
