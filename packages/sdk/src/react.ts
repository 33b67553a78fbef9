'use client'

import {
  type CSSProperties,
  createContext,
  createElement,
  type ReactElement,
  type ReactNode,
  useCallback,
  useContext,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from 'react'
import type { BrowserClient } from './browser/client.ts'
import { PasskeyError } from './browser/errors.ts'
import { type CreatePasskeyOptions, createPasskey, type SignInOptions, signIn } from './browser/passkeys.ts'
import { type SessionState, serverSession } from './browser/session.ts'
import { isHalfkeyError } from './errors.ts'
import type { SignedIn, User, Wallet } from './models.ts'

const ClientContext = createContext<BrowserClient | null>(null)

/** Provides the client to the hooks of its children. Create the client once, outside of components. */
export function HalfkeyProvider({ client, children }: { client: BrowserClient; children?: ReactNode }): ReactElement {
  return createElement(ClientContext.Provider, { value: client }, children)
}

/** The client of the enclosing provider. @throws Error without a provider */
export function useHalfkey(): BrowserClient {
  const client = useContext(ClientContext)
  if (client === null) throw new Error('This component uses a Halfkey hook: put it inside a <HalfkeyProvider>.')
  return client
}

/** Who is signed in; renders again when that changes, also in another tab. `loading` while a server renders, and in the first render after it. */
export function useSession(): SessionState {
  const client = useHalfkey()
  return useSyncExternalStore(client.subscribe, client.getSession, serverSession)
}

/** The signed-in user, as the sign-in returned it; null if nobody is signed in, and for a guest. */
export function useUser(): User | null {
  const session = useSession()
  return session.status === 'signed_in' ? session.user : null
}

/** The current user's wallet. */
export interface WalletState {
  /** `none`: nobody is signed in, or they have no wallet. */
  status: 'loading' | 'none' | 'ready' | 'failed'
  wallet: Wallet | null
  /** Why the wallet could not be read or created. */
  error: unknown
  /** Creates an embedded wallet, or returns the existing one; null if it failed: see `error`. */
  create(): Promise<Wallet | null>
  /** Reads the wallet again. */
  reload(): void
}

type Found = Pick<WalletState, 'status' | 'wallet' | 'error'> & { userId: string | null }

const NONE: Found = { status: 'none', wallet: null, error: null, userId: null }

async function findWallet(client: BrowserClient, userId: string, signal?: AbortSignal): Promise<Found> {
  try {
    return { status: 'ready', wallet: await client.api.wallet.get({ signal }), error: null, userId }
  } catch (error) {
    if (isHalfkeyError(error, 'wallet_not_found')) return { ...NONE, userId }
    return { status: 'failed', wallet: null, error, userId }
  }
}

/** The current user's wallet, read when they sign in. */
export function useWallet(): WalletState {
  const client = useHalfkey()
  const session = useSession()
  const userId = session.status === 'signed_in' ? session.userId : null
  const [found, setFound] = useState<Found>(NONE)
  const [round, setRound] = useState(0)
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new round reads the wallet again
  useEffect(() => {
    if (userId === null) return
    const ending = new AbortController()
    findWallet(client, userId, ending.signal).then((next) => {
      if (!ending.signal.aborted) setFound(next)
    })
    return () => ending.abort()
  }, [client, userId, round])
  const create = useCallback(async () => {
    if (userId === null) return null
    try {
      const wallet = await client.api.wallet.create()
      setFound({ status: 'ready', wallet, error: null, userId })
      return wallet
    } catch (error) {
      const next = isHalfkeyError(error, 'wallet_exists')
        ? await findWallet(client, userId)
        : ({ status: 'failed', wallet: null, error, userId } as const)
      setFound(next)
      return next.wallet
    }
  }, [client, userId])
  const reload = useCallback(() => setRound((last) => last + 1), [])
  // The wallet of another user is not shown to this one.
  const isFound = found.userId === userId && session.status === 'signed_in'
  const { status, wallet, error } = isFound ? found : NONE
  const isOpen = session.status === 'loading' || (session.status === 'signed_in' && !isFound)
  return { status: isOpen ? 'loading' : status, wallet, error, create, reload }
}

/** Signs in and out, and the state of the last call. The functions never reject: see `error`. */
export interface SignInState {
  /** Whether a call is in progress; waiting for autofill does not count. */
  pending: boolean
  /** A `PasskeyError` or `HalfkeyError`; null when nothing failed. */
  error: unknown
  /** Signs in with a passkey; null if it failed. */
  signIn(options?: Omit<SignInOptions, 'autofill'>): Promise<SignedIn | null>
  /** Creates a passkey, with a new account or for the signed-in user; null if it failed. */
  createPasskey(options?: CreatePasskeyOptions): Promise<SignedIn | null>
  /** Ends the session; returns whether that was possible. */
  signOut(options?: { everywhere?: boolean }): Promise<boolean>
}

/** Offers passkeys in autofill while nobody is signed in. */
function useAutofill(wanted: boolean, onError: (error: unknown) => void): void {
  const client = useHalfkey()
  const isOut = useSession().status === 'signed_out'
  useEffect(() => {
    if (!wanted || !isOut) return
    const ending = new AbortController()
    signIn(client, { autofill: true, signal: ending.signal }).catch((error: unknown) => {
      // A prompt replaced it, or this browser has no autofill: the button does the same.
      const quiet = error instanceof PasskeyError && ['superseded', 'not_supported'].includes(error.reason)
      if (!ending.signal.aborted && !quiet) onError(error)
    })
    return () => ending.abort()
  }, [client, wanted, isOut, onError])
}

/**
 * Signs in and out, and reports the result.
 * @param options `autofill` also offers passkeys in the field with `autocomplete="username webauthn"`
 */
export function useSignIn({ autofill = false }: { autofill?: boolean } = {}): SignInState {
  const client = useHalfkey()
  const [state, setState] = useState<{ pending: boolean; error: unknown }>({ pending: false, error: null })
  const latest = useRef(0)
  const fail = useCallback((error: unknown) => setState({ pending: false, error }), [])
  useAutofill(autofill, fail)
  const run = useCallback(async <T>(action: () => Promise<T>, otherwise: T): Promise<T> => {
    const own = ++latest.current
    const tell = (error: unknown) => {
      if (latest.current === own) setState({ pending: false, error })
    }
    setState({ pending: true, error: null })
    try {
      const result = await action()
      tell(null)
      return result
    } catch (error) {
      tell(error)
      return otherwise
    }
  }, [])
  return {
    ...state,
    signIn: useCallback((options) => run(() => signIn(client, options), null), [client, run]),
    createPasskey: useCallback((options) => run(() => createPasskey(client, options), null), [client, run]),
    signOut: useCallback((options) => run(() => client.signOut(options).then(() => true), false), [client, run]),
  }
}

/** What `WebhookPortal` shows, and how. */
export interface WebhookPortalProps {
  /** The `url` of a portal link, made on your server with the origin of this page in `origins`: see `subscribers.createPortalLink`. */
  url: string
  /** What screen readers call the frame (default "Webhooks"). */
  title?: string
  className?: string
  /** Without it, the frame is as wide as its parent and 40rem high. */
  style?: CSSProperties
}

/**
 * The page on which your customer manages their webhooks, in a frame. It learns nothing of your page, and your page
 * nothing of it. The link's token is in memory only: when the frame is loaded again, give it the `url` of a new link.
 * @throws Error for a `url` that is no web address
 */
export function WebhookPortal({ url, title = 'Webhooks', className, style }: WebhookPortalProps): ReactElement {
  // The frame of a `javascript:` address would run as part of this page.
  if (!/^https?:\/\//i.test(url)) throw new Error('WebhookPortal: `url` must be the url of a portal link.')
  return createElement('iframe', {
    src: url,
    title,
    className,
    style: style ?? (className === undefined ? { width: '100%', height: '40rem', border: 0 } : undefined),
    // Its own origin, scripts, forms and downloads: it needs no pop-ups, and must not navigate your page.
    sandbox: 'allow-scripts allow-same-origin allow-forms allow-downloads',
    allow: 'clipboard-write',
    referrerPolicy: 'no-referrer',
  })
}
