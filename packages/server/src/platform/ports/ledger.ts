import type { Db, Sql } from '../db/db.ts'
import type { Id } from '../ids.ts'
import type { Tokens } from './tokens.ts'

/**
 * A value as JSON has it. Numbers are strings, so that none loses digits: amounts, numerics and 64-bit integers; times, parties
 * and contract ids are strings too. Records and text maps are objects, other maps lists of pairs, variants `{tag, value}`, an
 * absent optional is null. The embedded ledger knows strings and lists of strings only.
 */
export type Value = string | boolean | null | Value[] | { [name: string]: Value }

/** Fields of a contract, or a choice's arguments. */
export type Arguments = { [field: string]: Value }

/** A request to a ledger. */
export type Command =
  | { create: { templateId: string; arguments: Arguments } }
  | { exercise: { templateId: string; contractId: string; choice: string; arguments: Arguments } }

/** One thing that a transaction does. The first effect of each command is its root; what follows are its consequences. */
export interface Effect {
  type: 'created' | 'exercised' | 'archived'
  /** Which command it follows from, counted from 0. */
  command: number
  contractId: string
  templateId: string
  /** Of what is exercised. */
  choice: string | null
  /** The contract's fields; for an exercise the choice's arguments, with defaults filled in. */
  arguments: Arguments
  signatories: string[]
  observers: string[]
}

/** What one command does to one owner's part of an asset, in base units. */
export interface Flow {
  command: number
  asset: { issuer: string; symbol: string }
  /** Null for an open offer, which belongs to nobody until it is accepted. One that ends was its owner's. */
  owner: string | null
  /**
   * Who may be paid by what was created without an owner: an open offer, or a contract of which the ledger does not know whether it
   * holds an asset. Each may get all of it. See `recipientsOfAll`. Absent where there is an owner, and where nothing was created.
   */
  seenBy?: readonly string[]
  consumed: bigint
  created: bigint
}

/** A transaction that can be signed. All of it is read out of `bytes`, which is what counts. */
export interface Prepared {
  bytes: Buffer
  /** What is signed: computed from `bytes`. Most ledgers sign a digest, some the message itself. */
  payload: Buffer
  commandId: string
  /** The party that acts, and the only one. */
  actAs: string
  commands: Command[]
  effects: Effect[]
  flows: Flow[]
  /** Past this it can certainly not happen any more. */
  expiresAt: Date
}

/** How a payload is signed. `ed25519`: RFC 8032, pure; raw keys have 32 bytes, signatures 64. */
type SignatureAlgorithm = 'ed25519'

/** A signature over a payload. */
export interface LedgerSignature {
  alg: SignatureAlgorithm
  /** Raw. */
  publicKey: Buffer
  signature: Buffer
  /** The fingerprint of the key: the name by which ledgers know it. */
  signedBy: string
}

/** A transaction that happened. */
export interface Receipt {
  updateId: string
  /** Grows: what happened after something was seen has a greater one. */
  offset: number
  recordedAt: Date
}

/** A contract that is active. */
export interface Contract {
  contractId: string
  templateId: string
  arguments: Arguments
  signatories: string[]
  observers: string[]
  createdAtOffset: number
}

/** Which of a party's contracts. */
export interface ContractQuery {
  tenantId: Id<'ten'>
  party: string
  templateIds: readonly string[]
  /** Only contracts for which this holds; looked at one by one. */
  accept: ((contract: Contract) => boolean) | null
  limit: number
  /** From the page before. */
  cursor: string | null
}

/** A page of contracts, newest first. It may hold fewer than `limit`, with a filter even none, though more follow. */
export interface ContractPage {
  contracts: Contract[]
  nextCursor: string | null
}

/** A transaction as those see it who follow the ledger. */
export interface Update extends Receipt {
  commandId: string
  actAs: string
  effects: Effect[]
}

/** A transaction that happened, of which its acting party's signature was verified. */
export interface SignedUpdate extends Receipt {
  /** Read out of the signed bytes. */
  flows: Flow[]
}

/** What a party signed for a command. */
export interface SignedCommands {
  payload: Buffer
  /** Read out of the signed bytes. */
  commands: readonly Command[]
}

/** Something that a key has to sign. */
interface ToSign {
  payload: Buffer
  alg: SignatureAlgorithm
  /** The fingerprint of the key. */
  by: string
}

/** What has to be signed before a party exists. All of it is read out of `bytes`, which is what is kept meanwhile. */
export interface Onboarding {
  party: string
  bytes: Buffer
  /** Empty where nothing has to be. */
  toSign: ToSign[]
  /** Past this it is prepared again; null where there is nothing to sign. */
  expiresAt: Date | null
}

/** Whose onboarding: the party, and the raw key in whose namespace it is. */
export interface OnboardingOf {
  party: string
  publicKey: Buffer
}

/**
 * What became of a command. `pending`: nothing is known, it may still happen. `included`: it happened, in `depth` blocks or
 * the like, and may be undone. `final`: it happened; `signed`, from ledgers that join, is what its party signed for it.
 * `replaced`: something else happened instead of it. `never`: it did not happen and cannot any more.
 */
export type Outcome =
  | { state: 'pending' }
  | { state: 'included'; depth: number; receipt: Receipt }
  | { state: 'final'; receipt: Receipt; signed?: SignedCommands }
  | { state: 'replaced'; by: string | null }
  | { state: 'never' }

/** Why a ledger refuses or fails. */
export type LedgerErrorCode =
  | 'template_unknown'
  | 'choice_unknown'
  | 'arguments_invalid'
  | 'contract_not_found'
  | 'contract_archived'
  | 'authorization_missing'
  | 'prepared_invalid'
  | 'prepared_expired'
  | 'signature_invalid'
  | 'duplicate_command'
  | 'ledger_unavailable'

/** A ledger's refusal or failure. */
export class LedgerError extends Error {
  readonly code: LedgerErrorCode
  /** Whether the same may succeed later. */
  readonly retryable: boolean
  /** Whether it certainly did not happen. When not, only the ledger knows. */
  readonly definite: boolean
  /** The part of the commands that is at fault: `0.exercise.contractId`. */
  readonly field: string | null

  constructor(
    code: LedgerErrorCode,
    message: string,
    options: { field?: string; retryable?: boolean; definite?: boolean } = {},
  ) {
    super(message)
    this.code = code
    this.retryable = options.retryable ?? false
    this.definite = options.definite ?? true
    this.field = options.field ?? null
  }
}

/** Whose commands, and until when they may happen. */
export interface PrepareRequest {
  tenantId: Id<'ten'>
  /** Makes submission idempotent: one transaction for each party and id. */
  commandId: string
  actAs: string
  commands: readonly Command[]
  now: Date
  expiresAt: Date
}

/**
 * A ledger, whichever it is. Those that `join` write in the transaction that `db` is; the others use a network, take no
 * notice of `db`, and must not be called inside a transaction. All throw `LedgerError`.
 */
export interface Ledger {
  readonly name: string
  readonly transactional: boolean
  /** How many commands one transaction can have. */
  readonly commandsMax: number
  /** Whether values other than texts and lists of texts can be arguments. */
  readonly structured: boolean
  /** Computed without the ledger, so it is known first. `publicKey` is raw. */
  deriveParty(hint: string, publicKey: Buffer): string
  /** What a party's key has to sign before the party exists. Repeatable. */
  prepareOnboarding(tenantId: Id<'ten'>, hint: string, publicKey: Buffer): Promise<Onboarding>
  /**
   * Reads it from its bytes. Nothing else that came with them is trusted: they make this party exist, for this key alone,
   * and do nothing else. @throws prepared_invalid
   */
  decodeOnboarding(bytes: Buffer, of: OnboardingOf): Onboarding
  /** Makes the party exist. Repeatable. */
  completeOnboarding(tenantId: Id<'ten'>, onboarding: Onboarding, signatures: readonly LedgerSignature[]): Promise<void>
  /** Interprets commands as of now, or as of when `snapshot` was read. Nothing changes. */
  prepare(db: Db, request: PrepareRequest, snapshot?: unknown): Promise<Prepared>
  /**
   * For ledgers that join: what preparing these commands reads, as an expression of one JSON value for a statement of the
   * caller's, who hands the value on to `prepare`. @throws arguments_invalid when it is too much
   */
  snapshot?(tenantId: Id<'ten'>, commands: readonly Command[]): Sql
  /** Reads a prepared transaction from its bytes. Nothing else that came with them is trusted. */
  decode(bytes: Buffer): Prepared
  /** For ledgers whose effects say what moves: the flows of effects that were kept; null if they make no sense. */
  flowsOf?(effects: readonly Effect[]): Flow[] | null
  /**
   * Templates of which a choice may create or archive contracts; null for an unknown choice. `judged`: the ledger's templates
   * declare nothing, so each thing that a transaction does is for the policy to judge.
   */
  declaredConsequences(
    db: Db,
    tenantId: Id<'ten'>,
    templateId: string,
    choice: string,
  ): Promise<readonly string[] | 'judged' | null>
  /**
   * Signs with the key that the ledger's own node holds for the parties in its namespace; none for any other's. Never a
   * network away: it is called in the transaction that `db` is.
   */
  sign(db: Db, tenantId: Id<'ten'>, party: string, payload: Buffer): Promise<LedgerSignature[]>
  /** Submits it. A repeat with the same command id returns the first receipt. */
  submit(
    db: Db,
    tenantId: Id<'ten'>,
    bytes: Buffer,
    signatures: readonly LedgerSignature[],
    now: Date,
  ): Promise<Receipt>
  /**
   * For ledgers that join: what this ledger has just prepared, signed, as parts of a `with` for the caller's own statement.
   * It happens only if the part `held`, which the caller brings, has a row, and what it was prepared from is still as it
   * was: then the part `applied` has a row. @throws signature_invalid
   */
  submission?(prepared: Prepared, signatures: readonly LedgerSignature[], now: Date): { receipt: Receipt; writes: Sql }
  /**
   * What became of a command. `prepared`: the bytes of its transaction, which say since when the ledger can know it; null
   * where they are gone, or nothing was prepared.
   */
  getTransaction(
    db: Db,
    tenantId: Id<'ten'>,
    command: { actAs: string; commandId: string; prepared: Buffer | null },
  ): Promise<Outcome>
  /** For ledgers that join: the transaction of a command; undefined if there is none that its party signed. */
  findSigned?(
    db: Db,
    tenantId: Id<'ten'>,
    command: { actAs: string; commandId: string },
  ): Promise<SignedUpdate | undefined>
  /** A party's active contracts. */
  query(db: Db, query: ContractQuery): Promise<ContractPage>
  /** For ledgers that can be followed: what happened after a cursor, each transaction once; null for the beginning. */
  follow?(
    db: Db,
    tenantId: Id<'ten'>,
    cursor: string | null,
    limit: number,
  ): Promise<{ updates: Update[]; cursor: string | null }>
  /** For ledgers whose tokens can be followed. */
  tokens?: Tokens
  /** @throws Error while it cannot be reached */
  health(db: Db): Promise<void>
}

/** A ledger that can be followed. */
export type FollowableLedger = Ledger & Required<Pick<Ledger, 'follow'>>
