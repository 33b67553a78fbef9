import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import fastify from 'fastify'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { approve, asking, askingAbove } from '../../server/src/delegation/approvals/approvals.fixture.ts'
import { type Service, startService, type Tenant } from '../../server/test/harness/harness.ts'
import type { Fetch } from '../src/attempt.ts'
import { createClient, type HalfkeyClient } from '../src/client.ts'
import { HalfkeyError } from '../src/errors.ts'
import type { Dripped } from '../src/models.ts'
import { sellerOf } from '../src/x402/seller.ts'
import { decodeHeader, encodeHeader, type PaymentRequired } from '../src/x402/terms.ts'
import type { PayerOptions, PaywallOptions } from '../src/x402/x402.ts'
import { createPayer, expressPaywall, fastifyPaywall, newNonce, paywall, priceOf, X402Error } from '../src/x402/x402.ts'
import { newHolder, upTo } from './delegating.ts'

let service: Service
let tenant: Tenant
let server: HalfkeyClient
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
  tenant = await service.newTenant()
  server = createClient({ baseUrl: service.url, apiKey: tenant.key })
})
afterAll(() => service.stop())

type Handle = (request: IncomingMessage, response: ServerResponse) => void

/** A server on loopback. */
async function listen(handle: Handle): Promise<string> {
  const listening = createServer(handle)
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    listening.closeAllConnections()
    listening.close()
  })
  return `http://127.0.0.1:${(listening.address() as AddressInfo).port}`
}

/** A server whose handler is set once its address is known. */
async function opened(): Promise<{ origin: string; serve(handle: Handle): void }> {
  let handle: Handle | undefined
  const origin = await listen((request, response) => handle?.(request, response))
  return {
    origin,
    serve: (own) => {
      handle = own
    },
  }
}

/** Runs a handler of Fetch API requests, as frameworks do. */
const served =
  (handler: (request: Request) => Promise<Response>): Handle =>
  async ({ url, method = 'GET', headers }, response) => {
    const given = Object.entries(headers).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : []))
    // The Host header, which callers choose, is part of this address.
    const answer = await handler(
      new Request(`http://${headers.host}${url}`, { method, headers: Object.fromEntries(given) }),
    )
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text())
  }

interface Shop {
  options: PaywallOptions
  dripped: Dripped
  /** Pays for the user, out of a session with a cap of 10. */
  payer(more?: Partial<PayerOptions>, cap?: string): Promise<ReturnType<typeof createPayer>>
  /** What the seller holds. */
  earned(): Promise<string>
  /** Transactions of the payer. */
  transactions(): Promise<number>
}

const clientFor = (userId: string) => createClient({ baseUrl: service.url, apiKey: tenant.key, userId })

async function newShop(origin: string, more: Partial<PaywallOptions> = {}): Promise<Shop> {
  const { user, mine, dripped } = await newHolder(server, clientFor)
  const shopkeeper = await server.users.create()
  const wallet = await clientFor(shopkeeper.id).wallet.create()
  const asset = { issuer: dripped.issuer, symbol: 'USDX' }
  const key = await tenant.newKey({ scopes: ['payments:settle'] })
  const { x402: facilitator } = createClient({ baseUrl: service.url, apiKey: key })
  return {
    options: { facilitator, payTo: wallet.partyId, asset, price: '0.25', origin, ...more },
    dripped,
    async payer(changes = {}, cap = '10') {
      const { token } = await mine.delegatedSessions.create({ policy: upTo(cap, dripped) })
      const { delegatedSessions: session } = createClient({
        baseUrl: service.url,
        apiKey: tenant.key,
        delegateToken: token,
      })
      return createPayer({ session, asset, maxAmount: '0.25', ...changes })
    },
    earned: async () => (await server.wallets.holdings(wallet.id)).instruments[0]?.amount ?? '0',
    transactions: async () => (await server.transactions.list({ userId: user.id })).total,
  }
}

const text = (answer: { body: Uint8Array } | null) => (answer === null ? null : new TextDecoder().decode(answer.body))

/** A shop behind a Fetch API handler, which counts what it serves. */
async function openShop(more: Partial<PaywallOptions> = {}) {
  const { origin, serve } = await opened()
  const shop = await newShop(origin, more)
  let sold = 0
  const handler = paywall(shop.options, ({ url }, receipt) => {
    sold += 1
    return new Response(`${new URL(url).pathname} for ${receipt.amount}`)
  })
  serve(served(handler))
  return { ...shop, origin, sold: () => sold, handler, serve }
}

async function problem(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error instanceof X402Error || error instanceof HalfkeyError) return error.code
  throw error ?? new Error('it succeeded')
}

describe('a payer', () => {
  test('pays once what the seller asks for, and gets the goods and a receipt', async () => {
    const { payer, origin, sold, earned, options } = await openShop({ description: 'Weather' })
    const asked = await fetch(`${origin}/weather?city=Paris`)
    expect([asked.status, asked.headers.get('cache-control')]).toEqual([402, 'no-store'])
    const { accepts, resource } = decodeHeader(
      asked.headers.get('payment-required') ?? '',
    ) as unknown as PaymentRequired
    expect(resource).toEqual({ url: `${origin}/weather?city=Paris`, description: 'Weather' })
    expect(accepts).toMatchObject([{ scheme: 'exact', network: `halfkey:${tenant.tenantId}`, amount: '2500000000' }])
    expect(priceOf(accepts[0] as { amount: string })).toBe('0.25')

    const buy = await payer()
    const bought = await buy(`${origin}/weather?city=Paris#now`)
    expect(bought).toMatchObject({ payment: { paid: true, repeated: false }, receipt: { success: true } })
    expect([bought.answer?.status, text(bought.answer)]).toEqual([200, '/weather for 0.25'])
    expect(bought.answer?.headers.get('cache-control')).toBe('private, no-store')
    const { updateId } = await server.transactions.get(bought.payment?.transactionId ?? '')
    expect(bought.receipt?.transaction).toBe(updateId)
    expect([sold(), await earned(), options.payTo === bought.terms?.payTo]).toEqual([1, '0.25', true])
  })

  test('pays nothing for what costs nothing', async () => {
    const { payer, transactions, serve, origin } = await openShop()
    serve((_, response) => response.end('free'))
    const { answer, payment, terms } = await (await payer())(`${origin}/free`)
    expect([text(answer), payment, terms, await transactions()]).toEqual(['free', null, null, 0])
  })

  test('pays once with one nonce, whatever was lost on the way', async () => {
    const { payer, origin, sold, earned } = await openShop()
    let isLosing = true
    const lossy: Fetch = async (url, init) => {
      const isPaid = new Headers(init.headers).has('payment-signature')
      if (isPaid && isLosing) throw new TypeError('the connection was lost')
      return fetch(url, init)
    }
    const nonce = newNonce()
    const buy = await payer({ fetch: lossy })
    const lost = await buy(`${origin}/a`, { nonce })
    expect([lost.answer, lost.payment?.paid, await earned(), sold()]).toEqual([null, true, '0.25', 0])
    isLosing = false
    const repeated = await buy(`${origin}/a`, { nonce })
    expect(repeated).toMatchObject({ payment: { paid: true, repeated: true }, answer: { status: 200 } })
    const again = await buy(`${origin}/a`, { nonce })
    expect(again).toMatchObject({ payment: { repeated: true }, answer: { status: 402 } })
    expect(again.receipt).toMatchObject({ success: false, errorReason: 'payment_already_used' })
    expect([await earned(), sold()]).toEqual(['0.25', 1])
  })

  test('does not pay again when the price has changed meanwhile', async () => {
    let price = '0.20'
    const { payer, origin, earned, sold } = await openShop({ price: () => price })
    const nonce = newNonce()
    const drop: Fetch = (url, init) =>
      new Headers(init.headers).has('payment-signature') ? Promise.reject(new TypeError('lost')) : fetch(url, init)
    const buy = await payer({ fetch: drop })
    await buy(`${origin}/a`, { nonce })
    price = '0.25'
    const again = await (await payer())(`${origin}/a`, { nonce }).catch((error: HalfkeyError) => error)
    // Another session: the same nonce is another payment there, and the first session's is not.
    expect(again).toMatchObject({ payment: { repeated: false } })
    const same = await buy(`${origin}/a`, { nonce })
    expect(same).toMatchObject({ payment: { repeated: true } })
    expect([await earned(), sold()]).toEqual(['0.45', 1])
  })

  test('names the nonce of each call, with which a repeat in the same session pays nothing more', async () => {
    const { payer, origin, earned } = await openShop()
    const buy = await payer()
    const first = await buy(`${origin}/a`)
    expect(await buy(`${origin}/a`, { nonce: first.nonce })).toMatchObject({
      nonce: first.nonce,
      payment: { repeated: true },
    })
    for (const failing of [await payer({ maxAmount: '0.1' }), await payer({}, '0.2')])
      expect(await failing(`${origin}/b`).catch((error: object) => error)).toMatchObject({
        nonce: expect.stringMatching(/^[0-9a-f]{64}$/),
      })
    expect(await earned()).toBe('0.25')
  })

  test('reaches http: on loopback only', async () => {
    const { payer } = await openShop()
    const asked: string[] = []
    const buy = await payer({ fetch: async (url) => new Response(String(asked.push(url))) })
    for (const url of ['http://seller.example/a', 'http://127.0.0.1.evil.example/', 'http://10.0.0.1/'])
      expect(await problem(buy(url))).toBe('x402_unreachable')
    expect((await buy('https://seller.example/a')).answer?.status).toBe(200)
    expect(asked).toEqual(['https://seller.example/a'])
  })

  test('does not pay a 402 that asks again after the payment', async () => {
    const { payer, origin, handler, serve, transactions } = await openShop()
    serve(served((request) => handler(new Request(request.url, { method: request.method }))))
    const { answer, payment } = await (await payer())(`${origin}/a`)
    expect([answer?.status, payment?.paid, await transactions()]).toEqual([402, true, 1])
  })

  test('pays side by side for ten requests, exactly within its cap', async () => {
    const { payer, origin, sold, earned } = await openShop()
    const buy = await payer({}, '1')
    const results = await Promise.allSettled(Array.from({ length: 8 }, () => buy(`${origin}/a`)))
    const bought = results.filter(({ status }) => status === 'fulfilled').length
    expect(await earned()).toBe(`${bought * 0.25}`)
    expect([sold(), bought <= 4]).toEqual([bought, true])
    for (const result of results)
      if (result.status === 'rejected')
        expect(result.reason).toMatchObject({ code: expect.stringMatching(/spend|archived/) })
    const more = await problem(Promise.all(Array.from({ length: 5 }, () => buy(`${origin}/a`))))
    expect(more).toMatch(/spend_limit_exceeded|contract_/)
  })

  test('is refused by its policy before anything is signed', async () => {
    const { payer, origin, transactions } = await openShop()
    expect(await problem((await payer({}, '0.2'))(`${origin}/a`))).toBe('spend_limit_exceeded')
    expect(await transactions()).toBe(0)
  })

  test('waits for the owner where the policy asks, and gets the goods once they have approved', async () => {
    const { tenant: theirs, owner, session } = await asking(service, (one) => askingAbove(one, '0.1'))
    await owner.receive('1')
    const { origin, serve } = await opened()
    const asset = { issuer: owner.issuer, symbol: 'USDX' }
    const halfkey = createClient({ baseUrl: service.url, apiKey: theirs.key })
    const { partyId: payTo } = await halfkey.users.create()
    const options = { facilitator: halfkey.x402, payTo, asset, price: '0.25', origin }
    serve(served(paywall(options, () => new Response('gold'))))
    const delegate = createClient({ baseUrl: service.url, apiKey: theirs.key, delegateToken: session.token })
    const buy = createPayer({ session: delegate.delegatedSessions, asset, maxAmount: '0.25' })
    const nonce = newNonce()
    const asked = await buy(`${origin}/a`, { nonce })
    expect(asked).toMatchObject({ answer: { status: 402 }, payment: { paid: false, status: 'approval_required' } })
    const [approval] = (await halfkey.approvals.list()).data
    expect((await approve(owner, approval?.id ?? '')).status).toBe(200)
    const bought = await buy(`${origin}/a`, { nonce })
    expect(bought.payment).toMatchObject({ paid: true, repeated: true, transactionId: asked.payment?.transactionId })
    expect([bought.answer?.status, text(bought.answer)]).toEqual([200, 'gold'])
  })

  test('keeps its payment and its headers from other origins', async () => {
    const shop = await openShop()
    const seen: Record<string, unknown>[] = []
    const front = await listen(({ headers, url }, response) => {
      seen.push(headers)
      response.writeHead(302, { location: `${shop.origin}${url}` }).end()
    })
    const there: (string | null)[] = []
    shop.serve(
      served((request) => {
        there.push(request.headers.get('x-mine'))
        return shop.handler(request)
      }),
    )
    const buy = await shop.payer()
    expect(await problem(buy(`${front}/a`, { headers: { 'x-mine': 'secret' } }))).toBe('x402_redirected')
    expect([seen.length, there, await shop.transactions()]).toEqual([1, [null], 0])
  })

  test('follows one redirect without paying there, and none after the payment', async () => {
    const shop = await openShop()
    shop.serve((request, response) => {
      if (request.url === '/old') return response.writeHead(301, { location: '/new' }).end()
      if (request.url === '/moved') return response.writeHead(308, { location: 'free' }).end()
      if (request.url === '/free') return response.end('free')
      if (request.url === '/twice') return response.writeHead(302, { location: '/old' }).end()
      if (request.headers['payment-signature'] !== undefined && request.url === '/trap')
        return response.writeHead(307, { location: 'http://127.0.0.2:9/thief' }).end()
      return served(shop.handler)(request, response)
    })
    const buy = await shop.payer()
    const moved = await buy(`${shop.origin}/old`).catch((error: X402Error) => error)
    expect(moved).toMatchObject({ code: 'x402_redirected', url: `${shop.origin}/new` })
    expect([(await buy(`${shop.origin}/moved`)).url, await shop.transactions()]).toEqual([`${shop.origin}/free`, 0])
    expect((await buy(`${shop.origin}/twice`)).answer?.status).toBe(301)
    const trapped = await buy(`${shop.origin}/trap`)
    expect([trapped.answer?.status, trapped.payment?.paid]).toEqual([307, true])
  })
})

describe('a 402 is not paid', () => {
  const changes: [string, string, (required: PaymentRequired) => unknown][] = [
    ['without terms', 'x402_invalid', () => null],
    ['of another version', 'x402_invalid', (all) => ({ ...all, x402Version: 1 })],
    ['of another network', 'x402_unsupported', (all) => changed(all, { network: 'eip155:8453' })],
    ['of another scheme', 'x402_unsupported', (all) => changed(all, { scheme: 'upto' })],
    ['with other decimals', 'x402_unsupported', (all) => changed(all, { extra: { ...extraOf(all), decimals: 6 } })],
    ['with more than is known', 'x402_unsupported', (all) => changed(all, { fee: '1' })],
    ['with a number as amount', 'x402_unsupported', (all) => changed(all, { amount: 1 })],
    ['with a negative amount', 'x402_unsupported', (all) => changed(all, { amount: '-1' })],
    ['with an exponent', 'x402_unsupported', (all) => changed(all, { amount: '1e9' })],
    ['in another asset with the same symbol', 'x402_asset', (all) => changed(all, { asset: `${payTo(all)}/USDX` })],
    [
      'for another address',
      'x402_resource',
      (all) => changed(all, { extra: { ...extraOf(all), resource: 'https://other.example/' } }),
    ],
    ['for another method', 'x402_resource', (all) => changed(all, { extra: { ...extraOf(all), method: 'POST' } })],
    ['above the most that may be paid', 'x402_price', (all) => changed(all, { amount: '2500000001' })],
  ]
  const changed = (all: PaymentRequired, change: object) => ({ ...all, accepts: [{ ...all.accepts[0], ...change }] })
  const extraOf = (all: PaymentRequired) => all.accepts[0]?.extra as object
  const payTo = (all: PaymentRequired) => all.accepts[0]?.payTo

  test.each(changes)('%s', async (_, code, change) => {
    const { payer, origin, handler, serve, transactions } = await openShop()
    serve(
      served(async (request) => {
        const answer = await handler(request)
        const required = decodeHeader(answer.headers.get('payment-required') ?? '') as unknown as PaymentRequired
        const lie = change(required)
        const headers: Record<string, string> =
          lie === null ? {} : { 'payment-required': encodeHeader(lie as PaymentRequired) }
        return new Response('', { status: 402, headers })
      }),
    )
    expect(await problem((await payer())(`${origin}/a`))).toBe(code)
    expect(await transactions()).toBe(0)
  })

  test('whose header is no base64, no JSON, no object or too long', async () => {
    const { payer, origin, serve, transactions } = await openShop()
    const buy = await payer()
    for (const header of ['%%%', btoa('{'), btoa('[]'), btoa('null'), btoa('"x"'), 'QQ'.repeat(6_000)]) {
      serve((_, response) => response.writeHead(402, { 'payment-required': header }).end())
      expect(await problem(buy(`${origin}/a`))).toBe('x402_invalid')
    }
    expect(await transactions()).toBe(0)
  })

  test('and a body that never ends is cut', async () => {
    const { payer, origin, serve } = await openShop()
    serve((request, response) => {
      response.writeHead(200)
      const more = () => response.write('x'.repeat(65_536))
      response.on('drain', more)
      request.on('close', () => response.off('drain', more))
      more()
    })
    const { answer } = await (await payer({ bodyBytesMax: 100_000 }))(`${origin}/a`)
    expect([answer?.body.length, answer?.isCut]).toEqual([100_000, true])
  })
})

describe('a seller', () => {
  test('serves exactly one of ten requests with the same payment', async () => {
    const { payer, origin, sold } = await openShop()
    let payment = ''
    const keep: Fetch = (url, init) => {
      payment = new Headers(init.headers).get('payment-signature') ?? ''
      return payment === '' ? fetch(url, init) : Promise.reject(new TypeError('kept'))
    }
    await (await payer({ fetch: keep }))(`${origin}/a`)
    const headers = { 'payment-signature': payment }
    const answers = await Promise.all(Array.from({ length: 10 }, () => fetch(`${origin}/a`, { headers })))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(9).fill(402)])
    expect(sold()).toBe(1)
    const other = await fetch(`${origin}/b`, { headers })
    expect([other.status, ((await other.json()) as { error: string }).error]).toEqual([402, 'requirements_mismatch'])
  })

  test('learns nothing from one payment that helps with another of the same nonce', async () => {
    const { payer, origin, serve, handler } = await openShop()
    const seen: string[] = []
    serve(
      served((request) => {
        const proof = decodeHeader(request.headers.get('payment-signature') ?? '') as
          | { payload?: { nonce: string } }
          | undefined
        if (proof?.payload !== undefined) seen.push(proof.payload.nonce)
        return handler(request)
      }),
    )
    const [buy, nonce] = [await payer(), newNonce()]
    for (const path of ['a', 'b']) expect((await buy(`${origin}/${path}`, { nonce })).answer?.status).toBe(200)
    expect(new Set([...seen, nonce]).size).toBe(3)
  })

  test('refuses addresses that a framework could read in another way', async () => {
    const { options } = await newShop('https://api.example.com')
    const charge = sellerOf(options)
    const targets = [
      '/gold/../tin',
      '/gold/%2e%2e/tin',
      '//evil.example/',
      '/a#b',
      '/a\\b',
      'https://evil.example/',
      '*',
      '/a b',
      '/é',
      '/%67old',
      '/%7Eada',
      '/gold%2Ftin',
      '/gold%2ftin',
      '/gold%5ctin',
      '/gold%5Ftin',
    ]
    for (const target of targets) {
      const charged = await charge({ method: 'GET', target, payment: null })
      const resource = charged.paid ? '' : charged.status === 402 ? target : 'refused'
      expect([target, resource]).toEqual([target, target === '//evil.example/' ? target : 'refused'])
    }
    const plain = await charge({ method: 'GET', target: '/caf%C3%A9?to=%2Fa%5Cb%41', payment: null })
    expect(plain).toMatchObject({ status: 402 })
  })

  test('takes its origin from its options and not from the Host header', async () => {
    const { origin, handler } = await openShop()
    const answer = await handler(new Request('http://relay.example/a'))
    const { resource } = decodeHeader(answer.headers.get('payment-required') ?? '') as unknown as PaymentRequired
    expect(resource.url).toBe(`${origin}/a`)
  })

  test('refuses what is no payment with 400, and other methods with 405', async () => {
    const { origin, sold } = await openShop()
    for (const header of ['x', btoa('[]'), btoa('{}'), btoa('{"__proto__":{}}'), 'A'.repeat(10_000)]) {
      const answer = await fetch(`${origin}/a`, { headers: { 'payment-signature': header } })
      expect([header.slice(0, 9), answer.status]).toEqual([header.slice(0, 9), 400])
    }
    expect((await fetch(`${origin}/a`, { method: 'HEAD' })).status).toBe(405)
    expect(sold()).toBe(0)
  })

  test('asks for no settlement of what could not be settled', async () => {
    const calls: string[] = []
    const { options, origin, serve, payer } = await openShop()
    const { x402: real } = server
    const facilitator: PaywallOptions['facilitator'] = {
      supported: () => real.supported(),
      verify: (body) => {
        calls.push('verify')
        return real.verify(body)
      },
      settle: (body) => {
        calls.push('settle')
        return real.settle(body)
      },
    }
    const handler = paywall({ ...options, facilitator }, () => new Response('gold'))
    serve(served(handler))
    const asked = await fetch(`${origin}/a`)
    const { accepts } = decodeHeader(asked.headers.get('payment-required') ?? '') as unknown as PaymentRequired
    const [accepted] = accepts
    expect(accepted?.maxTimeoutSeconds).toBe(3_600)
    const payload = { payer: options.payTo, delegatedSessionId: `dse_${'0'.repeat(26)}`, nonce: newNonce() }
    const show = async (change: object) => {
      const payment = { x402Version: 2, accepted: { ...accepted, ...change }, payload }
      const headers = { 'payment-signature': btoa(JSON.stringify(payment)) }
      const answer = await fetch(`${origin}/a`, { headers })
      const receipt = decodeHeader(answer.headers.get('payment-response') ?? '')
      return [answer.status, receipt?.errorReason]
    }
    expect(await show({ amount: '1' })).toEqual([402, 'requirements_mismatch'])
    expect(await show({ more: 1 })).toEqual([402, 'requirements_mismatch'])
    expect(calls).toEqual([])
    expect(await show({})).toEqual([402, 'payment_not_found'])
    expect(calls).toEqual(['verify'])
    expect((await (await payer())(`${origin}/a`)).answer?.status).toBe(200)
    expect(calls).toEqual(['verify', 'verify', 'settle'])
  })

  test('gives nothing out while the facilitator refuses its key, and asks to come again while it does not answer', async () => {
    const { options } = await newShop('https://api.example.com')
    const key = await tenant.newKey({ scopes: ['users:read'] })
    const poor = createClient({ baseUrl: service.url, apiKey: key })
    const away = createClient({ baseUrl: 'http://127.0.0.1:9', apiKey: key, maxRetries: 0 })
    const told: unknown[] = []
    const onError = (error: unknown) => told.push((error as HalfkeyError).code)
    for (const [{ x402: facilitator }, status] of [
      [poor, 500],
      [away, 503],
    ] as const) {
      const handler = paywall({ ...options, facilitator, onError }, () => new Response('gold'))
      expect((await handler(new Request('https://api.example.com/a'))).status).toBe(status)
    }
    expect(told).toEqual(['insufficient_scope', 'network_error'])
  })

  test('serves a payment later that came while the facilitator did not answer', async () => {
    const { options, origin, serve, payer, earned } = await openShop()
    const away = createClient({ baseUrl: 'http://127.0.0.1:9', apiKey: tenant.key, maxRetries: 0 }).x402
    const { x402: real } = server
    let isAway = true
    const facilitator: PaywallOptions['facilitator'] = {
      supported: () => real.supported(),
      verify: (body) => (isAway ? away : real).verify(body),
      settle: (body) => real.settle(body),
    }
    serve(served(paywall({ ...options, facilitator, onError: () => undefined }, () => new Response('gold'))))
    const buy = await payer()
    const { answer, payment, nonce } = await buy(`${origin}/a`)
    expect([answer?.status, payment?.paid, Number(answer?.headers.get('retry-after'))]).toEqual([503, true, 5])
    isAway = false
    const again = await buy(`${origin}/a`, { nonce })
    expect([text(again.answer), again.payment?.repeated, await earned()]).toEqual(['gold', true, '0.25'])
  })

  test.each([
    ['origin', { origin: 'https://api.example.com/' }],
    ['origin', { origin: 'file:///etc' }],
    ['price', { price: '0' }],
    ['price', { price: '1e3' }],
    ['payTo', { payTo: 'shop' }],
    ['asset', { asset: { issuer: 'x', symbol: 'USDX' } }],
    ['maxTimeoutSeconds', { maxTimeoutSeconds: 3_601 }],
  ])('with a wrong %s fails at its start', async (name, wrong) => {
    const { options } = await newShop('https://api.example.com')
    const start = () => paywall({ ...options, ...wrong } as PaywallOptions, () => new Response())
    expect(start).toThrow(new RegExp(`^${name}`))
  })

  test('sells by Express and by Fastify', async () => {
    const shop = await openShop()
    const buy = await shop.payer()
    const app = express()
    app.use('/v1', expressPaywall(shop.options), (request, response) => {
      const { payment } = request as unknown as { payment: { amount: string } }
      response.send(`express ${payment.amount}`)
    })
    shop.serve(app)
    const { answer } = await buy(`${shop.origin}/v1/a?b=c`)
    expect([answer?.status, text(answer), answer?.headers.get('cache-control')]).toEqual([
      200,
      'express 0.25',
      'private, no-store',
    ])

    const instance = fastify()
    onTestFinished(() => instance.close())
    instance.get('/f', { onRequest: fastifyPaywall(shop.options) }, (request) => {
      const { payment } = request as unknown as { payment: { amount: string } }
      return `fastify ${payment.amount}`
    })
    await instance.ready()
    shop.serve((request, response) => instance.routing(request, response))
    const second = await buy(`${shop.origin}/f`)
    expect([second.answer?.status, text(second.answer)]).toEqual([200, 'fastify 0.25'])
    expect(await shop.earned()).toBe('0.5')
    expect((await fetch(`${shop.origin}/f`)).status).toBe(402)
  })
})
