/** The part of `localStorage` and `sessionStorage` that is used; a replacement needs no more. */
export interface KeyValueStore {
  getItem(key: string): string | null
  setItem(key: string, value: string): void
  removeItem(key: string): void
}

/** A passkey as the browser returns it. */
export interface BrowserCredential {
  readonly id: string
  readonly rawId: ArrayBuffer
  readonly authenticatorAttachment?: string | null
  readonly response: {
    readonly clientDataJSON: ArrayBuffer
    readonly attestationObject?: ArrayBuffer
    readonly authenticatorData?: ArrayBuffer
    readonly signature?: ArrayBuffer
    readonly userHandle?: ArrayBuffer | null
    getTransports?(): string[]
  }
  getClientExtensionResults?(): object
  toJSON?(): object
}

interface PasskeyClass {
  isConditionalMediationAvailable?(): Promise<boolean>
  parseCreationOptionsFromJSON?(json: object): object
  parseRequestOptionsFromJSON?(json: object): object
}

type CredentialRequest = { publicKey: object; signal: AbortSignal; mediation?: 'conditional' }

/** The browser APIs that are used. On servers all are missing, in some browsers a few. */
export interface Platform {
  document?: unknown
  navigator?: {
    userAgent?: string
    credentials?: {
      create(request: CredentialRequest): Promise<BrowserCredential | null>
      get(request: CredentialRequest): Promise<BrowserCredential | null>
    }
    locks?: { request<T>(name: string, run: () => Promise<T>): Promise<T> }
  }
  PublicKeyCredential?: PasskeyClass
  localStorage?: KeyValueStore
  sessionStorage?: KeyValueStore
  location?: { href: string; origin: string; assign(url: string): void }
  history?: { state: unknown; replaceState(state: unknown, unused: string, url: string): void }
  Telegram?: { WebApp?: { initData?: string } }
  addEventListener?(type: 'storage', listener: (event: { key: string | null }) => void): void
  removeEventListener?(type: 'storage', listener: (event: { key: string | null }) => void): void
}

/** The global object, read at each use: an API that is missing at import may be available later. */
export const platform = globalThis as unknown as Platform

/** A browser's storage; undefined on servers, and if the user does not allow it. */
export function browserStorage(kind: 'localStorage' | 'sessionStorage'): KeyValueStore | undefined {
  // Node has a localStorage too, which all users of a server would share.
  if (platform.document === undefined) return undefined
  try {
    const store = platform[kind]
    store?.getItem('halfkey')
    return store
  } catch {
    return undefined
  }
}

/** Replaces the page's address without loading it, so that its data is used once. */
export function replaceAddress(url: URL): void {
  platform.history?.replaceState(platform.history.state, '', url.href)
}
