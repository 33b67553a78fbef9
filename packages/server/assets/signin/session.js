import { ApiError, Client } from './client.js'

/**
 * Ends the session on the server: one that only this page forgot would live on.
 * @param {import('./page.js').Page} page
 * @throws {import('./client.js').NetworkError | ApiError}
 */
export async function endSession(page) {
  try {
    await page.client.call('POST', 'auth/logout')
  } catch (error) {
    if (!(error instanceof ApiError) || ![401, 410].includes(error.status)) throw error
  }
}

/**
 * Ends a session that this page was given and has no use for. Best effort: nobody holds its tokens when the page is gone.
 * @param {import('./page.js').Page} page
 * @param {import('./client.js').Tokens} tokens
 */
export async function endUnused(page, tokens) {
  const other = new Client(page.config.appId)
  other.adopt(tokens)
  await other.call('POST', 'auth/logout').catch(() => undefined)
}
