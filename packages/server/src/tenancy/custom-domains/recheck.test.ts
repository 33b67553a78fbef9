import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import {
  eventsOf,
  type Registered,
  registered,
  type Stage,
  startStage,
  stateOf,
  verified,
  verify,
} from './custom-domains.fixture.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

let stage: Stage
let tenant: Tenant
beforeAll(async () => {
  stage = await startStage()
})
afterAll(() => stage.stop())

const types = async (of: Tenant) => (await eventsOf(stage.service, of)).map(([type]) => type)
const txt = (text: string) => [{ type: 'TXT' as const, text }]
/** How often DNS was asked; on a busy machine a question may be sent again before its answer comes. */
const askedOf = ({ record }: Registered) =>
  new Set(stage.dns.questions.flatMap(({ name, id }) => (name === record ? [id] : []))).size

/** Lets time pass, and waits until the service has looked at the domain by itself. */
async function after(ms: number, made: Registered) {
  const before = await stateOf(tenant, made)
  stage.service.advance(ms)
  return eventually('the domain is looked at', async () => {
    const now = await stateOf(tenant, made)
    return now.lastCheckedAt !== before.lastCheckedAt ? now : null
  })
}

/** When the service is to look by itself, and by what it decides. */
async function scheduleOf(made: Registered): Promise<{ inMs: number | null }> {
  const [row] = await stage.service.sql<{ at: Date | null; looked: Date }>(
    'select next_check_at as at, coalesce(last_checked_at, created_at) as looked from custom_domains where id = $1',
    [made.id],
  )
  return { inMs: row?.at == null ? null : row.at.getTime() - row.looked.getTime() }
}

describe('a verified domain', () => {
  beforeAll(async () => {
    tenant = await stage.service.newTenant()
  })

  test('is looked at every day, and stays verified while its record is there', async () => {
    const made = await verified(stage, tenant)
    expect(await scheduleOf(made)).toEqual({ inMs: 24 * HOUR_MS })
    const asked = askedOf(made)
    for (const day of [1, 2]) {
      expect(await after(24 * HOUR_MS, made)).toMatchObject({ status: 'verified', error: null, missingSince: null })
      expect(askedOf(made)).toBe(asked + day)
    }
    expect(await types(tenant)).toEqual(['custom_domain.verified'])
  })

  test('fails once its record has been missing for 72 hours, not before, and is told of once', async () => {
    const mine = await stage.service.newTenant()
    tenant = mine
    const made = await verified(stage, mine)
    stage.dns.set(made.record, 'NXDOMAIN')
    const lost = await after(24 * HOUR_MS, made)
    expect(lost).toMatchObject({ status: 'verified', error: 'dns_record_missing', missingSince: lost.lastCheckedAt })
    expect(await scheduleOf(made)).toEqual({ inMs: HOUR_MS })
    expect(await after(HOUR_MS, made)).toMatchObject({ status: 'verified', missingSince: lost.missingSince })
    const late = await after(70 * HOUR_MS + 30 * MINUTE_MS, made)
    expect(late).toMatchObject({ status: 'verified', missingSince: lost.missingSince })
    // The next look is when the 72 hours are over, not a whole hour later.
    const { inMs } = await scheduleOf(made)
    expect(inMs).toBeLessThanOrEqual(30 * MINUTE_MS)
    expect(await types(mine)).toEqual(['custom_domain.verified'])
    const failed = await after(30 * MINUTE_MS, made)
    expect(failed).toMatchObject({ status: 'failed', error: 'dns_record_missing', missingSince: lost.missingSince })
    expect(await types(mine)).toEqual(['custom_domain.verified', 'custom_domain.failed'])
    expect(await scheduleOf(made)).toEqual({ inMs: null })
    stage.dns.set(made.record, txt(made.token))
    expect((await verify(mine, made)).body.data).toMatchObject({ status: 'verified', error: null, missingSince: null })
    expect((await types(mine)).at(-1)).toBe('custom_domain.verified')
  })

  test('is not held against by servers that do not answer, however long', async () => {
    const mine = await stage.service.newTenant()
    tenant = mine
    const made = await verified(stage, mine)
    stage.dns.set(made.record, 'SERVFAIL')
    for (const ms of [24 * HOUR_MS, 80 * HOUR_MS, 200 * HOUR_MS])
      expect(await after(ms, made)).toMatchObject({ status: 'verified', error: 'dns_unavailable', missingSince: null })
    expect(await scheduleOf(made)).toEqual({ inMs: 10 * MINUTE_MS })
    // Nor do they clear what is known.
    stage.dns.set(made.record, [])
    const lost = await after(HOUR_MS, made)
    stage.dns.set(made.record, 'REFUSED')
    expect(await after(100 * HOUR_MS, made)).toMatchObject({ status: 'verified', missingSince: lost.missingSince })
    stage.dns.set(made.record, txt(made.token))
    expect(await after(HOUR_MS, made)).toMatchObject({ status: 'verified', error: null, missingSince: null })
    expect(await types(mine)).toEqual(['custom_domain.verified'])
  })
})

describe('a pending domain', () => {
  test('is found by itself, and told of as by a call', async () => {
    tenant = await stage.service.newTenant()
    const made = await registered(tenant)
    expect(await scheduleOf(made)).toEqual({ inMs: MINUTE_MS })
    expect(await after(MINUTE_MS, made)).toMatchObject({ status: 'pending', error: 'dns_record_missing' })
    stage.dns.set(made.record, txt(made.token))
    expect(await after(2 * MINUTE_MS, made)).toMatchObject({ status: 'verified', error: null })
    const data = { domainId: made.id, domain: made.domain }
    expect(await eventsOf(stage.service, tenant)).toEqual([['custom_domain.verified', data]])
  })

  test('is looked at ever more seldom, and after a week no more but when asked', async () => {
    tenant = await stage.service.newTenant()
    const made = await registered(tenant)
    await after(HOUR_MS, made)
    const { inMs } = await scheduleOf(made)
    expect(inMs).toBeGreaterThanOrEqual(HOUR_MS)
    expect(inMs).toBeLessThan(HOUR_MS + 5 * MINUTE_MS)
    await after(30 * HOUR_MS, made)
    expect(await scheduleOf(made)).toEqual({ inMs: 6 * HOUR_MS })
    await after(7 * 24 * HOUR_MS, made)
    expect(await scheduleOf(made)).toEqual({ inMs: null })
    stage.dns.set(made.record, txt(made.token))
    expect((await verify(tenant, made)).status).toBe(200)
    expect(await scheduleOf(made)).toEqual({ inMs: 24 * HOUR_MS })
  })

  test('that another tenant has verified since says so, and is not verified', async () => {
    tenant = await stage.service.newTenant()
    const made = await registered(tenant)
    const winner = await stage.service.newTenant()
    const theirs = await registered(winner, { domain: made.domain })
    stage.dns.set(made.record, [...txt(theirs.token), ...txt(made.token)])
    expect((await verify(winner, theirs)).status).toBe(200)
    expect(await after(MINUTE_MS, made)).toMatchObject({ status: 'pending', error: 'domain_taken' })
    expect(await types(tenant)).toEqual([])
  })
})

test('of several processes each due domain is looked at by one', async () => {
  const mine = await stage.service.newTenant()
  const others: Service[] = []
  try {
    for (let n = 0; n < 2; n += 1)
      others.push(
        await startService({
          DATABASE_URL: stage.service.databaseUrl,
          HALFKEY_KEK_FILE: `${stage.service.dataDir}/kek.key`,
          HALFKEY_DNS_SERVERS: stage.dns.address,
        }),
      )
    // What one has claimed is due to nobody else, by one clock.
    for (const other of others) other.advance(stage.service.deps.now().getTime() - other.deps.now().getTime())
    const many = await Promise.all(Array.from({ length: 60 }, () => registered(mine)))
    const ids = many.map(({ id }) => id)
    await stage.service.sql(`update custom_domains set next_check_at = '2020-01-01' where id = any($1)`, [ids])
    await eventually('all are looked at', async () => {
      const [row] = await stage.service.sql<{ n: number }>(
        'select count(*)::int as n from custom_domains where id = any($1) and last_checked_at is null',
        [ids],
      )
      return row?.n === 0
    })
    expect(many.map(askedOf)).toEqual(many.map(() => 1))
  } finally {
    for (const other of others) await other.stop()
  }
})
