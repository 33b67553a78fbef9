import { fail, invalid } from '../../platform/http/errors.ts'
import type { ClientCiphertext, Wrap } from './schema.ts'

const NEEDED: Record<ClientCiphertext['alg'], readonly (keyof Wrap)[]> = {
  'prf-hkdf-sha256-aes256gcm': ['credentialId', 'rpId', 'prfSalt'],
  'argon2id-aes256gcm': ['salt', 'memoryKiB', 'iterations', 'parallelism'],
}
const ALL = Object.values(NEEDED).flat()

const idOf = ({ credentialId = '' }: Wrap) => Buffer.from(credentialId, 'base64url').toString('base64url')

/** Each wrap has what its kind needs and nothing else, and no passkey has two. @throws validation_failed */
export function checkWraps(alg: ClientCiphertext['alg'], wraps: readonly Wrap[], field: string): void {
  const needed = NEEDED[alg]
  const wrong = wraps.flatMap((wrap, at) => [
    ...needed
      .filter((name) => wrap[name] === undefined)
      .map((name) => ({ field: `${field}.${at}.${name}`, code: 'required', message: `"${name}" is required.` })),
    ...ALL.filter((name) => wrap[name] !== undefined && !needed.includes(name)).map((name) => ({
      field: `${field}.${at}.${name}`,
      code: 'not_allowed',
      message: `Must be absent for ${alg}.`,
    })),
  ])
  if (wrong.length > 0) throw fail('validation_failed', wrong)
  if (alg !== 'prf-hkdf-sha256-aes256gcm') return
  const twice = wraps.findIndex((wrap, at) => wraps.findIndex((other) => idOf(other) === idOf(wrap)) !== at)
  if (twice < 0) return
  throw invalid(`${field}.${twice}.credentialId`, 'This passkey already has a wrap.', 'duplicate')
}
