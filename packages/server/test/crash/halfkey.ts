/** Halfkey under the crash test: whole processes on one PostgreSQL, and agents who pay by their delegated sessions' tokens. */
import { fileURLToPath } from 'node:url'
import { newApiKey } from '../../src/platform/security/api-key.ts'
import { type Answer, eventually, newDatabase } from '../harness/harness.ts'
import { DataFolder, query, type ServiceProcess, startProcess } from '../harness/service-process.ts'
import type { Allowance, CrashAdapter, CrashService, Outcome, Payment, Wallet } from './service.ts'

const CLOCK = fileURLToPath(new URL('../faults/clock-ahead.mjs', import.meta.url))
const BOB = `bob::1220${'b0'.repeat(32)}`
const MONEY = 'USDX'
const OTHER = 'EURX'
/** How many units the faucet makes at once. */
const GIVEN_AT_ONCE = 4

/** An agent: its delegated session. */
interface Agent {
  id: string
  token: string
}

function outcomeOf({ status, body }: Answer): Outcome {
  if (status === 200) return body.data.status === 'completed' ? 'paid' : 'unknown'
  return status < 500 && status !== 408 && status !== 429 ? 'refused' : 'unknown'
}

/** The processes, on one database and with one key file. */
class Halfkey implements CrashService {
  readonly key = newApiKey('secret')
  readonly #folder = new DataFolder()
  readonly #processes: ServiceProcess[] = []
  readonly #database: { url: string; drop(): Promise<void> }
  readonly #clockAheadMs: number
  #publishable = ''

  constructor(database: { url: string; drop(): Promise<void> }, clockAheadMs: number) {
    this.#database = database
    this.#clockAheadMs = clockAheadMs
  }

  async start(process: number): Promise<void> {
    const isAhead = this.#clockAheadMs !== 0 && process === 1
    this.#processes[process] = await startProcess({
      cwd: this.#folder.path,
      env: this.#folder.env({
        DATABASE_URL: this.#database.url,
        HALFKEY_ADMIN_KEY: this.key,
        HALFKEY_DATABASE_CONNECTIONS: '8',
        ...(isAhead ? { CLOCK_SHIFT_MS: String(this.#clockAheadMs) } : {}),
      }),
      nodeArgs: isAhead ? ['--import', CLOCK] : [],
    })
  }

  kill = async (process: number): Promise<void> => this.#of(process).kill()

  stop = async (process: number): Promise<void> => void (await this.#of(process).stop())

  async end(): Promise<void> {
    await this.#folder.remove()
    await this.#database.drop()
  }

  async newWallet({ cap, agents, of, window, units }: Allowance): Promise<Wallet> {
    this.#publishable ||= await this.#newPublishableKey()
    const { id: userId } = await this.#made('/users', {})
    const asUser = { 'x-user-id': userId }
    const wallet = await this.#made('/users/me/wallet', {}, asUser)
    const contracts = { [MONEY]: [] as string[], [OTHER]: [] as string[] }
    let issuer = ''
    for (const symbol of [MONEY, OTHER] as const)
      for (let given = 0; given < units; given += GIVEN_AT_ONCE) {
        const count = Math.min(GIVEN_AT_ONCE, units - given)
        const one = () => this.#made('/dev/faucet', { userId, symbol, amount: '1' })
        const made = await Promise.all(Array.from({ length: count }, one))
        contracts[symbol].push(...made.map(({ contractId }) => contractId))
        issuer = made[0]?.issuer
      }
    const asset = { issuer, symbol: MONEY }
    const each = of === 'wallet' ? units : cap
    const policy = {
      allow: [{ templateId: 'Token:Holding', actions: ['exercise'] }],
      spend: [{ asset, amount: String(each) }],
    }
    const delegates: Agent[] = []
    for (let n = 0; n < agents; n += 1) delegates.push(await this.#made('/delegated-sessions', { policy }, asUser))
    const budget = { asset, amount: String(cap), window: window === 'day' ? 'rolling_24h' : 'lifetime' }
    if (of === 'wallet') await this.#set(`/wallets/${wallet.id}/budgets`, { budgets: [budget] })
    return {
      pay: ({ number, agent, process, other = false }) => {
        const contractId = contracts[other ? OTHER : MONEY][number] as string
        return this.#pay(delegates[agent] as Agent, { process, number, contractId })
      },
      revoke: async (agent) => {
        const { id } = delegates[agent] as Agent
        const answer = await this.#of(0).call(this.key, 'DELETE', `/delegated-sessions/${id}`)
        if (answer.status !== 200) throw new Error(`revocation: ${answer.status} ${answer.text}`)
      },
      spent: () => this.#spent(Object.values(contracts).flat(), delegates),
    }
  }

  async #newPublishableKey(): Promise<string> {
    const { body } = await this.#of(0).call(this.key, 'GET', '/apps')
    return (await this.#made('/api-keys', { name: 'agents', type: 'publishable', appId: body.data[0].id })).key
  }

  #of(process: number): ServiceProcess {
    return this.#processes[process] as ServiceProcess
  }

  async #made(path: string, body: object, headers: Record<string, string> = {}): Promise<Answer['body']> {
    const answer = await this.#of(0).call(this.key, 'POST', path, { body, headers })
    if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${answer.text}`)
    return answer.body.data
  }

  async #set(path: string, body: object): Promise<void> {
    const answer = await this.#of(0).call(this.key, 'PUT', path, { body })
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`)
  }

  async #pay(
    agent: Agent,
    { process, number, contractId }: Pick<Payment, 'process' | 'number'> & { contractId: string },
  ) {
    const exercise = { templateId: 'Token:Holding', contractId, choice: 'Transfer', arguments: { receiver: BOB } }
    return this.#of(process)
      .call(this.#publishable, 'POST', `/delegated-sessions/${agent.id}/execute`, {
        headers: { authorization: `Bearer ${agent.token}` },
        body: { commandId: `payment-${number}`, commands: [{ exercise }] },
      })
      .then(outcomeOf, (): Outcome => 'unknown')
  }

  /** How many of the wallet's units are another's by now, once no transaction of its agents is open. */
  async #spent(contracts: readonly string[], agents: readonly Agent[]): Promise<number> {
    const sql = <Row extends object>(text: string, values: unknown[]) =>
      query<Row>({ connectionString: this.#database.url }, text, values)
    const ids = agents.map(({ id }) => id)
    await eventually('every payment has an outcome', async () => {
      const open = await sql(
        `select from transactions where delegated_session_id = any($1) and status not in ('completed', 'failed')`,
        [ids],
      )
      return open.length === 0
    })
    const gone = await sql('select from ledger_contracts where contract_id = any($1) and archived_offset is not null', [
      contracts,
    ])
    return gone.length
  }
}

export const adapter: CrashAdapter = {
  name: 'Halfkey',
  async start({ processes, clockAheadMs }) {
    const service = new Halfkey(await newDatabase(), clockAheadMs)
    for (let process = 0; process < processes; process += 1) await service.start(process)
    return service
  },
}
