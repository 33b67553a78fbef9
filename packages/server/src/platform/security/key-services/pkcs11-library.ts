/** A PKCS #11 library (OASIS PKCS #11 v2.40 and v3.0) in the process that loads it, which should do nothing else: such libraries block, hang and crash. */
import { readFileSync } from 'node:fs'
import type { KeyServiceFailure } from './key-service.ts'
import type { Pkcs11Address } from './pkcs11.ts'

/** By the names of return values. Of the others, decryption says that the bytes do not fit, or nothing that we know. */
const FAILURES: readonly [name: RegExp, failure: KeyServiceFailure][] = [
  [/CKR_(PIN_|USER_NOT_LOGGED_IN|KEY_FUNCTION_NOT_PERMITTED)/, 'denied'],
  [/CKR_(KEY_HANDLE_INVALID|KEY_TYPE_INCONSISTENT|TOKEN_NOT_RECOGNIZED)/, 'gone'],
  [/CKR_ENCRYPTED_DATA/, 'corrupt'],
]

/** Not among this package's dependencies, because it is compiled when it is installed. */
const PACKAGE: string = 'pkcs11js'

/** What is used of pkcs11js: the standard's functions, with its constants beside them. */
interface Pkcs11Module {
  CKA_CLASS: number
  CKA_EC_POINT: number
  CKA_LABEL: number
  CKF_SERIAL_SESSION: number
  CKM_AES_GCM: number
  CKO_PRIVATE_KEY: number
  CKO_PUBLIC_KEY: number
  CKO_SECRET_KEY: number
  CKU_USER: number
  CK_PARAMS_AES_GCM: number
  PKCS11: new () => Library
}

interface Library {
  load(path: string): void
  C_Initialize(): void
  C_GetSlotList(tokenPresent: boolean): Buffer[]
  C_GetTokenInfo(slot: Buffer): { label: string }
  C_OpenSession(slot: Buffer, flags: number): Buffer
  C_Login(session: Buffer, userType: number, pin: string): void
  C_FindObjectsInit(session: Buffer, template: { type: number; value: number | string }[]): void
  C_FindObjects(session: Buffer): Buffer | null
  C_FindObjectsFinal(session: Buffer): void
  C_GetAttributeValue(session: Buffer, object: Buffer, template: { type: number }[]): { value: Buffer }[]
  C_EncryptInit(session: Buffer, mechanism: object, key: Buffer): void
  C_Encrypt(session: Buffer, input: Buffer, output: Buffer): Buffer
  C_DecryptInit(session: Buffer, mechanism: object, key: Buffer): void
  C_Decrypt(session: Buffer, input: Buffer, output: Buffer): Buffer
  C_SignInit(session: Buffer, mechanism: object, key: Buffer): void
  C_Sign(session: Buffer, input: Buffer, output: Buffer): Buffer
}

/** The token has not what an address names. */
class Gone extends Error {}

/** What an error of the library means. */
export const failureOf = (error: Error, decrypting: boolean): KeyServiceFailure => {
  if (error instanceof Gone) return 'gone'
  const known = FAILURES.find(([name]) => name.test(error.message))
  // Libraries tell a wrong tag by different values, CKR_GENERAL_ERROR among them.
  return known?.[1] ?? (decrypting ? 'corrupt' : 'unavailable')
}

/** What a process needs to use one key of a token. */
export interface Opened {
  constants: Pkcs11Module
  library: Library
  session: Buffer
  /** The first object of this class with the address' label. @throws Gone */
  find(kind: 'secret' | 'private' | 'public'): Buffer
}

/** Loads the package. @throws Error if it is not installed */
export async function loadPkcs11(): Promise<Pkcs11Module> {
  const { default: constants }: { default: Pkcs11Module } = await import(PACKAGE).catch(() => {
    throw new Error('pkcs11 needs a package that is not installed: npm install pkcs11js')
  })
  return constants
}

/** Opens the token of an address, and logs in. @throws Gone, or an error of the library */
export function openToken(constants: Pkcs11Module, { modulePath, token, object, pinFile }: Pkcs11Address): Opened {
  const library = new constants.PKCS11()
  library.load(modulePath)
  library.C_Initialize()
  const slot = library.C_GetSlotList(true).find((each) => library.C_GetTokenInfo(each).label.trim() === token)
  if (slot === undefined) throw new Gone(`there is no token "${token}"`)
  const session = library.C_OpenSession(slot, constants.CKF_SERIAL_SESSION)
  library.C_Login(session, constants.CKU_USER, readFileSync(pinFile, 'utf8').trim())
  const classes = {
    secret: constants.CKO_SECRET_KEY,
    private: constants.CKO_PRIVATE_KEY,
    public: constants.CKO_PUBLIC_KEY,
  }
  return {
    constants,
    library,
    session,
    find(kind) {
      library.C_FindObjectsInit(session, [
        { type: constants.CKA_CLASS, value: classes[kind] },
        { type: constants.CKA_LABEL, value: object },
      ])
      const key = library.C_FindObjects(session)
      library.C_FindObjectsFinal(session)
      if (key === null) throw new Gone(`the token has no ${kind} key "${object}"`)
      return key
    },
  }
}
