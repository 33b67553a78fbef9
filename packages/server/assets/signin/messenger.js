/** Marks, in this tab, that the way to Telegram was taken from here. It is no secret and names nobody. */
const MARK = 'halfkey.telegram'

/**
 * The link to Telegram, which comes back to this very page with what it has to say in the fragment.
 * @param {string} authUrl has a query already
 */
export function messengerHref(authUrl) {
  const here = location.origin + location.pathname + location.search
  return `${authUrl}&return_to=${encodeURIComponent(here)}`
}

/** To be called when the link is followed. */
export function markLeaving() {
  try {
    sessionStorage.setItem(MARK, '1')
  } catch {
    // No storage in this browser: the person is asked to confirm on the way back, that is all.
  }
}

/** Whether this tab asked for the sign-in that it was opened with, or it is Telegram's own browser. Asks once. */
export function cameFromHere() {
  if ('TelegramWebviewProxy' in globalThis) return true
  try {
    const marked = sessionStorage.getItem(MARK) === '1'
    sessionStorage.removeItem(MARK)
    return marked
  } catch {
    return false
  }
}

/**
 * base64url of UTF-8 JSON.
 * @param {string} text
 */
function decode(text) {
  const binary = atob(text.replace(/-/g, '+').replace(/_/g, '/'))
  return JSON.parse(new TextDecoder().decode(Uint8Array.from(binary, (char) => char.charCodeAt(0))))
}

/** @param {any} user */
function displayNameOf(user) {
  const name = [user?.first_name, user?.last_name].filter((part) => typeof part === 'string' && part !== '').join(' ')
  return name === '' ? null : name
}

/**
 * Reads what Telegram put into the fragment: the login widget's fields, or a Mini App's `initData`.
 * @param {string} hash
 * @returns {{ payload: object | null, displayName: string | null } | null} null: nothing of Telegram's; `payload` null:
 *   nobody was signed in
 */
export function readReturn(hash) {
  const fragment = new URLSearchParams(hash.slice(1))
  const initData = fragment.get('tgWebAppData')
  if (initData !== null) {
    let user = null
    try {
      user = JSON.parse(new URLSearchParams(initData).get('user') ?? 'null')
    } catch {
      // Only for the name; whether the data is good is for the server to say.
    }
    return { payload: { initData }, displayName: displayNameOf(user) }
  }
  const result = fragment.get('tgAuthResult')
  if (result === null) return null
  try {
    const fields = decode(result)
    if (typeof fields !== 'object' || fields === null) return { payload: null, displayName: null }
    return { payload: fields, displayName: displayNameOf(fields) }
  } catch {
    return { payload: null, displayName: null }
  }
}
