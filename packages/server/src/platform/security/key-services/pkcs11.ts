import { fork } from 'node:child_process'
import { type KeyService, KeyServiceAddressError, KeyServiceError, type KeyServiceFailure } from './key-service.ts'

/** Where a key is, from a PKCS #11 URI (RFC 7512). */
export interface Pkcs11Address {
  modulePath: string
  token: string
  object: string
  pinFile: string
}

/** What the process of one call is asked, and what it answers. Bytes are base64. */
export interface Pkcs11Request extends Pkcs11Address {
  action: 'wrap' | 'unwrap'
  bytes: string
  context: string
}
export type Pkcs11Answer = { bytes: string } | { failure: KeyServiceFailure; message: string }

/** Less than the deadline of a call, so that what hangs is gone before the next try. */
const CALL_MS = 4_500

/** `name=value` parts between separators, percent-decoded. */
function readParts(text: string, separator: string): Map<string, string> {
  const parts = text.split(separator).filter((part) => part !== '')
  return new Map(
    parts.map((part) => {
      const [name = '', ...value] = part.split('=')
      return [name, decodeURIComponent(value.join('='))]
    }),
  )
}

/** Reads what follows `pkcs11:`. @throws KeyServiceAddressError */
export function readPkcs11Address(address: string): Pkcs11Address {
  const [path = '', query = ''] = address.split('?')
  const [of, how] = [readParts(path, ';'), readParts(query, '&')]
  const [token, object, modulePath] = [of.get('token'), of.get('object'), how.get('module-path')]
  // A PIN in the address itself (`pin-value`) would be printed with the settings.
  const pinFile = how.get('pin-source')?.replace(/^file:(\/\/)?/, '')
  if (token === undefined || object === undefined || modulePath === undefined || pinFile === undefined)
    throw new KeyServiceAddressError(
      `pkcs11:${path} must be pkcs11:token=<token>;object=<key>?module-path=<library>&pin-source=<file>`,
    )
  return { modulePath, token, object, pinFile }
}

/** As `.ts` where the source runs, as `.js` where the build does. */
const PROGRAM = new URL(`./pkcs11-process${import.meta.url.slice(import.meta.url.lastIndexOf('.'))}`, import.meta.url)

/**
 * A hardware security module, or another token with a PKCS #11 library: an AES key that stays inside wraps with AES-GCM. Each
 * call is a process of its own, because such libraries block, may hang or end the process that loads them.
 */
export async function openPkcs11(address: string): Promise<KeyService> {
  const parts = readPkcs11Address(address)

  function call(action: 'wrap' | 'unwrap', bytes: Buffer, context: string): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const child = fork(PROGRAM, { timeout: CALL_MS, killSignal: 'SIGKILL' })
      const fail = (failure: KeyServiceFailure, message: string) =>
        reject(new KeyServiceError(failure, `PKCS #11, ${action} with ${parts.object}: ${message}`))
      child.once('message', (answer: Pkcs11Answer) => {
        if ('bytes' in answer) resolve(Buffer.from(answer.bytes, 'base64'))
        else fail(answer.failure, answer.message)
        child.disconnect()
      })
      child.once('error', (error) => fail('unavailable', error.message))
      child.once('exit', (code, signal) => fail('unavailable', `the library ended its process (${signal ?? code})`))
      const request: Pkcs11Request = { ...parts, action, bytes: bytes.toString('base64'), context }
      child.send(request, (error) => error !== null && fail('unavailable', error.message))
    })
  }

  return {
    wrap: (key, context) => call('wrap', key, context),
    unwrap: (wrapped, context) => call('unwrap', wrapped, context),
    close: async () => {},
  }
}
