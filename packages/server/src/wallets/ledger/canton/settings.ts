import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { z } from 'zod'
import { LedgerSettingsError } from '../../../platform/ports/ledger-settings-error.ts'

const FILE_BYTES_MAX = 256 << 10
const LOOPBACK_HOSTS = new Set(['127.0.0.1', 'localhost', '[::1]'])

const Name = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,31}$/, 'must be 1 to 32 lower-case letters, digits or dashes, and begin with a letter')
  .refine((name) => name !== 'embedded', 'must not be "embedded"')
const Uid = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,185}::1220[0-9a-f]{64}$/, 'must be <name>::1220 and 64 hexadecimal digits')
const File = z.string().min(1)

function isHttpUrl(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.search === '' && url.hash === ''
}
const Url = z.string().refine(isHttpUrl, 'must be an http(s) URL without user name, query or fragment')

const Auth = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('none') }),
  z.strictObject({ type: z.literal('token'), file: File }),
  z.strictObject({
    type: z.literal('client_credentials'),
    tokenUrl: Url,
    clientId: z.string().min(1),
    clientSecretFile: File,
    audience: z.string().min(1).optional(),
    scope: z.string().min(1).optional(),
  }),
])

const TemplateId = z
  .string()
  .regex(/^[0-9a-f]{64}:[A-Za-z][\w.]*:[A-Za-z][\w.]*$/, 'must be <package id>:<module>:<template>')
/** A field of a contract, or of a record in it: `instrument.id`. */
const Field = z.string().regex(/^\w+(\.\w+)*$/, 'must name a field, or the field of a record: record.field')

const Asset = z.strictObject({
  templateId: TemplateId,
  issuer: Field,
  /** Absent for what is locked or offered: its owner no longer decides where it goes. */
  owner: Field.optional(),
  symbol: z.union([Field, z.strictObject({ is: z.string().min(1) })]),
  amount: Field,
})

const Tokens = z.strictObject({
  /** Without it, holdings are not followed. */
  holding: TemplateId.optional(),
  transferFactory: TemplateId,
  transferInstruction: TemplateId,
  registries: z
    .array(z.strictObject({ admin: Uid, url: Url }))
    .min(1)
    .max(20),
})

const Settings = z.strictObject({
  name: Name.default('canton'),
  url: Url,
  allowHttp: z.boolean().default(false),
  participant: Uid,
  synchronizer: Uid,
  userId: z.string().regex(/^[\w@^$.!`\-#+'~|:()]{1,128}$/, 'must be a user id of the participant'),
  hashVersion: z.enum(['V2', 'V3']),
  auth: Auth,
  tls: z
    .strictObject({ caFile: File.optional(), certFile: File.optional(), keyFile: File.optional() })
    .refine(({ certFile, keyFile }) => (certFile === undefined) === (keyFile === undefined), {
      error: 'must have both certFile and keyFile, or neither',
    })
    .default({}),
  timeoutMs: z.int().min(100).max(9_000).default(5_000),
  outcomeMs: z.int().min(0).max(8_000).default(6_000),
  assets: z.array(Asset).max(100).default([]),
  tokens: Tokens.optional(),
})

/**
 * How a participant is reached, and what is expected of it; docs/ledgers/canton.md describes every field. Files have absolute
 * paths. `timeoutMs`: for each request; `outcomeMs`: how long an execution waits for its outcome.
 */
export type CantonSettings = z.infer<typeof Settings>

/** A template whose contracts hold an asset. The other fields name the contract's fields. */
export type CantonAsset = z.infer<typeof Asset>

function parse(path: string): unknown {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw new LedgerSettingsError(`${path} cannot be read (${(error as NodeJS.ErrnoException).code}).`)
  }
  if (text.length > FILE_BYTES_MAX) throw new LedgerSettingsError(`${path} is larger than ${FILE_BYTES_MAX} bytes.`)
  try {
    return JSON.parse(text)
  } catch {
    throw new LedgerSettingsError(`${path} is not valid JSON.`)
  }
}

/** Over plain HTTP a token can be read, and answers changed, by everybody on the way. */
function requireTls(path: string, { url, allowHttp, auth, tokens }: CantonSettings): void {
  if (allowHttp) return
  const registries = tokens?.registries.map((registry) => registry.url) ?? []
  const open = [url, ...(auth.type === 'client_credentials' ? [auth.tokenUrl] : []), ...registries].find(
    (each) => each.startsWith('http:') && !LOOPBACK_HOSTS.has(new URL(each).hostname),
  )
  if (open !== undefined)
    throw new LedgerSettingsError(
      `${path}: ${open} must be https. Set "allowHttp": true only if you trust the network.`,
    )
}

/** Reads a participant's settings. @throws LedgerSettingsError naming the file and every field that is wrong */
export function readCantonSettings(path: string): CantonSettings {
  const read = Settings.safeParse(parse(path))
  if (!read.success) {
    const problems = read.error.issues.map(({ path: field, message }) => `"${field.join('.') || '.'}": ${message}`)
    throw new LedgerSettingsError(`${path} is not valid: ${problems.join('; ')}.`)
  }
  const settings = read.data
  requireTls(path, settings)
  const at = <T extends string | undefined>(file: T) => (file === undefined ? file : resolve(dirname(path), file)) as T
  const { auth, tls } = settings
  return {
    ...settings,
    url: settings.url.replace(/\/+$/, ''),
    tls: Object.fromEntries(Object.entries(tls).map(([name, file]) => [name, at(file)])),
    auth:
      auth.type === 'token'
        ? { ...auth, file: at(auth.file) }
        : auth.type === 'client_credentials'
          ? { ...auth, clientSecretFile: at(auth.clientSecretFile) }
          : auth,
  }
}
