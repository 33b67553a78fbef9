import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { executeBeside, expectStatus, type Holder, newHolder, newSession, type Session } from '../delegated.fixture.ts'
import {
  addCosts,
  type Caps,
  commandOf,
  type Deed,
  OFFER_CHOICES,
  OUTSIDE,
  outcomeOf,
  type Token,
  tokenOf,
  tokensIn,
  unitsOf,
} from './conservation.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const SYMBOLS = ['USDX', 'EURX']
const TEMPLATES = ['Token:Holding', 'Token:TransferOffer']
const ISSUED = 100n * 10n ** 10n

interface Agent {
  holder: Holder
  session: Session
  caps: Caps
}

/** Wallets with tokens, and sessions with caps. */
interface World {
  tenant: Tenant
  holders: Holder[]
  agents: Agent[]
  tokens: Map<string, Token>
}

async function newWorld(
  holderCount: number,
  caps: readonly (readonly [owner: number, usdx: number, eurx: number])[],
): Promise<World> {
  const tenant = await service.newTenant()
  const holders = await Promise.all(Array.from({ length: holderCount }, () => newHolder(tenant)))
  const tokens = new Map<string, Token>()
  for (const holder of holders)
    for (const symbol of SYMBOLS) {
      const contractId = await holder.receive('100', symbol)
      const { party: owner } = holder
      tokens.set(contractId, { contractId, isOffer: false, symbol, owner, receiver: null, units: ISSUED, active: true })
    }
  const agents = await Promise.all(
    caps.map(async ([owner, ...limits]): Promise<Agent> => {
      const holder = holders[owner] as Holder
      const spend = SYMBOLS.map((symbol, n) => ({
        asset: { issuer: holder.issuer, symbol },
        amount: String(limits[n]),
      }))
      const allow = TEMPLATES.map((templateId) => ({ templateId, actions: ['exercise'] }))
      const policy = { allow, spend, query: { templateIds: TEMPLATES } }
      const session = await newSession(service, tenant, holder, { policy })
      const own = SYMBOLS.map((symbol, n) => [symbol, { limit: BigInt(limits[n] as number) * 10n ** 10n, spent: 0n }])
      return { holder, session, caps: Object.fromEntries(own) }
    }),
  )
  return { tenant, holders, agents, tokens }
}

/** How a random deed comes to be: of which contract, which choice, how much of it, to whom. */
const Plan = fc.record({
  choice: fc.constantFrom('Transfer', 'Transfer', 'Split', 'Merge', 'Offer', 'Offer', 'Accept', 'Reject', 'Withdraw'),
  of: fc.oneof({ weight: 15, arbitrary: fc.constant('own') }, { weight: 1, arbitrary: fc.constant('any') }),
  pick: fc.nat(99),
  others: fc.array(fc.nat(99), { minLength: 1, maxLength: 3 }),
  // All of it where there is none; now and then nothing, or more than there is.
  percent: fc.oneof(
    { weight: 15, arbitrary: fc.integer({ min: 1, max: 100 }) },
    { weight: 1, arbitrary: fc.constantFrom(0, 101, 250) },
    { weight: 2, arbitrary: fc.constant(null) },
  ),
  to: fc.nat(9),
})
type Plan = typeof Plan extends fc.Arbitrary<infer T> ? T : never

/** The deed that a plan comes to: mostly of what the actor has and has not used in this call, so that most succeed. */
function deedOf({ holders, tokens }: World, actor: string, plan: Plan, used: Set<Token>): Deed {
  const { pick, percent } = plan
  const all = [...tokens.values()]
  const free = all.filter((token) => token.active && !used.has(token))
  const offers = (choice: string) =>
    free.filter((token) => token.isOffer && (choice === 'Withdraw' ? token.owner : token.receiver) === actor)
  const isOfOffer = OFFER_CHOICES.includes(plan.choice)
  // Where there is no offer, one is made.
  const choice = (
    isOfOffer && plan.of === 'own' && offers(plan.choice).length === 0 ? 'Offer' : plan.choice
  ) as Deed['choice']
  const own = OFFER_CHOICES.includes(choice)
    ? offers(choice)
    : free.filter((token) => !token.isOffer && token.owner === actor)
  const pool = plan.of === 'own' && own.length > 0 ? own : all
  const token = pool[pick % pool.length] as Token
  used.add(token)
  const { contractId } = token
  const receivers = [OUTSIDE, ...holders.map((holder) => holder.party)]
  const receiver = receivers[plan.to % receivers.length] as string
  const units = percent === null ? null : (token.units * BigInt(percent)) / 100n
  if (choice === 'Merge') {
    const alike = pool.filter((other) => other !== token && (plan.of === 'any' || other.symbol === token.symbol))
    if (alike.length === 0) return { choice: 'Split', contractId, units: units ?? token.units }
    const others = plan.others.map((n) => alike[n % alike.length] as Token)
    for (const other of others) used.add(other)
    return { choice, contractId, others: [...new Set(others.map((other) => other.contractId))] }
  }
  if (choice === 'Split') return { choice, contractId, units: units ?? token.units }
  if (choice === 'Transfer' || choice === 'Offer') return { choice, contractId, receiver, units }
  return { choice, contractId }
}

/** All that a session's wallet has or is offered. */
async function heldBy({ session }: Agent): Promise<Token[]> {
  const held: Token[] = []
  let cursor: string | null = null
  do {
    const page: Answer['body']['data'] = expectStatus(await session.query({ limit: 100, cursor }), 200)
    for (const { contractId, templateId, arguments: fields } of page.contracts)
      held.push(tokenOf(contractId, templateId, fields))
    cursor = page.nextCursor
  } while (cursor !== null)
  return held
}

const inOrder = (tokens: readonly Token[]) => [...tokens].sort((a, b) => (a.contractId < b.contractId ? -1 : 1))

/** That a wallet has what the model says, and its session's caps say what was spent. */
async function expectState(world: World, agent: Agent): Promise<void> {
  const { party } = agent.holder
  const expected = [...world.tokens.values()].filter(
    (token) => token.active && (token.owner === party || token.receiver === party),
  )
  expect(inOrder(await heldBy(agent))).toEqual(inOrder(expected))
  const { remaining } = expectStatus(await world.tenant.get(`/delegated-sessions/${agent.session.id}`), 200)
  for (const { asset, spent, limit } of remaining.spend) {
    const cap = agent.caps[asset.symbol] as Caps[string]
    expect({ spent: unitsOf(spent), limit: unitsOf(limit) }).toEqual(cap)
    expect(cap.spent <= cap.limit).toBe(true)
  }
}

/** That of each asset there is as much on the ledger as was issued, whoever has it. */
async function expectConserved({ tenant, holders }: World): Promise<void> {
  const rows = await service.sql<{ symbol: string; total: string }>(
    `select arguments->>'symbol' as symbol, sum((arguments->>'amount')::numeric)::text as total
     from ledger_contracts where tenant_id = $1 and archived_offset is null group by 1`,
    [tenant.tenantId],
  )
  const issued = ISSUED * BigInt(holders.length)
  expect(Object.fromEntries(rows.map(({ symbol, total }) => [symbol, unitsOf(total)]))).toEqual(
    Object.fromEntries(SYMBOLS.map((symbol) => [symbol, issued])),
  )
}

/** Commands that one random call has at most. */
const COMMANDS_MAX = 4

/** What happens in one step of a random run. */
const Step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ agent: fc.nat(9), plans: fc.array(Plan, { minLength: 1, maxLength: COMMANDS_MAX }) }),
  },
  { weight: 1, arbitrary: fc.record({ repeated: fc.nat(99), otherwise: fc.boolean() }) },
)

/** A call that was answered with success. */
interface Done {
  agent: Agent
  body: { commandId: string; commands: object[] }
  text: string
}

/** Executes random deeds; the model says beforehand what comes of it. */
async function execute(world: World, agent: Agent, plans: readonly Plan[], commandId: string): Promise<Done | null> {
  const { party } = agent.holder
  const used = new Set<Token>()
  const deeds = plans.map((plan) => deedOf(world, party, plan, used))
  const outcome = outcomeOf(world.tokens, party, deeds, agent.caps)
  const body = { commandId, commands: deeds.map(commandOf) }
  const answer = await agent.session.execute(body)
  if ('code' in outcome) {
    expect(`${answer.body.code}`, answer.text).toBe(outcome.code)
    return null
  }
  expectStatus(answer, 200)
  const made = tokensIn(answer, 'created')
  expect(made.map(({ contractId: _, active: __, ...token }) => token)).toEqual(outcome.made)
  expect(inOrder(tokensIn(answer, 'archived')).map(({ contractId }) => contractId)).toEqual(
    inOrder(outcome.archived).map(({ contractId }) => contractId),
  )
  for (const token of outcome.archived) token.active = false
  for (const token of made) world.tokens.set(token.contractId, token)
  for (const [symbol, units] of outcome.costs) (agent.caps[symbol] as Caps[string]).spent += units
  return { agent, body, text: answer.text }
}

/** A repeat answers the same, and other commands under its id are a conflict. */
async function repeat({ agent, body, text }: Done, otherwise: boolean): Promise<void> {
  const commands = otherwise ? [...body.commands, ...body.commands] : body.commands
  const answer = await agent.session.execute({ ...body, commands })
  if (otherwise) expect([answer.status, answer.body.code]).toEqual([409, 'duplicate_command'])
  else expect([answer.status, answer.text]).toEqual([200, text])
}

const Cap = fc.integer({ min: 0, max: 150 })

test('whatever is done in whatever order, nothing is lost or made, and what is spent is what left, within its cap', async () => {
  const counts = { done: 0, refused: 0, repeated: 0 }
  const run = fc.asyncProperty(
    fc.array(Cap, { minLength: 6, maxLength: 6 }),
    fc.array(Step, { minLength: 10, maxLength: 25 }),
    async (caps, steps) => {
      const world = await newWorld(
        3,
        [0, 1, 2].map((n) => [n, caps[2 * n] as number, caps[2 * n + 1] as number] as const),
      )
      const done: Done[] = []
      for (const [index, step] of steps.entries()) {
        if ('repeated' in step) {
          const before = done[step.repeated % Math.max(1, done.length)]
          if (before === undefined) continue
          await repeat(before, step.otherwise)
          await expectState(world, before.agent)
          counts.repeated += 1
          continue
        }
        const agent = world.agents[step.agent % world.agents.length] as Agent
        const made = await execute(world, agent, step.plans, `step-${index}`)
        if (made !== null) done.push(made)
        counts[made === null ? 'refused' : 'done'] += 1
        await expectState(world, agent)
      }
      for (const agent of world.agents) await expectState(world, agent)
      await expectConserved(world)
    },
  )
  await fc.assert(run, { numRuns: 16, interruptAfterTimeLimit: 90_000 })
  // Neither side is the exception.
  expect(Math.min(...Object.values(counts)), JSON.stringify(counts)).toBeGreaterThan(5)
})

/** What may come of a call when others are under way. */
const REFUSALS = [
  'arguments_invalid',
  'authorization_missing',
  'contract_archived',
  'contract_not_found',
  'spend_limit_exceeded',
]

/** Executes what the model of a moment ago proposes, several calls at once, some of them twice. */
async function storm(world: World, calls: readonly { agent: number; plans: Plan[]; twice: boolean }[], round: number) {
  const answers = await Promise.all(
    calls.flatMap(({ agent: n, plans, twice }, index) => {
      const agent = world.agents[n % world.agents.length] as Agent
      const used = new Set<Token>()
      const commands = plans.map((plan) => commandOf(deedOf(world, agent.holder.party, plan, used)))
      const body = { commandId: `storm-${round}-${index}`, commands }
      return Array.from({ length: twice ? 3 : 1 }, async (_, n) => ({
        agent,
        index,
        // Of several API keys: so they take no turns, as if they came to several processes.
        answer: await executeBeside(agent.session, body, (index + n) % 4),
      }))
    }),
  )
  const succeeded = new Map<number, { agent: Agent; answer: Answer }>()
  for (const { agent, index, answer } of answers) {
    if (answer.status !== 200) expect(REFUSALS, answer.text).toContain(answer.body.code)
    else if (succeeded.has(index)) expect(answer.text).toBe(succeeded.get(index)?.answer.text)
    else succeeded.set(index, { agent, answer })
  }
  // All at first: one may have archived what another made.
  for (const { answer } of succeeded.values())
    for (const token of tokensIn(answer, 'created')) world.tokens.set(token.contractId, token)
  for (const { agent, answer } of succeeded.values()) {
    const archived = tokensIn(answer, 'archived')
    for (const { contractId } of archived) {
      const token = world.tokens.get(contractId) as Token
      expect(token.active, 'used twice').toBe(true)
      token.active = false
    }
    const costs = new Map<string, bigint>()
    for (let command = 0; command < COMMANDS_MAX; command += 1)
      addCosts(costs, tokensIn(answer, 'archived', command), tokensIn(answer, 'created', command), agent.holder.party)
    for (const [symbol, units] of costs) (agent.caps[symbol] as Caps[string]).spent += units
  }
  return succeeded.size
}

test('so it is when several sessions of the same wallets act at the same time, and repeat themselves', async () => {
  let succeeded = 0
  const Call = fc.record({
    agent: fc.nat(9),
    plans: fc.array(Plan, { minLength: 1, maxLength: 2 }),
    twice: fc.boolean(),
  })
  const run = fc.asyncProperty(
    fc.array(Cap, { minLength: 8, maxLength: 8 }),
    fc.array(fc.array(Call, { minLength: 10, maxLength: 20 }), { minLength: 2, maxLength: 4 }),
    async (caps, rounds) => {
      // Two sessions on each of two wallets.
      const world = await newWorld(
        2,
        [0, 0, 1, 1].map((owner, n) => [owner, caps[2 * n] as number, caps[2 * n + 1] as number] as const),
      )
      for (const [round, calls] of rounds.entries()) {
        succeeded += await storm(world, calls, round)
        for (const agent of world.agents) await expectState(world, agent)
        await expectConserved(world)
      }
    },
  )
  await fc.assert(run, { numRuns: 10, interruptAfterTimeLimit: 90_000 })
  expect(succeeded).toBeGreaterThan(30)
})
