// Both ends of a payment for an HTTP request (x402). The quick start runs it; docs/x402.md explains it.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
// In your app, import from '@halfkey/sdk' and '@halfkey/sdk/x402'.
import type { HalfkeyClient } from '../packages/sdk/src/index.ts'
import { type Asset, createPayer, paywall } from '../packages/sdk/src/x402/x402.ts'

/** Sells the weather on loopback, for 0.25 a request. */
async function openShop(server: HalfkeyClient, asset: Asset): Promise<{ origin: string; close(): void }> {
  const { partyId: payTo } = await server.users.create({ name: 'Shop' })
  const http = createServer(async ({ url, method = 'GET', headers }, response) => {
    const payment = headers['payment-signature']
    const given: Record<string, string> = typeof payment === 'string' ? { 'payment-signature': payment } : {}
    const answer = await sell(new Request(origin + url, { method, headers: given }))
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text())
  })
  await new Promise<void>((listening) => http.listen(0, '127.0.0.1', listening))
  const origin = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  const sell = paywall(
    { facilitator: server.x402, payTo, asset, price: '0.25', origin },
    (_, { amount }) => new Response(`sunny, for ${amount} ${asset.symbol}`),
  )
  const close = () => {
    http.close()
    http.closeAllConnections()
  }
  return { origin, close }
}

/**
 * Buys the weather with the agent's session. `server` has a secret key, `agent` the session's token.
 * @returns what was bought, and with which transaction
 */
export async function buyTheWeather(
  server: HalfkeyClient,
  agent: HalfkeyClient,
  asset: Asset,
): Promise<{ text: string; transactionId: string | undefined }> {
  const shop = await openShop(server, asset)
  try {
    const buy = createPayer({ session: agent.delegatedSessions, asset, maxAmount: '0.25' })
    const { answer, payment } = await buy(`${shop.origin}/weather?city=Paris`)
    if (answer?.status !== 200) throw new Error(`The shop answered ${answer?.status}.`)
    return { text: new TextDecoder().decode(answer.body), transactionId: payment?.transactionId }
  } finally {
    shop.close()
  }
}
