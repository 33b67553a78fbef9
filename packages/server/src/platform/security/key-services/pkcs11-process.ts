/** One call of a PKCS #11 library, in a process that ends with it. */
import { randomBytes } from 'node:crypto'
import type { Pkcs11Answer, Pkcs11Request } from './pkcs11.ts'
import { failureOf, loadPkcs11, openToken } from './pkcs11-library.ts'

const NONCE_BYTES = 12
const TAG_BYTES = 16

async function run({ action, bytes, context, ...address }: Pkcs11Request): Promise<Pkcs11Answer> {
  const pkcs11 = await loadPkcs11()
  let decrypting = false
  try {
    const { library, session, find } = openToken(pkcs11, address)
    const key = find('secret')
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
