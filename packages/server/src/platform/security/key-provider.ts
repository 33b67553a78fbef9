import { createHash, randomBytes } from 'node:crypto'
import { chmod, type FileHandle, link, mkdir, open as openFile, rm, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { singleFlight } from '../concurrency/poll.ts'
import type { Logger } from '../observability/log.ts'
import { decrypt, encrypt } from './crypto.ts'

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
  follow(accept: (held: HeldKeys) => Promise<void>, log: Logger): void
}

/** The file that holds the keys is missing, unreadable, open to others or holds no keys. The message says what to do. */
export class KeyFileError extends Error {}

/** How long a process may use the keys of a file that has changed since. */
const KEY_FILE_TRUST_MS = 1_000
/** The most keys that a file may hold: the one that wraps, and those of rotations that are not finished. */
const KEYS_MAX = 5

const KEY_BYTES = 32

function idOf(key: Buffer): string {
  return createHash('sha256').update('halfkey/v1/kek-id').update(key).digest('hex').slice(0, 16)
}

/** A new key as a line of a key file, without the line's end. */
export function newKeyLine(): string {
  return randomBytes(KEY_BYTES).toString('base64')
}

/** What was read of a key file. */
interface Reading extends HeldKeys {
  keys: ReadonlyMap<string, Buffer>
  /** Changes whenever the file does. */
  stamp: string
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

function parseKeys(path: string, text: string): Map<string, Buffer> {
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  if (lines.length > KEYS_MAX) throw new KeyFileError(`The key file ${path} must hold at most ${KEYS_MAX} keys.`)
  const keys = lines.map((line) => Buffer.from(line, 'base64'))
  if (keys.length === 0 || keys.some((key, at) => key.length !== KEY_BYTES || key.toString('base64') !== lines[at])) {
    throw new KeyFileError(
      `The key file ${path} must hold exactly 32 bytes as base64, as 'openssl rand -base64 32' prints them. During a rotation it may hold several keys, one per line.`,
    )
  }
  return new Map(keys.map((key) => [idOf(key), key]))
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
async function readKeyFile(path: string, options: { create: boolean }): Promise<Reading> {
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
    const keys = parseKeys(path, text)
    const keyIds = [...keys.keys()]
    return { keys, keyIds, keyId: keyIds[0] as string, stamp: stampOf(found) }
  } finally {
    await file.close()
  }
}

const isMissing = (path: string) =>
  stat(path).then(
    () => false,
    (error: NodeJS.ErrnoException) => error.code === 'ENOENT',
  )

async function createKeyFile(path: string): Promise<void> {
  // Passable, not listable: the embedded database below this folder may run as another user. The file itself is 0600.
  await mkdir(dirname(path), { recursive: true, mode: 0o711 })
  const draft = `${path}.${randomBytes(6).toString('hex')}.new`
  await writeFile(draft, `${newKeyLine()}\n`, { mode: 0o600, flag: 'wx', flush: true })
  try {
    // A link fails if the name exists: of two processes that start at once, one creates the key and both read it.
    await link(draft, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    await rm(draft)
  }
}

/** Looks for changes of a key file. */
function createFollower(path: string, begin: Reading, accept: (held: HeldKeys) => Promise<void>, log: Logger) {
  let held = begin
  let trustedUntil = 0
  let complaint = ''

  async function look(): Promise<void> {
    trustedUntil = performance.now() + KEY_FILE_TRUST_MS
    try {
      if (stampOf(await stat(path, { bigint: true })) === held.stamp) return
      const found = await readKeyFile(path, { create: false })
      const isSame = found.keyIds.join() === held.keyIds.join()
      if (!isSame) await accept(found)
      held = found
      complaint = ''
      if (!isSame) log.info({ keyIds: found.keyIds }, 'the key file has changed and was reloaded')
    } catch (error) {
      // Once a complaint, not once a second.
      if (complaint !== (error as Error).message)
        log.error({ err: error }, 'the changed key file is not valid; the previous keys stay in use')
      complaint = (error as Error).message
    }
  }

  const share = singleFlight(look)

  return {
    held: () => held,
    async fresh(): Promise<void> {
      if (performance.now() >= trustedUntil) await share()
    },
    /** Looks twice: the first look may be one under way that read before the file was changed. */
    async anew(): Promise<void> {
      await share()
      await share()
    },
  }
}

/**
 * The local-file provider: 32 random bytes as base64 a line, mode 0600, or 0640 where root owns it. The first key wraps, all unwrap.
 * `create` makes the file when it is missing (development only: in production a missing key is a mistake to be told of,
 * not a reason for a new key that opens nothing).
 * @throws KeyFileError
 */
export async function openKeyFile(path: string, options: { create: boolean }): Promise<KeyFile> {
  if (options.create && (await isMissing(path))) await createKeyFile(path)
  const read = await readKeyFile(path, options)
  let follower: ReturnType<typeof createFollower> | undefined
  const held = () => follower?.held() ?? read

  return {
    get keyId() {
      return held().keyId
    },
    get keyIds() {
      return held().keyIds
    },
    follow(accept, log) {
      follower = createFollower(path, held(), accept, log)
    },
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
