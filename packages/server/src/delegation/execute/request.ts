import { createHash } from 'node:crypto'
import { type ErrorDetail, fail } from '../../platform/http/errors.ts'
import type { Command } from '../../platform/ports/ledger.ts'
import { signatureBytes } from '../../platform/ports/signature.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'
import type { NonceCommitments } from '../../wallets/custody/schema.ts'
import type { Execute } from '../schema.ts'

/** Commands to be executed. */
export interface RequestedCommands {
  /** Null where one is to be made. */
  commandId: string | null
  commands: Command[]
  /** Of the delegate, where the wallet's key is shared. */
  commitments: NonceCommitments | null
  dryRun: boolean
}

/** The answer to a signing request. */
export interface RequestedSignature {
  signingRequestId: string
  /** 64 bytes. */
  signature: Buffer
}

function commandsOf(input: NonNullable<Execute['commands']>): Command[] {
  const wrong: ErrorDetail[] = []
  const commands = input.map(({ create, exercise }, index): Command => {
    if (create !== undefined && exercise === undefined)
      return { create: { ...create, arguments: create.arguments ?? {} } }
    if (exercise !== undefined && create === undefined)
      return { exercise: { ...exercise, arguments: exercise.arguments ?? {} } }
    wrong.push({ field: `commands.${index}`, code: 'invalid', message: 'Must have either "create" or "exercise".' })
    return { create: { templateId: '', arguments: {} } }
  })
  if (wrong.length > 0) throw fail('validation_failed', wrong)
  return commands
}

/** Which of its two forms a call of execute has. @throws validation_failed on a mixture */
export function readExecute(input: Execute): RequestedCommands | RequestedSignature {
  const { commandId, commands, commitments, dryRun, signingRequestId, signature } = input
  if (signingRequestId === undefined && signature === undefined) {
    if (commands === undefined)
      throw fail('validation_failed', [{ field: 'commands', code: 'required', message: '"commands" is required.' }])
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
    message: 'Must be left out where a signing request is answered.',
  }))
  for (const [field, value] of Object.entries({ signingRequestId, signature }))
    if (value === undefined)
      wrong.push({ field, code: 'required', message: `"${field}" is required beside the other.` })
  if (wrong.length > 0) throw fail('validation_failed', wrong)
  return {
    signingRequestId: signingRequestId as string,
    signature: signatureBytes(signature as string),
  }
}

/** SHA-256 of commands: what makes a repeat under one command id the same. */
export function hashOf(commands: readonly Command[]): Buffer {
  return createHash('sha256').update(canonicalJson(commands)).digest()
}
