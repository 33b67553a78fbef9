/** One call of a PKCS #11 library (OASIS PKCS #11 v2.40), in a process that ends with it. */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { KeyServiceFailure } from './key-service.ts'
import type { Pkcs11Answer, Pkcs11Request } from './pkcs11.ts'

const NONCE_BYTES = 12
const TAG_BYTES = 16

/** By the names of return values. Of the others, decryption says that the bytes do not fit, or nothing that we know. */
const FAILURES: readonly [name: RegExp, failure: KeyServiceFailure][] = [
  [/CKR_(PIN_|USER_NOT_LOGGED_IN|KEY_FUNCTION_NOT_PERMITTED)/, 'denied'],
  [/CKR_(KEY_HANDLE_INVALID|KEY_TYPE_INCONSISTENT|TOKEN_NOT_RECOGNIZED)/, 'gone'],
  [/CKR_ENCRYPTED_DATA/, 'corrupt'],
]

const PACKAGE: string = 'pkcs11js'

/** What is used of pkcs11js: the standard's functions, with its constants beside them. */
interface Pkcs11Module {
  CKA_CLASS: number
  CKA_LABEL: number
  CKF_SERIAL_SESSION: number
  CKM_AES_GCM: number
  CKO_SECRET_KEY: number
  CKU_USER: number
  CK_PARAMS_AES_GCM: number
  PKCS11: new () => {
    load(path: string): void
    C_Initialize(): void
    C_GetSlotList(tokenPresent: boolean): Buffer[]
    C_GetTokenInfo(slot: Buffer): { label: string }
    C_OpenSession(slot: Buffer, flags: number): Buffer
    C_Login(session: Buffer, userType: number, pin: string): void
    C_FindObjectsInit(session: Buffer, template: { type: number; value: number | string }[]): void
    C_FindObjects(session: Buffer): Buffer | null
    C_FindObjectsFinal(session: Buffer): void
    C_EncryptInit(session: Buffer, mechanism: object, key: Buffer): void
    C_Encrypt(session: Buffer, input: Buffer, output: Buffer): Buffer
    C_DecryptInit(session: Buffer, mechanism: object, key: Buffer): void
    C_Decrypt(session: Buffer, input: Buffer, output: Buffer): Buffer
  }
}

class Gone extends Error {}

const failureOf = (error: Error, decrypting: boolean): KeyServiceFailure => {
  if (error instanceof Gone) return 'gone'
  const known = FAILURES.find(([name]) => name.test(error.message))
  // Libraries tell a wrong tag by different values, CKR_GENERAL_ERROR among them.
  return known?.[1] ?? (decrypting ? 'corrupt' : 'unavailable')
}

async function run({
  modulePath,
  token,
  object,
  pinFile,
  action,
  bytes,
  context,
}: Pkcs11Request): Promise<Pkcs11Answer> {
  // Not among this package's dependencies, because it is compiled when it is installed.
  const { default: pkcs11 }: { default: Pkcs11Module } = await import(PACKAGE).catch(() => {
    throw new Error('pkcs11 needs a package that is not installed: npm install pkcs11js')
  })
  const library = new pkcs11.PKCS11()
  let decrypting = false
  try {
    library.load(modulePath)
    library.C_Initialize()
    const slot = library.C_GetSlotList(true).find((each) => library.C_GetTokenInfo(each).label.trim() === token)
    if (slot === undefined) throw new Gone(`there is no token "${token}"`)
    const session = library.C_OpenSession(slot, pkcs11.CKF_SERIAL_SESSION)
    library.C_Login(session, pkcs11.CKU_USER, readFileSync(pinFile, 'utf8').trim())
    library.C_FindObjectsInit(session, [
      { type: pkcs11.CKA_CLASS, value: pkcs11.CKO_SECRET_KEY },
      { type: pkcs11.CKA_LABEL, value: object },
    ])
    const key = library.C_FindObjects(session)
    library.C_FindObjectsFinal(session)
    if (key === null) throw new Gone(`the token has no secret key "${object}"`)
    const input = Buffer.from(bytes, 'base64')
    // There are libraries that decrypt nothing to nothing.
    if (action === 'unwrap' && input.length <= NONCE_BYTES + TAG_BYTES) throw new Error('CKR_ENCRYPTED_DATA_LEN_RANGE')
    const nonce = action === 'wrap' ? randomBytes(NONCE_BYTES) : input.subarray(0, NONCE_BYTES)
    const mechanism = {
      mechanism: pkcs11.CKM_AES_GCM,
      parameter: {
        type: pkcs11.CK_PARAMS_AES_GCM,
        iv: nonce,
        ivBits: NONCE_BYTES * 8,
        aad: Buffer.from(context),
        tagBits: TAG_BYTES * 8,
      },
    }
    if (action === 'wrap') {
      library.C_EncryptInit(session, mechanism, key)
      const ciphertext = library.C_Encrypt(session, input, Buffer.alloc(input.length + TAG_BYTES))
      return { bytes: Buffer.concat([nonce, ciphertext]).toString('base64') }
    }
    library.C_DecryptInit(session, mechanism, key)
    decrypting = true
    const ciphertext = input.subarray(NONCE_BYTES)
    return { bytes: library.C_Decrypt(session, ciphertext, Buffer.alloc(ciphertext.length)).toString('base64') }
  } catch (error) {
    return { failure: failureOf(error as Error, decrypting), message: (error as Error).message }
  }
}

process.once('message', (request: Pkcs11Request) => {
  run(request)
    .catch((error: Error): Pkcs11Answer => ({ failure: 'unavailable', message: error.message }))
    .then((answer) => process.send?.(answer))
})
