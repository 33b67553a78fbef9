import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { eventsOf, type Person, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { type Ledger, LedgerError } from '../../platform/ports/ledger.ts'
import { newWallet, newWalletKey } from '../wallets/wallets.fixture.ts'
import { onboardWallets } from './onboarding.ts'
import { newRemoteLedger, type RemoteLedger } from './remote-ledger.fixture.ts'

const SECOND_MS = 1_000
const MINUTE_MS = 60_000

let service: Service
let remote: RemoteLedger
beforeAll(async () => {
  // Without a worker onboarding goes on when the tests say so.
  service = await startService({ HALFKEY_ROLE: 'api' })
})
beforeEach(async () => {
  const embedded = service.deps.ledgers.get('embedded') as Ledger
  remote = newRemoteLedger(embedded)
  remote.now = service.deps.now
  service.deps.ledgers = new Map([
    ['embedded', embedded],
    ['remote', remote],
  ])
  await service.sql('delete from wallets')
})
afterAll(() => service.stop())

async function newOwner(
  tenant?: Tenant,
): Promise<{ tenant: Tenant; person: Person; wallet: { id: string; partyId: string } }> {
  const home = tenant ?? (await service.newTenant())
  const person = await signInAs(service, home)
  return { tenant: home, person, wallet: await newWallet(person, { ledger: 'remote' }) }
}

/** As a server sees it: access tokens do not last as long as some of these tests. */
const statusOf = async (tenant: Tenant, person: Person) =>
  (await tenant.get(`/users/${person.userId}/wallet`)).body.data.status
const down = async () => {
  throw new Error('connect ECONNREFUSED')
}

describe('a wallet on a ledger beyond a network', () => {
  test('is pending until its party is there, for which the node’s key has signed, and told of as ready then', async () => {
    const { tenant, person, wallet } = await newOwner()
    const ids = { walletId: wallet.id, userId: person.userId }
    expect(await statusOf(tenant, person)).toBe('pending')
    expect(await eventsOf(service, tenant, 'wallet.created')).toEqual([
      { ...ids, custody: 'embedded', ledger: 'remote' },
    ])
    expect(await eventsOf(service, tenant, 'wallet.ready')).toEqual([])
    expect(remote.asked).toBe(0)
    expect(await onboardWallets(service.deps)).toBe(false)
    expect(remote.parties).toEqual(new Set([wallet.partyId]))
    expect(await statusOf(tenant, person)).toBe('ready')
    expect(await eventsOf(service, tenant, 'wallet.ready')).toEqual([ids])
    expect(await onboardWallets(service.deps)).toBe(false)
    expect(remote.asked).toBe(1)
    expect(await eventsOf(service, tenant, 'wallet.ready')).toHaveLength(1)
  })

  test('is asked for outside any transaction', async () => {
    const open = () =>
      service.sql(
        `select pid, xact_start::text from pg_stat_activity
          where datname = current_database() and state like 'idle in transaction%'`,
      )
    const beside = await service.newTenant()
    const seen: unknown[] = []
    // What stands open before ten other calls and after them: background work has transactions that last a moment.
    const look = async () => {
      const before = (await open()).map((row) => JSON.stringify(row))
      for (let round = 0; round < 10; round += 1) expect((await beside.get('/tenant')).status).toBe(200)
      seen.push(...(await open()).filter((row) => before.includes(JSON.stringify(row))))
    }
    remote.onAsk = look
    remote.onMade = look
    const { tenant, person } = await newOwner()
    await onboardWallets(service.deps)
    expect(await statusOf(tenant, person)).toBe('ready')
    expect(seen).toEqual([])
  })

  test('is not lost while the ledger is down: it is asked again, twice as late each time, at most after five minutes', async () => {
    const { tenant, person } = await newOwner()
    // The clock stands still but for what the test advances it by.
    vi.useFakeTimers({ toFake: ['Date'] })
    onTestFinished(() => void vi.useRealTimers())
    remote.onAsk = down
    await onboardWallets(service.deps)
    for (let attempt = 1; attempt <= 12; attempt += 1) {
      const waitMs = Math.min(5 * MINUTE_MS, SECOND_MS * 2 ** (attempt - 1))
      const [row] = await service.sql<{ at: Date }>('select onboard_at as at from wallets')
      const leftMs = (row?.at.getTime() ?? 0) - service.deps.now().getTime()
      expect(leftMs, `attempt ${attempt}`).toBe(waitMs)
      service.advance(waitMs - 1)
      // Just before nobody asks.
      expect(await onboardWallets(service.deps)).toBe(false)
      expect(remote.asked).toBe(attempt)
      service.advance(1)
      await onboardWallets(service.deps)
    }
    expect(await statusOf(tenant, person)).toBe('pending')
    remote.onAsk = null
    service.advance(5 * MINUTE_MS)
    await onboardWallets(service.deps)
    expect(await statusOf(tenant, person)).toBe('ready')
    expect(await eventsOf(service, tenant, 'wallet.failed')).toEqual([])
    expect(await eventsOf(service, tenant, 'wallet.ready')).toHaveLength(1)
  })

  test.each([
    ['an outcome that nobody knows', { retryable: false, definite: false }],
    ['a refusal that may pass', { retryable: true, definite: true }],
  ])('is asked for again after %s', async (_, options) => {
    const { tenant, person } = await newOwner()
    remote.onMade = async () => {
      throw new LedgerError('ledger_unavailable', 'The participant is gone.', options)
    }
    await onboardWallets(service.deps)
    expect(await statusOf(tenant, person)).toBe('pending')
    remote.onMade = null
    service.advance(SECOND_MS)
    await onboardWallets(service.deps)
    expect(await statusOf(tenant, person)).toBe('ready')
  })

  test('has failed where the ledger refuses for good, and is told of as such once', async () => {
    const { tenant, person, wallet } = await newOwner()
    const error = 'The participant refused the party.'
    remote.onAsk = async () => {
      throw new LedgerError('arguments_invalid', error)
    }
    await onboardWallets(service.deps)
    expect(await statusOf(tenant, person)).toBe('failed')
    expect(await eventsOf(service, tenant, 'wallet.failed')).toEqual([
      { walletId: wallet.id, userId: person.userId, error },
    ])
    remote.onAsk = null
    service.advance(10 * MINUTE_MS)
    await onboardWallets(service.deps)
    expect([remote.asked, await statusOf(tenant, person)]).toEqual([1, 'failed'])
    expect(await eventsOf(service, tenant, 'wallet.ready')).toEqual([])
    expectError(await person.post('/users/me/wallet'), 409, 'wallet_exists')
  })

  test('is never signed for where the ledger prepares another party', async () => {
    const { tenant, person } = await newOwner()
    const other = await newOwner(tenant)
    remote.prepares = other.wallet.partyId
    await onboardWallets(service.deps)
    expect(remote.parties).toEqual(new Set([other.wallet.partyId]))
    expect([await statusOf(tenant, person), await statusOf(other.tenant, other.person)]).toEqual(['failed', 'ready'])
  })

  test('in self-custody is signed for by nobody but its user', async () => {
    const tenant = await service.newTenant()
    const person = await signInAs(service, tenant)
    const key = newWalletKey()
    const body = { custody: 'self_custody', publicKey: key.publicKey, ledger: 'remote' }
    const { challengeId, message } = (await person.post('/users/me/wallet/challenge', body)).body.data
    expect(message.split('\n')[4]).toBe('remote')
    const proof = key.sign(message).toString('hex')
    // The challenge says which ledger it is.
    const { ledger: _, ...unnamed } = body
    const wallet = await newWallet(person, { ...unnamed, challengeId, proof })
    expect(wallet).toMatchObject({ ledger: 'remote', status: 'pending' })
    await onboardWallets(service.deps)
    expect(await statusOf(tenant, person)).toBe('pending')
    expect([remote.parties.size, remote.signed]).toEqual([0, []])
  })

  test('waits while its ledger is not configured', async () => {
    const { tenant, person } = await newOwner()
    const ledgers = service.deps.ledgers
    await onboardWallets({ ...service.deps, ledgers: new Map([['embedded', ledgers.get('embedded') as Ledger]]) })
    expect(await statusOf(tenant, person)).toBe('pending')
    service.advance(SECOND_MS)
    await onboardWallets(service.deps)
    expect(await statusOf(tenant, person)).toBe('ready')
  })
})

describe('what happens meanwhile', () => {
  test('a process that dies after the ledger has done it: another one finds out, and tells of it once', async () => {
    const { tenant, person } = await newOwner()
    const dies = async () => {
      throw new Error('killed')
    }
    await expect(onboardWallets({ ...service.deps, failpoint: dies })).rejects.toThrow('killed')
    expect([remote.parties.size, await statusOf(tenant, person)]).toEqual([1, 'pending'])
    await onboardWallets(service.deps)
    expect(remote.asked).toBe(1)
    service.advance(2 * MINUTE_MS)
    await onboardWallets(service.deps)
    expect(await statusOf(tenant, person)).toBe('ready')
    expect(await eventsOf(service, tenant, 'wallet.ready')).toHaveLength(1)
  })

  test('processes that are at it together take each wallet once, however many there are', async () => {
    const tenant = await service.newTenant()
    const owners = await Promise.all(Array.from({ length: 30 }, () => newOwner(tenant)))
    expect(await onboardWallets(service.deps)).toBe(true)
    expect((await tenant.get('/wallets?status=ready')).body.total).toBe(10)
    await Promise.all(Array.from({ length: 20 }, () => onboardWallets(service.deps)))
    expect((await tenant.get('/wallets?status=ready')).body.total).toBe(30)
    expect(remote.asked).toBe(30)
    const told = await eventsOf(service, tenant, 'wallet.ready')
    expect(new Set(told.map((data) => data.walletId))).toEqual(new Set(owners.map(({ wallet }) => wallet.id)))
    expect(told).toHaveLength(30)
  })

  test('one wallet that fails keeps no other from its turn', async () => {
    const tenant = await service.newTenant()
    const owners = await Promise.all(Array.from({ length: 5 }, () => newOwner(tenant)))
    remote.onAsk = async (party) => {
      if (party === owners[2]?.wallet.partyId) await down()
    }
    await onboardWallets(service.deps)
    const statuses = await Promise.all(owners.map(({ person }) => statusOf(tenant, person)))
    expect(statuses).toEqual(['ready', 'ready', 'pending', 'ready', 'ready'])
  })

  test('a user who is deleted: nothing is told of', async () => {
    const { tenant, person } = await newOwner()
    remote.onMade = async () => void (await tenant.delete(`/users/${person.userId}`))
    await onboardWallets(service.deps)
    expect(await eventsOf(service, tenant, 'wallet.ready')).toEqual([])
    expect((await tenant.get('/wallets')).body.total).toBe(0)
  })

  test('a wallet that is frozen stays so, and is ready once it is unfrozen', async () => {
    const { tenant, person, wallet } = await newOwner()
    await tenant.post(`/wallets/${wallet.id}/freeze`)
    await onboardWallets(service.deps)
    expect(await statusOf(tenant, person)).toBe('frozen')
    expect((await tenant.post(`/wallets/${wallet.id}/unfreeze`)).body.data.status).toBe('ready')
    expect(await eventsOf(service, tenant, 'wallet.ready')).toHaveLength(1)
  })
})
