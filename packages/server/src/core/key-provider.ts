import { createHash, randomBytes } from 'node:crypto'
import { chmod, link, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { decrypt, encrypt } from './crypto.ts'

/**
 * Holds the key-encryption key. Wraps data keys, never data, so that a provider outside this process (a KMS, an HSM)
 * sees 32 bytes a secret.
 */
export interface KeyProvider {
  /** Which key wraps now; stands beside each wrapped key. */
  readonly keyId: string
  wrap(dataKey: Buffer, aad: Buffer): Promise<Buffer>
  /** @throws Error when the key is not held here, or the wrapped key or its context was changed */
  unwrap(keyId: string, wrapped: Buffer, aad: Buffer): Promise<Buffer>
}

/** The file that holds the key is missing, unreadable, open to others or not a key. The message says what to do. */
export class KeyFileError extends Error {}

const KEY_BYTES = 32

function keyIdOf(key: Buffer): string {
  return createHash('sha256').update('halfkey/v1/kek-id').update(key).digest('hex').slice(0, 16)
}

function providerOf(key: Buffer): KeyProvider {
  const keyId = keyIdOf(key)
  return {
    keyId,
    wrap: async (dataKey, aad) => encrypt(key, dataKey, aad),
    async unwrap(wantedKeyId, wrapped, aad) {
      if (wantedKeyId !== keyId) throw new Error(`sealed with key ${wantedKeyId}, but the key file holds ${keyId}`)
      return decrypt(key, wrapped, aad)
    },
  }
}

async function createKeyFile(path: string): Promise<void> {
  // Passable, not listable: the embedded database below this folder may run as another user. The file itself is 0600.
  await mkdir(dirname(path), { recursive: true, mode: 0o711 })
  const draft = `${path}.${process.pid}.new`
  await writeFile(draft, `${randomBytes(KEY_BYTES).toString('base64')}\n`, { mode: 0o600, flag: 'wx', flush: true })
  try {
    // A link fails where the name exists, so of two processes that start at once one makes the key and both read it.
    await link(draft, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    await rm(draft)
  }
}

/**
 * The local-file provider: 32 random bytes as base64 on one line, mode 0600.
 * `create` makes the file when it is missing (development only: in production a missing key is a mistake to be told of,
 * not a reason for a new key that opens nothing).
 * @throws KeyFileError
 */
export async function openKeyFile(path: string, options: { create: boolean }): Promise<KeyProvider> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
      throw new KeyFileError(`The key file ${path} cannot be read: ${(error as Error).message}`)
    if (!options.create) {
      throw new KeyFileError(
        `The key file ${path} does not exist. Make one with: (umask 077; openssl rand -base64 32 > ${path}) — and keep a copy apart from the database's backups: without it nothing sealed can be opened.`,
      )
    }
    await createKeyFile(path)
    text = await readFile(path, 'utf8')
  }
  if (process.platform !== 'win32' && ((await stat(path)).mode & 0o077) !== 0) {
    if (!options.create) throw new KeyFileError(`The key file ${path} can be read by others. Run: chmod 600 ${path}`)
    await chmod(path, 0o600)
  }
  const key = Buffer.from(text.trim(), 'base64')
  if (key.length !== KEY_BYTES || key.toString('base64') !== text.trim()) {
    throw new KeyFileError(
      `The key file ${path} must hold exactly 32 bytes as base64, as 'openssl rand -base64 32' prints them.`,
    )
  }
  return providerOf(key)
}
