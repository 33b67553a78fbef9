import { z } from 'zod'
import { formatAmount, parseAmount } from '../../../platform/ports/amount.ts'
import type { Holding } from '../../../platform/ports/tokens.ts'
import { shortestNumeric } from './effects.ts'
import type { CantonSettings } from './settings.ts'

/*
 * Holdings as the interface of the token standard shows them (CIP-56, V1). Whoever writes a template decides what its views say, so
 * a view alone proves nothing: the signatories do.
 * Source: token standard, `Splice.Api.Token.HoldingV1` in the public repository canton-network/splice.
 */

export const NUMERIC_CHARS_MAX = 80
const HOLDERS_MAX = 20

/** Texts that the database cannot keep as they are are not read at all: two of them could become the same. */
export const Text = z
  .string()
  .max(1_000)
  .refine((text) => text.isWellFormed() && !text.includes('\0'))
export const Party = Text.min(1)

const View = z.object({
  owner: Party,
  instrumentId: z.object({ admin: Party, id: Text }),
  amount: z.string().max(NUMERIC_CHARS_MAX),
  lock: z
    .object({
      holders: z.array(Party).max(HOLDERS_MAX),
      expiresAt: z.iso.datetime().nullish(),
      context: Text.nullish(),
    })
    .nullish(),
})

/** A contract that came to be, as far as it is read. */
export const Created = z.object({
  contractId: z.string().regex(/^[0-9a-f]{2,510}$/),
  createdAt: z.iso.datetime(),
  signatories: z.array(z.string()),
  observers: z.array(z.string()).nullish(),
  interfaceViews: z
    .array(
      z.object({
        interfaceId: z.string(),
        viewStatus: z.object({ code: z.int() }),
        viewValue: z.unknown(),
      }),
    )
    .nullish(),
})
export type Created = z.infer<typeof Created>

/**
 * The holding that a contract is; null if it is none that counts. It counts if its token is one of a registry that the operator
 * named, this registry's party has signed the contract, and the owner is a stakeholder of it.
 */
export function holdingOf(tokens: NonNullable<CantonSettings['tokens']>, contract: Created): Holding | null {
  const shown = contract.interfaceViews?.find(({ interfaceId }) => interfaceId === tokens.holding)
  const view = View.safeParse(shown?.viewStatus.code === 0 ? shown.viewValue : undefined).data
  if (view === undefined) return null
  const { owner, instrumentId: instrument, lock } = view
  const units = parseAmount(shortestNumeric(view.amount))
  const isTheirs = [...contract.signatories, ...(contract.observers ?? [])].includes(owner)
  const isSigned = contract.signatories.includes(instrument.admin)
  const isTrusted = tokens.registries.some(({ admin }) => admin === instrument.admin)
  if (units === null || !isTheirs || !isSigned || !isTrusted) return null
  return {
    contractId: contract.contractId,
    owner,
    instrument,
    amount: formatAmount(units),
    lock: lock
      ? {
          holders: lock.holders,
          expiresAt: lock.expiresAt ? new Date(lock.expiresAt) : null,
          context: lock.context ?? null,
        }
      : null,
    createdAt: new Date(contract.createdAt),
  }
}

/** The interfaces and registries that the operator named. */
export type Rules = NonNullable<CantonSettings['tokens']> & { holding: string }

/** Asks for contracts of some interfaces. */
export const filterOf = (interfaceIds: readonly string[]) => ({
  cumulative: interfaceIds.map((interfaceId) => ({
    identifierFilter: {
      InterfaceFilter: { value: { interfaceId, includeInterfaceView: true, includeCreatedEventBlob: false } },
    },
  })),
})

/** Asks for holdings and offers. */
export const bothOf = ({ holding, transferInstruction }: Rules) => filterOf([holding, transferInstruction])
