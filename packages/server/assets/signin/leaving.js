/** Schemes that would run what they carry instead of leading somewhere. */
const NEVER_OPENED = new Set(['javascript:', 'data:', 'blob:', 'vbscript:', 'file:', 'about:'])

/**
 * Whether the browser may be sent to a URL.
 * @param {string} text
 */
export function mayOpen(text) {
  const url = URL.parse(text)
  return url !== null && !NEVER_OPENED.has(url.protocol)
}

/**
 * What this tab keeps while its person is at a provider. For each app by itself: the pages of all apps share one origin, and one
 * that a link leads to meanwhile must not take what another one keeps.
 * @param {string} appId
 */
const nameOf = (appId) => `halfkey.provider.${appId}`

/**
 * This page as it is returned to, written as browsers write it, with the app first.
 * @param {string} appId
 */
export function pageUrl(appId) {
  const query = new URLSearchParams(location.search)
  query.delete('app')
  const rest = query.size === 0 ? '' : `&${query}`
  return new URL(`/signin?app=${appId}${rest}`, location.origin).href
}

/** @typedef {{ codeVerifier: string, redirectUrl: string }} Kept */

/**
 * @param {string} appId
 * @param {Kept} kept
 */
export function markReturn(appId, kept) {
  sessionStorage.setItem(nameOf(appId), JSON.stringify(kept))
}

/**
 * What was kept, once.
 * @param {string} appId
 * @returns {Kept | null}
 */
export function takeReturn(appId) {
  try {
    const kept = JSON.parse(sessionStorage.getItem(nameOf(appId)) ?? 'null')
    sessionStorage.removeItem(nameOf(appId))
    return kept
  } catch {
    return null
  }
}
