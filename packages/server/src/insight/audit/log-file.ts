import { createReadStream } from 'node:fs'
import { z } from 'zod'
import {
  AuditFault,
  AuditRecord,
  type ChainCheck,
  type ChainPlace,
  checkChain,
  nameOf,
  SignedHead,
  type WholeLog,
} from './chain.ts'

/** The first line's `format`, which says what the lines after it are. */
const FORMAT = 'halfkey-audit/1'
/** No line that this service writes comes near it. */
const LINE_BYTES_MAX = 64 * 1024

const Header = z.strictObject({
  format: z.literal(FORMAT),
  tenantId: z.string(),
  publicKey: z.string().regex(/^[0-9a-f]{64}$/),
  exportedAt: z.string(),
})
const End = z.strictObject({ head: SignedHead.nullable() })

/** The first line of a file; an entry for each line follows, and then the signed head. */
export function headerLine(tenantId: string, publicKey: Buffer, at: Date): string {
  const header: z.output<typeof Header> = {
    format: FORMAT,
    tenantId,
    publicKey: publicKey.toString('hex'),
    exportedAt: at.toISOString(),
  }
  return JSON.stringify(header)
}

/** Receives the progress of long work. */
export interface Watcher {
  begin(entries: number): void
  add(entries: number): void
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
    // A duplicate name would be read as one value here, and perhaps as the other elsewhere.
    if (JSON.stringify(value) === text) return value
  } catch {
    // Reported below, like a line that is valid but not in its exported form.
  }
  throw new AuditFault(`Line ${number}${after} is not ${what} as it was exported: it was altered or cut off.`)
}

const isEnd = (text: string) => text.startsWith('{"head":')

/** What a file is checked against. */
export interface FileExpectation {
  /** A head that was noted earlier. */
  noted: ChainPlace | null
  /** The fingerprint that the signer's key must have; null accepts the key in the file. */
  signer: string | null
}

/**
 * Checks an exported log with only the file. A forger of the file can put another key into it: only the signer's
 * fingerprint, or a head that was noted elsewhere, shows that.
 * @throws AuditFault naming the first entry that is altered, missing or inserted
 */
export async function verifyFile(
  path: string,
  { noted, signer }: FileExpectation,
  watcher: Watcher,
): Promise<WholeLog> {
  let check: ChainCheck | undefined
  let last = ''
  let log: WholeLog | undefined
  for await (const line of readLines(path)) {
    watcher.add(line.bytes)
    if (check === undefined) {
      const { tenantId, publicKey } = parse(Header, line, `the header of an audit log in the format ${FORMAT}`, '')
      check = checkChain({ tenantId, publicKey: Buffer.from(publicKey, 'hex'), noted })
    } else if (log !== undefined) throw new AuditFault(`Line ${line.number} stands after the log's end.`)
    else if (isEnd(line.text)) log = check.end(parse(End, line, 'a signed head', last).head)
    else {
      const record = parse(AuditRecord, line, 'an entry', last)
      check.take(record)
      last = `, after ${nameOf(record)},`
    }
  }
  if (check === undefined) throw new AuditFault('The file is empty.')
  if (log === undefined)
    throw new AuditFault(`The file ends${last.replace(/,$/, '')} without the signed head: what followed is missing.`)
  if (signer !== null && signer !== log.signer)
    throw new AuditFault(`The log is signed by ${log.signer}, not by ${signer}: it was written anew by somebody else.`)
  return log
}
