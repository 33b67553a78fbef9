// A webhook receiver with the SDK: verifies each delivery and prints what it did.
//   HALFKEY_WEBHOOK_SECRET=whsec_… npx node examples/receivers/receiver.ts
// It needs Node 22.18 or later. In a checkout, npx uses the Node that comes with the packages.
// During a rotation, give both secrets, separated by a comma.
import { createServer, type IncomingMessage } from 'node:http'
import { verifyWebhook, type WebhookEvent, WebhookVerificationError } from '../../packages/sdk/src/index.ts'

const port = Number(process.env.PORT ?? 3000)
const secrets = (process.env.HALFKEY_WEBHOOK_SECRET ?? '').split(',')
const BODY_BYTES_MAX = 1024 * 1024
// In production, use a table with a unique column. Write to it in the transaction that does the work.
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
    console.log(`duplicate: ${event.type} ${event.id}`)
    return
  }
  const [oldest] = seen
  if (oldest !== undefined && seen.size >= SEEN_MAX) seen.delete(oldest)
  seen.add(event.id)
  // `type` decides the type of `data`. Ignore types that you do not know.
  const who = event.type === 'user.created' ? ` ${event.data.email}` : ''
  console.log(`verified: ${event.type} ${event.id}${who}`)
}

createServer(async (request, response) => {
  try {
    // The bytes as received, before any JSON parser: the signature covers them.
    const event = await verifyWebhook(await readBody(request), request.headers, secrets)
    // Store the event before you answer: after a 2xx, Halfkey does not send it again. Do long work after the answer.
    handle(event)
    response.writeHead(204).end()
  } catch (error) {
    const reason = error instanceof WebhookVerificationError ? error.reason : 'the body cannot be read'
    console.log(`refused: ${reason}`)
    response.writeHead(400).end()
  }
}).listen(port, '127.0.0.1', () => console.log(`Receiving on http://127.0.0.1:${port}/hook`))
