import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { eventually, type Service, type Tenant } from '../../../test/harness/harness.ts'
import { headMessage } from '../../insight/audit/chain.ts'
import type { Id } from '../../platform/ids.ts'
import { proofSigner } from '../../platform/security/proof-keys.ts'
import { type Installation, isReady, marksIn, newInstallation, readyz } from './restore.fixture.ts'

let installation: Installation
let service: Service
let tenant: Tenant
beforeAll(async () => {
  installation = await newInstallation()
  service = await installation.start()
  tenant = await service.newTenant()
  for (let user = 0; user < 5; user += 1) await tenant.post('/users', {})
  await eventually('the log in the floor', async () => {
    const [head] = await service.sql<{ seq: number }>('select seq from audit_heads where tenant_id = $1', [
      tenant.tenantId,
    ])
    const seq = Number(head?.seq ?? 0)
    // All of them: the tenant, its app, its key and the users. What came later would not be in the tables that are kept.
    return seq === 8 && marksIn(installation.floor).chains[`audit ${tenant.tenantId}`]?.seq === seq
  })
  await service.sql('create table kept_entries as table audit_entries')
  await service.sql('create table kept_heads as table audit_heads')
})
afterAll(async () => {
  await service.stop()
  await installation.remove()
})

/** Signs the head that the table has now, as somebody can who also has the key file. */
async function signHead(): Promise<void> {
  const { tenantId } = tenant
  const [head] = await service.sql<{ seq: string; hash: string }>(
    "select seq, encode(hash, 'hex') as hash from audit_heads where tenant_id = $1",
    [tenantId],
  )
  const signer = await proofSigner(service.deps.db, service.deps, tenantId as Id<'ten'>)
  const signedAt = new Date().toISOString()
  const message = headMessage(tenantId, { seq: Number(head?.seq), hash: head?.hash as string, signedAt })
  await service.sql('update audit_heads set signature = $2, signed_at = $3 where tenant_id = $1', [
    tenantId,
    signer.sign(message),
    signedAt,
  ])
}

const WAYS: [name: string, statements: string[]][] = [
  ['is emptied', ['delete from audit_entries where tenant_id = $1', 'delete from audit_heads where tenant_id = $1']],
  ['loses its head', ['delete from audit_heads where tenant_id = $1']],
  [
    'loses its tail, with a head that the right key signs',
    [
      'delete from audit_entries e using audit_heads h where e.tenant_id = $1 and h.tenant_id = $1 and e.seq > h.seq - 2',
      'update audit_heads h set seq = h.seq - 2, hash = (select hash from audit_entries e where e.tenant_id = $1 and e.seq = h.seq - 2) where h.tenant_id = $1',
    ],
  ],
  [
    'is rewritten, with a head that the right key signs',
    [
      "update audit_entries set actor = 'cli', hash = sha256(hash) where tenant_id = $1",
      'update audit_heads set hash = sha256(hash) where tenant_id = $1',
    ],
  ],
  [
    'is rewritten and continued, with a head that the right key signs',
    [
      "update audit_entries set actor = 'cli', hash = sha256(hash) where tenant_id = $1",
      `insert into audit_entries select (jsonb_populate_record(e, jsonb_build_object('seq', e.seq + 1, 'id', e.id || 'x', 'event_id', null))).*
       from audit_entries e join audit_heads h using (tenant_id, seq) where e.tenant_id = $1`,
      'update audit_heads set seq = seq + 1, hash = sha256(hash) where tenant_id = $1',
    ],
  ],
]

test.for(WAYS)('an audit log that %s closes the service until it is whole again', async ([, statements]) => {
  expect((await tenant.get('/users')).status).toBe(200)
  for (const statement of statements) await service.sql(statement, [tenant.tenantId])
  await signHead().catch(() => {})
  await eventually('the refusal', async () => (await readyz(service)).status === 503)
  expectError(await tenant.get('/users'), 500, 'database_behind_floor')
  expect(service.logs()).toContain(`the audit chain of ${tenant.tenantId}`)
  for (const table of ['entries', 'heads']) {
    await service.sql(`delete from audit_${table}`)
    await service.sql(`insert into audit_${table} select * from kept_${table}`)
  }
  await isReady(service)
})
