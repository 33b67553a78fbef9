import {
  AuthenticatorEmulator,
  type AuthenticatorParameters,
  PasskeysCredentialsMemoryRepository,
  WebAuthnEmulator,
} from 'nid-webauthn-emulator'
import { type Answer, type CallOptions, call, type Tenant } from './harness.ts'

/** Where the browser of most tests is: on loopback, which apps without origins of their own allow in development. */
export const ORIGIN = 'http://localhost:3000'

/** A browser with an authenticator of its own: what `navigator.credentials` answers, as JSON. */
export interface Authenticator {
  // biome-ignore lint/suspicious/noExplicitAny: options as they came over the wire
  create(publicKey: any, origin?: string): Credential
  // biome-ignore lint/suspicious/noExplicitAny: options as they came over the wire
  get(publicKey: any, origin?: string): Credential
}

/** What a ceremony answers, to be sent, or to be spoilt first. */
// biome-ignore lint/suspicious/noExplicitAny: tests change every part of it
export type Credential = any

/** An emulated authenticator without credentials. Verifies its user, unless `parameters` say otherwise. */
export function newAuthenticator(parameters: Partial<AuthenticatorParameters> = {}): Authenticator {
  const credentialsRepository = new PasskeysCredentialsMemoryRepository()
  const browser = new WebAuthnEmulator(new AuthenticatorEmulator({ credentialsRepository, ...parameters }))
  // Undefined members go, as they do on the wire.
  const json = (value: object): Credential => JSON.parse(JSON.stringify(value))
  return {
    create: (publicKey, origin = ORIGIN) => json(browser.createJSON(origin, publicKey)),
    get: (publicKey, origin = ORIGIN) => json(browser.getJSON(origin, publicKey)),
  }
}

/** Who calls: a tenant's secret key, or any key. */
export type Caller = Pick<Tenant, 'call'> | { url: string; key: string }

export interface CeremonyOptions {
  authenticator?: Authenticator
  /** Where the page is. A secret key's calls are sent without it. */
  origin?: string
  headers?: Record<string, string>
}

function send(by: Caller, method: string, path: string, options: CallOptions): Promise<Answer> {
  return 'call' in by ? by.call(method, path, options) : call(by.url, method, `/v1${path}`, { key: by.key, ...options })
}

function data(answer: Answer): Answer['body'] {
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`)
  return answer.body.data
}

const headersOf = (by: Caller, { origin, headers }: CeremonyOptions) => ({
  ...('key' in by && by.key.startsWith('hk_pk_') ? { origin: origin ?? ORIGIN } : {}),
  ...headers,
})

/** Makes a passkey and answers what register-verify does; `body` goes to register-options, `deviceName` to verify. */
export async function register(
  by: Caller,
  body: { email?: string; name?: string; appId?: string } = {},
  options: CeremonyOptions & { deviceName?: string } = {},
): Promise<Answer> {
  const { authenticator = newAuthenticator(), deviceName } = options
  const headers = headersOf(by, options)
  const asked = data(await send(by, 'POST', '/auth/passkey/register-options', { headers, body }))
  const credential = authenticator.create(asked.publicKey, options.origin)
  return send(by, 'POST', '/auth/passkey/register-verify', {
    headers,
    body: { challengeId: asked.challengeId, credential, ...(deviceName === undefined ? {} : { deviceName }) },
  })
}

/** Signs a new user up by a passkey. @returns the sign-in's data, with the authenticator @throws Error if it fails */
export async function signUp(
  by: Caller,
  body: { email?: string; name?: string; appId?: string } = {},
  options: CeremonyOptions = {},
): Promise<Answer['body']> {
  const authenticator = options.authenticator ?? newAuthenticator()
  return { ...data(await register(by, body, { ...options, authenticator })), authenticator }
}

/** Asks for a login challenge. @throws Error if it fails */
export async function loginOptions(
  by: Caller,
  query: { email?: string; app_id?: string } = {},
  options: CeremonyOptions = {},
): Promise<Answer['body']> {
  const text = new URLSearchParams(query).toString()
  const path = `/auth/passkey/login-options${text === '' ? '' : `?${text}`}`
  return data(await send(by, 'GET', path, { headers: headersOf(by, options) }))
}

/** Answers a login challenge. */
export function loginVerify(
  by: Caller,
  challengeId: string,
  credential: Credential,
  options: CeremonyOptions = {},
): Promise<Answer> {
  const headers = headersOf(by, options)
  return send(by, 'POST', '/auth/passkey/login-verify', { headers, body: { challengeId, credential } })
}

/** Signs in by a passkey that the authenticator has. @returns the sign-in's data @throws Error if it fails */
export async function logIn(
  by: Caller,
  authenticator: Authenticator,
  query: { email?: string; app_id?: string } = {},
  options: CeremonyOptions = {},
): Promise<Answer['body']> {
  const asked = await loginOptions(by, query, options)
  return data(await loginVerify(by, asked.challengeId, authenticator.get(asked.publicKey, options.origin), options))
}
