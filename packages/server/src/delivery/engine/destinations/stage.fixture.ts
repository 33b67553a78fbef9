// Destinations as tests see them: a server that records and can misbehave, in front of moto or alone.
import { createServer, request as forwardRequest, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Moto } from '../../../../test/harness/moto.ts'
import { newId } from '../../../platform/ids.ts'

export interface Request {
  method: string
  path: string
  headers: IncomingHttpHeaders
  body: string
}

interface Scripted {
  status: number
  body: string
}

/** A server between Halfkey and a destination. */
interface Front {
  url: string
  /** All requests so far. */
  requests: Request[]
  /** Those that were not answered from the script. */
  passed: Request[]
  /** The next requests get these answers, one each. */
  script: Scripted[]
  /** While it is set, requests wait. */
  hold: Promise<void> | null
  [Symbol.asyncDispose](): Promise<void>
}

function forward(origin: string, { method, path, headers, body }: Request, response: ServerResponse): void {
  // With the Host that was signed.
  forwardRequest(`${origin}${path}`, { method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 500, answer.headers)
    answer.pipe(response)
  }).end(body)
}

/** @param behind where requests go; without it, each is answered by `usual` */
async function startFront(usual: string, behind: string | null): Promise<Front> {
  const server = createServer(async (incoming, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk)
    const body = Buffer.concat(chunks).toString()
    const request = { method: incoming.method ?? '', path: incoming.url ?? '', headers: incoming.headers, body }
    front.requests.push(request)
    await front.hold
    const scripted = front.script.shift()
    if (scripted !== undefined) return void response.writeHead(scripted.status).end(scripted.body)
    front.passed.push(request)
    if (behind === null) response.writeHead(200).end(usual)
    else forward(behind, request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const front: Front = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: [],
    passed: [],
    script: [],
    hold: null,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return front
}

/** A destination for one webhook. */
export interface Stage {
  front: Front
  /** Where the events go, as `POST /webhooks` takes it. */
  target: { url: string } | { destination: Record<string, unknown> }
  /** The same on another host. */
  targetOn(origin: string): Record<string, unknown>
  /** A secret of the target that nothing may show; null if it has none. */
  secret: string | null
  /** The bodies that arrived, in no order. */
  arrived(): Promise<string[]>
}

/** The three kinds of destination. Each call is a new one. */
export const STAGES = { http: onHttp, sqs: onQueue, s3: onBucket }

async function onHttp(): Promise<Stage> {
  const front = await startFront('', null)
  return {
    front,
    target: { url: `${front.url}/hook` },
    targetOn: (origin) => ({ url: `${origin}/hook` }),
    secret: null,
    arrived: async () => front.passed.map(({ body }) => body),
  }
}

const FAKE = { accessKeyId: 'AKIAFAKE', secretAccessKey: 's3cr3t/of+the+fake=key' }
const REGION = 'eu-central-1'

/** @param name of the queue; '.fifo' at its end makes it one */
export async function onQueue(moto: Moto | null, name: string = newId('job')): Promise<Stage> {
  const front = await startFront('{"MessageId":"1"}', moto?.url ?? null)
  const access = moto?.access ?? FAKE
  const attributes = name.endsWith('.fifo') ? { FifoQueue: 'true' } : {}
  await moto?.sqs('CreateQueue', { QueueName: name, Attributes: attributes })
  const path = `/123456789012/${name}`
  const targetOn = (origin: string) => ({
    destination: { type: 'sqs', queueUrl: `${origin}${path}`, region: REGION, ...access },
  })
  const taken: string[] = []
  return {
    front,
    target: targetOn(front.url),
    targetOn,
    secret: access.secretAccessKey,
    async arrived() {
      if (moto === null) return front.passed.map(({ body }) => JSON.parse(body).MessageBody)
      for (;;) {
        const { Messages = [] } = await moto.sqs('ReceiveMessage', {
          QueueUrl: `${moto.url}${path}`,
          MaxNumberOfMessages: 10,
        })
        if (Messages.length === 0) return taken
        taken.push(...Messages.map(({ Body }: { Body: string }) => Body))
      }
    },
  }
}

const linesOf = (object: string) => object.split('\n').slice(0, -1)

async function onBucket(moto: Moto | null): Promise<Stage> {
  const front = await startFront('', moto?.url ?? null)
  const access = moto?.access ?? FAKE
  const bucket = newId('job').replace('_', '-')
  const location = `<CreateBucketConfiguration><LocationConstraint>${REGION}</LocationConstraint></CreateBucketConfiguration>`
  await moto?.call('s3', `/${bucket}`, { method: 'PUT', body: location })
  const targetOn = (endpoint: string) => ({
    destination: { type: 's3', bucket, prefix: 'halfkey/events/', region: REGION, endpoint, ...access },
  })
  return {
    front,
    target: targetOn(front.url),
    targetOn,
    secret: access.secretAccessKey,
    async arrived() {
      if (moto === null)
        return [...new Map(front.passed.map(({ path, body }) => [path, body])).values()].flatMap(linesOf)
      const list = await moto.call('s3', `/${bucket}`)
      const keys = [...list.matchAll(/<Key>([^<]+)</g)].map(([, key]) => key)
      const objects = await Promise.all(keys.map((key) => moto.call('s3', `/${bucket}/${key}`)))
      return objects.flatMap(linesOf)
    },
  }
}
