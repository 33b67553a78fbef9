import { createHash } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { eventually, type Service, startService } from '../../../../test/harness/harness.ts'
import type { Command, Contract, LedgerErrorCode, Prepared, Update } from '../../../platform/ports/ledger.ts'
import { canonicalJson } from '../../../platform/security/canonical-json.ts'
import {
  type Actor,
  acting,
  createdId,
  exercise,
  issue,
  newActor,
  note,
  refusal,
  type Stage,
} from '../stage.fixture.ts'
import { embeddedStage } from './embedded.fixture.ts'
import { createEmbeddedLedger } from './embedded-ledger.ts'
import { declareTemplate } from './template-catalogue.ts'

/** Nobody's here. */
const BOB = `bob::1220${'b'.repeat(64)}`

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

let stage: Stage
let ada: Actor
beforeEach(async () => {
  stage = await embeddedStage(service)
  ada = await newActor(stage)
})

// biome-ignore lint/suspicious/noExplicitAny: tests write into it what it should not hold
type Document = any

const documentOf = (prepared: Prepared): Document => JSON.parse(prepared.bytes.toString())
const bytesOf = (document: Document) => Buffer.from(canonicalJson(document))

/** Signs whatever these bytes are and submits them. */
function submitSigned(actor: Actor, bytes: Buffer) {
  const digest = createHash('sha256').update('halfkey/transaction-digest/v1\0').update(bytes).digest()
  return actor.submit({ bytes, payload: digest })
}

const amounts = async (actor: Actor) =>
  (await actor.contracts()).map((contract: Contract) => contract.arguments.amount).sort()

describe('what is signed', () => {
  test('is SHA-256 over a domain tag and the bytes, which are the RFC 8785 form of the transaction', async () => {
    const { prepared, receipt } = await ada.run(note(ada, 'x'))
    const digest = createHash('sha256').update('halfkey/transaction-digest/v1\0').update(prepared.bytes).digest()
    expect(prepared.payload).toEqual(digest)
    expect(receipt.updateId).toBe(`1220${digest.toString('hex')}`)
    expect(canonicalJson(documentOf(prepared))).toBe(prepared.bytes.toString())
    expect(documentOf(prepared)).toMatchObject({ version: 'halfkey/transaction/v1', tenantId: stage.tenantId })
  })

  test('has one form: the same transaction written in any other way is refused', async () => {
    const { bytes } = await ada.prepare([note(ada, 'a\ufffd')])
    const text = bytes.toString()
    const document = JSON.parse(text)
    const replaced = bytes.indexOf('\ufffd')
    const others: Record<string, Buffer | string> = {
      'a space more': text.replace(':', ': '),
      'a line more': `${text}\n`,
      'a byte order mark': `\ufeff${text}`,
      'another order': JSON.stringify(Object.fromEntries(Object.entries(document).reverse())),
      'a name twice': text.replace('{', `{"actAs":"${BOB}",`),
      'an escape that is not needed': text.replace('"a\ufffd"', '"\\u0061\ufffd"'),
      'a number in another form': text.replace('"command":0', '"command":0.0'),
      'what is no UTF-8': Buffer.concat([
        bytes.subarray(0, replaced),
        Buffer.from([0xff]),
        bytes.subarray(replaced + 3),
      ]),
      UTF16: Buffer.from(text, 'utf16le'),
    }
    for (const [what, other] of Object.entries(others)) {
      expect(other.toString(), what).not.toBe('')
      await refusal(() => stage.ledger.decode(Buffer.from(other as string)), 'prepared_invalid')
      await refusal(() => submitSigned(ada, Buffer.from(other as string)), 'prepared_invalid')
    }
    expect(await ada.contracts('Note:Note')).toEqual([])
  })

  test('is refused, however well signed, unless it is a whole transaction of the known form', async () => {
    const prepared = await ada.prepare([note(ada, 'x'), issue(ada, ada, '1')])
    const changed = (change: (document: Document) => void) => {
      const document = documentOf(prepared)
      change(document)
      return bytesOf(document)
    }
    const members = Object.keys(documentOf(prepared))
    expect(members.sort()).toEqual(
      ['actAs', 'commandId', 'commands', 'effects', 'expiresAt', 'seed', 'tenantId', 'version'].sort(),
    )
    const wrong: Record<string, Buffer> = {
      nothing: Buffer.alloc(0),
      null: Buffer.from('null'),
      list: Buffer.from('[]'),
      number: Buffer.from('5'),
      'a member more': changed((document) => (document.more = 1)),
      'another version': changed((document) => (document.version = 'halfkey/transaction/v2')),
      'an expiry that is none': changed((document) => (document.expiresAt = 'never')),
      'an expiry in another form': changed((document) => (document.expiresAt = '2099-01-01')),
      'a seed that is cut': changed((document) => (document.seed = document.seed.slice(1))),
      'a seed that is none': changed((document) => (document.seed = 'z'.repeat(64))),
      'a command that is none': changed((document) => (document.commands[0] = 5)),
      'a command of two kinds': changed((document) => (document.commands[0].exercise = {})),
      'arguments that are no text': changed((document) => (document.commands[0].create.arguments.text = 5)),
      'an effect that is none': changed((document) => (document.effects[0] = null)),
      'an effect of no kind': changed((document) => (document.effects[0].type = 'gone')),
      'a token without an amount': changed((document) => delete document.effects[1].arguments.amount),
      'a token whose amount is none': changed((document) => (document.effects[1].arguments.amount = '1e3')),
      'deep nesting': Buffer.from(`{"version":"halfkey/transaction/v1","x":${'['.repeat(1e5)}${']'.repeat(1e5)}}`),
      'deep nesting inside': changed((document) => (document.effects = [[[[[[]]]]]])),
      'too much': changed((document) => (document.commandId = 'x'.repeat(5_000_000))),
    }
    for (const name of members) wrong[`no ${name}`] = changed((document) => delete document[name])
    for (const name of members) wrong[`${name} a number`] = changed((document) => (document[name] = 7))
    for (const [what, bytes] of Object.entries(wrong)) {
      const error = await refusal(() => submitSigned(ada, bytes), 'prepared_invalid')
      expect(error.code, what).toBe('prepared_invalid')
    }
  })

  test('is what happens: effects that the commands do not have are refused, however well signed', async () => {
    const { prepared: issued } = await ada.run(issue(ada, ada, '10'))
    const prepared = await ada.prepare([exercise(createdId(issued), 'Transfer', { receiver: BOB, amount: '3' })])
    const lies: Record<string, (document: Document) => void> = {
      'more arrives': (document) => (document.effects[2].arguments.amount = '10'),
      'the change is larger': (document) => (document.effects[3].arguments.amount = '9'),
      'the change is left out': (document) => document.effects.pop(),
      'nothing is archived': (document) => document.effects.splice(1, 1),
      'another contract id': (document) => (document.effects[2].contractId = `00${'1'.repeat(64)}`),
      'the seed is another one': (document) => (document.seed = '1'.repeat(64)),
      'somebody else sees it': (document) => (document.effects[3].observers = [BOB]),
      'a command more': (document) => document.commands.push(note(ada, 'more')),
      'another receiver': (document) => (document.commands[0].exercise.arguments.receiver = ada.party),
      'another actor’s command': (document) => (document.commands[0].exercise.contractId = `00${'2'.repeat(64)}`),
    }
    for (const [what, lie] of Object.entries(lies)) {
      const document = documentOf(prepared)
      lie(document)
      const codes: LedgerErrorCode[] =
        what === 'another actor’s command' ? ['contract_not_found'] : ['prepared_invalid']
      const error = await refusal(() => submitSigned(ada, bytesOf(document)), ...codes)
      expect(error.code, what).toBe(codes[0])
    }
    expect(await amounts(ada)).toEqual(['10'])
    await ada.submit(prepared)
    // The issuer sees what the receiver has now.
    expect(await amounts(ada)).toEqual(['3', '7'])
  })

  test('acts for the party that signed: under another name in the bytes the signature is worth nothing', async () => {
    const eve = await newActor(stage, 'eve')
    const document = documentOf(await eve.prepare([note(eve, 'x')]))
    document.actAs = ada.party
    await refusal(() => submitSigned(eve, bytesOf(document)), 'signature_invalid')
  })

  test('of the signatures only those that were verified are kept', async () => {
    const eve = await newActor(stage, 'eve')
    const prepared = await ada.prepare([note(ada, 'x')])
    const right = ada.sign(prepared.payload)
    const forged = { ...eve.sign(prepared.payload)[0], signedBy: right[0]?.signedBy } as (typeof right)[number]
    await ada.submit(prepared, [forged, ...right, ...eve.sign(prepared.payload)])
    const rows = await service.sql<{ signatures: object[] }>(
      'select signatures from ledger_updates where tenant_id = $1',
      [stage.tenantId],
    )
    expect(rows[0]?.signatures).toEqual([
      { party: ada.party, publicKey: ada.publicKey.toString('hex'), signature: right[0]?.signature.toString('hex') },
    ])
  })
})

describe('contract ids', () => {
  test('commit to contents, template, tenant, number and a seed of 32 random bytes, so that nobody guesses them', async () => {
    const commands = [note(ada, 'x'), note(ada, 'x')]
    const first = await ada.prepare(commands)
    const second = await ada.prepare(commands)
    const { seed } = documentOf(first)
    expect(seed).toMatch(/^[0-9a-f]{64}$/)
    const { tenantId } = stage
    const contract = { author: ada.party, text: 'x', readers: [] }
    const committed = { arguments: contract, definition: 'built-in/1', seed, templateId: 'Note:Note', tenantId }
    const id = (index: number) =>
      `01${createHash('sha256')
        .update('halfkey/contract-id/v2\0')
        .update(canonicalJson({ ...committed, index }))
        .digest('hex')}`
    expect([createdId(first, 0), createdId(first, 1)]).toEqual([id(0), id(1)])
    expect(new Set([first, second].flatMap((each) => each.effects.map((effect) => effect.contractId))).size).toBe(4)
  })

  test('are never used again: a seed that was used before makes nothing, and what it made stays', async () => {
    const { prepared } = await ada.run(note(ada, 'first'))
    const document = documentOf(prepared)
    document.commandId = 'again'
    await refusal(() => submitSigned(ada, bytesOf(document)), 'prepared_invalid')
    expect(await ada.contracts('Note:Note')).toHaveLength(1)
  })
})

describe('a contract that was altered in the database', () => {
  const ALTERATIONS: [what: string, sql: string][] = [
    ['its amount', `arguments = jsonb_set(arguments::jsonb, '{amount}', '"1000000"')::json`],
    ['its owner', `arguments = jsonb_set(arguments::jsonb, '{owner}', '"bob::1220${'c'.repeat(64)}"')::json`],
    ['a field more', `arguments = jsonb_set(arguments::jsonb, '{more}', '"x"')::json`],
    ['its observers', `observers = observers || '${BOB}'::text`],
    ['its signatories', `signatories = observers`],
    ['its seed', `seed = sha256(seed)`],
    ['no seed', `seed = null`],
    ['its number', `index = index + 1`],
  ]
  test.each(ALTERATIONS)('cannot be used or shown: %s', async (_, change) => {
    const { prepared } = await ada.run(issue(ada, ada, '5'))
    const id = createdId(prepared)
    const transfer = () => ada.prepare([exercise(id, 'Transfer', { receiver: BOB, amount: '1' })])
    const ready = await transfer()
    await service.sql(`update ledger_contracts set ${change} where contract_id = $1`, [id])
    const altered = { name: 'Error', message: expect.stringContaining(`contract ${id}`) }
    await expect(transfer()).rejects.toMatchObject(altered)
    await expect(ada.contracts()).rejects.toMatchObject(altered)
    // Nor by what was prepared before.
    await expect(ada.submit(ready)).rejects.toMatchObject(altered)
  })

  test('is used as it is where its id is of an earlier version, which committed to nothing', async () => {
    const { prepared } = await ada.run(issue(ada, ada, '5'))
    const id = createdId(prepared)
    const old = `00${id.slice(2)}`
    await service.sql(
      'update ledger_contracts set contract_id = $2, seed = null, index = null where contract_id = $1',
      [id, old],
    )
    await service.sql('update ledger_stakes set contract_id = $2 where contract_id = $1', [id, old])
    expect((await ada.contracts()).map(({ contractId }) => contractId)).toEqual([old])
    await ada.run(exercise(old, 'Transfer', { receiver: ada.party, amount: '2' }))
    expect(await amounts(ada)).toEqual(['2', '3'])
    for (const { contractId } of await ada.contracts()) expect(contractId).toMatch(/^01/)
  })

  test('by its template is not usable either: its id commits to the definition', async () => {
    const definition = (controllers: string[]) => ({
      templateId: 'Shop:Voucher',
      fields: { shop: { type: 'party' as const }, holder: { type: 'party' as const } },
      signatories: ['shop'],
      observers: ['holder'],
      choices: { Redeem: { controllers } },
    })
    await declareTemplate(stage.db, stage.tenantId, definition(['shop']), stage.now())
    const made = { templateId: 'Shop:Voucher', arguments: { shop: ada.party, holder: BOB } }
    const { prepared } = await ada.run({ create: made })
    const redeem = exercise(createdId(prepared), 'Redeem', {}, 'Shop:Voucher')
    await service.sql('update ledger_templates set definition = $2 where tenant_id = $1', [
      stage.tenantId,
      JSON.stringify(definition(['holder'])),
    ])
    await service.recode()
    // Another process, which has not read the template yet.
    const ledger = createEmbeddedLedger({ keys: service.deps.keys })
    const elsewhere = acting({ ...stage, ledger }, ada.party)
    await expect(elsewhere.prepare([redeem])).rejects.toThrow(/altered in the database/)
    await ada.run(redeem)
  })
})

describe('another tenant', () => {
  test('does not take what was prepared for this one, though the same key’s party is in both', async () => {
    const other = await embeddedStage(service)
    const prepared = await ada.prepare([note(ada, 'x')])
    const submitThere = () =>
      other.ledger.submit(other.db, other.tenantId, prepared.bytes, ada.sign(prepared.payload), stage.now())
    await refusal(submitThere, 'prepared_invalid')
    await ada.submit(prepared)
    await refusal(submitThere, 'prepared_invalid')
  })

  test('sees and uses none of this one’s contracts, updates, commands or keys', async () => {
    const other = await embeddedStage(service)
    const { prepared } = await ada.run(issue(ada, ada, '5'))
    const there = acting(other, ada.party)
    expect(await there.contracts()).toEqual([])
    const unknown = await refusal(
      () => there.prepare([exercise(`00${'9'.repeat(64)}`, 'Split', { amount: '1' })]),
      'contract_not_found',
    )
    const known = await refusal(
      () => there.prepare([exercise(createdId(prepared), 'Split', { amount: '1' })]),
      'contract_not_found',
    )
    expect([known.message, known.field]).toEqual([unknown.message, unknown.field])
    expect(await other.ledger.getTransaction(other.db, other.tenantId, { ...prepared, prepared: null })).toEqual({
      state: 'pending',
    })
    expect((await other.ledger.follow(other.db, other.tenantId, null, 100)).updates).toEqual([])
    expect(await other.ledger.sign(other.db, other.tenantId, stage.nodeParty, prepared.payload)).toEqual([])
    expect(await stage.ledger.sign(stage.db, stage.tenantId, stage.nodeParty, prepared.payload)).toHaveLength(1)
  })
})

test('names that every object has are no templates, choices, fields or contracts', async () => {
  const { prepared } = await ada.run(issue(ada, ada, '5'))
  const id = createdId(prepared)
  for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', '']) {
    const refused = (command: Command, code: LedgerErrorCode) => refusal(() => ada.prepare([command]), code)
    await refused({ create: { templateId: name, arguments: {} } }, 'template_unknown')
    await refused(exercise(id, 'Split', {}, name), 'template_unknown')
    await refused(exercise(id, name), 'choice_unknown')
    await refused(exercise(name, 'Split', { amount: '1' }), 'contract_not_found')
    // Written as text: in an object literal it would set the prototype.
    const given = JSON.parse(`{"author":"${ada.party}","text":"x",${JSON.stringify(name)}:"x"}`)
    const error = await refused({ create: { templateId: 'Note:Note', arguments: given } }, 'arguments_invalid')
    expect(error.field).toBe(`0.create.arguments.${name}`)
  }
})

describe('following', () => {
  const follow = (cursor: string | null, limit: number) => stage.ledger.follow(stage.db, stage.tenantId, cursor, limit)
  const all = async (limit: number) => {
    const updates: Update[] = []
    let cursor: string | null = null
    for (;;) {
      const page: Awaited<ReturnType<typeof follow>> = await follow(cursor, limit)
      if (page.updates.length === 0) return updates
      updates.push(...page.updates)
      cursor = page.cursor
    }
  }

  test('goes by the database’s transaction ids as numbers: nothing is lost where one has a digit more', async () => {
    const made = []
    for (let n = 0; n < 4; n += 1) made.push((await ada.run(note(ada, String(n)))).receipt)
    // As if they had been written when these were the ids.
    for (const [index, xid] of ['9', '10', '99', '100'].entries())
      await service.sql('update ledger_updates set xid = $1::xid8 where tenant_id = $2 and "offset" = $3', [
        xid,
        stage.tenantId,
        made[index]?.offset,
      ])
    for (const limit of [1, 2, 3, 4])
      expect((await all(limit)).map((update) => update.offset)).toEqual(made.map((receipt) => receipt.offset))
  })

  test('waits for a transaction that began before and is open still: it is not passed over', async () => {
    const early = await ada.prepare([note(ada, 'early')])
    let end = () => {}
    const open = new Promise<void>((resolve) => {
      end = resolve
    })
    let begun = () => {}
    const written = new Promise<void>((resolve) => {
      begun = resolve
    })
    const committed = stage.db.tx(async (tx) => {
      await stage.ledger.submit(tx, stage.tenantId, early.bytes, ada.sign(early.payload), stage.now())
      begun()
      await open
    })
    await written
    const { prepared: late } = await ada.run(note(ada, 'late'))
    const page = await follow(null, 100)
    end()
    await committed
    const updates = [...page.updates]
    let { cursor } = page
    await eventually('both are seen', async () => {
      const next = await follow(cursor, 100)
      updates.push(...next.updates)
      cursor = next.cursor
      return updates.length >= 2
    })
    expect(updates.map((update) => update.commandId).sort()).toEqual([early.commandId, late.commandId].sort())
  })
})

describe('in the caller’s transaction', () => {
  test('what is submitted is gone if the transaction is rolled back, and can happen afterwards', async () => {
    const { prepared: issued } = await ada.run(issue(ada, ada, '5'))
    const prepared = await ada.prepare([exercise(createdId(issued), 'Split', { amount: '2' })])
    const submit = (db: Stage['db']) =>
      stage.ledger.submit(db, stage.tenantId, prepared.bytes, ada.sign(prepared.payload), stage.now())
    const rolledBack = stage.db.tx(async (tx) => {
      await submit(tx)
      throw new Error('rolled back')
    })
    await expect(rolledBack).rejects.toThrow('rolled back')
    expect(await amounts(ada)).toEqual(['5'])
    expect(await stage.ledger.getTransaction(stage.db, stage.tenantId, { ...prepared, prepared: null })).toEqual({
      state: 'pending',
    })
    await submit(stage.db)
    expect(await amounts(ada)).toEqual(['2', '3'])
  })

  test('a contract is used once, and a repeat answers the first receipt, within one transaction too', async () => {
    const { prepared: issued } = await ada.run(issue(ada, ada, '5'))
    await stage.db.tx(async (tx) => {
      const inside = { ...stage, db: tx }
      const split = exercise(createdId(issued), 'Split', { amount: '2' })
      const [one, two] = [
        await acting(inside, ada.party).prepare([split]),
        await acting(inside, ada.party).prepare([split]),
      ]
      const submit = (prepared: Prepared, now = stage.now()) =>
        stage.ledger.submit(tx, stage.tenantId, prepared.bytes, ada.sign(prepared.payload), now)
      const receipt = await submit(one)
      await refusal(() => submit(two), 'contract_archived')
      await refusal(() => acting(inside, ada.party).prepare([split]), 'contract_archived')
      expect(await submit(one, new Date(Date.now() + 1e9))).toEqual(receipt)
    })
    expect(await amounts(ada)).toEqual(['2', '3'])
  })
})
