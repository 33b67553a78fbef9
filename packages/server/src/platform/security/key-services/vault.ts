import { readFile } from 'node:fs/promises'
import { type KeyService, KeyServiceAddressError, KeyServiceError, type KeyServiceFailure } from './key-service.ts'

const REQUEST_MS = 5_000

interface Answer {
  data?: { ciphertext?: string; plaintext?: string }
  errors?: string[]
}

/** 412 and 472 to 474: a standby that cannot answer yet. A version of the key that may no longer decrypt is gone. */
function failureOf(status: number, errors: readonly string[]): KeyServiceFailure {
  if (status === 403) return 'denied'
  if (
    status === 404 ||
    errors.some((error) => /encryption key not found|no handler for route|disallowed by policy/.test(error))
  )
    return 'gone'
  return status === 400 ? 'corrupt' : 'unavailable'
}

/**
 * The Transit engine of HashiCorp Vault or OpenBao, with a key of a type that takes associated data (aes256-gcm96, the default).
 * The token is read for each call, so that an agent may renew it in its file.
 */
export async function openVault(address: string, env: NodeJS.ProcessEnv): Promise<KeyService> {
  const [, mount, key] = /^([\w./-]+)\/([\w.-]+)$/.exec(address) ?? []
  if (mount === undefined || key === undefined)
    throw new KeyServiceAddressError(`vault:${address} must be vault:<mount>/<key>, e.g. vault:transit/halfkey`)
  const { VAULT_ADDR: server, VAULT_TOKEN_FILE: tokenFile, VAULT_NAMESPACE: namespace } = env
  if (server === undefined || URL.parse(server) === null)
    throw new KeyServiceAddressError(`vault:${address} needs VAULT_ADDR, the URL of the server`)
  if (env.VAULT_TOKEN === undefined && tokenFile === undefined)
    throw new KeyServiceAddressError(`vault:${address} needs VAULT_TOKEN, or VAULT_TOKEN_FILE with the path of a file`)

  async function readToken(): Promise<string> {
    try {
      return tokenFile === undefined ? (env.VAULT_TOKEN as string) : (await readFile(tokenFile, 'utf8')).trim()
    } catch (error) {
      throw new KeyServiceError('denied', `VAULT_TOKEN_FILE cannot be read: ${(error as Error).message}`)
    }
  }

  async function call(action: 'encrypt' | 'decrypt', body: object): Promise<NonNullable<Answer['data']>> {
    const token = await readToken()
    const fail = (failure: KeyServiceFailure, reason: string, cause?: unknown) =>
      new KeyServiceError(failure, `Vault, ${action} with ${mount}/${key}: ${reason}`, { cause })
    let response: Response
    try {
      response = await fetch(new URL(`/v1/${mount}/${action}/${key}`, server), {
        method: 'POST',
        redirect: 'error',
        signal: AbortSignal.timeout(REQUEST_MS),
        headers: {
          'content-type': 'application/json',
          'x-vault-token': token,
          'x-vault-request': 'true',
          ...(namespace === undefined ? {} : { 'x-vault-namespace': namespace }),
        },
        body: JSON.stringify(body),
      })
    } catch (error) {
      const { message, cause } = error as Error
      throw fail('unavailable', (cause as Error | undefined)?.message ?? message, error)
    }
    const answer = (await response.json().catch(() => ({}))) as Answer
    if (response.ok && answer.data !== undefined) return answer.data
    const errors = answer.errors ?? []
    throw fail(failureOf(response.status, errors), `${response.status} ${errors.join(', ')}`.trim())
  }

  return {
    async wrap(plain, context) {
      const { ciphertext } = await call('encrypt', {
        plaintext: plain.toString('base64'),
        associated_data: Buffer.from(context).toString('base64'),
      })
      return Buffer.from(ciphertext ?? '')
    },
    async unwrap(wrapped, context) {
      const { plaintext } = await call('decrypt', {
        ciphertext: wrapped.toString(),
        associated_data: Buffer.from(context).toString('base64'),
      })
      return Buffer.from(plaintext ?? '', 'base64')
    },
    close: async () => {},
  }
}
