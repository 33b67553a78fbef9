import { existsSync, mkdirSync, readFileSync, renameSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, eventually, type Service } from '../../../test/harness/harness.ts'
import { recordKinds } from '../../app.ts'
import {
  expectStatus,
  newHolder,
  newSession,
  sessionOf,
  transfer,
  transfers,
} from '../../delegation/delegated.fixture.ts'
import { idTokenOf, kidsOf } from '../../identity/id-tokens/id-tokens.fixture.ts'
import { signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import type { Id } from '../../platform/ids.ts'
import { halfkey, type Installation, isReady, marksIn, newInstallation, readyz } from './restore.fixture.ts'

/** The line of a text that has the last four characters of an API key. */
const line = (text: string, key: string) =>
  text.split('\n').find((each) => each.includes(`…${key.slice(-4)} `)) ?? expect.fail(`no line has ${key.slice(-4)}`)

describe('a database that went back to an earlier state', () => {
  let installation: Installation
  let service: Service
  let known: Awaited<ReturnType<typeof begin>>

  /** What exists before the backup. */
  async function begin(first: Service) {
    const tenant = await first.newTenant()
    const holder = await newHolder(tenant)
    const holding = await holder.receive('100')
    const session = await newSession(first, tenant, holder, { policy: transfers(holder, '10') })
    const revoked = await tenant.newKey({ scopes: ['*'] })
    const person = await signInAs(first, tenant)
    // Makes the app's key.
    await idTokenOf(person)
    const [kid] = await kidsOf(first, person.appId)
    return { tenant, holder, holding, session, revoked, person, kid }
  }

  beforeAll(async () => {
    installation = await newInstallation()
    const first = await installation.start()
    known = await begin(first)
    await first.stop()
    const backup = await installation.copy()
    const second = await installation.start()
    const { tenant, revoked } = known
    const key = (path: string, method: string, body?: object) =>
      call(second.url, method, `/v1${path}`, { key: tenant.key, ...(body === undefined ? {} : { body }) })
    const { data } = (await key('/api-keys?page_size=100', 'GET')).body
    const { id } = data.find(({ last4 }: { last4: string }) => revoked.endsWith(last4))
    expectStatus(await key(`/api-keys/${id}`, 'DELETE'), 200)
    expectStatus(await key(`/delegated-sessions/${known.session.id}`, 'DELETE'), 200)
    expectError(await call(second.url, 'GET', '/v1/users', { key: revoked }), 401, 'api_key_invalid')
    await eventually('the audit log of it', async () => {
      const revocations = `select from audit_entries where tenant_id = $1 and action in ('api_key.revoked', 'delegated_session.revoked')`
      return (await second.sql(revocations, [tenant.tenantId])).length === 2
    })
    await second.stop()
    installation.use(backup)
    service = await installation.start()
  })
  afterAll(async () => {
    await service.stop()
    await installation.remove()
  })

  test('is believed by no endpoint: not with a key that was revoked, not with another', async () => {
    const { tenant, revoked, session, person, holding } = known
    const execute = sessionOf(service.url, session.by.key as string, session)
    const answers = [
      await call(service.url, 'GET', '/v1/users', { key: revoked }),
      await call(service.url, 'GET', '/v1/users', { key: tenant.key }),
      await call(service.url, 'POST', '/v1/users', { key: tenant.key, body: {} }),
      await execute.execute({ commands: [transfer(holding, '1')] }),
      await call(service.url, 'GET', '/v1/auth/sessions', { key: person.key, headers: person.bearer }),
      await call(service.url, 'GET', '/dashboard/api/users'),
      await call(service.url, 'POST', '/dashboard/api/session', { body: { token: 'x' } }),
      await call(service.url, 'GET', '/portal/api/webhooks'),
      await call(service.url, 'GET', '/.well-known/jwks.json'),
      await call(service.url, 'GET', `/apps/${person.appId}/.well-known/jwks.json`),
      await call(service.url, 'GET', `/apps/${person.appId}/.well-known/openid-configuration`),
      await call(service.url, 'GET', '/tls/allowed?domain=localhost'),
    ]
    for (const answer of answers) expectError(answer, 500, 'database_behind_floor')
    expect((await call(service.url, 'GET', '/docs')).status).toBe(200)
  })

  test('is told by readiness, without details, by the log and by metrics', async () => {
    const answer = await readyz(service)
    expect([answer.status, answer.body.code]).toEqual([503, 'not_ready'])
    expect(answer.body.details.map(({ name }: { name: string }) => name)).toEqual(['floor'])
    expect(answer.text).not.toContain(known.tenant.tenantId)
    expect((await call(service.url, 'GET', '/healthz')).status).toBe(200)
    expect(service.logs()).toContain('the database is behind its floor')
    expect((await call(service.url, 'GET', '/metrics')).text).toContain('halfkey_floor_behind 1')
    const shown = await halfkey(service, 'restore', 'show')
    expect(shown.exitCode).toBe(1)
    expect(shown.out).toMatch(/changes of records: \d+ instead of at least \d+/)
    expect(shown.out).toContain(`the audit chain of ${known.tenant.tenantId}`)
  })

  test('sends and derives nothing', async () => {
    const seqs = () => service.sql('select tenant_id, seq from audit_heads order by 1')
    const before = await seqs()
    const tenantId = known.tenant.tenantId as Id<'ten'>
    const act = { tenantId, appId: null, action: 'tenant.created', target: 'x', cause: { actor: 'cli' } } as const
    await service.deps.db.tx((tx) => recordAuditOnly(tx, service.deps, act))
    // The worker would have seen it by now: two turns of another loop have passed.
    const beats = async () => (await service.sql<{ at: Date }>('select max(heartbeat_at) as at from workers'))[0]?.at
    const first = await beats()
    await eventually('a heartbeat', async () => (await beats())?.getTime() !== first?.getTime())
    expect(await seqs()).toEqual(before)
  })

  test('serves again once an operator has accepted it, and nothing that was ended is alive', async () => {
    const before = marksIn(installation.floor)
    const { tenant, session, person, holding, revoked } = known
    const restore = (...args: string[]) => halfkey(service, 'restore', 'accept', ...args)
    const undecided = await restore()
    const [revokedId] = /key_\w+(?= {2}secret …)/.exec(line(undecided.out, revoked)) ?? []
    expect([undecided.exitCode, undecided.out]).toEqual([1, expect.stringContaining('Nothing was done:')])
    expect(undecided.out).not.toContain(tenant.key)
    for (const wrong of [
      ['--keep-api-keys', '--revoke-api-keys'],
      ['--revoke-api-keys', revokedId as string, 'key_none'],
    ])
      expect((await restore(...wrong)).exitCode).toBe(2)
    expect((await readyz(service)).status).toBe(503)
    const accepted = await restore('--revoke-api-keys', revokedId as string)
    expect([accepted.exitCode, accepted.err]).toEqual([0, ''])
    expect(accepted.out).toContain(', 1 API key,')
    expect(accepted.out).toMatch(/Accepted as epoch 1\. Ended: all sessions of users, 1 delegated session,/)
    await isReady(service)
    expect(await kidsOf(service, person.appId)).toEqual([expect.not.stringMatching(`^${known.kid}$`)])
    const at = { key: tenant.key }
    expect((await call(service.url, 'GET', '/v1/users', at)).status).toBe(200)
    expectError(await call(service.url, 'GET', '/v1/users', { key: revoked }), 401, 'api_key_invalid')
    const answer = await sessionOf(service.url, session.by.key as string, session).execute({
      commands: [transfer(holding, '1')],
    })
    expect(answer.status).toBe(410)
    // No wallet lists it any more, so its row counts no more, even if somebody puts it back.
    expect(await service.sql(`select id from wallets where sessions <> ''`)).toEqual([])
    const signedIn = await call(service.url, 'GET', '/v1/auth/sessions', { key: person.key, headers: person.bearer })
    expect(signedIn.status).toBe(401)
    const entry = await eventually('the entry', async () => {
      const { body } = await call(service.url, 'GET', '/v1/audit-log?action=installation.restore_accepted', at)
      return body.data[0]
    })
    expect(entry).toMatchObject({ actor: 'cli', target: '1' })
    expect(marksIn(installation.floor)).toMatchObject({ epoch: 1 })
    expect(marksIn(installation.floor).counters.ledger).toBeLessThanOrEqual(before.counters.ledger)
    expect((await restore()).out).toContain('There is nothing to accept.')
    expect((await halfkey(service, 'audit', 'verify')).exitCode).toBe(0)
  })

  test('that was accepted is not the state from before the acceptance again', async () => {
    await service.sql('delete from accepted_restores')
    await eventually('the setback', async () => (await readyz(service)).status === 503)
    expect((await halfkey(service, 'restore', 'show')).out).toContain('the epoch of the floor: 0 instead of at least 1')
    const refused = await halfkey(service, 'restore', 'accept')
    expect([refused.exitCode, refused.out]).toEqual([1, expect.stringContaining('Nothing was done:')])
    expect((await halfkey(service, 'restore', 'accept', '--revoke-api-keys')).exitCode).toBe(0)
    await isReady(service)
    const { tenant } = known
    expectError(await call(service.url, 'GET', '/v1/users', { key: tenant.key }), 401, 'api_key_invalid')
    const key = JSON.parse(
      (await halfkey(service, 'keys', 'create', '--name', 'new', '--tenant', tenant.tenantId, '--json')).out,
    ).key as string
    const log = await eventually('the revocations in the log', async () => {
      const { body } = await call(service.url, 'GET', '/v1/audit-log?action=api_key.revoked&page_size=100', { key })
      return body.data.length > 1 && (body.data as { actor: string }[])
    })
    expect(new Set(log.map(({ actor }) => actor))).toEqual(new Set(['cli']))
  })
})

describe('the floor', () => {
  let installation: Installation
  beforeAll(async () => {
    installation = await newInstallation()
  })
  afterAll(() => installation.remove())

  test('is for its owner alone, and rises with every change', async () => {
    const service = await installation.start()
    const { epoch, counters } = await eventually('a floor', async () => marksIn(installation.floor))
    expect(epoch).toBe(0)
    expect(statSync(installation.floor).mode & 0o777).toBe(0o600)
    await service.admin.post('/users', {})
    await service.admin.newKey({ scopes: ['users:read'] })
    await eventually('a higher floor', async () => marksIn(installation.floor).counters.records > counters.records)
    await eventually('the log in it', async () => marksIn(installation.floor).chains[`audit ${service.admin.tenantId}`])
    await service.stop()
  })

  test('rises with changes of every table whose rows carry a MAC', async () => {
    const service = await installation.start()
    const rows = await service.sql<{ name: string; triggers: string[] }>(`
      select c.relname as name, array(
        select tgname::text from pg_trigger where tgrelid = c.oid and tgfoid = 'count_authority_change'::regproc
          and tgenabled = 'O' order by 1) as triggers
      from pg_class c join pg_attribute a on a.attrelid = c.oid
      where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attname = 'mac'`)
    expect(rows.map(({ name }) => name).sort()).toEqual(recordKinds.map(({ table }) => table).sort())
    // One that lacks them is a new table: its migration has to call count_changes_of().
    for (const { name, triggers } of rows)
      expect(triggers, name).toEqual([`${name}_note_change`, `${name}_note_presence`])
    await service.stop()
  })

  test('that was altered is refused by a start, and written anew by a running process', async () => {
    const service = await installation.start()
    const whole = readFileSync(installation.floor, 'utf8')
    const lower = whole.replace(/"records":\d+/, '"records":1')
    await eventually('that it is noticed', async () => {
      // Not once: the process may write the floor just now, before it has read this one.
      if (readFileSync(installation.floor, 'utf8') !== lower) writeFileSync(installation.floor, lower)
      return service.logs().includes('the floor does not verify')
    })
    await eventually('the true floor', async () => readFileSync(installation.floor, 'utf8') !== lower)
    expect((await readyz(service)).status).toBe(200)
    await service.stop()
    writeFileSync(installation.floor, readFileSync(installation.floor, 'utf8').replace(/"records":\d+/, '"records":1'))
    const second = await installation.start()
    expect((await readyz(second)).status).toBe(503)
    expect(readFileSync(installation.floor, 'utf8')).toContain('"records":1,')
    const shown = await halfkey(second, 'restore', 'show')
    expect([shown.exitCode, shown.out]).toEqual([1, expect.stringContaining('does not verify: its MAC is wrong')])
    expect((await halfkey(second, 'restore', 'accept', '--keep-api-keys')).exitCode).toBe(0)
    await isReady(second)
    await second.stop()
  })

  test('that is an older one is raised again by a running process', async () => {
    const service = await installation.start()
    const older = readFileSync(installation.floor)
    await service.newTenant()
    await eventually('a higher floor', async () => !readFileSync(installation.floor).equals(older))
    writeFileSync(installation.floor, older)
    await eventually('the higher floor', async () => !readFileSync(installation.floor).equals(older))
    await service.stop()
  })

  test('that is missing begins anew, with a warning', async () => {
    rmSync(installation.floor)
    const service = await installation.start()
    expect(service.logs()).toContain('there is no floor, so an earlier state of the database would not be noticed')
    expect((await readyz(service)).status).toBe(200)
    await eventually('a floor', async () => existsSync(installation.floor))
    await service.stop()
  })

  test('is kept by two processes together, and both notice what goes back', async () => {
    const [one, two] = [await installation.start(), await installation.start({ HALFKEY_ROLE: 'api' })]
    await Promise.all([one, two].map((each) => each.newTenant()))
    const all = await one.sql<{ tenant_id: string }>('select tenant_id from audit_heads where seq > 0')
    await eventually('all logs in the floor', async () => {
      const { chains } = marksIn(installation.floor)
      return all.every(({ tenant_id: id }) => chains[`audit ${id}`] !== undefined)
    })
    expect(one.logs() + two.logs()).not.toContain('behind its floor')
    const tenantId = all[0]?.tenant_id
    await one.sql('update audit_heads set seq = seq - 1 where tenant_id = $1', [tenantId])
    for (const each of [one, two]) await eventually('the setback', async () => (await readyz(each)).status === 503)
    await one.sql('update audit_heads set seq = seq + 1 where tenant_id = $1', [tenantId])
    for (const each of [one, two]) await isReady(each)
    await Promise.all([one.stop(), two.stop()])
  })

  test('that could not be read once is told by readiness only until it can be read again', async () => {
    const { floor } = installation
    const service = await installation.start()
    const state = async () =>
      (await readyz(service)).body.data.checks.find(({ name }: { name: string }) => name === 'floor').state
    await eventually('a floor', async () => existsSync(floor))
    expect(await state()).toBe('ok')
    renameSync(floor, `${floor}.away`)
    mkdirSync(floor)
    await eventually('the failure', async () => (await state()) === 'unknown')
    rmdirSync(floor)
    renameSync(`${floor}.away`, floor)
    await eventually('that it is kept again', async () => (await state()) === 'ok')
    await service.stop()
  })

  test('in a folder that does not exist stops nothing, and is told', async () => {
    const service = await installation.start({ HALFKEY_FLOOR: `${installation.floor}.none/floor` })
    expect((await readyz(service)).status).toBe(200)
    await eventually('the failures', async () =>
      /halfkey_floor_failures_total\{operation="write"\} [1-9]/.test((await call(service.url, 'GET', '/metrics')).text),
    )
    const floor = (await readyz(service)).body.data.checks.find(({ name }: { name: string }) => name === 'floor')
    expect(floor.state).toBe('unknown')
    expect(service.logs().match(/the floor could not be written/g)).toHaveLength(1)
    await service.stop()
  })
})
