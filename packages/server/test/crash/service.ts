/** What an adapter of the crash test implements: a service that pays for agents, as whole processes. */

/** The outcome of a payment, as its answer says. `unknown`: there was no answer, or it does not say. */
export type Outcome = 'paid' | 'refused' | 'unknown'

/** How much is allowed, and to whom. */
export interface Allowance {
  /** How many single units of the money may leave the wallet. */
  cap: number
  /** Agents of the wallet, each with a separate token. */
  agents: number
  /** Whether the cap is one of the whole wallet; otherwise each agent has it. */
  of: 'wallet' | 'agent'
  /** For how long the cap counts. */
  window: 'lifetime' | 'day'
  /** Units in the wallet, of the money and of another one that is not allowed. */
  units: number
}

/** One payment of one unit. The same number again is the same payment. */
export interface Payment {
  number: number
  agent: number
  /** Which process is asked. */
  process: number
  /** Pays with the other money. */
  other?: boolean
}

/** A wallet with money, and agents who may spend some of it. */
export interface Wallet {
  pay(payment: Payment): Promise<Outcome>
  /** Takes away an agent's permission. Resolves once the service has answered that it did. */
  revoke(agent: number): Promise<void>
  /** How many units have left the wallet, as its ledger says: of all payments that have an outcome, once all have one. */
  spent(): Promise<number>
}

/** A running service. */
export interface CrashService {
  newWallet(allowance: Allowance): Promise<Wallet>
  /** `kill -9` of a process. */
  kill(process: number): Promise<void>
  /** The regular end of a process. */
  stop(process: number): Promise<void>
  /** Starts a process that has ended. Resolves once it serves. */
  start(process: number): Promise<void>
  /** Ends everything. */
  end(): Promise<void>
}

/** What an adapter's file exports as `adapter`. */
export interface CrashAdapter {
  name: string
  /** Starts so many processes over one store. `clockAheadMs`: how far the second one's clock is ahead of the others'. */
  start(options: { processes: number; clockAheadMs: number }): Promise<CrashService>
}
