import { sign } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually } from '../../test/harness.ts'
import {
  type Command,
  type Contract,
  LedgerError,
  type LedgerErrorCode,
  type LedgerSignature,
  type Prepared,
  type Receipt,
  type Update,
} from './ledger.ts'
import {
  type Actor,
  acting,
  createdId,
  exercise,
  issue,
  LIFETIME_MS,
  newActor,
  newKeyPair,
  note,
  refusal,
  type Stage,
} from './stage.fixture.ts'

/** Nobody's here. */
const BOB = `bob::1220${'b'.repeat(64)}`
/** No contract has it. */
const NO_CONTRACT = `00${'9'.repeat(64)}`

const parallel = <T>(n: number, run: (index: number) => Promise<T>) =>
  Promise.all(Array.from({ length: n }, (_, index) => run(index)))

const amountsOf = async (actor: Actor) =>
  (await actor.contracts()).map((contract) => contract.arguments.amount as string)

const updatesOf = (stage: Stage, actor: Pick<Actor, 'party'>) => seen(stage, (update) => update.actAs === actor.party)

/** All updates from the beginning that fit, as far as they can be seen now. */
async function seen(stage: Stage, fits: (update: Update) => boolean): Promise<Update[]> {
  const found: Update[] = []
  let cursor: string | null = null
  for (;;) {
    const page = await stage.ledger.follow(stage.db, stage.tenantId, cursor, 100)
    if (page.updates.length === 0) return found
    found.push(...page.updates.filter(fits))
    cursor = page.cursor
  }
}

/** What every ledger adapter must keep: the port's promises, on a ledger that has the built-in templates. */
export function describeConformance(name: string, open: () => Promise<Stage>): void {
  describe(`${name} ledger: conformance`, () => {
    let stage: Stage
    beforeAll(async () => {
      stage = await open()
    })
    afterAll(() => stage.close())
    const on = () => stage
    describe('parties and onboarding', () => parties(on))
    describe('preparing', () => preparing(on))
    describe('interpreting', () => interpreting(on))
    describe('what is declared and what is refused', () => explaining(on))
    describe('signatures', () => signatures(on))
    describe('submitting', () => submitting(on))
    describe('what happens and what does not', () => deciding(on))
    describe('authorisation', () => authorisation(on))
    describe('reading', () => reading(on))
    describe('filters and cursors', () => filtering(on))
    describe('following', () => following(on))
  })
}

function parties(on: () => Stage): void {
  test('a party is the hint and the fingerprint that Canton publishes for the key', () => {
    const key = Buffer.from('fa8ba321f279863edd57e97a08f197d18760f77a8cddec782c63f69b85b44d7b', 'hex')
    expect(on().ledger.deriveParty('ada', key)).toBe(
      'ada::1220123087e6bf66d225d047e6af8b0944bc50cc470cb46afd9515a558bf55605441',
    )
  })

  test('onboarding is repeatable, at either of its steps', async () => {
    const { ledger, tenantId } = on()
    const { publicKey, privateKey } = newKeyPair()
    const first = await ledger.prepareOnboarding(tenantId, 'bob', publicKey)
    const second = await ledger.prepareOnboarding(tenantId, 'bob', publicKey)
    expect(second.party).toBe(first.party)
    const { party } = second
    const signed = second.digests.map((digest) => ({ party, publicKey, signature: sign(null, digest, privateKey) }))
    await ledger.completeOnboarding(tenantId, second, signed)
    await ledger.completeOnboarding(tenantId, second, signed)
  })

  test('the node signs for parties in its own namespace, such that submit accepts it, and for no others', async () => {
    const { ledger, db, tenantId, nodeParty } = on()
    const node = acting(on(), nodeParty)
    const prepared = await node.prepare([note(node, 'from the node')])
    const signatures = await ledger.sign(db, tenantId, nodeParty, prepared.digest)
    await ledger.submit(db, tenantId, prepared.bytes, signatures, on().now())
    expect(await node.contracts('Note:Note')).toHaveLength(1)
    const stranger = on().ledger.deriveParty(nodeParty.split('::')[0] as string, newKeyPair().publicKey)
    expect(await ledger.sign(db, tenantId, stranger, prepared.digest)).toEqual([])
  })

  test('health answers while the ledger can be reached', async () => {
    await expect(on().ledger.health(on().db)).resolves.toBeUndefined()
  })
}

function preparing(on: () => Stage): void {
  test('changes nothing: no contract, no transaction, no update, and the inputs are free', async () => {
    const { ledger, db, tenantId } = on()
    const ada = await newActor(on())
    const { prepared: issued } = await ada.run(issue(ada, ada, '5'))
    const id = createdId(issued)
    await parallel(5, () => ada.prepare([exercise(id, 'Split', { amount: '1' })], { commandId: 'only-prepared' }))
    expect((await ada.contracts()).map((contract) => contract.contractId)).toEqual([id])
    expect(await ledger.getTransaction(db, tenantId, ada.party, 'only-prepared')).toBeNull()
    expect((await updatesOf(on(), ada)).map((update) => update.commandId)).toEqual([issued.commandId])
  })

  test('decode reads out of the bytes all that prepare answered', async () => {
    const ada = await newActor(on())
    const prepared = await ada.prepare([issue(ada, ada, '1.50'), note(ada, 'ü \u2028 "\\ 😀 \u0001')], {
      commandId: 'c 1',
    })
    expect(on().ledger.decode(prepared.bytes)).toEqual(prepared)
    expect(prepared).toMatchObject({ commandId: 'c 1', actAs: ada.party })
    expect(prepared.digest).toHaveLength(32)
    expect(prepared.expiresAt.getTime()).toBeGreaterThan(on().now().getTime())
  })

  test('whichever byte is changed, added or cut off: other bytes are refused or have another digest', async () => {
    const ada = await newActor(on())
    const { bytes, digest } = await ada.prepare([issue(ada, ada, '1')])
    const decode = (other: Buffer) => {
      try {
        return on().ledger.decode(other).digest
      } catch (error) {
        expect(error).toBeInstanceOf(LedgerError)
        expect((error as LedgerError).code).toBe('prepared_invalid')
        return null
      }
    }
    expect(decode(Buffer.from(bytes))).toEqual(digest)
    const change = fc.tuple(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }))
    fc.assert(
      fc.property(change, ([at, mask]) => {
        const other = Buffer.from(bytes)
        other[at] = (other[at] as number) ^ mask
        expect(decode(other)).not.toEqual(digest)
        expect(decode(bytes.subarray(0, at))).not.toEqual(digest)
        expect(decode(Buffer.concat([bytes, Buffer.from([mask])]))).not.toEqual(digest)
      }),
      { numRuns: 300 },
    )
  })
}

function interpreting(on: () => Stage): void {
  test('effects are one root for each command in order, each followed by what it leads to', async () => {
    const ada = await newActor(on())
    const { prepared: issued } = await ada.run(issue(ada, ada, '10'), issue(ada, ada, '3'))
    const [ten, three] = [createdId(issued, 0), createdId(issued, 1)]
    const { effects, flows } = await ada.prepare([
      note(ada, 'first'),
      exercise(ten, 'Transfer', { receiver: BOB, amount: '4.0' }),
      exercise(three, 'Offer', { receiver: BOB }),
    ])
    expect(effects.map(({ command, type, templateId }) => `${command} ${type} ${templateId}`)).toEqual([
      '0 created Note:Note',
      '1 exercised Token:Holding',
      '1 archived Token:Holding',
      '1 created Token:Holding',
      '1 created Token:Holding',
      '2 exercised Token:Holding',
      '2 archived Token:Holding',
      '2 created Token:TransferOffer',
    ])
    // What was left out is filled in, and amounts stand in their one form.
    expect(effects[1]).toMatchObject({ contractId: ten, choice: 'Transfer', arguments: { amount: '4' } })
    expect(effects[5]).toMatchObject({ contractId: three, choice: 'Offer', arguments: { amount: '3' } })
    expect(effects[7]).toMatchObject({ choice: null, signatories: [ada.party], observers: [BOB] })
    const asset = { issuer: ada.party, symbol: 'USDX' }
    const unit = 10n ** 10n
    // Each command for itself: what comes in by one makes up for nothing that goes out by another.
    const flow = (command: number, owner: string | null, consumed: bigint, created: bigint) => ({
      command,
      asset,
      owner,
      consumed: consumed * unit,
      created: created * unit,
    })
    expect(flows).toHaveLength(4)
    for (const expected of [
      flow(1, ada.party, 10n, 6n),
      flow(1, BOB, 0n, 4n),
      flow(2, ada.party, 3n, 0n),
      flow(2, null, 0n, 3n),
    ])
      expect(flows).toContainEqual(expected)
    expect(new Set(effects.filter((effect) => effect.type === 'created').map((effect) => effect.contractId)).size).toBe(
      4,
    )
  })
}

function explaining(on: () => Stage): void {
  test('a choice touches contracts of the declared templates only; an unknown one declares nothing', async () => {
    const { ledger, db, tenantId } = on()
    const ada = await newActor(on())
    const { prepared: issued } = await ada.run(issue(ada, ada, '10'), issue(ada, ada, '3'))
    const [ten, three] = [createdId(issued, 0), createdId(issued, 1)]
    for (const [choice, given] of Object.entries({
      Transfer: { receiver: BOB, amount: '1' },
      Offer: { receiver: BOB, amount: '1' },
      Split: { amount: '1' },
      Merge: { contractIds: [three] },
    })) {
      const declared = await ledger.declaredConsequences(db, tenantId, 'Token:Holding', choice)
      const { effects } = await ada.prepare([exercise(ten, choice, given)])
      for (const { templateId } of effects.slice(1)) expect(declared, choice).toContain(templateId)
    }
    expect(await ledger.declaredConsequences(db, tenantId, 'Note:Note', 'Archive')).toEqual([])
    for (const [templateId, choice] of [
      ['Token:Holding', 'NoSuch'],
      ['Token:Holding', 'toString'],
      ['No:Such', 'Transfer'],
    ] as const)
      expect(await ledger.declaredConsequences(db, tenantId, templateId, choice)).toBeNull()
  })

  test('each refusal names the part of the commands that is at fault', async () => {
    const ada = await newActor(on())
    const { prepared: issued } = await ada.run(issue(ada, ada, '10'))
    const id = createdId(issued)
    const good = note(ada, 'good')
    const refused = async (command: Command, code: LedgerErrorCode, field: string) =>
      expect((await refusal(() => ada.prepare([good, command]), code)).field).toBe(field)
    await refused({ create: { templateId: 'No:Such', arguments: {} } }, 'template_unknown', '1.create.templateId')
    await refused(exercise(id, 'NoSuch'), 'choice_unknown', '1.exercise.choice')
    await refused(issue(ada, ada, '-1'), 'arguments_invalid', '1.create.arguments.amount')
    await refused(exercise(id, 'Split', { amount: '11' }), 'arguments_invalid', '1.exercise.arguments.amount')
    await refused(exercise(id, 'Split', { amount: '1', more: '' }), 'arguments_invalid', '1.exercise.arguments.more')
    await refused(exercise(NO_CONTRACT, 'Split', { amount: '1' }), 'contract_not_found', '1.exercise.contractId')
    await refused(issue(await newActor(on()), ada, '1'), 'authorization_missing', '1.create')
  })
}

function signatures(on: () => Stage): void {
  test('what the acting party has not signed does not happen: forged, truncated, by another key, for another party, over another digest, none', async () => {
    const [ada, eve] = [await newActor(on()), await newActor(on(), 'eve')]
    const prepared = await ada.prepare([note(ada, 'x')])
    const [right] = ada.sign(prepared.digest) as [LedgerSignature]
    const [byEve] = eve.sign(prepared.digest) as [LedgerSignature]
    const flipped = Buffer.from(right.signature)
    flipped[40] = (flipped[40] as number) ^ 1
    const wrong: Record<string, LedgerSignature[]> = {
      none: [],
      forged: [{ ...right, signature: flipped }],
      zero: [{ ...right, signature: Buffer.alloc(64) }],
      truncated: [{ ...right, signature: right.signature.subarray(0, 63) }],
      lengthened: [{ ...right, signature: Buffer.concat([right.signature, Buffer.from([0])]) }],
      empty: [{ ...right, signature: Buffer.alloc(0) }],
      'by another key for this party': [{ ...byEve, party: ada.party }],
      'by another key under this key': [{ ...right, signature: byEve.signature }],
      'a key of no length': [{ ...right, publicKey: Buffer.alloc(0) }],
      'for another party': [byEve],
      'named as of another party': [{ ...right, party: eve.party }],
      'of the same key under another hint': [{ ...right, party: `x${ada.party}` }],
      'over another digest': ada.sign((await ada.prepare([note(ada, 'y')])).digest),
      'over the bytes': ada.sign(prepared.bytes),
    }
    for (const [what, given] of Object.entries(wrong)) {
      const error = await refusal(() => ada.submit(prepared, given), 'signature_invalid')
      expect(error.code, what).toBe('signature_invalid')
    }
    expect(await ada.contracts('Note:Note')).toEqual([])
    await ada.submit(prepared)
    expect(await ada.contracts('Note:Note')).toHaveLength(1)
  })

  test('bytes that were changed after they were signed do not happen', async () => {
    const ada = await newActor(on())
    const prepared = await ada.prepare([note(ada, 'pay 1')])
    const at = prepared.bytes.indexOf('pay 1')
    const bytes = Buffer.from(prepared.bytes)
    bytes.write('pay 9', at)
    await refusal(() => ada.submit({ bytes, digest: prepared.digest }), 'signature_invalid', 'prepared_invalid')
    expect(await ada.contracts('Note:Note')).toEqual([])
  })
}

function submitting(on: () => Stage): void {
  test('a repeat answers the first receipt: in parallel, after its inputs are gone, and after it has expired', async () => {
    const { ledger, db, tenantId } = on()
    const ada = await newActor(on())
    const { prepared: issued } = await ada.run(issue(ada, ada, '5'))
    const prepared = await ada.prepare([exercise(createdId(issued), 'Split', { amount: '2' })], { commandId: 'once' })
    const receipts = await parallel(20, () => ada.submit(prepared))
    const [first] = receipts as [Receipt]
    for (const receipt of receipts) expect(receipt).toEqual(first)
    expect((await ada.contracts()).map((contract) => contract.arguments.amount).sort()).toEqual(['2', '3'])
    await ada.run(exercise(createdId(prepared), 'Split', { amount: '1' }))
    expect(await ada.submit(prepared)).toEqual(first)
    await on().advance(2 * LIFETIME_MS)
    expect(await ada.submit(prepared)).toEqual(first)
    expect(await ledger.getTransaction(db, tenantId, ada.party, 'once')).toEqual(first)
    expect((await ada.contracts()).map((contract) => contract.arguments.amount).sort()).toEqual(['1', '1', '3'])
    await refusal(() => ada.submit(prepared, []), 'signature_invalid')
  })

  test('another transaction under the same command id is refused, and so is the loser of a race', async () => {
    const ada = await newActor(on())
    const [one, two] = (await Promise.all(
      ['one', 'two'].map((text) => ada.prepare([note(ada, text)], { commandId: 'same' })),
    )) as [Prepared, Prepared]
    const settled = await Promise.allSettled(Array.from({ length: 20 }, (_, i) => ada.submit(i % 2 === 0 ? one : two)))
    const won = settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    const lost = settled.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
    expect([won.length, lost.length]).toEqual([10, 10])
    expect(new Set(won.map((receipt) => receipt.updateId)).size).toBe(1)
    for (const error of lost) await refusal(() => Promise.reject(error), 'duplicate_command')
    expect(await ada.contracts('Note:Note')).toHaveLength(1)
  })

  test('one party’s command ids are none of another’s', async () => {
    const [ada, bob] = [await newActor(on()), await newActor(on(), 'bob')]
    for (const actor of [ada, bob])
      await actor.submit(await actor.prepare([note(actor, 'mine')], { commandId: 'shared-id' }))
    expect(await bob.contracts('Note:Note')).toHaveLength(1)
  })
}

function deciding(on: () => Stage): void {
  test('what has expired does not happen any more', async () => {
    const ada = await newActor(on())
    const prepared = await ada.prepare([note(ada, 'late')], { lifetimeMs: 1_000 })
    await on().advance(1_000)
    await refusal(() => ada.submit(prepared), 'prepared_expired')
    expect(await ada.contracts('Note:Note')).toEqual([])
  })

  test('of transactions on the same contract one happens, the others certainly do not', async () => {
    const ada = await newActor(on())
    const { prepared: issued } = await ada.run(issue(ada, ada, '5'))
    const spends = await parallel(20, () => ada.prepare([exercise(createdId(issued), 'Split', { amount: '1' })]))
    const settled = await Promise.allSettled(spends.map((each) => ada.submit(each)))
    expect(settled.filter((each) => each.status === 'fulfilled')).toHaveLength(1)
    for (const each of settled)
      if (each.status === 'rejected')
        await refusal(() => Promise.reject(each.reason), 'contract_archived', 'prepared_invalid')
    expect((await ada.contracts()).map((contract) => contract.arguments.amount).sort()).toEqual(['1', '4'])
    await refusal(() => ada.prepare([exercise(createdId(issued), 'Split', { amount: '1' })]), 'contract_archived')
  })

  test('a refused command undoes the ones before it', async () => {
    const ada = await newActor(on())
    const { prepared: issued } = await ada.run(issue(ada, ada, '5'))
    const id = createdId(issued)
    const twice = [exercise(id, 'Split', { amount: '1' }), exercise(id, 'Split', { amount: '1' })]
    expect((await refusal(() => ada.prepare(twice), 'contract_archived')).field).toBe('1.exercise.contractId')
    expect(await ada.contracts()).toHaveLength(1)
  })

  test('offsets are distinct, and what depends on something has a greater one', async () => {
    const ada = await newActor(on())
    const chains = await parallel(5, async () => {
      let { prepared, receipt } = await ada.run(issue(ada, ada, '9'))
      const offsets = [receipt.offset]
      for (let n = 0; n < 6; n += 1) {
        ;({ prepared, receipt } = await ada.run(exercise(createdId(prepared), 'Transfer', { receiver: ada.party })))
        offsets.push(receipt.offset)
      }
      return offsets
    })
    for (const offsets of chains) expect(offsets).toEqual([...offsets].sort((a, b) => a - b))
    expect(new Set(chains.flat()).size).toBe(chains.flat().length)
  })

  test('what became of a command is known once it happened, and null before and for others', async () => {
    const { ledger, db, tenantId } = on()
    const [ada, bob] = [await newActor(on()), await newActor(on(), 'bob')]
    const prepared = await ada.prepare([note(ada, 'x')], { commandId: 'asked' })
    expect(await ledger.getTransaction(db, tenantId, ada.party, 'asked')).toBeNull()
    const receipt = await ada.submit(prepared)
    expect(await ledger.getTransaction(db, tenantId, ada.party, 'asked')).toEqual(receipt)
    expect(await ledger.getTransaction(db, tenantId, bob.party, 'asked')).toBeNull()
    expect(await ledger.getTransaction(db, tenantId, ada.party, 'other')).toBeNull()
  })
}

function authorisation(on: () => Stage): void {
  test('nothing is created without each signatory’s agreement', async () => {
    const [ada, bank] = [await newActor(on()), await newActor(on(), 'bank')]
    await refusal(() => ada.prepare([issue(bank, ada, '1')]), 'authorization_missing')
    await refusal(() => ada.prepare([note(bank, 'in your name')]), 'authorization_missing')
    const offer = { issuer: ada.party, owner: bank.party, receiver: ada.party, symbol: 'X', amount: '1' }
    const made: Command = { create: { templateId: 'Token:TransferOffer', arguments: offer } }
    await refusal(() => ada.prepare([made]), 'authorization_missing')
  })

  test('a choice is its controllers’ alone, whoever else sees the contract or signed it', async () => {
    const [ada, bank, eve] = [await newActor(on()), await newActor(on(), 'bank'), await newActor(on(), 'eve')]
    const { prepared: issued } = await bank.run(issue(bank, ada, '5'))
    const id = createdId(issued)
    await refusal(() => bank.prepare([exercise(id, 'Transfer', { receiver: bank.party })]), 'authorization_missing')
    const { prepared: offered } = await ada.run(exercise(id, 'Offer', { receiver: eve.party }))
    const offerId = createdId(offered)
    const of = (choice: string) => [exercise(offerId, choice, {}, 'Token:TransferOffer')]
    for (const choice of ['Accept', 'Reject']) await refusal(() => ada.prepare(of(choice)), 'authorization_missing')
    await refusal(() => eve.prepare(of('Withdraw')), 'authorization_missing')
    await eve.run(...of('Accept'))
    expect((await eve.contracts())[0]?.arguments).toMatchObject({ issuer: bank.party, amount: '5' })
  })

  test('a contract that one does not see is as one that is not there: open, archived, another template’s', async () => {
    const [ada, eve] = [await newActor(on()), await newActor(on(), 'eve')]
    const { prepared: issued } = await ada.run(issue(ada, ada, '5'), issue(ada, ada, '1'))
    const [open, archived] = [createdId(issued, 0), createdId(issued, 1)]
    await ada.run(exercise(archived, 'Transfer', { receiver: ada.party }))
    const { prepared: own } = await eve.run(issue(eve, eve, '2'))
    const asked = async (id: string, templateId = 'Token:Holding') => {
      const command =
        templateId === 'Note:Note' ? exercise(id, 'Archive', {}, templateId) : exercise(id, 'Split', { amount: '1' })
      const { message, field } = await refusal(() => eve.prepare([command]), 'contract_not_found')
      return { message: message.replaceAll(id, '<id>'), field }
    }
    const unknown = await asked(NO_CONTRACT)
    expect(await asked(open)).toEqual(unknown)
    expect(await asked(archived)).toEqual(unknown)
    await asked(createdId(own), 'Note:Note')
    const merged = (id: string) => exercise(createdId(own), 'Merge', { contractIds: [id] })
    await refusal(() => eve.prepare([merged(open)]), 'contract_not_found')
  })
}

function reading(on: () => Stage): void {
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

function filtering(on: () => Stage): void {
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

/** Reads what happens from now on, page by page, until it is told to stop and has found nothing more. */
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

function following(on: () => Stage): void {
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
    // What happened before may have been seen only now.
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
