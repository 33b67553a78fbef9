import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, type Service, startService, type Tenant } from '../../../../../test/harness/harness.ts'
import { type AuditRecord, formerHeadMessage, hashEntry, headMessage } from '../../../../insight/audit/chain.ts'
import { readLog } from '../../../../insight/audit/verify.ts'
import type { Id } from '../../../../platform/ids.ts'
import { freshNodeSigner } from '../../../../platform/security/node-keys.ts'
import { proofSigner } from '../../../../platform/security/proof-keys.ts'
import { runCli } from '../../cli.ts'

let service: Service
let folder: string
let files = 0
beforeAll(async () => {
  service = await startService()
  folder = mkdtempSync(join(tmpdir(), 'halfkey-checkpoint-'))
})
afterAll(async () => {
  rmSync(folder, { recursive: true })
  await service.stop()
})

async function halfkey(...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []]
  const exitCode = await runCli(args, {
    openDeps: async () => ({ deps: service.deps, close: async () => {} }),
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
  })
  return { exitCode, out: out.join('\n'), err: err.join('\n') }
}

function newFile(): string {
  files += 1
  return join(folder, `file-${files}`)
}

const idOf = (tenant: Tenant) => tenant.tenantId as Id<'ten'>

function fileOf(text: string): string {
  const file = newFile()
  writeFileSync(file, text)
  return file
}

/** A tenant whose log has some entries. */
async function newLog(): Promise<Tenant> {
  const tenant = await service.newTenant()
  // The tenant, its app and its key: the first one comes by another way than those of events.
  await eventually('the first entries', async () => (await tenant.get('/audit-log')).body.total === 3)
  await grow(tenant)
  return tenant
}

/** Adds some entries to a log. */
async function grow(tenant: Tenant): Promise<void> {
  for (let n = 0; n < 3; n += 1) await tenant.post('/users', {})
  const last = (await tenant.post('/users', {})).body.data.id
  await eventually('the last entry', async () => (await tenant.get(`/audit-log?target=${last}`)).body.total === 1)
}

async function checkpoint(tenant: Tenant): Promise<string> {
  const file = newFile()
  const { exitCode, err } = await halfkey('audit', 'checkpoint', '--tenant', tenant.tenantId, '--out', file)
  expect(exitCode, err).toBe(0)
  return file
}

const verify = (tenant: Tenant, file: string, ...more: string[]) =>
  halfkey('audit', 'verify', '--tenant', tenant.tenantId, '--checkpoint', file, ...more)

async function exported(tenant: Tenant): Promise<string> {
  const file = newFile()
  const { exitCode, err } = await halfkey('audit', 'export', '--tenant', tenant.tenantId, '--out', file)
  expect(exitCode, err).toBe(0)
  return file
}

async function recordsOf(tenant: Tenant): Promise<AuditRecord[]> {
  const lines: string[] = []
  await readLog(service.deps, idOf(tenant), async (line) => void lines.push(line), { begin: () => {}, add: () => {} })
  return lines.slice(1, -1).map((line) => JSON.parse(line))
}

/** Signs another head, as somebody can who also has the key file. */
async function signHead(tenant: Tenant, { seq, hash }: { seq: number; hash: string }): Promise<void> {
  const signer = await proofSigner(service.deps.db, service.deps, idOf(tenant))
  const head = { seq, hash, signedAt: new Date().toISOString() }
  await service.sql('update audit_heads set seq = $2, hash = $3, signature = $4, signed_at = $5 where tenant_id = $1', [
    tenant.tenantId,
    seq,
    Buffer.from(hash, 'hex'),
    signer.sign(headMessage(tenant.tenantId, head)),
    head.signedAt,
  ])
}

/** Removes the entries from a number on, and what tells of them. */
async function cutFrom(tenant: Tenant, seq: number): Promise<void> {
  await service.sql('delete from audit_entries where tenant_id = $1 and seq >= $2', [tenant.tenantId, seq])
  await service.sql(
    'delete from events e where tenant_id = $1 and not exists (select from audit_entries a where a.tenant_id = e.tenant_id and a.event_id = e.id)',
    [tenant.tenantId],
  )
}

describe('a checkpoint', () => {
  test('is of every tenant, and a log that has only grown since is whole', async () => {
    const [tenant, other] = [await newLog(), await newLog()]
    const all = await halfkey('audit', 'checkpoint')
    expect(all.exitCode, all.err).toBe(0)
    const lines = all.out.split('\n').map((line) => JSON.parse(line))
    expect(lines.map(({ tenantId }) => tenantId)).toEqual(expect.arrayContaining([tenant.tenantId, other.tenantId]))
    expect(all.out).not.toContain('127.0.0.1')
    const file = fileOf(`${all.out}\n`)
    await grow(tenant)
    const later = await halfkey('audit', 'verify', '--checkpoint', file)
    expect(later.exitCode, later.err).toBe(0)
    // Appended to one file, every one of them counts.
    const both = fileOf(readFileSync(file, 'utf8') + readFileSync(await checkpoint(tenant), 'utf8'))
    expect((await verify(tenant, both)).exitCode).toBe(0)
  })

  test('is held against an export without the database', async () => {
    const tenant = await newLog()
    const file = await checkpoint(tenant)
    const log = await exported(tenant)
    const held = await halfkey('audit', 'verify', '--file', log, '--checkpoint', file)
    expect(held.exitCode, held.err).toBe(0)
    const of = await halfkey('audit', 'verify', '--file', log, '--checkpoint', await checkpoint(await newLog()))
    expect([of.exitCode, of.err]).toEqual([1, expect.stringContaining('has no checkpoint of')])
  })

  test('finds a tail that was cut together with its signed head', async () => {
    const tenant = await newLog()
    const records = await recordsOf(tenant)
    const file = await checkpoint(tenant)
    const kept = records.at(-3) as AuditRecord
    await cutFrom(tenant, kept.seq + 1)
    await signHead(tenant, kept)
    expect((await halfkey('audit', 'verify', '--tenant', tenant.tenantId)).exitCode).toBe(0)
    const found = await verify(tenant, file)
    expect([found.exitCode, found.err]).toEqual([
      1,
      expect.stringContaining(`entries ${kept.seq + 1} to ${records.length} are missing`),
    ])
    const log = await exported(tenant)
    expect((await halfkey('audit', 'verify', '--file', log, '--checkpoint', file)).err).toContain('are missing')
  })

  test('finds entries that were rewritten, with a chain and a head that somebody with the key computed anew', async () => {
    const tenant = await newLog()
    const records = await recordsOf(tenant)
    const file = await checkpoint(tenant)
    let previousHash: string | null = null
    for (const record of records) {
      const forged: AuditRecord = { ...record, actor: record.seq < 3 ? record.actor : 'cli', previousHash }
      forged.hash = hashEntry(tenant.tenantId, forged)
      previousHash = forged.hash
      await service.sql(
        `update audit_entries set actor = $3, previous_hash = decode($4, 'hex'), hash = decode($5, 'hex')
         where tenant_id = $1 and seq = $2`,
        [tenant.tenantId, forged.seq, forged.actor, forged.previousHash, forged.hash],
      )
    }
    const last = records.at(-1) as AuditRecord
    await signHead(tenant, { seq: last.seq, hash: previousHash as unknown as string })
    const found = await verify(tenant, file)
    expect(found.exitCode).toBe(1)
    expect(found.err).toMatch(new RegExp(`entry ${last.seq} .* was altered: its hash was ${last.hash}`))
  })

  test('finds an emptied log, a removed head, and a tenant that is gone', async () => {
    const tenant = await newLog()
    const file = await checkpoint(tenant)
    await service.sql('delete from audit_heads where tenant_id = $1', [tenant.tenantId])
    expect((await verify(tenant, file)).err).toContain('no signed head confirms it')
    const refused = await halfkey('audit', 'checkpoint', '--tenant', tenant.tenantId)
    expect([refused.exitCode, refused.err]).toEqual([1, expect.stringContaining('it was removed')])
    await service.sql('delete from audit_entries where tenant_id = $1', [tenant.tenantId])
    expect((await verify(tenant, file)).exitCode).toBe(1)
    // As if the tenant had just been made: then a log may have no entry yet.
    await service.sql('delete from feed_cursors where tenant_id = $1', [tenant.tenantId])
    await service.sql('update tenants set created_at = now() where id = $1', [tenant.tenantId])
    expect((await verify(tenant, file)).err).toMatch(/entries 1 to \d+ are missing/)
    const [, id] = /"tenantId":"(ten_\w+)"/.exec(readFileSync(file, 'utf8')) ?? []
    const database = await startService()
    const elsewhere = await (async () => {
      const [out, err]: [string[], string[]] = [[], []]
      const exitCode = await runCli(['audit', 'verify', '--checkpoint', file], {
        openDeps: async () => ({ deps: database.deps, close: async () => {} }),
        out: (line) => void out.push(line),
        err: (line) => void err.push(line),
      })
      return [exitCode, err.join('\n')]
    })()
    await database.stop()
    expect(elsewhere).toEqual([1, expect.stringContaining(`${id}: The database has no such tenant`)])
  })

  test('that was altered, or is of another key, is refused by itself', async () => {
    const [tenant, other] = [await newLog(), await newLog()]
    const [mine, theirs] = [await checkpoint(tenant), await checkpoint(other)].map((file) =>
      JSON.parse(readFileSync(file, 'utf8')),
    )
    const damages: [string, object, string][] = [
      ['an earlier place', { ...mine, seq: mine.seq - 1 }, 'was altered: its signature is not valid'],
      ['another hash', { ...mine, hash: theirs.hash }, 'was altered: its signature is not valid'],
      ['another tenant', { ...mine, tenantId: other.tenantId }, 'was altered: its signature is not valid'],
      [
        'another key',
        { ...mine, proofKey: theirs.proofKey, signature: theirs.signature },
        'was altered: its signature is not valid',
      ],
      ['one thing more', { ...mine, more: 1 }, 'is not a checkpoint'],
      ['nothing', {}, 'is not a checkpoint'],
    ]
    for (const [what, damaged, why] of damages) {
      const found = await verify(tenant, fileOf(`${JSON.stringify(damaged)}\n`))
      expect([what, found.exitCode, found.err]).toEqual([
        what,
        1,
        expect.stringContaining(`Line 1 of the checkpoint file ${why}`),
      ])
    }
    for (const [text, why] of [
      ['', 'is empty'],
      ['x'.repeat(10_000), 'Line 1'],
    ] as const)
      expect((await verify(tenant, fileOf(text))).err).toContain(why)
    expect((await verify(tenant, join(folder, 'none'))).err).toContain('There is no file')
    expect((await verify(other, fileOf(`${JSON.stringify(mine)}\n`))).exitCode).toBe(2)
  })
})

describe('heads', () => {
  test("are signed by the proof key, and not by the node's", async () => {
    const tenant = await newLog()
    const [header, ...rest] = readFileSync(await exported(tenant), 'utf8')
      .trimEnd()
      .split('\n')
    const { head } = JSON.parse(rest.at(-1) as string)
    const { publicKey } = await proofSigner(service.deps.db, service.deps, idOf(tenant))
    expect(JSON.parse(header as string)).toMatchObject({
      format: 'halfkey-audit/2',
      proofKey: { publicKey: publicKey.toString('hex') },
    })
    const node = await freshNodeSigner(service.deps.db, service.deps.keys, idOf(tenant))
    const { seq, hash } = head
    const unsigned = { seq, hash, signedAt: head.signedAt }
    const by = async (signature: Buffer) => {
      await service.sql('update audit_heads set signature = $2 where tenant_id = $1', [tenant.tenantId, signature])
      return (await halfkey('audit', 'verify', '--tenant', tenant.tenantId)).exitCode
    }
    // The node's key counts for heads of the earlier form alone, the proof key for the present form alone.
    expect(await by(node.sign(headMessage(tenant.tenantId, unsigned)))).toBe(1)
    const proof = await proofSigner(service.deps.db, service.deps, idOf(tenant))
    expect(await by(proof.sign(formerHeadMessage(tenant.tenantId, unsigned)))).toBe(1)
    expect(await by(node.sign(formerHeadMessage(tenant.tenantId, unsigned)))).toBe(0)
    // A log goes on from a head of an earlier release, and from then on its heads are of the present form.
    await grow(tenant)
    expect((await halfkey('audit', 'verify', '--tenant', tenant.tenantId)).exitCode).toBe(0)
  })

  test('of an export name a proof key that the node named, or the export is refused', async () => {
    const [tenant, other] = [await newLog(), await newLog()]
    const [mine, theirs] = [await exported(tenant), await exported(other)].map((file) => readFileSync(file, 'utf8'))
    const [header = '', ...rest] = (mine as string).split('\n')
    const { proofKey } = JSON.parse((theirs as string).split('\n')[0] as string)
    const file = fileOf([JSON.stringify({ ...JSON.parse(header), proofKey }), ...rest].join('\n'))
    const found = await halfkey('audit', 'verify', '--file', file)
    expect([found.exitCode, found.err]).toEqual([1, expect.stringContaining('is not named by')])
  })
})
