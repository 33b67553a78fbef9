import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ERROR_TABLE, REMEDIES } from '../../scripts/errors/pages.ts'
import { describeApi, routes } from '../../src/app.ts'
import { expectError } from '../harness/envelope.ts'
import { call, type Service, startService, type Tenant } from '../harness/harness.ts'
import { sendBytes } from '../harness/raw-http.ts'

const DOCS = new URL('../../../../docs/errors/', import.meta.url)
const codes = Object.keys(ERROR_TABLE)

describe('the pages about errors', () => {
  test('are as many as there are codes: each has an entry, and none is about a code that is not there', () => {
    expect(codes.length).toBeGreaterThan(90)
    expect(Object.keys(REMEDIES).sort()).toEqual(codes.toSorted())
    const named = new Set(routes.flatMap((route) => route.errors ?? []))
    for (const code of named) expect(codes, 'a route names an error that no table has').toContain(code)
  })

  test.each(codes)(
    'say of %s what it means, why it comes and what to do, with an example and where it occurs',
    (code) => {
      const remedy = REMEDIES[code]
      expect(remedy?.means.length).toBeGreaterThan(40)
      // Something beside the public text, which the caller has read already.
      expect(remedy?.means).not.toBe(ERROR_TABLE[code]?.[1])
      for (const list of [remedy?.causes ?? [], remedy?.fix ?? []]) {
        expect(list.join(' ').length, list.join(' ')).toBeGreaterThan(30)
        for (const line of list) expect(line, line).toMatch(/^[A-Z`“@…].*[.:`)]$|^.*\.$/s)
      }
      const page = readFileSync(new URL(`${code}.md`, DOCS), 'utf8')
      const [status, text] = ERROR_TABLE[code] as readonly [number, string]
      expect(page).toContain(`**${status}** · ${text}`)
      const [, example = ''] = /```json\n([\s\S]*?)```/.exec(page) ?? []
      const body = JSON.parse(example)
      expect([body.error, body.code]).toEqual([text, code])
      for (const detail of body.details) {
        expect(detail).toMatchObject({ code: expect.stringMatching(/^[a-z_]+$/), message: expect.stringMatching(/\S/) })
        expect(detail.docs).toMatch(new RegExp(`/docs/errors/${code}$`))
      }
      const [, where = ''] = /## Where it occurs\n\n([\s\S]*?)\n\nAll codes/.exec(page) ?? []
      expect(where.length, page).toBeGreaterThan(10)
    },
  )
})

describe('every element of details says where its error is explained', () => {
  let service: Service
  let tenant: Tenant
  beforeAll(async () => {
    service = await startService()
    tenant = await service.newTenant()
  })
  afterAll(() => service.stop())

  test('by an absolute address, at which the running service has the page', async () => {
    const publishable = await tenant.newKey({ publishable: true })
    const reader = await tenant.newKey({ scopes: ['users:read'] })
    const answers = [
      [await tenant.post('/users', { email: 'no address', surprise: 1 }), 400, 'validation_failed'],
      [await tenant.post('/users', undefined, { raw: '{' }), 400, 'malformed_json'],
      [
        await tenant.post('/users', undefined, { raw: 'x', headers: { 'content-type': 'text/plain' } }),
        400,
        'unsupported_media_type',
      ],
      [await tenant.post('/users', { appId: 'app_none' }), 404, 'not_found'],
      [await tenant.get('/users?page=0'), 400, 'validation_failed'],
      [await tenant.get('/webhooks', { key: reader }), 403, 'insufficient_scope'],
      [await tenant.post('/webhooks', { url: 'https://10.0.0.1/', events: ['*'] }), 400, 'webhook_url_blocked'],
      [await tenant.get('/users/%zz'), 400, 'malformed_request'],
    ] as const
    for (const [answer, status, code] of answers) {
      expectError(answer, status, code)
      expect(answer.body.details.length, answer.text).toBeGreaterThan(0)
      for (const { docs } of answer.body.details) {
        const { port } = new URL(service.url)
        expect(docs).toBe(`http://localhost:${port}/docs/errors/${code}`)
        const page = await call(service.url, 'GET', new URL(docs).pathname)
        expect([page.status, page.text.includes(`<h1 id="${code}">`)]).toEqual([200, true])
      }
    }
    expectError(await tenant.get('/users', { key: publishable }), 403, 'key_type_not_allowed')
  })

  test('what the HTTP parser refuses too', async () => {
    const [answer] = await sendBytes(service.url, ['GET /v1/users HTTP/1.1\r\nHost: x\r\nbroken\r\n\r\n'])
    expect(answer?.status).toBe(400)
    expect(JSON.parse(answer?.body ?? '').details[0].docs).toMatch(/\/docs\/errors\/malformed_request$/)
  })

  test('under the public URL that the operator has set', async () => {
    const shown = await startService({ HALFKEY_ROLE: 'api', HALFKEY_PUBLIC_URL: 'https://wallets.example.com' })
    try {
      const answer = await shown.admin.get('/users?page=0')
      expect(answer.body.details[0].docs).toBe('https://wallets.example.com/docs/errors/validation_failed')
    } finally {
      await shown.stop()
    }
  })

  test('as the description of the API has it', () => {
    const { components } = describeApi() as { components: { schemas: Record<string, Record<string, never>> } }
    // biome-ignore lint/suspicious/noExplicitAny: looked into by path; the contract is what the tests state
    const { items } = (components.schemas.Error as any).properties.details
    expect(items.properties.docs).toMatchObject({ type: 'string', format: 'uri' })
    expect(items.required).toContain('docs')
  })
})
