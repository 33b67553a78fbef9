import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, type Service, startService, type Tenant, toMidMonth } from '../../../../test/harness/harness.ts'
import { runCli } from '../../../operations/cli/cli.ts'

let service: Service
let folder: string
beforeAll(async () => {
  service = await startService()
  toMidMonth(service)
  folder = mkdtempSync(join(tmpdir(), 'halfkey-import-'))
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await service.stop()
})

/** Tenants of another service than the one that all share. */
const owners = new Map<Tenant, Service>()

let files = 0
function write(content: string | Buffer, extension = 'csv'): string {
  files += 1
  const path = join(folder, `users-${files}.${extension}`)
  writeFileSync(path, content)
  return path
}

async function usersImport(tenant: Tenant, path: string, ...args: string[]) {
  const { deps } = owners.get(tenant) ?? service
  const [out, err]: [string[], string[]] = [[], []]
  const exitCode = await runCli(['users', 'import', '--tenant', tenant.tenantId, '--file', path, ...args], {
    openDeps: async () => ({ deps, migrated: [], close: async () => {} }),
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
  })
  return { exitCode, out: out.join('\n'), err: err.join('\n') }
}

/** What a program gets: the report of a command that ran. */
async function report(tenant: Tenant, path: string, ...args: string[]) {
  const { exitCode, out, err } = await usersImport(tenant, path, ...args, '--json')
  expect(out, err).not.toBe('')
  return { exitCode, ...JSON.parse(out) }
}

async function importLines(tenant: Tenant, lines: readonly (string | object)[], ...args: string[]) {
  const text = lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n')
  return report(tenant, write(text, 'jsonl'), ...args)
}

// biome-ignore lint/suspicious/noExplicitAny: looked into by path
async function usersOf(tenant: Tenant): Promise<any[]> {
  const answer = await tenant.get('/users?page_size=100')
  expect(answer.body.total).toBe(answer.body.data.length)
  return answer.body.data
}

const rowsOf = (table: string, tenant: Tenant, where = 'true') =>
  service.sql<Record<string, unknown>>(`select * from ${table} where tenant_id = $1 and ${where}`, [tenant.tenantId])

describe('a file of users', () => {
  test('of CSV is read with byte order mark, semicolons, CRLF, quoted line breaks and quotes, and metadata in either form', async () => {
    const tenant = await service.newTenant()
    const path = write(
      [
        '\ufeffemail;name;externalId;emailVerified;metadata;metadata.plan;createdAt',
        ' Ada@Example.com ;"Ada ""the first""\r\nLovelace";crm-1;true;"{""source"":""csv""}";gold;2024-02-29T12:00:00+02:00',
        '',
        ';Zoe\u0308;;;;;',
        '',
      ].join('\r\n'),
    )
    const done = await report(tenant, path)
    expect(done).toMatchObject({ exitCode: 0, records: 2, imported: 2, skipped: 0, invalid: 0, problems: [] })
    const [zoe, ada] = await usersOf(tenant)
    expect(zoe).toMatchObject({ name: 'Zo\u00eb', email: null, emailVerified: false, metadata: {} })
    expect(ada).toMatchObject({
      appId: tenant.appId,
      email: 'Ada@Example.com',
      emailVerified: true,
      name: 'Ada "the first"\r\nLovelace',
      externalId: 'crm-1',
      metadata: { plan: 'gold', source: 'csv' },
      trustLevel: 'embedded',
      status: 'active',
      createdAt: '2024-02-29T10:00:00.000Z',
    })
    expect(ada.partyId).toMatch(new RegExp(`^${ada.id}::1220[0-9a-f]{64}$`))
    // They are users like others: found by search, and unique.
    expect((await tenant.get('/users?search=ADA@')).body.data).toEqual([ada])
    expect((await tenant.post('/users', { email: 'ada@example.COM' })).status).toBe(409)
    expect((await tenant.post('/users/me/wallet', {}, { headers: { 'x-user-id': ada.id } })).status).toBe(201)
  })

  test('of JSONL gives the same users as POST /users does', async () => {
    const [one, other] = [await service.newTenant(), await service.newTenant()]
    const bodies = [
      { email: 'ada@example.com', name: 'Ada', externalId: '1', metadata: { a: '1' } },
      { email: null, name: null },
      {},
      { externalId: 'é\u0301 2' },
    ]
    expect(await importLines(one, [`\ufeff${JSON.stringify(bodies[0])}`, ...bodies.slice(1), '   ', ''])).toMatchObject(
      { exitCode: 0, imported: 4 },
    )
    for (const body of bodies) expect((await other.post('/users', body)).status).toBe(201)
    const shape = (user: Record<string, unknown>) => ({
      ...user,
      id: '',
      appId: '',
      partyId: '',
      createdAt: '',
      updatedAt: '',
    })
    expect((await usersOf(one)).map(shape)).toEqual((await usersOf(other)).map(shape))
    const columns = async (tenant: Tenant) =>
      (await rowsOf('users', tenant)).map(({ email_key, search_text, id, guest }) => ({
        email_key,
        guest,
        search: (search_text as string).replace(id as string, ''),
      }))
    expect(await columns(one)).toEqual(await columns(other))
  })

  test('is told of by no event, and counted; with --events by one for each user', async () => {
    const tenant = await service.newTenant()
    const lines = Array.from({ length: 30 }, (_, i) => ({ email: `p${i}@example.com` }))
    expect((await importLines(tenant, lines)).exitCode).toBe(0)
    expect(await rowsOf('events', tenant, `type = 'user.created'`)).toEqual([])
    const told = await importLines(tenant, [{ email: 'x@example.com' }, {}], '--events')
    expect(told.imported).toBe(2)
    const users = await usersOf(tenant)
    expect(users).toHaveLength(32)
    const events = (await rowsOf('events', tenant, `type = 'user.created'`)).map(({ body }) =>
      JSON.parse(body as string),
    )
    expect(events.map(({ data }) => data).sort((a, b) => (a.userId < b.userId ? 1 : -1))).toEqual(
      users.slice(0, 2).map(({ id, email, partyId }) => ({ userId: id, email: email ?? '', partyId })),
    )
    const analytics = await eventually('the day is counted', async () => {
      const { body } = await tenant.get('/analytics?period=7d')
      return body.data.totals.newUsers === 32 && body.data
    })
    expect(analytics.series.map(({ newUsers }: { newUsers: number }) => newUsers)).toContain(32)
    const used = await eventually('the meter is right', async () => {
      const { body } = await tenant.get('/billing/usage')
      return body.data.meters.find(({ key }: { key: string }) => key === 'users').used === 32
    })
    expect(used).toBe(true)
    // What erasure takes out of an event, it takes out of an imported user's too.
    const [first] = users
    expect((await tenant.delete(`/users/${first.id}`)).status).toBe(200)
  })

  test('goes into the app that is named; into no other tenant’s, and none that is not there', async () => {
    const [tenant, other] = [await service.newTenant(), await service.newTenant()]
    const appId = (await tenant.post('/apps', { name: 'Second' })).body.data.id
    expect((await importLines(tenant, [{ name: 'x' }], '--app', appId)).imported).toBe(1)
    expect((await usersOf(tenant)).map((user) => user.appId)).toEqual([appId])
    for (const wrong of [other.appId, 'app_none']) {
      const refused = await usersImport(tenant, write('{}', 'jsonl'), '--app', wrong)
      expect([refused.exitCode, refused.err]).toEqual([1, `halfkey: Tenant ${tenant.tenantId} has no app ${wrong}.`])
    }
    expect(await usersOf(other)).toEqual([])
  })
})

describe('a line that is not right', () => {
  test('is named with its line and field, and nothing at all is imported', async () => {
    const tenant = await service.newTenant()
    const lines = [
      { email: 'ada@example.com' },
      { email: 'no address' },
      { name: '  ', externalId: 'x'.repeat(256) },
      { appId: tenant.appId },
      '[1]',
      'null',
      '{"email": "a@b.c"',
      { createdAt: '2999-01-01T00:00:00Z' },
      { createdAt: 'yesterday' },
      { emailVerified: true },
      { metadata: { a: 1 } },
      { metadata: Object.fromEntries(Array.from({ length: 51 }, (_, i) => [`k${i}`, ''])) },
      { metadata: { a: 'x'.repeat(17_000) } },
    ]
    const refused = await importLines(tenant, lines)
    expect(refused).toMatchObject({ exitCode: 1, records: 13, refused: true, imported: 0, invalid: 12 })
    expect(refused.problems.map(({ line, field }: { line: number; field: string }) => `${line} ${field}`)).toEqual([
      '2 email',
      '3 name',
      '3 externalId',
      '4 appId',
      '5 ',
      '6 ',
      '7 ',
      '8 createdAt',
      '9 createdAt',
      '10 emailVerified',
      '11 metadata.a',
      '12 metadata',
      '13 metadata',
    ])
    expect(await usersOf(tenant)).toEqual([])
    const told = await usersImport(tenant, write(`${JSON.stringify(lines[1])}\n`, 'jsonl'))
    expect(told.out).toContain('line 1, email: Must be an email address')
    expect([told.exitCode, told.out.includes('Nothing was imported')]).toEqual([1, true])
    expect(await importLines(tenant, lines, '--skip-invalid')).toMatchObject({ exitCode: 0, imported: 1, invalid: 12 })
    expect((await usersOf(tenant)).map((user) => user.email)).toEqual(['ada@example.com'])
  })

  test.each([
    ['a NUL', '{"name":"a\\u0000b"}', 'NUL'],
    ['half a surrogate pair', '{"name":"a\\ud800b"}', 'surrogate'],
    ['__proto__', '{"__proto__":{"admin":true}}', '__proto__'],
    ['constructor in metadata', '{"metadata":{"constructor":"x"}}', 'constructor'],
    ['a key twice', '{"name":"a","name":"b"}', 'twice'],
    ['deep nesting', `{"metadata":${'['.repeat(10_000)}`, 'nested'],
    ['bytes that are no UTF-8', Buffer.from([123, 0xff, 125]), 'UTF-8'],
    ['ten million characters', `{"name":"${'x'.repeat(10_000_000)}"}`, 'longer than'],
  ])('with %s is refused as the API refuses it, and the lines after it are read', async (_, bad, told) => {
    const tenant = await service.newTenant()
    const content = Buffer.concat([
      Buffer.from('{"name":"Ada"}\n'),
      Buffer.from(bad as string),
      Buffer.from('\n{"x":1}\n'),
    ])
    const refused = await report(tenant, write(content, 'jsonl'))
    expect(refused.problems.map(({ line }: { line: number }) => line)).toEqual([2, 3])
    expect(refused.problems[0].message).toContain(told)
    expect(({} as { admin?: boolean }).admin).toBeUndefined()
    expect(await usersOf(tenant)).toEqual([])
  })

  test('of CSV likewise: too few values, a NUL, metadata that are none', async () => {
    const tenant = await service.newTenant()
    const refused = await report(
      tenant,
      write('name,metadata\n"a\nb",\nonly one\na\0b,\nx,"{""__proto__"":""y""}"\nx,[1]\nx,{\n'),
    )
    expect(refused.problems.map(({ line, code }: { line: number; code: string }) => `${line} ${code}`)).toEqual([
      '4 wrong_columns',
      '5 nul_character',
      '6 malformed_json',
      '7 wrong_type',
      '8 malformed_json',
    ])
  })

  test('is one of the first hundred that are told; the others are counted', async () => {
    const tenant = await service.newTenant()
    const done = await importLines(
      tenant,
      Array.from({ length: 5_000 }, () => ({ email: 'x' })),
      '--dry-run',
    )
    expect([done.problems.length, done.moreProblems, done.exitCode]).toEqual([100, 4_900, 1])
  })
})

test.each([
  ['an unknown column', 'email,phone\na@b.c,1\n', 'The column "phone" is not known. Known columns: email, name,'],
  ['an unnamed column', 'email,\na@b.c,1\n', 'Column 2 has no name'],
  ['a column twice', 'email,email\na@b.c,1\n', 'twice'],
  ['a forbidden metadata key', 'email,metadata.__proto__\na@b.c,1\n', '"__proto__" is not allowed'],
  ['nothing in it', '', 'The file is empty'],
  ['UTF-16', Buffer.from('\ufeffemail\n', 'utf16le'), 'UTF-16'],
  ['bytes that are no UTF-8', Buffer.from([110, 97, 109, 101, 10, 0xe9, 10]), 'not UTF-8'],
  ['quotes that stay open', 'name\nx\n"y\n', 'cannot be read past line'],
  ['a record of ten million characters', `name\nx\n${'y'.repeat(10_000_000)}\n`, 'past line 3: Is longer than'],
])('a CSV file with %s is refused whole', async (_, content, told) => {
  const tenant = await service.newTenant()
  const refused = await usersImport(tenant, write(content))
  expect(refused.exitCode).toBe(1)
  expect(refused.err).toContain(told)
  expect(await usersOf(tenant)).toEqual([])
})

test('wrong usage is told before anything is opened', async () => {
  const tenant = await service.newTenant()
  for (const [path, args] of [
    [write('{}', 'txt'), []],
    [write('name\n'), ['--delimiter', ';;']],
    [write('name\n'), ['--on-conflict', 'merge']],
    ['', []],
  ] as const)
    expect((await usersImport(tenant, path, ...args)).exitCode).toBe(2)
  const missing = await usersImport(tenant, join(folder, 'none.csv'))
  expect([missing.exitCode, missing.err.includes('cannot be read')]).toEqual([1, true])
  expect((await usersImport(tenant, folder, '--format', 'csv')).err).toContain('must be a file')
})

describe('an email or external id that somebody has', () => {
  const lines = [
    { email: 'new@example.com' },
    { email: 'ADA@example.com' },
    { externalId: 'crm-1', name: 'x' },
    { email: 'Ne\u0301w@example.com' },
    { email: 'NÉW@example.com' },
    { externalId: 'fresh' },
  ]
  async function withAda() {
    const tenant = await service.newTenant()
    await tenant.post('/users', { email: 'ada@example.com', externalId: 'crm-1' })
    return tenant
  }

  test('is found before anything is imported, within the file too', async () => {
    const tenant = await withAda()
    for (const args of [['--dry-run'], []]) {
      const refused = await importLines(tenant, lines, ...args)
      expect(refused).toMatchObject({ exitCode: 1, refused: true })
      expect(refused.problems).toEqual([
        expect.objectContaining({ line: 2, field: 'email', code: 'already_exists' }),
        expect.objectContaining({ line: 3, field: 'externalId', code: 'already_exists' }),
        { line: 5, field: 'email', code: 'duplicate', message: 'Line 4 has this email too.' },
      ])
    }
    expect(await usersOf(tenant)).toHaveLength(1)
  })

  test('is left out with --on-conflict skip, as its dry run says', async () => {
    const tenant = await withAda()
    const dry = await importLines(tenant, lines, '--dry-run', '--on-conflict', 'skip')
    expect(dry).toMatchObject({ exitCode: 0, imported: 3, skipped: 3, refused: false })
    expect(await usersOf(tenant)).toHaveLength(1)
    expect(await importLines(tenant, lines, '--on-conflict', 'skip')).toMatchObject({
      exitCode: 0,
      imported: 3,
      skipped: 3,
    })
    expect((await usersOf(tenant)).map(({ email, externalId }) => email ?? externalId).sort()).toEqual([
      'Néw@example.com',
      'ada@example.com',
      'fresh',
      'new@example.com',
    ])
  })

  test('of another app or tenant is no conflict', async () => {
    const [tenant, other] = [await withAda(), await service.newTenant()]
    const appId = (await tenant.post('/apps', { name: 'Second' })).body.data.id
    expect((await importLines(tenant, [{ email: 'ada@example.com' }], '--app', appId)).imported).toBe(1)
    expect((await importLines(other, [{ email: 'ada@example.com' }])).imported).toBe(1)
  })
})

test('a dry run writes nothing, in no table', async () => {
  // Without a worker, which has always something to write.
  const quiet = await startService({ HALFKEY_ROLE: 'api' })
  const tenant = await quiet.newTenant()
  owners.set(tenant, quiet)
  const counts = async () => {
    const tables = await quiet.sql<{ name: string }>(
      `select quote_ident(tablename) as name from pg_tables where schemaname = 'public' and tablename <> 'signing_keys' order by 1`,
    )
    const one = ({ name }: { name: string }) => `select '${name}' as name, count(*)::int as n from ${name}`
    return quiet.sql(tables.map(one).join(' union all '))
  }
  const before = await counts()
  const lines = Array.from({ length: 4_500 }, (_, i) =>
    JSON.stringify({ email: `p${i}@example.com`, externalId: `${i}` }),
  )
  const dry = await report(tenant, write(lines.join('\n'), 'jsonl'), '--dry-run', '--events')
  expect(dry).toMatchObject({ exitCode: 0, imported: 4_500 })
  expect(await counts()).toEqual(before)
  await quiet.stop()
})

test('a file is imported once, unless it is asked for again; ten runs at once do it once', async () => {
  const tenant = await service.newTenant()
  const path = write(Array.from({ length: 6_001 }, (_, i) => `{"externalId":"${i}"}`).join('\n'), 'jsonl')
  const runs = await Promise.all(Array.from({ length: 10 }, () => usersImport(tenant, path)))
  expect(runs.filter(({ exitCode }) => exitCode === 0).length).toBeGreaterThan(0)
  for (const { exitCode, err } of runs.filter((run) => run.exitCode !== 0)) {
    expect(exitCode).toBe(1)
    expect(err).toContain('Another `halfkey users import` into this app is running')
  }
  expect((await tenant.get('/users')).body.total).toBe(6_001)
  const [row] = await service.sql<{ n: number }>('select count(*)::int as n from users where tenant_id = $1', [
    tenant.tenantId,
  ])
  expect(row?.n).toBe(6_001)
  const after = await usersImport(tenant, path)
  expect([after.exitCode, after.out.includes('was already imported into'), after.out.includes('--again')]).toEqual([
    0,
    true,
    true,
  ])
  expect(await report(tenant, path, '--again', '--on-conflict', 'skip')).toMatchObject({ imported: 0, skipped: 6_001 })
})

/** Counts the portions of a file that are read: each asks what time it is. Of a busy machine's seconds nothing could be said. */
function watched(deps: Service['deps']) {
  /** `silent`: the most that were read while a transaction was open and sent nothing. */
  const portions = { all: 0, silent: 0 }
  let [open, unsent] = [0, 0]
  const tx: typeof deps.db.tx = (body) =>
    deps.db.tx(async (inner) => {
      open += 1
      const get = (of: typeof inner, name: string | symbol) => {
        unsent = 0
        return Reflect.get(of, name)
      }
      try {
        return await body(new Proxy(inner, { get }))
      } finally {
        open -= 1
        unsent = 0
      }
    })
  const now = () => {
    portions.all += 1
    unsent += open
    portions.silent = Math.max(portions.silent, unsent)
    return deps.now()
  }
  return { portions, deps: { ...deps, now, db: { ...deps.db, tx } } }
}

test('a check may take longer than the database lets a transaction wait, whatever becomes of conflicts', async () => {
  const tenant = await service.newTenant()
  const { portions, deps } = watched(service.deps)
  owners.set(tenant, { ...service, deps })
  const path = write(Array.from({ length: 20_000 }, (_, i) => `{"externalId":"${i}"}`).join('\n'), 'jsonl')
  const dry = await report(tenant, path, '--dry-run')
  expect(dry).toMatchObject({ exitCode: 0, imported: 20_000 })
  const broken = write(`${'{}\n'.repeat(20_000)}{"x":1}`, 'jsonl')
  expect(await report(tenant, broken, '--on-conflict', 'skip')).toMatchObject({
    exitCode: 1,
    invalid: 1,
    refused: true,
  })
  expect(portions.all).toBeGreaterThan(20)
  expect(portions.silent).toBeLessThanOrEqual(2)
})

test('users without a time of their own are listed in the file’s order, each with the time at which it was imported', async () => {
  const tenant = await service.newTenant()
  let portions = 0
  const begun = Date.now()
  const deps = {
    ...service.deps,
    now: () => new Date(begun + portions * 86_400_000),
    failpoint: async () => {
      portions += 1
    },
  }
  owners.set(tenant, { ...service, deps })
  const lines = Array.from({ length: 4_001 }, (_, i) => ({ externalId: `${i}` }))
  expect(await importLines(tenant, lines, '--events')).toMatchObject({ exitCode: 0, imported: 4_001 })
  const rows = await service.sql<{ external_id: string; ms: number; told: boolean }>(
    `select u.external_id, (extract(epoch from u.created_at) * 1000)::float8 as ms, u.created_at = e.created_at and u.updated_at = u.created_at as told
     from users u join events e on e.id = u.created_event_id where u.tenant_id = $1 order by u.id`,
    [tenant.tenantId],
  )
  expect(rows.map((row) => row.external_id)).toEqual(lines.map((line) => line.externalId))
  expect(rows.every((row) => row.told)).toBe(true)
  expect([0, 2_000, 4_000].map((at) => Math.round(((rows[at]?.ms ?? 0) - begun) / 86_400_000))).toEqual([0, 1, 2])
})

test('--again that is refused leaves the import finished', async () => {
  const tenant = await service.newTenant()
  const path = write('{"email":"ada@example.com"}\n{"name":"Nobody"}\n', 'jsonl')
  expect(await report(tenant, path)).toMatchObject({ exitCode: 0, imported: 2 })
  expect(await report(tenant, path, '--again')).toMatchObject({ exitCode: 1, refused: true })
  expect(await report(tenant, path, '--on-conflict', 'skip')).toMatchObject({
    exitCode: 0,
    importedNow: 0,
    resumedAt: 2,
  })
  expect(await usersOf(tenant)).toHaveLength(2)
})

test('an import stands in the audit log, once, as what was done to its app', async () => {
  const tenant = await service.newTenant()
  const path = write('{"name":"Ada"}\n{"name":"Eve"}\n', 'jsonl')
  await report(tenant, path, '--dry-run')
  for (let run = 0; run < 3; run += 1) expect((await report(tenant, path)).exitCode).toBe(0)
  // Nobody was imported by it.
  expect((await importLines(tenant, [])).exitCode).toBe(0)
  const entries = await eventually('the log follows', async () => {
    const { body } = await tenant.get('/audit-log?action=users.*')
    return body.total > 0 && body.data
  })
  expect(entries).toEqual([
    expect.objectContaining({ action: 'users.imported', actor: 'cli', target: tenant.appId, appId: tenant.appId }),
  ])
})
