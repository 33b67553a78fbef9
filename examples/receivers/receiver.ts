// A webhook receiver with the SDK: verifies each delivery and prints what happened.
//   HALFKEY_WEBHOOK_SECRET=whsec_… node examples/receivers/receiver.ts
// While a secret is being changed, give both, with a comma between them.
import { createServer, type IncomingMessage } from 'node:http'
import { verifyWebhook, type WebhookEvent, WebhookVerificationError } from '../../packages/sdk/src/index.ts'

const port = Number(process.env.PORT ?? 3000)
const secrets = (process.env.HALFKEY_WEBHOOK_SECRET ?? '').split(',')
const BODY_BYTES_MAX = 1024 * 1024
// In production: a table with a unique column, written in the transaction of your own change.
const SEEN_MAX = 10_000
const seen = new Set<string>()

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > BODY_BYTES_MAX) throw new Error('the body is too large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function handle(event: WebhookEvent): void {
  if (seen.has(event.id)) {
    console.log(`again: ${event.type} ${event.id}`)
    return
  }
  const [oldest] = seen
  if (oldest !== undefined && seen.size >= SEEN_MAX) seen.delete(oldest)
  seen.add(event.id)
  // `type` decides which `data` it is. New kinds may come: what you do not know is no error.
  const who = event.type === 'user.created' ? ` ${event.data.email}` : ''
  console.log(`verified: ${event.type} ${event.id}${who}`)
}

createServer(async (request, response) => {
  try {
    // The bytes as they came, before any JSON parser. Frameworks: express.raw(), Fastify's rawBody, request.text().
    const event = await verifyWebhook(await readBody(request), request.headers, secrets)
    // Answer at once, work afterwards: whoever answers late gets the event again.
    response.writeHead(204).end()
    handle(event)
  } catch (error) {
    const reason = error instanceof WebhookVerificationError ? error.reason : 'could not be read'
    console.log(`refused: ${reason}`)
    response.writeHead(400).end()
  }
}).listen(port, '127.0.0.1', () => console.log(`Receiving on http://127.0.0.1:${port}/hook`))
