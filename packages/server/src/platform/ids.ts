import { randomFillSync } from 'node:crypto'

/** Crockford base 32 in lower case: no i, l, o, u, so an id read aloud survives. */
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'

/** The meaning of each prefix: the closed list of record kinds that have an id in the API. */
const ID_PREFIXES = {
  ten: 'tenant',
  app: 'app',
  usr: 'user',
  wal: 'wallet',
  key: 'API key',
  mem: 'member',
  wh: 'webhook',
  evt: 'event',
  ety: 'event type',
  dlv: 'delivery',
  sub: 'subscriber',
  plk: 'portal link',
  gst: 'guest session',
  dse: 'delegated session',
  shr: 'key share',
  dkg: 'key generation',
  rsh: 'resharing',
  dom: 'custom domain',
  tx: 'transaction',
  apr: 'approval',
  rcp: 'address book entry',
  ofr: 'transfer offer',
  ses: 'session',
  chl: 'challenge',
  pky: 'passkey',
  idn: 'identity',
  iss: 'trusted issuer',
  prv: 'sign-in provider',
  eml: 'email',
  rcv: 'email recovery',
  job: 'job',
  aud: 'audit entry',
} as const

export type IdPrefix = keyof typeof ID_PREFIXES
/** `<prefix>_<26 characters>`, branded so that a user's id is never passed where an app's is meant. */
export type Id<P extends IdPrefix = IdPrefix> = `${P}_${string}`

const RANDOM_DIGITS = 16
const pool = Buffer.alloc(4096)
let poolOffset = pool.length
const tail = new Uint8Array(RANDOM_DIGITS)
let lastMs = 0

function randomTail(): void {
  if (poolOffset + RANDOM_DIGITS > pool.length) {
    randomFillSync(pool)
    poolOffset = 0
  }
  for (let i = 0; i < RANDOM_DIGITS; i += 1) tail[i] = (pool[poolOffset + i] as number) & 31
  poolOffset += RANDOM_DIGITS
}

function incrementTail(): void {
  for (let i = RANDOM_DIGITS - 1; i >= 0; i -= 1) {
    const digit = tail[i] as number
    if (digit < 31) {
      tail[i] = digit + 1
      return
    }
    tail[i] = 0
  }
}

function tailText(): string {
  let text = ''
  for (const digit of tail) text += ALPHABET[digit]
  return text
}

/** When an id was made, Unix milliseconds, by the clock of the process that made it. */
export function idMs(id: string): number {
  const digits = id.slice(id.indexOf('_') + 1).slice(0, 10)
  return [...digits].reduce((ms, digit) => ms * 32 + ALPHABET.indexOf(digit), 0)
}

/** The first ten characters of an id created at `ms` (Unix milliseconds): a lower bound for ids by time. */
export function idTime(ms: number): string {
  let rest = ms
  let text = ''
  for (let i = 0; i < 10; i += 1) {
    text = (ALPHABET[rest % 32] as string) + text
    rest = Math.floor(rest / 32)
  }
  return text
}

/**
 * A new id that sorts after every id this process made before: 48 bits of time, 80 of randomness, the latter
 * counted up within one millisecond so that lists ordered by id are lists ordered by creation.
 * @param after an id of another process that the new one must sort after too, whatever that process's clock says; then the
 *   new one's time may be later than now
 */
export function newId<P extends IdPrefix>(prefix: P, after?: string): Id<P> {
  const now = Date.now()
  if (now > lastMs) {
    lastMs = now
    randomTail()
  } else {
    incrementTail()
  }
  const id = `${prefix}_${idTime(lastMs)}${tailText()}` as const
  if (after === undefined || id > after) return id
  randomTail()
  return `${prefix}_${idTime(idMs(after) + 1)}${tailText()}`
}

/** Whether `text` can be an id of this kind at all: what can't is never looked up. */
export function isId<P extends IdPrefix>(prefix: P, text: string): text is Id<P> {
  return (
    text.length === prefix.length + 27 &&
    text.startsWith(`${prefix}_`) &&
    /^[0-9a-hjkmnp-tv-z]{26}$/.test(text.slice(prefix.length + 1))
  )
}
