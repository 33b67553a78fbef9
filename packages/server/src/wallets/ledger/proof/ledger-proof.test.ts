import { readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { eventually } from '../../../../test/harness/harness.ts'
import { sql } from '../../../platform/db/db.ts'
import { embeddedStage } from '../embedded/embedded.fixture.ts'
import { createdId, exercise, note } from '../stage.fixture.ts'
import { useLedgers } from './ledger-proof.fixture.ts'

const { service, newFile, halfkey, sqlOf, headOf, chained, begun, verify, exported } = useLedgers()

describe('a ledger', () => {
  test('is found whole, in the database and in a file, and its head is printed', async () => {
    const scene = await begun()
    const online = await verify(scene)
    expect([online.exitCode, online.err]).toEqual([0, ''])
    const head = await headOf(scene)
    expect(online.out).toEqual([`10 updates, 8 active contracts, head 10:${head?.hash}`])
    const file = await exported(scene)
    const offline = await halfkey('ledger', 'verify', '--offline', file, '--signer', scene.stage.nodeParty)
    expect([offline.exitCode, offline.err]).toEqual([0, ''])
    expect(offline.out[0]).toBe(online.out[0])
    const stranger = await halfkey('ledger', 'verify', '--offline', file, '--signer', scene.ada.party)
    expect([stranger.exitCode, stranger.err]).toEqual([1, expect.stringContaining('not of 1220')])
    // It goes on, and contains what it contained.
    const noted = `10:${head?.hash}`
    await scene.ada.run(note(scene.ada, 'more'))
    await chained(scene, 11)
    expect((await verify(scene, '--head', noted)).exitCode).toBe(0)
    expect((await verify(scene, '--head', `10:${'0'.repeat(64)}`)).err).toContain('Entry 10 of the chain')
    expect((await verify(scene, '--head', `12:${'0'.repeat(64)}`)).err).toContain('entry 12 of the chain is missing')
  })

  test('of every tenant is verified without --tenant, an empty one too', async () => {
    const stage = await embeddedStage(service())
    expect((await verify({ stage })).out).toEqual(['0 updates, 0 active contracts, no head yet'])
    const all = await halfkey('ledger', 'verify')
    expect([all.exitCode, all.err]).toEqual([0, ''])
    expect(all.out.join('\n')).toContain(`${stage.tenantId}: 0 updates`)
  })

  test('is whole where a reader overtook an archive: offsets do not order concurrent transactions', async () => {
    const scene = await begun()
    const { ada, stage } = scene
    const { prepared } = await ada.run({ create: { templateId: 'Shop:Booth', arguments: { shop: ada.party } } })
    const booth = createdId(prepared)
    // Takes its number first, and is written last.
    const close = await ada.prepare([exercise(booth, 'Close', {}, 'Shop:Booth')])
    const { receipt: rung } = await ada.run(exercise(booth, 'Ring', {}, 'Shop:Booth'))
    const { receipt: closed, writes } =
      stage.ledger.submission?.(close, ada.sign(close.payload), stage.now()) ?? expect.fail()
    await stage.db.run(sql`with held as materialized (select true), ${writes} select from applied`)
    expect(closed.offset).toBeLessThan(rung.offset)
    await chained(scene, 13)
    expect((await verify(scene)).err).toBe('')
    // But it could not be read long after.
    await expect(ada.run(exercise(booth, 'Ring', {}, 'Shop:Booth'))).rejects.toThrow('already used')
  })
})

describe('the chain', () => {
  test('does not go on from a head that is gone or altered, and other tenants’ do', async () => {
    const [gone, altered, whole] = [await begun(), await begun(), await begun()]
    await sqlOf(gone, 'delete from ledger_heads where tenant_id = $1')
    await sqlOf(altered, 'update ledger_heads set hash = sha256(hash) where tenant_id = $1')
    for (const { ada } of [gone, altered, whole]) await ada.run(note(ada, 'after'))
    await chained(whole, 11)
    await eventually('both are logged', async () =>
      [gone, altered].every(({ stage }) =>
        service().logs().includes(`the chain of ${stage.tenantId}'s ledger cannot continue`),
      ),
    )
    expect(await headOf(gone)).toBeUndefined()
    expect((await headOf(altered))?.seq).toBe(10)
    expect((await verify(gone)).err).toContain('No signed head')
    for (const scene of [gone, altered]) {
      await sqlOf(scene, 'update tenants set ledger_chain_at = null where id = $1')
      for (const table of ['ledger_heads', 'ledger_chain'])
        await sqlOf(scene, `delete from ${table} where tenant_id = $1`)
      await chained(scene, 11)
    }
  })

  test('goes on after the database was moved to a server whose transactions are numbered lower', async () => {
    const scene = await begun()
    await sqlOf(scene, "update ledger_heads set read_xid = '9000000000000000000' where tenant_id = $1")
    await scene.ada.run(note(scene.ada, 'after'))
    await chained(scene, 11)
    await sqlOf(scene, "update ledger_heads set read_xid = '9000000000000000000' where tenant_id = $1")
    await eventually('the place is one of this server', async () => {
      const [row] = await sqlOf(
        scene,
        "select read_xid < '9000000000000000000' as here from ledger_heads where tenant_id = $1",
      )
      return (row as { here: boolean }).here
    })
    await scene.ada.run(note(scene.ada, 'at last'))
    await chained(scene, 12)
    expect((await verify(scene)).err).toBe('')
  })

  test('has each of many concurrent updates once', async () => {
    const scene = await begun()
    await Promise.all(Array.from({ length: 40 }, (_, n) => scene.ada.run(note(scene.ada, `note ${n}`))))
    await chained(scene, 50)
    expect((await verify(scene)).err).toBe('')
  })
})

describe('a file', () => {
  test('that is cut, reordered, doubled or altered in any line is refused', async () => {
    const scene = await begun()
    const lines = readFileSync(await exported(scene), 'utf8')
      .trimEnd()
      .split('\n')
    const refused = async (changed: string[]) => {
      const file = newFile()
      writeFileSync(file, `${changed.join('\n')}\n`)
      return (await halfkey('ledger', 'verify', '--offline', file)).exitCode
    }
    expect(await refused(lines)).toBe(0)
    for (const at of lines.keys()) {
      expect([at, await refused(lines.toSpliced(at, 1))]).toEqual([at, 1])
      expect([at, await refused(lines.toSpliced(at, 0, lines[at] as string))]).toEqual([at, 1])
      const line = lines[at] as string
      const flipped = line.replace(/[0-9a-f](?=[0-9a-f]{20})/, (digit) => (digit === '0' ? '1' : '0'))
      if (flipped !== line) expect([at, await refused(lines.toSpliced(at, 1, flipped))]).toEqual([at, 1])
    }
    expect(await refused([])).toBe(1)
    expect(await refused(lines.slice(0, -3))).toBe(1)
  })
})
