import { sign } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually } from '../../../test/harness/harness.ts'
import { type Command, LedgerError, type LedgerErrorCode } from '../../platform/ports/ledger.ts'
import { signatureOf } from '../../platform/ports/signature.ts'
import { filtering, following, reading } from './conformance-read.fixture.ts'
import { authorisation, deciding, signatures, submitting } from './conformance-submit.fixture.ts'
import { BOB, NO_CONTRACT, outcomeOf, parallel, updatesOf } from './conformance-tools.fixture.ts'
import { acting, createdId, exercise, issue, newActor, newKeyPair, note, refusal, type Stage } from './stage.fixture.ts'

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
    expect(ledger.decodeOnboarding(second.bytes, { party, publicKey })).toEqual(second)
    const signed = second.toSign.map(({ payload }) => signatureOf(publicKey, sign(null, payload, privateKey)))
    await ledger.completeOnboarding(tenantId, second, signed)
    await ledger.completeOnboarding(tenantId, second, signed)
  })

  test('the node signs for parties in its own namespace, such that submit accepts it, and for no others', async () => {
    const { ledger, db, tenantId, nodeParty } = on()
    const node = acting(on(), nodeParty)
    const prepared = await node.prepare([note(node, 'from the node')])
    const signatures = await ledger.sign(db, tenantId, nodeParty, prepared.payload)
    await ledger.submit(db, tenantId, prepared.bytes, signatures, on().now())
    expect(await node.contracts('Note:Note')).toHaveLength(1)
    const stranger = on().ledger.deriveParty(nodeParty.split('::')[0] as string, newKeyPair().publicKey)
    expect(await ledger.sign(db, tenantId, stranger, prepared.payload)).toEqual([])
  })

  test('health answers while the ledger can be reached', async () => {
    await expect(on().ledger.health(on().db)).resolves.toBeUndefined()
  })
}

function preparing(on: () => Stage): void {
  test('changes nothing: no contract, no transaction, no update, and the inputs are free', async () => {
    const ada = await newActor(on())
    const { prepared: issued } = await ada.run(issue(ada, ada, '5'))
    const id = createdId(issued)
    await parallel(5, () => ada.prepare([exercise(id, 'Split', { amount: '1' })], { commandId: 'only-prepared' }))
    expect((await ada.contracts()).map((contract) => contract.contractId)).toEqual([id])
    expect(await outcomeOf(on(), ada, 'only-prepared')).toEqual({ state: 'pending' })
    // Seen once no transaction is open that began before it, anybody's in the same server.
    const updates = await eventually('the update is seen', async () => {
      const found = await updatesOf(on(), ada)
      return found.length > 0 && found
    })
    expect(updates.map((update) => update.commandId)).toEqual([issued.commandId])
  })

  test('decode reads out of the bytes all that prepare answered', async () => {
    const ada = await newActor(on())
    const prepared = await ada.prepare([issue(ada, ada, '1.50'), note(ada, 'ü \u2028 "\\ 😀 \u0001')], {
      commandId: 'c 1',
    })
    expect(on().ledger.decode(prepared.bytes)).toEqual(prepared)
    expect(prepared).toMatchObject({ commandId: 'c 1', actAs: ada.party })
    expect(prepared.payload.length).toBeGreaterThanOrEqual(32)
    expect(prepared.expiresAt.getTime()).toBeGreaterThan(on().now().getTime())
  })

  test('whichever byte is changed, added or cut off: other bytes are refused or have another payload', async () => {
    const ada = await newActor(on())
    const { bytes, payload } = await ada.prepare([issue(ada, ada, '1')])
    const decode = (other: Buffer) => {
      try {
        return on().ledger.decode(other).payload
      } catch (error) {
        expect(error).toBeInstanceOf(LedgerError)
        expect((error as LedgerError).code).toBe('prepared_invalid')
        return null
      }
    }
    expect(decode(Buffer.from(bytes))).toEqual(payload)
    const change = fc.tuple(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }))
    fc.assert(
      fc.property(change, ([at, mask]) => {
        const other = Buffer.from(bytes)
        other[at] = (other[at] as number) ^ mask
        expect(decode(other)).not.toEqual(payload)
        expect(decode(bytes.subarray(0, at))).not.toEqual(payload)
        expect(decode(Buffer.concat([bytes, Buffer.from([mask])]))).not.toEqual(payload)
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
    // Defaults are filled in, and amounts are in canonical form.
    expect(effects[1]).toMatchObject({ contractId: ten, choice: 'Transfer', arguments: { amount: '4' } })
    expect(effects[5]).toMatchObject({ contractId: three, choice: 'Offer', arguments: { amount: '3' } })
    expect(effects[7]).toMatchObject({ choice: null, signatories: [ada.party], observers: [BOB] })
    const asset = { issuer: ada.party, symbol: 'USDX' }
    const unit = 10n ** 10n
    // Each command is counted alone: income of one does not offset the cost of another.
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
      { ...flow(2, null, 0n, 3n), seenBy: [BOB] },
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
