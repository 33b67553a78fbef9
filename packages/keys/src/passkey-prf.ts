import { type Bytes, fromBase64Url, toBase64Url } from './bytes.ts'
import { ShareError } from './errors.ts'
import type { NewPasskey, PasskeyWrap } from './protect.ts'

/** Which passkey to ask for which secret, for example a wrap. Strings are base64url without padding, except `rpId`. */
export type PrfRequest = Pick<PasskeyWrap, 'credentialId' | 'rpId' | 'prfSalt'>

const SALT_BYTES = 32
const OUTPUT_BYTES = 32
const CHALLENGE_BYTES = 32

// The used part of the Credential Management API. Own types let the package compile without those of a browser.
interface RequestOptions {
  challenge: Bytes
  rpId: string
  userVerification: 'required'
  allowCredentials: { type: 'public-key'; id: Bytes }[]
  extensions: { prf: { eval?: { first: Bytes }; evalByCredential: Record<string, { first: Bytes }> } }
}

interface Assertion {
  id: string
  getClientExtensionResults(): { prf?: { results?: { first?: ArrayBuffer | ArrayBufferView<ArrayBuffer> } } }
}

interface Credentials {
  get(options: { publicKey: RequestOptions }): Promise<Assertion | null>
}

/** There is no passkey with the PRF extension. Protect the share in another way. */
export class PrfUnavailableError extends ShareError {
  constructor(message: string) {
    super('seal_invalid', message)
    this.name = 'PrfUnavailableError'
  }
}

/** The input of a passkey's PRF: 32 random bytes. Use a new salt for each wrap. */
export function newPrfSalt(): string {
  return toBase64Url(crypto.getRandomValues(new Uint8Array(SALT_BYTES)))
}

function bytesOf(buffer: ArrayBuffer | ArrayBufferView<ArrayBuffer>): Uint8Array {
  const view = buffer instanceof ArrayBuffer ? new Uint8Array(buffer) : buffer
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
}

function optionsOf(requests: readonly PrfRequest[]): RequestOptions {
  const [first] = requests
  if (first === undefined || requests.some(({ rpId }) => rpId !== first.rpId))
    throw new ShareError('share_invalid', 'Give at least one passkey, and only passkeys of one relying party.')
  const saltOf = ({ prfSalt }: PrfRequest) => ({ first: fromBase64Url(prfSalt) })
  return {
    // Nobody verifies this assertion. Only the result of its extension is used.
    challenge: crypto.getRandomValues(new Uint8Array(CHALLENGE_BYTES)),
    rpId: first.rpId,
    // An authenticator has one secret with user verification and another one without.
    userVerification: 'required',
    allowCredentials: requests.map(({ credentialId }) => ({ type: 'public-key', id: fromBase64Url(credentialId) })),
    extensions: {
      prf: {
        evalByCredential: Object.fromEntries(requests.map((request) => [request.credentialId, saltOf(request)])),
        // For browsers that support only this form. For one passkey it means the same.
        ...(requests.length === 1 && { eval: saltOf(first) }),
      },
    },
  }
}

/**
 * Asks for any of several passkeys of one relying party, for example those of a ciphertext's wraps. Returns the passkey
 * that the user chose, with its secret. In browsers only; the user sees the browser's dialogue.
 * @throws PrfUnavailableError if the browser or authenticator has no PRF extension (WebAuthn Level 3, section 10.1.4);
 * the browser's error if the user cancels or has no such passkey (`NotAllowedError`)
 */
export async function prfOutputOfAny(requests: readonly PrfRequest[]): Promise<NewPasskey> {
  const { navigator } = globalThis as unknown as { navigator?: { credentials?: Credentials } }
  if (navigator?.credentials === undefined)
    throw new PrfUnavailableError(
      'Passkeys are not available here. Browsers offer them in secure contexts only: HTTPS or localhost.',
    )
  const assertion = await navigator.credentials.get({ publicKey: optionsOf(requests) })
  const request = requests.find(({ credentialId }) => credentialId === assertion?.id)
  if (assertion === null || request === undefined)
    throw new PrfUnavailableError('The browser answered with a passkey that was not asked for.')
  const output = assertion.getClientExtensionResults().prf?.results?.first
  if (output === undefined)
    throw new PrfUnavailableError(
      'This passkey, or this browser, has no PRF extension: use another passkey, or a password.',
    )
  const prfOutput = bytesOf(output)
  if (prfOutput.length !== OUTPUT_BYTES)
    throw new PrfUnavailableError(`The output of a passkey's PRF must have ${OUTPUT_BYTES} bytes.`)
  const { credentialId, rpId, prfSalt } = request
  return { credentialId, rpId, prfSalt, prfOutput }
}

/** Asks one passkey for its secret: 32 bytes, always the same for the same salt. @throws as `prfOutputOfAny` */
export async function prfOutput(request: PrfRequest): Promise<Uint8Array> {
  return (await prfOutputOfAny([request])).prfOutput
}
