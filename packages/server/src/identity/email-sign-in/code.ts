import { randomInt } from 'node:crypto'
import type { Config } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import { hmacSha256 } from '../../platform/security/crypto.ts'
import type { SignInSettings } from '../../tenancy/apps/service.ts'
import { parseEmail } from '../users/service.ts'

const CODES = 1_000_000

/** Six random digits. */
export const newCode = (): string => String(randomInt(CODES)).padStart(6, '0')

/**
 * What is stored of a code. Six digits are guessed from a plain hash at once; without the key, which the database holds only
 * sealed, they are not. The key stays when signing keys are rotated.
 */
export async function codeHmac(deps: Pick<Deps, 'signingKeys'>, challengeId: string, code: string): Promise<Buffer> {
  const { refreshKey } = await deps.signingKeys.oldest()
  return Buffer.from(hmacSha256(refreshKey, `halfkey/v1/email-code ${challengeId} ${code}`, 'hex'), 'hex')
}

/** The fixed code of a test address; undefined for all others, and in production unless the operator allows them. */
export function testCodeOf(
  { env, testCodes }: Pick<Config, 'env' | 'testCodes'>,
  { email }: SignInSettings,
  key: string,
): string | undefined {
  if (env === 'production' && !testCodes) return undefined
  return email.testCodes.find((each) => parseEmail(each.email).key === key)?.code
}
