/** A token of SoftHSM 2 (Debian package softhsm2): a PKCS #11 library whose keys lie in a folder. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const LIBRARIES = ['/usr/lib/softhsm/libsofthsm2.so', '/usr/lib64/pkcs11/libsofthsm2.so']
const library = LIBRARIES.find(existsSync)

function load() {
  try {
    return createRequire(import.meta.url)('pkcs11js')
  } catch {
    return null
  }
}

/** Why there is no token here; null where one can be made. */
export const NO_SOFTHSM =
  library === undefined ? 'softhsm2 is not installed' : load() === null ? 'pkcs11js is not installed' : null

const PIN = '824317'

export interface SoftHsm {
  /** The address of a key: `pkcs11:…`. */
  address(object: string): string
  /** Settings for every process that loads the library. */
  env: Record<string, string>
  pinFile: string
  remove(): void
}

/** Makes a token with AES keys of these names. */
export function makeSoftHsm(...objects: string[]): SoftHsm {
  const folder = mkdtempSync(join(tmpdir(), 'hk-hsm-'))
  const tokens = join(folder, 'tokens')
  mkdirSync(tokens)
  const configuration = join(folder, 'softhsm2.conf')
  writeFileSync(configuration, `directories.tokendir = ${tokens}\nobjectstore.backend = file\n`)
  const pinFile = join(folder, 'pin')
  writeFileSync(pinFile, `${PIN}\n`)
  const env = { SOFTHSM2_CONF: configuration }
  const run = { env: { ...process.env, ...env }, stdio: 'ignore' } as const
  execFileSync('softhsm2-util', ['--init-token', '--free', '--label', 'halfkey', '--so-pin', PIN, '--pin', PIN], run)
  const script = `
    const p = require('pkcs11js'), lib = new p.PKCS11()
    lib.load(${JSON.stringify(library)}); lib.C_Initialize()
    const slot = lib.C_GetSlotList(true).find((s) => lib.C_GetTokenInfo(s).label.trim() === 'halfkey')
    const session = lib.C_OpenSession(slot, p.CKF_SERIAL_SESSION | p.CKF_RW_SESSION)
    lib.C_Login(session, p.CKU_USER, '${PIN}')
    for (const label of ${JSON.stringify(objects)})
      lib.C_GenerateKey(session, { mechanism: p.CKM_AES_KEY_GEN }, [
        { type: p.CKA_TOKEN, value: true }, { type: p.CKA_LABEL, value: label }, { type: p.CKA_VALUE_LEN, value: 32 },
        { type: p.CKA_ENCRYPT, value: true }, { type: p.CKA_DECRYPT, value: true },
        { type: p.CKA_SENSITIVE, value: true }, { type: p.CKA_EXTRACTABLE, value: false }])`
  execFileSync(process.execPath, ['-e', script], { ...run, cwd: import.meta.dirname })
  return {
    address: (object) => `pkcs11:token=halfkey;object=${object}?module-path=${library}&pin-source=file:${pinFile}`,
    env,
    pinFile,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
