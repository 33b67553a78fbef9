import { createReadStream } from 'node:fs'
import { z } from 'zod'
import { readLines } from '../../platform/files.ts'
import { isDelegated, type ProofSigner } from '../../platform/security/proof-keys.ts'
import {
  AuditFault,
  AuditRecord,
  type ChainCheck,
  type ChainPlace,
  checkChain,
  type HeadKeys,
  nameOf,
  SignedHead,
  type WholeLog,
} from './chain.ts'

/** The first line's `format`, which says what the lines after it are. */
const FORMAT = 'halfkey-audit/2'
/** Of releases that signed heads by the node's key. */
const FORMER_FORMAT = 'halfkey-audit/1'
/** No line that this service writes comes near it. */
const LINE_BYTES_MAX = 64 * 1024

const hex = (bytes: number) => z.string().regex(new RegExp(`^[0-9a-f]{${2 * bytes}}$`))

const PresentHeader = z.strictObject({
  format: z.literal(FORMAT),
  tenantId: z.string(),
  nodePublicKey: hex(32),
  /** The proof key and the node key's signature over it; null if the tenant had none yet. */
  proofKey: z.strictObject({ publicKey: hex(32), delegation: hex(64) }).nullable(),
  exportedAt: z.string(),
})
const FormerHeader = z.strictObject({
  format: z.literal(FORMER_FORMAT),
  tenantId: z.string(),
  publicKey: hex(32),
  exportedAt: z.string(),
})
const Header = z.discriminatedUnion('format', [PresentHeader, FormerHeader])
const End = z.strictObject({ head: SignedHead.nullable() })

/** The first line of a file; an entry for each line follows, and then the signed head. */
export function headerLine(
  tenantId: string,
  { nodePublicKey, signer }: { nodePublicKey: Buffer; signer: ProofSigner | undefined },
  at: Date,
): string {
  const header: z.output<typeof PresentHeader> = {
    format: FORMAT,
    tenantId,
    nodePublicKey: nodePublicKey.toString('hex'),
    proofKey: signer
      ? { publicKey: signer.publicKey.toString('hex'), delegation: signer.delegation.toString('hex') }
      : null,
    exportedAt: at.toISOString(),
  }
  return JSON.stringify(header)
}

/** The keys that a file names. @throws AuditFault if the node's key did not name the other one */
function keysOf(header: z.output<typeof Header>): HeadKeys {
  if (header.format === FORMER_FORMAT) return { node: Buffer.from(header.publicKey, 'hex'), proof: null }
  const { tenantId, proofKey } = header
  const node = Buffer.from(header.nodePublicKey, 'hex')
  if (proofKey === null) return { node, proof: null }
  const [publicKey, delegation] = [Buffer.from(proofKey.publicKey, 'hex'), Buffer.from(proofKey.delegation, 'hex')]
  if (!isDelegated(tenantId, { publicKey, nodePublicKey: node, delegation }))
    throw new AuditFault("The file's proof key is not named by the tenant's node key: one of them was exchanged.")
  return { node, proof: publicKey }
}

/** Receives the progress of long work. */
export interface Watcher {
  begin(entries: number): void
  add(entries: number): void
}

interface Line {
  number: number
  text: string
}

function parse<T>(schema: z.ZodType<T>, { number, text }: Line, what: string, after: string): T {
  try {
    const value = schema.parse(JSON.parse(text))
    // A duplicate name would be read as one value here, and perhaps as the other elsewhere.
    if (JSON.stringify(value) === text) return value
  } catch {
    // Reported below, like a line that is valid but not in its exported form.
  }
  throw new AuditFault(`Line ${number}${after} is not ${what} as it was exported: it was altered or truncated.`)
}

const isEnd = (text: string) => text.startsWith('{"head":')

/** What a file is checked against. */
export interface FileExpectation {
  /** Heads of this tenant that were noted earlier. */
  noted(tenantId: string): readonly ChainPlace[]
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
  let number = 0
  for await (const bytes of readLines(createReadStream(path), LINE_BYTES_MAX)) {
    number += 1
    if (bytes === null) throw new AuditFault(`Line ${number} is longer than any line of an audit log.`)
    watcher.add(bytes.length + 1)
    const line = { number, text: bytes.toString('utf8') }
    if (check === undefined) {
      const header = parse(Header, line, `the header of an audit log in the format ${FORMAT}`, '')
      check = checkChain({
        tenantId: header.tenantId,
        keys: keysOf(header),
        noted: noted(header.tenantId),
        mayBeEmpty: false,
      })
    } else if (log !== undefined) throw new AuditFault(`Line ${number} is after the log's end.`)
    else if (isEnd(line.text)) log = check.end(parse(End, line, 'a signed head', last).head)
    else {
      const record = parse(AuditRecord, line, 'an entry', last)
      check.take(record)
      last = `, after ${nameOf(record)},`
    }
  }
  if (check === undefined) throw new AuditFault('The file is empty.')
  if (log === undefined)
    throw new AuditFault(`The file ends${last.replace(/,$/, '')} without the signed head: its end is missing.`)
  if (signer !== null && signer !== log.signer)
    throw new AuditFault(`The log is signed by ${log.signer}, not by ${signer}: somebody else rewrote it.`)
  return log
}
