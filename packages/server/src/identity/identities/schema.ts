import { z } from 'zod'
import { Paging, Time } from '../../platform/http/route.ts'
import { subjectTokenFields } from '../foreign-tokens/schema.ts'

const GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:token-exchange'

export const ExchangeToken = z
  .strictObject({
    grant_type: z.literal(GRANT_TYPE).meta({ example: GRANT_TYPE }),
    ...subjectTokenFields,
    requested_token_type: z.literal('urn:ietf:params:oauth:token-type:access_token').optional(),
    appId: z.string().optional().meta({ description: "Default: the key's app, or the tenant's default app." }),
  })
  .meta({ id: 'ExchangeToken', description: 'The names are those of RFC 8693, section 2.1.' })
export type ExchangeToken = z.infer<typeof ExchangeToken>

export const LinkIdentity = z.strictObject(subjectTokenFields).meta({ id: 'LinkIdentity' })
export type LinkIdentity = z.infer<typeof LinkIdentity>

/** An identity in responses. */
export const Identity = z
  .object({
    id: z.string().meta({ example: 'idn_01jb2m7x9kq4t8v6w0r3s5y1zs' }),
    userId: z.string(),
    appId: z.string(),
    provider: z.enum(['telegram', 'email', 'issuer', 'oidc', 'eip4361', 'ed25519']).meta({
      description:
        'What shows who the user is: an account of the messenger, an email address, a token of an issuer that the app trusts, an account at a sign-in provider of the app (`oidc`; GitHub counts as one), or a key of an external wallet: an Ethereum account (`eip4361`) or an Ed25519 key (`ed25519`).',
    }),
    issuer: z.string().nullable().meta({
      description:
        'The `iss` of its tokens, or the address of GitHub; null for a messenger, an email address and an external wallet.',
      example: 'https://login.example.com/',
    }),
    subject: z.string().meta({
      description:
        'What identifies the user there. Of an external wallet the address with its checksum (EIP-55), or the public key in hexadecimal.',
      example: 'auth0|5f7c8ec7c33c6c004bbafe82',
    }),
    username: z.string().nullable(),
    createdAt: Time,
  })
  .meta({ id: 'Identity' })
export type Identity = z.infer<typeof Identity>

export const ListIdentities = z.strictObject({ ...Paging })
export type ListIdentities = z.infer<typeof ListIdentities>
