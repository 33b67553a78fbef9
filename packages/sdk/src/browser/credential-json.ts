import { fromBase64url, toBase64url } from './base64url.ts'
import { type BrowserCredential, platform } from './platform.ts'

interface Descriptor {
  id: string
}

interface OptionsJson {
  challenge: string
  user?: { id: string }
  excludeCredentials?: Descriptor[]
  allowCredentials?: Descriptor[]
}

const decoded = (descriptors: readonly Descriptor[]) =>
  descriptors.map((one) => ({ ...one, id: fromBase64url(one.id) }))

/** Converts WebAuthn's JSON options (WebAuthn L3, section 5.1.8) for browsers that cannot read them. */
function optionsOf({ challenge, user, excludeCredentials, allowCredentials, ...rest }: OptionsJson): object {
  return {
    ...rest,
    challenge: fromBase64url(challenge),
    ...(user === undefined ? {} : { user: { ...user, id: fromBase64url(user.id) } }),
    ...(excludeCredentials === undefined ? {} : { excludeCredentials: decoded(excludeCredentials) }),
    ...(allowCredentials === undefined ? {} : { allowCredentials: decoded(allowCredentials) }),
  }
}

/** Options for `navigator.credentials.create`. */
export function creationOptions(json: OptionsJson): object {
  return platform.PublicKeyCredential?.parseCreationOptionsFromJSON?.(json) ?? optionsOf(json)
}

/** Options for `navigator.credentials.get`. */
export function requestOptions(json: OptionsJson): object {
  return platform.PublicKeyCredential?.parseRequestOptionsFromJSON?.(json) ?? optionsOf(json)
}

const BYTES = ['clientDataJSON', 'attestationObject', 'authenticatorData', 'signature', 'userHandle'] as const

function written(credential: BrowserCredential): object {
  const { id, rawId, response, authenticatorAttachment } = credential
  const bytes = BYTES.flatMap((name) => {
    const value = response[name]
    return value === undefined || value === null || value.byteLength === 0 ? [] : [[name, toBase64url(value)]]
  })
  const transports = response.getTransports?.()
  return {
    id,
    rawId: toBase64url(rawId),
    type: 'public-key',
    response: { ...Object.fromEntries(bytes), ...(transports === undefined ? {} : { transports }) },
    clientExtensionResults: credential.getClientExtensionResults?.() ?? {},
    ...(typeof authenticatorAttachment === 'string' ? { authenticatorAttachment } : {}),
  }
}

/** A passkey's answer as JSON (WebAuthn L3, section 5.1.8). */
export function credentialJson(credential: BrowserCredential): object {
  try {
    if (credential.toJSON !== undefined) return credential.toJSON()
  } catch {
    // Password managers replace the browser's objects with their own, on which its method fails.
  }
  return written(credential)
}
