import { createReadStream } from 'node:fs'
import { z } from 'zod'
import { readLines } from '../../../platform/files.ts'
import type { Id } from '../../../platform/ids.ts'
import { isDelegated, type ProofSigner } from '../../../platform/security/proof-keys.ts'
import type { Definition } from '../embedded/declared-template.ts'
import type { ChainEntry, LedgerHead } from './chain.ts'
import { type ChainCheck, checkChain, type NotedPlace, type WholeLedger } from './check.ts'
import { createReplay, LedgerFault, type Replay } from './replay.ts'
import type { StoredUpdate } from './store.ts'

/** The first line's `format`. */
const FORMAT = 'halfkey-ledger/1'
/** Above any line that this service writes: a transaction has at most 4 MiB, which base64 makes a third longer. */
const LINE_BYTES_MAX = 8 * 1024 * 1024

const hex = (bytes: number) => z.string().regex(new RegExp(`^[0-9a-f]{${2 * bytes}}$`))

const Header = z.strictObject({
  format: z.literal(FORMAT),
  tenantId: z.string(),
  nodePublicKey: hex(32),
  /** The proof key and the node key's signature over it; null if the tenant had none yet. */
  proofKey: z.strictObject({ publicKey: hex(32), delegation: hex(64) }).nullable(),
  exportedAt: z.string(),
})
const Update = z.strictObject({
  update: z.strictObject({
    offset: z.int(),
    updateId: z.string(),
    actAs: z.string(),
    commandId: z.string(),
    /** Base64. */
    prepared: z.string(),
    signatures: z.array(z.strictObject({ party: z.string(), publicKey: z.string(), signature: z.string() })),
  }),
})
const Template = z.strictObject({ template: z.looseObject({ templateId: z.string() }) })
const Entry = z.strictObject({
  entry: z.strictObject({ seq: z.int(), updateId: z.string(), offset: z.int(), hash: hex(32) }),
})
const End = z.strictObject({
  head: z.strictObject({ seq: z.int(), hash: hex(32), signedAt: z.string(), signature: hex(64) }).nullable(),
})

/** The first line of a file. Templates, updates by offset, entries of the chain, and the signed head follow. */
export function headerLine(tenantId: string, nodePublicKey: Buffer, signer: ProofSigner | undefined, at: Date): string {
  const header: z.output<typeof Header> = {
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

export const templateLine = (template: Definition): string => JSON.stringify({ template })

export const updateLine = ({ prepared, ...update }: StoredUpdate): string =>
  JSON.stringify({ update: { ...update, prepared: prepared.toString('base64') } })

export const entryLine = (entry: ChainEntry): string => JSON.stringify({ entry })

export function endLine(head: LedgerHead | null): string {
  return JSON.stringify({
    head: head && { seq: head.seq, hash: head.hash, signedAt: head.signedAt, signature: head.signature },
  })
}

/** What a file is checked against. */
export interface FileExpectation {
  noted: NotedPlace | null
  /** The fingerprint that the tenant's node key must have; null accepts the key in the file. */
  signer: string | null
}

/** The state of a file that is being read. */
interface Reading {
  tenantId: Id<'ten'>
  chain: Omit<Parameters<typeof checkChain>[0], 'noted'>
  definitions: Definition[]
  replay?: Replay
  check?: ChainCheck
}

function begin(text: string): Reading {
  const { tenantId, nodePublicKey, proofKey } = Header.parse(JSON.parse(text))
  const node = Buffer.from(nodePublicKey, 'hex')
  const publicKey = proofKey && Buffer.from(proofKey.publicKey, 'hex')
  if (
    proofKey !== null &&
    publicKey !== null &&
    !isDelegated(tenantId, { publicKey, nodePublicKey: node, delegation: Buffer.from(proofKey.delegation, 'hex') })
  )
    throw new LedgerFault('The key that signs the head was not named by the tenant’s node key.')
  return { tenantId: tenantId as Id<'ten'>, chain: { tenantId, publicKey, nodePublicKey: node }, definitions: [] }
}

const replayOf = (reading: Reading): Replay => {
  reading.replay ??= createReplay(reading.tenantId, reading.definitions)
  return reading.replay
}

/** Takes a line between the first and the last. */
function take(reading: Reading, noted: NotedPlace | null, value: unknown): void {
  const kind = Object.keys(value as object)[0]
  if (kind === 'template' && reading.replay === undefined) {
    const definition = Template.parse(value).template as unknown as Definition
    if (reading.definitions.some(({ templateId }) => templateId === definition.templateId))
      throw new LedgerFault(`The template ${definition.templateId} is there twice.`)
    reading.definitions.push(definition)
  } else if (kind === 'update' && reading.check === undefined) {
    const { prepared, ...update } = Update.parse(value).update
    replayOf(reading).take({ ...update, prepared: Buffer.from(prepared, 'base64') })
  } else {
    const { entry } = Entry.parse(value)
    reading.check ??= checkChain({ ...reading.chain, noted }, replayOf(reading))
    reading.check.take(entry)
  }
}

/**
 * Checks an exported ledger with only the file: executes every update again from its bytes and signatures, and checks the
 * chain and its head. A forger of the whole file can put another tenant's keys into it: only the signer's fingerprint, or a
 * head that was noted elsewhere, shows that.
 * @throws LedgerFault naming the first fault
 */
export async function verifyLedgerFile(
  path: string,
  { noted, signer }: FileExpectation,
  add: (bytes: number) => void,
): Promise<WholeLedger> {
  let reading: Reading | undefined
  let whole: WholeLedger | undefined
  let number = 0
  for await (const bytes of readLines(createReadStream(path), LINE_BYTES_MAX)) {
    number += 1
    if (bytes === null) throw new LedgerFault(`Line ${number} is longer than any line of a ledger.`)
    add(bytes.length + 1)
    if (whole !== undefined) throw new LedgerFault(`Line ${number} is after the ledger's end.`)
    try {
      const text = bytes.toString('utf8')
      if (reading === undefined) reading = begin(text)
      else if (text.startsWith('{"head":')) {
        reading.check ??= checkChain({ ...reading.chain, noted }, replayOf(reading))
        whole = reading.check.end(End.parse(JSON.parse(text)).head, replayOf(reading).updates.size > 0)
      } else take(reading, noted, JSON.parse(text))
    } catch (error) {
      if (error instanceof LedgerFault) throw error
      throw new LedgerFault(`Line ${number} is not as it was exported: it was altered or truncated.`)
    }
  }
  if (reading === undefined) throw new LedgerFault('The file is empty.')
  if (whole === undefined) throw new LedgerFault(`The file ends after line ${number} without the signed head.`)
  if (signer !== null && signer !== whole.signer)
    throw new LedgerFault(`The ledger is of the node ${whole.signer}, not of ${signer}.`)
  return whole
}
