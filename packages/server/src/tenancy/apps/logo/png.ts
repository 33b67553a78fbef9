import { createHash } from 'node:crypto'
import { crc32, inflateSync } from 'node:zlib'
import { SIDE_MAX } from './schema.ts'

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
/** What a picture needs to be drawn. All other chunks (text, dates, places, animations) are left out. */
const KEPT = ['IHDR', 'sRGB', 'gAMA', 'PLTE', 'tRNS', 'IDAT', 'IEND']
/** Samples a pixel and bits a sample, by colour type (PNG 11.2.1). */
const FORMATS: Readonly<Record<number, { samples: number; depths: readonly number[] }>> = {
  0: { samples: 1, depths: [1, 2, 4, 8, 16] },
  2: { samples: 3, depths: [8, 16] },
  3: { samples: 1, depths: [1, 2, 4, 8] },
  4: { samples: 2, depths: [8, 16] },
  6: { samples: 4, depths: [8, 16] },
}
/** Of chunks that may be there once, bytes (PNG 11.2 and 11.3). */
const LENGTH_MAX: Readonly<Record<string, number>> = { IHDR: 13, sRGB: 1, gAMA: 4, PLTE: 768, tRNS: 256, IEND: 0 }

/** An image that holds nothing but the picture. */
export interface Png {
  bytes: Buffer
  width: number
  height: number
  /** SHA-256 of the bytes, hexadecimal. */
  sha256: string
}

interface Chunk {
  type: string
  data: Buffer
  /** With length, type and checksum. */
  whole: Buffer
}

/** @throws Error with the problem as a sentence */
function chunksOf(image: Buffer): Chunk[] {
  if (!image.subarray(0, 8).equals(SIGNATURE)) throw new Error('Must be a PNG image.')
  const chunks: Chunk[] = []
  for (let at = 8; at + 12 <= image.length && chunks.at(-1)?.type !== 'IEND'; ) {
    const end = at + 12 + image.readUInt32BE(at)
    if (end > image.length) break
    const typed = image.subarray(at + 4, end - 4)
    if (crc32(typed) !== image.readUInt32BE(end - 4)) throw new Error('The image is damaged: a checksum is wrong.')
    chunks.push({ type: typed.toString('latin1', 0, 4), data: typed.subarray(4), whole: image.subarray(at, end) })
    at = end
  }
  if (chunks[0]?.type !== 'IHDR' || chunks.at(-1)?.type !== 'IEND') throw new Error('The image is not complete.')
  return chunks.filter(({ type }) => KEPT.includes(type))
}

/** Whether every chunk but those of the picture's data is there at most once, and no longer than it may be. */
function areSingle(chunks: readonly Chunk[]): boolean {
  const others = chunks.filter(({ type }) => type !== 'IDAT')
  const types = new Set(others.map(({ type }) => type))
  return types.size === others.length && others.every(({ type, data }) => data.length <= (LENGTH_MAX[type] ?? 0))
}

/**
 * Whether the picture's data is as long as its header says, with nothing behind it: a few kilobytes can be inflated to
 * gigabytes.
 */
function isWhole(chunks: readonly Chunk[], bytes: number): boolean {
  const data = Buffer.concat(chunks.filter(({ type }) => type === 'IDAT').map((chunk) => chunk.data))
  try {
    // With `info`, it returns what it read, too; the types do not know it.
    const { buffer, engine } = inflateSync(data, { maxOutputLength: bytes, info: true }) as unknown as {
      buffer: Buffer
      engine: { bytesWritten: number }
    }
    return buffer.length === bytes && engine.bytesWritten === data.length
  } catch {
    return false
  }
}

/**
 * Checks a PNG image and leaves out of it what is not the picture. @throws Error with the problem as a sentence
 * @see PNG (Third Edition), sections 5 and 11
 */
export function readPng(image: Buffer): Png {
  const chunks = chunksOf(image)
  const { data: header } = chunks[0] as Chunk
  if (header.length !== 13) throw new Error('The image is damaged: its header is wrong.')
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)]
  const [depth, colour, interlace] = [header.readUInt8(8), header.readUInt8(9), header.readUInt8(12)]
  const format = FORMATS[colour]
  if (width < 1 || height < 1 || width > SIDE_MAX || height > SIDE_MAX)
    throw new Error(`Must be at most ${SIDE_MAX} pixels wide and high; it is ${width} by ${height}.`)
  if (interlace !== 0) throw new Error('Must not be interlaced. Save the image without interlacing.')
  if (!format?.depths.includes(depth) || !areSingle(chunks)) throw new Error('The image is damaged.')
  const rowBytes = 1 + Math.ceil((width * depth * format.samples) / 8)
  if (!isWhole(chunks, rowBytes * height)) throw new Error('The image is damaged.')
  const bytes = Buffer.concat([SIGNATURE, ...chunks.map(({ whole }) => whole)])
  return { bytes, width, height, sha256: createHash('sha256').update(bytes).digest('hex') }
}
