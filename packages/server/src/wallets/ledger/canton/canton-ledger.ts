import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import type { Db } from '../../../platform/db/db.ts'
import type { Egress } from '../../../platform/egress/egress.ts'
import type { Id } from '../../../platform/ids.ts'
import {
  type Command,
  type Ledger,
  LedgerError,
  type LedgerSignature,
  type Outcome,
  type Prepared,
  type PrepareRequest,
  type Receipt,
} from '../../../platform/ports/ledger.ts'
import { partyOf } from '../../../platform/ports/party.ts'
import { isSignedFor } from '../../../platform/ports/signature.ts'
import type { KeyProvider } from '../../../platform/security/key-provider.ts'
import { signForParty } from '../../../platform/security/node-keys.ts'
import { lookBack, readCompletions, readLedgerEnd, type Submitted } from './completions.ts'
import { queryContracts } from './contracts.ts'
import { inspectParticipant } from './inspect-participant.ts'
import { completeOnboarding, decodeOnboarding, prepareOnboarding } from './onboarding.ts'
import { createParticipant, ParticipantError } from './participant.ts'
import type { Parts } from './parts.ts'
import { type CantonPrepared, cantonCommandId, decode, keep, requireNothingAdded } from './prepared.ts'
import { asking, asLedgerError, codeIn, isNever, ledgerCode } from './refusals.ts'
import { completed, requireContext } from './registry.ts'
import type { CantonSettings } from './settings.ts'
import { signatureBody } from './signature-body.ts'
import { createTokenReader } from './token-updates.ts'

/** For how long a participant refuses a second submission of a command; longer than any transaction can happen. */
const DEDUPLICATION_SECONDS = 3_600
/** How long the participant waits for a further completion before it answers. */
const IDLE_MS = 250
const PAUSE_MS = 50
/**
 * How long after its end a transaction stays open while the participant has not yet seen that end. Then it is given up, and
 * watched: a synchronizer without traffic may not tell the time.
 */
const UNSEEN_MS = 10 * 60_000

const Answer = z.object({
  preparedTransaction: z.base64(),
  preparedTransactionHash: z.base64(),
  hashingSchemeVersion: z.string(),
})
const schemeName = ({ hashVersion }: CantonSettings) => `HASHING_SCHEME_VERSION_${hashVersion}`

const indefinite = (what: string) => new LedgerError('ledger_unavailable', what, { retryable: true, definite: false })

function commandBody(command: Command): object {
  if ('create' in command) {
    const { templateId, arguments: createArguments } = command.create
    return { CreateCommand: { templateId, createArguments } }
  }
  const { arguments: choiceArgument, ...exercise } = command.exercise
  return { ExerciseCommand: { ...exercise, choiceArgument } }
}

/** The code that a command names, so that the participant chooses no other version of the package. */
const packageOf = (command: Command): string =>
  ('create' in command ? command.create : command.exercise).templateId.split(':')[0] as string

/** Has the participant interpret a command, and reads what it made of it. @throws LedgerError */
async function prepare(parts: Parts, request: PrepareRequest): Promise<Prepared> {
  const { settings, participant } = parts
  const { commandId, actAs, expiresAt } = request
  const whole = await Promise.all(request.commands.map((command) => completed(parts, command)))
  const commands = whole.map(({ command }) => command)
  const { offset: since } = await readLedgerEnd(parts)
  const body = {
    userId: settings.userId,
    commandId: cantonCommandId(commandId),
    commands: commands.map(commandBody),
    actAs: [actAs],
    readAs: [],
    disclosedContracts: whole.flatMap(({ disclosed }) => disclosed),
    synchronizerId: settings.synchronizer,
    packageIdSelectionPreference: [...new Set(commands.map(packageOf))],
    verboseHashing: false,
    maxRecordTime: expiresAt.toISOString(),
    hashingSchemeVersion: schemeName(settings),
  }
  const answer = await asking(() => participant.post('/v2/interactive-submission/prepare', body, Answer))
  if (answer.hashingSchemeVersion !== schemeName(settings))
    throw new LedgerError('prepared_invalid', `The participant does not hash by ${settings.hashVersion}.`)
  const transaction = Buffer.from(answer.preparedTransaction, 'base64')
  const prepared = decode(settings, keep(settings, { commandId, since, prepared: transaction }))
  // The signature would be void. Ours is what is signed, whatever the participant says.
  if (!prepared.payload.equals(Buffer.from(answer.preparedTransactionHash, 'base64')))
    throw new LedgerError('prepared_invalid', 'The participant computes another hash of the prepared transaction.')
  requireNothingAdded(commands, prepared.commands)
  for (const [at, each] of whole.entries()) requireContext(each, prepared.commands[at])
  return prepared
}

const submittedOf = ({ actAs, commandId, since }: CantonPrepared): Submitted => ({ party: actAs, commandId, since })

/** What the participant says when it has this command already. */
const REPEATED = new Set(['DUPLICATE_COMMAND', 'SUBMISSION_ALREADY_IN_FLIGHT'])

async function execute(
  { settings, participant }: Parts,
  prepared: CantonPrepared,
  signatures: readonly LedgerSignature[],
  submissionId: string,
): Promise<void> {
  const body = {
    userId: settings.userId,
    preparedTransaction: prepared.transaction.toString('base64'),
    hashingSchemeVersion: schemeName(settings),
    submissionId,
    deduplicationPeriod: { DeduplicationDuration: { value: { seconds: DEDUPLICATION_SECONDS, nanos: 0 } } },
    partySignatures: { signatures: [{ party: prepared.actAs, signatures: signatures.map(signatureBody) }] },
  }
  try {
    await participant.post('/v2/interactive-submission/execute', body, z.object({}))
  } catch (error) {
    if (error instanceof ParticipantError && REPEATED.has(error.code)) return
    throw asLedgerError(error, { changesNothing: false })
  }
}

/** Waits for a submission's completion. @throws LedgerError if it was rejected, or does not come in time */
async function awaitReceipt(parts: Parts, of: Submitted, submissionId: string): Promise<Receipt> {
  const deadline = performance.now() + parts.settings.outcomeMs
  for (;;) {
    const { accepted, rejected } = await readCompletions(parts, of, IDLE_MS).catch((error: unknown): never => {
      // Whatever is wrong with this question: what was sent may have happened.
      throw Object.assign(indefinite('The participant does not say what became of it.'), { cause: error })
    })
    if (accepted !== null) return accepted
    const message = rejected.find((each) => each.submissionId === submissionId)?.message
    // A repeat is rejected while, or because, an earlier submission has its own completion.
    if (message !== undefined && !REPEATED.has(codeIn(message))) {
      if (isNever(message)) throw new LedgerError(ledgerCode(codeIn(message)), message)
      throw new LedgerError('ledger_unavailable', message, { retryable: true, definite: true })
    }
    if (performance.now() >= deadline) throw indefinite('The participant has not said yet what became of it.')
    await pause(PAUSE_MS)
  }
}

async function submit(
  parts: Parts,
  bytes: Buffer,
  signatures: readonly LedgerSignature[],
  now: Date,
): Promise<Receipt> {
  const prepared = decode(parts.settings, bytes)
  const { actAs, payload, expiresAt } = prepared
  if (signatures.length !== 1 || !signatures.every((each) => isSignedFor(actAs, payload, each)))
    throw new LedgerError('signature_invalid', "This is not the signature of the party's key.")
  if (expiresAt <= now) throw new LedgerError('prepared_expired', 'This transaction has expired. Prepare it again.')
  const submissionId = randomUUID()
  await execute(parts, prepared, signatures, submissionId)
  return awaitReceipt(parts, submittedOf(prepared), submissionId)
}

/** Whether the participant has seen the synchronizer beyond the last moment at which a transaction could be recorded. */
async function isOver(parts: Parts, expiresAt: Date, seenUntil: Date | null): Promise<boolean> {
  if (seenUntil !== null && seenUntil > expiresAt) return true
  const end = await readLedgerEnd(parts)
  return end.seenUntil !== null && end.seenUntil > expiresAt
}

/**
 * What became of a transaction. It can no longer happen once a contract that it uses is gone, or the participant has seen the
 * end of its time, and has no completion of it. @throws LedgerError while the participant has not seen that end
 */
async function outcomeOf(parts: Parts, bytes: Buffer): Promise<Outcome> {
  const prepared = decode(parts.settings, bytes)
  const of = submittedOf(prepared)
  const { accepted, rejected, seenUntil, isPruned } = await readCompletions(parts, of, 0)
  if (accepted !== null) return { state: 'final', receipt: accepted }
  if (!rejected.some(({ message }) => isNever(message))) {
    const overMs = parts.now().getTime() - prepared.expiresAt.getTime()
    if (overMs < 0) return { state: 'pending' }
    if (isPruned || !(await isOver(parts, prepared.expiresAt, seenUntil))) {
      if (overMs >= UNSEEN_MS) return { state: 'pending' }
      throw indefinite('The participant has not yet seen the end of the time of this transaction.')
    }
  }
  // Read last: what the participant had seen when it told the time is among it.
  const found = await lookBack(parts, of)
  return found === null ? { state: 'never' } : { state: 'final', receipt: found }
}

/**
 * A Canton participant, by its JSON Ledger API v2. Parties are external: their own keys sign, and for `embedded` wallets that is
 * the key of the tenant's node. @throws LedgerSettingsError if a certificate cannot be read
 */
export function createCantonLedger(
  settings: CantonSettings,
  { keys, now, egress }: { keys: KeyProvider; now: () => Date; egress: Egress },
): Ledger {
  const parts: Parts = { settings, participant: createParticipant(settings), now, egress }
  const tokens = createTokenReader(parts)
  return {
    name: settings.name,
    transactional: false,
    commandsMax: 1,
    structured: true,
    deriveParty: partyOf,
    prepareOnboarding: (_, hint, publicKey) => prepareOnboarding(parts, hint, publicKey),
    decodeOnboarding: (bytes, of) => decodeOnboarding(settings, bytes, of),
    completeOnboarding: (_, onboarding, signatures) => completeOnboarding(parts, onboarding, signatures),
    prepare: (_, request) => prepare(parts, request),
    decode: (bytes) => decode(settings, bytes),
    declaredConsequences: async () => 'judged',
    sign: (db: Db, tenantId: Id<'ten'>, party, payload) => signForParty(db, keys, { tenantId, party, payload }),
    submit: (_, __, bytes, signatures, at) => submit(parts, bytes, signatures, at),
    getTransaction: async (_, __, { prepared }) =>
      prepared === null ? { state: 'pending' } : outcomeOf(parts, prepared),
    query: (_, query) => queryContracts(parts, query),
    ...(tokens && { tokens }),
    async health() {
      const { problem } = await inspectParticipant(settings, parts.participant)
      if (problem !== null) throw new Error(problem)
    },
  }
}
