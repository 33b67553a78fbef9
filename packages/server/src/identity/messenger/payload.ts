import { createHmac } from 'node:crypto'
import { type ErrorDetail, fail, HttpError, invalid } from '../../platform/http/errors.ts'
import { parseQuery } from '../../platform/http/request.ts'
import { equalSecrets, sha256 } from '../../platform/security/crypto.ts'
import type { VerifyMessenger } from './schema.ts'

/** Data that claims to come from Telegram. Do not trust any of it before `isSigned`. */
export interface Payload {
  /** The forms are signed in different ways, so one cannot be used as the other. */
  form: 'widget' | 'mini_app'
  /** All fields but the hash, sorted, as Telegram signs them. */
  checkString: string
  hash: string
  signedAtMs: number
  person: Person
}

/** A Telegram account. */
export interface Person {
  /** Its id in decimal digits, because it may exceed 2^53. */
  subject: string
  /** First and last name, cleaned for a user's name. Null if nothing is left. */
  name: string | null
  username: string | null
  isBot: boolean
}

const NAME_CHARS_MAX = 200
const FIELD_NAME = /^[A-Za-z0-9_]{1,64}$/
const SUBJECT = /^[1-9]\d{0,19}$/
/** Characters that change the direction of text: a name must not rearrange the text around it. */
const BIDI_CONTROLS = /[\u202a-\u202e\u2066-\u2069]/g

function nameOf(parts: readonly unknown[]): string | null {
  const text = parts
    .filter((part): part is string => typeof part === 'string')
    .join(' ')
    .toWellFormed()
    .replace(BIDI_CONTROLS, '')
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim()
    .normalize('NFC')
  const name = [...text].slice(0, NAME_CHARS_MAX).join('').trim()
  return name === '' ? null : name
}

const usernameOf = (value: unknown) => (typeof value === 'string' && /^\w{1,64}$/.test(value) ? value : null)

/** The check string of fields without the hash (core.telegram.org/widgets/login, "Checking authorization"). */
function checkStringOf(fields: readonly (readonly [string, unknown])[]): string {
  return [...fields]
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .map(([name, value]) => `${name}=${value}`)
    .join('\n')
}

const NEEDED = ['id', 'auth_date', 'hash'] as const
const KNOWN: readonly string[] = [...NEEDED, 'first_name', 'last_name', 'username', 'photo_url']

/** The login widget's fields. @throws validation_failed */
export function readWidget(fields: Omit<VerifyMessenger, 'appId' | 'initData'>): Payload {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined)
  const missing = NEEDED.filter((name) => fields[name] === undefined)
  const strange = (name: string) => (missing.length > 0 && !KNOWN.includes(name)) || !FIELD_NAME.test(name)
  const details: ErrorDetail[] = [
    // If nothing is missing, an unknown field is one that Telegram has added; otherwise it is a mistake.
    ...entries
      .filter(([name]) => strange(name))
      .map(([field]) => ({
        field,
        code: 'unknown_field',
        message: `Unknown field "${field}". Remove it, or check its spelling.`,
      })),
    ...missing.map((field) => ({ field, code: 'required', message: `"${field}" is required.` })),
  ]
  if (details.length > 0) throw fail('validation_failed', details)
  return {
    form: 'widget',
    checkString: checkStringOf(entries.filter(([name]) => name !== 'hash')),
    hash: fields.hash as string,
    signedAtMs: Number(fields.auth_date) * 1000,
    person: {
      subject: String(fields.id),
      name: nameOf([fields.first_name, fields.last_name]),
      username: usernameOf(fields.username),
      isBot: fields.is_bot === 'true' || fields.is_bot === 1,
    },
  }
}

const broken = (what: string) => invalid('initData', `Must be the initData of a Mini App: ${what}.`)

/** The fields of `initData`. @throws validation_failed if it is not a query string, or a name occurs twice */
function parsed(initData: string): [string, string][] {
  let fields: Record<string, string>
  try {
    fields = parseQuery(initData)
  } catch (error) {
    if (error instanceof HttpError) throw broken('it is not a query string, or a name occurs twice')
    throw error
  }
  for (const [name, value] of Object.entries(fields))
    if (!FIELD_NAME.test(name) || /\p{Cc}/u.test(value)) throw broken('a field is malformed')
  return Object.entries(fields)
}

/** The account in a Mini App's JSON. Numbers too large for a double are read as their digits. */
function readPerson(json: string): Person | undefined {
  const digits = (_: string, value: unknown, context?: { source?: string }): unknown =>
    typeof value === 'number' && !Number.isSafeInteger(value) ? (context?.source ?? null) : value
  let user: unknown
  try {
    user = JSON.parse(json, digits)
  } catch {
    return undefined
  }
  if (typeof user !== 'object' || user === null) return undefined
  const { id, first_name, last_name, username, is_bot } = user as Record<string, unknown>
  if ((typeof id !== 'number' && typeof id !== 'string') || !SUBJECT.test(String(id))) return undefined
  return {
    subject: String(id),
    name: nameOf([first_name, last_name]),
    username: usernameOf(username),
    isBot: is_bot === true,
  }
}

/** A Mini App's `initData` (core.telegram.org/bots/webapps, "Validating data"). @throws validation_failed */
export function readInitData(initData: string): Payload {
  const entries = parsed(initData)
  const { hash = '', auth_date: date = '', user = '' } = Object.fromEntries(entries) as Record<string, string>
  if (hash === '') throw broken('its hash is missing')
  if (!/^\d{1,12}$/.test(date)) throw broken('its auth_date is missing or not a number')
  const person = readPerson(user)
  if (person === undefined) throw broken('it contains no user')
  return {
    form: 'mini_app',
    // The `signature` for third parties is part of the check string.
    checkString: checkStringOf(entries.filter(([name]) => name !== 'hash')),
    hash,
    signedAtMs: Number(date) * 1000,
    person,
  }
}

const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()

/** Whether a payload was signed with this bot's token, by the rules of its form. */
export function isSigned({ form, checkString, hash }: Payload, botToken: string): boolean {
  const key = form === 'widget' ? sha256(botToken) : hmac('WebAppData', botToken)
  return equalSecrets(Buffer.from(hmac(key, checkString).toString('hex')), Buffer.from(hash))
}

/** Equal for two payloads with the same content, however they are encoded. */
export function fingerprintOf({ form, checkString }: Payload): Buffer {
  return sha256(`${form}\n${checkString}`)
}
