// The reach of shared keys: key generation, co-signing beside other calls, recovery, reading shares.
import { createSharedWallet, executeShared, type HeldShare, releaseKey, reshare } from '../../keys/src/index.ts'
import { createClient } from '../../sdk/src/index.ts'
import { createThreads } from '../src/platform/security/threshold/threads.ts'
import {
  beginDkg,
  commitNonces,
  dealShares,
  dealSubshares,
  finishDkg,
  SHARED_SIGNERS,
  toHex,
} from '../src/platform/security/threshold/threshold.ts'
import { startHelper } from './children.ts'
import { median, medianSpread, ms, pause, spread, spreadText, whole } from './figures.ts'
import type { Outcome } from './main.ts'
import { errorsOf, type Measured, measure, type Run } from './measure.ts'
import type { Watched } from './proc.ts'
import { type Row, step } from './report.ts'
import { memoryText, openBed } from './service.ts'
import { firstTenant } from './tenant.ts'

const DKG_MAX_MS = 400
const SIGN_MAX_MS = 15
const RECOVER_MAX_MS = 60
const READS_MIN = 800
const SIGNATURES_A_SECOND = 20
const MOVED_MAX_MS = 10
const READS_CONNECTIONS = 16
const LOAD_A_SECOND = 1_000
const BOB = `bob::1220${'b0'.repeat(32)}`

interface Stage extends Measured {
  runs: number
}

interface User {
  token: string
  userId: string
  held: HeldShare
  recovery: HeldShare
}

const clientOf = (stage: Stage, more: { accessToken?: string; delegateToken?: string } = {}) =>
  createClient({
    baseUrl: `http://127.0.0.1:${stage.service.port}`,
    apiKey: stage.bed.key,
    trustOnFirstUse: true,
    ...more,
  })

async function timed<T>(times: number[], work: () => Promise<T>): Promise<T> {
  const startedAt = performance.now()
  const result = await work()
  times.push(performance.now() - startedAt)
  return result
}

function timeRow(what: string, times: readonly number[], maxMs: number): Row {
  const found = spread(times)
  return { what, measured: spreadText(found), floor: `p50 < ${maxMs} ms`, holds: found.p50 < maxMs }
}

/** A guest with a shared wallet; how long its key took is added to `times`. */
async function newUser(stage: Stage, times: number[]): Promise<User> {
  const guest = await clientOf(stage).guests.create()
  const mine = clientOf(stage, { accessToken: guest.accessToken })
  const { device, recovery } = await timed(times, () => createSharedWallet(mine))
  return { token: guest.accessToken, userId: guest.userId, held: device, recovery }
}

/** The arithmetic of all three participants of a key generation, one after the other: nothing of it can be left out. */
function bareDkg(count: number): string {
  const times = Array.from({ length: count }, () => {
    const startedAt = performance.now()
    const begun = [1, 2, 3].map((index) => beginDkg(index, SHARED_SIGNERS))
    const others = (index: number) => begun.map(({ round1 }) => round1).filter((each) => each.index !== index)
    const parts = begun.flatMap(({ state }) => dealSubshares(state, others(state.index)))
    for (const { state } of begun)
      finishDkg(
        state,
        others(state.index),
        parts.filter(({ to }) => to === state.index),
      )
    return performance.now() - startedAt
  })
  return `${ms(median(times))} of bare arithmetic for all three`
}

/** The arithmetic of the service's part alone, in the thread where the service does it. */
async function arithmeticRow(count: number): Promise<Row> {
  const threads = createThreads()
  const { sharing, shares } = dealShares(SHARED_SIGNERS)
  const [server, device] = shares as [HeldShare['share'], HeldShare['share']]
  const times: number[] = []
  for (let n = 0; n < count + 10; n += 1) {
    const { commitments } = commitNonces(device)
    await timed(times, () => threads.run('coSign', sharing, server, commitments, Buffer.alloc(32, n)))
  }
  await threads.close()
  return timeRow("the service's part of a co-signature, in its thread", times.slice(10), SIGN_MAX_MS)
}

/** A session on a user's wallet, and the first of its holdings. */
async function newSession(stage: Stage, { token: accessToken, userId }: User) {
  const drip = { userId, symbol: 'USDX', amount: '1000000' }
  const { contractId, issuer } = await clientOf(stage).dev.faucet(drip)
  const policy = {
    allow: [{ templateId: 'Token:Holding', actions: ['exercise' as const], choices: ['Transfer'] }],
    spend: [{ asset: { issuer, symbol: 'USDX' }, amount: '1000000000' }],
  }
  const mine = clientOf(stage, { accessToken })
  const { id: sessionId, token } = await mine.delegatedSessions.create({ policy, expiresInSeconds: 86_400 })
  return { sessionId, contractId, delegate: clientOf(stage, { delegateToken: token }) }
}

const transferOf = (contractId: string) => {
  const given = { receiver: BOB, amount: '0.01' }
  return [{ exercise: { templateId: 'Token:Holding', contractId, choice: 'Transfer', arguments: given } }]
}

/** Whole co-signed transfers, one after the other. */
async function transfersOf(stage: Stage, user: User) {
  const { sessionId, contractId: first, delegate } = await newSession(stage, user)
  let contractId = first
  return async () => {
    const { effects } = await executeShared(delegate, {
      sessionId,
      held: user.held,
      commands: transferOf(contractId),
    })
    const rest = effects.find((effect) => effect.type === 'created' && effect.arguments.owner !== BOB)
    contractId = rest?.contractId ?? ''
  }
}

/** The service's side of co-signing alone: what the delegate sends is made beforehand. */
async function coSignaturesOf(stage: Stage, user: User, count: number) {
  const { sessionId, contractId, delegate } = await newSession(stage, user)
  const made = Array.from({ length: count }, () => {
    const { index, hiding, binding } = commitNonces(user.held.share).commitments
    return { index, hiding: toHex(hiding), binding: toHex(binding) }
  })
  return async () => {
    const commitments = made.pop()
    if (commitments === undefined) throw new Error('too few commitments were made')
    await delegate.delegatedSessions.execute(sessionId, { commands: transferOf(contractId), commitments })
  }
}

/** What co-signing does to other calls: the same load, alone and beside it. */
async function besideRow(stage: Stage, users: readonly User[]): Promise<Row> {
  const count = Math.ceil(((stage.forMs + 5_000) * stage.runs * SIGNATURES_A_SECOND) / 1000 / users.length)
  const signers = await Promise.all(users.map((user) => coSignaturesOf(stage, user, count)))
  const paths = [`/v1/wallets/${users[0]?.held.walletId}`]
  const load = { connections: 16, warmUpMs: 1_000, paths, perSecond: LOAD_A_SECOND }
  const alone: Run[] = []
  const beside: Run[] = []
  const times: number[] = []
  let spentMs = 0
  for (let run = 0; run < stage.runs; run += 1) {
    step(`other calls, run ${run + 1}`)
    alone.push(await measure(stage, load))
    let over = false
    const startedAt = performance.now()
    const everyMs = (1000 * users.length) / SIGNATURES_A_SECOND
    const signing = signers.map(async (sign, at) => {
      await pause((everyMs * at) / users.length)
      while (!over) {
        const began = performance.now()
        await timed(times, sign)
        await pause(Math.max(0, everyMs - (performance.now() - began)))
      }
    })
    beside.push(await measure(stage, load))
    over = true
    await Promise.all(signing)
    spentMs += performance.now() - startedAt
  }
  const [before, after] = [alone, beside].map((runs) => medianSpread(runs.map((run) => run.latencyMs)))
  const moved = (after?.p99 ?? 0) - (before?.p99 ?? 0)
  const rate = whole((times.length / spentMs) * 1000)
  return {
    what: `GET /wallets/:id at ${whole(LOAD_A_SECOND)}/s beside ${rate} co-signatures a second (each ${spreadText(spread(times))})`,
    measured: `p99 ${moved.toFixed(1)} ms more`,
    floor: `< ${MOVED_MAX_MS} ms more, beside ${SIGNATURES_A_SECOND}/s`,
    holds: moved < MOVED_MAX_MS && errorsOf([...alone, ...beside]) === 0,
    times: `alone ${spreadText(before as Run['latencyMs'])}; beside ${spreadText(after as Run['latencyMs'])}`,
  }
}

async function readRow(stage: Stage, user: User): Promise<Row> {
  const runs: Run[] = []
  const paths = [`/v1/mpc/shares/${user.held.walletId}`]
  for (let run = 0; run < stage.runs; run += 1) {
    step(`share reads, run ${run + 1}`)
    runs.push(await measure(stage, { connections: READS_CONNECTIONS, warmUpMs: 1_000, paths, token: user.token }))
  }
  const bare = await measure(stage, {
    connections: READS_CONNECTIONS,
    warmUpMs: 1_000,
    paths: [`/v1/wallets/${user.held.walletId}`],
  })
  const rate = median(runs.map((run) => run.perSecond))
  return {
    what: `GET /mpc/shares/:walletId, ${READS_CONNECTIONS} connections`,
    measured: `${whole(rate)}/s, ${errorsOf(runs)} errors`,
    floor: `≥ ${whole(READS_MIN)}/s, no errors`,
    holds: rate >= READS_MIN && errorsOf(runs) === 0,
    raw: `${whole(bare.perSecond)}/s: GET /wallets/:id`,
    runs: runs.map((run) => whole(run.perSecond)).join(', '),
    times: spreadText(medianSpread(runs.map((run) => run.latencyMs))),
  }
}

/** `npm run bench -- keys` */
export async function keys(quick: boolean): Promise<Outcome> {
  const bed = await openBed()
  const load = startHelper('load')
  try {
    const service = await bed.start()
    await firstTenant(bed)
    const watched: Watched = { service: { pid: service.pid } }
    const stage: Stage = { bed, service, load, runs: quick ? 1 : 3, forMs: quick ? 4_000 : 8_000, watched }
    const count = quick ? 10 : 40
    const made: number[] = []
    const users: User[] = []
    step('key generation')
    for (let n = 0; n < count; n += 1) users.push(await newUser(stage, made))
    const generation = timeRow('key generation, both sides, over HTTP', made.slice(3), DKG_MAX_MS)
    const rows = [{ ...generation, raw: bareDkg(count) }, await arithmeticRow(count)]
    const transfers: number[] = []
    const transfer = await transfersOf(stage, users[0] as User)
    for (let n = 0; n < count; n += 1) await timed(transfers, transfer)
    rows.push(timeRow('a co-signed transfer, both sides, over HTTP', transfers.slice(3), 200))
    rows.push(await besideRow(stage, users.slice(0, 4)), await readRow(stage, users[1] as User))
    step('recovery')
    const [released, reshared]: [number[], number[]] = [[], []]
    for (const { token, recovery } of users.slice(4)) {
      const mine = clientOf(stage, { accessToken: token })
      const { device } = await timed(reshared, () => reshare(mine, [recovery], () => {}))
      await timed(released, () => releaseKey(mine, device))
    }
    rows.push(timeRow('recover (release), both sides, over HTTP', released.slice(1), RECOVER_MAX_MS))
    rows.push(timeRow('resharing, both sides, over HTTP', reshared.slice(1), DKG_MAX_MS))
    const facts = [
      `PostgreSQL ${bed.postgresVersion} (embedded), service ${memoryText(service)}; one process here plays the users`,
      `logged: ${JSON.stringify(bed.complaints())}`,
    ]
    return { facts, rows }
  } finally {
    await load.end()
    await bed.close()
  }
}
