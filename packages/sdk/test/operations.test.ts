import { readFileSync } from 'node:fs'
import { describe, expect, expectTypeOf, test } from 'vitest'
import type { components, paths } from '../src/api.gen.ts'
import type { Fetch } from '../src/attempt.ts'
import { createClient, type HalfkeyClient } from '../src/client.ts'
import type { User } from '../src/models.ts'
import type { List } from '../src/paging.ts'

type Method = (...given: unknown[]) => Promise<unknown> | AsyncIterable<unknown>

/** Every function of the client, by its path in it. */
function methodsOf(part: object, prefix = ''): [string, Method][] {
  return Object.entries(part).flatMap(([name, value]) => {
    const path = prefix === '' ? name : `${prefix}.${name}`
    if (typeof value === 'function') return [[path, value as Method] as [string, Method]]
    return typeof value === 'object' ? methodsOf(value, path) : []
  })
}

/** What a method sends first. Texts do for all of its arguments: nothing looks into them before they are sent. */
async function requestOf(name: string): Promise<string> {
  const sent: string[] = []
  const recording: Fetch = async (url, init) => {
    sent.push(`${init.method} ${new URL(url).pathname.replace('/v1', '')}`)
    return Response.json({ data: [], hasMore: false, contracts: [], nextCursor: null })
  }
  const options = { baseUrl: 'http://halfkey.example', apiKey: 'hk_sk_x', trustOnFirstUse: true, fetch: recording }
  const client = createClient(options)
  const method = methodsOf(client).find(([path]) => path === name)?.[1] as Method
  const result = method('id~1', 'id~2', 'id~3')
  if (Symbol.asyncIterator in result && !('then' in result))
    await result[Symbol.asyncIterator]()
      .next()
      .catch(() => {})
  // What is sent back here is not signed.
  else
    await Promise.resolve(result).catch((error) =>
      expect([name, error.code]).toEqual(['mpc.config', 'service_unverified']),
    )
  expect(sent.length, name).toBe(1)
  return sent[0] as string
}

const document = JSON.parse(readFileSync(new URL('../../server/openapi.json', import.meta.url), 'utf8')) as {
  paths: Record<string, Record<string, { parameters?: { in: string; name: string }[] }>>
}
const client = createClient({ baseUrl: 'http://halfkey.example', apiKey: 'hk_sk_x' })
const names = methodsOf(client).map(([name]) => name)

/** `METHOD /path/{}`, with ids told apart by their order. */
function operations(): string[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => {
      let ids = 0
      return `${method.toUpperCase()} ${path.replace(/\{\w+\}/g, () => `id~${++ids}`)}`
    }),
  )
}

describe('the client', () => {
  test('has a method for exactly the operations of the API’s description', async () => {
    const sent = new Set<string>()
    for (const name of names) sent.add(await requestOf(name))
    expect(operations().length).toBeGreaterThanOrEqual(70)
    expect([...sent].toSorted()).toEqual(operations().toSorted())
  })

  test('has one method for each operation, except methods that add something', async () => {
    const byOperation = Map.groupBy(
      await Promise.all(names.map(async (name) => ({ name, operation: await requestOf(name) }))),
      ({ operation }) => operation,
    )
    const several = [...byOperation.values()].filter((all) => all.length > 1).map((all) => all.map(({ name }) => name))
    expect(several).toEqual([
      ['delegatedSessions.execute', 'delegatedSessions.dryRun'],
      ['delegatedSessions.query', 'delegatedSessions.queryAll'],
      ['events.list', 'events.follow'],
    ])
  })

  test('has the types of the API’s description', () => {
    type Sent = NonNullable<paths['/users']['post']['requestBody']>['content']['application/json']
    expectTypeOf<NonNullable<Parameters<HalfkeyClient['users']['create']>[0]>>().toEqualTypeOf<Sent>()
    expectTypeOf<Awaited<ReturnType<HalfkeyClient['users']['create']>>>().toEqualTypeOf<components['schemas']['User']>()
    expectTypeOf<ReturnType<HalfkeyClient['users']['list']>>().toEqualTypeOf<List<User>>()
    // @ts-expect-error a field that the API does not know
    const wrong: Parameters<HalfkeyClient['users']['create']>[0] = { mail: 'ada@example.com' }
    expect(wrong).toBeDefined()
  })
})
