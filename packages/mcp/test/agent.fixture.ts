import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { onTestFinished } from 'vitest'
import {
  BOB,
  type Holder,
  newHolder,
  newSession,
  type Session,
  transfers,
} from '../../server/src/delegation/delegated.fixture.ts'
import type { Service, Tenant } from '../../server/test/harness/harness.ts'

export const MAIN = fileURLToPath(new URL('../src/main.ts', import.meta.url))

/** A result of a tool, as tests look at it. */
interface Called {
  isError: boolean
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: results are looked into by path; the contract is what the tests state
  data: any
}

/** A client of the MCP's own SDK that has started the server as a process of its own. */
interface Connected {
  client: Client
  call(name: string, args?: object): Promise<Called>
  /** What the server wrote beside the protocol. */
  said(): string
}

export interface ConnectOptions {
  env: Record<string, string>
  /** `legacy`: as clients of 2025 begin. `auto`: as those of 2026 do. */
  mode?: 'legacy' | 'auto'
  /** Instead of the sources: a program and its arguments. */
  command?: readonly [string, ...string[]]
}

/** Starts the server over stdio and connects. Both end with the test. */
export async function connect({ env, mode = 'auto', command = [process.execPath, MAIN] }: ConnectOptions) {
  const [program, ...args] = command
  const transport = new StdioClientTransport({ command: program, args, env, stderr: 'pipe' })
  let errors = ''
  transport.stderr?.on('data', (chunk: Buffer) => {
    errors += chunk.toString()
  })
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
  await client.connect(transport)
  onTestFinished(() => client.close())
  const connected: Connected = { ...callsOf(client), said: () => errors }
  return connected
}

/** The calls of a client that is connected. */
export function callsOf(client: Client): Omit<Connected, 'said'> {
  return {
    client,
    async call(name, given = {}) {
      const result = await client.callTool({ name, arguments: given as Record<string, unknown> })
      const [content] = result.content as { type: string; text: string }[]
      const text = content?.text ?? ''
      return { isError: result.isError === true, text, data: result.structuredContent }
    },
  }
}

/** The environment of an agent's server. */
export const envOf = (url: string, { token }: Pick<Session, 'token'>) => ({ HALFKEY_URL: url, HALFKEY_TOKEN: token })

export interface Scene {
  tenant: Tenant
  ada: Holder
  session: Session
  agent: Connected
}

/** Somebody with 100 USDX, whose agent may spend 10 of them if no policy is given, and its connected server. */
export async function begin(service: Service, policy?: (ada: Holder) => object, more: object = {}): Promise<Scene> {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  await ada.receive('100')
  const session = await newSession(service, tenant, ada, {
    name: 'Shopping agent',
    policy: policy?.(ada) ?? transfers(ada, '10'),
    ...more,
  })
  return { tenant, ada, session, agent: await connect({ env: envOf(service.url, session) }) }
}

export const completed = async (tenant: Tenant): Promise<number> =>
  (await tenant.get('/transactions?status=completed')).body.total

/** Arguments of a payment to Bob. */
export const pay = (amount: unknown, more: object = {}) => ({ to: BOB, amount, symbol: 'USDX', ...more })

/** A command that creates a note. */
export const note = (author: string, text: string) => ({
  create: { templateId: 'Note:Note', arguments: { author, text } },
})

/** A proxy that passes requests on, and, while it loses, breaks the connection in place of the answer to an execute. */
export async function startLosingProxy(target: string): Promise<{ url: string; loses(on: boolean): void }> {
  let isLosing = false
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const headers = Object.fromEntries(
      Object.entries(request.headers).filter(([name]) => !['host', 'connection', 'content-length'].includes(name)),
    ) as Record<string, string>
    const body = chunks.length === 0 ? {} : { body: Buffer.concat(chunks) }
    const answer = await fetch(target + request.url, { method: request.method ?? 'GET', headers, ...body })
    const text = await answer.text()
    if (isLosing && request.url?.endsWith('/execute')) request.socket.destroy()
    else response.writeHead(answer.status, { 'content-type': 'application/json' }).end(text)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    loses: (on) => {
      isLosing = on
    },
  }
}
