import { z } from 'zod'
import type { Egress } from '../../../platform/egress/egress.ts'
import { type Arguments, type Command, LedgerError, type Value } from '../../../platform/ports/ledger.ts'
import { isGiven } from './bytes.ts'
import { refuse } from './effects.ts'
import type { Parts } from './parts.ts'
import type { CantonSettings } from './settings.ts'

/*
 * Tokens of the token standard (CIP-56, V1): a choice of its interfaces needs a context that only the token's registry knows, and
 * contracts that the party does not see. A command leaves `extraArgs` out, and they are asked for here.
 * Source: token standard, OpenAPI of `transfer-instruction-v1` in the public repository canton-network/splice.
 */

const ANSWER_BYTES_MAX = 1 << 20
const DISCLOSED_MAX = 50
const CONTEXT = 'extraArgs'

/** Ids of contracts and synchronizers are not longer. A registry is somebody else's, and what it names reaches errors. */
const LedgerId = z.string().min(1).max(255)
const TEMPLATE_CHARS_MAX = 1_000

const Disclosed = z.object({
  templateId: z.string().max(TEMPLATE_CHARS_MAX),
  contractId: LedgerId,
  createdEventBlob: z.base64(),
  synchronizerId: LedgerId,
})
const Context = z.object({
  choiceContextData: z.looseObject({ values: z.record(z.string(), z.unknown()) }),
  disclosedContracts: z.array(Disclosed).max(DISCLOSED_MAX),
})
const Factory = z.object({ factoryId: LedgerId, choiceContext: Context })

type Disclosed = z.infer<typeof Disclosed>
type Exercise = Extract<Command, { exercise: unknown }>['exercise']

/** A command as it is sent to the participant. */
interface Completed {
  command: Command
  /** Contracts that the transaction needs and its party does not see. */
  disclosed: readonly Disclosed[]
}

/** The choices of a transfer in two steps, as the registry's paths name them. */
const STEPS: Readonly<Record<string, string>> = {
  TransferInstruction_Accept: 'accept',
  TransferInstruction_Reject: 'reject',
  TransferInstruction_Withdraw: 'withdraw',
}

const unavailable = (what: string) =>
  new LedgerError('ledger_unavailable', `The token's registry ${what}.`, { retryable: true, definite: true })

/** Asks a registry, through the guard. @returns null for 404 @throws LedgerError */
async function ask<T>(
  { egress, settings }: { egress: Egress; settings: CantonSettings },
  registry: string,
  path: string,
  about: { body: object; shape: z.ZodType<T> },
): Promise<T | null> {
  const { statusCode, answer } = await egress.post({
    url: `${registry.replace(/\/+$/, '')}/registry/transfer-instruction/v1/${path}`,
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify(about.body),
    timeoutMs: settings.timeoutMs,
    keepsAnswer: true,
    answerBytesMax: ANSWER_BYTES_MAX,
  })
  if (statusCode === 404) return null
  if (statusCode !== null && statusCode >= 400 && statusCode < 500 && statusCode !== 429)
    throw new LedgerError('arguments_invalid', `The token's registry refused with status ${statusCode}.`)
  if (statusCode !== 200 || answer === undefined) throw unavailable('did not answer')
  let given: unknown
  try {
    given = JSON.parse(answer.toString('utf8'))
  } catch {
    throw unavailable('did not answer in JSON')
  }
  const read = about.shape.safeParse(given)
  if (!read.success) throw unavailable('did not answer as the token standard says')
  return read.data
}

const NO_CONTEXT = { context: { values: {} }, meta: { values: {} } }

/** What the registry says of a transfer. @throws LedgerError */
async function contextOfTransfer(parts: Parts, { contractId, arguments: given }: Exercise) {
  const { registries } = parts.settings.tokens as NonNullable<CantonSettings['tokens']>
  const registry = registries.find(({ admin }) => admin === given.expectedAdmin)
  if (registry === undefined)
    throw new LedgerError('arguments_invalid', 'No registry is configured for this admin of tokens.', {
      field: '0.exercise.arguments.expectedAdmin',
    })
  const body = { choiceArguments: { ...given, [CONTEXT]: NO_CONTEXT }, excludeDebugFields: true }
  const answer = await ask(parts, registry.url, 'transfer-factory', { body, shape: Factory })
  if (answer === null) throw unavailable('has no transfer factory')
  if (answer.factoryId !== contractId)
    throw new LedgerError('contract_not_found', `The registry's transfer factory is ${answer.factoryId}.`, {
      field: '0.exercise.contractId',
    })
  return answer.choiceContext
}

/** What the registry says of an offered transfer: the one that knows it. @throws LedgerError */
async function contextOfStep(parts: Parts, { contractId }: Exercise, step: string) {
  const { registries } = parts.settings.tokens as NonNullable<CantonSettings['tokens']>
  const path = `${encodeURIComponent(contractId)}/choice-contexts/${step}`
  let failure: unknown = null
  for (const { url } of registries)
    try {
      const answer = await ask(parts, url, path, { body: { meta: {}, excludeDebugFields: true }, shape: Context })
      if (answer !== null) return answer
    } catch (error) {
      // Another one may know it.
      failure ??= error
    }
  if (failure !== null) throw failure
  throw new LedgerError('contract_not_found', 'No registry knows this transfer.', { field: '0.exercise.contractId' })
}

/**
 * Completes a command that exercises a choice of the token standard with what its registry says. Other commands, and those that
 * bring their context along, stay as they are. @throws LedgerError
 */
export async function completed(parts: Parts, command: Command): Promise<Completed> {
  const { tokens, synchronizer } = parts.settings
  const exercise = 'exercise' in command ? command.exercise : undefined
  if (tokens === undefined || exercise === undefined || Object.hasOwn(exercise.arguments, CONTEXT))
    return { command, disclosed: [] }
  const { templateId, choice } = exercise
  const step = templateId === tokens.transferInstruction ? STEPS[choice] : undefined
  const isTransfer = templateId === tokens.transferFactory && choice === 'TransferFactory_Transfer'
  if (step === undefined && !isTransfer) return { command, disclosed: [] }
  const { choiceContextData, disclosedContracts } =
    step === undefined ? await contextOfTransfer(parts, exercise) : await contextOfStep(parts, exercise, step)
  if (disclosedContracts.some(({ synchronizerId }) => synchronizerId !== synchronizer))
    throw new LedgerError('prepared_invalid', "The registry's contracts are on another synchronizer.")
  const extraArgs = { context: choiceContextData as Value, meta: { values: {} } }
  return {
    command: { exercise: { ...exercise, arguments: { ...exercise.arguments, [CONTEXT]: extraArgs } } },
    disclosed: disclosedContracts,
  }
}

/** Refuses a context other than the registry's: nobody requested it, and no policy looks at it. @throws LedgerError prepared_invalid */
export function requireContext({ command: asked }: Completed, prepared: Command | undefined): void {
  if (!('exercise' in asked) || prepared === undefined || !('exercise' in prepared)) return
  const contextIn = (given: Arguments) => (Object.hasOwn(given, CONTEXT) ? given[CONTEXT] : undefined)
  const [wanted, made] = [contextIn(asked.exercise.arguments), contextIn(prepared.exercise.arguments)]
  if (wanted !== undefined && !isGiven(wanted, made)) refuse('has another context than the registry gave')
}
