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
  /** Makes an Ed25519 key pair of this name. */
  makeSigningKey(object: string): void
  /** Removes every object of this name. */
  forget(object: string): void
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
  // In a separate process, as everything else that loads such a library.
  const inToken = (work: string) => {
    const script = `
      const p = require('pkcs11js'), lib = new p.PKCS11()
      lib.load(${JSON.stringify(library)}); lib.C_Initialize()
      const slot = lib.C_GetSlotList(true).find((s) => lib.C_GetTokenInfo(s).label.trim() === 'halfkey')
      const session = lib.C_OpenSession(slot, p.CKF_SERIAL_SESSION | p.CKF_RW_SESSION)
      lib.C_Login(session, p.CKU_USER, '${PIN}')
      ${work}`
    execFileSync(process.execPath, ['-e', script], { ...run, cwd: import.meta.dirname })
  }
  inToken(`
    for (const label of ${JSON.stringify(objects)})
      lib.C_GenerateKey(session, { mechanism: p.CKM_AES_KEY_GEN }, [
        { type: p.CKA_TOKEN, value: true }, { type: p.CKA_LABEL, value: label }, { type: p.CKA_VALUE_LEN, value: 32 },
        { type: p.CKA_ENCRYPT, value: true }, { type: p.CKA_DECRYPT, value: true },
        { type: p.CKA_SENSITIVE, value: true }, { type: p.CKA_EXTRACTABLE, value: false }])`)
  return {
    makeSigningKey(object) {
      // PKCS #11 v3.0: CKM_EC_EDWARDS_KEY_PAIR_GEN, and the curve as RFC 8410 names it.
      const named = `{ type: p.CKA_TOKEN, value: true }, { type: p.CKA_LABEL, value: ${JSON.stringify(object)} }`
      inToken(`
        lib.C_GenerateKeyPair(session, { mechanism: 0x1055 },
          [${named}, { type: p.CKA_VERIFY, value: true }, { type: p.CKA_EC_PARAMS, value: Buffer.from('06032b6570', 'hex') }],
          [${named}, { type: p.CKA_SIGN, value: true }, { type: p.CKA_SENSITIVE, value: true },
            { type: p.CKA_EXTRACTABLE, value: false }])`)
    },
    forget(object) {
      inToken(`
        lib.C_FindObjectsInit(session, [{ type: p.CKA_LABEL, value: ${JSON.stringify(object)} }])
        const found = []
        for (let o = lib.C_FindObjects(session); o !== null; o = lib.C_FindObjects(session)) found.push(o)
        lib.C_FindObjectsFinal(session)
        for (const o of found) lib.C_DestroyObject(session, o)`)
    },
    address: (object) => `pkcs11:token=halfkey;object=${object}?module-path=${library}&pin-source=file:${pinFile}`,
    env,
    pinFile,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
