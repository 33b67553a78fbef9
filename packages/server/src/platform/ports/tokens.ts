import type { Command } from './ledger.ts'

/** Which token: the party that administers it, and its id there. Anybody may name a token alike: both count. */
interface Instrument {
  admin: string
  id: string
}

/** Why a holding cannot be spent now. */
interface HoldingLock {
  /** The parties without whom it stays locked. */
  holders: string[]
  expiresAt: Date | null
  /** In the words of whoever locked it. */
  context: string | null
}

/** A holding that is active on a ledger. */
export interface Holding {
  contractId: string
  owner: string
  instrument: Instrument
  /** As `parseAmount` reads it. */
  amount: string
  lock: HoldingLock | null
  /** By the ledger's clock. */
  createdAt: Date
}

/** A transfer that was offered and is neither accepted nor taken back: a contract that is active on a ledger. */
export interface Offer {
  contractId: string
  /** The first contract of the same transfer: each step of its way makes another one. */
  originalId: string
  sender: string
  receiver: string
  instrument: Instrument
  /** As `parseAmount` reads it. */
  amount: string
  requestedAt: Date
  /** From then on the registry should let nobody accept it. */
  executeBefore: Date
  /** Whose turn it is: the receiver's, or others' by the registry's own rules. */
  awaits: 'receiver' | 'others'
  /** What the sender wrote, such as a reason; null if it is too much to be kept. */
  meta: Record<string, string> | null
  /** By the ledger's clock. */
  createdAt: Date
}

/** How an offer can be answered: by its receiver, its receiver, and its sender. */
export type OfferAnswer = 'accept' | 'reject' | 'withdraw'

/** How an offer ended by somebody's choice. */
export type OfferOutcome = 'accepted' | 'rejected' | 'withdrawn'

/** What one transaction did to holdings and offers. */
export interface TokenUpdate {
  updateId: string
  offset: number
  recordedAt: Date
  created: Holding[]
  offered: Offer[]
  /** Ids of contracts that it used up, holdings or offers or neither. */
  archived: string[]
}

/** A place in a ledger's updates. */
export interface TokenPlace {
  offset: number
  /** The last update of tokens before it: a ledger that was restored has another one there, or none. */
  last: { offset: number; updateId: string } | null
}

/** Updates that follow a place. */
export interface TokenPage {
  updates: TokenUpdate[]
  /** Everything up to here was read. */
  offset: number
  /** The ledger's time there; null if it does not say. */
  at: Date | null
  hasMore: boolean
  /** Why the update at `offset` cannot be read; null if all were. Holdings are uncertain until all are read again. */
  skipped: 'oversize' | 'timeout' | null
}

/** The ledger cannot continue from a place: what follows it was pruned, or the ledger was restored to an earlier state. */
export class PlaceLost extends Error {}

/** A ledger's tokens, as whoever follows them sees them. All methods throw `LedgerError`. */
export interface Tokens {
  /** Which contracts count as holdings, in short, by the admin of their token. Where it changes, all are read again. */
  scopes: ReadonlyMap<string, string>
  /** The same of offers. */
  offerScopes: ReadonlyMap<string, string>
  /** The end of the ledger, and its time there; null if it does not say. */
  end(): Promise<{ offset: number; at: Date | null }>
  /** All holdings of a party as of an offset; `arguments_invalid` if they are too many to be read in `maxMs`. @throws PlaceLost */
  holdingsOf(party: string, offset: number, maxMs: number): Promise<Holding[]>
  /** All offers from or to it, likewise. Apart from the holdings: how many there are is up to others. */
  offersOf(party: string, offset: number, maxMs: number): Promise<Offer[]>
  /** What happened to the holdings and offers of all parties after a place. @throws PlaceLost */
  updatesAfter(place: TokenPlace): Promise<TokenPage>
  /** How an update ended offers, by their contracts; without those of which the ledger does not say it, or not any more. */
  outcomesIn(updateId: string): Promise<ReadonlyMap<string, OfferOutcome>>
  /** The template, or interface, by which offers are answered, as commands and policies name it. */
  offerTemplateId: string
  /** What answers an offer. */
  answerOf(contractId: string, answer: OfferAnswer): Command
}
