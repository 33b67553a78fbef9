import { generate } from 'otplib'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startIssuer, trust } from '../../server/src/identity/foreign-tokens/issuer.fixture.ts'
import { eventually, type Service, startService, type Tenant } from '../../server/test/harness/harness.ts'
import type { Fetch } from '../src/attempt.ts'
import {
  type BrowserClient,
  type BrowserClientOptions,
  createBrowserClient,
  createPasskey,
  finishHostedSignIn,
  finishTelegramSignIn,
  type KeyValueStore,
  miniAppInitData,
  provePasskey,
  type SessionState,
  signIn,
  signInWithToken,
  supportsAutofill,
  supportsPasskeys,
  withStepUp,
} from '../src/browser.ts'
import { isHalfkeyError } from '../src/errors.ts'

const MINUTE_MS = 60_000
let service: Service
let tenant: Tenant
let publishableKey: string
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())
beforeEach(async () => {
  tenant = await service.newTenant()
  publishableKey = await tenant.newKey({ publishable: true })
})

/** A storage, as tabs of one origin share it. */
function newStore(): KeyValueStore & { entries: Map<string, string> } {
  const entries = new Map<string, string>()
  return {
    entries,
    getItem: (key) => entries.get(key) ?? null,
    setItem: (key, value) => void entries.set(key, value),
    removeItem: (key) => void entries.delete(key),
  }
}

/** A page, with what it sent as `METHOD /path`. */
function newTab(options: Partial<BrowserClientOptions> = {}) {
  const requests: string[] = []
  const send: Fetch = (url, init) => {
    requests.push(`${init.method} ${new URL(url).pathname.replace('/v1', '')}`)
    return (options.fetch ?? fetch)(url, init)
  }
  const client = createBrowserClient({ baseUrl: service.url, publishableKey, ...options, fetch: send })
  const refreshes = () => requests.filter((request) => request === 'POST /auth/refresh').length
  return { client, requests, refreshes }
}

const signInAsGuest = async (client: BrowserClient) => {
  const guest = await client.api.guests.create()
  client.adopt(guest)
  return guest
}
const userIdOf = (state: SessionState) => (state.status === 'signed_in' ? state.userId : null)
const failure = (call: Promise<unknown>) =>
  call.then(
    () => Promise.reject(new Error('it succeeded')),
    (error: unknown) => error,
  )

describe('a session', () => {
  test('starts with the result of a sign-in, calls as its user, and signOut ends it here and on the server', async () => {
    const { client } = newTab({ storage: newStore() })
    expect(client.getSession()).toEqual({ status: 'signed_out', ended: false })
    expect(await failure(client.api.wallet.get())).toMatchObject({ code: 'session_missing' })
    const guest = await signInAsGuest(client)
    expect(client.getSession()).toEqual({
      status: 'signed_in',
      sessionId: guest.sessionId,
      userId: guest.userId,
      user: null,
      guestId: guest.id,
    })
    expect((await client.api.wallet.create()).userId).toBe(guest.userId)
    const converted = await client.api.guests.convert(guest.id, { email: 'ada@example.com' })
    client.adopt(converted)
    expect(client.getSession()).toMatchObject({ guestId: null, user: { email: 'ada@example.com' } })
    expect((await client.api.wallet.get()).userId).toBe(guest.userId)
    await client.signOut()
    expect(client.getSession()).toEqual({ status: 'signed_out', ended: false })
    const headers = { authorization: `Bearer ${converted.accessToken}` }
    expect((await tenant.get('/auth/sessions', { headers })).status).toBe(401)
    await client.signOut()
  })

  test('is the same object until it changes, and listeners learn of each change', async () => {
    const { client } = newTab({ storage: null })
    const told: SessionState[] = []
    const end = client.subscribe(() => told.push(client.getSession()))
    await signInAsGuest(client)
    const first = client.getSession()
    await client.api.wallet.create()
    expect(client.getSession()).toBe(first)
    await client.signOut()
    expect(told.map(({ status }) => status)).toEqual(['signed_in', 'signed_out'])
    end()
    await signInAsGuest(client)
    expect(told).toHaveLength(2)
  })

  test('is kept after a reload in a storage, and lost without one', async () => {
    const storage = newStore()
    const { userId } = await signInAsGuest(newTab({ storage }).client)
    expect(userIdOf(newTab({ storage }).client.getSession())).toBe(userId)
    const inMemory = newTab({ storage: null })
    await signInAsGuest(inMemory.client)
    expect(newTab({ storage: null }).client.getSession().status).toBe('signed_out')
  })

  test('stays in memory if the storage fails, and a broken entry counts as no session', async () => {
    const refusing: KeyValueStore = {
      getItem: () => null,
      setItem: () => {
        throw new Error('QuotaExceededError')
      },
      removeItem: () => undefined,
    }
    const { client } = newTab({ storage: refusing })
    const { userId } = await signInAsGuest(client)
    expect(userIdOf(client.getSession())).toBe(userId)
    expect((await client.api.wallet.create()).userId).toBe(userId)
    for (const text of ['', '{', 'null', '[]', '"x"', '{"accessToken":1}']) {
      const storage = newStore()
      const tab = newTab({ storage })
      storage.setItem(`${tab.client.storageName}.session`, text)
      expect(tab.client.getSession(), text).toEqual({ status: 'signed_out', ended: false })
    }
  })

  test('that replaces another one ends the other one on the server', async () => {
    const { client, requests } = newTab({ storage: newStore() })
    const first = await signInAsGuest(client)
    await signInAsGuest(client)
    expect(requests.filter((request) => request === 'POST /auth/logout')).toHaveLength(1)
    const headers = { authorization: `Bearer ${first.accessToken}` }
    const isOver = async () => (await tenant.get('/auth/sessions', { headers })).body.code === 'session_revoked'
    await eventually('it is over', isOver)
  })

  test('stays if the server cannot be reached at sign-out, until forget() is called', async () => {
    let away = false
    const { client } = newTab({
      storage: newStore(),
      maxRetries: 0,
      fetch: (url, init) => (away ? Promise.reject(new TypeError('away')) : fetch(url, init)),
    })
    await signInAsGuest(client)
    away = true
    expect(await failure(client.signOut())).toMatchObject({ code: 'network_error' })
    expect(client.getSession().status).toBe('signed_in')
    client.forget()
    expect(client.getSession()).toEqual({ status: 'signed_out', ended: false })
  })

  test('that was ended elsewhere ends here at the next call, and `ended` is true', async () => {
    const { client } = newTab({ storage: newStore() })
    const { sessionId, userId } = await signInAsGuest(client)
    await tenant.delete(`/auth/sessions/${sessionId}`, { headers: { 'x-user-id': userId } })
    expect(await failure(client.api.wallet.get())).toMatchObject({ code: 'session_revoked' })
    expect(client.getSession()).toEqual({ status: 'signed_out', ended: true })
  })
})

describe('an expired access token', () => {
  test('is renewed once for twenty calls at once, which all succeed', async () => {
    const { client, refreshes } = newTab({ storage: newStore() })
    const { userId } = await signInAsGuest(client)
    await client.api.wallet.create()
    service.advance(16 * MINUTE_MS)
    const wallets = await Promise.all(Array.from({ length: 20 }, () => client.api.wallet.get()))
    expect(wallets.map((wallet) => wallet.userId)).toEqual(Array(20).fill(userId))
    expect(refreshes()).toBe(1)
  })

  test('is renewed once for all tabs, also if they call at the same moment', async () => {
    const storage = newStore()
    const tabs = Array.from({ length: 4 }, () => newTab({ storage }))
    await signInAsGuest((tabs[0] as (typeof tabs)[0]).client)
    await (tabs[0] as (typeof tabs)[0]).client.api.wallet.create()
    service.advance(16 * MINUTE_MS)
    await Promise.all(tabs.flatMap(({ client }) => Array.from({ length: 5 }, () => client.api.wallet.get())))
    expect(tabs.map(({ refreshes }) => refreshes()).reduce((sum, n) => sum + n)).toBe(1)
    for (const { client } of tabs) expect(client.getSession().status).toBe('signed_in')
  })

  test('is renewed before it is used if the clock of the page says that it expired', async () => {
    const storage = newStore()
    const { client, requests } = newTab({ storage })
    await signInAsGuest(client)
    const key = `${client.storageName}.session`
    const held = JSON.parse(storage.getItem(key) as string)
    storage.setItem(key, JSON.stringify({ ...held, expiresAtMs: Date.now() + 1_000 }))
    requests.length = 0
    expect(await failure(client.api.wallet.get())).toMatchObject({ code: 'wallet_not_found' })
    expect(requests).toEqual(['POST /auth/refresh', 'GET /users/me/wallet'])
    expect(JSON.parse(storage.getItem(key) as string).refreshToken).not.toBe(held.refreshToken)
  })

  test('is renewed even if the response to the first renewal was lost', async () => {
    let lost = 0
    const { client, refreshes } = newTab({
      storage: newStore(),
      fetch: async (url, init) => {
        const response = await fetch(url, init)
        if (!url.endsWith('/auth/refresh') || lost++ > 0) return response
        await response.body?.cancel()
        throw new TypeError('fetch failed')
      },
    })
    await signInAsGuest(client)
    expect(await client.refresh()).toBe(true)
    expect(refreshes()).toBe(2)
    expect(await client.refresh()).toBe(true)
    expect(client.getSession().status).toBe('signed_in')
  })

  test('ends the session if the refresh token has expired', async () => {
    const { client } = newTab({ storage: newStore() })
    await signInAsGuest(client)
    service.advance(31 * 24 * 60 * MINUTE_MS)
    expect(isHalfkeyError(await failure(client.api.wallet.get()))).toBe(true)
    expect(client.getSession()).toEqual({ status: 'signed_out', ended: true })
    expect(await client.refresh()).toBe(false)
  })

  test('leaves the session unchanged if the renewal fails', async () => {
    let away = false
    const { client } = newTab({
      storage: newStore(),
      fetch: (url, init) =>
        away && url.endsWith('/auth/refresh') ? Promise.reject(new TypeError('away')) : fetch(url, init),
    })
    await signInAsGuest(client)
    away = true
    expect(await failure(client.refresh())).toMatchObject({ code: 'network_error' })
    expect(client.getSession().status).toBe('signed_in')
    away = false
    expect(await client.refresh()).toBe(true)
  })

  test('is not restored by a renewal that ends after sign-out', async () => {
    let letGo: () => void = () => undefined
    const held = new Promise<void>((resolve) => {
      letGo = resolve
    })
    const { client } = newTab({
      storage: newStore(),
      fetch: async (url, init) => {
        const response = await fetch(url, init)
        if (url.endsWith('/auth/refresh')) await held
        return response
      },
    })
    await signInAsGuest(client)
    const renewal = client.refresh()
    client.forget()
    letGo()
    expect(await renewal).toBe(false)
    expect(client.getSession().status).toBe('signed_out')
  })

  test.each([
    ['the server', 60 * MINUTE_MS],
    ['the page’s clock', 0],
  ])('on the word of %s sends no call of one person as the next one, who signs in meanwhile', async (_, leftMs) => {
    let letGo: () => void = () => undefined
    const held = new Promise<void>((resolve) => {
      letGo = resolve
    })
    const storage = newStore()
    const { client, refreshes } = newTab({
      storage,
      fetch: async (url, init) => {
        const response = await fetch(url, init)
        if (url.endsWith('/auth/refresh')) await held
        return response
      },
    })
    await signInAsGuest(client)
    const key = `${client.storageName}.session`
    const kept = JSON.parse(storage.getItem(key) as string)
    storage.setItem(key, JSON.stringify({ ...kept, expiresAtMs: Date.now() + leftMs - 1 }))
    service.advance(16 * MINUTE_MS)
    const creating = failure(client.api.wallet.create())
    while (refreshes() === 0) await new Promise((resolve) => setImmediate(resolve))
    const next = await signInAsGuest(newTab({ storage: newStore() }).client)
    client.adopt(next)
    letGo()
    expect(await creating).toMatchObject({ status: 401 })
    expect(userIdOf(client.getSession())).toBe(next.userId)
    expect(await failure(client.api.wallet.get())).toMatchObject({ code: 'wallet_not_found' })
  })
})

describe('a step-up', () => {
  /** Somebody with a second factor, whose verification is too old. */
  async function newHolder() {
    const { client, requests } = newTab({ storage: newStore() })
    const guest = await signInAsGuest(client)
    client.adopt(await client.api.guests.convert(guest.id, { externalId: guest.id }))
    const { secret } = await client.api.mfa.setUp()
    const codeNow = () => generate({ secret, epoch: Math.floor(service.deps.now().getTime() / 1000) })
    const { recoveryCodes } = await client.api.mfa.verifySetUp({ code: await codeNow() })
    await client.api.wallet.create()
    service.advance(6 * MINUTE_MS)
    await client.refresh()
    return { client, requests, codeNow, recoveryCodes }
  }
  const policy = { allow: [{ templateId: 'Token:Holding', actions: ['exercise' as const], choices: ['Transfer'] }] }

  test('asks for a code, asks again after a wrong one, and then repeats the call', async () => {
    const { client, codeNow } = await newHolder()
    const asked: (string | null)[] = []
    const session = await withStepUp(client, () => client.api.delegatedSessions.create({ policy }), {
      askCode: async (refused) => {
        asked.push(refused?.code ?? null)
        return { code: refused === null ? '000000' : await codeNow() }
      },
    })
    expect(session.token).toMatch(/^dst_/)
    expect(asked).toEqual([null, 'invalid_code'])
    // Verified once, it counts for a while.
    await withStepUp(client, () => client.api.delegatedSessions.create({ policy }), {
      askCode: () => Promise.reject(new Error('asked again')),
    })
  })

  test('accepts a recovery code', async () => {
    const { client, recoveryCodes } = await newHolder()
    await withStepUp(client, () => client.api.delegatedSessions.create({ policy }), {
      askCode: async () => ({ recoveryCode: recoveryCodes[0] as string }),
    })
    expect((await client.api.mfa.status()).recoveryCodesRemaining).toBe(9)
  })

  test('fails with the original error if the user gives no code', async () => {
    const { client } = await newHolder()
    const call = withStepUp(client, () => client.api.delegatedSessions.create({ policy }), {
      askCode: async () => null,
    })
    expect(await failure(call)).toMatchObject({ code: 'mfa_required' })
  })

  test('ends with mfa_locked after five wrong codes', async () => {
    const { client } = await newHolder()
    let guesses = 0
    const call = withStepUp(client, () => client.api.delegatedSessions.create({ policy }), {
      askCode: async () => ({ code: String(++guesses).padStart(6, '0') }),
    })
    expect(await failure(call)).toMatchObject({ code: 'mfa_locked' })
    expect(guesses).toBeLessThanOrEqual(6)
  })

  test('signs in again if a fresh sign-in is required and signInAgain is given', async () => {
    const { client } = newTab({ storage: newStore() })
    await signInAsGuest(client)
    await client.api.wallet.create()
    service.advance(6 * MINUTE_MS)
    const action = () => client.api.delegatedSessions.create({ policy })
    const askCode = async () => null
    expect(await failure(withStepUp(client, action, { askCode }))).toMatchObject({ code: 'reauthentication_required' })
    let signedIn = 0
    const call = withStepUp(client, action, {
      askCode,
      signInAgain: async () => {
        signedIn += 1
        await signInAsGuest(client)
        await client.api.wallet.create()
      },
    })
    expect((await call).token).toMatch(/^dst_/)
    expect(signedIn).toBe(1)
  })
})

describe('an own login', () => {
  test('signs in with its token; what the account protects opens by the second factor', async () => {
    const login = await startIssuer(service)
    await trust(tenant, login)
    const { client } = newTab({ storage: newStore() })
    const token = () => login.token({ claims: { sub: 'ada' } })
    const { user, isNewUser } = await signInWithToken(client, await token())
    expect([isNewUser, userIdOf(client.getSession())]).toEqual([true, user.id])
    await client.api.wallet.create()
    const { secret } = await client.api.mfa.setUp()
    const codeNow = () => generate({ secret, epoch: Math.floor(service.deps.now().getTime() / 1000) })
    await client.api.mfa.verifySetUp({ code: await codeNow() })
    service.advance(MINUTE_MS)
    const later = newTab({ storage: newStore() }).client
    await signInWithToken(later, await token())
    const action = () => later.api.delegatedSessions.create({ policy: { allow: [{ templateId: 'Note:Note' }] } })
    expect(await failure(action())).toMatchObject({ code: 'stronger_sign_in_required' })
    const session = await withStepUp(later, action, { askCode: async () => ({ code: await codeNow() }) })
    expect(session.token).toMatch(/^dst_/)
    expect(await failure(signInWithToken(later, 'x.y.z'))).toMatchObject({ code: 'token_invalid' })
    expect(userIdOf(later.getSession())).toBe(user.id)
    await login.close()
  })
})

describe('without a browser', () => {
  test('nobody is signed in, nothing is stored, there are no passkeys, and no sign-in can be finished', async () => {
    const { client, requests } = newTab()
    expect(client.getSession().status).toBe('signed_out')
    expect(supportsPasskeys()).toBe(false)
    expect(await supportsAutofill()).toBe(false)
    expect(miniAppInitData()).toBeNull()
    expect(await finishHostedSignIn(client)).toBeNull()
    expect(await finishTelegramSignIn(client)).toBeNull()
    for (const call of [
      signIn(client),
      signIn(client, { autofill: true }),
      createPasskey(client),
      provePasskey(client),
    ])
      expect(await failure(call)).toMatchObject({ name: 'PasskeyError', reason: 'not_supported' })
    expect(requests).toEqual([])
  })

  test.each([['hk_sk_1234'], [''], [undefined]])('only a publishable key is accepted, not %s', (key) => {
    const options = { baseUrl: 'https://halfkey.example', publishableKey: key as string }
    expect(() => createBrowserClient(options)).toThrow(/publishable key/)
  })

  test('a client in a log shows no token', async () => {
    const { client } = newTab({ storage: newStore() })
    const { accessToken, refreshToken } = await signInAsGuest(client)
    const shown = `${JSON.stringify(client)}${JSON.stringify(client.getSession())}`
    expect(shown).not.toContain(accessToken)
    expect(shown).not.toContain(refreshToken)
  })
})
