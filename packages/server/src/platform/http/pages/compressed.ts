import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'

/** A response with a large text. */
export interface CompressedAnswer {
  status: 200 | 304
  headers: Record<string, string>
  body: string | Buffer
}

const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_LGWIN]: 24 } }
const GZIP = { level: 9 }

type Headers = Readonly<Record<string, string | string[] | undefined>>

/** Whether a client takes a content coding (RFC 9110, section 12.5.3). */
export function acceptsCoding(headers: Headers, coding: string): boolean {
  const wanted = String(headers['accept-encoding'] ?? '')
    .split(',')
    .map((part) => part.trim().toLowerCase().split(';'))
    .find(([name]) => name?.trim() === coding)
  return wanted !== undefined && !wanted.slice(1).some((part) => /^\s*q=0(\.0*)?\s*$/.test(part))
}

/**
 * Responses with a large text that does not change while the process runs: compressed at the first request that takes it, then
 * kept; 304 for a client that has it. `brotli` is the text already compressed.
 */
export function createCompressed(text: string, cacheControl: string, brotli?: Buffer) {
  const etag = `"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`
  const codings = new Map<string, Promise<Buffer>>()
  if (brotli !== undefined) codings.set('br', Promise.resolve(brotli))
  const compressed = (coding: 'br' | 'gzip') => {
    const known =
      codings.get(coding) ?? (coding === 'br' ? promisify(brotliCompress)(text, BROTLI) : promisify(gzip)(text, GZIP))
    codings.set(coding, known)
    return known
  }
  return async (requested: Headers): Promise<CompressedAnswer> => {
    const headers = { 'cache-control': cacheControl, vary: 'Accept-Encoding', etag }
    if (requested['if-none-match'] === etag) return { status: 304, headers, body: '' }
    const coding = (['br', 'gzip'] as const).find((each) => acceptsCoding(requested, each))
    if (coding === undefined) return { status: 200, headers, body: text }
    return { status: 200, headers: { ...headers, 'content-encoding': coding }, body: await compressed(coding) }
  }
}
