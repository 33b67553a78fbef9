import { expect, test } from 'vitest'
import { eventually } from '../../../test/harness/harness.ts'
import type { Contract, Update } from '../../platform/ports/ledger.ts'
import { amountsOf, BOB, parallel, updatesOf } from './conformance-tools.fixture.ts'
import { type Actor, createdId, exercise, issue, newActor, note, refusal, type Stage } from './stage.fixture.ts'

/** Reading contracts and transactions. */
export function reading(on: () => Stage): void {
  test('a party’s active contracts are answered newest first, in pages that neither repeat nor miss any', async () => {
    const { ledger, db, tenantId } = on()
    const [ada, bob] = [await newActor(on()), await newActor(on(), 'bob')]
    for (let n = 1; n <= 4; n += 1) await ada.run(...Array.from({ length: n }, () => issue(ada, ada, String(n))))
    await bob.run(issue(bob, bob, '99'))
    const all = await ada.contracts()
    expect(await amountsOf(ada)).toEqual(['4', '4', '4', '4', '3', '3', '3', '2', '2', '1'])
    for (const limit of [1, 3, 9, 10, 11]) {
      const paged: Contract[] = []
      let cursor: string | null = null
      do {
        const query = { tenantId, party: ada.party, templateIds: ['Token:Holding'], accept: null, limit, cursor }
        const page = await ledger.query(db, query)
        expect(page.contracts.length).toBeLessThanOrEqual(limit)
        paged.push(...page.contracts)
        cursor = page.nextCursor
      } while (cursor !== null)
      expect(paged).toEqual(all)
    }
  })

  test('a query answers signatories and observers their contracts, of the templates that were asked for, and nobody else', async () => {
    const { ledger, db, tenantId } = on()
    const [ada, bob, eve] = [await newActor(on()), await newActor(on(), 'bob'), await newActor(on(), 'eve')]
    const { prepared, receipt } = await ada.run(note(ada, 'hello', [bob.party]), issue(ada, bob, '5'))
    const contract = {
      contractId: createdId(prepared),
      templateId: 'Note:Note',
      arguments: { author: ada.party, text: 'hello', readers: [bob.party] },
      signatories: [ada.party],
      observers: [bob.party],
      createdAtOffset: receipt.offset,
    }
    expect(await ada.contracts('Note:Note')).toEqual([contract])
    expect(await bob.contracts('Note:Note')).toEqual([contract])
    expect(await eve.contracts('Note:Note')).toEqual([])
    const both = { templateIds: ['Note:Note', 'Token:Holding', 'No:Such'], accept: null, limit: 10, cursor: null }
    const page = await ledger.query(db, { tenantId, party: bob.party, ...both })
    expect(page.contracts.map((each) => each.templateId).sort()).toEqual(['Note:Note', 'Token:Holding'])
    expect(page.nextCursor).toBeNull()
    await ada.run(exercise(contract.contractId, 'Archive', {}, 'Note:Note'))
    expect(await bob.contracts('Note:Note')).toEqual([])
  })

  test('a template that is asked for twice is answered once', async () => {
    const { ledger, db, tenantId } = on()
    const ada = await newActor(on())
    await ada.run(issue(ada, ada, '1'), issue(ada, ada, '2'))
    const templateIds = ['Token:Holding', 'Token:Holding']
    const query = { tenantId, party: ada.party, templateIds, accept: null, limit: 10, cursor: null }
    expect((await ledger.query(db, query)).contracts).toHaveLength(2)
  })
}

/** Filters and cursors. */
export function filtering(on: () => Stage): void {
  test('a filter’s pages together are all that it accepts, each once, in order', async () => {
    const { ledger, db, tenantId } = on()
    const ada = await newActor(on())
    for (let n = 0; n < 3; n += 1) await ada.run(...['1', '2', '3', '4'].map((amount) => issue(ada, ada, amount)))
    const accept = (contract: Contract) => Number(contract.arguments.amount) % 2 === 0
    const wanted = (await ada.contracts()).filter(accept)
    for (const limit of [1, 2, 5, 6, 7]) {
      const found: Contract[] = []
      let cursor: string | null = null
      do {
        const query = { tenantId, party: ada.party, templateIds: ['Token:Holding'], accept, limit, cursor }
        const page = await ledger.query(db, query)
        expect(page.contracts.length).toBeLessThanOrEqual(limit)
        found.push(...page.contracts)
        cursor = page.nextCursor
      } while (cursor !== null)
      expect(found).toEqual(wanted)
    }
  })

  test('a cursor that is none is refused', async () => {
    const { ledger, db, tenantId } = on()
    const query = { tenantId, party: BOB, templateIds: ['Token:Holding'], accept: null, limit: 1 }
    for (const cursor of ['', 'x', '0', '-1', 'null', '%', "' or 1=1"]) {
      expect((await refusal(() => ledger.query(db, { ...query, cursor }), 'arguments_invalid')).field).toBe('cursor')
      await refusal(() => ledger.follow(db, tenantId, cursor, 1), 'arguments_invalid')
    }
  })
}

/** Reads new updates page by page, until it is stopped and finds no more. */
async function followFromNow(stage: Stage, limit: number) {
  let cursor: string | null = null
  for (;;) {
    const page: Awaited<ReturnType<Stage['ledger']['follow']>> = await stage.ledger.follow(
      stage.db,
      stage.tenantId,
      cursor,
      100,
    )
    cursor = page.cursor
    if (page.updates.length === 0) break
  }
  const updates: Update[] = []
  return {
    updates,
    async poll() {
      const page = await stage.ledger.follow(stage.db, stage.tenantId, cursor, limit)
      expect(page.updates.length).toBeLessThanOrEqual(limit)
      cursor = page.cursor
      updates.push(...page.updates)
      return page.updates.length
    },
  }
}

/** A follower misses no update. */
export function following(on: () => Stage): void {
  test('an update says what was done, as its receipt and its effects do', async () => {
    const ada = await newActor(on())
    const { prepared, receipt } = await ada.run(issue(ada, ada, '5'), note(ada, 'x'))
    const updates = await eventually('the update is seen', async () => {
      const found = await updatesOf(on(), ada)
      return found.length > 0 && found
    })
    const { commandId, actAs, effects } = prepared
    expect(updates).toEqual([{ ...receipt, commandId, actAs, effects }])
  })

  test('who polls while fifty transactions commit at once sees each exactly once, what is used after what made it', async () => {
    const actors = await parallel(10, (n) => newActor(on(), `actor-${n}`))
    const follower = await followFromNow(on(), 3)
    let running = true
    const polling = (async () => {
      while (running) await follower.poll()
    })()
    const made = await parallel(10, async (n) => {
      const actor = actors[n] as Actor
      let last = await actor.run(issue(actor, actor, '5'))
      const ids = [last.receipt.updateId]
      for (let m = 0; m < 4; m += 1) {
        last = await actor.run(exercise(createdId(last.prepared), 'Transfer', { receiver: actor.party }))
        ids.push(last.receipt.updateId)
      }
      return ids
    }).finally(() => {
      running = false
    })
    await polling
    const expected = made.flat().sort()
    // Earlier updates may be seen only now.
    const ours = new Set(actors.map((actor) => actor.party))
    const mine = () => follower.updates.filter((update) => ours.has(update.actAs))
    expect(expected).toHaveLength(50)
    await eventually('all are seen', async () => (await follower.poll()) === 0 && mine().length >= 50)
    expect(
      mine()
        .map((update) => update.updateId)
        .sort(),
    ).toEqual(expected)
    const active = new Set<string>()
    for (const { type, contractId } of mine().flatMap((update) => update.effects)) {
      if (type === 'created') active.add(contractId)
      if (type === 'archived') expect(active.delete(contractId), 'archived before it was created').toBe(true)
    }
    expect(active.size).toBe(10)
  })
}
