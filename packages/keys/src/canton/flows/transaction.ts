import { sha256 } from '@noble/hashes/sha2.js'
import { toHex, utf8 } from '../../bytes.ts'
import { bytesOf } from '../../flows/execute.ts'
import { unwrapPrepared } from '../envelope.ts'
import { CantonError } from '../errors.ts'
import { openPrepared, type PreparedView } from '../view.ts'

/** A command id as Halfkey gives it to a participant. Equal for equal ids. */
const cantonCommandId = (commandId: string): string =>
  `hk-${toHex(sha256(utf8(`halfkey/v1/canton-command\0${commandId}`)))}`

/** A `preparedTransaction` of the API for a wallet on Canton. */
export interface CantonTransaction {
  /** The delegated session's id, a slash, and the `commandId` of the call. */
  commandId: string
  view: PreparedView
}

/**
 * Reads a prepared transaction of a wallet on Canton from its bytes and nothing else. `view.hash` is what is signed, computed here.
 * @param preparedTransaction base64, as in `signingRequest`
 * @throws CantonError `malformed`, `unsupported`, `too_large`, `changed`; `not_asked` if it has another command id than it says
 */
export function readCantonTransaction(preparedTransaction: string): CantonTransaction {
  const { commandId, envelope } = keptIn(preparedTransaction)
  const { scheme, prepared } = unwrapPrepared(envelope)
  const view = openPrepared(prepared, scheme)
  if (view.commandId !== cantonCommandId(commandId))
    throw new CantonError('not_asked', 'it has another command id than the service says')
  return { commandId, view }
}

function keptIn(preparedTransaction: string): { commandId: string; envelope: Uint8Array } {
  try {
    const { commandId, envelope } = JSON.parse(
      new TextDecoder('utf-8', { fatal: true }).decode(bytesOf(preparedTransaction)),
    )
    if (typeof commandId !== 'string') throw new TypeError('no command id')
    return { commandId, envelope: bytesOf(envelope) }
  } catch {
    throw new CantonError('malformed', 'this is not a prepared transaction of a wallet on Canton')
  }
}
