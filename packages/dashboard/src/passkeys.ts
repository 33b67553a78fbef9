/** The browser's part of passkeys, by the JSON forms of WebAuthn (Level 3, section 5.1). */

/** Whether this browser has what the dashboard needs. */
export function hasPasskeys(): boolean {
  return typeof PublicKeyCredential !== 'undefined' && 'parseRequestOptionsFromJSON' in PublicKeyCredential
}

const written = (credential: Credential | null): object => {
  if (credential === null) throw new DOMException('No passkey was chosen.', 'NotAllowedError')
  return (credential as PublicKeyCredential).toJSON()
}

/** Asks for one of the person's passkeys. @throws DOMException if there is none, or the person declines */
export async function askForPasskey(options: object): Promise<object> {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options as PublicKeyCredentialRequestOptionsJSON)
  return written(await navigator.credentials.get({ publicKey }))
}

/** Makes a passkey. @throws DOMException if the person declines, or the device has one already */
export async function createPasskey(options: object): Promise<object> {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options as PublicKeyCredentialCreationOptionsJSON)
  return written(await navigator.credentials.create({ publicKey }))
}

/** What went wrong, for people. */
export function passkeyMessageOf(error: unknown): string {
  if (error instanceof DOMException)
    return error.name === 'InvalidStateError'
      ? 'This device has a passkey of yours already.'
      : 'No passkey was used. Try again, or ask an owner for a link.'
  return error instanceof Error ? error.message : String(error)
}
