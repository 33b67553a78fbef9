import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { z } from 'zod'
import type { KeyProvider } from '../../platform/security/key-provider.ts'
import { parseJson, TransferError } from './errors.ts'

const MAGIC = Buffer.from('HALFKEY EXPORT\n')
const LENGTH_BYTES = 4
const PREFIX_BYTES = MAGIC.length + LENGTH_BYTES
const HEADER_BYTES_MAX = 16_384
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** Plaintext of a chunk; only the last one is shorter. */
const CHUNK_BYTES = 65_536
const SEALED_CHUNK_BYTES = CHUNK_BYTES + TAG_BYTES
/** Separates the key of a file from anything else that a transfer key may wrap. */
const WRAP_AAD = Buffer.from('halfkey/v1/export-key')

/** The format of the file. Raised when a release could not read an older one. */
const FORMAT = 1

const Header = z.strictObject({
  format: z.literal(FORMAT),
  exportId: z.string().regex(/^[0-9a-f]{32}$/),
  tenantId: z.string().regex(/^ten_[0-9a-hjkmnp-tv-z]{26}$/),
  /** The release that wrote it. */
  halfkey: z.string().max(40),
  schema: z.strictObject({ last: z.string().max(100), digest: z.string().regex(/^[0-9a-f]{64}$/) }),
  createdAt: z.iso.datetime(),
  /** The file's own random key, wrapped by the transfer key. */
  key: z.strictObject({ keyId: z.string().regex(/^[0-9a-f]{16}$/), wrapped: z.base64().max(200) }),
})
/** The part of an export that is not encrypted. Every chunk authenticates it. */
export type Header = z.infer<typeof Header>

/** An opened export. */
export interface Opened {
  header: Header
  /** SHA-256 of the clear part, which identifies the file. */
  digest: string
  /** The content, each piece authenticated before it is handed out. @throws TransferError */
  content(): AsyncGenerator<Buffer>
}

/** STREAM (Hoang, Reyhanitabar, Rogaway, Vizár 2015): the number of the chunk, and whether it is the last. */
function nonceOf(index: number, last: boolean): Buffer {
  const nonce = Buffer.alloc(NONCE_BYTES)
  nonce.writeUIntBE(index, NONCE_BYTES - 7, 6)
  nonce.writeUInt8(last ? 1 : 0, NONCE_BYTES - 1)
  return nonce
}

function sealChunk(key: Buffer, aad: Buffer, index: number, last: boolean, plain: Buffer): Buffer {
  const cipher = createCipheriv('aes-256-gcm', key, nonceOf(index, last)).setAAD(aad)
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

/** Null if the chunk is not authentic at this place. */
function openChunk(key: Buffer, aad: Buffer, index: number, last: boolean, sealed: Buffer): Buffer | null {
  if (sealed.length < TAG_BYTES) return null
  const decipher = createDecipheriv('aes-256-gcm', key, nonceOf(index, last), { authTagLength: TAG_BYTES }).setAAD(aad)
  decipher.setAuthTag(sealed.subarray(sealed.length - TAG_BYTES))
  const plain = decipher.update(sealed.subarray(0, sealed.length - TAG_BYTES))
  try {
    return Buffer.concat([plain, decipher.final()])
  } catch {
    return null
  }
}

/** Cuts a stream into pieces of one size; only the last may be shorter, and is empty only if the stream is. */
async function* pieces(source: AsyncIterable<Buffer>, bytes: number): AsyncGenerator<{ piece: Buffer; last: boolean }> {
  let held: Buffer[] = []
  let length = 0
  for await (const part of source) {
    held.push(part)
    length += part.length
    if (length <= bytes) continue
    const all = Buffer.concat(held)
    let from = 0
    // A full piece is held back: it may be the last.
    for (; all.length - from > bytes; from += bytes) yield { piece: all.subarray(from, from + bytes), last: false }
    held = [all.subarray(from)]
    length = all.length - from
  }
  yield { piece: Buffer.concat(held), last: true }
}

const clearPart = (header: Buffer) => {
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeUInt32BE(header.length)
  return Buffer.concat([MAGIC, length, header])
}

const digestOf = (clear: Buffer) => createHash('sha256').update(clear).digest()

/**
 * An export's bytes: the header in clear, then the content in AES-256-GCM chunks, each bound to the header, to its
 * place and to whether it is the last. The random key is used for this file only, so its nonces can be counters.
 */
export async function* writeContainer(
  keys: KeyProvider,
  about: Omit<Header, 'format' | 'key'>,
  content: AsyncIterable<Buffer>,
): AsyncGenerator<Buffer> {
  const key = randomBytes(KEY_BYTES)
  try {
    const { keyId, wrapped } = await keys.wrap(key, WRAP_AAD)
    const header: Header = { format: FORMAT, ...about, key: { keyId, wrapped: wrapped.toString('base64') } }
    const clear = clearPart(Buffer.from(JSON.stringify(header)))
    const aad = digestOf(clear)
    yield clear
    let index = 0
    for await (const { piece, last } of pieces(content, CHUNK_BYTES)) {
      yield sealChunk(key, aad, index, last, piece)
      index += 1
    }
  } finally {
    key.fill(0)
  }
}

/** @throws TransferError */
function parseHeader(path: string, text: string): Header {
  const value = parseJson(text)
  const format = (value as { format?: unknown } | null | undefined)?.format
  if (typeof format === 'number' && format !== FORMAT)
    throw new TransferError(
      `${path} has the format ${format}, but this release reads format ${FORMAT}. Use the release that wrote it, or a newer one.`,
    )
  const { data, error } = Header.safeParse(value)
  if (data !== undefined) return data
  const field = error.issues[0]?.path.join('.')
  throw new TransferError(`${path} is damaged: its header${field ? `'s ${field}` : ''} cannot be read. Copy it again.`)
}

async function readClear(path: string): Promise<{ header: Header; clear: Buffer }> {
  const file = await open(path, 'r').catch((error: Error) => {
    throw new TransferError(`The file ${path} cannot be read: ${error.message}`)
  })
  try {
    const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(PREFIX_BYTES + HEADER_BYTES_MAX) })
    if (bytesRead < PREFIX_BYTES || !buffer.subarray(0, MAGIC.length).equals(MAGIC))
      throw new TransferError(`${path} is not an export of Halfkey.`)
    const end = PREFIX_BYTES + buffer.readUInt32BE(MAGIC.length)
    if (end > bytesRead) throw new TransferError(`${path} is damaged: its header has the wrong length. Copy it again.`)
    return { header: parseHeader(path, buffer.toString('utf8', PREFIX_BYTES, end)), clear: buffer.subarray(0, end) }
  } finally {
    await file.close()
  }
}

async function* readChunks(path: string, key: Buffer, clear: Buffer): AsyncGenerator<Buffer> {
  const aad = digestOf(clear)
  let index = 0
  const stream = createReadStream(path, { start: clear.length, highWaterMark: 4 * CHUNK_BYTES })
  for await (const { piece, last } of pieces(stream, SEALED_CHUNK_BYTES)) {
    const plain = openChunk(key, aad, index, last, piece)
    if (plain === null) {
      const isCut = last && (piece.length === 0 || openChunk(key, aad, index, false, piece) !== null)
      throw new TransferError(
        isCut
          ? `${path} is truncated. Copy it again, or export again.`
          : `${path} was changed or damaged near byte ${clear.length + index * SEALED_CHUNK_BYTES}, or truncated there. Copy it again, or export again.`,
      )
    }
    yield plain
    index += 1
  }
}

/** Opens an export. @throws TransferError when it is no export, is damaged, or needs another key */
export async function openContainer(path: string, keys: KeyProvider): Promise<Opened> {
  const { header, clear } = await readClear(path)
  const key = await keys.unwrap(header.key.keyId, Buffer.from(header.key.wrapped, 'base64'), WRAP_AAD).catch(() => {
    throw new TransferError(
      `${path} cannot be opened with this key file. It was exported with key ${header.key.keyId}, or its header was changed.`,
    )
  })
  const content = () => readChunks(path, key, clear)
  // Each chunk authenticates the header: check one before the header is used.
  for await (const _ of content()) break
  return { header, digest: digestOf(clear).toString('hex'), content }
}
