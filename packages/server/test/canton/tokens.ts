import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  archive,
  type Choice,
  type Fields,
  type Given,
  install,
  numeric,
  Refused,
  type Template,
  units,
} from './daml.ts'
import type { SimulatedParticipant } from './participant.ts'
import { blobOf, SYNCHRONIZER } from './sequenced.ts'

/*
 * Tokens of the token standard (CIP-56, V1) and their registry. Interfaces, choices, arguments and paths are those of the standard; the
 * templates that implement them are the registry's own, as each registry has its own.
 */

const STANDARD = '5a'.repeat(32)
const IMPLEMENTATION = '70'.repeat(32)
const MODULE = 'Splice.Api.Token.TransferInstructionV1'
export const FACTORY = `${STANDARD}:${MODULE}:TransferFactory`
export const INSTRUCTION = `${STANDARD}:${MODULE}:TransferInstruction`
/** The interface of holdings. */
export const HOLDING = `${STANDARD}:Splice.Api.Token.HoldingV1:Holding`
export const TOKEN = `${IMPLEMENTATION}:Test.Token:Token`
/** A holding that its holder, too, must let go. */
export const LOCKED = `${IMPLEMENTATION}:Test.Token:Locked`
/** Claims to be a holding of a registry that never signed it. */
export const FORGED = `${IMPLEMENTATION}:Test.Token:Forged`
/** A holding whose owner does not see it. */
export const HIDDEN = `${IMPLEMENTATION}:Test.Token:Hidden`
export const OFFER = `${IMPLEMENTATION}:Test.Token:Offer`
/** Claims to be a transfer of a registry that never signed it. */
export const FORGED_OFFER = `${IMPLEMENTATION}:Test.Token:ForgedOffer`
/** A transfer that those do not see whom it is about. */
export const HIDDEN_OFFER = `${IMPLEMENTATION}:Test.Token:HiddenOffer`
const RULES = `${IMPLEMENTATION}:Test.Token:Rules`
const PREAPPROVAL = `${IMPLEMENTATION}:Test.Token:Preapproval`

const instrument = { record: 'InstrumentId', fields: { admin: 'party', id: 'text' } } as const
const meta = { record: 'Metadata', fields: { values: { text_map: 'text' } } } as const
const extraArgs = {
  record: 'ExtraArgs',
  fields: { context: { record: 'ChoiceContext', fields: { values: { text_map: 'any' } } }, meta },
} as const
const transfer = {
  record: 'Transfer',
  fields: {
    sender: 'party',
    receiver: 'party',
    amount: 'numeric',
    instrumentId: instrument,
    requestedAt: 'time',
    executeBefore: 'time',
    inputHoldingCids: { list: 'contract_id' },
    meta,
  },
} as const

interface Transfer {
  sender: string
  receiver: string
  amount: string
  instrumentId: { admin: string; id: string }
  requestedAt: string
  executeBefore: string
  inputHoldingCids: string[]
  meta: object
}

const fail = (why: string): never => {
  throw new Refused('DAML_FAILURE', 9, why)
}

/** A contract that the context names. */
function inContext(given: Given, name: string): string | undefined {
  const { context } = given.extraArgs as { context: { values: Record<string, { value: string }> } }
  return context.values[name]?.value
}

/** Locks or moves what is sent. With the receiver's preapproval in the context it is theirs at once. */
const send: Choice = {
  consuming: false,
  fields: { expectedAdmin: 'party', transfer, extraArgs },
  controllers: (_, given) => [(given.transfer as Transfer).sender],
  run(builder, { admin }, given) {
    const { sender, receiver, amount, instrumentId, inputHoldingCids, ...more } = given.transfer as Transfer
    if (given.expectedAdmin !== admin || instrumentId.admin !== admin) fail('another admin')
    const preapproval = inContext(given, 'preapproval')
    let had = 0n
    for (const id of inputHoldingCids) {
      const { owner, amount: held, instrument: of } = builder.read(id)
      if (owner !== sender || (of as { id: string }).id !== instrumentId.id) fail('not a holding of the sender')
      had += units(held)
      builder.exercise(TOKEN, id, 'Archive', {}, [admin as string])
    }
    const rest = had - units(amount)
    if (units(amount) <= 0n || rest < 0n) fail('the holdings are not enough')
    const token = { instrument: instrumentId }
    if (preapproval === undefined) builder.create(OFFER, { ...token, sender, receiver, amount, ...more })
    else {
      if (builder.read(preapproval).receiver !== receiver) fail('the preapproval of somebody else')
      builder.create(TOKEN, { ...token, owner: receiver, amount })
    }
    if (rest > 0n) builder.create(TOKEN, { ...token, owner: sender, amount: numeric(rest) })
  },
}

/** What a choice of a transfer returns. */
export const resultOf = (tag: 'Completed' | 'Failed' | 'Pending') => ({
  output: { tag: `TransferInstructionResult_${tag}`, value: {} },
  senderChangeCids: [],
  meta: { values: {} },
})

/** Ends an offer: the tokens go to its receiver, or back to its sender. */
const end = (controller: 'sender' | 'receiver', to: 'sender' | 'receiver'): Choice => ({
  consuming: true,
  fields: { extraArgs },
  controllers: (offer) => [offer[controller] as string],
  result: resultOf(to === 'receiver' ? 'Completed' : 'Failed'),
  run(builder, offer, given) {
    if (inContext(given, 'rules') === undefined) fail('the context is missing')
    builder.create(TOKEN, { instrument: offer.instrument, owner: offer[to], amount: offer.amount })
  },
})

const adminOf = ({ instrument: of }: Given) => [(of as { admin: string }).admin]

/** Amounts come with all decimals; those that are none come as they are. */
const shownAmount = (amount: unknown) => (/^\d+(\.\d{1,10})?$/.test(String(amount)) ? numeric(units(amount)) : amount)
const holdingView = ({ owner, instrument: instrumentId, amount }: Given) => ({
  owner,
  instrumentId,
  amount: shownAmount(amount),
  lock: null,
  meta: { values: {} },
})

const offerFields: Fields = {
  instrument,
  sender: 'party',
  receiver: 'party',
  amount: 'numeric',
  requestedAt: 'time',
  executeBefore: 'time',
  meta,
  original: { optional: 'contract_id' },
  awaits: { optional: 'text' },
}
const offerView = ({ instrument: instrumentId, sender, receiver, amount, original, awaits, ...more }: Given) => ({
  originalInstructionCid: original ?? null,
  transfer: {
    sender,
    receiver,
    amount: shownAmount(amount),
    instrumentId,
    requestedAt: more.requestedAt,
    executeBefore: more.executeBefore,
    inputHoldingCids: [],
    meta: more.meta,
  },
  status: { tag: awaits ?? 'TransferPendingReceiverAcceptance', value: {} },
  meta: { values: {} },
})

const tokenFields: Fields = { instrument, owner: 'party', amount: 'numeric' }
const TEMPLATES: Readonly<Record<string, Template>> = {
  [TOKEN]: {
    fields: tokenFields,
    signatories: adminOf,
    observers: ({ owner }) => [owner as string],
    choices: { Archive: archive(adminOf) },
    views: { [HOLDING]: holdingView },
  },
  [LOCKED]: {
    fields: { ...tokenFields, holder: 'party', context: 'text' },
    signatories: adminOf,
    observers: ({ owner }) => [owner as string],
    choices: { Archive: archive(adminOf) },
    views: {
      [HOLDING]: (contract) => ({
        ...holdingView(contract),
        lock: {
          holders: [contract.holder],
          expiresAt: '2027-01-01T00:00:00.000000Z',
          expiresAfter: null,
          context: contract.context,
        },
      }),
    },
  },
  [FORGED]: {
    fields: { ...tokenFields, forger: 'party' },
    signatories: ({ forger }) => [forger as string],
    observers: ({ owner }) => [owner as string],
    choices: {},
    views: { [HOLDING]: holdingView },
  },
  [HIDDEN]: {
    fields: tokenFields,
    signatories: adminOf,
    observers: () => [],
    choices: {},
    views: { [HOLDING]: holdingView },
  },
  [OFFER]: {
    fields: offerFields,
    signatories: adminOf,
    observers: ({ sender, receiver }) => [sender as string, receiver as string],
    choices: {},
    interfaces: {
      [INSTRUCTION]: {
        TransferInstruction_Accept: end('receiver', 'receiver'),
        TransferInstruction_Reject: end('receiver', 'sender'),
        TransferInstruction_Withdraw: end('sender', 'sender'),
      },
    },
    views: { [INSTRUCTION]: offerView },
  },
  [FORGED_OFFER]: {
    fields: { ...offerFields, forger: 'party' },
    signatories: ({ forger }) => [forger as string],
    observers: ({ sender, receiver }) => [sender as string, receiver as string],
    choices: {},
    views: { [INSTRUCTION]: offerView },
  },
  [HIDDEN_OFFER]: {
    fields: offerFields,
    signatories: adminOf,
    observers: () => [],
    choices: {},
    views: { [INSTRUCTION]: offerView },
  },
  [RULES]: {
    fields: { admin: 'party' },
    signatories: ({ admin }) => [admin as string],
    observers: () => [],
    choices: {},
    interfaces: { [FACTORY]: { TransferFactory_Transfer: send } },
  },
  [PREAPPROVAL]: {
    fields: { admin: 'party', receiver: 'party' },
    signatories: ({ admin }) => [admin as string],
    observers: () => [],
    choices: {},
  },
}
install(TEMPLATES)

const DAY_MS = 86_400_000
const micros = (ms: number) => new Date(ms).toISOString().replace('Z', '000Z')

/** A registry's own answer instead of the right one. */
type Answer = { status: number; body: unknown }

/** A registry that is strict: it answers only what the standard asks of it, about its own tokens. */
export class SimulatedRegistry {
  readonly admin = `registry::1220${'4d'.repeat(32)}`
  asked: { path: string; body: Record<string, unknown> }[] = []
  /** What it answers next, whatever is asked. */
  next: Answer[] = []
  /** Changes an answer. */
  lie: ((answer: { choiceContextData: { values: object }; disclosedContracts: object[] }) => void) | null = null
  url = ''
  factory = ''
  readonly #preapprovals = new Map<string, string>()
  readonly #participant: SimulatedParticipant
  #server: Server | undefined

  constructor(participant: SimulatedParticipant) {
    this.#participant = participant
  }

  async start(): Promise<this> {
    this.factory = this.#participant.mint(RULES, { admin: this.admin })
    const server = createServer(async (request, response) => {
      const parts: Buffer[] = []
      for await (const part of request) parts.push(part as Buffer)
      const path = request.url ?? ''
      const body = JSON.parse(Buffer.concat(parts).toString())
      this.asked.push({ path, body })
      const { status, body: told } = this.next.shift() ?? this.#answer(request.method ?? '', path, body)
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(told))
    })
    this.#server = server
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    return this
  }

  stop(): Promise<void> {
    this.#server?.closeAllConnections()
    return new Promise((done) => this.#server?.close(() => done()))
  }

  /** Gives somebody tokens. @returns the holding's contract id */
  mint(owner: string, amount: string, id = 'GOLD'): string {
    return this.#participant.mint(TOKEN, { instrument: { admin: this.admin, id }, owner, amount })
  }

  /** What an offer of its tokens consists of. Its time is over in a day. */
  offer(
    sender: string,
    receiver: string,
    amount: string,
    more: object = {},
  ): [templateId: string, fields: Given & object] {
    const now = this.#participant.now().getTime()
    const times = { requestedAt: micros(now), executeBefore: micros(now + DAY_MS) }
    const instrument = { admin: this.admin, id: 'GOLD' }
    return [OFFER, { instrument, sender, receiver, amount, ...times, meta: { values: {} }, ...more }]
  }

  /** From now on the receiver gets tokens without being asked. */
  preapprove(receiver: string): void {
    this.#preapprovals.set(receiver, this.#participant.mint(PREAPPROVAL, { admin: this.admin, receiver }))
  }

  #answer(method: string, path: string, body: Record<string, unknown>): Answer {
    const base = '/registry/transfer-instruction/v1/'
    const wrong = (error: string): Answer => ({ status: 400, body: { error } })
    if (method !== 'POST' || !path.startsWith(base) || body.excludeDebugFields !== true)
      return wrong('not of the standard')
    const rest = path.slice(base.length)
    if (rest === 'transfer-factory') {
      const { expectedAdmin, transfer: of, extraArgs: more } = body.choiceArguments as Record<string, Transfer | string>
      if (expectedAdmin !== this.admin || typeof of !== 'object' || more === undefined)
        return wrong('not of this registry')
      const preapproval = this.#preapprovals.get(of.receiver)
      const ids = [this.factory, ...(preapproval === undefined ? [] : [preapproval])]
      const values = preapproval === undefined ? {} : { preapproval: { tag: 'AV_ContractId', value: preapproval } }
      const choiceContext = this.#context(ids, values)
      const transferKind = preapproval === undefined ? 'offer' : 'direct'
      return { status: 200, body: { factoryId: this.factory, transferKind, choiceContext } }
    }
    const [, id = ''] = /^([^/]+)\/choice-contexts\/(accept|reject|withdraw)$/.exec(rest) ?? []
    const isKnown = this.#participant.active(OFFER, {}).some(({ contractId }) => contractId === decodeURIComponent(id))
    if (!isKnown) return { status: 404, body: { error: 'no such transfer' } }
    const context = this.#context([this.factory], { rules: { tag: 'AV_ContractId', value: this.factory } })
    return { status: 200, body: context }
  }

  #context(ids: string[], values: object) {
    const disclosedContracts = ids.map((contractId) => ({
      templateId: this.#participant.contracts.get(contractId)?.templateId,
      contractId,
      createdEventBlob: blobOf(contractId),
      synchronizerId: SYNCHRONIZER,
    }))
    const answer = { choiceContextData: { values }, disclosedContracts }
    this.lie?.(answer)
    return answer
  }
}
