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

/** What one transaction did to holdings. */
export interface TokenUpdate {
  updateId: string
  offset: number
  recordedAt: Date
  created: Holding[]
  /** Ids of contracts that it used up, holdings or not. */
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
  /** The end of the ledger, and its time there; null if it does not say. */
  end(): Promise<{ offset: number; at: Date | null }>
  /** All holdings of a party as of an offset; `arguments_invalid` if they are too many to be read in `maxMs`. @throws PlaceLost */
  holdingsOf(party: string, offset: number, maxMs: number): Promise<Holding[]>
  /** What happened to the holdings of all parties after a place. @throws PlaceLost */
  updatesAfter(place: TokenPlace): Promise<TokenPage>
}
