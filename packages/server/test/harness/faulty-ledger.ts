import type { Db } from '../../src/platform/db/db.ts'
import {
  type Arguments,
  type Effect,
  type FollowableLedger,
  type Ledger,
  LedgerError,
  type LedgerSignature,
  type Outcome,
  type Prepared,
  type Receipt,
} from '../../src/platform/ports/ledger.ts'
import { canonicalJson } from '../../src/platform/security/canonical-json.ts'

/** What a ledger is asked over its network. */
type Ask =
  | 'prepareOnboarding'
  | 'completeOnboarding'
  | 'prepare'
  | 'declaredConsequences'
  | 'submit'
  | 'getTransaction'
  | 'query'
  | 'follow'
  | 'health'

/**
 * How a call goes wrong: a refusal for good, or one that may pass; an answer that never comes because the question was lost
 * (`lose_before`), because the answer was (`lose_after`), or because nobody answers (`hang`); accepted and left lying until
 * `remember` (`forget`, of what is submitted); or an error that is none of a ledger's (`break`).
 */
export type Fault = 'refuse' | 'refuse_for_now' | 'lose_before' | 'lose_after' | 'forget' | 'hang' | 'break'

/** What a prepared transaction says in its bytes that it was not asked for. */
type Lie =
  | 'another actor'
  | 'a further root'
  | 'another receiver'
  | 'a further consequence'
  | 'a greater amount'
  | 'another command id'
  | 'a later expiry'
  | 'no expiry'
  | 'no transaction'

/** A ledger beyond a network that fails as it is told to. Without faults it keeps the port's promises. */
export interface FaultyLedger extends FollowableLedger {
  /** Of each kind of call, how the next ones go wrong; null for one that does not. */
  next: { [ask in Ask]?: (Fault | null)[] }
  /** How all the others do. */
  always: { [ask in Ask]?: () => Fault | null }
  /** How long it takes before it looks at a call. */
  delayMs: { [ask in Ask]?: () => number }
  /** Nobody answers anything. */
  isDown: boolean
  /** In what it prepares. */
  lie: Lie | null
  /** What it says became of every transaction; null for the truth. */
  says: Outcome | null
  /** All calls so far. */
  asked: { ask: Ask; inTransaction: boolean }[]
  /** Digests that its node's key signed, as hex. */
  signed: string[]
  /** What was submitted, refused or not: by digest, as hex. */
  sent: { digest: string; commandId: string; atMs: number }[]
  /** Executes what it had accepted and left lying. @returns how many it refused by then */
  remember(now: Date): Promise<number>
  /** As it was made, but for what it knows. */
  heal(): void
}

const EVE = `eve::1220${'e'.repeat(64)}`

interface Document {
  commandId: string
  actAs: string
  effects: Effect[]
  expiresAt: string
}

function distort(document: Document, lie: Exclude<Lie, 'no transaction'>): void {
  const { effects } = document
  const [root] = effects as [Effect]
  const made = effects.filter(({ type }) => type === 'created')
  const of = (effect: Effect | undefined) => effect?.arguments as Arguments
  const further = (command: number): Effect => ({
    type: 'created',
    command,
    contractId: `00${'f'.repeat(64)}`,
    templateId: 'Note:Note',
    choice: null,
    arguments: { author: document.actAs, text: 'mine', readers: [] },
    signatories: [document.actAs],
    observers: [],
  })
  const lies: Record<typeof lie, () => unknown> = {
    'another actor': () => Object.assign(document, { actAs: EVE }),
    'a further root': () => effects.push(further((effects.at(-1)?.command ?? 0) + 1)),
    'another receiver': () => {
      of(root).receiver = EVE
      of(made[0]).owner = EVE
    },
    'a further consequence': () => effects.push(further(effects.at(-1)?.command ?? 0)),
    // What is asked for stands there as it was asked, and the rest does not come back.
    'a greater amount': () => effects.splice(effects.indexOf(made.at(-1) as Effect), 1),
    'another command id': () => Object.assign(document, { commandId: `${document.commandId}x` }),
    'a later expiry': () => Object.assign(document, { expiresAt: '2100-01-01T00:00:00.000Z' }),
    'no expiry': () => Object.assign(document, { expiresAt: 'never' }),
  }
  lies[lie]()
}

/** What is answered beside the bytes stays honest: only the bytes count. */
function lying(prepared: Prepared, lie: Lie): Prepared {
  if (lie === 'no transaction') return { ...prepared, bytes: Buffer.from('{}') }
  const document = JSON.parse(prepared.bytes.toString())
  distort(document, lie)
  return { ...prepared, bytes: Buffer.from(canonicalJson(document)) }
}

const lost = (what: string) => new LedgerError('ledger_unavailable', what, { retryable: true, definite: false })

const unanswered = {
  hang: () => new Promise<never>(() => {}),
  break: async () => {
    throw new Error('socket hang up')
  },
  refuse: async () => {
    throw new LedgerError('contract_archived', 'The participant has refused.', { field: '0' })
  },
  refuse_for_now: async () => {
    throw new LedgerError('ledger_unavailable', 'The participant is busy.', { retryable: true, definite: true })
  },
  lose_before: async () => {
    throw lost('The question was lost.')
  },
}

type Switches = Pick<FaultyLedger, 'next' | 'always' | 'delayMs' | 'isDown' | 'lie' | 'says'>

const noFaults = (): Switches => ({ next: {}, always: {}, delayMs: {}, isDown: false, lie: null, says: null })

interface Submission {
  tenantId: Parameters<Ledger['submit']>[1]
  bytes: Buffer
  signatures: readonly LedgerSignature[]
}

/** @param inner a ledger that joins; here it is alone in a transaction of `db` with each call */
export function createFaultyLedger(inner: FollowableLedger, db: Db, name = 'remote'): FaultyLedger {
  const forgotten: Submission[] = []

  async function face<T>(ask: Ask, on: Db | null, answer: () => Promise<T>, forget?: () => void): Promise<T> {
    ledger.asked.push({ ask, inTransaction: on?.inTransaction ?? false })
    const waitMs = ledger.delayMs[ask]?.() ?? 0
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs))
    if (ledger.isDown) throw new Error('connect ECONNREFUSED')
    const queued = ledger.next[ask]?.shift()
    const fault = queued === undefined ? (ledger.always[ask]?.() ?? null) : queued
    if (fault === null) return answer()
    if (fault === 'forget') {
      forget?.()
      throw lost('It was accepted, and that is all.')
    }
    if (fault !== 'lose_after') return unanswered[fault]()
    await answer()
    throw lost('The answer was lost.')
  }

  const { deriveParty, decode, decodeOnboarding } = inner
  const ledger: FaultyLedger = {
    ...noFaults(),
    name,
    transactional: false,
    commandsMax: inner.commandsMax,
    structured: inner.structured,
    deriveParty,
    decode,
    decodeOnboarding,
    asked: [],
    signed: [],
    sent: [],
    prepareOnboarding: (...given) => face('prepareOnboarding', null, () => inner.prepareOnboarding(...given)),
    completeOnboarding: (...given) => face('completeOnboarding', null, () => inner.completeOnboarding(...given)),
    prepare: (on, request) =>
      face('prepare', on, async () => {
        const prepared = await inner.prepare(db, request)
        return ledger.lie === null ? prepared : lying(prepared, ledger.lie)
      }),
    declaredConsequences: (on, ...given) =>
      face('declaredConsequences', on, () => inner.declaredConsequences(db, ...given)),
    async sign(on, tenantId, party, payload) {
      ledger.signed.push(payload.toString('hex'))
      return inner.sign(on, tenantId, party, payload)
    },
    submit(on, tenantId, bytes, signatures, now): Promise<Receipt> {
      const { payload, commandId } = decode(bytes)
      ledger.sent.push({ digest: payload.toString('hex'), commandId, atMs: performance.now() })
      const submit = () => inner.submit(db, tenantId, bytes, signatures, now)
      return face('submit', on, submit, () => forgotten.push({ tenantId, bytes, signatures }))
    },
    getTransaction: (on, ...given) =>
      face('getTransaction', on, async () => ledger.says ?? inner.getTransaction(db, ...given)),
    query: (on, query) => face('query', on, () => inner.query(db, query)),
    follow: (on, ...given) => face('follow', on, () => inner.follow(db, ...given)),
    health: (on) => face('health', on, () => inner.health(db)),
    async remember(now) {
      let refused = 0
      for (const { tenantId, bytes, signatures } of forgotten.splice(0))
        await inner.submit(db, tenantId, bytes, signatures, now).catch(() => {
          refused += 1
        })
      return refused
    },
    heal: () => void Object.assign(ledger, noFaults()),
  }
  return ledger
}
