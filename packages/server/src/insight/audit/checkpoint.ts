import { createReadStream } from 'node:fs'
import { z } from 'zod'
import { beginSnapshot } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { readLines } from '../../platform/files.ts'
import type { Id } from '../../platform/ids.ts'
import { keyFingerprint } from '../../platform/ports/party.ts'
import { isSignedBy } from '../../platform/ports/signature.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'
import { isDelegated, type ProofSigner, proofSigner } from '../../platform/security/proof-keys.ts'
import { AuditFault, type ChainPlace, isSignedHead } from './chain.ts'
import * as store from './store.ts'
import { headKeysOf, trustedKeys } from './verify.ts'

/** Part of every checkpoint: its key also signs heads. */
const FORMAT = 'halfkey-audit-checkpoint/1'
/** Part of what a module signs: its key may sign something else, too. */
const MODULE_FORMAT = 'halfkey-audit-checkpoint-module/1'
/** No checkpoint comes near it. */
const LINE_BYTES_MAX = 4 * 1024
/** Above one for each tenant of the largest installation. */
const LINES_MAX = 1_000_000

const hex = (bytes: number) => z.string().regex(new RegExp(`^[0-9a-f]{${2 * bytes}}$`))

/** What a key in a hardware module signed, which no process has. */
const ModuleSignature = z.strictObject({ publicKey: hex(32), signature: hex(64) })

/** How far a tenant's log had come at a time, signed with Ed25519: to be kept where nobody who writes the database can write. */
const Checkpoint = z.strictObject({
  format: z.literal(FORMAT),
  tenantId: z.string(),
  seq: z.int().min(1),
  hash: hex(32),
  /** ISO 8601. */
  at: z.string(),
  nodePublicKey: hex(32),
  /** The key that signs, and the node key's signature over it. */
  proofKey: z.strictObject({ publicKey: hex(32), delegation: hex(64) }),
  signature: hex(64),
  /** Where `HALFKEY_SIGNERS` named a key for checkpoints. */
  module: ModuleSignature.optional(),
})
type Checkpoint = z.infer<typeof Checkpoint>
type Signed = Omit<Checkpoint, 'module'>

/** The bytes that a checkpoint's signature covers: the RFC 8785 form of all the rest. */
const messageOf = (checkpoint: Omit<Signed, 'signature'>): Buffer => Buffer.from(canonicalJson(checkpoint))

/** The bytes that a module signs: a checkpoint with its signature. */
const moduleMessageOf = (checkpoint: Signed): Buffer =>
  Buffer.from(canonicalJson({ format: MODULE_FORMAT, checkpoint }))

function sign(
  signer: ProofSigner,
  tenantId: Id<'ten'>,
  { seq, hash }: { seq: number; hash: string },
  at: Date,
): Signed {
  const checkpoint: Omit<Signed, 'signature'> = {
    format: FORMAT,
    tenantId,
    seq,
    hash,
    at: at.toISOString(),
    nodePublicKey: signer.nodePublicKey.toString('hex'),
    proofKey: { publicKey: signer.publicKey.toString('hex'), delegation: signer.delegation.toString('hex') },
  }
  return { ...checkpoint, signature: signer.sign(messageOf(checkpoint)).toString('hex') }
}

/**
 * A line of a checkpoint file that says where a tenant's log ends now; null if the log has no entry yet. It holds the signed head
 * against the last entry, and does not verify the entries before: what is wrong with them stays to be found.
 * @throws AuditFault if the head is missing or was altered; KeyServiceError if a module that is named does not sign
 */
export async function checkpointOf(deps: Deps, tenantId: Id<'ten'>): Promise<string | null> {
  const checkpoint = await signedNow(deps, tenantId)
  const module = checkpoint === null ? null : await deps.signers.first('checkpoint')
  if (checkpoint === null || module === null) return checkpoint && JSON.stringify(checkpoint)
  const signature = await module.sign(moduleMessageOf(checkpoint))
  const both = { publicKey: module.publicKey.toString('hex'), signature: signature.toString('hex') }
  return JSON.stringify({ ...checkpoint, module: both })
}

async function signedNow(deps: Deps, tenantId: Id<'ten'>): Promise<Signed | null> {
  const signer = await proofSigner(deps.db, deps, tenantId)
  return deps.db.tx(async (tx) => {
    await beginSnapshot(tx)
    const head = await store.findHead(tx, tenantId)
    if (head === null) {
      if (!(await store.hasBegun(tx, tenantId))) return null
      throw new AuditFault('The log was begun, but it has no signed head: it was removed.')
    }
    if (!isSignedHead(headKeysOf(await trustedKeys(tx, deps, tenantId)), tenantId, head))
      throw new AuditFault("The head's signature is not from the tenant's key: the head was altered.")
    const [last] = await store.entriesAt(tx, [{ tenantId, seq: head.seq }])
    if (last?.hash !== head.hash) throw new AuditFault(`Entry ${head.seq} is not the one that the signed head names.`)
    return sign(signer, tenantId, head, deps.now())
  })
}

/** What checkpoints say of one log. */
export interface Noted {
  places: ChainPlace[]
  /** Fingerprint of the node's key that named the signing keys. */
  signer: string
  /** When the last of them was made, ISO 8601. */
  at: string
}

/** @param modules raw keys, hexadecimal, one of which must have signed; any or none where there are none */
function readLine(text: string, number: number, modules: readonly string[]): Checkpoint {
  const wrong = (why: string) => new AuditFault(`Line ${number} of the checkpoint file ${why}.`)
  let checkpoint: Checkpoint
  try {
    checkpoint = Checkpoint.parse(JSON.parse(text))
  } catch {
    throw wrong('is not a checkpoint')
  }
  const { module, ...whole } = checkpoint
  const { signature, ...signed } = whole
  const { tenantId, proofKey } = signed
  const keys = {
    nodePublicKey: Buffer.from(signed.nodePublicKey, 'hex'),
    publicKey: Buffer.from(proofKey.publicKey, 'hex'),
    delegation: Buffer.from(proofKey.delegation, 'hex'),
  }
  if (!isDelegated(tenantId, keys) || !isSignedBy(keys.publicKey, messageOf(signed), Buffer.from(signature, 'hex')))
    throw wrong('was altered: its signature is not valid')
  if (
    module &&
    !isSignedBy(Buffer.from(module.publicKey, 'hex'), moduleMessageOf(whole), Buffer.from(module.signature, 'hex'))
  )
    throw wrong('was altered: the signature of the hardware module is not valid')
  if (modules.length > 0 && !(module && modules.includes(module.publicKey)))
    throw wrong(`is not signed by the hardware module: its key is ${module?.publicKey ?? 'none'}`)
  return checkpoint
}

/**
 * Reads a file of checkpoints, of one tenant or of many, several of a tenant perhaps. That their keys are the tenants' own is left to
 * whoever holds the log against them.
 * @param modules raw keys, hexadecimal, one of which must have signed each of them; none if that need not be
 * @throws AuditFault for a line that is not what this service signed
 */
export async function readCheckpoints(path: string, modules: readonly string[] = []): Promise<Map<string, Noted>> {
  const found = new Map<string, Noted>()
  let number = 0
  for await (const bytes of readLines(createReadStream(path), LINE_BYTES_MAX)) {
    number += 1
    if (bytes === null || number > LINES_MAX) throw new AuditFault(`Line ${number} of the checkpoint file is too long.`)
    const { tenantId, seq, hash, at, nodePublicKey } = readLine(bytes.toString('utf8'), number, modules)
    const signer = keyFingerprint(Buffer.from(nodePublicKey, 'hex'))
    const noted = found.get(tenantId) ?? { places: [], signer, at }
    if (noted.signer !== signer)
      throw new AuditFault(
        `Line ${number} of the checkpoint file is signed by another key of ${tenantId} than one before.`,
      )
    noted.places.push({ seq, hash })
    if (at > noted.at) noted.at = at
    found.set(tenantId, noted)
  }
  if (number === 0) throw new AuditFault('The checkpoint file is empty.')
  return found
}
