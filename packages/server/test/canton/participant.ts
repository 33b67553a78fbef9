import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer, type ServerOptions } from 'node:https'
import type { AddressInfo } from 'node:net'
import { encodeModel, type Model } from '../../../keys/test/canton/model.ts'
import { secondOpinion } from '../../../keys/test/canton/second-opinion.ts'
import type { PartyToParticipantModel } from '../../../keys/test/canton/topology-model.ts'
import { type Contract, type Interpreted, interpret, type JsonCommand, mint, Refused } from './daml.ts'
import { type CheckBody, openDescription } from './openapi.ts'
import { fingerprint, isSigned, multiHash, topologyOf } from './topology.ts'

export const SYNCHRONIZER = `sync::1220${'5c'.repeat(32)}`
export const PARTICIPANT = `node::1220${'9a'.repeat(32)}`
export const USER_ID = 'halfkey'

/** How a request goes wrong: its question or its answer is lost, nobody answers, or the participant says something else. */
export type Fault = 'lose_before' | 'lose_after' | 'hang' | { status: number; body: unknown }

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

type Body = Record<string, unknown>

/** A participant that is strict, and fails as it is told to. Nothing that is sent to it is believed. */
export class SimulatedParticipant {
  /** Of each path, how the next requests go wrong; null for one that does not. */
  next: Record<string, (Fault | null)[]> = {}
  always: Record<string, Fault> = {}
  /** Everything asked so far. */
  asked: { path: string; body: Body }[] = []
  participantId = PARTICIPANT
  synchronizers = [SYNCHRONIZER]
  version = '3.5.1'
  release: '3.4' | '3.5' = '3.5'
  scheme: 'V2' | 'V3' = 'V3'
  /** Changes what is prepared before it is hashed and written. */
  lie: ((model: Model) => void) | null = null
  /** The same for a party's topology. */
  lieAboutTopology: ((hosting: PartyToParticipantModel) => void) | null = null
  /** Answered instead of the prepared transaction's hash. */
  lieAboutHash: Buffer | null = null
  /** What is submitted waits until `sequence`. */
  isHeld = false
  /** How many of the next submissions lose against another transaction that uses the same contract at that moment. */
  locked = 0
  /** The access tokens that are accepted; null: none is asked for. */
  tokens: Set<string> | null = null
  tokensIssued = 0
  /** Completions a request may have at most; more are refused with 413. */
  completionsMax = 200
  prunedUpTo = 0
  /** Whether the time of the synchronizer is told when nothing happens. */
  tellsTime = true
  now: () => Date = () => new Date()
  url = ''

  readonly parties = new Map<string, Buffer>()
  readonly contracts = new Map<string, Contract>()
  #archived = new Set<string>()
  #offset = 0
  #completions: Completion[] = []
  #inFlight: Submission[] = []
  #accepted = new Set<string>()
  readonly #generated = new Map<string, { party: string; key: Buffer }>()
  readonly #prepared = new Map<string, { model: Model; interpreted: Interpreted }>()
  readonly #check: CheckBody | undefined = openDescription()
  #server: Server | undefined

  /** @param tls without it, plain HTTP */
  async start(tls?: ServerOptions): Promise<this> {
    const handle = (request: IncomingMessage, response: ServerResponse) => void this.#handle(request, response)
    const server = tls === undefined ? createServer(handle) : createTlsServer(tls, handle)
    this.#server = server
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    this.url = `http${tls === undefined ? '' : 's'}://127.0.0.1:${(server.address() as AddressInfo).port}`
    return this
  }

  stop(): Promise<void> {
    this.#server?.closeAllConnections()
    return new Promise((done) => this.#server?.close(() => done()))
  }

  /** No more faults, lies and delays. */
  heal(): void {
    Object.assign(this, { next: {}, always: {}, lie: null, lieAboutTopology: null, lieAboutHash: null, tokens: null })
    Object.assign(this, {
      isHeld: false,
      participantId: PARTICIPANT,
      tellsTime: true,
      completionsMax: 200,
      scheme: 'V3',
    })
    this.sequence()
  }

  /** Puts a contract on the ledger. @returns its id */
  mint(templateId: string, fields: Record<string, unknown>): string {
    return this.#add(mint(templateId, fields)).contractId
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

  /** Restored from a backup: offsets are given anew, from a lower one on. */
  restore(): void {
    let offset = 0
    this.#completions = this.#completions.map((each) => {
      offset += 1
      return { ...each, offset, value: { ...each.value, offset } }
    })
    this.#offset = offset
  }

  #micros(at = this.now()): string {
    return `${at.getTime()}000`
  }

  #add(made: Omit<Contract, 'offset' | 'createdAt'>): Contract {
    this.#offset += 1
    const contract = { ...made, offset: this.#offset, createdAt: this.#micros() }
    this.contracts.set(contract.contractId, contract)
    return contract
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const text = Buffer.concat(parts).toString()
    const { pathname: path, searchParams } = new URL(request.url ?? '/', this.url)
    if (path === '/token') return this.#token(response)
    const body = text === '' ? {} : (JSON.parse(text) as Body)
    this.asked.push({ path, body })
    const fault = this.next[path]?.shift() ?? this.always[path] ?? null
    if (fault === 'lose_before') return void request.socket.destroy()
    if (fault === 'hang') return
    if (typeof fault === 'object' && fault !== null) return answer(response, fault.status, fault.body)
    const { status, body: told } = this.#answer(request, path, searchParams, body)
    if (fault === 'lose_after') return void request.socket.destroy()
    answer(response, status, told)
  }

  #token(response: ServerResponse): void {
    this.tokensIssued += 1
    const token = `token-${this.tokensIssued}`
    this.tokens?.add(token)
    answer(response, 200, { access_token: token, token_type: 'Bearer', expires_in: 3_600 })
  }

  #answer(
    request: IncomingMessage,
    path: string,
    query: URLSearchParams,
    body: Body,
  ): { status: number; body: unknown } {
    try {
      const token = request.headers.authorization?.replace('Bearer ', '') ?? ''
      if (this.tokens !== null && !this.tokens.has(token))
        return { status: 401, body: errorBody('UNAUTHENTICATED', 6, 'The token is missing or has expired.') }
      const problem = request.method === 'POST' ? this.#check?.(path, body) : null
      if (problem) return { status: 400, body: `Invalid value for: body (${problem})` }
      return { status: 200, body: this.#route(request.method ?? '', path, query, body) }
    } catch (error) {
      if (error instanceof TooLarge)
        return { status: 413, body: errorBody('JSON_API_MAXIMUM_LIST_ELEMENTS', 8, 'too many') }
      if (!(error instanceof Refused)) return { status: 500, body: errorBody('INTERNAL', 4, String(error)) }
      const status = error.category === 11 ? 404 : error.category === 10 || error.category === 2 ? 409 : 400
      return { status, body: errorBody(error.code, error.category, error.message) }
    }
  }

  #route(method: string, path: string, query: URLSearchParams, body: Body): unknown {
    if (method === 'GET') return this.#get(path)
    switch (path) {
      case '/v2/parties/external/generate-topology':
        return this.#generate(body)
      case '/v2/parties/external/allocate':
        return this.#allocate(body)
      case '/v2/interactive-submission/prepare':
        return this.#prepare(body)
      case '/v2/interactive-submission/execute':
        return this.#execute(body)
      case '/v2/commands/completions':
        return this.#readCompletions(body, query)
      case '/v2/state/active-contracts':
        return this.#activeContracts(body)
      default:
        throw new Refused('NOT_FOUND', 11, path)
    }
  }

  #get(path: string): unknown {
    if (path === '/v2/version') return { version: this.version, features: {} }
    if (path === '/v2/parties/participant-id') return { participantId: this.participantId }
    if (path === '/v2/state/connected-synchronizers')
      return {
        connectedSynchronizers: this.synchronizers.map((id) => ({ synchronizerAlias: 'sync', synchronizerId: id })),
      }
    if (path === '/v2/state/ledger-end') return { offset: this.#offset, synchronizerTimes: this.#times() }
    if (path === '/v2/state/latest-pruned-offsets') return { participantPrunedUpToInclusive: this.prunedUpTo }
    if (path.startsWith('/v2/parties/')) {
      const party = decodeURIComponent(path.slice('/v2/parties/'.length))
      if (!this.parties.has(party)) throw new Refused('PARTY_NOT_FOUND', 11, `no party ${party}`)
      return { partyDetails: [{ party, isLocal: true }] }
    }
    throw new Refused('NOT_FOUND', 11, path)
  }

  #times() {
    return this.tellsTime && !this.isHeld
      ? [{ synchronizerId: SYNCHRONIZER, recordTime: this.now().toISOString() }]
      : []
  }

  #generate(body: Body) {
    const { synchronizer, partyHint, publicKey } = body as {
      synchronizer: string
      partyHint: string
      publicKey: { format: string; keyData: string; keySpec: string }
    }
    if (synchronizer !== SYNCHRONIZER) throw new Refused('INVALID_ARGUMENT', 8, 'another synchronizer')
    if (publicKey.format !== 'CRYPTO_KEY_FORMAT_RAW' || publicKey.keySpec !== 'SIGNING_KEY_SPEC_EC_CURVE25519')
      throw new Refused('INVALID_ARGUMENT', 8, 'another kind of key')
    const key = Buffer.from(publicKey.keyData, 'base64')
    const party = `${partyHint}::${fingerprint(key)}`
    const of = { party, key, participant: this.participantId, release: this.release }
    const transactions = topologyOf(of, this.lieAboutTopology)
    for (const each of transactions) this.#generated.set(each.toString('base64'), { party, key })
    return {
      partyId: party,
      publicKeyFingerprint: fingerprint(key),
      topologyTransactions: transactions.map((each) => each.toString('base64')),
      multiHash: multiHash(transactions).toString('base64'),
    }
  }

  #allocate(body: Body) {
    const { synchronizer, onboardingTransactions, multiHashSignatures } = body as {
      synchronizer: string
      onboardingTransactions: { transaction: string }[]
      multiHashSignatures: Body[]
    }
    const transactions = onboardingTransactions.map(({ transaction }) => transaction)
    const known = this.#generated.get(transactions[0] ?? '')
    if (synchronizer !== SYNCHRONIZER || known === undefined)
      throw new Refused('INVALID_ARGUMENT', 8, 'this is not a topology')
    const message = multiHash(transactions.map((each) => Buffer.from(each, 'base64')))
    requireSignature(multiHashSignatures, known.key, message)
    if (this.parties.has(known.party)) throw new Refused('PARTY_ALREADY_EXISTS', 10, 'the party exists')
    this.parties.set(known.party, known.key)
    return { partyId: known.party }
  }

  #prepare(body: Body) {
    const { commands, actAs, commandId, maxRecordTime, hashingSchemeVersion, synchronizerId, userId } = body as {
      commands: JsonCommand[]
      actAs: string[]
      commandId: string
      maxRecordTime: string
      hashingSchemeVersion: string
      synchronizerId: string
      userId: string
    }
    const [party] = actAs
    const [command] = commands
    if (commands.length !== 1 || actAs.length !== 1 || command === undefined || party === undefined)
      throw new Refused('INVALID_ARGUMENT', 8, 'one command of one party')
    if (!this.parties.has(party)) throw new Refused('UNKNOWN_SUBMITTERS', 11, `unknown party ${party}`)
    if (!/^[\w#:\-/ ]{1,255}$/.test(commandId)) throw new Refused('INVALID_FIELD', 8, 'commandId')
    if (synchronizerId !== SYNCHRONIZER || userId !== USER_ID || !hashingSchemeVersion.endsWith(this.scheme))
      throw new Refused('INVALID_ARGUMENT', 8, 'synchronizer, user or hashing scheme')
    const find = (id: string) => (this.#archived.has(id) ? undefined : this.contracts.get(id))
    const interpreted = interpret(command, party, find)
    const model: Model = {
      transaction: interpreted.transaction,
      metadata: {
        submitter_info: { act_as: [party], command_id: commandId },
        synchronizer_id: SYNCHRONIZER,
        mediator_group: 0,
        transaction_uuid: randomUUID(),
        preparation_time: this.#micros(),
        input_contracts: interpreted.inputs.map((each) => ({
          v1: each.create,
          created_at: each.createdAt,
          event_blob: randomBytes(8).toString('hex'),
        })),
        max_record_time: this.#micros(new Date(maxRecordTime)),
      },
    }
    this.lie?.(model)
    const bytes = encodeModel(model)
    this.#prepared.set(digest(bytes), { model, interpreted })
    return {
      preparedTransaction: bytes.toString('base64'),
      preparedTransactionHash: (this.lieAboutHash ?? secondOpinion(model, this.scheme)).toString('base64'),
      hashingSchemeVersion: `HASHING_SCHEME_VERSION_${this.scheme}`,
    }
  }

  #execute(body: Body) {
    const { preparedTransaction, partySignatures, submissionId, hashingSchemeVersion, userId } = body as {
      preparedTransaction: string
      partySignatures: { signatures: { party: string; signatures: Body[] }[] }
      submissionId: string
      hashingSchemeVersion: string
      userId: string
    }
    const known = this.#prepared.get(digest(Buffer.from(preparedTransaction, 'base64')))
    if (known === undefined || userId !== USER_ID || !hashingSchemeVersion.endsWith(this.scheme))
      throw new Refused('INVALID_ARGUMENT', 8, 'this was not prepared here')
    const { model, interpreted } = known
    const [party = ''] = model.metadata.submitter_info.act_as
    const [signed] = partySignatures.signatures
    if (partySignatures.signatures.length !== 1 || signed?.party !== party)
      throw new Refused('INVALID_ARGUMENT', 8, 'one party signs')
    requireSignature(signed.signatures, this.parties.get(party) as Buffer, secondOpinion(model, this.scheme))
    const { command_id: commandId } = model.metadata.submitter_info
    const key = `${userId} ${party} ${commandId}`
    if (this.#inFlight.some((each) => each.key === key))
      throw new Refused('SUBMISSION_ALREADY_IN_FLIGHT', 2, 'The submission is already in flight')
    if (this.#accepted.has(key)) throw new Refused('DUPLICATE_COMMAND', 10, 'A command with the given id was accepted')
    this.#inFlight.push({ key, party, commandId, submissionId, model, interpreted })
    if (!this.isHeld) this.sequence()
    return {}
  }

  /** The synchronizer's verdict. */
  #decide({ key, party, commandId, submissionId, model, interpreted }: Submission): void {
    const isTooLate = BigInt(this.#micros()) > BigInt(model.metadata.max_record_time ?? '0')
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
      for (const id of interpreted.consumed) this.#archived.add(id)
      for (const made of interpreted.made) this.#add(made)
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

  #readCompletions(body: Body, query: URLSearchParams) {
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

  #activeContracts(body: Body) {
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
}

class TooLarge extends Error {}

const digest = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

const errorBody = (code: string, errorCategory: number, cause: string) => ({
  code,
  cause,
  context: {},
  resources: [],
  errorCategory,
  // A participant says so of what it refused by itself.
  definiteAnswer: true,
})

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(typeof body === 'string' ? body : JSON.stringify(body))
}

/** One Ed25519 signature by the party's key. @throws Refused */
function requireSignature(signatures: Body[], key: Buffer, message: Buffer): void {
  const [given] = signatures as { format: string; signature: string; signedBy: string; signingAlgorithmSpec: string }[]
  const isRight =
    signatures.length === 1 &&
    given !== undefined &&
    given.format === 'SIGNATURE_FORMAT_CONCAT' &&
    given.signingAlgorithmSpec === 'SIGNING_ALGORITHM_SPEC_ED25519' &&
    given.signedBy === fingerprint(key) &&
    isSigned(key, message, Buffer.from(given.signature, 'base64'))
  if (!isRight) throw new Refused('INVALID_ARGUMENT', 8, 'the signature is not valid')
}
