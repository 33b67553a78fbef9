import { createReadStream } from 'node:fs'
import { z } from 'zod'
import { AuditFault, type AuditRecord, type ChainPlace, checkChain, nameOf } from './chain.ts'
import { type LogPart, type Watcher, type WholeLog, wholeLog } from './whole-log.ts'

/** The first line's `format`: what the lines after it are. */
const FORMAT = 'halfkey-audit/1'
/** No line that this service writes comes near it. */
const LINE_BYTES_MAX = 64 * 1024

const hex = (bytes: number) => z.string().regex(new RegExp(`^[0-9a-f]{${2 * bytes}}$`))
const Text = z.string().nullable()

const Header = z.strictObject({
  format: z.literal(FORMAT),
  tenantId: z.string(),
  publicKey: hex(32),
  exportedAt: z.string(),
})
const Entry = z.strictObject({
  seq: z.int(),
  id: z.string(),
  at: z.string(),
  actor: z.string(),
  keyId: Text,
  action: z.string(),
  target: z.string(),
  userId: Text,
  appId: Text,
  eventId: Text,
  requestId: Text,
  address: Text,
  addressSalt: hex(16).nullable(),
  addressHash: hex(32).nullable(),
  previousHash: hex(32).nullable(),
  hash: hex(32),
}) satisfies z.ZodType<AuditRecord>
const SignedHead = z.strictObject({ seq: z.int(), hash: hex(32), signedAt: z.string(), signature: hex(64) })
const End = z.strictObject({ head: SignedHead.nullable() })

/** A part of a log as lines of a file. */
export function linesOf(part: LogPart): string[] {
  if (part.kind === 'entries') return part.records.map((record) => JSON.stringify(record))
  if (part.kind === 'head') return [JSON.stringify({ head: part.head })]
  const { tenantId, publicKey, at } = part
  const header = { format: FORMAT, tenantId, publicKey: publicKey.toString('hex'), exportedAt: at.toISOString() }
  return [JSON.stringify(header)]
}

/** The lines of a file, with their numbers, and how many bytes each has. @throws AuditFault on one that is too long */
async function* readLines(path: string): AsyncGenerator<{ number: number; text: string; bytes: number }> {
  let rest: Buffer = Buffer.alloc(0)
  let number = 0
  for await (const chunk of createReadStream(path)) {
    let start = 0
    const bytes = Buffer.concat([rest, chunk as Buffer])
    for (let end = bytes.indexOf(10); end !== -1; end = bytes.indexOf(10, start)) {
      number += 1
      yield { number, text: bytes.toString('utf8', start, end), bytes: end - start + 1 }
      start = end + 1
    }
    rest = bytes.subarray(start)
    if (rest.length > LINE_BYTES_MAX) throw new AuditFault(`Line ${number + 1} is longer than any of a log.`)
  }
  if (rest.length > 0) yield { number: number + 1, text: rest.toString('utf8'), bytes: rest.length }
}

function parse<T>(
  schema: z.ZodType<T>,
  { number, text }: { number: number; text: string },
  what: string,
  after: string,
): T {
  try {
    const value = schema.parse(JSON.parse(text))
    // A name that stands there twice is read as one value here, and perhaps as the other one elsewhere.
    if (JSON.stringify(value) === text) return value
  } catch {
    // Told of below, as what is well-formed and not as it was written.
  }
  throw new AuditFault(`Line ${number}${after} is not ${what} as it was exported: it was altered or cut off.`)
}

const isEnd = (text: string) => text.startsWith('{"head":')

/** What a file is checked against. */
export interface FileExpectation {
  /** A head that was noted earlier. */
  noted: ChainPlace | null
  /** The fingerprint that the signer's key must have; null takes the key that the file names. */
  signer: string | null
}

/**
 * Checks an exported log with nothing but the file. Whoever can write the file can name a key of their own in it: the
 * signer's fingerprint, or a head that was noted elsewhere, shows that.
 * @throws AuditFault naming the first entry that is altered, missing or inserted
 */
export async function verifyFile(
  path: string,
  { noted, signer }: FileExpectation,
  watcher: Watcher,
): Promise<WholeLog> {
  let header: z.output<typeof Header> | undefined
  let check: ReturnType<typeof checkChain> | undefined
  let last = ''
  let ended = false
  for await (const line of readLines(path)) {
    watcher.add(line.bytes)
    if (header === undefined || check === undefined) {
      header = parse(Header, line, `the header of an audit log in the format ${FORMAT}`, '')
      check = checkChain({ tenantId: header.tenantId, publicKey: Buffer.from(header.publicKey, 'hex'), noted })
    } else if (ended) throw new AuditFault(`Line ${line.number} stands after the log's end.`)
    else if (isEnd(line.text)) {
      check.end(parse(End, line, 'a signed head', last).head)
      ended = true
    } else {
      const record: AuditRecord = parse(Entry, line, 'an entry', last)
      check.take(record)
      last = `, after ${nameOf(record)},`
    }
  }
  if (header === undefined || check === undefined) throw new AuditFault('The file is empty.')
  if (!ended)
    throw new AuditFault(`The file ends${last.replace(/,$/, '')} without the signed head: what followed is missing.`)
  const log = wholeLog(header.tenantId, check.place(), Buffer.from(header.publicKey, 'hex'))
  if (signer !== null && signer !== log.signer)
    throw new AuditFault(`The log is signed by ${log.signer}, not by ${signer}: it was written anew by somebody else.`)
  return log
}
