import { sha256 } from '@noble/hashes/sha2.js'
import { type Bytes, utf8 } from '../bytes.ts'
import { CantonError } from './errors.ts'
import type { HashingScheme } from './hash.ts'
import { PREPARED_LIMITS } from './prepared.ts'

/*
 * Prepared bytes as Halfkey keeps and hands them on. The signature's hash covers what they mean and not how they are written, and
 * some of it not at all: protobuf has several writings of one message. The checksum covers every byte, so that what was
 * judged, signed, stored and submitted can be told to be the same. It is no signature: whoever makes other bytes can make
 * their checksum.
 *
 * Layout: "HKCP", version 1, scheme (2 or 3), the prepared bytes, SHA-256 of a domain tag and all that precedes it.
 */

const HEADER = utf8('HKCP\x01')
const DOMAIN = utf8('halfkey/v1/canton-prepared\0')
const SCHEME_BYTES = { V2: 2, V3: 3 } as const
const CHECKSUM_BYTES = 32
const FIXED_BYTES = HEADER.length + 1 + CHECKSUM_BYTES

/** Prepared bytes, and the version of the algorithm by which they are hashed. */
export interface Enveloped {
  readonly scheme: HashingScheme
  /** The protobuf `PreparedTransaction`, as the participant gave it. */
  readonly prepared: Bytes
}

/** Puts prepared bytes into an envelope. */
export function wrapPrepared({ scheme, prepared }: { scheme: HashingScheme; prepared: Uint8Array }): Bytes {
  const envelope = new Uint8Array(FIXED_BYTES + prepared.length)
  envelope.set(HEADER)
  envelope[HEADER.length] = SCHEME_BYTES[scheme]
  envelope.set(prepared, HEADER.length + 1)
  envelope.set(checksum(envelope), envelope.length - CHECKSUM_BYTES)
  return envelope
}

/** Takes them out. @throws CantonError `changed` if any byte is another one, `too_large` */
export function unwrapPrepared(envelope: Uint8Array): Enveloped {
  if (envelope.length > FIXED_BYTES + PREPARED_LIMITS.bytes)
    throw new CantonError('too_large', 'the envelope is too large')
  const isWhole =
    envelope.length > FIXED_BYTES &&
    HEADER.every((byte, at) => envelope[at] === byte) &&
    checksum(envelope).every((byte, at) => envelope[envelope.length - CHECKSUM_BYTES + at] === byte)
  const byte = envelope[HEADER.length]
  if (!isWhole || (byte !== SCHEME_BYTES.V2 && byte !== SCHEME_BYTES.V3))
    throw new CantonError('changed', 'this is no envelope of a prepared transaction, or it was changed')
  return {
    scheme: byte === SCHEME_BYTES.V2 ? 'V2' : 'V3',
    prepared: envelope.slice(HEADER.length + 1, -CHECKSUM_BYTES) as Bytes,
  }
}

/** Of all but the last 32 bytes. */
const checksum = (envelope: Uint8Array): Uint8Array =>
  sha256.create().update(DOMAIN).update(envelope.subarray(0, -CHECKSUM_BYTES)).digest()
