import { type Bytes, fromBase64Url, toBase64Url } from './bytes.ts'
import { ShareError } from './errors.ts'
import type { NewPasskey, PasskeyWrap } from './protect.ts'

/** Which passkey to ask for which secret; a wrap is one. Strings are base64url without padding, but for `rpId`. */
export type PrfRequest = Pick<PasskeyWrap, 'credentialId' | 'rpId' | 'prfSalt'>

const SALT_BYTES = 32
const OUTPUT_BYTES = 32
const CHALLENGE_BYTES = 32

// As much of the Credential Management API as is used here: types of its own let the package be compiled without a browser's.
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

/** There is no passkey with the PRF extension to ask: another way to protect the share is needed. */
export class PrfUnavailableError extends ShareError {
  constructor(message: string) {
    super('seal_invalid', message)
    this.name = 'PrfUnavailableError'
  }
}

/** What to ask a passkey's PRF for: 32 random bytes, for each wrap others. */
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
    throw new ShareError('share_invalid', 'Ask the passkeys of one relying party at a time, and at least one.')
  const saltOf = ({ prfSalt }: PrfRequest) => ({ first: fromBase64Url(prfSalt) })
  return {
    // Nobody verifies this assertion: it is made for its extension's result.
    challenge: crypto.getRandomValues(new Uint8Array(CHALLENGE_BYTES)),
    rpId: first.rpId,
    // An authenticator has one secret with user verification and another one without.
    userVerification: 'required',
    allowCredentials: requests.map(({ credentialId }) => ({ type: 'public-key', id: fromBase64Url(credentialId) })),
    extensions: {
      prf: {
        evalByCredential: Object.fromEntries(requests.map((request) => [request.credentialId, saltOf(request)])),
        // For browsers that know no other form; of one passkey it means the same.
        ...(requests.length === 1 && { eval: saltOf(first) }),
      },
    },
  }
}

/**
 * Asks for whichever of several passkeys of one relying party is at hand, say of a ciphertext's wraps, and answers who it
 * was and its secret. In browsers only; the person sees the browser's dialogue.
 * @throws PrfUnavailableError where browser or authenticator have no PRF extension (WebAuthn Level 3, section 10.1.4);
 * what the browser throws where the person cancels, or there is no such passkey (`NotAllowedError`)
 */
export async function prfOutputOfAny(requests: readonly PrfRequest[]): Promise<NewPasskey> {
  const { navigator } = globalThis as unknown as { navigator?: { credentials?: Credentials } }
  if (navigator?.credentials === undefined)
    throw new PrfUnavailableError(
      'There are no passkeys here: browsers have them in secure contexts only (HTTPS or localhost).',
    )
  const assertion = await navigator.credentials.get({ publicKey: optionsOf(requests) })
  const request = requests.find(({ credentialId }) => credentialId === assertion?.id)
  if (assertion === null || request === undefined)
    throw new PrfUnavailableError('Another passkey answered than those asked.')
  const output = assertion.getClientExtensionResults().prf?.results?.first
  if (output === undefined)
    throw new PrfUnavailableError(
      'This passkey, or this browser, has no PRF extension: use another passkey, or a password.',
    )
  const prfOutput = bytesOf(output)
  if (prfOutput.length !== OUTPUT_BYTES) throw new PrfUnavailableError(`A passkey's PRF gives ${OUTPUT_BYTES} bytes.`)
  const { credentialId, rpId, prfSalt } = request
  return { credentialId, rpId, prfSalt, prfOutput }
}

/** Asks one passkey for its secret: 32 bytes, always the same for the same salt. @throws as `prfOutputOfAny` */
export async function prfOutput(request: PrfRequest): Promise<Uint8Array> {
  return (await prfOutputOfAny([request])).prfOutput
}
