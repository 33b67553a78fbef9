import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { killAll, ServiceProcess } from '../../../../test/harness/service-process.ts'
import { signInAs } from '../../../identity/sessions/sessions.fixture.ts'
import { type AuditRecord, formerHeadMessage, hashEntry, headMessage } from '../../../insight/audit/chain.ts'
import { readLog } from '../../../insight/audit/verify.ts'
import type { Id } from '../../../platform/ids.ts'
import { keyFingerprint } from '../../../platform/ports/party.ts'
import { runCli } from '../cli.ts'

let service: Service
let folder: string
beforeAll(async () => {
  service = await startService()
  folder = mkdtempSync(join(tmpdir(), 'halfkey-audit-'))
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await killAll()
  await service.stop()
})

async function halfkey(...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []]
  const exitCode = await runCli(args, {
    openDeps: async () => ({ deps: service.deps, migrated: [], close: async () => {} }),
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
  })
  return { exitCode, out, err: err.join('\n') }
}

const verify = (tenant: Tenant, ...more: string[]) => halfkey('audit', 'verify', '--tenant', tenant.tenantId, ...more)

/** A tenant with a log of at least ten entries, which ends with seven of users; the last one is there. */
async function newLog(): Promise<Tenant> {
  const tenant = await service.newTenant()
  // The tenant, its app and its key.
  await eventually('the first entries', async () => (await tenant.get('/audit-log')).body.total === 3)
  for (let n = 0; n < 6; n += 1) await tenant.post('/users', { name: `User ${n}` })
  const last = (await tenant.post('/users', {})).body.data.id
  await eventually('the last entry', async () => (await tenant.get(`/audit-log?target=${last}`)).body.total === 1)
  return tenant
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

let files = 0
async function exported(tenant: Tenant): Promise<string> {
  files += 1
  const file = join(folder, `log-${files}.jsonl`)
  const { exitCode, err } = await halfkey('audit', 'export', '--tenant', tenant.tenantId, '--out', file)
  expect(exitCode, err).toBe(0)
  return file
}

const linesOf = (file: string) => readFileSync(file, 'utf8').trimEnd().split('\n')
const recordsOf = (file: string): AuditRecord[] =>
  linesOf(file)
    .slice(1, -1)
    .map((line) => JSON.parse(line))

/** The entries, without the command, which would add one. */
async function recordsNow({ tenantId }: Tenant): Promise<AuditRecord[]> {
  const lines: string[] = []
  const write = async (line: string) => void lines.push(line)
  await readLog(service.deps, tenantId as Id<'ten'>, write, { begin: () => {}, add: () => {} })
  return lines.slice(1, -1).map((line) => JSON.parse(line))
}

function rewritten(file: string, change: (lines: string[]) => string[]): string {
  files += 1
  const other = join(folder, `log-${files}.jsonl`)
  writeFileSync(other, `${change(linesOf(file)).join('\n')}\n`)
  return other
}

async function idAt(tenant: Tenant, seq: number): Promise<string> {
  const [row] = await service.sql<{ id: string }>('select id from audit_entries where tenant_id = $1 and seq = $2', [
    tenant.tenantId,
    seq,
  ])
  return row?.id ?? 'no entry'
}

describe('audit verify', () => {
  test('finds a log whole and prints where it ends, which a later run takes', async () => {
    const tenant = await newLog()
    const first = await verify(tenant)
    expect([first.exitCode, first.out.length], first.err).toEqual([0, 1])
    const [, entries, seq, hash] = /^(\d+) entries, head (\d+):([0-9a-f]{64})$/.exec(first.out[0] as string) ?? []
    expect(entries).toBe(seq)
    const { body } = await tenant.get('/audit-log?page_size=1')
    expect([String(body.total), body.data[0].hash]).toEqual([seq, hash])
    await tenant.post('/users', {})
    await eventually('one more', async () => (await tenant.get('/audit-log')).body.total > body.total)
    const second = await verify(tenant, '--head', `${seq}:${hash}`)
    expect(second.exitCode, second.err).toBe(0)
    expect(second.out[0]).not.toBe(first.out[0])
    const json = JSON.parse((await verify(tenant, '--json')).out[0] as string)
    expect(json.logs[0]).toMatchObject({ tenantId: tenant.tenantId, signer: expect.stringMatching(/^1220/) })
  })

  test("without a tenant verifies everybody's, and names each whose log does not hold", async () => {
    const [whole, broken] = [await newLog(), await newLog()]
    const all = await halfkey('audit', 'verify')
    expect(all.exitCode, all.err).toBe(0)
    expect(all.out.join('\n')).toMatch(new RegExp(`^${whole.tenantId}: \\d+ entries, head`, 'm'))
    await service.sql('delete from audit_entries where tenant_id = $1 and seq = 3', [broken.tenantId])
    const after = await halfkey('audit', 'verify')
    expect([after.exitCode, after.out]).toEqual([1, []])
    expect(after.err).toContain(`${broken.tenantId}: entry 3 is missing`)
    expect(after.err.split('halfkey:')[1]).not.toContain(whole.tenantId)
    await service.sql('delete from audit_entries where tenant_id = $1', [broken.tenantId])
    await service.sql('delete from audit_heads where tenant_id = $1', [broken.tenantId])
  })

  test.each([
    ['id', "id = 'aud_00000000000000000000000000'"],
    ['at', "at = at + interval '1 millisecond'"],
    ['actor', "actor = 'system'"],
    ['key_id', 'key_id = null'],
    ['action', "action = 'user.updated'"],
    ['target', "target = 'usr_00000000000000000000000000'"],
    ['user_id', 'user_id = null'],
    ['app_id', 'app_id = null'],
    ['event_id', 'event_id = null'],
    ['request_id', "request_id = 'another'"],
    ['address', "address = '203.0.113.9'"],
    ['address erased without its salt', 'address = null'],
    ['address erased', 'address = null, address_salt = null'],
    ['address and its salt', "address = '203.0.113.9', address_salt = decode(repeat('ab', 16), 'hex')"],
    ['address_salt', "address_salt = decode(repeat('ab', 16), 'hex')"],
    ['address_hash', "address_hash = decode(repeat('ab', 32), 'hex')"],
    ['address out of the chain', 'address = null, address_salt = null, address_hash = null'],
    ['previous_hash', "previous_hash = decode(repeat('ab', 32), 'hex')"],
    ['previous_hash taken away', 'previous_hash = null'],
    ['hash', "hash = decode(repeat('ab', 32), 'hex')"],
  ])('names the first entry that was altered: %s', async (_, change) => {
    const tenant = await newLog()
    const alter = (seq: number) =>
      service.sql(`update audit_entries set ${change} where tenant_id = $1 and seq = $2`, [tenant.tenantId, seq])
    for (const seq of [9, 5]) {
      await alter(seq)
      const { exitCode, err } = await verify(tenant)
      expect([exitCode, err]).toEqual([1, expect.stringContaining(`entry ${seq} (${await idAt(tenant, seq)})`)])
      expect(err).toContain('altered')
    }
  })

  test('names an entry whose hash was made anew with it', async () => {
    const tenant = await newLog()
    const records = await recordsNow(tenant)
    const forged = { ...(records[4] as AuditRecord), actor: 'system' }
    const hash = hashEntry(tenant.tenantId, forged)
    await service.sql(
      "update audit_entries set actor = 'system', hash = decode($2, 'hex') where tenant_id = $1 and seq = 5",
      [tenant.tenantId, hash],
    )
    const { exitCode, err } = await verify(tenant)
    expect([exitCode, err]).toEqual([1, expect.stringContaining(`entry 5 (${forged.id}) was altered`)])
  })

  test.each([
    ['the first', 'seq = 1', 'entry 1 is missing'],
    ['one', 'seq = 4', 'entry 4 is missing'],
    ['several', 'seq between 4 and 6', 'entries 4 to 6 are missing'],
    ['the last', 'seq = $2', 'entry $2 is missing'],
    ['the last ones', 'seq > 3', 'entries 4 to $2 are missing'],
    ['all', 'true', 'entries 1 to $2 are missing'],
  ])('names what is missing: %s', async (_, which, told) => {
    const tenant = await newLog()
    const { total } = (await tenant.get('/audit-log')).body
    const fill = (text: string) => text.replaceAll('$2', String(total))
    await service.sql(`delete from audit_entries where tenant_id = $1 and ${fill(which)}`, [tenant.tenantId])
    const { exitCode, err } = await verify(tenant)
    expect([exitCode, err]).toEqual([1, expect.stringContaining(fill(told))])
  })

  test('names what was inserted: before, within, after', async () => {
    const insert = async (tenant: Tenant, seq: string) => {
      const [row] = await service.sql<{ seq: string; id: string }>(
        `insert into audit_entries select (jsonb_populate_record(e, jsonb_build_object('seq', ${seq}, 'id', 'aud_inserted'))).*
         from audit_entries e where tenant_id = $1 and action = 'user.created' order by seq limit 1 returning seq, id`,
        [tenant.tenantId],
      )
      const { exitCode, err } = await verify(tenant)
      expect([exitCode, err]).toEqual([1, expect.stringContaining(`entry ${row?.seq} (aud_inserted) was`)])
      expect(err).toContain('inserted')
    }
    await insert(await newLog(), '0')
    await insert(await newLog(), '-7')
    await insert(await newLog(), '(select max(seq) + 1 from audit_entries where tenant_id = e.tenant_id)')
    const tenant = await newLog()
    await renumber(tenant, 'seq >= 5', 'seq + 1')
    await insert(tenant, '5')
  })

  test('two entries that changed places are noticed', async () => {
    const tenant = await newLog()
    await renumber(tenant, 'seq in (4, 5)', '9 - seq')
    const { exitCode, err } = await verify(tenant)
    expect([exitCode, err]).toEqual([1, expect.stringContaining(`entry 4 (${await idAt(tenant, 4)})`)])
  })

  /** In two steps, so that no two entries have one number in between. */
  async function renumber(tenant: Tenant, which: string, to: string): Promise<void> {
    const { tenantId } = tenant
    await service.sql(`update audit_entries set seq = -(${to}) where tenant_id = $1 and ${which}`, [tenantId])
    await service.sql('update audit_entries set seq = -seq where tenant_id = $1 and seq < 0', [tenantId])
  }

  test('an event that is still kept and was altered is named beside its entry', async () => {
    const tenant = await newLog()
    await service.sql("update events set type = 'user.deleted' where tenant_id = $1 and type = 'user.created'", [
      tenant.tenantId,
    ])
    const { exitCode, err } = await verify(tenant)
    expect([exitCode, err]).toEqual([1, expect.stringMatching(/The event evt_\w+ was altered.*entry \d+ \(aud_/)])
  })

  test('an address that was erased with its user is as it should be; the same without the deletion is not', async () => {
    const tenant = await service.newTenant()
    const person = await signInAs(service, tenant)
    expect((await tenant.delete(`/users/${person.userId}`)).status).toBe(200)
    await eventually('the deletion', async () => (await tenant.get('/audit-log?action=user.deleted')).body.total === 1)
    await eventually('the note', async () => (await tenant.get('/audit-log?action=tenant.created')).body.total === 1)
    const rows = await service.sql<{ address: string | null }>(
      'select address from audit_entries where tenant_id = $1 and user_id = $2',
      [tenant.tenantId, person.userId],
    )
    expect(rows.map((row) => row.address)).toEqual([null, null, null])
    const done = await verify(tenant)
    expect(done.exitCode, done.err).toBe(0)
    const file = await exported(tenant)
    expect(readFileSync(file, 'utf8').split('"addressSalt":null,"addressHash":"').length).toBe(4)
    expect((await halfkey('audit', 'verify', '--file', file)).exitCode).toBe(0)
  })
})

describe('whoever can write to the database and has no key-encryption key', () => {
  /** Writes all entries from `seq` on anew, in a chain that fits, and the head's place with them. */
  async function rewrite(tenant: Tenant, seq: number): Promise<{ seq: number; hash: string }> {
    let previous: AuditRecord | undefined
    for (const record of await recordsNow(tenant)) {
      const forged = { ...record }
      if (record.seq >= seq) {
        forged.actor = 'cli'
        forged.previousHash = previous?.hash ?? null
        forged.hash = hashEntry(tenant.tenantId, forged)
        await service.sql(
          `update audit_entries set actor = 'cli', previous_hash = decode($3, 'hex'), hash = decode($4, 'hex')
           where tenant_id = $1 and seq = $2`,
          [tenant.tenantId, forged.seq, forged.previousHash, forged.hash],
        )
      }
      previous = forged
    }
    const head = previous as AuditRecord
    await service.sql("update audit_heads set hash = decode($2, 'hex') where tenant_id = $1", [
      tenant.tenantId,
      head.hash,
    ])
    return { seq: head.seq, hash: head.hash }
  }

  test('cannot write the chain anew unnoticed', async () => {
    const tenant = await newLog()
    await rewrite(tenant, 4)
    const { exitCode, err } = await verify(tenant)
    expect([exitCode, err]).toEqual([1, expect.stringContaining('signature')])
  })

  test('cannot have the service sign a chain of theirs: it does not go on from one, says so, and goes on once it is back', async () => {
    const tenant = await newLog()
    const [before] = await service.sql<{ hash: Buffer }>('select hash from audit_heads where tenant_id = $1', [
      tenant.tenantId,
    ])
    const { total } = (await tenant.get('/audit-log')).body
    await service.sql("update audit_heads set hash = decode(repeat('ab', 32), 'hex') where tenant_id = $1", [
      tenant.tenantId,
    ])
    const user = await tenant.post('/users', {})
    expect(user.status).toBe(201)
    await eventually('it says so', async () => service.logs().includes(`${tenant.tenantId} cannot continue`))
    expect((await tenant.get('/audit-log')).body.total).toBe(total)
    const others = await newLog()
    expect((await verify(others)).exitCode).toBe(0)
    await service.sql('update audit_heads set hash = $2 where tenant_id = $1', [tenant.tenantId, before?.hash])
    await eventually('it goes on', async () => (await tenant.get('/audit-log')).body.total > total)
    expect((await verify(tenant)).exitCode).toBe(0)
  })

  test('cannot sign by a key of their own that they put in the place of the public one', async () => {
    const tenant = await newLog()
    const { seq, hash } = await rewrite(tenant, 4)
    const { publicKey, privateKey } = generateKeyPairSync('ed25519')
    const signedAt = new Date().toISOString()
    const signature = sign(null, headMessage(tenant.tenantId, { seq, hash, signedAt }), privateKey)
    await service.sql('update audit_heads set signature = $2, signed_at = $3 where tenant_id = $1', [
      tenant.tenantId,
      signature,
      signedAt,
    ])
    const raw = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32)
    await service.sql('update tenants set node_public_key = $2 where id = $1', [tenant.tenantId, raw])
    const { exitCode, err } = await verify(tenant)
    expect([exitCode, err]).toEqual([1, expect.stringContaining('public key')])
  })

  test("cannot put another tenant's sealed key there", async () => {
    const [tenant, other] = [await newLog(), await newLog()]
    await service.sql(
      `update tenants t set node_key_sealed = o.node_key_sealed, node_public_key = o.node_public_key
       from tenants o where t.id = $1 and o.id = $2`,
      [tenant.tenantId, other.tenantId],
    )
    const { exitCode, err } = await verify(tenant)
    expect([exitCode, err]).toEqual([1, expect.stringContaining('cannot be opened')])
  })

  test("cannot show another tenant's head, or an older one without a head that was noted later telling", async () => {
    const [tenant, other] = [await newLog(), await newLog()]
    const old = (
      await service.sql<{ seq: number }>('select * from audit_heads where tenant_id = $1', [tenant.tenantId])
    )[0]
    await tenant.post('/users', {})
    await eventually('one more', async () => (await tenant.get('/audit-log')).body.total > Number(old?.seq))
    const noted = ((await verify(tenant)).out[0] as string).split(' ').at(-1) as string
    await service.sql('delete from audit_entries where tenant_id = $1 and seq > $2', [tenant.tenantId, old?.seq])
    await service.sql(
      `update audit_heads h set seq = o.seq, hash = o.hash, signature = o.signature, signed_at = o.signed_at
       from jsonb_populate_record(null::audit_heads, $2) o where h.tenant_id = $1`,
      [tenant.tenantId, JSON.stringify(await headAs(old))],
    )
    // The event is still kept, and shows it.
    expect((await verify(tenant)).err).toMatch(/The event evt_\w+ \(user.created\) has no entry/)
    await service.sql(
      'delete from events e where tenant_id = $1 and not exists (select from audit_entries a where a.event_id = e.id)',
      [tenant.tenantId],
    )
    expect((await verify(tenant)).exitCode).toBe(0)
    const cut = await verify(tenant, '--head', noted)
    expect([cut.exitCode, cut.err]).toEqual([1, expect.stringContaining(`entry ${noted.split(':')[0]} is missing`)])
    await service.sql(
      `update audit_heads h set seq = o.seq, hash = o.hash, signature = o.signature, signed_at = o.signed_at
       from audit_heads o where h.tenant_id = $1 and o.tenant_id = $2`,
      [tenant.tenantId, other.tenantId],
    )
    expect((await verify(tenant)).err).toContain('signature')
  })

  /** A row as JSON that PostgreSQL reads back: bytes as it writes them. */
  async function headAs(row: object | undefined): Promise<object> {
    return Object.fromEntries(
      Object.entries(row ?? {}).map(([name, value]) => [
        name,
        Buffer.isBuffer(value) ? `\\x${value.toString('hex')}` : value,
      ]),
    )
  }

  test('cannot empty a log, and have it begun anew', async () => {
    const tenant = await newLog()
    const { tenantId } = tenant
    for (const table of ['audit_entries', 'audit_heads'])
      await service.sql(`delete from ${table} where tenant_id = $1`, [tenantId])
    expect((await verify(tenant)).err).toContain('no entries and no signed head')
    await tenant.post('/users', {})
    const told = `the audit log of ${tenantId} cannot continue: its head is gone`
    await eventually('it is told of', async () => service.logs().includes(told))
    expect((await tenant.get('/audit-log')).body.total).toBe(0)
    // A file of it says the same, and without the entries a row for a head does not help.
    expect((await halfkey('audit', 'verify', '--file', await exported(tenant))).err).toContain('no signed head')
    await service.sql("insert into audit_heads (tenant_id, seq, hash) values ($1, 0, '')", [tenantId])
    expect((await verify(tenant)).err).toContain('no entries and no signed head')
    await service.sql('delete from feed_cursors where tenant_id = $1', [tenantId])
    await eventually('all events are recorded again', async () => (await tenant.get('/audit-log')).body.total > 5)
  })

  test('cannot remove an entry that an event tells of, nor record one twice', async () => {
    const tenant = await newLog()
    const { tenantId } = tenant
    const before = await service.sql<{ seq: number }>('select seq from feed_cursors where tenant_id = $1', [tenantId])
    expect(before.length).toBeGreaterThan(0)
    await service.sql("update feed_cursors set seq = 0 where tenant_id = $1 and follower = 'audit'", [tenantId])
    const { total } = (await tenant.get('/audit-log')).body
    await eventually('they are recorded again', async () => (await tenant.get('/audit-log')).body.total > total)
    await eventually('it is found', async () => /has several entries/.test((await verify(tenant)).err))
  })

  test('cannot change what stood there when a head was noted', async () => {
    const tenant = await newLog()
    const { exitCode, err } = await verify(tenant, '--head', `4:${'ab'.repeat(32)}`)
    expect([exitCode, err]).toEqual([1, expect.stringContaining(`entry 4 (${await idAt(tenant, 4)})`)])
  })
})

describe('an exported log', () => {
  const check = (file: string, ...more: string[]) => halfkey('audit', 'verify', '--file', file, ...more)

  test('is found whole on a machine without the database, the configuration or any key', async () => {
    const tenant = await newLog()
    // Before the export, which has an entry, too.
    const head = ((await verify(tenant)).out[0] as string).split(' ').at(-1) as string
    const file = await exported(tenant)
    expect(statSync(file).mode & 0o077).toBe(0)
    const process = new ServiceProcess({
      cwd: folder,
      env: { DATABASE_URL: 'postgres://nobody:x@127.0.0.1:1/none', HALFKEY_ENV: 'production' },
      args: ['audit', 'verify', '--file', file],
    })
    expect(await process.exited, process.stderr).toEqual({ code: 0, signal: null })
    expect(process.stdout).toMatch(new RegExp(`^\\d+ entries, head ${head}$`, 'm'))
    expect(process.stdout).toContain(tenant.tenantId)
    const { partyId } = (await tenant.get('/users?page_size=1')).body.data[0]
    expect((await check(file, '--signer', partyId, '--head', head)).exitCode).toBe(0)
  })

  test('says whose it is first, holds every entry in order, and ends with the signed head', async () => {
    const tenant = await newLog()
    const file = await exported(tenant)
    const lines = linesOf(file).map((line) => JSON.parse(line))
    expect(lines[0]).toEqual({
      format: 'halfkey-audit/2',
      tenantId: tenant.tenantId,
      nodePublicKey: expect.stringMatching(/^[0-9a-f]{64}$/),
      proofKey: {
        publicKey: expect.stringMatching(/^[0-9a-f]{64}$/),
        delegation: expect.stringMatching(/^[0-9a-f]{128}$/),
      },
      exportedAt: expect.stringMatching(/Z$/),
    })
    const { body } = await tenant.get('/audit-log?page_size=100')
    const shown = lines.slice(1, -1).map(({ addressSalt: _, addressHash: __, ...entry }) => entry)
    expect(shown.reverse()).toEqual(body.data)
    expect(lines.at(-1).head).toMatchObject({ seq: body.total, hash: body.data[0].hash })
    const printed = await halfkey('audit', 'export', '--tenant', tenant.tenantId)
    expect(printed.out.slice(1)).toEqual(linesOf(file).slice(1))
  })

  test('can be checked by anybody with nothing but SHA-256 and the documentation', async () => {
    const file = await exported(await newLog())
    const [header, ...records] = linesOf(file).slice(0, -1)
    const { tenantId } = JSON.parse(header as string)
    let previousHash: string | null = null
    for (const line of records) {
      const { address, addressSalt, hash, ...rest } = JSON.parse(line)
      expect(rest.addressHash).toBe(address === null ? null : sha256(addressSalt + address))
      const chained = { ...rest, format: 'halfkey-audit-entry/1', tenantId }
      const canonical = JSON.stringify(chained, Object.keys(chained).sort())
      expect(rest.previousHash).toBe(previousHash)
      expect(sha256(canonical)).toBe(hash)
      previousHash = hash
    }
  })

  test('with a line changed, taken out, put in, doubled or cut is refused, and the first such place is named', async () => {
    const file = await exported(await newLog())
    const records = recordsOf(file)
    const nameAt = (seq: number) => `entry ${seq} (${records[seq - 1]?.id})`
    const swap = (from: string, to: string) => (lines: string[]) =>
      lines.map((line, at) => (at === 5 ? line.replace(from, to) : line))
    const damages: [string, (lines: string[]) => string[], string][] = [
      ['a value', swap('"actor":"', '"actor":"x'), nameAt(5)],
      ['a new field', swap('{', '{"note":"x",'), nameAt(4)],
      ['a name twice', swap('{', '{"actor":"system",'), nameAt(4)],
      ['not JSON', swap('{', ''), nameAt(4)],
      ['a number as text', swap('"seq":5', '"seq":"5"'), nameAt(4)],
      ['taken out', (lines) => lines.toSpliced(5, 1), 'entry 5 is missing'],
      ['doubled', (lines) => lines.toSpliced(5, 0, lines[5] as string), `${nameAt(5)} was inserted`],
      ['no head', (lines) => lines.slice(0, -1), 'without the signed head'],
      ['cut', (lines) => lines.slice(0, 6), `after ${nameAt(5)}`],
      ['cut, with the head', (lines) => [...lines.slice(0, 6), lines.at(-1) as string], 'are missing'],
      ['no header', (lines) => lines.slice(1), 'Line 1'],
      ['lines after the end', (lines) => [...lines, lines[1] as string], 'after the log'],
      ['an endless line', () => ['x'.repeat(300_000)], 'Line 1'],
      ['nothing', () => [], 'Line 1'],
      ['no head at all', (lines) => [...lines.slice(0, -1), '{"head":null}'], 'no signed head'],
    ]
    for (const [what, damage, told] of damages) {
      const { exitCode, err } = await check(rewritten(file, damage))
      expect([exitCode, err], what).toEqual([1, expect.stringContaining(told)])
    }
    const empty = join(folder, 'empty.jsonl')
    writeFileSync(empty, '')
    expect((await check(empty)).err).toContain('empty')
  })

  test('that somebody wrote anew and signed by a key of their own shows by the signer, and by a noted head', async () => {
    const tenant = await newLog()
    const file = await exported(tenant)
    const { publicKey, privateKey } = generateKeyPairSync('ed25519')
    const raw = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32)
    const forged = rewritten(file, (lines) => {
      // As releases before wrote it: one key for everything.
      const { tenantId, exportedAt } = JSON.parse(lines[0] as string)
      const header = { format: 'halfkey-audit/1', tenantId, publicKey: raw.toString('hex'), exportedAt }
      let previousHash: string | null = null
      const records = recordsOf(file).map((record) => {
        const one: AuditRecord = { ...record, actor: 'cli', previousHash }
        one.hash = hashEntry(tenant.tenantId, one)
        previousHash = one.hash
        return one
      })
      const { seq, hash } = records.at(-1) as AuditRecord
      const head = { seq, hash, signedAt: new Date().toISOString() }
      const signature = sign(null, formerHeadMessage(tenant.tenantId, head), privateKey).toString('hex')
      return [header, ...records, { head: { ...head, signature } }].map((line) => JSON.stringify(line))
    })
    const accepted = await check(forged)
    expect(accepted.exitCode, accepted.err).toBe(0)
    expect(accepted.out.join('\n')).toContain(keyFingerprint(raw))
    const { partyId } = (await tenant.get('/users?page_size=1')).body.data[0]
    const bySigner = await check(forged, '--signer', partyId)
    expect([bySigner.exitCode, bySigner.err]).toEqual([1, expect.stringContaining('signed by')])
    const record = recordsOf(file)[4] as AuditRecord
    const byHead = await check(forged, '--head', `5:${record.hash}`)
    expect([byHead.exitCode, byHead.err]).toEqual([1, expect.stringContaining(`entry 5 (${record.id})`)])
  })

  test('is never written over another file, and leaves nothing behind when it fails', async () => {
    const tenant = await newLog()
    const file = await exported(tenant)
    const before = readFileSync(file)
    const again = await halfkey('audit', 'export', '--tenant', tenant.tenantId, '--out', file)
    expect([again.exitCode, again.err]).toEqual([1, expect.stringContaining('already exists')])
    expect(readFileSync(file).equals(before)).toBe(true)
    const nowhere = join(folder, 'none', 'log.jsonl')
    const lost = await halfkey('audit', 'export', '--tenant', tenant.tenantId, '--out', nowhere)
    expect([lost.exitCode, lost.err]).toEqual([1, expect.stringContaining('The folder of')])
  })
})

test.each([
  [['audit', 'export'], '--tenant'],
  [['audit', 'export', '--tenant', ' '], '--tenant'],
  [['audit', 'verify', '--head', '1'], 'SEQ:HASH'],
  [['audit', 'verify', '--head', `1:${'ab'.repeat(32)}`], '--tenant'],
  [['audit', 'verify', '--tenant', 'x', '--file', 'y'], 'either'],
  [['audit', 'verify', '--signer', `1220${'ab'.repeat(32)}`], '--file'],
  [['audit', 'verify', '--file', 'y', '--signer', 'ab'], '1220'],
  [['audit', 'verify', 'x'], 'Usage'],
])('%j is wrong usage and is told how to go on', async (args, told) => {
  const { exitCode, out, err } = await halfkey(...args)
  expect([exitCode, out]).toEqual([2, []])
  expect(err).toContain(told)
})

test('what is not there is told of', async () => {
  const tenant = await halfkey('audit', 'verify', '--tenant', 'ten_nonsense')
  expect([tenant.exitCode, tenant.err]).toEqual([1, expect.stringContaining('There is no tenant ten_nonsense')])
  const file = await halfkey('audit', 'verify', '--file', join(folder, 'none'))
  expect([file.exitCode, file.err]).toEqual([1, expect.stringContaining('There is no file')])
})
