import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest'
import { eventually, type Service, startService } from '../../../../../test/harness/harness.ts'
import { type Receiver, startReceiver } from '../../../../../test/harness/receiver.ts'
import { expectStatus, newHolder } from '../../../../delegation/delegated.fixture.ts'
import { kidsOf } from '../../../../identity/id-tokens/id-tokens.fixture.ts'
import { newShop, widget } from '../../../../identity/messenger/messenger.fixture.ts'
import { codeNow, enrol, stepUp } from '../../../../identity/mfa/mfa.fixture.ts'
import { dump, signInAs } from '../../../../identity/sessions/sessions.fixture.ts'
import { beginDkg, round2Body } from '../../../../keys/key-generations/key-generations.fixture.ts'
import { newSharedWallet } from '../../../../keys/key-shares/key-shares.fixture.ts'
import { start } from '../../../../keys/recovery/recovery.fixture.ts'
import { sql } from '../../../../platform/db/db.ts'
import { type Id, newId } from '../../../../platform/ids.ts'
import { keyIdOf, open, rewrap, seal } from '../../../../platform/security/crypto.ts'
import { type KeyProvider, openKeyFile } from '../../../../platform/security/key-provider.ts'
import { newKeyLine } from '../../../../platform/security/key-services/key-lines.ts'
import { freshProofSigner, proofSigner } from '../../../../platform/security/proof-keys.ts'
import { rewrapAll, sealedTables } from '../../../../platform/security/sealed-values.ts'
import { openSecret, secretContext } from '../../../../tenancy/apps/providers/service.ts'
import { type MemberProvider, providerOf } from '../../../members/sign-in/settings.ts'
import { setMethod } from '../../../members/sign-in/store.ts'
import { runCli } from '../../cli.ts'
import { createProgress } from '../../progress.ts'
import { rotateKek } from './kek-rotation.ts'
import { addFirstKey, keepFirstKey } from './key-file-change.ts'

/** Processes on different ports take each other's tokens under one name only. */
const SAME_NAME = { HALFKEY_PUBLIC_URL: 'http://localhost:8080' }

let receiver: Receiver
beforeAll(async () => {
  receiver = await startReceiver()
})
afterAll(() => receiver.close())

const started = async (context: TestContext, settings: Record<string, string> = {}): Promise<Service> => {
  const service = await startService(settings)
  context.onTestFinished(() => service.stop())
  return service
}

const fileOf = (service: Service) => service.deps.config.kekFile as string
const keysIn = async (service: Service) => (await openKeyFile(fileOf(service), { create: false })).keyIds
const linesIn = (path: string) => readFileSync(path, 'utf8').trim().split('\n')

/** The command, in this process. */
async function halfkey(service: Pick<Service, 'deps'>, ...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []]
  const exitCode = await runCli(args, {
    openDeps: async () => ({ deps: service.deps, close: async () => {} }),
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
  })
  return { exitCode, out, err: err.join('\n') }
}

const QUIET = { progress: createProgress({ err: () => {} }), noticeMs: 1_500, settleMs: 2_000 }

/** The command without the long waits of its own. */
const rotate = (service: Pick<Service, 'deps'>, dropOld: boolean) => rotateKek(service.deps, { ...QUIET, dropOld })

interface Held {
  column: string
  value: Buffer
}

/** Every sealed value of the database. */
async function sealedValues(service: Service): Promise<Held[]> {
  const tables = await sealedTables(service.deps.db)
  const found = tables.flatMap(({ name, columns }) =>
    columns.map(async (column) => {
      const rows = await service.sql<{ value: Buffer }>(
        `select ${column.name} as value from ${name} where ${column.name} is not null and ${column.when ?? 'true'}`,
      )
      return rows.map(({ value }) => ({ column: `${name}.${column.name}`.replaceAll('"', ''), value }))
    }),
  )
  return (await Promise.all(found)).flat()
}

/** Names the login of a tenant's organisation. Not by a call: the page that may make it is elsewhere than this process. */
async function setLogin({ deps }: Service, tenant_id: Id<'ten'>): Promise<void> {
  const id = newId('prv')
  const client_secret_sealed = await seal(deps.keys, 'of the tenant', secretContext(tenant_id, id))
  const login = { provider_id: id, name: 'Acme', issuer: receiver.url, client_id: 'acme', client_secret_sealed }
  const row = { tenant_id, method: 'oidc' as const, enabled: true, ...login, updated_at: deps.now() }
  await deps.db.tx((tx) => setMethod(tx, row))
}

/** Seals by a call one value at least of each kind. Answers how to see, on another process, that all of them open. */
async function sealEverything(service: Service) {
  const shop = await newShop(service)
  const { tenant } = shop
  const keyed = { headers: { 'idempotency-key': 'kept' } }
  const gateway = { 'X-Api-Key': 'of-the-gateway' }
  const subscription = { url: `${receiver.url}/${tenant.tenantId}`, events: ['webhook.test'], headers: gateway }
  const webhook = expectStatus(await tenant.post('/webhooks', subscription, keyed), 201)
  const rotated = expectStatus(await tenant.post(`/webhooks/${webhook.id}/rotate`, { graceSeconds: 600 }), 200)
  // An email that waits, and what signs it.
  const emailsAt = `/emails-of-${tenant.tenantId}`
  const sender = {
    enabled: true,
    sender: 'webhook',
    webhookUrl: receiver.url + emailsAt,
    webhookSecret: webhook.secret,
  }
  expectStatus(await tenant.patch(`/apps/${tenant.appId}`, { email: sender }), 200)
  const key = await tenant.newKey({ publishable: true })
  expectStatus(await tenant.post('/auth/email/start', { email: 'ada@example.com' }, { key }), 200)
  // What proves the app to a sign-in provider.
  const redirectUrl = 'https://shop.example.com/signed-in'
  expectStatus(await tenant.patch(`/apps/${tenant.appId}`, { allowedRedirectUrls: [redirectUrl] }), 200)
  const github = { preset: 'github', issuer: receiver.url, clientId: 'shop', clientSecret: 'of the client' }
  const provider = expectStatus(await tenant.post(`/apps/${tenant.appId}/providers`, github), 201)
  // What proves the tenant to the login of its organisation.
  const tenantId = tenant.tenantId as Id<'ten'>
  await setLogin(service, tenantId)
  const holder = await newHolder(tenant)
  const { publicKey: proofKey } = await proofSigner(service.deps.db, service.deps, tenantId)
  const idTokenKeys = await kidsOf(service, tenant.appId)
  expect(idTokenKeys).toHaveLength(1)
  const ada = await signInAs(service, tenant)
  const factor = await enrol(service, ada)
  const bob = await signInAs(service, tenant)
  const setup = expectStatus(await bob.post('/mfa/setup'), 200)
  // Shares of a key, a resharing of it, and a key that is being generated.
  const split = await newSharedWallet(service, tenant)
  const resharing = await start(split, [1, 3])
  const eve = await signInAs(service, tenant)
  const dkg = await beginDkg(eve)
  const parts = await round2Body(eve, dkg)
  // What signs the questions about sign-ins. The receiver decides nothing.
  const askedAt = `/sign-ins-of-${tenant.tenantId}`
  const signInHook = { url: receiver.url + askedAt, secret: webhook.secret, onFailure: 'allow' }
  expectStatus(await tenant.patch(`/apps/${tenant.appId}`, { signInHook }), 200)

  return async (other: Service) => {
    other.advance(service.deps.now().getTime() - other.deps.now().getTime())
    const at = (path: string) => ({ url: `${other.url}/v1${path}`, key: tenant.key })
    const post = async (path: string, body: object, headers: Record<string, string> = {}) => {
      const { url, key } = at(path)
      const answer = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': key, ...headers },
        body: JSON.stringify(body),
      })
      const json = (await answer.json()) as { data: Record<string, unknown> }
      expect([200, 201, 202], `${path}: ${JSON.stringify(json)}`).toContain(answer.status)
      return json.data
    }
    const again = await post('/webhooks', subscription, keyed.headers)
    expect(again.secret).toBe(webhook.secret)
    await post(`/webhooks/${webhook.id}/test`, {})
    const got = await receiver.until('the test event', ({ path }) => path === `/${tenant.tenantId}`)
    expect(got.headers['x-api-key']).toBe('of-the-gateway')
    for (const secret of [webhook.secret, rotated.secret])
      expect(() => new Webhook(secret as string).verify(got.body, got.headers)).not.toThrow()
    const email = await receiver.until('the email', ({ path }) => path === emailsAt)
    expect(() => new Webhook(webhook.secret as string).verify(email.body, email.headers)).not.toThrow()
    const start = { redirectUrl, codeChallenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM' }
    const { authorizationUrl } = await post(`/auth/providers/${provider.id}/start`, start)
    const { pathname, search } = new URL(authorizationUrl as string)
    const begun = await fetch(`${other.url}${pathname}${search}`, { redirect: 'manual' })
    expect(begun.headers.get('location')).toMatch(/\/login\/oauth\/authorize\?/)
    const login = (await providerOf(other.deps.db, tenantId)) as MemberProvider
    expect(await openSecret(other.deps, login)).toBe('of the tenant')
    const person = { id: '77', first_name: 'Ada', auth_date: shop.date() }
    const signedIn = await post('/auth/messenger/verify', widget(shop.token, person))
    expect(signedIn.accessToken).toEqual(expect.any(String))
    const question = await receiver.until('the question', ({ path }) => path === askedAt)
    expect(() => new Webhook(webhook.secret as string).verify(question.body, question.headers)).not.toThrow()
    const refreshed = await post('/auth/refresh', { refreshToken: ada.refreshToken })
    ada.refreshToken = refreshed.refreshToken as string
    expect((await freshProofSigner(other.deps.db, other.deps.keys, tenantId))?.publicKey).toEqual(proofKey)
    expect(await kidsOf(other, tenant.appId)).toEqual(idTokenKeys)
    await post('/dev/faucet', { userId: holder.userId, symbol: 'USDX', amount: '1' })
    const moved = { ...ada, post: (path: string, body: object = {}) => acting(other, ada, path, body) }
    await stepUp(other, moved as never, factor)
    await acting(other, split.person, '/mpc/recover', resharing.body)
    await acting(other, eve, `${dkg.path}/round2`, parts)
    await acting(other, bob, '/mfa/verify-setup', { code: await codeNow(other, setup.secret) })
  }
}

/** A call by a person, to another process than the one that signed them in. */
async function acting(other: Service, person: { key: string; bearer: object }, path: string, body: object) {
  const answer = await fetch(`${other.url}/v1${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': person.key, ...person.bearer },
    body: JSON.stringify(body),
  })
  const text = await answer.text()
  expect(answer.status, text).toBe(200)
  return { status: answer.status, text, body: JSON.parse(text) }
}

describe.concurrent('rotating the key-encryption key', { timeout: 180_000 }, () => {
  test('leaves nothing sealed by the old key, wherever it lies; with that key dropped everything still opens', async (context) => {
    const service = await started(context, { HALFKEY_ROLE: 'api', ...SAME_NAME })
    const openEverything = await sealEverything(service)
    const old = `${fileOf(service)}.old`
    copyFileSync(fileOf(service), old)
    const oldKeys = await openKeyFile(old, { create: false })
    const tables = await sealedTables(service.deps.db)
    const columns = tables.flatMap((table) =>
      table.columns.map(({ name }) => `${table.name}.${name}`.replaceAll('"', '')),
    )
    const before = await sealedValues(service)
    expect([...new Set(before.map(({ column }) => column))].sort()).toEqual(columns.sort())
    const traces = [
      oldKeys.keyId,
      Buffer.from(oldKeys.keyId).toString('hex'),
      Buffer.from(oldKeys.keyId).toString('base64'),
    ]
    expect((await dump(service)).includes(traces[1] as string)).toBe(true)

    const done = await rotate(service, true)
    expect(done).toMatchObject({ isNew: true, rewrapped: before.length, oldKeyIds: [oldKeys.keyId], dropped: true })
    // Nowhere in the database, in whatever column, stands a value that names the old key.
    const after = await dump(service)
    for (const trace of traces) expect(after.includes(trace)).toBe(false)
    expect(await keysIn(service)).toEqual([done.keyId])
    expect(statSync(fileOf(service)).mode & 0o777).toBe(0o600)

    const other = await started(context, {
      ...SAME_NAME,
      DATABASE_URL: service.databaseUrl,
      HALFKEY_KEK_FILE: fileOf(service),
    })
    await openEverything(other)
    for (const { column, value } of await sealedValues(service))
      await expect(rewrap(oldKeys, value), column).rejects.toThrow(`put the line of key ${done.keyId} back`)
    await expect(startService({ DATABASE_URL: service.databaseUrl, HALFKEY_KEK_FILE: old })).rejects.toThrow(
      `The key in ${old}`,
    )
  })

  test('without --drop-old keeps the old key, says what for, and a second run only drops it', async (context) => {
    const service = await started(context)
    const [oldId] = await keysIn(service)
    const first = await halfkey(service, 'keys', 'rotate-kek', '--wait', '2s')
    expect(first.exitCode, first.err).toBe(0)
    expect(await keysIn(service)).toHaveLength(2)
    expect(first.out.join('\n')).toMatch(new RegExp(`${oldId}.*Earlier backups.*--drop-old`, 's'))
    expect(first.err).toMatch(/^Waiting until every running process has read the key file \(2 s\)$/m)
    expect(first.err).toMatch(/^Rewrapping sealed values: 100 %, (\d+) of \1$/m)
    const second = await halfkey(service, 'keys', 'rotate-kek', '--wait', '2s', '--json')
    expect([second.exitCode, second.err]).toEqual([0, ''])
    const [keyId] = await keysIn(service)
    expect(JSON.parse(second.out[0] as string)).toEqual({
      keyId,
      isNew: false,
      rewrapped: 0,
      oldKeyIds: [oldId],
      dropped: false,
    })
    const lines = linesIn(fileOf(service))
    expect(await rotate(service, true)).toMatchObject({ keyId, isNew: false, rewrapped: 0, dropped: true })
    expect(linesIn(fileOf(service))).toEqual(lines.slice(0, 1))
  })

  test('a process that runs meanwhile goes on, and what it seals then is under the new key in the end', async (context) => {
    const service = await started(context)
    const openEverything = await sealEverything(service)
    const shop = await newShop(service)
    const hook = { url: `${receiver.url}/meanwhile`, events: ['webhook.test'] }
    let over = false
    let calls = 0
    const failures: string[] = []
    const work = async (call: () => Promise<{ status: number; text: string }>) => {
      while (!over) {
        const { status, text } = await call()
        calls += 1
        if (![200, 201].includes(status)) failures.push(text)
      }
    }
    let person = 0
    const signIn = () => {
      person += 1
      return shop.verify(widget(shop.token, { id: String(person), first_name: 'A', auth_date: shop.date() }))
    }
    const workers = [
      work(() => shop.tenant.post('/webhooks', hook)),
      work(() => shop.tenant.post('/webhooks', hook, { headers: { 'idempotency-key': `k${calls}` } })),
      work(() => shop.tenant.patch(`/apps/${shop.tenant.appId}`, { messenger: { botToken: shop.token } })),
      work(signIn),
    ]
    const done = await rotate(service, true).finally(() => {
      over = true
    })
    await Promise.all(workers)
    expect(failures).toEqual([])
    expect(calls).toBeGreaterThan(20)
    for (const { column, value } of await sealedValues(service)) expect(keyIdOf(value), column).toBe(done.keyId)
    await openEverything(service)
    expect(service.logs()).not.toMatch(/"level":[56]0/)
  })

  test('what was sealed before the new key and is committed after all was wrapped anew is not left behind', async (context) => {
    const service = await started(context)
    const tenant = await service.newTenant()
    const { id } = (await tenant.post('/webhooks', { url: `${receiver.url}/x`, events: ['*'] })).body.data
    const [late] = await service.sql<{ secret_sealed: Buffer }>('select secret_sealed from webhooks where id = $1', [
      id,
    ])
    let written: Promise<unknown> | undefined
    const begin = (what: string) => {
      if (what.includes('has ended'))
        written = service.sql('update webhooks set secret_sealed = $1 where id = $2', [late?.secret_sealed, id])
    }
    const progress = { ...QUIET.progress, begin }
    const done = await rotateKek(service.deps, { ...QUIET, settleMs: 3_000, dropOld: true, progress })
    expect(await written).toEqual([])
    for (const { column, value } of await sealedValues(service)) expect(keyIdOf(value), column).toBe(done.keyId)
  })

  test('what is written while it is wrapped anew stays as written; what somebody holds is not waited for', async (context) => {
    const service = await started(context)
    const tenant = await service.newTenant()
    const make = async () => (await tenant.post('/webhooks', { url: `${receiver.url}/x`, events: ['*'] })).body.data.id
    const [written, held] = [await make(), await make()] as [string, string]
    // Each log makes its key with its first entry: what it seals later would be under the new key.
    await eventually('the keys of the logs', async () => {
      const without = await service.sql('select from tenants where proof_key_sealed is null')
      return without.length === 0
    })
    await addFirstKey(fileOf(service))
    const keys = await openKeyFile(fileOf(service), { create: false })
    const [oldId] = keys.keyIds.slice(1)
    const newer = await seal(keys, 'newer', [])
    const secretOf = async (id: string) =>
      (await service.sql<{ secret_sealed: Buffer }>('select secret_sealed from webhooks where id = $1', [id]))[0]
    const beside = await secretOf(held)
    const slow: KeyProvider = {
      keyId: keys.keyId,
      wrap: keys.wrap,
      async unwrap(...args) {
        // By now its row was read, with all those of its table.
        if (beside?.secret_sealed.includes(args[1]))
          await service.sql('update webhooks set secret_sealed = $1 where id = $2', [newer, written])
        return keys.unwrap(...args)
      },
    }
    const tables = await sealedTables(service.deps.db)
    const round = async () => {
      let count = 0
      for await (const { rewrapped } of rewrapAll(service.deps.db, slow, tables, () => {})) count += rewrapped
      return count
    }
    // Which the first process makes at some time after its start.
    await service.deps.signingKeys.current()
    const total = (await sealedValues(service)).length
    await service.deps.db.tx(async (tx) => {
      await tx.run(sql`select 1 from webhooks where id = ${held} for no key update`)
      expect(await round()).toBe(total - 2)
    })
    const left = (await sealedValues(service)).filter(({ value }) => keyIdOf(value) === oldId)
    expect(left.map(({ column }) => column)).toEqual(['webhooks.secret_sealed'])
    expect((await secretOf(written))?.secret_sealed).toEqual(newer)
    expect(await round()).toBe(1)
    expect(await round()).toBe(0)
  })

  test('two at once: one does it, the other is refused by name and does no harm', async (context) => {
    const service = await started(context)
    const runs = await Promise.allSettled(Array.from({ length: 20 }, () => rotate(service, false)))
    expect(runs.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const run of runs)
      if (run.status === 'rejected')
        expect(run.reason.message).toContain('Another `halfkey keys rotate-kek` is running')
    expect(await keysIn(service)).toHaveLength(2)
    expect(await rotate(service, true)).toMatchObject({ isNew: false, rewrapped: 0 })
  })

  test('a value that is damaged, or under a key that nobody has, is named; the others are done, no key is dropped', async (context) => {
    const service = await started(context)
    const tenant = await service.newTenant()
    const make = async () => (await tenant.post('/webhooks', { url: `${receiver.url}/x`, events: ['*'] })).body.data.id
    const [damaged, short, foreign] = [await make(), await make(), await make()]
    const write = (id: string, change: string, values: unknown[] = []) =>
      service.sql(`update webhooks set secret_sealed = ${change} where id = '${id}'`, values)
    const kept = await service.sql<{ id: string; secret_sealed: Buffer }>('select id, secret_sealed from webhooks')
    await write(damaged, 'set_byte(secret_sealed, 40, get_byte(secret_sealed, 40) # 1)')
    await write(short, 'substring(secret_sealed from 1 for 50)')
    const lost = join(mkdtempSync(join(tmpdir(), 'halfkey-lost-')), 'kek.key')
    writeFileSync(lost, newKeyLine(), { mode: 0o600 })
    const lostKeys = await openKeyFile(lost, { create: false })
    await write(foreign, '$1', [await seal(lostKeys, 'x', [])])

    const [oldId] = await keysIn(service)
    const told = await rotate(service, true).catch((error: Error) => error.message)
    expect(told).toContain('3 sealed values cannot be opened')
    expect(told).toMatch(
      new RegExp(`webhooks.secret_sealed of ${tenant.tenantId}, ${damaged}: .*restore it from a backup`),
    )
    expect(told).toMatch(new RegExp(`${short}: sealed value is truncated`))
    expect(told).toMatch(new RegExp(`${foreign}: .*put the line of key ${lostKeys.keyId} back`))
    expect(told).toContain('Then run this again')
    const [newId, ...olds] = await keysIn(service)
    expect(olds).toEqual([oldId])
    const left = (await sealedValues(service)).filter(({ value }) => wrappedBy(value) !== newId)
    expect(left).toHaveLength(3)
    for (const row of kept) await write(row.id, '$1', [row.secret_sealed])
    expect(await rotate(service, true)).toMatchObject({ keyId: newId, rewrapped: 3, dropped: true })
    rmSync(lost)
  })

  test('a file that cannot be written: it says what to put there; put there, it goes on', async (context) => {
    const service = await started(context)
    const [oldId] = await keysIn(service)
    // A folder in the draft's place: it stops root too, whom no file's mode stops.
    const obstacle = `${fileOf(service)}.new`
    mkdirSync(obstacle)
    const refused = await halfkey(service, 'keys', 'rotate-kek')
    rmdirSync(obstacle)
    expect(refused.exitCode).toBe(1)
    expect(refused.err).toContain(`{ halfkey keys generate-kek; cat ${fileOf(service)}; }`)
    expect(await keysIn(service)).toEqual([oldId])
    const [line] = (await halfkey(service, 'keys', 'generate-kek')).out as [string]
    writeFileSync(fileOf(service), `${line}\n${readFileSync(fileOf(service), 'utf8')}`)
    expect((await rotate(service, true)).oldKeyIds).toEqual([oldId])
    expect(linesIn(fileOf(service))).toEqual([line])
  })

  test('no process starts any more without the new key once it may have sealed, nor without the old one before the end', async (context) => {
    const service = await started(context)
    const folder = mkdtempSync(join(tmpdir(), 'halfkey-keks-'))
    const [onlyOld, both, onlyNew] = ['old', 'both', 'new'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ]
    copyFileSync(fileOf(service), onlyOld)
    copyFileSync(fileOf(service), both)
    await addFirstKey(both)
    copyFileSync(both, onlyNew)
    await keepFirstKey(onlyNew)
    const start = async (path: string) => {
      const other = await startService({ DATABASE_URL: service.databaseUrl, HALFKEY_KEK_FILE: path })
      await other.stop()
    }
    await expect(start(onlyNew)).rejects.toThrow(`The key in ${onlyNew}`)
    await start(onlyOld)
    await start(both)
    await expect(start(onlyOld)).rejects.toThrow(/A rotation is not finished, so .* is still needed. Put its line back/)
    await expect(start(onlyNew)).rejects.toThrow(/A rotation is not finished, so .* is still needed. Put its line back/)
    rmSync(folder, { recursive: true })
  })

  test('a running process whose file is replaced by a stranger goes on by the keys it has, and says so', async (context) => {
    const service = await started(context)
    const tenant = await service.newTenant()
    const good = readFileSync(fileOf(service))
    const { keyId } = service.deps.keys
    writeFileSync(fileOf(service), newKeyLine())
    const hook = { url: `${receiver.url}/x`, events: ['*'] }
    const until = performance.now() + 2_500
    const isNoticed = () => service.logs().includes('the changed key file is not valid')
    while (performance.now() < until || !isNoticed()) expect((await tenant.post('/webhooks', hook)).status).toBe(201)
    writeFileSync(fileOf(service), good)
    expect(service.logs().match(/the changed key file is not valid/g)).toHaveLength(1)
    for (const { column, value } of await sealedValues(service)) expect(keyIdOf(value), column).toBe(keyId)
    expect(await open(service.deps.keys, await seal(service.deps.keys, 'x', []), [])).toEqual(Buffer.from('x'))
  })
})

/** The key's id, or what is wrong. */
function wrappedBy(value: Buffer): string {
  try {
    return keyIdOf(value)
  } catch (error) {
    return (error as Error).message
  }
}

test.each([
  [['keys', 'rotate-kek', '--wait', '1s'], '--wait must be a duration from 2 s'],
  [['keys', 'rotate-kek', '--wait', 'soon'], '--wait must be'],
  [['keys', 'rotate-kek', '--drop-new'], 'Usage'],
  [['keys', 'generate-kek', 'x'], 'Usage'],
])('%j is wrong usage, told before anything is opened', async (args, told) => {
  const err: string[] = []
  const openDeps = () => Promise.reject(new Error('opened'))
  expect(await runCli(args, { openDeps, out: () => {}, err: (line) => void err.push(line) })).toBe(2)
  expect(err.join('\n')).toContain(told)
})
