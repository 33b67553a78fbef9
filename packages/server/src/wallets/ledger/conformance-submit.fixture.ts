import { expect, test } from 'vitest'
import type { Command, LedgerSignature, Prepared, Receipt } from '../../platform/ports/ledger.ts'
import { NO_CONTRACT, outcomeOf, parallel } from './conformance-tools.fixture.ts'
import { createdId, exercise, issue, LIFETIME_MS, newActor, note, refusal, type Stage } from './stage.fixture.ts'

/** What a signature must be. */
export function signatures(on: () => Stage): void {
  test('what the acting party has not signed does not happen: forged, truncated, by another key, for another party, over another digest, none', async () => {
    const [ada, eve] = [await newActor(on()), await newActor(on(), 'eve')]
    const prepared = await ada.prepare([note(ada, 'x')])
    const [right] = ada.sign(prepared.payload) as [LedgerSignature]
    const [byEve] = eve.sign(prepared.payload) as [LedgerSignature]
    const flipped = Buffer.from(right.signature)
    flipped[40] = (flipped[40] as number) ^ 1
    const wrong: Record<string, LedgerSignature[]> = {
      none: [],
      forged: [{ ...right, signature: flipped }],
      zero: [{ ...right, signature: Buffer.alloc(64) }],
      truncated: [{ ...right, signature: right.signature.subarray(0, 63) }],
      lengthened: [{ ...right, signature: Buffer.concat([right.signature, Buffer.from([0])]) }],
      empty: [{ ...right, signature: Buffer.alloc(0) }],
      'by another key under this key’s name': [{ ...byEve, signedBy: right.signedBy }],
      'by another key under this key': [{ ...right, signature: byEve.signature }],
      'a key of no length': [{ ...right, publicKey: Buffer.alloc(0) }],
      'for another party': [byEve],
      'under another key’s name': [{ ...right, signedBy: byEve.signedBy }],
      'by another algorithm': [{ ...right, alg: 'ed448' as 'ed25519' }],
      'over another digest': ada.sign((await ada.prepare([note(ada, 'y')])).payload),
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
    await refusal(() => ada.submit({ bytes, payload: prepared.payload }), 'signature_invalid', 'prepared_invalid')
    expect(await ada.contracts('Note:Note')).toEqual([])
  })
}

/** A submission is executed once. */
export function submitting(on: () => Stage): void {
  test('a repeat answers the first receipt: in parallel, after its inputs are gone, and after it has expired', async () => {
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
    expect(await outcomeOf(on(), ada, 'once', prepared)).toMatchObject({ state: 'final', receipt: first })
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

/** What happens and what does not. */
export function deciding(on: () => Stage): void {
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
    const [ada, bob] = [await newActor(on()), await newActor(on(), 'bob')]
    const prepared = await ada.prepare([note(ada, 'x')], { commandId: 'asked' })
    expect(await outcomeOf(on(), ada, 'asked')).toEqual({ state: 'pending' })
    const receipt = await ada.submit(prepared)
    expect(await outcomeOf(on(), ada, 'asked', prepared)).toMatchObject({ state: 'final', receipt })
    expect(await outcomeOf(on(), bob, 'asked')).toEqual({ state: 'pending' })
    expect(await outcomeOf(on(), ada, 'other')).toEqual({ state: 'pending' })
  })
}

/** Who may do what. */
export function authorisation(on: () => Stage): void {
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
