const TIMEOUT_MS = 20_000
const PAGE_SIZE = 100
/** More than anybody has: a list that never ends must not keep the page busy for ever. */
const PAGES_MAX = 10

/** @typedef {{ field?: string, code?: string, message?: string, attemptsRemaining?: number }} Detail */

/** An answer that is not a success. */
export class ApiError extends Error {
  /**
   * @param {{ status: number, code: string, message: string, details: Detail[], retryAfterSeconds: number | null,
   *   requestId: string | null }} answer
   */
  constructor(answer) {
    super(answer.message)
    this.status = answer.status
    this.code = answer.code
    this.details = answer.details
    /** Null where the server named no time. */
    this.retryAfterSeconds = answer.retryAfterSeconds
    /** What the operator finds the call by. */
    this.requestId = answer.requestId
  }
}

/** No answer, or none in time: trying again may help. */
export class NetworkError extends Error {}

/**
 * What a sign-in answers and the client keeps: in memory only, so that it ends with the page.
 * @typedef {{ accessToken: string, refreshToken: string, sessionId: string }} Tokens
 */

/** @param {Response} response */
async function errorOf(response) {
  const body = await response.json().catch(() => ({}))
  const seconds = Number.parseInt(response.headers.get('retry-after') ?? '', 10)
  return new ApiError({
    status: response.status,
    code: typeof body.code === 'string' ? body.code : 'internal_error',
    message: typeof body.error === 'string' ? body.error : `Status ${response.status}`,
    details: Array.isArray(body.details) ? body.details : [],
    retryAfterSeconds: Number.isNaN(seconds) ? null : seconds,
    requestId: response.headers.get('x-request-id'),
  })
}

/** @param {ApiError} error */
const isOver = (error) =>
  ['session_revoked', 'session_invalid', 'session_missing', 'guest_expired'].includes(error.code)

/** Calls the service as one app's page, and as its user once there are tokens. */
export class Client {
  /** @type {Tokens | null} */
  #tokens = null
  /** @type {Promise<void> | null} */
  #refreshing = null
  #appId
  #onEnd

  /**
   * @param {string} appId
   * @param {() => void} [onEnd] called when the session turns out to be over
   */
  constructor(appId, onEnd = () => undefined) {
    this.#appId = appId
    this.#onEnd = onEnd
  }

  /** Of the session whose tokens are held; null before sign-in. */
  get sessionId() {
    return this.#tokens?.sessionId ?? null
  }

  /**
   * Goes on with these tokens. Extra fields of a sign-in's answer do no harm.
   * @param {Tokens} tokens
   */
  adopt({ accessToken, refreshToken, sessionId }) {
    this.#tokens = { accessToken, refreshToken, sessionId }
  }

  /**
   * Goes on with a stronger access token for the same session.
   * @param {string} accessToken
   */
  raise(accessToken) {
    if (this.#tokens !== null) this.#tokens = { ...this.#tokens, accessToken }
  }

  forget() {
    this.#tokens = null
  }

  /**
   * Sends one call and returns its `data`. An access token that has run out is renewed once on the way.
   * @param {'GET' | 'POST' | 'PATCH' | 'DELETE'} method
   * @param {string} path below the API's root, without a slash in front
   * @param {unknown} [body]
   * @returns {Promise<any>}
   * @throws {ApiError | NetworkError}
   */
  async call(method, path, body) {
    return (await this.#answer(method, path, body)).data
  }

  /**
   * All entries of a list, page by page.
   * @param {string} path without a query
   * @returns {Promise<any[]>}
   * @throws {ApiError | NetworkError}
   */
  async list(path) {
    const entries = []
    for (let page = 1; page <= PAGES_MAX; page++) {
      const answer = await this.#answer('GET', `${path}?page=${page}&page_size=${PAGE_SIZE}`)
      entries.push(...answer.data)
      if (!answer.hasMore) break
    }
    return entries
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   */
  async #answer(method, path, body) {
    const used = this.#tokens
    try {
      return await this.#send(method, path, body)
    } catch (error) {
      if (!(error instanceof ApiError) || used === null) throw error
      if (isOver(error)) this.#end(used)
      if (error.code !== 'session_expired') throw error
    }
    // Another call may have renewed it in the meantime: a refresh token must not be used twice for nothing.
    if (this.#tokens === used) await this.#refresh()
    return this.#send(method, path, body)
  }

  /** Several calls that find their token expired share one renewal. */
  #refresh() {
    this.#refreshing ??= this.#renew(this.#tokens).finally(() => {
      this.#refreshing = null
    })
    return this.#refreshing
  }

  /** @param {Tokens | null} used */
  async #renew(used) {
    try {
      const { data } = await this.#send('POST', 'auth/refresh', { refreshToken: used?.refreshToken }, false)
      const { accessToken, refreshToken } = data
      if (this.#tokens !== null) this.#tokens = { ...this.#tokens, accessToken, refreshToken }
    } catch (error) {
      if (error instanceof ApiError && [401, 410].includes(error.status)) this.#end(used)
      throw error
    }
  }

  /** @param {Tokens | null} used */
  #end(used) {
    if (this.#tokens === null || this.#tokens !== used) return
    this.#tokens = null
    this.#onEnd()
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {unknown} body
   * @param {boolean} [asUser]
   */
  async #send(method, path, body, asUser = true) {
    /** @type {Record<string, string>} */
    const headers = { 'x-halfkey-app': this.#appId }
    if (asUser && this.#tokens !== null) headers.authorization = `Bearer ${this.#tokens.accessToken}`
    if (body !== undefined) headers['content-type'] = 'application/json'
    let response
    try {
      response = await fetch(`/signin/api/${path}`, {
        method,
        headers,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        credentials: 'omit',
        cache: 'no-store',
        signal: AbortSignal.timeout(TIMEOUT_MS),
      })
    } catch (cause) {
      throw new NetworkError('no answer', { cause })
    }
    if (!response.ok) throw await errorOf(response)
    return response.json().catch((cause) => {
      throw new NetworkError('half an answer', { cause })
    })
  }
}
