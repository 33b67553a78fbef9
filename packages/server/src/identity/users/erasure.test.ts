import { afterAll, beforeAll, expect, test } from 'vitest'
import { newAuthenticator, signUp } from '../../../test/harness/authenticator.ts'
import { type CallOptions, eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { answer, type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import { create, everything, sessionOf } from '../../delegation/delegated.fixture.ts'
import { deleteExpired } from '../../delivery/engine/upkeep/sweep.ts'
import {
  deal,
  newSharedWallet,
  newSplitWallet,
  passwordProtected,
  protectedShare,
  spellingsOf,
  storeShare,
} from '../../keys/key-shares/key-shares.fixture.ts'
import { deleteExpiredAnswers } from '../../platform/http/idempotency.ts'
import { bearer, newGuest } from '../guests/guests.fixture.ts'
import { newShop, type Shop, widget } from '../messenger/messenger.fixture.ts'
import { enrol, stepUp } from '../mfa/mfa.fixture.ts'
import { type Person, personOf, publishableKey } from '../sessions/sessions.fixture.ts'

const DAY_MS = 86_400_000

let service: Service
let receiver: Receiver
beforeAll(async () => {
  receiver = await startReceiver()
  service = await startService({ HALFKEY_LOG_LEVEL: 'debug', HALFKEY_TRUSTED_PROXIES: '127.0.0.1' })
})
afterAll(async () => {
  await service.stop()
  await receiver.close()
})

/** What is somebody's own, by what it is. Each stands nowhere but where this person's data do. */
type Marks = Map<string, string>

const ADDRESS = '198.51.100.77'

/** Every spelling in which a mark could stand somewhere. */
function spellings(mark: string): string[] {
  const bytes = Buffer.from(mark)
  return [
    mark,
    JSON.stringify(mark).slice(1, -1),
    bytes.toString('hex'),
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    encodeURIComponent(mark),
  ].map((text) => text.toLowerCase())
}

/** A value of a column, as texts to look through: bytes as they are and in hex, JSON as it is written. */
function textOf(value: unknown): string {
  const parts = [value].flat(3).map((part) => {
    if (Buffer.isBuffer(part)) return `${part.toString('latin1')} ${part.toString('hex')}`
    return typeof part === 'string' ? part : JSON.stringify(part ?? '')
  })
  return parts.join(' ').toLowerCase()
}

/** The columns of all tables that hold a mark, with which. */
async function placesOf(marks: Marks): Promise<Record<string, string[]>> {
  const tables = await service.sql<{ name: string }>(
    `select tablename as name from pg_tables where schemaname = 'public' order by tablename`,
  )
  expect(tables.length).toBeGreaterThan(40)
  const found: Record<string, Set<string>> = {}
  for (const { name } of tables)
    for (const row of await service.sql<Record<string, unknown>>(`select * from ${name}`))
      for (const [column, value] of Object.entries(row)) {
        const text = textOf(value)
        for (const [what, mark] of marks)
          if (spellings(mark).some((form) => text.includes(form))) {
            found[`${name}.${column}`] ??= new Set()
            found[`${name}.${column}`]?.add(what)
          }
      }
  return Object.fromEntries(Object.entries(found).map(([place, what]) => [place, [...what].sort()]))
}

function expectNotLogged(marks: Marks): void {
  const log = service.logs().toLowerCase()
  for (const [what, mark] of marks)
    for (const form of spellings(mark)) expect(log.includes(form), `${what} stands in the log`).toBe(false)
}

let keys = 0
/** Of a call that somebody's browser makes and may repeat. */
function fromTheirBrowser(marks: Marks): { headers: Record<string, string> } {
  keys += 1
  return {
    headers: {
      'x-forwarded-for': marks.get('address') as string,
      'user-agent': marks.get('user agent') as string,
      'idempotency-key': `erasure-${keys}`,
    },
  }
}

const marksOf = (name: string, more: Record<string, string> = {}): Marks =>
  new Map(
    Object.entries({
      email: `${name}.mark@mail-of-${name}.example`,
      'first email': `first.${name}.mark@mail-of-${name}.example`,
      name: `Name of ${name} Ünïque`,
      'external id': `crm-${name}-4711`,
      'metadata value': `diary of ${name}`,
      'user agent': `Browser/of-${name}`,
      address: ADDRESS,
      ...more,
    }),
  )

/** Calls as a person, from their browser. */
function withBrowser(person: Person, marks: Marks): Person {
  const call = (method: string, path: string, options: CallOptions = {}) => {
    const { headers } = fromTheirBrowser(marks)
    return person.call(method, path, { ...options, headers: { ...headers, ...options.headers } })
  }
  return {
    ...person,
    call,
    get: (path, options) => call('GET', path, options),
    post: (path, body, options) => call('POST', path, body === undefined ? options : { body, ...options }),
    delete: (path, options) => call('DELETE', path, options),
  }
}

const ok = (result: { status: number; text: string; body: { data: unknown } }) => {
  expect(result.status, result.text).toBeLessThan(300)
  // biome-ignore lint/suspicious/noExplicitAny: looked into by path
  return result.body.data as any
}

/** What a server tells of somebody who is there already. */
async function describeBy(tenant: Tenant, userId: string, marks: Marks): Promise<void> {
  ok(
    await tenant.patch(
      `/users/${userId}`,
      {
        email: marks.get('email'),
        name: marks.get('name'),
        externalId: marks.get('external id'),
        metadata: { notes: marks.get('metadata value') },
      },
      { headers: { 'idempotency-key': `describe-${userId}` } },
    ),
  )
}

/** Signs up by a passkey, enrols a second factor, has an embedded wallet and delegates from it. */
async function passkeyPerson({ tenant }: Shop, marks: Marks): Promise<string> {
  const key = await publishableKey(tenant)
  const authenticator = newAuthenticator()
  const signedUp = await signUp(
    { url: service.url, key },
    { email: marks.get('first email') as string, name: marks.get('name') as string },
    { authenticator, deviceName: marks.get('device'), ...fromTheirBrowser(marks) } as never,
  )
  const userId = signedUp.user.id
  const person = withBrowser(personOf(service.url, key, { userId, appId: tenant.appId }, signedUp), marks)
  const [passkey] = ok(await person.get('/auth/passkeys'))
  ok(await person.call('PATCH', `/auth/passkeys/${passkey.id}`, { body: { name: marks.get('device') } }))
  await describeBy(tenant, userId, marks)
  ok(await person.post('/users/me/wallet', {}))
  const factor = await enrol(service, person)
  await stepUp(service, person, factor)
  const session = ok(
    await person.post('/delegated-sessions', {
      name: marks.get('delegated session'),
      policy: everything(),
    }),
  )
  const author = ok(await person.get('/users/me/wallet')).partyId
  const commands = [create('Note:Note', { author, text: 'Hello' })]
  const commandId = marks.get('command')
  ok(await sessionOf(service.url, key, session).execute({ commandId, commands }, fromTheirBrowser(marks)))
  // Left unanswered: a challenge, a sign-up and a login that were begun.
  ok(await person.post('/mfa/challenge', {}))
  ok(await person.post('/auth/passkey/register-options', {}))
  return userId
}

/** Signs in by the messenger and has a shared wallet whose recovery share the service keeps. */
async function messengerPerson({ tenant, token, date }: Shop, marks: Marks): Promise<string> {
  const key = await publishableKey(tenant)
  const fields = {
    id: marks.get('messenger id') as string,
    first_name: marks.get('name') as string,
    username: marks.get('username') as string,
    auth_date: date(),
  }
  const signedIn = ok(
    await tenant.post('/auth/messenger/verify', widget(token, fields), { key, ...fromTheirBrowser(marks) }),
  )
  const userId = signedIn.user.id
  const person = withBrowser(personOf(service.url, key, { userId, appId: tenant.appId }, signedIn), marks)
  await describeBy(tenant, userId, marks)
  const wallet = await newSharedWallet(service, tenant, { person })
  for (const index of [2, 3]) await storeShare(person, protectedShare(wallet, index))
  for (const [index, { scalar }] of wallet.shares.entries())
    for (const [n, spelling] of spellingsOf(scalar).entries()) marks.set(`share ${index + 1}, ${n}`, spelling)
  return userId
}

/** Begins as a guest, is converted, and backs a key of their own up. */
async function guestPerson({ tenant }: Shop, marks: Marks): Promise<string> {
  const key = await publishableKey(tenant)
  const guest = await newGuest(tenant, { metadata: { cart: marks.get('guest metadata') } }, key)
  const converted = ok(
    await tenant.post(
      `/guests/${guest.id}/convert`,
      { email: marks.get('first email'), name: marks.get('name') },
      { key, headers: { ...fromTheirBrowser(marks).headers, ...bearer(guest) } },
    ),
  )
  const userId = converted.user.id
  const person = withBrowser(personOf(service.url, key, { userId, appId: tenant.appId }, converted), marks)
  await describeBy(tenant, userId, marks)
  const dealt = deal()
  const wallet = await newSplitWallet(service, tenant, { person, dealt })
  const clientCiphertext = passwordProtected(wallet.share(2).scalar)
  marks.set('ciphertext of a share', clientCiphertext.ct)
  await storeShare(person, protectedShare(wallet, 2, { clientCiphertext }))
  return userId
}

/** Webhooks that got everything, whose receiver answers what it was sent; that retry; that gave up. */
async function subscribeAll(tenant: Tenant): Promise<Record<'delivered' | 'retrying' | 'dead', string>> {
  const subscribe = async (path: string) =>
    ok(await tenant.post('/webhooks', { url: receiver.url + path, events: ['*'] })).id as string
  receiver.behave((received, response, request) => {
    const status = received.path === '/retrying' ? 503 : 200
    answer(status, received.body)(received, response, request)
  })
  return {
    delivered: await subscribe('/delivered'),
    retrying: await subscribe('/retrying'),
    dead: await subscribe('/dead'),
  }
}

const deliveredAll = (id: string) =>
  eventually('all deliveries', async () => {
    const [row] = await service.sql<{ n: number }>(
      `select (select count(*) from outbox)::int
         + (select count(*) from deliveries where webhook_id = $1 or retry = 0)::int as n`,
      [id],
    )
    return row?.n === 0
  })

/** Brings all that ended before now to its age, and lets retention take it. */
async function age(days: number): Promise<void> {
  for (const [table, column] of [
    ['deliveries_done', 'done_at'],
    ['events', 'created_at'],
    ['idempotency_keys', 'expires_at'],
    ['challenges', 'expires_at'],
  ])
    await service.sql(`update ${table} set ${column} = ${column} - $1 * interval '1 day'`, [days])
  await eventually('all that follows the feed has folded it', async () => {
    const behind = await service.sql(
      'select 1 from feed_cursors c join feed_heads h on h.tenant_id = c.tenant_id where c.seq < h.seq',
    )
    return behind.length === 0
  })
  const kept = { retentionMs: 30 * DAY_MS, deadLetterRetentionMs: 90 * DAY_MS, followers: [] }
  await service.deps.db.tx(async (tx) => {
    while ((await deleteExpired(tx, kept)) > 0);
    while ((await deleteExpiredAnswers(tx)) > 0);
  })
}

test('of a user who has used everything, deletion leaves what is still to be sent and what retention takes, and in the end nothing', async () => {
  const shop = await newShop(service)
  const { tenant } = shop
  const webhooks = await subscribeAll(tenant)
  ok(await tenant.patch(`/apps/${tenant.appId}`, { mpc: { allowServer: true }, recovery: { serverCombine: true } }))
  const people: [Marks, (shop: Shop, marks: Marks) => Promise<string>][] = [
    [
      marksOf('ada', {
        device: "Ada's unmistakable phone",
        'delegated session': 'Standing order of Ada',
        command: 'rent-of-ada-2026',
      }),
      passkeyPerson,
    ],
    [marksOf('ben', { 'messenger id': '771177117711', username: 'ben_the_marked' }), messengerPerson],
    [marksOf('cyd', { 'guest metadata': 'cart of cyd' }), guestPerson],
  ]
  const marks: Marks = new Map()
  const ids: string[] = []
  for (const [own, live] of people) {
    ids.push(await live(shop, own))
    for (const [what, mark] of own) marks.set(`${ids.length} ${what}`, mark)
  }
  // A server's way: created, changed, refused for what another has, and an error in the database itself.
  const eve = marksOf('eve')
  const made = ok(
    await tenant.post(
      '/users',
      { email: eve.get('first email'), name: eve.get('name') },
      { headers: { 'idempotency-key': 'eve' } },
    ),
  )
  ids.push(made.id)
  await describeBy(tenant, made.id, eve)
  for (const [what, mark] of eve) marks.set(`4 ${what}`, mark)
  expect((await tenant.post('/users', { email: eve.get('email') })).status).toBe(409)
  expect((await tenant.post('/users', { externalId: eve.get('external id') })).status).toBe(409)
  await service.sql(`alter table users add constraint refuse check (email <> '${eve.get('email')}x')`)
  expect((await tenant.patch(`/users/${made.id}`, { email: `${eve.get('email')}x` })).status).toBe(500)
  await service.sql('alter table users drop constraint refuse')

  await deliveredAll(webhooks.delivered)
  await service.sql(`update deliveries_done set status = 'dead_letter' where webhook_id = $1`, [webhooks.dead])
  // The test sees: what is looked for is in the places where it is known to be.
  const before = await placesOf(marks)
  for (const place of [
    'users.email',
    'users.search_text',
    'users.metadata',
    'sessions.address',
    'sessions.user_agent',
    'identities.subject',
    'passkeys.name',
    'guests.metadata',
    'delegated_sessions.name',
    'transactions.command_id',
    'key_shares.client_ciphertext',
    'challenges.data',
    'idempotency_keys.answer',
    'events.body',
    'events.context',
    'attempts.response_snippet',
  ])
    expect(before, place).toHaveProperty([place])

  for (const id of ids) {
    const deleted = await tenant.delete(`/users/${id}`, { headers: { 'idempotency-key': 'delete' } })
    expect(deleted.status, deleted.text).toBe(200)
  }
  const emails = new Map([...marks].filter(([what]) => / (first )?email$/.test(what)))
  const first = await placesOf(marks)
  const allowed = [
    'idempotency_keys.answer',
    'idempotency_keys.recovery',
    'events.body',
    'events.context',
    'attempts.response_snippet',
    'audit_entries.address',
  ]
  const beside = Object.keys(first).filter((place) => !allowed.includes(place) && !place.startsWith('ledger_'))
  expect(beside, JSON.stringify(first, null, 1)).toEqual([])

  // What is still to be sent keeps its bytes; once nothing is, the emails go.
  const [waiting] = await service.sql<{ body: string }>(
    `select e.body from events e join deliveries d on d.tenant_id = e.tenant_id and d.event_id = e.id
     where e.type = 'user.created' and d.webhook_id = $1 and e.body like $2`,
    [webhooks.retrying, `%${ids[3]}%`],
  )
  expect(waiting?.body).toContain(eve.get('first email'))
  // Whatever is still on its way when the answers change would wait for the retry in a minute.
  await eventually('all were tried', async () => {
    const [row] = await service.sql<{ n: number }>(
      `select (select count(*) from outbox)::int + (select count(*) from deliveries where retry = 0 or lease_id is not null)::int as n`,
    )
    return row?.n === 0
  })
  receiver.behave((received, response, request) => answer(200, received.body)(received, response, request))
  await service.sql('update deliveries set next_at = now() where lease_id is null')
  await service.sql(`update lanes set due_at = now(), floor_at = '-infinity'`)
  await deliveredAll(webhooks.retrying)
  const resent = receiver.received.filter(
    ({ path, event }) => path === '/retrying' && event.type === 'user.created' && event.data.userId === ids[3],
  )
  expect(new Set(resent.map(({ body }) => body))).toEqual(new Set([waiting?.body]))
  await eventually('the events are blanked', async () => {
    await service.sql('update erasures set due_at = now()')
    return (await service.sql('select 1 from erasures')).length === 0
  })
  expect(
    Object.keys(await placesOf(emails))
      .sort()
      .reverse(),
  ).toEqual(['idempotency_keys.answer', 'attempts.response_snippet'])
  const [blank] = await service.sql<{ body: string }>(
    `select body from events where type = 'user.created' and body like $1`,
    [`%${ids[3]}%`],
  )
  const sent = JSON.parse(waiting?.body as string)
  expect(JSON.parse(blank?.body as string)).toEqual({ ...sent, data: { ...sent.data, email: '' } })

  // A dead letter that is sent after all is the event without the email.
  const [dead] = await service.sql<{ id: string }>(
    `select d.id from deliveries_done d join events e on e.tenant_id = d.tenant_id and e.id = d.event_id
     where d.webhook_id = $1 and d.status = 'dead_letter' and e.body like $2 and e.type = 'user.created'`,
    [webhooks.dead, `%${ids[3]}%`],
  )
  ok(await tenant.post(`/webhooks/${webhooks.dead}/deliveries/${dead?.id}/retry`))
  const again = await receiver.until('the dead letter', ({ path, body }) => path === '/dead' && body === blank?.body)
  expect(again.event.id).toBe(sent.id)

  await age(31)
  const late = await placesOf(marks)
  const untilDeadLettersGo = ['attempts.response_snippet', 'events.body', 'events.context', 'audit_entries.address']
  expect(
    Object.keys(late).filter((place) => !untilDeadLettersGo.includes(place) && !place.startsWith('ledger_')),
  ).toEqual([])
  expect(await placesOf(emails)).toEqual({})
  await age(60)
  // What was put on the ledger is the ledger's: a command's id, which the app chose.
  const onLedger = { 'ledger_updates.command_id': ['1 command'], 'ledger_updates.prepared': ['1 command'] }
  expect(await placesOf(marks)).toEqual(onLedger)
  expectNotLogged(marks)
}, 120_000)

test('events that wait for a paused webhook are looked at the more seldom the longer they wait, and within an hour', async () => {
  const tenant = await service.newTenant()
  const webhook = ok(await tenant.post('/webhooks', { url: `${receiver.url}/paused`, events: ['user.created'] }))
  ok(await tenant.patch(`/webhooks/${webhook.id}`, { status: 'paused' }))
  const { id } = ok(await tenant.post('/users', { email: 'paused@example.com' }))
  await eventually('it is fanned out', async () => {
    const rows = await service.sql('select 1 from deliveries where tenant_id = $1', [tenant.tenantId])
    return rows.length === 1
  })
  ok(await tenant.delete(`/users/${id}`))
  const waits = (hours: number) =>
    eventually('it is looked at again', async () => {
      const [row] = await service.sql<{ seconds: number }>(
        'select extract(epoch from due_at - now())::float8 as seconds from erasures where tenant_id = $1 and due_at > now()',
        [tenant.tenantId],
      )
      if (row === undefined) return false
      await service.sql(
        `update erasures set due_at = now(), noted_at = now() - $2 * interval '1 hour' where tenant_id = $1`,
        [tenant.tenantId, hours],
      )
      return Math.round(row.seconds / 60)
    })
  expect(await waits(0.5)).toBe(1)
  expect(await waits(1_000)).toBe(30)
  expect(await waits(0)).toBe(60)
})
