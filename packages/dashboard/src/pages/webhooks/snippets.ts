import type { DeliveryWithPayload } from '@halfkey/sdk'

const LOOPBACK = /^(localhost|127\.|\[::1\])/
const PORT_DEFAULT = '3000'

/** A receiver for `receiver.mjs` that verifies deliveries. It listens on the port of a local URL. */
export function receiverSnippet(url: string): string {
  const known = URL.canParse(url) ? new URL(url) : null
  const port = known !== null && LOOPBACK.test(known.hostname) && known.port !== '' ? known.port : PORT_DEFAULT
  return `// The SDK is not on npm yet. In a checkout of Halfkey: cd packages/sdk && npm pack
// In the folder of this file: npm install <path to halfkey-sdk-….tgz>
// HALFKEY_WEBHOOK_SECRET='whsec_…' node receiver.mjs
import { createServer } from 'node:http'
import { verifyWebhook } from '@halfkey/sdk'

const secret = process.env.HALFKEY_WEBHOOK_SECRET

createServer(async (request, response) => {
  // Use the raw bytes: JSON that was parsed and serialised again does not verify.
  const rawBody = Buffer.concat(await request.toArray())
  try {
    const event = await verifyWebhook(rawBody, request.headers, secret)
    // Respond first, then do the work. The same event can arrive twice, with the same id.
    response.writeHead(204).end()
    console.log(event.type, event.id, event.data)
  } catch (error) {
    console.error(error.message)
    response.writeHead(400).end()
  }
}).listen(${port}, () => console.log('Listening on port ${port}'))
`
}

/** The body of a delivery, byte for byte: the server signs this same serialisation. */
export function sentBody({ payload }: Pick<DeliveryWithPayload, 'payload'>): string | null {
  return payload === null || payload === undefined ? null : JSON.stringify(payload)
}

/** A text as one word of a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

/** Lines for a terminal that print the signature of the last attempt, from the secret alone; null without a body. */
export function verifySnippet(delivery: DeliveryWithPayload): string | null {
  const body = sentBody(delivery)
  const last = delivery.attempts.at(-1)
  if (body === null || last === undefined) return null
  return `# For the newest attempt. Set HALFKEY_WEBHOOK_SECRET to the full secret, including whsec_.
TIMESTAMP=${Math.floor(Date.parse(last.at) / 1000)}
BODY=${quoted(body)}
printf '%s.%s' "$TIMESTAMP" "$BODY" | openssl dgst -sha256 -hmac "$HALFKEY_WEBHOOK_SECRET" -r`
}
