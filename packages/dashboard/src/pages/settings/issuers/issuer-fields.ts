import type { Body, Issuer } from '@halfkey/sdk'
import { type FormField, linesOf } from '../../../components/form/form-field.ts'
import type { NewIssuer } from './presets.ts'

type Changes = NonNullable<Body<'/apps/{id}/issuers/{issuerId}', 'patch'>>

/** The settings as they are typed: lists one entry per line, and empty texts for null. */
export interface IssuerInput {
  issuer: string
  jwksUri: string
  discovery: string
  audiences: string
  algorithms: string
  claims: { sub: string; email: string; emailVerified: string; name: string }
  jit: Issuer['jit']
  maxTokenAgeSeconds: string
  mfaClaim: { claim: string; values: string }
}

/** What the form begins with: a record, or the settings of a preset. */
export function inputOf(from: Issuer | NewIssuer): IssuerInput {
  const { claims, mfaClaim } = from
  return {
    issuer: from.issuer,
    jwksUri: from.jwksUri ?? '',
    discovery: from.discovery ?? '',
    audiences: from.audiences.join('\n'),
    algorithms: from.algorithms.join('\n'),
    claims: {
      sub: claims.sub,
      email: claims.email ?? '',
      emailVerified: claims.emailVerified ?? '',
      name: claims.name ?? '',
    },
    jit: 'jit' in from ? from.jit : 'create',
    maxTokenAgeSeconds: String('maxTokenAgeSeconds' in from ? from.maxTokenAgeSeconds : 3600),
    mfaClaim: { claim: mfaClaim?.claim ?? '', values: mfaClaim?.values.join('\n') ?? '' },
  }
}

const orNull = (text: string) => text.trim() || null

/** The settings as they are sent. */
export function changesOf(input: Omit<IssuerInput, 'issuer'>): Changes & { audiences: string[] } {
  const { claims, mfaClaim } = input
  return {
    jwksUri: orNull(input.jwksUri),
    discovery: orNull(input.discovery),
    audiences: linesOf(input.audiences),
    // What is no algorithm is refused at its line.
    algorithms: linesOf(input.algorithms) as Issuer['algorithms'],
    claims: {
      sub: claims.sub.trim(),
      email: orNull(claims.email),
      emailVerified: orNull(claims.emailVerified),
      name: orNull(claims.name),
    },
    jit: input.jit,
    maxTokenAgeSeconds: Number(input.maxTokenAgeSeconds),
    mfaClaim: mfaClaim.claim.trim() === '' ? null : { claim: mfaClaim.claim.trim(), values: linesOf(mfaClaim.values) },
  }
}

const PLAIN = { spellCheck: false } as const

/** Everything but the name, which cannot be changed. */
export const SETTINGS: readonly FormField<IssuerInput>[] = [
  {
    name: 'discovery',
    label: 'Metadata URL',
    input: { ...PLAIN, placeholder: 'https://login.example.com/.well-known/openid-configuration' },
    help: 'Enter this or the keys URL. The metadata says where the keys are.',
  },
  {
    name: 'jwksUri',
    label: 'Keys URL',
    input: { ...PLAIN, placeholder: 'https://login.example.com/.well-known/jwks.json' },
    help: 'The public keys as a JWK Set. Leave it empty if you enter a metadata URL.',
  },
  {
    name: 'audiences',
    label: 'Audiences',
    kind: 'lines',
    required: 'Enter at least one audience.',
    help: 'One per line. The aud of a token must be one of them. Never enter the audience of another app.',
  },
  {
    name: 'jit',
    label: 'New identities',
    kind: 'select',
    help: 'What the first token of somebody unknown does. Nobody is ever found by email.',
    options: [
      { value: 'create', label: 'Create a user' },
      { value: 'match', label: 'Accept linked identities only' },
      { value: 'refuse', label: 'Accept no tokens at present' },
    ],
  },
  {
    name: 'algorithms',
    label: 'Algorithms',
    kind: 'lines',
    required: 'Enter at least one algorithm.',
    help: 'One per line, for example RS256, ES256 or EdDSA. Tokens with other algorithms are refused.',
  },
  {
    name: 'maxTokenAgeSeconds',
    label: 'Tokens are accepted for (seconds)',
    input: { inputMode: 'numeric' },
    help: 'Counted from iat: 60 to 86400.',
  },
  { name: 'claims.sub', label: 'Claim with the subject', input: PLAIN, required: 'Enter the name of a claim.' },
  {
    name: 'claims.email',
    label: 'Claim with the email',
    input: PLAIN,
    help: 'Leave it empty to store no email.',
  },
  {
    name: 'claims.emailVerified',
    label: 'Claim that says that the email is verified',
    input: PLAIN,
    help: 'Without it, no email is stored. Name no claim that users can change.',
  },
  { name: 'claims.name', label: 'Claim with the name', input: PLAIN },
  {
    name: 'mfaClaim.claim',
    label: 'Claim that says that a second factor was verified',
    input: PLAIN,
    help: 'Optional. It then counts for operations that need a second factor, but never for key shares.',
  },
  {
    name: 'mfaClaim.values',
    label: 'Values that say so',
    kind: 'lines',
    help: 'One per line.',
    shown: ({ mfaClaim }) => mfaClaim.claim.trim() !== '',
  },
]

/** The name, for a new issuer. */
export const NAME: FormField<IssuerInput> = {
  name: 'issuer',
  label: 'Issuer',
  required: 'Enter the issuer.',
  help: 'The iss of its tokens, to the letter. It cannot be changed later.',
  input: { ...PLAIN, placeholder: 'https://login.example.com/' },
}
