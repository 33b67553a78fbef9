// A webhook receiver without dependencies: verifies each delivery and prints what happened.
//   HALFKEY_WEBHOOK_SECRET=whsec_… node examples/receiver.mjs
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'

const port = Number(process.env.PORT ?? 3000)
const secret = process.env.HALFKEY_WEBHOOK_SECRET
const TOLERANCE_SECONDS = 300
const BODY_BYTES_MAX = 1024 * 1024
const seen = new Set()

if (!secret) {
  console.error("Set HALFKEY_WEBHOOK_SECRET to the `secret` of the webhook's creation.")
  process.exit(78)
}

function verify(headers, body) {
  const timestamp = String(headers['x-service-timestamp'] ?? '')
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_SECONDS) return false
  const expected = Buffer.from(`sha256=${createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')}`)
  const given = Buffer.from(String(headers['x-service-signature'] ?? ''))
  return given.length === expected.length && timingSafeEqual(given, expected)
}

createServer((request, response) => {
  const chunks = []
  let bytes = 0
  request.on('data', (chunk) => {
    bytes += chunk.length
    if (bytes > BODY_BYTES_MAX) request.destroy()
    else chunks.push(chunk)
  })
  request.on('end', () => {
    // The bytes as they came: parsing and printing them again would change what was signed.
    const body = Buffer.concat(chunks).toString()
    if (!verify(request.headers, body)) {
      console.log('refused: the signature does not fit')
      response.writeHead(401).end()
      return
    }
    // Answer at once, work afterwards; a delivery may come twice, its event id stays the same.
    response.writeHead(204).end()
    const event = JSON.parse(body)
    const again = seen.has(event.id) ? ' (again)' : ''
    seen.add(event.id)
    console.log(`verified: ${event.type} ${event.id}${again} ${JSON.stringify(event.data)}`)
  })
}).listen(port, '127.0.0.1', () => console.log(`Receiving on http://127.0.0.1:${port}/hook`))
