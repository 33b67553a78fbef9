import { describe, expect, test } from 'vitest'
import { note } from '../stage.fixture.ts'
import { type Scene, useLedgers } from './ledger-proof.fixture.ts'

const { sqlOf, headOf, chained, begun, verify, faults } = useLedgers()

type Tampering = [what: string, tamper: (scene: Scene) => Promise<unknown>, names: RegExp, offline?: RegExp | null]

const BY_TABLES: Tampering[] = [
  [
    'an amount',
    (s) =>
      sqlOf(
        s,
        `update ledger_contracts set arguments = jsonb_set(arguments::jsonb, '{amount}', '"1000000"')::json where tenant_id = $1 and contract_id = $2`,
        [s.active],
      ),
    /contract 01\w+ was altered: the update at offset \d+ made another one/,
  ],
  [
    'a used contract that is active again',
    (s) =>
      sqlOf(s, 'update ledger_contracts set archived_offset = null where tenant_id = $1 and contract_id = $2', [
        s.first,
      ]),
    /contract 01\w+ was altered: it is active, but by the updates it is archived at offset/,
  ],
  [
    'an active contract that is archived',
    (s) =>
      sqlOf(s, 'update ledger_contracts set archived_offset = 1 where tenant_id = $1 and contract_id = $2', [s.active]),
    /it is archived at offset 1, but by the updates it is active/,
  ],
  [
    'a copied contract',
    (s) =>
      sqlOf(
        s,
        `insert into ledger_contracts select tenant_id, '01' || repeat('a', 64), template_id, arguments, signatories, observers, created_offset, null, seed, index from ledger_contracts where tenant_id = $1 and contract_id = $2`,
        [s.active],
      ),
    /contract 01a+ was inserted: no update created it/,
  ],
  [
    'a removed contract',
    (s) => sqlOf(s, 'delete from ledger_contracts where tenant_id = $1 and contract_id = $2', [s.active]),
    /contract 01\w+ is missing/,
  ],
  [
    'a removed stake',
    (s) => sqlOf(s, 'delete from ledger_stakes where tenant_id = $1 and contract_id = $2', [s.active]),
    /the stake of \S+ in contract 01\w+ is missing/,
  ],
  [
    'an inserted stake',
    (s) =>
      sqlOf(
        s,
        `insert into ledger_stakes select tenant_id, 'mallory::1220', template_id, created_offset, contract_id from ledger_stakes where tenant_id = $1 and contract_id = $2 limit 1`,
        [s.active],
      ),
    /the stake of mallory::1220 in contract 01\w+ was inserted/,
  ],
]

const BY_UPDATES: Tampering[] = [
  [
    'bytes',
    (s) =>
      sqlOf(
        s,
        `update ledger_updates set prepared = convert_to(replace(convert_from(prepared, 'UTF8'), '"7"', '"9"'), 'UTF8') where tenant_id = $1 and update_id = $2`,
        [`1220${s.last.payload.toString('hex')}`],
      ),
    /update 1220\w+… \(offset \d+\) was altered: its id is not the digest/,
  ],
  [
    'bytes that are not canonical',
    (s) =>
      sqlOf(s, `update ledger_updates set prepared = prepared || ' '::bytea where tenant_id = $1 and update_id = $2`, [
        `1220${s.last.payload.toString('hex')}`,
      ]),
    /was altered: its bytes are no transaction/,
  ],
  [
    'a signature',
    (s) =>
      sqlOf(
        s,
        `update ledger_updates set signatures = replace(signatures::text, substring(signatures::text from '"signature": ?"(.{8})'), '00000000')::json where tenant_id = $1 and update_id = $2`,
        [`1220${s.last.payload.toString('hex')}`],
      ),
    /was altered: no valid signature/,
  ],
  [
    'no signatures',
    (s) =>
      sqlOf(s, `update ledger_updates set signatures = '[]' where tenant_id = $1 and update_id = $2`, [
        `1220${s.last.payload.toString('hex')}`,
      ]),
    /was altered: no valid signature/,
  ],
  [
    'another command',
    (s) =>
      sqlOf(s, `update ledger_updates set command_id = 'x' where tenant_id = $1 and update_id = $2`, [
        `1220${s.last.payload.toString('hex')}`,
      ]),
    /its bytes are of another tenant, party or command/,
  ],
  [
    'a removed update in the middle',
    (s) =>
      sqlOf(
        s,
        'delete from ledger_updates where tenant_id = $1 and "offset" = (select created_offset from ledger_contracts where tenant_id = $1 and contract_id = $2)',
        [s.first],
      ),
    /is not possible after the updates before it/,
  ],
  [
    'a moved update',
    (s) =>
      sqlOf(s, 'update ledger_updates set "offset" = "offset" + 100000 where tenant_id = $1 and update_id = $2', [
        `1220${s.last.payload.toString('hex')}`,
      ]),
    /was altered: its offset was \d+ when it was chained/,
  ],
]

const cut = async (s: Scene, chain: boolean) => {
  const id = [`1220${s.last.payload.toString('hex')}`]
  await sqlOf(s, 'delete from ledger_stakes where tenant_id = $1 and contract_id = $2', [s.active])
  await sqlOf(s, 'delete from ledger_contracts where tenant_id = $1 and contract_id = $2', [s.active])
  await sqlOf(s, 'delete from ledger_updates where tenant_id = $1 and update_id = $2', id)
  if (chain) await sqlOf(s, 'delete from ledger_chain where tenant_id = $1 and update_id = $2', id)
}
const LEDGER = ['ledger_updates', 'ledger_contracts', 'ledger_stakes', 'ledger_chain']
const empty = async (s: Scene, tables: readonly string[]) => {
  for (const table of tables) await sqlOf(s, `delete from ${table} where tenant_id = $1`)
}

const BY_CHAIN: Tampering[] = [
  [
    'a tail that was cut',
    (s) => cut(s, false),
    /update 1220\w+… \(offset \d+\) is missing: entry 10 of the chain names it/,
  ],
  [
    'a tail that was cut with its entry',
    (s) => cut(s, true),
    /entry 10 of the chain is missing: the signed head counts 10/,
  ],
  ['all tables emptied', (s) => empty(s, LEDGER), /entries 1 to 10 of the chain are missing/],
  [
    'all tables and the head emptied',
    (s) => empty(s, [...LEDGER, 'ledger_heads']),
    /No signed head confirms the 0 updates/,
    null,
  ],
  ['no head', (s) => empty(s, ['ledger_heads']), /No signed head confirms the 10 updates/],
  ['no chain', (s) => empty(s, ['ledger_chain']), /entries 1 to 10 of the chain are missing/],
  [
    'a removed entry',
    (s) => sqlOf(s, 'delete from ledger_chain where tenant_id = $1 and seq = 3'),
    /entry 3 of the chain is missing/,
  ],
  [
    'an altered entry',
    (s) => sqlOf(s, 'update ledger_chain set hash = sha256(hash) where tenant_id = $1 and seq = 3'),
    /Entry 3 of the chain was altered/,
  ],
  [
    'an altered head',
    (s) => sqlOf(s, 'update ledger_heads set signed_at = now() where tenant_id = $1'),
    /its signature is not from the tenant's proof key/,
  ],
  [
    'a head of another tenant',
    async (s) => {
      const other = await begun()
      await sqlOf(
        s,
        `update ledger_heads h set hash = o.hash, signature = o.signature, signed_at = o.signed_at from ledger_heads o where h.tenant_id = $1 and o.tenant_id = $2`,
        [other.stage.tenantId],
      )
    },
    /its signature is not from the tenant's proof key/,
  ],
]

describe('a ledger that was tampered with in the database', () => {
  test.each(BY_TABLES)('is found out by its tables: %s', async (_, tamper, names) => {
    const scene = await begun()
    await tamper(scene)
    expect((await verify(scene)).err).toMatch(names)
    // The bytes and signatures tell nothing of these tables, and are whole.
    expect((await faults(scene))[1]).toBe('')
  })

  test.each([...BY_UPDATES, ...BY_CHAIN])(
    'is found out by its updates and their chain: %s',
    async (_, tamper, names, offline) => {
      const scene = await begun()
      await tamper(scene)
      const [online, file] = await faults(scene)
      expect(online).toMatch(names)
      expect(online).toContain(scene.stage.tenantId)
      if (offline !== null) expect(file).toMatch(names)
    },
  )

  test('cannot have its keys exchanged', async () => {
    const scene = await begun()
    const other = await begun()
    await sqlOf(
      scene,
      `update tenants t set proof_public_key = o.proof_public_key, proof_key_sealed = o.proof_key_sealed, proof_delegation = o.proof_delegation from tenants o where t.id = $1 and o.id = $2`,
      [other.stage.tenantId],
    )
    expect((await verify(scene)).err).toContain('cannot be opened')
  })

  test('and put back to an earlier state together with its head is found out by a noted head alone', async () => {
    const scene = await begun()
    const [before] = await sqlOf(scene, 'select * from ledger_heads where tenant_id = $1')
    await scene.ada.run(note(scene.ada, 'to be undone'))
    await chained(scene, 11)
    const noted = await headOf(scene)
    await sqlOf(
      scene,
      'delete from ledger_stakes where tenant_id = $1 and created_offset = (select max("offset") from ledger_updates where tenant_id = $1)',
    )
    await sqlOf(
      scene,
      'delete from ledger_contracts where tenant_id = $1 and created_offset = (select max("offset") from ledger_updates where tenant_id = $1)',
    )
    await sqlOf(
      scene,
      'delete from ledger_updates where tenant_id = $1 and "offset" = (select max("offset") from ledger_updates where tenant_id = $1)',
    )
    await sqlOf(scene, 'delete from ledger_chain where tenant_id = $1 and seq = 11')
    const { seq, hash, signature, signed_at } = before as {
      seq: number
      hash: Buffer
      signature: Buffer
      signed_at: Date
    }
    await sqlOf(
      scene,
      'update ledger_heads set seq = $2, hash = $3, signature = $4, signed_at = $5 where tenant_id = $1',
      [seq, hash, signature, signed_at],
    )
    expect((await verify(scene)).exitCode).toBe(0)
    expect((await verify(scene, '--head', `11:${noted?.hash}`)).err).toContain('entry 11 of the chain is missing')
  })
})
