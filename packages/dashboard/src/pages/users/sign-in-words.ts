const METHODS: Record<string, string> = {
  hwk: 'passkey',
  swk: 'passkey',
  otp: 'authenticator code',
  kba: 'recovery code',
  guest: 'guest',
  messenger: 'messenger',
  email: 'email',
  exchange: 'own login',
  provider: 'provider',
  wallet: 'external wallet',
}

/** How a user signed in, in words. `user` (they were verified, RFC 8176) goes without saying. */
export function methodsInWords(methods: readonly string[]): string {
  const words = new Set(methods.filter((method) => method !== 'user').map((method) => METHODS[method] ?? method))
  return [...words].join(', ') || '–'
}

const BROWSERS: [RegExp, string][] = [
  [/\bEdgA?\/\d/, 'Edge'],
  [/\bOPR\/\d/, 'Opera'],
  [/\bFirefox\/\d|\bFxiOS\/\d/, 'Firefox'],
  [/\bChrome\/\d|\bCriOS\/\d/, 'Chrome'],
  [/\bVersion\/\d.*\bSafari\/\d/, 'Safari'],
]

const SYSTEMS: [RegExp, string][] = [
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bAndroid\b/, 'Android'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bWindows NT\b/, 'Windows'],
  [/\bLinux\b/, 'Linux'],
]

const nameIn = (text: string, table: [RegExp, string][]) => table.find(([pattern]) => pattern.test(text))?.[1]

/** The browser and device of a `User-Agent` header; the header itself if it is unknown. */
export function deviceInWords(userAgent: string | null): string {
  if (userAgent === null || userAgent.trim() === '') return 'Unknown device'
  const browser = nameIn(userAgent, BROWSERS)
  const system = nameIn(userAgent, SYSTEMS)
  if (browser === undefined) return userAgent
  return system === undefined ? browser : `${browser} on ${system}`
}
