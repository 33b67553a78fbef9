import { z } from 'zod'
import {
  type Arguments,
  type Contract,
  type ContractPage,
  type ContractQuery,
  LedgerError,
} from '../../../platform/ports/ledger.ts'
import { readLedgerEnd } from './completions.ts'
import { ParticipantError } from './participant.ts'
import type { Parts } from './parts.ts'
import { asLedgerError } from './refusals.ts'

/** How many contracts of a party are read at once. The participant has no pages before 3.6. */
const CONTRACTS_MAX = 1_000

const Created = z.object({
  offset: z.int().min(0),
  contractId: z.string(),
  templateId: z.string(),
  createArgument: z.record(z.string(), z.unknown()),
  signatories: z.array(z.string()),
  observers: z.array(z.string()).nullish(),
})
const Entry = z.object({
  contractEntry: z.union([
    z.object({ JsActiveContract: z.object({ createdEvent: Created, synchronizerId: z.string() }) }),
    // In the middle of a move between synchronizers: not usable here.
    z.object({ JsEmpty: z.unknown() }),
    z.object({ JsIncompleteAssigned: z.unknown() }),
    z.object({ JsIncompleteUnassigned: z.unknown() }),
  ]),
})

const filterOf = (templateId: string) => ({
  identifierFilter: { TemplateFilter: { value: { templateId, includeCreatedEventBlob: false } } },
})

async function readActive(parts: Parts, { party, templateIds }: ContractQuery): Promise<Contract[]> {
  const { settings, participant } = parts
  const { offset } = await readLedgerEnd(parts)
  const request = {
    activeAtOffset: offset,
    eventFormat: { filtersByParty: { [party]: { cumulative: templateIds.map(filterOf) } }, verbose: false },
  }
  const path = `/v2/state/active-contracts?limit=${CONTRACTS_MAX + 1}`
  let entries: z.infer<typeof Entry>[]
  try {
    entries = await participant.post(path, request, z.array(Entry))
  } catch (error) {
    if (error instanceof ParticipantError && error.status === 413) return tooMany()
    throw asLedgerError(error, { changesNothing: true })
  }
  if (entries.length > CONTRACTS_MAX) return tooMany()
  return entries.flatMap(({ contractEntry: each }): Contract[] => {
    if (!('JsActiveContract' in each) || each.JsActiveContract.synchronizerId !== settings.synchronizer) return []
    const {
      contractId,
      templateId,
      createArgument,
      signatories,
      observers,
      offset: at,
    } = each.JsActiveContract.createdEvent
    const seen = { signatories, observers: observers ?? [] }
    return [{ contractId, templateId, arguments: createArgument as Arguments, ...seen, createdAtOffset: at }]
  })
}

function tooMany(): never {
  throw new LedgerError(
    'arguments_invalid',
    `The wallet has more than ${CONTRACTS_MAX} contracts of these templates. Name fewer templates.`,
    { field: 'templateIds' },
  )
}

const CURSOR = /^(\d{1,15}):([0-9a-f]{1,510})$/

/** Newest first; contracts of one transaction by their ids. */
const order = (a: Contract, b: Contract): number =>
  b.createdAtOffset - a.createdAtOffset || (a.contractId < b.contractId ? -1 : a.contractId > b.contractId ? 1 : 0)

/** A page of a party's active contracts, as of now. @throws LedgerError */
export async function queryContracts(parts: Parts, query: ContractQuery): Promise<ContractPage> {
  const { accept, limit, cursor } = query
  const [, offset, contractId] = cursor === null ? [] : (CURSOR.exec(cursor) ?? [])
  if (cursor !== null && contractId === undefined)
    throw new LedgerError('arguments_invalid', 'Must be the nextCursor of an earlier page.', { field: 'cursor' })
  const last = contractId === undefined ? null : { createdAtOffset: Number(offset), contractId }
  const all = (await readActive(parts, query)).sort(order)
  const rest = last === null ? all : all.filter((each) => order(last as Contract, each) < 0)
  const page = rest.slice(0, limit)
  const end = page.at(-1)
  return {
    contracts: accept === null ? page : page.filter(accept),
    nextCursor: end === undefined || rest.length <= limit ? null : `${end.createdAtOffset}:${end.contractId}`,
  }
}
