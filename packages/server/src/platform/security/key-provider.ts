import { randomBytes } from 'node:crypto'
import { chmod, type FileHandle, link, mkdir, open as openFile, rm, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { singleFlight } from '../concurrency/poll.ts'
import type { Logger } from '../observability/log.ts'
import { decrypt, encrypt } from './crypto.ts'
import { type KeyLine, keyOf, newLineBy, readLine } from './key-services/key-lines.ts'
import { KeyServiceError } from './key-services/key-service.ts'

/**
 * Holds the key-encryption keys. Wraps data keys, never data, so that a provider outside this process (a KMS, an HSM)
 * sees 32 bytes a secret.
 */
export interface KeyProvider {
  /** Which key wraps now. It may change while the process runs. */
  readonly keyId: string
  /** `keyId` is the key that wrapped the value, and is stored with it. */
  wrap(dataKey: Buffer, aad: Buffer): Promise<{ keyId: string; wrapped: Buffer }>
  /** @throws Error when the key is not held here, or the wrapped key or its context was changed */
  unwrap(keyId: string, wrapped: Buffer, aad: Buffer): Promise<Buffer>
}

/** The keys that a key file held when it was read. */
export interface HeldKeys {
  /** The first: it wraps. */
  keyId: string
  /** All of them, the first included: they unwrap. */
  keyIds: readonly string[]
}

/** The provider over a local file. */
export interface KeyFile extends KeyProvider, HeldKeys {
  readonly keyId: string
  /**
   * From now on `wrap` and `unwrap` notice changes of the file: within a second, and at once for a key that is not known
   * yet. Keys that `accept` throws at, and a file that cannot be read, are logged, and the keys held before stay.
   */
  follow(following: Following): void
  close(): void
}

/** The file that holds the keys is missing, unreadable, open to others or holds no keys. The message says what to do. */
export class KeyFileError extends Error {}

/** How long a process may use the keys of a file that has changed since. */
const KEY_FILE_TRUST_MS = 1_000
/** The most keys that a file may hold: the one that wraps, and those of rotations that are not finished. */
const KEYS_MAX = 5
/** A service that is away for most of a lifetime is asked again before it ends. */
const PROOFS_A_LIFETIME = 10

/** What stands in a key file. */
interface Text {
  lines: readonly KeyLine[]
  /** Changes whenever the file does. */
  stamp: string
}

/** What was read of a key file, its keys unwrapped. */
interface Reading extends HeldKeys, Text {
  keys: ReadonlyMap<string, Buffer>
}

/**
 * Whether others than the owner can read a key file. As with PostgreSQL's private keys, root may own it and let a group of
 * this process read it: orchestrators mount secrets like that for a process that is not root.
 */
function isOpenToOthers({ mode, uid, gid }: { mode: bigint; uid: bigint; gid: bigint }): boolean {
  const groups = [process.getegid?.() ?? -1, ...(process.getgroups?.() ?? [])]
  const isGiven = uid === 0n && process.geteuid?.() !== 0 && groups.includes(Number(gid))
  const allowed = isGiven ? 0o740n : 0o700n
  return (mode & 0o777n & ~allowed) !== 0n
}

const stampOf = (file: { ino: bigint; size: bigint; mtimeNs: bigint; ctimeNs: bigint }) =>
  [file.ino, file.size, file.mtimeNs, file.ctimeNs].join(' ')

function parseLines(path: string, text: string): KeyLine[] {
  const texts = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  if (texts.length > KEYS_MAX) throw new KeyFileError(`The key file ${path} must hold at most ${KEYS_MAX} keys.`)
  const lines = texts.map(readLine)
  if (lines.length === 0 || lines.includes(null)) {
    throw new KeyFileError(
      `The key file ${path} must hold exactly 32 bytes as base64, as 'openssl rand -base64 32' prints them, or a key that a key service has wrapped, as 'halfkey keys generate-kek --service' prints it. During a rotation it may hold several keys, one per line.`,
    )
  }
  return lines as KeyLine[]
}

const isNewTo = (known: Reading | null) => (line: KeyLine) =>
  known?.lines.some(({ text }) => text === line.text) !== true
const isWrapped = ({ service }: KeyLine) => service !== null

/** The keys of a file. Lines that are not new are not unwrapped again. @throws KeyServiceError */
async function unwrapAll(text: Text, known: Reading | null): Promise<Reading> {
  const isNew = isNewTo(known)
  const entries = await Promise.all(
    text.lines.map(
      async (line): Promise<[string, Buffer]> => [
        line.keyId,
        isNew(line) ? await keyOf(line) : (known?.keys.get(line.keyId) as Buffer),
      ],
    ),
  )
  const keyIds = text.lines.map(({ keyId }) => keyId)
  return { ...text, keys: new Map(entries), keyIds, keyId: keyIds[0] as string }
}

async function openKeys(path: string): Promise<FileHandle | undefined> {
  try {
    return await openFile(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new KeyFileError(`The key file ${path} cannot be read: ${(error as Error).message}`)
  }
}

/** @throws KeyFileError */
async function readText(path: string, options: { create: boolean }): Promise<Text> {
  const file = await openKeys(path)
  if (file === undefined) {
    throw new KeyFileError(
      `The key file ${path} does not exist. Create it with: (umask 077; openssl rand -base64 32 > ${path}). Keep a copy apart from the database's backups: without it, no sealed value can be opened.`,
    )
  }
  try {
    const found = await file.stat({ bigint: true })
    if (process.platform !== 'win32' && isOpenToOthers(found)) {
      if (!options.create) throw new KeyFileError(`The key file ${path} can be read by others. Run: chmod 600 ${path}`)
      await chmod(path, 0o600)
    }
    const text = await file.readFile('utf8').catch((error: Error) => {
      throw new KeyFileError(`The key file ${path} cannot be read: ${error.message}`)
    })
    return { lines: parseLines(path, text), stamp: stampOf(found) }
  } finally {
    await file.close()
  }
}

const isMissing = (path: string) =>
  stat(path).then(
    () => false,
    (error: NodeJS.ErrnoException) => error.code === 'ENOENT',
  )

async function createKeyFile(path: string, service: string | null): Promise<void> {
  // Passable, not listable: the embedded database below this folder may run as another user. The file itself is 0600.
  await mkdir(dirname(path), { recursive: true, mode: 0o711 })
  const draft = `${path}.${randomBytes(6).toString('hex')}.new`
  await writeFile(draft, `${await newLineBy(service)}\n`, { mode: 0o600, flag: 'wx', flush: true })
  try {
    // A link fails if the name exists: of two processes that start at once, one creates the key and both read it.
    await link(draft, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    await rm(draft)
  }
}

/** How a running process follows its key file. */
interface Following {
  /** Throws at keys that this process could not have started with. */
  accept: (held: HeldKeys) => Promise<unknown>
  log: Logger
  /** How long keys that a service unwrapped may be used until it unwraps them again; null for as long as the process runs. */
  lifetimeMs: number | null
}

/**
 * Looks for changes of a key file, and asks its key services again before a lifetime ends. Services are asked in the
 * background: whoever seals or opens a value may be in a transaction, and waits for the disk at most.
 */
function createFollower(path: string, begin: Reading, { accept, log, lifetimeMs }: Following) {
  let held = begin
  let trustedUntil = 0
  let provenAt = performance.now()
  let complaint = ''

  function complain(error: unknown): void {
    // Once a complaint, not once a second.
    if (complaint !== (error as Error).message)
      log.error({ err: error }, 'the changed key file is not valid; the previous keys stay in use')
    complaint = (error as Error).message
  }

  async function take(text: Text): Promise<void> {
    const found = await unwrapAll(text, held)
    const isSame = found.keyIds.join() === held.keyIds.join()
    if (!isSame) await accept(found)
    held = found
    complaint = ''
    if (!isSame) log.info({ keyIds: found.keyIds }, 'the key file has changed and was reloaded')
  }

  /** The lines that services are unwrapping now, by the stamp of their file. */
  const taking = new Map<string, Promise<void>>()

  async function look(): Promise<void> {
    trustedUntil = performance.now() + KEY_FILE_TRUST_MS
    try {
      if (stampOf(await stat(path, { bigint: true })) === held.stamp) return
      const text = await readText(path, { create: false })
      if (!text.lines.some((line) => isWrapped(line) && isNewTo(held)(line))) return await take(text)
      if (taking.has(text.stamp)) return
      const taken = take(text)
        .catch(complain)
        .finally(() => taking.delete(text.stamp))
      taking.set(text.stamp, taken)
    } catch (error) {
      complain(error)
    }
  }

  /** Asks the services again whether they still unwrap what they wrapped. */
  async function prove(): Promise<void> {
    const at = performance.now()
    const { lines } = held
    try {
      await Promise.all(lines.filter(isWrapped).map(keyOf))
      provenAt = at
    } catch (error) {
      log.error({ err: error }, 'a key service does not unwrap the keys again')
    }
  }

  const share = singleFlight(look)
  const timer = lifetimeMs === null ? undefined : setInterval(singleFlight(prove), lifetimeMs / PROOFS_A_LIFETIME)
  timer?.unref()

  return {
    /** @throws KeyServiceError when a lifetime has ended */
    held(): Reading {
      if (lifetimeMs === null || performance.now() - provenAt < lifetimeMs || !held.lines.some(isWrapped)) return held
      throw new KeyServiceError('unavailable', 'the key service has not unwrapped the keys again within their lifetime')
    },
    last: () => held,
    async fresh(): Promise<void> {
      if (performance.now() >= trustedUntil) await share()
    },
    /** Looks twice: the first look may be one under way that read before the file was changed. */
    async anew(): Promise<void> {
      await share()
      await share()
      if (taking.size > 0) throw new KeyServiceError('unavailable', 'a key service is unwrapping the changed key file')
    },
    close: () => clearInterval(timer),
  }
}

/**
 * The provider over a local file: a key a line, plain or wrapped by a key service; mode 0600, or 0640 where root owns it. The
 * first key wraps, all unwrap.
 * `create` makes the file when it is missing, with a key that `service` wraps. Plain keys are made in development only: in
 * production a missing key is a mistake to be told of, not a reason for a new key that opens nothing. Without `plain`, a
 * plain key is refused.
 * @throws KeyFileError, KeyServiceError, KeyServiceAddressError
 */
export async function openKeyFile(
  path: string,
  { create, service = null, plain = true }: { create: boolean; service?: string | null; plain?: boolean },
): Promise<KeyFile> {
  if (create && (await isMissing(path))) await createKeyFile(path, service)
  const text = await readText(path, { create })
  if (!plain && !text.lines.every(isWrapped))
    throw new KeyFileError(
      `The key file ${path} holds a key that no key service has wrapped, but HALFKEY_KEK names one. Run: halfkey keys migrate --to '${service}'`,
    )
  const read = await unwrapAll(text, null)
  let follower: ReturnType<typeof createFollower> | undefined
  const last = () => follower?.last() ?? read
  const held = () => follower?.held() ?? read

  return {
    get keyId() {
      return last().keyId
    },
    get keyIds() {
      return last().keyIds
    },
    follow(following) {
      follower = createFollower(path, last(), following)
    },
    close: () => follower?.close(),
    async wrap(dataKey, aad) {
      await follower?.fresh()
      const { keyId, keys } = held()
      return { keyId, wrapped: encrypt(keys.get(keyId) as Buffer, dataKey, aad) }
    },
    async unwrap(keyId, wrapped, aad) {
      await follower?.fresh()
      if (!held().keys.has(keyId)) await follower?.anew()
      const key = held().keys.get(keyId)
      if (key === undefined) {
        throw new Error(
          `sealed with key ${keyId}, but the key file ${path} holds ${held().keyIds.join(', ')}: put the line of key ${keyId} back into it`,
        )
      }
      try {
        return decrypt(key, wrapped, aad)
      } catch (error) {
        const message = `a value wrapped by key ${keyId} was changed or damaged: restore it from a backup, or replace the secret`
        throw new Error(message, { cause: error })
      }
    },
  }
}
