/** The settings of an issuer as a preset fills them in: a part of what the API takes. */
export interface NewIssuer {
  issuer: string
  jwksUri?: string
  discovery?: string
  audiences: string[]
  algorithms: ('RS256' | 'ES256' | 'EdDSA')[]
  claims: { sub: string; email: string | null; emailVerified: string | null; name: string | null }
  mfaClaim?: { claim: string; values: string[] }
}

/** A field of a preset: what the operator knows of their account at the login product. */
interface Asked {
  label: string
  help: string
  /** What the guide uses. */
  example: string
}

/** The settings of a login product, after its public documentation. `docs/login-providers.md` has the same, by the examples. */
export interface IssuerPreset {
  id: string
  name: string
  address: Asked
  /** Null where it follows from the address. */
  audience: Asked | null
  settings(address: string, audience: string): NewIssuer
}

const CLAIMS = { sub: 'sub', email: 'email', emailVerified: 'email_verified', name: 'name' }

/** An address as people paste it, without a slash at the end. */
const bare = (address: string) => address.trim().replace(/\/+$/, '')
/** A host name, also out of a URL. */
const hostOf = (address: string) => bare(address).replace(/^https?:\/\//, '')
const urlOf = (address: string) => (/^https?:\/\//.test(address.trim()) ? bare(address) : `https://${bare(address)}`)

const CLIENT_ID: Asked = {
  label: 'Client id',
  help: 'The ID token has it as its audience.',
  example: 'mF2tk3bQ0aXc7Zp9vL4sY8nD1eR6uH5w',
}

/** The login products that have a preset, in the order of the guide. */
export const PRESETS: readonly IssuerPreset[] = [
  {
    id: 'auth0',
    name: 'Auth0',
    address: { label: 'Domain', help: 'Your tenant’s domain or custom domain.', example: 'example.eu.auth0.com' },
    audience: CLIENT_ID,
    settings: (address, audience) => ({
      issuer: `https://${hostOf(address)}/`,
      discovery: `https://${hostOf(address)}/.well-known/openid-configuration`,
      audiences: [audience],
      algorithms: ['RS256'],
      claims: CLAIMS,
      mfaClaim: { claim: 'amr', values: ['mfa'] },
    }),
  },
  {
    id: 'clerk',
    name: 'Clerk',
    address: {
      label: 'Frontend API URL',
      help: 'In Clerk’s dashboard under API keys.',
      example: 'https://clerk.example.com',
    },
    audience: {
      label: 'Audience of the JWT template',
      help: 'Session tokens have no audience, so make a JWT template with the claim aud.',
      example: 'halfkey',
    },
    settings: (address, audience) => ({
      issuer: urlOf(address),
      jwksUri: `${urlOf(address)}/.well-known/jwks.json`,
      audiences: [audience],
      algorithms: ['RS256'],
      claims: CLAIMS,
    }),
  },
  {
    id: 'supabase',
    name: 'Supabase',
    address: {
      label: 'Project URL',
      help: 'Or your custom domain.',
      example: 'https://abcdefghijklmnopqrst.supabase.co',
    },
    audience: { label: 'Audience', help: 'That of users who are signed in.', example: 'authenticated' },
    settings: (address, audience) => ({
      issuer: `${urlOf(address)}/auth/v1`,
      jwksUri: `${urlOf(address)}/auth/v1/.well-known/jwks.json`,
      audiences: [audience],
      algorithms: ['ES256', 'RS256'],
      claims: { sub: 'sub', email: null, emailVerified: null, name: null },
      mfaClaim: { claim: 'aal', values: ['aal2'] },
    }),
  },
  {
    id: 'firebase',
    name: 'Firebase',
    address: { label: 'Project id', help: 'In the settings of the project.', example: 'shop-1a2b3' },
    audience: null,
    settings: (address) => ({
      issuer: `https://securetoken.google.com/${bare(address)}`,
      jwksUri: 'https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com',
      audiences: [bare(address)],
      algorithms: ['RS256'],
      claims: CLAIMS,
      mfaClaim: { claim: '/firebase/sign_in_second_factor', values: ['phone', 'totp'] },
    }),
  },
  {
    id: 'better-auth',
    name: 'better-auth',
    address: { label: 'Base URL', help: 'baseURL of your configuration.', example: 'https://shop.example.com' },
    audience: {
      label: 'Audience',
      help: 'The base URL, unless your configuration has another jwt.audience.',
      example: 'https://shop.example.com',
    },
    settings: (address, audience) => ({
      issuer: bare(address),
      jwksUri: `${bare(address)}/api/auth/jwks`,
      audiences: [audience],
      algorithms: ['EdDSA'],
      claims: { ...CLAIMS, emailVerified: 'emailVerified' },
    }),
  },
  {
    id: 'keycloak',
    name: 'Keycloak',
    address: {
      label: 'Realm URL',
      help: 'With /realms/ and the name of the realm.',
      example: 'https://keycloak.example.com/realms/shop',
    },
    audience: { ...CLIENT_ID, example: 'shop-web' },
    settings: (address, audience) => ({
      issuer: bare(address),
      discovery: `${bare(address)}/.well-known/openid-configuration`,
      audiences: [audience],
      algorithms: ['RS256'],
      claims: CLAIMS,
    }),
  },
]
