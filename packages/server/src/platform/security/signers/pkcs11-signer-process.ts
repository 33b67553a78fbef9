/** Signs with one Ed25519 key of a PKCS #11 token, one request after the other, until its parent ends it or something fails. */
import { failureOf, loadPkcs11, type Opened, openToken } from '../key-services/pkcs11-library.ts'
import type { SignAnswer, SignRequest } from './pkcs11-signer.ts'

/** PKCS #11 v3.0, section 6.3.13. The library that loads modules does not name it. */
const CKM_EDDSA = 0x1057
const PUBLIC_KEY_BYTES = 32
const SIGNATURE_BYTES = 64

/** The curve's point: raw, or as an octet or bit string of DER, whose end it is. */
function publicKeyOf({ library, session, constants, find }: Opened): Buffer {
  const [point] = library.C_GetAttributeValue(session, find('public'), [{ type: constants.CKA_EC_POINT }])
  const bytes = point?.value ?? Buffer.alloc(0)
  if (bytes.length < PUBLIC_KEY_BYTES || bytes.length > PUBLIC_KEY_BYTES + 3)
    throw new Error('CKR_KEY_TYPE_INCONSISTENT: the key is not an Ed25519 key')
  return Buffer.from(bytes.subarray(-PUBLIC_KEY_BYTES))
}

/** The token and the key's handle stay open between requests: to open them takes longer than a signature. */
let opening: Promise<Opened & { key: Buffer }> | undefined

async function open(address: SignRequest['address']): Promise<Opened & { key: Buffer }> {
  const token = openToken(await loadPkcs11(), address)
  return { ...token, key: token.find('private') }
}

async function answer({ address, action, bytes }: SignRequest): Promise<Buffer> {
  opening ??= open(address)
  const opened = await opening
  if (action === 'publicKey') return publicKeyOf(opened)
  const { library, session, key } = opened
  library.C_SignInit(session, { mechanism: CKM_EDDSA }, key)
  return library.C_Sign(session, Buffer.from(bytes, 'base64'), Buffer.alloc(SIGNATURE_BYTES))
}

process.on('message', (request: SignRequest) => {
  const send = (told: SignAnswer) => process.send?.(told)
  answer(request).then(
    (bytes) => send({ id: request.id, bytes: bytes.toString('base64') }),
    (error: Error) => {
      send({ id: request.id, failure: failureOf(error, false), message: error.message })
      // Whatever state the library is in, the next request begins anew, in another process.
      process.disconnect?.()
    },
  )
})
