import { createHash, randomBytes } from 'node:crypto'
import { isServiceAddress, KeyServiceError } from './key-service.ts'
import { openKeyService } from './open-key-service.ts'

/**
 * The lines of a key file. A plain line is a key as base64. A wrapped line is `<address> <key id> <wrapped key as base64>`: the
 * key service at that address unwraps it.
 */
export interface KeyLine {
  text: string
  keyId: string
  /** Null for a plain line. */
  service: string | null
  /** The key, or what the service wrapped. */
  bytes: Buffer
}

const KEY_BYTES = 32
const WRAPPED_BYTES_MAX = 8_192

/** A key's name: it stands in every value that the key seals. */
export function idOf(key: Buffer): string {
  return createHash('sha256').update('halfkey/v1/kek-id').update(key).digest('hex').slice(0, 16)
}

/** The context under which a service wraps the key of this id. */
const contextOf = (keyId: string) => `halfkey/v1/key-encryption-key ${keyId}`

const fromBase64 = (text: string) => {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : null
}

/** A line, or null if it is none. */
export function readLine(text: string): KeyLine | null {
  if (!isServiceAddress(text)) {
    const bytes = fromBase64(text)
    return bytes?.length === KEY_BYTES ? { text, keyId: idOf(bytes), service: null, bytes } : null
  }
  const [service = '', keyId = '', wrapped = '', ...more] = text.split(/\s+/)
  const bytes = fromBase64(wrapped)
  const fits = more.length === 0 && /^[0-9a-f]{16}$/.test(keyId)
  if (!fits || bytes === null || bytes.length === 0 || bytes.length > WRAPPED_BYTES_MAX) return null
  return { text, keyId, service, bytes }
}

/** The key of a line. @throws KeyServiceError, KeyServiceAddressError */
export async function keyOf({ keyId, service: address, bytes }: KeyLine): Promise<Buffer> {
  if (address === null) return bytes
  const service = await openKeyService(address)
  try {
    const key = await service.unwrap(bytes, contextOf(keyId))
    if (key.length === KEY_BYTES && idOf(key) === keyId) return key
    throw new KeyServiceError('corrupt', `${address} answered with another key than ${keyId}`)
  } finally {
    await service.close()
  }
}

/** A line for a key: wrapped by a service, or plain. @throws KeyServiceError, KeyServiceAddressError */
export async function lineFor(key: Buffer, address: string | null): Promise<string> {
  if (address === null) return key.toString('base64')
  const service = await openKeyService(address)
  const keyId = idOf(key)
  try {
    const wrapped = await service.wrap(key, contextOf(keyId))
    const line = `${address} ${keyId} ${wrapped.toString('base64')}`
    // What cannot be unwrapped again must never become the only copy.
    const again = readLine(line)
    if (again === null || !(await service.unwrap(again.bytes, contextOf(keyId))).equals(key))
      throw new KeyServiceError('corrupt', `${address} does not unwrap what it wrapped`)
    return line
  } finally {
    await service.close()
  }
}

/** A new key as a plain line of a key file, without the line's end. */
export function newKeyLine(): string {
  return randomBytes(KEY_BYTES).toString('base64')
}

/** A new key as a line, wrapped if there is a service. @throws KeyServiceError, KeyServiceAddressError */
export function newLineBy(address: string | null): Promise<string> {
  return lineFor(Buffer.from(newKeyLine(), 'base64'), address)
}
