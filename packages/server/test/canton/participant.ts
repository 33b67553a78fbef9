import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer, type ServerOptions } from 'node:https'
import type { AddressInfo } from 'node:net'
import { encodeModel, type Model } from '../../../keys/test/canton/model.ts'
import { secondOpinion } from '../../../keys/test/canton/second-opinion.ts'
import type { PartyToParticipantModel } from '../../../keys/test/canton/topology-model.ts'
import { type Interpreted, interpret, type JsonCommand, Refused } from './daml.ts'
import { type CheckBody, openDescription } from './openapi.ts'
import { type Body, blobOf, NeverDone, SimulatedLedger, SYNCHRONIZER, TooLarge, TooLong, USER_ID } from './sequenced.ts'
import { fingerprint, isSigned, multiHash, topologyOf } from './topology.ts'

export const PARTICIPANT = `node::1220${'9a'.repeat(32)}`

/** How a request goes wrong: its question or its answer is lost, nobody answers, or the participant says something else. */
export type Fault = 'lose_before' | 'lose_after' | 'hang' | { status: number; body: unknown }

/** A participant that is strict, and fails as it is told to. Nothing that is sent to it is believed. */
export class SimulatedParticipant extends SimulatedLedger {
  /** Of each path, how the next requests go wrong; null for one that does not. */
  next: Record<string, (Fault | null)[]> = {}
  always: Record<string, Fault> = {}
  /** Called with the path of each question, before it is answered. */
  onAsked: ((path: string) => void) | null = null
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
  /** Changes the updates that are told. */
  lieAboutUpdates: (updates: object[]) => object[] = (updates) => updates
  /** Answered instead of the prepared transaction's hash. */
  lieAboutHash: Buffer | null = null
  /** The access tokens that are accepted; null: none is asked for. */
  tokens: Set<string> | null = null
  tokensIssued = 0
  url = ''

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
    Object.assign(this, {
      next: {},
      always: {},
      onAsked: null,
      lie: null,
      lieAboutTopology: null,
      lieAboutHash: null,
      tokens: null,
    })
    Object.assign(this, {
      isHeld: false,
      participantId: PARTICIPANT,
      tellsTime: true,
      completionsMax: 200,
      elementsMax: 200,
      oversized: new Set(),
      endless: new Set(),
      version: '3.5.1',
      lieAboutUpdates: (updates: object[]) => updates,
      scheme: 'V3',
    })
    this.sequence()
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const text = Buffer.concat(parts).toString()
    const { pathname: path, searchParams } = new URL(request.url ?? '/', this.url)
    if (path === '/token') return this.#token(response)
    const body = text === '' ? {} : (JSON.parse(text) as Body)
    this.asked.push({ path, body })
    this.onAsked?.(path)
    const fault = this.next[path]?.shift() ?? this.always[path] ?? null
    if (fault === 'lose_before') return void request.socket.destroy()
    if (fault === 'hang') return
    if (typeof fault === 'object' && fault !== null) return answer(response, fault.status, fault.body)
    const told = this.#answer(request, path, searchParams, body)
    if (told === null) return
    if (fault === 'lose_after') return void request.socket.destroy()
    answer(response, told.status, told.body)
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
  ): { status: number; body: unknown } | null {
    try {
      const token = request.headers.authorization?.replace('Bearer ', '') ?? ''
      if (this.tokens !== null && !this.tokens.has(token))
        return { status: 401, body: errorBody('UNAUTHENTICATED', 6, 'The token is missing or has expired.') }
      const problem = request.method === 'POST' ? this.#check?.(path, body) : null
      if (problem) return { status: 400, body: `Invalid value for: body (${problem})` }
      return { status: 200, body: this.#route(request.method ?? '', path, query, body) }
    } catch (error) {
      if (error instanceof NeverDone) return null
      if (error instanceof TooLong) return { status: 200, body: ' '.repeat(17 << 20) }
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
        return this.readCompletions(body, query)
      case '/v2/state/active-contracts':
        return this.activeContracts(body, query)
      case '/v2/state/active-contracts-page':
        if (/^3\.[0-5]/.test(this.version)) throw new Refused('NOT_FOUND', 11, path)
        return this.activeContractsPage(body)
      case '/v2/updates/update-by-id':
        return this.updateById(body)
      case '/v2/updates':
        return this.lieAboutUpdates(this.readUpdates(body, query))
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
    if (path === '/v2/state/ledger-end') return { offset: this.end, synchronizerTimes: this.times() }
    if (path === '/v2/state/latest-pruned-offsets') return { participantPrunedUpToInclusive: this.prunedUpTo }
    if (path.startsWith('/v2/parties/')) {
      const party = decodeURIComponent(path.slice('/v2/parties/'.length))
      if (!this.parties.has(party)) throw new Refused('PARTY_NOT_FOUND', 11, `no party ${party}`)
      return { partyDetails: [{ party, isLocal: true }] }
    }
    throw new Refused('NOT_FOUND', 11, path)
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
    const disclosed = disclosedIn(body)
    const interpreted = interpret(command, party, (id) => this.visible(id, party, disclosed))
    const model: Model = {
      transaction: interpreted.transaction,
      metadata: {
        submitter_info: { act_as: [party], command_id: commandId },
        synchronizer_id: SYNCHRONIZER,
        mediator_group: 0,
        transaction_uuid: randomUUID(),
        preparation_time: this.micros(),
        input_contracts: interpreted.inputs.map((each) => ({
          v1: each.create,
          created_at: each.createdAt,
          event_blob: randomBytes(8).toString('hex'),
        })),
        max_record_time: this.micros(new Date(maxRecordTime)),
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
    this.submit({ key, party, commandId, submissionId, model, interpreted })
    return {}
  }
}

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

/** The ids of contracts that came with a request, in their right form. @throws Refused */
function disclosedIn({ disclosedContracts }: Body): Set<string> {
  const given = disclosedContracts as { contractId: string; createdEventBlob: string; synchronizerId: string }[]
  for (const { contractId, createdEventBlob, synchronizerId } of given)
    if (createdEventBlob !== blobOf(contractId) || synchronizerId !== SYNCHRONIZER)
      throw new Refused('INVALID_ARGUMENT', 8, 'a disclosed contract is not one')
  return new Set(given.map(({ contractId }) => contractId))
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
