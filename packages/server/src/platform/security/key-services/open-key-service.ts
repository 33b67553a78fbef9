import { setTimeout as pause } from 'node:timers/promises'
import { type KeyService, KeyServiceAddressError, KeyServiceError } from './key-service.ts'

const FORMS = [
  'awskms:<region>/<key id or alias/name>',
  'vault:<mount>/<key> (with VAULT_ADDR and VAULT_TOKEN or VAULT_TOKEN_FILE)',
  'pkcs11:token=<token>;object=<key>?module-path=<library>&pin-source=<file> (RFC 7512)',
]

/** @throws KeyServiceAddressError, KeyServiceError */
async function connect(address: string): Promise<KeyService> {
  const at = address.indexOf(':')
  const [scheme, rest] = [address.slice(0, at), address.slice(at + 1)]
  if (scheme === 'awskms') return (await import('./aws-kms.ts')).openAwsKms(rest)
  if (scheme === 'vault') return (await import('./vault.ts')).openVault(rest, process.env)
  if (scheme === 'pkcs11') return (await import('./pkcs11.ts')).openPkcs11(rest)
  throw new KeyServiceAddressError(`"${address}" is no key service. Known are: ${FORMS.join('; ')}`)
}

const CALL_MS = 5_000
const TRIES = 3
const PAUSE_MS = 250

/** The result, or `unavailable` after five seconds: the service may hang. */
async function inTime<T>(address: string, call: Promise<T>): Promise<T> {
  const over = new AbortController()
  try {
    return await Promise.race([
      call,
      pause(CALL_MS, undefined, { signal: over.signal }).then(() => {
        throw new KeyServiceError('unavailable', `${address} did not answer within ${CALL_MS / 1_000} s`)
      }),
    ])
  } finally {
    over.abort()
  }
}

/** A passing failure is tried again, twice. */
async function insistently<T>(call: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof KeyServiceError) || error.failure !== 'unavailable' || tries === TRIES) throw error
      await pause(PAUSE_MS * tries)
    }
  }
}

/**
 * Opens a key service by its address. Each call has a deadline, and is repeated where that may help.
 * @throws KeyServiceAddressError, KeyServiceError
 */
export async function openKeyService(address: string): Promise<KeyService> {
  const service = await connect(address)
  const call = <T>(work: () => Promise<T>) => insistently(() => inTime(address, work()))
  return {
    wrap: (key, context) => call(() => service.wrap(key, context)),
    unwrap: (wrapped, context) => call(() => service.unwrap(wrapped, context)),
    close: () => service.close(),
  }
}
