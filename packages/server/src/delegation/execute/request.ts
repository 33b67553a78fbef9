import { type ErrorDetail, fail, invalid } from '../../platform/http/errors.ts'
import type { Command } from '../../platform/ports/ledger.ts'
import { signatureBytes } from '../../platform/ports/signature.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'
import { sha256 } from '../../platform/security/crypto.ts'
import type { NonceCommitments } from '../../wallets/custody/schema.ts'
import type { Executor } from '../access.ts'
import type { Execute } from '../schema.ts'
import { argumentProblems } from './values.ts'

/** Commands to be executed. */
export interface RequestedCommands {
  /** Null if the service generates one. */
  commandId: string | null
  commands: Command[]
  /** The delegate's commitments, if the wallet's key is shared. */
  commitments: NonceCommitments | null
  dryRun: boolean
}

/** The signature for a signing request. */
export interface RequestedSignature {
  signingRequestId: string
  /** 64 bytes. */
  signature: Buffer
}

function commandsOf(input: NonNullable<Execute['commands']>): Command[] {
  const wrong: ErrorDetail[] = []
  const commands = input.map(({ create, exercise }, index): Command => {
    if (create !== undefined && exercise === undefined) {
      wrong.push(...argumentProblems(create.arguments ?? {}, `commands.${index}.create.arguments`))
      return { create: { ...create, arguments: create.arguments ?? {} } }
    }
    if (exercise !== undefined && create === undefined) {
      wrong.push(...argumentProblems(exercise.arguments ?? {}, `commands.${index}.exercise.arguments`))
      return { exercise: { ...exercise, arguments: exercise.arguments ?? {} } }
    }
    wrong.push({ field: `commands.${index}`, code: 'invalid', message: 'Must have either "create" or "exercise".' })
    return { create: { templateId: '', arguments: {} } }
  })
  if (wrong.length > 0) throw fail('validation_failed', wrong)
  return commands
}

/** A call of execute has one of two forms. @throws validation_failed if they are mixed */
export function readExecute(input: Execute): RequestedCommands | RequestedSignature {
  const { commandId, commands, commitments, dryRun, signingRequestId, signature } = input
  if (signingRequestId === undefined && signature === undefined) {
    if (commands === undefined) throw invalid('commands', '"commands" is required.', 'required')
    return {
      commandId: commandId ?? null,
      commands: commandsOf(commands),
      commitments: commitments ?? null,
      dryRun: dryRun ?? false,
    }
  }
  const beside = Object.entries({ commandId, commands, commitments, dryRun }).filter(([, value]) => value !== undefined)
  const wrong: ErrorDetail[] = beside.map(([field]) => ({
    field,
    code: 'invalid',
    message: 'Must be absent if signingRequestId is set.',
  }))
  for (const [field, value] of Object.entries({ signingRequestId, signature }))
    if (value === undefined)
      wrong.push({
        field,
        code: 'required',
        message: `"signingRequestId" and "signature" are required together: "${field}" is missing.`,
      })
  if (wrong.length > 0) throw fail('validation_failed', wrong)
  return { signingRequestId: signingRequestId as string, signature: signatureBytes(signature as string) }
}

/**
 * A delegate with a key names its command: then a repeat, which needs a new proof, is known to be one. A dry run needs no name.
 * @throws validation_failed
 */
export function requireCommandId({ delegate }: Executor, { commandId, dryRun }: RequestedCommands): void {
  if (commandId === null && !dryRun && delegate !== null && delegate.jkt !== null)
    throw invalid('commandId', '"commandId" is required: the session is bound to a key.', 'required')
}

/** SHA-256 of commands. A repeat under the same command id must have the same hash. */
export function hashOf(commands: readonly Command[]): Buffer {
  return sha256(canonicalJson(commands))
}
