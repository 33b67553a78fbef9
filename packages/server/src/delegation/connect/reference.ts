import { randomBytes } from 'node:crypto'
import { fail } from '../../platform/http/errors.ts'
import { type Id, isId } from '../../platform/ids.ts'
import { equalSecrets, sha256 } from '../../platform/security/crypto.ts'

const SECRET_BYTES = 16

/** A new secret of a request's link, and what is stored of it. Ids alone would not do: those of one millisecond follow each other. */
export function newLinkSecret(): { secret: string; secretHash: string } {
  const secret = randomBytes(SECRET_BYTES).toString('base64url')
  return { secret, secretHash: sha256(secret).toString('hex') }
}

/** How the page names a request: `chl_….<secret>`. */
export const referenceOf = (id: Id<'chl'>, secret: string): string => `${id}.${secret}`

/** @throws not_found for what names no request */
export function readReference(text: string): { id: Id<'chl'>; secret: string } {
  const [id = '', secret = ''] = text.split('.', 2)
  if (!isId('chl', id)) throw fail('not_found')
  return { id, secret }
}

/** Whether a secret is that of the link of which this hash is stored. */
export const opensLink = (secret: string, secretHash: string): boolean =>
  equalSecrets(sha256(secret), Buffer.from(secretHash, 'hex'))
