// A service that is in league with its participant: what it hands to a client is not what was asked for, and its hash fits.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { CantonError, executeOnCanton, readOnboarding, signOnboarding } from '../../../keys/src/canton/index.ts'
import type { Model } from '../../../keys/test/canton/model.ts'
import { type CantonService, ISSUER, pay, startCanton } from './canton.fixture.ts'
import { addBelow, EVE, forgedOnboarding, forgedTransaction, madeBy, NEW_ID, nodeOf, rootOf, set } from './forged.ts'
import {
  delegated,
  lying,
  newOwn,
  newShared,
  type Place,
  ready,
  receive,
  refusal,
  type SharedOwner,
} from './owner.fixture.ts'
import { PARTICIPANT } from './participant.ts'
import { SYNCHRONIZER } from './sequenced.ts'

let service: CantonService
let place: Place
beforeAll(async () => {
  service = await startCanton({}, { HALFKEY_RATE_LIMITS: 'off' })
  place = { service, tenant: await service.newTenant() }
})
afterEach(() => service.participant.heal())
afterAll(() => service.stop())

describe('for its party, a key does not sign', () => {
  type Waiting = Parameters<typeof forgedOnboarding>[0]
  const LIES: [string, (waiting: Waiting, key: Buffer) => void, code: string][] = [
    ['for another key', (waiting) => forgedOnboarding(waiting, Buffer.alloc(32, 7), null), 'topology_mismatch'],
    [
      'for a second participant',
      (waiting, key) =>
        forgedOnboarding(waiting, key, ({ participants }) =>
          participants.push({ participant_uid: EVE, permission: 2 }),
        ),
      'topology_mismatch',
    ],
    [
      'for a second participant that only looks on',
      (waiting, key) =>
        forgedOnboarding(waiting, key, ({ participants }) =>
          participants.push({ participant_uid: EVE, permission: 3 }),
        ),
      'topology_mismatch',
    ],
    [
      'for a participant that may act by itself',
      (waiting, key) =>
        forgedOnboarding(waiting, key, (hosting) => {
          hosting.participants = [{ participant_uid: PARTICIPANT, permission: 1 }]
        }),
      'topology_mismatch',
    ],
    [
      'for another party',
      (waiting, key) =>
        forgedOnboarding(waiting, key, (hosting) => {
          hosting.party = `x${hosting.party}`
        }),
      'topology_mismatch',
    ],
    [
      'for a party of another key that the service calls the wallet’s',
      (waiting) => {
        waiting.partyId = EVE
        forgedOnboarding(waiting, Buffer.alloc(32, 7), null)
      },
      'topology_mismatch',
    ],
    [
      'another hash',
      (waiting) => {
        for (const each of waiting.toSign) each.payload = `1220${'ab'.repeat(32)}`
      },
      'hash_mismatch',
    ],
    ['a second payload', ({ toSign }) => toSign.push({ payload: '00' }), 'hash_mismatch'],
    [
      'what it cannot read',
      (waiting) => {
        waiting.prepared = 'AAAA'
      },
      'malformed',
    ],
  ]
  test.each(LIES)('%s', async (_, lie, code) => {
    const owner = await newShared(place)
    const client = lying(owner.mine, 'wallets', 'onboarding', (waiting: Waiting) =>
      lie(waiting, Buffer.from(owner.key.publicKey, 'hex')),
    )
    let asked = 0
    const approve = () => {
      asked += 1
    }
    const error = await refusal(signOnboarding(client, { key: owner.key, approve }))
    expect(error).toBeInstanceOf(CantonError)
    expect(error).toMatchObject({ code })
    expect(asked).toBe(0)
    const waiting = await owner.mine.wallets.onboarding(owner.walletId)
    expect(waiting.state).toBe('signature_required')
  })

  test('a participant other than the one it knows', async () => {
    const owner = await newOwn(place)
    const error = await refusal(signOnboarding(owner.mine, { key: owner.key, participant: EVE }))
    expect(error).toMatchObject({ code: 'topology_mismatch' })
    const { prepared } = await owner.mine.wallets.onboarding(owner.walletId)
    const { publicKey } = owner.key
    expect(readOnboarding(prepared as string, { party: owner.party, publicKey }).participant).toBe(PARTICIPANT)
  })
})

describe('of a wallet, a key does not sign a transaction with', () => {
  const LIES: [string, (model: Model) => unknown, RegExp][] = [
    ['another receiver', (model) => set(rootOf(model).chosen_value, 'receiver', { party: EVE }), /what was asked/],
    [
      'another amount',
      (model) => set(rootOf(model).chosen_value, 'amount', { numeric: '4.0000000000' }),
      /what was asked/,
    ],
    ['another choice', (model) => (rootOf(model).choice_id = 'Burn'), /what was asked/],
    ['another contract', (model) => (rootOf(model).contract_id = `00${'ab'.repeat(32)}`), /what was asked/],
    [
      'the code of another package',
      (model) => (rootOf(model).template_id.package_id = 'dd'.repeat(32)),
      /what was asked/,
    ],
    ['another party that acts', ({ metadata }) => (metadata.submitter_info.act_as = [EVE]), /another party/],
    ['a party more that acts', ({ metadata }) => metadata.submitter_info.act_as.push(EVE), /another party/],
    ['another party at its root', (model) => (rootOf(model).acting_parties = [EVE]), /another party/],
    [
      'a root more',
      ({ transaction }) => {
        const create = { ...madeBy({ transaction } as Model), contract_id: NEW_ID }
        transaction.nodes.push({ node_id: '9', v1: { create } })
        transaction.node_seeds.push({ node_id: 9, seed: '77'.repeat(32) })
        transaction.roots.push('9')
      },
      /more than was asked/,
    ],
    [
      'a node more: a contract of another template',
      (model) => {
        const create = structuredClone({ ...madeBy(model), contract_id: NEW_ID })
        create.template_id.entity_name = 'Debt'
        addBelow(model, { create })
      },
      /also creates a contract of .*Debt/,
    ],
    [
      'a node more: another payment',
      (model) =>
        addBelow(model, {
          exercise: { ...structuredClone(rootOf(model)), contract_id: NEW_ID, children: [] },
        }),
      /also exercises Transfer/,
    ],
    [
      'a rest that goes to somebody else',
      ({ transaction }) => {
        const { create } = nodeOf<{ create: ReturnType<typeof madeBy> }>(transaction, 2)
        create.stakeholders = [ISSUER, EVE]
        set(create.argument, 'owner', { party: EVE })
      },
      /who was not named/,
    ],
    ['somebody who looks on', (model) => (rootOf(model).choice_observers = [EVE]), /shows what happens to eve/],
    ['a part that is undone', (model) => addBelow(model, { rollback: { children: [] } }), /cannot be judged/],
    [
      'an end long after now',
      ({ metadata }) =>
        (metadata.max_record_time = String(BigInt(metadata.max_record_time as string) + 86_400_000_000n)),
      /long after now/,
    ],
    ['no end', ({ metadata }) => delete metadata.max_record_time, /long after now/],
    ['another synchronizer', ({ metadata }) => (metadata.synchronizer_id = EVE), /another synchronizer/],
    ['another command id', ({ metadata }) => (metadata.submitter_info.command_id = 'hk-other'), /another command id/],
  ]
  let owner: SharedOwner
  beforeAll(async () => {
    owner = await ready(await newShared(place))
  })

  /** Pays by a service whose answer is changed. */
  async function payBy(lie: (request: { preparedTransaction: string; digest: string }, model: Model) => void) {
    const { sessionId, delegate } = await delegated(owner)
    let model: Model | undefined
    service.participant.lie = (prepared) => {
      model = structuredClone(prepared)
    }
    type Asked = { signingRequest: { preparedTransaction: string; digest: string } | null }
    const client = lying(delegate, 'delegatedSessions', 'execute', ({ signingRequest }: Asked) => {
      if (signingRequest !== null) lie(signingRequest, model as Model)
    })
    return executeOnCanton(client, {
      sessionId,
      key: owner.key,
      commands: [pay(receive(owner), '3')],
      synchronizer: SYNCHRONIZER,
      hashVersion: 'V3',
    })
  }

  test.each(LIES)('%s', async (_, lie, words) => {
    const accepted = service.participant.outcomes().accepted
    const error = await refusal(payBy((request, model) => forgedTransaction(request, model, lie)))
    expect(error).toBeInstanceOf(CantonError)
    expect(error).toMatchObject({ code: 'not_asked', message: expect.stringMatching(words) })
    expect(service.participant.outcomes().accepted).toBe(accepted)
  })

  test('another hash than that of its bytes, or bytes that were changed', async () => {
    const other = await refusal(
      payBy((request) => {
        request.digest = 'ab'.repeat(32)
      }),
    )
    expect(other).toMatchObject({ code: 'hash_mismatch' })
    const changed = await refusal(
      payBy((request) => {
        const kept = JSON.parse(Buffer.from(request.preparedTransaction, 'base64').toString())
        const bytes = Buffer.from(kept.envelope, 'base64')
        bytes[40] = (bytes[40] ?? 0) ^ 1
        const text = JSON.stringify({ ...kept, envelope: bytes.toString('base64') })
        request.preparedTransaction = Buffer.from(text).toString('base64')
      }),
    )
    expect(changed).toMatchObject({ code: 'changed' })
    const unread = await refusal(
      payBy((request) => {
        request.preparedTransaction = 'e30='
      }),
    )
    expect(unread).toMatchObject({ code: 'malformed' })
  })

  test('the hash that does not cover its end, where the caller knows that the ledger has the other', async () => {
    const error = await refusal(payBy((request, model) => forgedTransaction(request, model, () => undefined, 'V2')))
    expect(error).toMatchObject({ code: 'not_asked', message: 'it is hashed by V2' })
  })

  test('nothing changed: that one is signed', async () => {
    expect(await payBy((request, model) => forgedTransaction(request, model, () => undefined))).toMatchObject({
      status: 'completed',
    })
  })
})
