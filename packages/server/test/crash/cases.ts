import type { Allowance, CrashService, Outcome, Payment, Wallet } from './service.ts'

/** What was spent against what was allowed. */
export interface CrashResult {
  allowed: number
  spent: number
  /** Payments that were answered as paid. */
  paid: number
  refused: number
  unknown: number
}

/** One way to make a service overspend. It has two processes at least. */
export interface CrashCase {
  name: string
  /**
   * Whether the second process's clock is an hour ahead of the others'. It may then give up a payment that another one is at, so
   * less than the cap may be spent.
   */
  clocksApart?: boolean
  allowance: Partial<Allowance>
  /** How much may leave the wallet at most, where it is not the cap. */
  allowed?(allowance: Allowance): number
  run(scene: Scene): Promise<void>
}

/** A case that is under way. */
interface Scene {
  service: CrashService
  processes: number
  wallet: Wallet
  allowance: Allowance
  /** How often something is killed. */
  rounds: number
  pay(payment: Payment): Promise<void>
  /** Whether a payment was answered as paid. */
  isPaid(payment: Payment): boolean
}

/** How many payments are under way at once. */
const AT_ONCE = 8

const numbers = (from: number, until: number) => Array.from({ length: until - from }, (_, n) => from + n)

/** Does it with all of them, some at once. */
async function each<T>(all: readonly T[], act: (one: T) => Promise<void>): Promise<void> {
  const left = [...all]
  const lane = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) await act(next)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
}

/** Twice as many payments as the cap allows, by turns of the agents and processes. */
const twice = ({ allowance: { cap, agents } }: Scene, processes: number): Payment[] =>
  numbers(0, 2 * cap).map((number) => ({ number, agent: number % agents, process: number % processes }))

export const CASES: readonly CrashCase[] = [
  {
    name: 'a restart in the middle',
    allowance: {},
    async run(scene) {
      const payments = twice(scene, 1)
      const half = scene.allowance.cap / 2
      await each(payments.slice(0, half), scene.pay)
      await scene.service.stop(0)
      await scene.service.start(0)
      await each(payments.slice(half), scene.pay)
    },
  },
  {
    name: 'kill -9 among payments, all asked for again',
    allowance: {},
    async run(scene) {
      const payments = twice(scene, 1)
      for (let round = 0; round < scene.rounds; round += 1) {
        let answered = 0
        const open = payments.filter((payment) => !scene.isPaid(payment))
        await each(open, async (payment) => {
          await scene.pay(payment)
          answered += 1
          if (answered === 3) await scene.service.kill(0)
        })
        await scene.service.start(0)
      }
      await each(payments, scene.pay)
    },
  },
  {
    name: 'all processes at once',
    allowance: {},
    run: (scene) => each(twice(scene, scene.processes), scene.pay),
  },
  {
    name: 'another asset',
    allowance: {},
    allowed: () => 0,
    run: ({ allowance, pay }) =>
      each(
        numbers(0, allowance.cap).map((number) => ({ number, agent: 0, process: 0, other: true })),
        pay,
      ),
  },
  {
    name: 'three agents of one wallet',
    allowance: { agents: 3, of: 'wallet' },
    run: (scene) => each(twice(scene, 2), scene.pay),
  },
  {
    name: 'two processes whose clocks are an hour apart',
    clocksApart: true,
    allowance: { window: 'day', of: 'wallet' },
    run: (scene) => each(twice(scene, 2), scene.pay),
  },
  {
    name: 'one payment asked for twenty times at once',
    allowance: {},
    allowed: () => 1,
    async run({ pay }) {
      await Promise.all(numbers(0, 20).map((n) => pay({ number: 0, agent: 0, process: n % 2 })))
    },
  },
  {
    name: 'the token of a revoked agent',
    allowance: {},
    allowed: ({ cap }) => cap / 2,
    async run(scene) {
      const payments = twice(scene, 2)
      const half = scene.allowance.cap / 2
      await each(payments.slice(0, half), scene.pay)
      await scene.wallet.revoke(0)
      await each(payments.slice(half), scene.pay)
    },
  },
]

/** Runs a case with so many processes. `cap`: how many units are allowed in it, an even number. */
export async function runCase(
  { allowance: wanted, allowed, run }: CrashCase,
  service: CrashService,
  { processes, cap, rounds }: { processes: number; cap: number; rounds: number },
): Promise<CrashResult> {
  const allowance: Allowance = { cap, agents: 1, of: 'agent', window: 'lifetime', units: 2 * cap, ...wanted }
  const wallet = await service.newWallet(allowance)
  // What a payment was answered at last. Asked for again, one that was paid stays so.
  const outcomes = new Map<number, Outcome>()
  const isPaid = ({ number }: Payment) => outcomes.get(number) === 'paid'
  const pay = async (payment: Payment) => {
    const outcome = await wallet.pay(payment)
    if (!isPaid(payment)) outcomes.set(payment.number, outcome)
  }
  await run({ service, processes, wallet, allowance, rounds, pay, isPaid })
  const count = (wanted: Outcome) => [...outcomes.values()].filter((outcome) => outcome === wanted).length
  return {
    allowed: allowed?.(allowance) ?? cap,
    spent: await wallet.spent(),
    paid: count('paid'),
    refused: count('refused'),
    unknown: count('unknown'),
  }
}
