/** What this tab keeps while its person is at a provider. */
const NAME = 'halfkey.provider'

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

/** @param {Kept} kept */
export function markReturn(kept) {
  sessionStorage.setItem(NAME, JSON.stringify(kept))
}

/**
 * What was kept, once.
 * @returns {Kept | null}
 */
export function takeReturn() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(NAME) ?? 'null')
    sessionStorage.removeItem(NAME)
    return kept
  } catch {
    return null
  }
}
