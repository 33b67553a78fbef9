import { createHash } from 'node:crypto'
import type { Model } from '../../../keys/test/canton/model.ts'
import { type Contract, type Exercised, type Interpreted, mint, Refused } from './daml.ts'
import { UpdateLog } from './holdings/update-log.ts'

export const SYNCHRONIZER = `sync::1220${'5c'.repeat(32)}`
export const USER_ID = 'halfkey'

interface Completion {
  offset: number
  party: string
  value: Record<string, unknown>
}

interface Submission {
  key: string
  party: string
  commandId: string
  submissionId: string
  model: Model
  interpreted: Interpreted
}

/** The body of a request. */
export type Body = Record<string, unknown>

/** What a participant needs to use a contract that its party does not see. */
export const blobOf = (contractId: string): string => Buffer.from(`blob of ${contractId}`).toString('base64')

/** More than one answer may hold. */
export class TooLarge extends Error {}

/** An answer with more bytes than anybody reads. */
export class TooLong extends Error {}

/** An answer that does not come. */
export class NeverDone extends Error {}

/** What is on a simulated ledger, in which order it came there, and what its participant tells of it. */
export class SimulatedLedger {
  /** What is submitted waits until `sequence`. */
  isHeld = false
  /** How many of the next submissions lose against another transaction that uses the same contract at that moment. */
  locked = 0
  /** Contracts and updates a request may have at most; more are refused with 413. */
  elementsMax = 200
  /** Completions a request may have at most; more are refused with 413. */
  completionsMax = 200
  prunedUpTo = 0
  /** Offsets of updates, and of the contracts that they made, with which an answer has more bytes than anybody reads. */
  oversized = new Set<number>()
  /** The same with which an answer never comes. */
  endless = new Set<number>()
  /** Whether the time of the synchronizer is told when nothing happens. */
  tellsTime = true
  now: () => Date = () => new Date()

  readonly parties = new Map<string, Buffer>()
  readonly contracts = new Map<string, Contract>()
  /** What happened, as those read it who follow the participant. */
  readonly log = new UpdateLog(SYNCHRONIZER)
  #archived = new Set<string>()
  #offset = 0
  #completions: Completion[] = []
  #inFlight: Submission[] = []
  #accepted = new Set<string>()

  /** Puts a contract on the ledger. @returns its id */
  mint(templateId: string, fields: Record<string, unknown>): string {
    const made = mint(templateId, fields)
    this.#happen([made], [])
    return made.contractId
  }

  /** The active contracts of a template whose fields have these values. */
  active(templateId: string, fields: Record<string, unknown>): Contract[] {
    return [...this.contracts.values()].filter(
      (each) =>
        each.templateId === templateId &&
        !this.#archived.has(each.contractId) &&
        Object.entries(fields).every(([name, value]) => each.fields[name] === value),
    )
  }

  /** How many submissions were accepted or rejected, by their outcome. */
  outcomes(): { accepted: number; rejected: number } {
    const accepted = this.#completions.filter(({ value }) => value.updateId !== '').length
    return { accepted, rejected: this.#completions.length - accepted }
  }

  /** Offset of what happened last. */
  protected get end(): number {
    return this.#offset
  }

  /** An active contract, if the party sees it or was given it. */
  protected visible(contractId: string, party: string, disclosed: ReadonlySet<string>): Contract | undefined {
    const contract = this.#archived.has(contractId) ? undefined : this.contracts.get(contractId)
    const isSeen = contract?.create.stakeholders.includes(party) === true || disclosed.has(contractId)
    return isSeen ? contract : undefined
  }

  /** Takes a submission, once for each command. @throws Refused */
  protected submit(submission: Submission): void {
    const { key } = submission
    if (this.#inFlight.some((each) => each.key === key))
      throw new Refused('SUBMISSION_ALREADY_IN_FLIGHT', 2, 'The submission is already in flight')
    if (this.#accepted.has(key)) throw new Refused('DUPLICATE_COMMAND', 10, 'A command with the given id was accepted')
    this.#inFlight.push(submission)
    if (!this.isHeld) this.sequence()
  }

  /** Decides on all that was submitted and held. */
  sequence(): void {
    for (const submission of this.#inFlight.splice(0)) this.#decide(submission)
  }

  /** Loses what was submitted and held: it was never sequenced, and nobody is told. */
  loseHeld(): void {
    this.#inFlight = []
  }

  /** Makes the next submission of a command wait for, or fail by, another one that uses its contract. */
  archive(contractId: string): void {
    this.#archived.add(contractId)
  }

  /** One transaction of others, that uses up contracts and makes others. @returns the ids of those made */
  happen(
    archived: string[],
    made: [templateId: string, fields: Record<string, unknown>][],
    exercised: Exercised[] = [],
  ): string[] {
    const contracts = made.map(([templateId, fields]) => mint(templateId, fields))
    this.#happen(contracts, archived, exercised)
    return contracts.map(({ contractId }) => contractId)
  }

  /** Restored from a backup: what happened after an offset is not known yet, until it is `replayed`. */
  restoreTo(offset: number): void {
    this.log.restoreTo(offset)
    this.#offset = offset
  }

  /** After `restoreTo`: what the participant had forgotten comes again, at other offsets. */
  replay(): void {
    this.#offset = this.log.replay(this.#offset)
  }

  /** Restored from a backup: offsets are given anew, from a lower one on. */
  restore(): void {
    let offset = 0
    this.#completions = this.#completions.map((each) => {
      offset += 1
      return { ...each, offset, value: { ...each.value, offset } }
    })
    this.#offset = offset
  }

  protected micros(at = this.now()): string {
    return `${at.getTime()}000`
  }

  #happen(made: Omit<Contract, 'offset' | 'createdAt'>[], archived: string[], exercised: Exercised[] = []): void {
    this.#offset += 1
    const at = { offset: this.#offset, createdAt: this.micros() }
    const created = made.map((each) => ({ ...each, ...at }))
    for (const each of created) this.contracts.set(each.contractId, each)
    for (const id of archived) this.#archived.add(id)
    const gone = archived.map((id) => this.contracts.get(id) as Contract)
    this.log.add({ offset: this.#offset, recordTime: this.now().toISOString(), created, archived: gone, exercised })
  }

  protected times() {
    return this.tellsTime && !this.isHeld
      ? [{ synchronizerId: SYNCHRONIZER, recordTime: this.now().toISOString() }]
      : []
  }

  /** The synchronizer's verdict. */
  #decide({ key, party, commandId, submissionId, model, interpreted }: Submission): void {
    const isTooLate = BigInt(this.micros()) > BigInt(model.metadata.max_record_time ?? '0')
    const isGone = interpreted.inputs.some(({ contractId }) => this.#archived.has(contractId))
    const isLocked = !isTooLate && !isGone && this.locked > 0
    if (isLocked) this.locked -= 1
    const why = isTooLate
      ? 'NOT_SEQUENCED_TIMEOUT(2,0): Transaction was not sequenced within the pre-defined max sequencing time'
      : isGone
        ? 'LOCAL_VERDICT_INACTIVE_CONTRACTS(9,0): Rejected transaction is referring to inactive contracts'
        : isLocked
          ? 'LOCAL_VERDICT_LOCKED_CONTRACTS(2,0): Rejected transaction is referring to locked contracts'
          : null
    if (why === null) {
      this.#accepted.add(key)
      this.#happen(interpreted.made, interpreted.consumed, interpreted.exercised)
    }
    this.complete({ party, commandId, submissionId, why })
  }

  /** Tells of an outcome, also of one that there never was. */
  complete({
    party,
    commandId,
    submissionId,
    why,
  }: {
    party: string
    commandId: string
    submissionId: string
    why: string | null
  }): void {
    this.#offset += 1
    const value = {
      commandId,
      userId: USER_ID,
      actAs: [party],
      submissionId,
      offset: this.#offset,
      updateId: why === null ? `1220${createHash('sha256').update(`${commandId}${this.#offset}`).digest('hex')}` : '',
      ...(why === null ? {} : { status: { code: 9, message: why, details: [] } }),
      synchronizerTime: { synchronizerId: SYNCHRONIZER, recordTime: this.now().toISOString() },
    }
    this.#completions.push({ offset: this.#offset, party, value })
  }

  protected readCompletions(body: Body, query: URLSearchParams) {
    const { parties, beginExclusive, userId } = body as { parties: string[]; beginExclusive: number; userId: string }
    if (beginExclusive > this.#offset) throw new Refused('OFFSET_AFTER_LEDGER_END', 12, 'the offset is after the end')
    if (beginExclusive < this.prunedUpTo) throw new Refused('PARTICIPANT_PRUNED_DATA_ACCESSED', 9, 'it was pruned')
    const limit = Number(query.get('limit') ?? this.completionsMax)
    const found = this.#completions.filter(
      ({ offset, party, value }) =>
        offset > beginExclusive && offset > this.prunedUpTo && parties.includes(party) && value.userId === userId,
    )
    if (Math.min(found.length, limit) > this.completionsMax) throw new TooLarge()
    return found.slice(0, limit).map(({ value }) => ({ completionResponse: { Completion: { value } } }))
  }

  protected activeContracts(body: Body, query: URLSearchParams) {
    const asked = this.log.askedOf(body)
    if (asked !== null) {
      this.#requireOffset(Number(body.activeAtOffset))
      const found = this.log.activeAt(Number(body.activeAtOffset), asked)
      const limit = Number(query.get('limit') ?? found.length)
      if (Math.min(found.length, limit) > this.elementsMax) throw new TooLarge()
      return this.#answered(found.slice(0, limit))
    }
    const { filtersByParty } = (body as { eventFormat: { filtersByParty: Record<string, { cumulative: Body[] }> } })
      .eventFormat
    const [party = ''] = Object.keys(filtersByParty)
    const templates = filtersByParty[party]?.cumulative.map(
      (each) =>
        (each as { identifierFilter: { TemplateFilter: { value: { templateId: string } } } }).identifierFilter
          .TemplateFilter.value.templateId,
    )
    return [...this.contracts.values()]
      .filter((each) => templates?.includes(each.templateId) && each.create.stakeholders.includes(party))
      .filter((each) => !this.#archived.has(each.contractId))
      .map((each) => ({
        workflowId: '',
        contractEntry: {
          JsActiveContract: {
            synchronizerId: SYNCHRONIZER,
            reassignmentCounter: 0,
            createdEvent: {
              offset: each.offset,
              contractId: each.contractId,
              templateId: each.templateId,
              createArgument: each.fields,
              signatories: each.create.signatories,
              observers: each.create.stakeholders.filter((one) => !each.create.signatories.includes(one)),
            },
          },
        },
      }))
  }

  #requireOffset(offset: number): void {
    if (offset > this.#offset) throw new Refused('OFFSET_AFTER_LEDGER_END', 12, 'the offset is after the end')
    if (offset < this.prunedUpTo) throw new Refused('PARTICIPANT_PRUNED_DATA_ACCESSED', 9, 'it was pruned')
  }

  protected activeContractsPage(body: Body) {
    const { activeAtOffset, maxPageSize, pageToken = '0' } = body as Record<string, never>
    this.#requireOffset(Number(activeAtOffset))
    const found = this.log.activeAt(Number(activeAtOffset), this.log.askedOf(body) ?? fail('no interface'))
    const [from, size] = [Number(pageToken), Number(maxPageSize)]
    if (size > this.elementsMax) throw new TooLarge()
    const next = from + size < found.length ? { nextPageToken: String(from + size) } : {}
    return { activeContracts: this.#answered(found.slice(from, from + size)), activeAtOffset, ...next }
  }

  protected readUpdates(body: Body, query: URLSearchParams) {
    const { beginExclusive, endInclusive } = body as { beginExclusive: number; endInclusive: number }
    this.#requireOffset(beginExclusive)
    this.#requireOffset(endInclusive)
    const limit = Number(query.get('limit') ?? this.elementsMax)
    const found = this.log.between(beginExclusive, endInclusive, body)
    if (Math.min(found.length, limit) > this.elementsMax) throw new TooLarge()
    return this.#answered(found.slice(0, limit))
  }

  protected updateById(body: Body): object {
    const update = this.log.effectsOf(body, this.prunedUpTo)
    if (update === undefined) throw new Refused('UPDATE_NOT_FOUND', 11, 'Update not found, or not visible')
    this.#answered([update])
    return update
  }

  #answered(elements: object[]): object[] {
    const text = JSON.stringify(elements)
    const hasOne = (offsets: Set<number>) => [...offsets].some((offset) => text.includes(`"offset":${offset},`))
    if (hasOne(this.oversized)) throw new TooLong()
    if (hasOne(this.endless)) throw new NeverDone()
    return elements
  }
}

function fail(why: string): never {
  throw new Refused('INVALID_ARGUMENT', 8, why)
}
