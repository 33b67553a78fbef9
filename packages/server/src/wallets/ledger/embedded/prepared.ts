import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import type { Id } from '../../../platform/ids.ts'
import { type Command, type Effect, type Flow, LedgerError, type Prepared } from '../../../platform/ports/ledger.ts'
import { canonicalJson } from '../../../platform/security/canonical-json.ts'
import { flowsOf } from './token-templates.ts'

const VERSION = 'halfkey/transaction/v1'
const DIGEST_TAG = 'halfkey/transaction-digest/v1\0'
const BYTES_MAX = 4 * 1024 * 1024
const SEED = /^[0-9a-f]{64}$/

/** A prepared transaction. Its bytes are the RFC 8785 form of this. */
export interface Document {
  version: typeof VERSION
  tenantId: Id<'ten'>
  commandId: string
  actAs: string
  commands: Command[]
  effects: Effect[]
  /** 32 random bytes as hex. Contract ids are derived from them, so nobody can guess the ids. */
  seed: string
  expiresAt: string
}

/** A prepared transaction, decoded from its bytes. */
export interface Decoded extends Prepared {
  tenantId: Id<'ten'>
  seed: string
}

/** SHA-256 over a domain tag and the bytes. The tag separates it from all other digests that a key signs. */
function digestOf(bytes: Buffer): Buffer {
  return createHash('sha256').update(DIGEST_TAG).update(bytes).digest()
}

/** The id of an update: the digest of its transaction as a multihash of SHA-256. */
export function updateIdOf(digest: Buffer): string {
  return `1220${digest.toString('hex')}`
}

/** Writes the bytes that are signed. @throws LedgerError arguments_invalid if there are too many */
function encode(document: Omit<Document, 'version'>): Buffer {
  const bytes = Buffer.from(canonicalJson({ version: VERSION, ...document }))
  if (bytes.length > BYTES_MAX)
    throw new LedgerError('arguments_invalid', `One transaction can have at most ${BYTES_MAX} bytes.`, { field: '' })
  return bytes
}

type Check = (value: unknown) => boolean

const isText: Check = (value) => typeof value === 'string'
const isList =
  (of: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(of)
const isEither =
  (...checks: Check[]): Check =>
  (value) =>
    checks.some((check) => check(value))
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** An object with these members and no others. */
function isExactly(members: Record<string, Check>): Check {
  const checks = Object.entries(members)
  return (value) =>
    isObject(value) &&
    Object.keys(value).length === checks.length &&
    checks.every(([name, check]) => Object.hasOwn(value, name) && check(value[name]))
}

const isArguments: Check = (value) => isObject(value) && Object.values(value).every(isEither(isText, isList(isText)))

const isTime: Check = (value) => {
  const time = new Date(typeof value === 'string' ? value : Number.NaN)
  return !Number.isNaN(time.getTime()) && time.toISOString() === value
}

const isDocument = isExactly({
  version: (value) => value === VERSION,
  tenantId: isText,
  commandId: isText,
  actAs: isText,
  commands: isList(
    isEither(
      isExactly({ create: isExactly({ templateId: isText, arguments: isArguments }) }),
      isExactly({
        exercise: isExactly({ templateId: isText, contractId: isText, choice: isText, arguments: isArguments }),
      }),
    ),
  ),
  effects: isList(
    isExactly({
      type: (value) => value === 'created' || value === 'exercised' || value === 'archived',
      command: Number.isSafeInteger,
      contractId: isText,
      templateId: isText,
      choice: (value) => value === null || isText(value),
      arguments: isArguments,
      signatories: isList(isText),
      observers: isList(isText),
    }),
  ),
  seed: (value) => typeof value === 'string' && SEED.test(value),
  expiresAt: isTime,
})

const invalid = () => new LedgerError('prepared_invalid', 'This is not a prepared transaction of this ledger.')

/** @throws LedgerError prepared_invalid unless the bytes are a document in canonical form */
function read(bytes: Buffer): Document {
  // Invalid UTF-8 would be decoded as replacement characters, so different bytes could have the same meaning.
  if (bytes.length > BYTES_MAX || !isUtf8(bytes)) throw invalid()
  const text = bytes.toString()
  let document: unknown
  try {
    document = JSON.parse(text)
  } catch {
    throw invalid()
  }
  if (!isDocument(document) || canonicalJson(document) !== text) throw invalid()
  return document as Document
}

function decodedOf(document: Omit<Document, 'version'>, bytes: Buffer, flows: Flow[]): Decoded {
  const { tenantId, commandId, actAs, commands, effects, seed, expiresAt } = document
  return {
    bytes,
    payload: digestOf(bytes),
    tenantId,
    commandId,
    actAs,
    commands,
    effects,
    flows,
    seed,
    expiresAt: new Date(expiresAt),
  }
}

/** A new transaction with its bytes. @throws LedgerError arguments_invalid if there are too many */
export function prepared(document: Omit<Document, 'version'>): Decoded {
  const flows = flowsOf(document.effects)
  if (flows === null) throw invalid()
  return decodedOf(document, encode(document), flows)
}

/** Decodes untrusted bytes. @throws LedgerError prepared_invalid unless they are a transaction in canonical form */
export function decode(bytes: Buffer): Decoded {
  const document = read(bytes)
  const flows = flowsOf(document.effects)
  if (flows === null) throw invalid()
  return decodedOf(document, bytes, flows)
}
