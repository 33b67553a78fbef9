import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { Arguments, Command, Prepared } from '../../../platform/ports/ledger.ts'
import { LedgerError } from '../../../platform/ports/ledger.ts'
import { canonicalJson } from '../../../platform/security/canonical-json.ts'
import { CantonError, openPrepared, type PreparedView, unwrapPrepared, wrapPrepared } from './bytes.ts'
import { commandsOf, effectsOf, flowsOf, refuse } from './effects.ts'
import type { CantonSettings } from './settings.ts'

/*
 * What Halfkey keeps of a prepared transaction: the bytes of the participant in their envelope, the command id as Halfkey has it,
 * and the participant's offset before preparing, from which on its outcome is looked for. Written in canonical JSON.
 */
const Kept = z.strictObject({
  commandId: z.string(),
  envelope: z.base64(),
  since: z.int().min(0),
})

/** A prepared transaction, and where its outcome is found. */
export interface CantonPrepared extends Prepared {
  /** Offset of the participant, exclusive. */
  since: number
  /** The participant's bytes. */
  transaction: Buffer
}

/** A command id in Canton's alphabet. Equal for equal ids; Halfkey's ids name the session, so they are unique. */
export const cantonCommandId = (commandId: string): string =>
  `hk-${createHash('sha256').update('halfkey/v1/canton-command\0').update(commandId).digest('hex')}`

/** To be kept, and decoded. */
export function keep(
  { hashVersion: scheme }: CantonSettings,
  { commandId, since, prepared }: { commandId: string; since: number; prepared: Uint8Array },
): Buffer {
  const envelope = Buffer.from(wrapPrepared({ scheme, prepared })).toString('base64')
  return Buffer.from(canonicalJson({ commandId, envelope, since }))
}

function readKept(bytes: Buffer): z.infer<typeof Kept> {
  let given: unknown
  try {
    given = JSON.parse(bytes.toString('utf8'))
  } catch {
    return refuse('is not valid JSON')
  }
  const kept = Kept.safeParse(given)
  // Exactly one writing of each: what is stored is what was judged.
  const again = kept.success && { ...kept.data, envelope: Buffer.from(kept.data.envelope, 'base64').toString('base64') }
  if (!again || !Buffer.from(canonicalJson(again)).equals(bytes)) return refuse('is not in its canonical form')
  return again
}

/** Milliseconds, rounded up: a later expiry than requested must not look like it. */
function expiryOf({ maxRecordTime }: PreparedView): Date {
  if (maxRecordTime === undefined) return refuse('has no time after which it cannot happen')
  const millis = Date.parse(`${maxRecordTime.slice(0, 23)}Z`)
  return new Date(maxRecordTime.slice(23, 26) === '000' ? millis : millis + 1)
}

/** Reads kept bytes, strictly. Nothing but the bytes is believed. @throws LedgerError prepared_invalid */
export function decode(settings: CantonSettings, bytes: Buffer): CantonPrepared {
  const { commandId, envelope, since } = readKept(bytes)
  try {
    const { scheme, prepared } = unwrapPrepared(Buffer.from(envelope, 'base64'))
    if (scheme !== settings.hashVersion) refuse(`is hashed by ${scheme}, and this ledger by ${settings.hashVersion}`)
    const view = openPrepared(prepared, scheme)
    if (view.synchronizerId !== settings.synchronizer) refuse('is for another synchronizer')
    if (view.commandId !== cantonCommandId(commandId)) refuse('has another command id')
    const [actAs, ...others] = view.actAs
    if (actAs === undefined || others.length > 0) return refuse('is for other parties too')
    return {
      bytes,
      payload: Buffer.from(view.hash),
      commandId,
      actAs,
      commands: commandsOf(view),
      effects: effectsOf(view),
      flows: flowsOf(view, settings.assets),
      expiresAt: expiryOf(view),
      since,
      transaction: Buffer.from(prepared),
    }
  } catch (error) {
    if (!(error instanceof CantonError)) throw error
    throw new LedgerError('prepared_invalid', `The prepared transaction was refused: ${error.message}.`)
  }
}

const argumentsIn = (command: Command): Arguments =>
  'create' in command ? command.create.arguments : command.exercise.arguments

/**
 * Refuses values for fields that the command did not give. Daml's records have all their fields, so what was left out must be
 * absent in what was prepared. @throws LedgerError prepared_invalid
 */
export function requireNothingAdded(asked: readonly Command[], prepared: readonly Command[]): void {
  for (const [index, command] of asked.entries()) {
    const given = argumentsIn(command)
    const made = prepared[index]
    for (const [name, value] of Object.entries(made === undefined ? {} : argumentsIn(made)))
      if (value !== null && !Object.hasOwn(given, name))
        refuse(`gives the argument ${name} a value that nobody requested`)
  }
}
