import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { signInAs } from '../../src/identity/sessions/sessions.fixture.ts'
import { newClient } from '../../src/keys/key-generations/key-generations.fixture.ts'
import { deal, newSharedWallet, newSplitWallet, protectedShare } from '../../src/keys/key-shares/key-shares.fixture.ts'
import { dealAnew } from '../../src/keys/recovery/recovery.fixture.ts'
import { type Answer, type Service, startService, type Tenant } from '../harness/harness.ts'

/*
 * With an Idempotency-Key a call runs in one transaction. Threshold arithmetic has few threads: who waits for one must not
 * do so with the connections that everybody else's calls need.
 */

let service: Service
let tenant: Tenant
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
  tenant = await service.newTenant()
})
afterAll(() => service.stop())

const CALLS = 40

/** How many of one user's calls were answered before a later call of somebody else, which asks the database too. */
async function answeredFirst(call: (n: number) => Promise<Answer>): Promise<number> {
  let answered = 0
  const answers = Array.from({ length: CALLS }, (_, n) =>
    call(n).finally(() => {
      answered += 1
    }),
  )
  expect((await tenant.get('/apps')).status).toBe(200)
  const first = answered
  for (const { status, text } of await Promise.all(answers)) expect(status, text).toBeLessThan(500)
  return first
}

const keyed = (n: number) => ({ headers: { 'idempotency-key': `call ${n}` } })

describe('forty calls of one user at once, each with an Idempotency-Key, leave connections for others:', () => {
  test('beginning to generate keys', async () => {
    const person = await signInAs(service, tenant)
    const clients = await Promise.all(Array.from({ length: CALLS }, newClient))
    expect(await answeredFirst((n) => person.post('/mpc/dkg', clients[n]?.body, keyed(n)))).toBeLessThan(CALLS / 2)
  })

  test('storing shares', async () => {
    const split = await newSplitWallet(service, tenant, { dealt: deal({ threshold: 15, total: 15 }) })
    const body = protectedShare(split, 2)
    expect(await answeredFirst((n) => split.person.post('/mpc/shares', body, keyed(n)))).toBeLessThan(CALLS / 2)
  })

  test('sharing a key anew', async () => {
    const held = await newSharedWallet(service, tenant)
    const { body } = await dealAnew(held, [1, 2])
    expect(await answeredFirst((n) => held.person.post('/mpc/recover', body, keyed(n)))).toBeLessThan(CALLS / 2)
  })
})
