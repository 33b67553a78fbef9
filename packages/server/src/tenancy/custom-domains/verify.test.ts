import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { DnsAnswer, DnsRecord } from '../../../test/harness/dns-server.ts'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import type { Tenant } from '../../../test/harness/harness.ts'
import { eventsOf, registered, type Stage, startStage, stateOf, verified, verify } from './custom-domains.fixture.ts'

let stage: Stage
beforeAll(async () => {
  stage = await startStage()
})
afterAll(() => stage.stop())

const txt = (text: string | string[]): DnsRecord => ({ type: 'TXT', text })

/** A new tenant with a domain, and what asking the service to verify it comes to when DNS answers so. */
async function asked(answer: (token: string, record: string) => DnsAnswer | Parameters<Stage['dns']['set']>[1]) {
  const tenant = await stage.service.newTenant()
  const made = await registered(tenant)
  stage.dns.set(made.record, answer(made.token, made.record))
  return { tenant, made, answer: await verify(tenant, made) }
}

async function expectPending(tenant: Tenant, made: { id: string }, error: string): Promise<void> {
  expect(await stateOf(tenant, made)).toMatchObject({
    status: 'pending',
    error,
    lastCheckedAt: expect.any(String),
    missingSince: null,
  })
  expect(await eventsOf(stage.service, tenant)).toEqual([])
}

describe('a record that is there', () => {
  const good: [what: string, (token: string, record: string) => DnsAnswer][] = [
    ['alone', (token) => [txt(token)]],
    ['among others', (token) => [txt('v=spf1 -all'), txt(token), txt('x')]],
    ['in pieces', (token) => [txt([token.slice(0, 7), token.slice(7, 30), token.slice(30)])]],
    ['with spaces around it', (token) => [txt(` ${token} `)]],
    ['among many', (token) => [...Array.from({ length: 40 }, (_, n) => txt(`other ${n}`)), txt(token)]],
  ]
  test.each(good)('verifies the domain: %s', async (_, answer) => {
    const done = await asked(answer)
    expect(done.answer.status, done.answer.text).toBe(200)
    expect(done.answer.body.data).toMatchObject({ status: 'verified', error: null, lastCheckedAt: expect.any(String) })
    expect(await stateOf(done.tenant, done.made)).toEqual(done.answer.body.data)
    const { id: domainId, domain } = done.made
    expect(await eventsOf(stage.service, done.tenant)).toEqual([['custom_domain.verified', { domainId, domain }]])
  })

  test('verifies the domain behind a chain of aliases', async () => {
    const tenant = await stage.service.newTenant()
    const made = await registered(tenant)
    stage.dns.set(made.record, [{ type: 'CNAME', target: `one.${made.domain}` }])
    stage.dns.set(`one.${made.domain}`, [{ type: 'CNAME', target: `two.${made.domain}` }])
    stage.dns.set(`two.${made.domain}`, [txt(made.token)])
    expect((await verify(tenant, made)).status).toBe(200)
  })

  test('verifies the domain where the answer is too large for UDP', async () => {
    const { answer, made } = await asked(
      (token) =>
        ({ transport }) =>
          transport === 'udp' ? 'truncated' : [txt(['x'.repeat(250), 'y'.repeat(250)]), txt(token)],
    )
    expect(answer.status, answer.text).toBe(200)
    // On a busy machine a question may be sent again before its answer comes.
    const questions = stage.dns.questions.filter(({ name }) => name === made.record)
    expect([...new Set(questions.map(({ transport }) => transport))]).toEqual(['udp', 'tcp'])
  })

  test('verifies the domain at the second try where the first question is lost', async () => {
    const { answer } = await asked(
      (token) =>
        ({ count }) =>
          count === 1 ? 'silence' : [txt(token)],
    )
    expect(answer.status, answer.text).toBe(200)
  })
})

describe('a record that is not there', () => {
  const missing: [what: string, (token: string, record: string) => DnsAnswer, observed: (token: string) => string[]][] =
    [
      ['no such name', () => 'NXDOMAIN', () => []],
      ['no such record', () => [], () => []],
      ['another type of record', () => [{ type: 'A', address: '192.0.2.1' }], () => []],
      ['an alias to nothing', (_, record) => [{ type: 'CNAME', target: `nothing.${record}` }], () => []],
      ['an alias to itself', (_, record) => [{ type: 'CNAME', target: record }], () => []],
      ['another text', () => [txt('v=spf1 -all')], () => ['v=spf1 -all']],
      ['an empty text', () => [txt('')], () => ['']],
      ['the token with something behind it', (token) => [txt(`${token}0`)], (token) => [`${token}0`]],
      ['a part of the token', (token) => [txt(token.slice(0, -1))], (token) => [token.slice(0, -1)]],
      ['the token in upper case', (token) => [txt(token.toUpperCase())], (token) => [token.toUpperCase()]],
      [
        'the token over two records',
        (token) => [txt(token.slice(0, 30)), txt(token.slice(30))],
        (token) => [token.slice(0, 30), token.slice(30)],
      ],
    ]
  test.each(missing)('is told, with what was seen: %s', async (_, answer, observed) => {
    const done = await asked(answer)
    const [detail, ...more] = expectRefusal(done.answer, 'dns_record_missing')
    expect(more).toEqual([])
    const { record: name, token: expected } = done.made
    expect(detail).toMatchObject({ field: 'domain', name, expected })
    expect(detail.observed.toSorted()).toEqual(observed(expected).toSorted())
    await expectPending(done.tenant, done.made, 'dns_record_missing')
  })

  test('is told with at most ten texts of 255 harmless characters, whatever stands in DNS', async () => {
    const hostile = [
      '<img src=x onerror=alert(1)>',
      'a\u0000b\u001b[31m\r\nSet-Cookie: x',
      '\u202egnp.exe',
      'z'.repeat(255),
    ]
    const { answer } = await asked(() => [
      ...hostile.map(txt),
      txt(['y'.repeat(255), 'y'.repeat(255), 'y'.repeat(255)]),
      ...Array.from({ length: 20 }, (_, n) => txt(`more ${n}`)),
    ])
    const [{ observed }] = expectRefusal(answer, 'dns_record_missing')
    expect(observed).toHaveLength(10)
    for (const text of observed) expect(text).toMatch(/^[\x20-\x7e]{0,255}$/)
    expect(observed).toEqual(expect.arrayContaining(['<img src=x onerror=alert(1)>', 'y'.repeat(255), 'more 4']))
  })
})

// Each waits for seconds: together.
describe.concurrent('servers that give no answer', () => {
  const silent: [what: string, DnsAnswer][] = [
    ['SERVFAIL', 'SERVFAIL'],
    ['REFUSED', 'REFUSED'],
    ['silence', 'silence'],
  ]
  test.each(silent)('are never taken for a missing record: %s', async (_, answer) => {
    const startedAt = performance.now()
    const done = await asked(() => answer)
    const [detail] = expectRefusal(done.answer, 'dns_unavailable')
    expect(detail).toMatchObject({ field: 'domain', name: done.made.record, retryable: true })
    // The contract's own figure is 5 s, whatever the name servers do; here it is one of many at once.
    expect(performance.now() - startedAt).toBeLessThan(15_000)
    await expectPending(done.tenant, done.made, 'dns_unavailable')
    stage.dns.set(done.made.record, [txt(done.made.token)])
    expect((await verify(done.tenant, done.made)).status).toBe(200)
  })

  test('a truncated answer without the rest is none', async () => {
    const { answer } = await asked(
      () =>
        ({ transport }) =>
          transport === 'udp' ? 'truncated' : 'silence',
    )
    expectRefusal(answer, 'dns_unavailable')
  })

  test('a tenant whose name servers are silent keeps no other waiting, and is told to come back', async () => {
    const [slow, other] = [await stage.service.newTenant(), await stage.service.newTenant()]
    const stuck = await Promise.all(Array.from({ length: 40 }, () => registered(slow)))
    for (const { record } of stuck) stage.dns.set(record, 'silence')
    const pending = Promise.all(stuck.map((made) => verify(slow, made)))
    await verified(stage, other)
    const answers = await pending
    const limited = answers.filter(({ status }) => status === 429)
    expect(limited).toHaveLength(15)
    for (const answer of limited) {
      expectError(answer, 429, 'rate_limited')
      expect(answer.headers.get('retry-after')).toBe('2')
    }
    for (const answer of answers) if (answer.status !== 429) expectRefusal(answer, 'dns_unavailable')
  })

  test('while DNS is asked no database connection is held', async () => {
    const tenant = await stage.service.newTenant()
    const stuck = await Promise.all(Array.from({ length: 20 }, () => registered(tenant)))
    for (const { record } of stuck) stage.dns.set(record, 'silence')
    const pending = Promise.all(
      stuck.map((made, n) => verify(tenant, made, { headers: { 'idempotency-key': `k${n}` } })),
    )
    let done = false
    void pending.then(() => {
      done = true
    })
    // The pool has fewer connections than there are calls that wait.
    for (let n = 0; n < 3; n += 1) expect((await tenant.get('/users')).status).toBe(200)
    expect(done).toBe(false)
    for (const answer of await pending) expectRefusal(answer, 'dns_unavailable')
  })
})

describe('repeats', () => {
  test('of 50 calls at once all succeed, and one event tells of it', async () => {
    const tenant = await stage.service.newTenant()
    const made = await registered(tenant)
    stage.dns.set(made.record, [txt(made.token)])
    const answers = await Promise.all(Array.from({ length: 50 }, () => verify(tenant, made)))
    for (const answer of answers) expect(answer.status, answer.text).toBe(200)
    expect(await eventsOf(stage.service, tenant)).toHaveLength(1)
  })

  test('a verified domain is looked at again, stays verified and is told of no second time', async () => {
    const tenant = await stage.service.newTenant()
    const made = await verified(stage, tenant)
    expect((await verify(tenant, made)).body.data.status).toBe('verified')
    stage.dns.set(made.record, [txt('gone')])
    expectRefusal(await verify(tenant, made), 'dns_record_missing')
    const lost = await stateOf(tenant, made)
    expect(lost).toMatchObject({ status: 'verified', error: 'dns_record_missing', missingSince: expect.any(String) })
    stage.dns.set(made.record, 'SERVFAIL')
    expectRefusal(await verify(tenant, made), 'dns_unavailable')
    expect(await stateOf(tenant, made)).toMatchObject({ status: 'verified', missingSince: lost.missingSince })
    stage.dns.set(made.record, [txt(made.token)])
    expect((await verify(tenant, made)).body.data).toMatchObject({ missingSince: null, error: null })
    expect(await eventsOf(stage.service, tenant)).toHaveLength(1)
  })

  test('under an idempotency key a success is kept, and a failure is not', async () => {
    const tenant = await stage.service.newTenant()
    const made = await registered(tenant)
    const keyed = { headers: { 'idempotency-key': 'once' } }
    expectRefusal(await verify(tenant, made, keyed), 'dns_record_missing')
    stage.dns.set(made.record, [txt(made.token)])
    const first = await verify(tenant, made, keyed)
    expect(first.status, first.text).toBe(200)
    // Of this domain: the service looks at those of other tests by itself when they are due.
    const questions = () => stage.dns.questions.filter(({ name }) => name === made.record).length
    const before = questions()
    const second = await verify(tenant, made, keyed)
    expect([second.headers.get('idempotency-replayed'), second.text]).toEqual(['true', first.text])
    expect(questions()).toBe(before)
  })

  test('a domain that is removed while DNS is asked is not found, and stays removed', async () => {
    const tenant = await stage.service.newTenant()
    const made = await registered(tenant)
    const { promise: asking, resolve } = Promise.withResolvers<void>()
    let removed = false
    stage.dns.set(made.record, () => {
      resolve()
      return removed ? [txt(made.token)] : 'silence'
    })
    const pending = verify(tenant, made)
    await asking
    expect((await tenant.delete(`/custom-domains?domain=${made.domain}`)).status).toBe(200)
    removed = true
    const again = await registered(tenant, { domain: made.domain })
    expectError(await pending, 404, 'not_found')
    expect(await stateOf(tenant, again)).toMatchObject({ status: 'pending', lastCheckedAt: null })
    expect((await eventsOf(stage.service, tenant)).map(([type]) => type)).toEqual(['custom_domain.removed'])
  })
})
