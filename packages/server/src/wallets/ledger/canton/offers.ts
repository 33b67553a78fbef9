import { z } from 'zod'
import { formatAmount, parseAmount } from '../../../platform/ports/amount.ts'
import type { Command } from '../../../platform/ports/ledger.ts'
import type { Offer, OfferAnswer, OfferOutcome } from '../../../platform/ports/tokens.ts'
import { shortestNumeric } from './effects.ts'
import { type Created, NUMERIC_CHARS_MAX, Party, Text } from './holdings.ts'
import type { CantonSettings } from './settings.ts'

/*
 * Transfers in two steps as the interface of the token standard shows them (CIP-56, V1). As of holdings, a view alone proves
 * nothing: the signatories do.
 * Source: token standard, `Splice.Api.Token.TransferInstructionV1` in the public repository canton-network/splice.
 */

type Tokens = NonNullable<CantonSettings['tokens']>

const META_ENTRIES_MAX = 20
const META_CHARS_MAX = 4_000

/** Daml's times begin here. The year 0, which ISO 8601 has, PostgreSQL has not. */
const FIRST_TIME = Date.parse('0001-01-01T00:00:00Z')
const Time = z.iso
  .datetime()
  .transform((text) => new Date(text))
  .refine((time) => time.getTime() >= FIRST_TIME)

const View = z.object({
  originalInstructionCid: z
    .string()
    .regex(/^[0-9a-f]{2,510}$/)
    .nullish(),
  transfer: z.object({
    sender: Party,
    receiver: Party,
    amount: z.string().max(NUMERIC_CHARS_MAX),
    instrumentId: z.object({ admin: Party, id: Text }),
    requestedAt: Time,
    executeBefore: Time,
    meta: z.object({ values: z.unknown() }).nullish(),
  }),
  status: z.object({ tag: z.string() }),
})

const Meta = z.record(Text, Text).refine((meta) => {
  const entries = Object.entries(meta)
  const chars = entries.reduce((sum, [key, value]) => sum + key.length + value.length, 0)
  return entries.length <= META_ENTRIES_MAX && chars <= META_CHARS_MAX
})

/**
 * The offer that a contract is; null if it is none that counts. It counts if its token is one of a registry that the operator
 * named, this registry's party has signed the contract, and sender and receiver are stakeholders of it.
 */
export function offerOf(tokens: Tokens, contract: Created): Offer | null {
  const shown = contract.interfaceViews?.find(({ interfaceId }) => interfaceId === tokens.transferInstruction)
  const view = View.safeParse(shown?.viewStatus.code === 0 ? shown.viewValue : undefined).data
  if (view === undefined) return null
  const { sender, receiver, instrumentId: instrument, requestedAt, executeBefore, meta } = view.transfer
  const units = parseAmount(shortestNumeric(view.transfer.amount))
  const stakeholders = [...contract.signatories, ...(contract.observers ?? [])]
  const isTheirs = stakeholders.includes(sender) && stakeholders.includes(receiver)
  const isSigned = contract.signatories.includes(instrument.admin)
  const isTrusted = tokens.registries.some(({ admin }) => admin === instrument.admin)
  if (units === null || !isTheirs || !isSigned || !isTrusted) return null
  return {
    contractId: contract.contractId,
    originalId: view.originalInstructionCid ?? contract.contractId,
    sender,
    receiver,
    instrument,
    amount: formatAmount(units),
    requestedAt,
    executeBefore,
    awaits: view.status.tag === 'TransferPendingReceiverAcceptance' ? 'receiver' : 'others',
    meta: Meta.safeParse(meta?.values ?? {}).data ?? null,
    createdAt: new Date(contract.createdAt),
  }
}

const CHOICES: Readonly<Record<OfferAnswer, string>> = {
  accept: 'TransferInstruction_Accept',
  reject: 'TransferInstruction_Reject',
  withdraw: 'TransferInstruction_Withdraw',
}

/** The command of an answer. Its context is the registry's: see `completed`. */
export const answerOf = (tokens: Tokens, contractId: string, answer: OfferAnswer): Command => ({
  exercise: { templateId: tokens.transferInstruction, contractId, choice: CHOICES[answer], arguments: {} },
})

/** A choice that was exercised, as far as it is read. */
export const Exercised = z.object({
  contractId: z.string(),
  interfaceId: z.string().nullish(),
  choice: z.string(),
  consuming: z.boolean(),
  exerciseResult: z.unknown(),
})
type Exercised = z.infer<typeof Exercised>

const Result = z.object({ output: z.object({ tag: z.string() }) })

/** What a choice that has used an offer up made of it; null if it was no answer, or the transfer goes on. */
export function outcomeOf(tokens: Tokens, exercised: Exercised): OfferOutcome | null {
  const { interfaceId, choice, consuming, exerciseResult } = exercised
  const tag = Result.safeParse(exerciseResult).data?.output.tag
  if (!consuming || interfaceId !== tokens.transferInstruction || tag === 'TransferInstructionResult_Pending')
    return null
  if (choice === CHOICES.reject) return 'rejected'
  if (choice === CHOICES.withdraw) return 'withdrawn'
  // Also by others' steps that follow the receiver's consent.
  return tag === 'TransferInstructionResult_Completed' ? 'accepted' : null
}
