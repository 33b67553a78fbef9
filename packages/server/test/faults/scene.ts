import { expect } from 'vitest'
import { type Answer, eventually } from '../harness/harness.ts'

export const BOB = `bob::1220${'b0'.repeat(32)}`

/** The service, and its database, however many processes they are. */
export interface SceneService {
  call(method: string, path: string, body?: object, headers?: Record<string, string>): Promise<Answer>
  sql<Row extends object>(text: string, values?: unknown[]): Promise<Row[]>
}

async function made(
  service: SceneService,
  path: string,
  body: object,
  headers?: Record<string, string>,
): Promise<Answer['body']> {
  const answer = await service.call('POST', path, body, headers)
  expect([200, 201], answer.text).toContain(answer.status)
  return answer.body.data
}

export const transfer = (contractId: string, amount: string | undefined, receiver: string) => ({
  exercise: {
    templateId: 'Token:Holding',
    contractId,
    choice: 'Transfer',
    arguments: { receiver, ...(amount === undefined ? {} : { amount }) },
  },
})

interface Owner {
  userId: string
  party: string
  asUser: Record<string, string>
}

async function newOwner(service: SceneService, ledger: string): Promise<Owner> {
  const userId = (await made(service, '/users', {})).id
  const asUser = { 'x-user-id': userId }
  const { partyId } = await made(service, '/users/me/wallet', { ledger }, asUser)
  await eventually('a wallet that is ready', async () => {
    const { body } = await service.call('GET', `/users/${userId}/wallet`)
    return body.data.status === 'ready'
  })
  return { userId, party: partyId, asUser }
}

const policyOf = ({ party }: Owner, amount: string) => ({
  allow: [{ templateId: 'Token:Holding' }],
  spend: [{ asset: { issuer: `issuer::${party.split('::')[1]}`, symbol: 'USDX' }, amount }],
  query: { templateIds: ['Token:Holding'] },
})

/** Somebody on a ledger with so many holdings, and a session that may spend so much of them. */
export async function newScene(
  service: SceneService,
  ledger: string,
  { holdings, of, cap }: { holdings: number; of: string; cap: string },
) {
  const owner = await newOwner(service, ledger)
  // The faucet is the embedded ledger's own: what is for another wallet goes through one of that.
  const giver = ledger === 'embedded' ? owner : await newOwner(service, 'embedded')
  const giving = await made(service, '/delegated-sessions', { policy: policyOf(giver, '1000') }, giver.asUser)
  const ids: string[] = []
  for (let n = 0; n < holdings; n += 1) {
    const given = await made(service, '/dev/faucet', { userId: giver.userId, symbol: 'USDX', amount: of })
    if (giver === owner) {
      ids.push(given.contractId)
      continue
    }
    const commands = [transfer(given.contractId, undefined, owner.party)]
    const { effects } = await made(service, `/delegated-sessions/${giving.id}/execute`, { commands })
    ids.push(effects.find((effect: { type: string }) => effect.type === 'created').contractId)
  }
  const session = await made(service, '/delegated-sessions', { policy: policyOf(owner, cap) }, owner.asUser)
  return { ids, sessionId: session.id as string, path: `/delegated-sessions/${session.id}/execute` }
}

export type Scene = Awaited<ReturnType<typeof newScene>>

/** That what the session counts is what happened, each told of once, and nothing is open. @returns how many completed */
export async function expectWhole(service: SceneService, scene: Scene): Promise<number> {
  const rows = await service.sql<{ id: string; status: string }>(
    'select id, status from transactions where delegated_session_id = $1',
    [scene.sessionId],
  )
  const idsOf = (status: string) => rows.flatMap((row) => (row.status === status ? [row.id] : [])).sort()
  expect(idsOf('completed').length + idsOf('failed').length).toBe(rows.length)
  const told = async (type: string) => {
    const bodies = await service.sql<{ body: string }>('select body from events where type = $1', [type])
    const data = bodies.map(({ body }) => JSON.parse(body).data)
    return data.filter((each) => each.delegatedSessionId === scene.sessionId).map((each) => each.transactionId)
  }
  expect((await told('tx.completed')).sort()).toEqual(idsOf('completed'))
  expect((await told('tx.failed')).sort()).toEqual(idsOf('failed'))
  const [bobs] = await service.sql<{ sum: string }>(
    `select coalesce(sum((arguments ->> 'amount')::numeric), 0)::text as sum from ledger_contracts
     where arguments ->> 'owner' = $1 and archived_offset is null`,
    [BOB],
  )
  const { uses, remaining } = (await service.call('GET', `/delegated-sessions/${scene.sessionId}`)).body.data
  expect(uses).toBe(idsOf('completed').length)
  expect(remaining.spend[0].spent).toBe(bobs?.sum)
  return idsOf('completed').length
}
