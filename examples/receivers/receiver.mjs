// A webhook receiver without dependencies: verifies each delivery and prints what happened.
//   HALFKEY_WEBHOOK_SECRET=whsec_… node examples/receivers/receiver.mjs
// While a secret is being changed, give both, with a comma between them.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'

const port = Number(process.env.PORT ?? 3000)
const secrets = (process.env.HALFKEY_WEBHOOK_SECRET ?? '').split(',').filter((secret) => secret !== '')
const TOLERANCE_SECONDS = 300
const BODY_BYTES_MAX = 1024 * 1024
// In production: a table with a unique column, written in the transaction of your own change.
const SEEN_MAX = 10_000
const seen = new Set()

if (secrets.length === 0) {
  console.error("Set HALFKEY_WEBHOOK_SECRET to the `secret` of the webhook's creation.")
  process.exit(78)
}

function isGenuine(headers, body) {
  const timestamp = String(headers['x-service-timestamp'] ?? '')
  if (!/^\d{1,12}$/.test(timestamp)) return false
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_SECONDS) return false
  const given = Buffer.from(String(headers['x-service-signature'] ?? ''))
  return secrets.some((secret) => {
    const mac = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex')
    const expected = Buffer.from(`sha256=${mac}`)
    return given.length === expected.length && timingSafeEqual(given, expected)
  })
}

/** False for an event that was handled before. */
function isNew(id) {
  if (seen.has(id)) return false
  if (seen.size >= SEEN_MAX) seen.delete(seen.values().next().value)
  seen.add(id)
  return true
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
    const body = Buffer.concat(chunks)
    if (!isGenuine(request.headers, body)) {
      console.log('refused: the signature does not fit')
      response.writeHead(400).end()
      return
    }
    // Answer at once, work afterwards: whoever answers late gets the event again.
    response.writeHead(204).end()
    const event = JSON.parse(body.toString())
    if (!isNew(event.id)) console.log(`again: ${event.type} ${event.id}`)
    else console.log(`verified: ${event.type} ${event.id} ${JSON.stringify(event.data)}`)
  })
}).listen(port, '127.0.0.1', () => console.log(`Receiving on http://127.0.0.1:${port}/hook`))
