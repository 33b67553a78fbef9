import type { SignedIn } from '../models.ts'
import type { BrowserClient } from './client.ts'
import { creationOptions, credentialJson, requestOptions } from './credential-json.ts'
import { PasskeyError, type PasskeyFailure } from './errors.ts'
import { type BrowserCredential, platform } from './platform.ts'

/** Options of a new passkey. */
export interface CreatePasskeyOptions {
  /** Of the new account; not when a user is signed in. */
  email?: string | undefined
  /** Of the new account; not when a user is signed in. */
  name?: string | undefined
  /** The passkey's name in lists; by default the device, such as `Mac`. */
  deviceName?: string | undefined
  /** Closes the prompt; the call then rejects with the signal's reason. */
  signal?: AbortSignal | undefined
}

/** How to sign in. */
export interface SignInOptions {
  /** Narrows the choice to the passkeys of this account. */
  email?: string | undefined
  /**
   * Offers passkeys in the autofill of a field with `autocomplete="username webauthn"` instead of a prompt, and waits until
   * one is chosen, the signal aborts, or a prompt replaces it.
   */
  autofill?: boolean | undefined
  /** Closes the prompt, or ends the waiting; the call then rejects with the signal's reason. */
  signal?: AbortSignal | undefined
}

/** Challenges expire after five minutes; one that waits for autofill is renewed before. */
const AUTOFILL_RENEWAL_MS = 4 * 60_000
/** The most challenges that an open page requests: enough for a day. */
const AUTOFILL_ROUNDS_MAX = 360

const RENEWED = new Error('renewed')

/** By the DOM exception's name (WebAuthn L3, sections 5.1.3 and 5.1.4). */
const FAILURES: Record<string, PasskeyFailure> = {
  NotAllowedError: 'cancelled',
  AbortError: 'cancelled',
  TimeoutError: 'cancelled',
  InvalidStateError: 'already_registered',
  SecurityError: 'not_allowed_here',
  NotSupportedError: 'not_supported',
  ConstraintError: 'no_screen_lock',
}

/** The open prompt. Browsers allow one at a time: the next one ends it. */
let open: AbortController | undefined

/** Whether this browser can use passkeys at all. On a server: no. */
export function supportsPasskeys(): boolean {
  return platform.PublicKeyCredential !== undefined && platform.navigator?.credentials !== undefined
}

/** Whether this browser can offer passkeys in a field's autofill. */
export async function supportsAutofill(): Promise<boolean> {
  return supportsPasskeys() && (await platform.PublicKeyCredential?.isConditionalMediationAvailable?.()) === true
}

/**
 * Runs a prompt, which ends when another one starts, the caller aborts or it times out.
 * @throws PasskeyError, the caller's reason, or `RENEWED` after `lifetimeMs`
 */
async function prompt(
  run: (signal: AbortSignal) => Promise<BrowserCredential | null>,
  signal: AbortSignal | undefined,
  lifetimeMs?: number,
): Promise<BrowserCredential> {
  signal?.throwIfAborted()
  open?.abort(new PasskeyError('superseded'))
  const own = new AbortController()
  open = own
  const abort = () => own.abort(signal?.reason)
  signal?.addEventListener('abort', abort)
  const timer = lifetimeMs === undefined ? undefined : setTimeout(() => own.abort(RENEWED), lifetimeMs)
  try {
    const credential = await run(own.signal)
    if (credential === null) throw new PasskeyError('failed')
    return credential
  } catch (error) {
    own.signal.throwIfAborted()
    if (error instanceof PasskeyError) throw error
    throw new PasskeyError(FAILURES[(error as Error | undefined)?.name ?? ''] ?? 'failed', error)
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
    if (open === own) open = undefined
  }
}

function credentials() {
  const found = platform.navigator?.credentials
  if (found === undefined || !supportsPasskeys()) throw new PasskeyError('not_supported')
  return found
}

function deviceName(): string {
  const agent = platform.navigator?.userAgent ?? ''
  const names: [RegExp, string][] = [
    [/iPhone/, 'iPhone'],
    [/iPad/, 'iPad'],
    [/Android/, 'Android device'],
    [/CrOS/, 'Chromebook'],
    [/Mac OS X/, 'Mac'],
    [/Windows/, 'Windows computer'],
    [/Linux/, 'Linux computer'],
  ]
  return names.find(([pattern]) => pattern.test(agent))?.[1] ?? 'Passkey'
}

/**
 * Creates a passkey and signs in with it: with a new account, or for the signed-in user. Call it from a click: otherwise
 * browsers show no prompt.
 * @throws PasskeyError, and HalfkeyError: already_exists (the email), mfa_required and reauthentication_required (adding)
 */
export async function createPasskey(client: BrowserClient, options: CreatePasskeyOptions = {}): Promise<SignedIn> {
  const { create } = bound(credentials())
  const { signal, email, name } = options
  const { passkeys } = client.api.auth
  const who = { ...(email === undefined ? {} : { email }), ...(name === undefined ? {} : { name }) }
  const { challengeId, publicKey } = await passkeys.registerOptions(who, { signal })
  const request = creationOptions(publicKey)
  const made = await prompt((ending) => create({ publicKey: request, signal: ending }), signal)
  const credential = credentialJson(made) as Parameters<typeof passkeys.registerVerify>[0]['credential']
  const named = { challengeId, credential, deviceName: options.deviceName ?? deviceName() }
  const signedIn = await passkeys.registerVerify(named, { signal })
  client.adopt(signedIn)
  return signedIn
}

const bound = (found: ReturnType<typeof credentials>) => ({
  create: found.create.bind(found),
  get: found.get.bind(found),
})

type Answer = Parameters<BrowserClient['api']['auth']['passkeys']['loginVerify']>[0]

/** Requests a challenge and lets the user answer it. @returns the answer, which is yet to be sent */
async function offer(client: BrowserClient, { email, signal, autofill = false }: SignInOptions): Promise<Answer> {
  const { get } = bound(credentials())
  const { passkeys } = client.api.auth
  const query = email === undefined ? {} : { email }
  const { challengeId, publicKey } = await passkeys.loginOptions(query, { signal })
  const request = requestOptions(publicKey)
  const mediation = autofill ? ({ mediation: 'conditional' } as const) : {}
  const picked = await prompt(
    (ending) => get({ publicKey: request, signal: ending, ...mediation }),
    signal,
    autofill ? AUTOFILL_RENEWAL_MS : undefined,
  )
  return { challengeId, credential: credentialJson(picked) as Answer['credential'] }
}

/**
 * Signs in with a passkey that the user chooses in the browser's prompt (from a click), or in a field's autofill.
 * @throws PasskeyError, and HalfkeyError: assertion_invalid, challenge_expired, user_suspended
 */
export async function signIn(client: BrowserClient, options: SignInOptions = {}): Promise<SignedIn> {
  if (options.autofill === true && !(await supportsAutofill())) throw new PasskeyError('not_supported')
  for (let round = 1; ; round++) {
    try {
      const answer = await offer(client, options)
      const signedIn = await client.api.auth.passkeys.loginVerify(answer, { signal: options.signal })
      client.adopt(signedIn)
      return signedIn
    } catch (error) {
      if (error !== RENEWED) throw error
      if (round === AUTOFILL_ROUNDS_MAX) throw new PasskeyError('cancelled')
    }
  }
}

/**
 * Shows a passkey of the signed-in user, without another sign-in: for a session that began with your own login or an email code,
 * and where a call needs a recent sign-in. Call it from a click.
 * @throws PasskeyError, and HalfkeyError: assertion_invalid (another user's passkey), challenge_expired
 */
export async function provePasskey(client: BrowserClient, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
  const answer = await offer(client, { signal })
  client.raise(await client.api.auth.passkeys.prove(answer, { signal }))
}
