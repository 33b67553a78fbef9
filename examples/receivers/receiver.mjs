// A webhook receiver without dependencies: verifies each delivery and prints what it did.
//   HALFKEY_WEBHOOK_SECRET=whsec_… node examples/receivers/receiver.mjs
// During a rotation, give both secrets, separated by a comma.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'

const port = Number(process.env.PORT ?? 3000)
const secrets = (process.env.HALFKEY_WEBHOOK_SECRET ?? '').split(',').filter((secret) => secret !== '')
const TOLERANCE_SECONDS = 300
const BODY_BYTES_MAX = 1024 * 1024
// In production, use a table with a unique column. Write to it in the transaction that does the work.
const SEEN_MAX = 10_000
const seen = new Set()

if (secrets.length === 0) {
  console.error('Set HALFKEY_WEBHOOK_SECRET to the `secret` in the response that created the webhook.')
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

/** Returns false for an event that was handled before. */
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
    // The bytes as received: parsing and serializing them would change what was signed.
    const body = Buffer.concat(chunks)
    if (!isGenuine(request.headers, body)) {
      console.log('refused: the signature does not match')
      response.writeHead(400).end()
      return
    }
    const event = JSON.parse(body.toString())
    // Store the event before you answer: after a 2xx, Halfkey does not send it again. Do long work after the answer.
    if (!isNew(event.id)) console.log(`duplicate: ${event.type} ${event.id}`)
    else console.log(`verified: ${event.type} ${event.id} ${JSON.stringify(event.data)}`)
    response.writeHead(204).end()
  })
}).listen(port, '127.0.0.1', () => console.log(`Receiving on http://127.0.0.1:${port}/hook`))
