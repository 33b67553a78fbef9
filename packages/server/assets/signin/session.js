import { ApiError } from './client.js'

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
