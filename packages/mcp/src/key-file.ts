import { randomUUID } from 'node:crypto'
import { closeSync, fstatSync, linkSync, mkdirSync, openSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { type DelegateKey, delegateKeyOf } from '../../sdk/src/index.ts'

const P256 = { name: 'ECDSA', namedCurve: 'P-256' }
/** What other users of the machine may do with a file. */
const OTHERS = 0o077

/** Writes a new private key, unless the file is there: of several that start at once, one writes it. */
async function create(path: string): Promise<void> {
  const pair = await crypto.subtle.generateKey(P256, true, ['sign', 'verify'])
  const text = `${JSON.stringify(await crypto.subtle.exportKey('jwk', pair.privateKey))}\n`
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  // A link appears with its whole content, and never in place of a file that is there.
  const written = `${path}.${randomUUID()}`
  writeFileSync(written, text, { mode: 0o600, flag: 'wx', flush: true })
  try {
    linkSync(written, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    unlinkSync(written)
  }
}

/** The file's text. Undefined if there is none. @throws Error if others may read or change the file */
function read(path: string): string | undefined {
  let file: number
  try {
    file = openSync(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new Error(`HALFKEY_KEY_FILE cannot be read: ${(error as NodeJS.ErrnoException).code}`)
  }
  try {
    const { mode, uid } = fstatSync(file)
    // Who owns a file can read it: a session must not be bound to another user's key.
    if (process.geteuid !== undefined && uid !== process.geteuid())
      throw new Error('HALFKEY_KEY_FILE belongs to another user of this machine.')
    // Windows has no such mode.
    if (process.platform !== 'win32' && (mode & OTHERS) !== 0)
      throw new Error(
        `HALFKEY_KEY_FILE can be used by others on this machine (mode ${(mode & 0o777).toString(8)}). If nobody did, run: chmod 600 ${path}`,
      )
    return readFileSync(file, 'utf8')
  } finally {
    closeSync(file)
  }
}

/** As `readKeyFile`, after creating the file with mode 0600 if it is not there. */
export async function createKeyFile(path: string): Promise<DelegateKey> {
  if (read(path) === undefined) await create(path)
  return readKeyFile(path)
}

/**
 * The delegate's key in a file.
 * @throws Error for no file, and for one that is not such a key or that others can read. The message holds nothing of its content
 */
export async function readKeyFile(path: string): Promise<DelegateKey> {
  const text = read(path)
  if (text === undefined)
    throw new Error(
      `There is no key at HALFKEY_KEY_FILE (${path}). \`halfkey-mcp key\` creates one, for a new session.`,
    )
  try {
    const { kty, crv, x, y, d } = JSON.parse(text)
    const publicKey = await crypto.subtle.importKey('jwk', { kty, crv, x, y }, P256, true, ['verify'])
    const privateKey = await crypto.subtle.importKey('jwk', { kty, crv, x, y, d }, P256, false, ['sign'])
    return await delegateKeyOf({ publicKey, privateKey })
  } catch {
    throw new Error('HALFKEY_KEY_FILE must hold a private P-256 key as a JWK. Name a new file to create another key.')
  }
}
