import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { newHolder } from '../../delegation/delegated.fixture.ts'
import { openKeyFile } from '../../platform/security/key-provider.ts'
import { REMADE, TABLES } from './tables.ts'
import { changed, contentOf, craft, exportTo, halfkey, importFrom, newWorkbench, tenantAt } from './transfer.fixture.ts'

const bench = newWorkbench()
const CHUNK = 65_536 + 16

let before: Service
let after: Service
let tenant: Tenant
let file: string
let keyFile: string

beforeAll(async () => {
  before = await startService({ HALFKEY_ROLE: 'api' })
  after = await startService()
  tenant = await before.newTenant()
  await newHolder(tenant, { email: 'ada@example.com' })
  const hook = { url: 'http://127.0.0.1:19999/hook', events: ['user.created'] }
  expect((await tenant.post('/webhooks', hook)).status).toBe(201)
  // Several chunks of what cannot be compressed.
  await before.sql(
    `insert into events (tenant_id, id, type, body, created_at, context)
    select $1, 'evt_' || lpad(n::text, 26, '0'), 'app.created',
      (select '{"data":{"text":"' || string_agg(md5(random()::text), '') || '"}}' from generate_series(1, 400) where n > 0), now(), '{}'
    from generate_series(1, 40) n`,
    [tenant.tenantId],
  )
  keyFile = bench.newKey()
  file = bench.path('tenant.halfkey')
  await exportTo(before, tenant.tenantId, file, keyFile)
}, 180_000)

afterAll(async () => {
  await after?.stop()
  await before?.stop()
  bench.remove()
})

/** That nothing of an import is in a service. */
async function expectNothing(service: Service): Promise<void> {
  const [row] = await service.sql<{ imports: number; tenants: number; schemas: number }>(
    `select (select count(*)::int from imports) as imports, (select count(*)::int from tenants where id = $1) as tenants,
      (select count(*)::int from pg_namespace where nspname like 'halfkey_import_%') as schemas`,
    [tenant.tenantId],
  )
  expect(row).toEqual({ imports: 0, tenants: 0, schemas: 0 })
}

/** Refused, with words that say so, and nothing of it is live; what it has staged can be taken away. */
async function expectRefused(path: string, words: RegExp, { key = keyFile, dryRun = false } = {}): Promise<void> {
  for (const more of dryRun ? [['--dry-run']] : [['--dry-run'], []]) {
    const { exitCode, err } = await importFrom(after, path, key, ...more)
    expect([exitCode, err]).toEqual([expect.any(Number), expect.stringMatching(words)])
    expect(exitCode).not.toBe(0)
    if (more.length > 0) await expectNothing(after)
  }
  expect((await tenantAt(after, tenant).get('/tenant')).status).toBe(401)
  for (const { id } of await after.sql<{ id: string }>('select id from imports where finished_at is null'))
    expect((await halfkey(after, 'import', '--discard', id)).exitCode).toBe(0)
  await expectNothing(after)
}

test('every table of the schema is said to move or to stay, and nothing else is', async () => {
  const tables = await after.sql<{ name: string }>(
    `select relname::text as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') order by 1`,
  )
  expect(Object.keys(TABLES).sort()).toEqual(tables.map(({ name }) => name).sort())
  const columns = await after.sql<{ name: string }>(
    `select table_name || '.' || column_name as name from information_schema.columns join information_schema.tables
      using (table_schema, table_name) where table_schema = 'public' and table_type = 'BASE TABLE'`,
  )
  const known = columns.map(({ name }) => name)
  for (const [table, remade] of Object.entries(REMADE))
    for (const column of Object.keys(remade)) expect(known).toContain(`${table}.${column}`)
  // A tenant's rows stay behind for a reason only.
  const owned = known.filter((name) => name.endsWith('.tenant_id')).map((name) => name.split('.')[0] as string)
  for (const name of owned)
    expect(TABLES[name] === 'copied' || (TABLES[name]?.leftOut.length ?? 0) > 10, name).toBe(true)
  // Rows go live in the list's order: what they refer to is there before them.
  const references = await after.sql<{ child: string; parent: string }>(
    `select conrelid::regclass::text as child, confrelid::regclass::text as parent from pg_constraint
      where contype = 'f' and connamespace = 'public'::regnamespace`,
  )
  const place = (name: string) => Object.keys(TABLES).indexOf(name)
  expect(references.length).toBeGreaterThan(10)
  for (const { child, parent } of references) expect(place(parent), `${child} → ${parent}`).toBeLessThan(place(child))
  for (const [name, kept] of Object.entries(TABLES))
    expect(kept !== 'copied' || owned.includes(name) || name === 'tenants', name).toBe(true)
})

describe('a damaged file', () => {
  test('is refused when it is cut off, at each chunk and elsewhere', async () => {
    const { length } = readFileSync(file)
    const start = headerEnd()
    expect(length - start).toBeGreaterThan(3 * CHUNK)
    const ends = [0, 10, start - 1, start, length - 1, length - 16]
    for (let end = start + CHUNK; end < length; end += CHUNK) ends.push(end, end - 1, end + 1)
    for (const end of ends)
      await expectRefused(
        changed(file, (bytes) => bytes.subarray(0, end)),
        /truncated|damaged|not an export/,
        { dryRun: end !== start + 2 * CHUNK },
      )
  }, 180_000)

  test('is refused when a bit of it is another, anywhere', async () => {
    const { length } = readFileSync(file)
    const start = headerEnd()
    const places = [0, 14, 16, 20, start - 3, start, start + 1, start + CHUNK - 1, start + CHUNK, length - 1]
    for (let step = 0; step < 20; step += 1) places.push(Math.floor((length * (step + 0.5)) / 20))
    for (const place of places) {
      const flipped = changed(file, (bytes) => {
        bytes[place] = (bytes[place] as number) ^ (1 << (place % 8))
        return bytes
      })
      const { exitCode, err } = await importFrom(after, flipped, keyFile, '--dry-run')
      expect([place, exitCode]).toEqual([place, 1])
      expect(err).toMatch(/damaged|changed|no export|the form|cannot be opened|schema/)
    }
    await expectNothing(after)
  }, 180_000)

  test('is refused when chunks change places, are left out, or come from another file', async () => {
    const start = headerEnd()
    const other = bench.path('other.halfkey')
    await exportTo(before, tenant.tenantId, other, keyFile)
    const chunk = (bytes: Buffer, at: number) => bytes.subarray(start + at * CHUNK, start + (at + 1) * CHUNK)
    const put = (bytes: Buffer, at: number, piece: Buffer) => {
      const copy = Buffer.from(bytes)
      piece.copy(copy, start + at * CHUNK)
      return copy
    }
    const ways: ((bytes: Buffer) => Buffer)[] = [
      (bytes) => put(put(bytes, 0, chunk(bytes, 1)), 1, chunk(bytes, 0)),
      (bytes) => Buffer.concat([bytes.subarray(0, start + CHUNK), bytes.subarray(start + 2 * CHUNK)]),
      (bytes) => Buffer.concat([bytes.subarray(0, start + CHUNK), chunk(bytes, 0), bytes.subarray(start + CHUNK)]),
      (bytes) => put(bytes, 1, chunk(readFileSync(other), 1)),
      (bytes) => Buffer.concat([readFileSync(other).subarray(0, start), bytes.subarray(start)]),
      (bytes) => Buffer.concat([bytes, Buffer.from([0])]),
      (bytes) => Buffer.concat([bytes, bytes.subarray(start)]),
    ]
    for (const way of ways) await expectRefused(changed(file, way), /damaged|changed/, { dryRun: true })
  })

  function headerEnd(): number {
    const bytes = readFileSync(file)
    return 15 + 4 + bytes.readUInt32BE(15)
  }
})

describe('keys', () => {
  test('another key does not open the file, and says which one would', async () => {
    const { keyId } = await openKeyFile(keyFile, { create: false })
    await expectRefused(file, new RegExp(`exported with key ${keyId}`), { key: bench.newKey() })
  })

  test('a key file that others can read, that is missing, or that is the installation’s own is refused', async () => {
    const open = bench.newKey()
    chmodSync(open, 0o644)
    const out = bench.path('never.halfkey')
    const exporting = (key: string) =>
      halfkey(before, 'export', '--tenant', tenant.tenantId, '--out', out, '--key-file', key)
    for (const key of [open, bench.path('nowhere.key')]) {
      expect((await exporting(key)).exitCode).toBe(78)
      expect((await importFrom(after, file, key)).exitCode).toBe(78)
    }
    const own = await exporting(before.deps.config.kekFile as string)
    expect([own.exitCode, own.err]).toEqual([1, expect.stringContaining('the key file of this installation')])
    expect(existsSync(out) || existsSync(`${out}.part`)).toBe(false)
  })
})

describe('a file by somebody who has the key', () => {
  const shaped = (
    change: (manifest: Awaited<ReturnType<typeof contentOf>>['manifest'], rows: Map<string, string[]>) => void,
  ) => craft(file, keyFile, { change })
  // biome-ignore lint/suspicious/noExplicitAny: any table
  const table = (manifest: any, name: string) => manifest.tables.find((each: { name: string }) => each.name === name)

  test('cannot bring tables or columns of its own, nor rows of another tenant', async () => {
    const foreign = after.admin.tenantId
    const strange = [
      await shaped((m) => Object.assign(table(m, 'feed'), { name: 'signing_keys' })),
      await shaped((m) => Object.assign(table(m, 'feed'), { name: 'feed"; drop table users; --' })),
      await shaped((m) => Object.assign(table(m, 'feed'), { name: 'pg_catalog.pg_authid' })),
      await shaped((m) => table(m, 'users').columns.push({ name: 'tenant_id', type: 'text' })),
      await shaped((m) => Object.assign(table(m, 'users').columns[0], { name: "x'; select 1 --" })),
      await shaped((m) => Object.assign(table(m, 'users').columns[0], { type: 'regclass' })),
      await shaped((m) => m.tables.push({ name: 'users', columns: [], rows: 0 })),
      await shaped((m) => void m.tables.splice(m.tables.indexOf(table(m, 'webhooks')), 1)),
      await shaped((m) => {
        const { columns } = table(m, 'apps')
        columns.splice(
          columns.findIndex((each: { name: string }) => each.name === 'name'),
          1,
        )
      }),
    ]
    for (const each of strange)
      await expectRefused(each, /does not belong here|without some|no table/, { dryRun: true })
    await expectRefused(
      await craft(file, keyFile, { header: { tenantId: foreign } }),
      /already exists in this installation/,
    )
    await expectRefused(await craft(file, keyFile, { header: { tenantId: "ten_'; drop table users" } }), /damaged/)
  })

  test('cannot bring rows that are none', async () => {
    const wrong = [
      '{}',
      '[]',
      'null',
      '[',
      '',
      JSON.stringify(Array(200).fill('x')),
      `[${Array(9).fill('[1]').join()}]`,
      '__proto__',
    ]
    for (const line of wrong)
      await expectRefused(
        await shaped((_, rows) => void rows.set('tenants', [line])),
        /invalid row of the table tenants/,
        {
          dryRun: true,
        },
      )
    const more = [
      await shaped((m) => Object.assign(table(m, 'users'), { rows: table(m, 'users').rows - 1 })),
      await shaped((m) => Object.assign(table(m, 'webhooks'), { rows: 1e9 })),
      await shaped((m) => Object.assign(table(m, 'webhooks'), { rows: -1 })),
      await shaped((m, rows) => {
        Object.assign(table(m, 'tenants'), { rows: 2 })
        rows.set('tenants', [...(rows.get('tenants') ?? []), ...(rows.get('tenants') ?? [])])
      }),
    ]
    for (const each of more)
      await expectRefused(
        each,
        /fewer rows|more rows|invalid row of|list of its tables|exactly one tenant|invalid data/,
      )
  })

  test('cannot bring values that the columns do not take, nor rows without what they refer to', async () => {
    const place = (m: object, name: string, column: string) =>
      table(m, name).columns.findIndex((each: { name: string }) => each.name === column)
    const set = (name: string, column: string, value: string | null) =>
      shaped((m, rows) => {
        const [first, ...rest] = rows.get(name) as string[]
        const row = JSON.parse(first as string)
        row[place(m, name, column)] = value
        rows.set(name, [JSON.stringify(row), ...rest])
      })
    await expectRefused(await set('users', 'created_at', 'yesterdayish'), /invalid data in users/)
    await expectRefused(await set('users', 'id', null), /invalid data in users/)
    await expectRefused(await set('users', 'metadata', '{'), /invalid data in users/)
    await expectRefused(
      await set('tenants', 'node_key_sealed', '\\x00'),
      /sealed value in tenants that its key does not open/,
    )
    const stray = await set('users', 'app_id', 'app_00000000000000000000000000')
    const { exitCode, err } = await importFrom(after, stray, keyFile)
    expect([exitCode, err]).toEqual([1, expect.stringContaining('users_app_fk')])
    const [open] = await after.sql<{ id: string }>('select id from imports where finished_at is null')
    expect((await halfkey(after, 'import', '--discard', open?.id as string)).exitCode).toBe(0)
    await expectNothing(after)
  })

  test('cannot fill the memory by one row without an end', async () => {
    async function* endless(): AsyncGenerator<string> {
      for (let part = 0; part < 48; part += 1) yield `"${'x'.repeat(1_048_576)}`.replaceAll('\n', '')
    }
    const whole: string[] = []
    for await (const part of endless()) whole.push(part)
    await expectRefused(await craft(file, keyFile, { lines: [whole.join('')] }), /too large/)
  }, 180_000)

  test('is refused where its content ends early, or is not text at all', async () => {
    await expectRefused(await craft(file, keyFile, { lines: [] }), /fewer rows/)
    await expectRefused(await craft(file, keyFile, { lines: ['not json'] }), /list of its tables/)
    await expectRefused(
      await craft(file, keyFile, { lines: ['{"tables":[]}'] }),
      /table or column that does not belong here/,
    )
  })
})

test('an export of another schema is refused, a newer and an older one by name', async () => {
  const digest = 'a'.repeat(64)
  const newer = await craft(file, keyFile, { header: { schema: { last: '9999_later.sql', digest }, halfkey: '9.0.0' } })
  await expectRefused(newer, /newer schema \(9999_later\.sql, of Halfkey 9\.0\.0\).*Upgrade this installation/)
  const older = await craft(file, keyFile, { header: { schema: { last: '0001_first.sql', digest } } })
  await expectRefused(older, /a different schema \(0001_first\.sql.*Upgrade the old installation/)
})

test('a file of another form, and one that is none, are refused by name', async () => {
  writeFileSync(bench.path('none'), 'hello')
  await expectRefused(bench.path('none'), /not an export of Halfkey/)
  await expectRefused(bench.path('missing'), /cannot be read/)
  const later = changed(file, (bytes) =>
    Buffer.from(bytes.toString('latin1').replace('"format":1', '"format":2'), 'latin1'),
  )
  await expectRefused(later, /has the format 2/)
})

describe('exports', () => {
  test('a tenant that is not there, and a file that is, are refused, and nothing is left', async () => {
    const out = bench.path('nothing.halfkey')
    const run = (id: string, to: string) =>
      halfkey(before, 'export', '--tenant', id, '--out', to, '--key-file', keyFile)
    for (const id of ['ten_00000000000000000000000000', "x' or 1=1", '%'])
      expect(await run(id, out)).toMatchObject({ exitCode: 1, err: expect.stringContaining('There is no tenant') })
    expect(existsSync(out) || existsSync(`${out}.part`)).toBe(false)
    const bytes = readFileSync(file)
    expect(await run(tenant.tenantId, file)).toMatchObject({
      exitCode: 1,
      err: expect.stringContaining('already exists'),
    })
    expect(readFileSync(file).equals(bytes)).toBe(true)
    writeFileSync(`${out}.part`, '')
    expect(await run(tenant.tenantId, out)).toMatchObject({ exitCode: 1, err: expect.stringContaining('is running') })
    expect(existsSync(out)).toBe(false)
    expect((await halfkey(before, 'export', '--out', out)).exitCode).toBe(2)
    expect(
      (
        await halfkey(
          before,
          'export',
          '--tenant',
          tenant.tenantId,
          '--out',
          bench.path('no/where'),
          '--key-file',
          keyFile,
        )
      ).exitCode,
    ).toBe(1)
  })

  test('an export shows one moment, though users are created meanwhile', async () => {
    const busy = await before.newTenant()
    let goesOn = true
    const writing = Promise.all(
      Array.from({ length: 20 }, async () => {
        while (goesOn) expect((await busy.post('/users', {})).status).toBe(201)
      }),
    )
    for (let turn = 0; turn < 3; turn += 1) {
      const out = bench.path(`busy-${turn}.halfkey`)
      await exportTo(before, busy.tenantId, out, keyFile)
      const { manifest, rows } = await contentOf(out, keyFile)
      const at = manifest.tables
        .find(({ name }) => name === 'user_counts')
        ?.columns.findIndex(({ name }) => name === 'n') as number
      const counted = rows.get('user_counts')?.reduce((sum, line) => sum + Number(JSON.parse(line)[at]), 0) ?? 0
      expect(rows.get('users')).toHaveLength(counted)
    }
    goesOn = false
    await writing
  })
})
