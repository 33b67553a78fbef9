import { crc32, deflateSync } from 'node:zlib'

/** A part of an image, with its length and checksum. */
export function chunk(type: string, data: Buffer): Buffer {
  const typed = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  sum.writeUInt32BE(crc32(typed))
  return Buffer.concat([length, typed, sum])
}

interface Drawn {
  width?: number
  height?: number
  interlace?: number
  /** Bits a sample. */
  depth?: number
  /** Behind the picture's data, in its chunk. */
  tail?: Buffer
  /** What the picture's data inflates to; by default as long as it must be. */
  raw?: Buffer
  /** Further chunks, before the picture's data. */
  more?: readonly Buffer[]
}

/** A PNG image of 24 bits a pixel. */
export function png({
  width = 4,
  height = 2,
  interlace = 0,
  depth = 8,
  tail = Buffer.alloc(0),
  raw = Buffer.alloc((1 + 3 * width) * height),
  more = [],
}: Drawn) {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([depth, 2, 0, 0, interlace], 8)
  const signature = Buffer.from('89504e470d0a1a0a', 'hex')
  const rest = [...more, chunk('IDAT', Buffer.concat([deflateSync(raw), tail])), chunk('IEND', Buffer.alloc(0))]
  return Buffer.concat([signature, chunk('IHDR', header), ...rest])
}
