import { createPrivateKey } from 'node:crypto'
import { invalid } from '../../../platform/http/errors.ts'
import type { Preset } from './schema.ts'

/** What is known of a provider. */
interface PresetFacts {
  name: string
  /** Null: the operator names it. */
  issuer: string | null
  /** Whether a client without a secret is of no use there. */
  needsSecret: boolean
}

export const PRESET_FACTS: Readonly<Record<Preset, PresetFacts>> = {
  google: { name: 'Google', issuer: 'https://accounts.google.com', needsSecret: true },
  apple: { name: 'Apple', issuer: 'https://appleid.apple.com', needsSecret: true },
  microsoft: { name: 'Microsoft', issuer: null, needsSecret: true },
  github: { name: 'GitHub', issuer: 'https://github.com', needsSecret: true },
  oidc: { name: 'your account', issuer: null, needsSecret: false },
}

/** A tenant of Microsoft's by its id: the names `common`, `organizations` and `consumers` are not the `iss` of any token. */
const MICROSOFT_ISSUER = /\/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\/v2\.0$/

/** The issuer of a new provider. @throws validation_failed */
export function issuerFor(preset: Preset, given: string | undefined): string {
  const issuer = given ?? PRESET_FACTS[preset].issuer
  if (issuer === null) throw invalid('issuer', `Required for ${preset}.`, 'required')
  if (preset === 'microsoft' && !MICROSOFT_ISSUER.test(issuer))
    throw invalid(
      'issuer',
      'Must name one tenant by its id: https://login.microsoftonline.com/<tenant id>/v2.0. For personal accounts, that is 9188040d-6c67-4c5b-b112-36a304b66dad.',
    )
  // Its API and pages are found below it, and `…/` is the same server, whose users are the same people.
  return preset === 'github' ? issuer.replace(/\/+$/, '') : issuer
}

/** Apple's private keys are for ES256. @throws validation_failed */
export function checkAppleKey(pem: string): void {
  try {
    const { asymmetricKeyDetails } = createPrivateKey(pem)
    if (asymmetricKeyDetails?.namedCurve === 'prime256v1') return
  } catch {
    // Refused as any other text that is no such key; what the library says could quote it.
  }
  throw invalid('clientSecret', 'Must be the private key from Apple: the whole .p8 file, as text.')
}
