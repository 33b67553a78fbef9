import { createHash } from 'node:crypto'
import { type Contract, type Exercised, Refused, viewOf } from '../daml.ts'

/** A transaction as the log keeps it. */
interface Logged {
  offset: number
  updateId: string
  recordTime: string
  created: Contract[]
  archived: Contract[]
  /** What was exercised, as far as it is known; what was used up otherwise was archived. */
  exercised: Exercised[]
}

/** What is asked for: contracts that implement one of some interfaces, of one party or of all. */
export interface Asked {
  interfaceIds: string[]
  party: string | null
}

interface Filters {
  cumulative: { identifierFilter: { InterfaceFilter?: { value: { interfaceId: string } } } }[]
}
interface EventFormat {
  filtersByParty?: Record<string, Filters>
  filtersForAnyParty?: Filters
}

function askedIn({ filtersByParty, filtersForAnyParty }: EventFormat): Asked | null {
  const [[party, filters] = []] = Object.entries(filtersByParty ?? {})
  const interfaceIds = ((filters ?? filtersForAnyParty)?.cumulative ?? []).flatMap(
    ({ identifierFilter }) => identifierFilter.InterfaceFilter?.value.interfaceId ?? [],
  )
  return interfaceIds.length === 0 ? null : { interfaceIds, party: party ?? null }
}

const isAsked = ({ templateId, fields, create }: Contract, { interfaceIds, party }: Asked): boolean =>
  interfaceIds.some((interfaceId) => viewOf(templateId, interfaceId, fields) !== undefined) &&
  (party === null || create.stakeholders.includes(party))

function viewsOf({ templateId, fields }: Contract, { interfaceIds }: Asked): object[] {
  return interfaceIds.flatMap((interfaceId) => {
    const viewValue = viewOf(templateId, interfaceId, fields)
    return viewValue === undefined ? [] : [{ interfaceId, viewStatus: { code: 0, message: '' }, viewValue }]
  })
}

function createdEvent(contract: Contract, asked: Asked, offset: number): object {
  const { contractId, templateId, fields, createdAt, create } = contract
  const at = new Date(Number(createdAt.slice(0, -3))).toISOString().replace('Z', '000Z')
  return {
    offset,
    nodeId: 0,
    contractId,
    templateId,
    createArgument: fields,
    interfaceViews: viewsOf(contract, asked),
    witnessParties: create.stakeholders,
    signatories: create.signatories,
    observers: create.stakeholders.filter((one) => !create.signatories.includes(one)),
    createdAt: at,
    packageName: 'halfkey-test',
    representativePackageId: templateId.split(':')[0],
    acsDelta: true,
  }
}

function exercisedEvent(
  { contractId, templateId, create }: Contract,
  { offset }: Logged,
  exercised: Exercised[],
): object {
  const {
    interfaceId = null,
    choice,
    result,
  } = exercised.find((each) => each.contractId === contractId) ?? {
    choice: 'Archive',
    result: {},
  }
  return {
    offset,
    nodeId: 0,
    contractId,
    templateId,
    interfaceId,
    choice,
    choiceArgument: {},
    actingParties: create.signatories,
    consuming: true,
    witnessParties: create.stakeholders,
    lastDescendantNodeId: 0,
    exerciseResult: result,
    packageName: 'halfkey-test',
    acsDelta: true,
  }
}

/** The transactions of a simulated ledger, as its participant tells them to those who follow it. */
export class UpdateLog {
  readonly #synchronizer: string
  #updates: Logged[] = []
  #forgotten: Logged[] = []

  constructor(synchronizer: string) {
    this.#synchronizer = synchronizer
  }

  add(update: Omit<Logged, 'updateId'>): void {
    const text = JSON.stringify([update.offset, update.recordTime, update.created.map(({ contractId }) => contractId)])
    this.#updates.push({ ...update, updateId: `1220${createHash('sha256').update(text).digest('hex')}` })
  }

  /** The offset of the last transaction. */
  get end(): number {
    return this.#updates.at(-1)?.offset ?? 0
  }

  restoreTo(offset: number): void {
    this.#forgotten = this.#updates.filter((each) => each.offset > offset)
    this.#updates = this.#updates.filter((each) => each.offset <= offset)
  }

  /** @returns the new end */
  replay(end: number): number {
    const again = this.#forgotten.splice(0)
    // Other offsets than before: the first one is left out.
    for (const [at, each] of again.entries()) this.#updates.push({ ...each, offset: end + at + 2 })
    return end + again.length + 1
  }

  /** What a request asks for; null if it does not name an interface. */
  askedOf(body: Record<string, unknown>): Asked | null {
    return askedIn((body.eventFormat ?? {}) as EventFormat)
  }

  activeAt(offset: number, asked: Asked): object[] {
    const past = this.#updates.filter((each) => each.offset <= offset)
    const gone = new Set(past.flatMap(({ archived }) => archived.map(({ contractId }) => contractId)))
    return past.flatMap((update) =>
      update.created
        .filter((each) => isAsked(each, asked) && !gone.has(each.contractId))
        .map((each) => ({
          workflowId: '',
          contractEntry: {
            JsActiveContract: {
              synchronizerId: this.#synchronizer,
              reassignmentCounter: 0,
              createdEvent: createdEvent(each, asked, update.offset),
            },
          },
        })),
    )
  }

  between(after: number, upTo: number, body: Record<string, unknown>): object[] {
    const { updateFormat } = body as {
      updateFormat: { includeTransactions: { eventFormat: EventFormat; transactionShape: string } }
    }
    const { eventFormat, transactionShape } = updateFormat.includeTransactions
    const asked = askedIn(eventFormat)
    if (asked === null || transactionShape !== 'TRANSACTION_SHAPE_ACS_DELTA')
      throw new Refused('INVALID_ARGUMENT', 8, 'only changes of contracts that implement an interface are told')
    return this.#updates
      .filter(({ offset }) => offset > after && offset <= upTo)
      .flatMap((update) => {
        const { offset, updateId, recordTime } = update
        const events = [
          ...update.archived
            .filter((each) => isAsked(each, asked))
            .map(({ contractId, templateId, create }) => ({
              ArchivedEvent: {
                offset,
                nodeId: 0,
                contractId,
                templateId,
                witnessParties: create.stakeholders,
                packageName: 'halfkey-test',
              },
            })),
          ...update.created
            .filter((each) => isAsked(each, asked))
            .map((each) => ({ CreatedEvent: createdEvent(each, asked, offset) })),
        ]
        const value = {
          updateId,
          effectiveAt: recordTime,
          events,
          offset,
          synchronizerId: this.#synchronizer,
          recordTime,
        }
        return events.length === 0 ? [] : [{ update: { Transaction: { value } } }]
      })
  }

  /** One transaction with the choices that were exercised; undefined if it is not known, or not any more. */
  effectsOf(body: Record<string, unknown>, prunedUpTo: number): object | undefined {
    const { updateId, updateFormat } = body as {
      updateId: string
      updateFormat: { includeTransactions: { eventFormat: EventFormat; transactionShape: string } }
    }
    const { eventFormat, transactionShape } = updateFormat.includeTransactions
    const asked = askedIn(eventFormat)
    if (asked === null || transactionShape !== 'TRANSACTION_SHAPE_LEDGER_EFFECTS')
      throw new Refused('INVALID_ARGUMENT', 8, 'only effects on contracts that implement an interface are told')
    const update = this.#updates.find((each) => each.updateId === updateId && each.offset > prunedUpTo)
    if (update === undefined) return undefined
    const { offset, recordTime, archived, created, exercised } = update
    const events = [
      ...archived
        .filter((each) => isAsked(each, asked))
        .map((each) => ({ ExercisedEvent: exercisedEvent(each, update, exercised) })),
      ...created
        .filter((each) => isAsked(each, asked))
        .map((each) => ({ CreatedEvent: createdEvent(each, asked, offset) })),
    ]
    const value = { updateId, effectiveAt: recordTime, events, offset, synchronizerId: this.#synchronizer, recordTime }
    return { update: { Transaction: { value } } }
  }
}
