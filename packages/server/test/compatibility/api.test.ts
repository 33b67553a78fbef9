import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { apiChanges } from '../../scripts/api-changes.ts'
import { readFixture } from './fixture.ts'

// biome-ignore lint/suspicious/noExplicitAny: a document that is changed by path
type Json = any

/** An object that contains itself. */
const record = (name: string) => ({
  type: 'object',
  properties: {
    id: { type: 'string' },
    email: { type: ['string', 'null'], format: 'email' },
    status: { type: 'string', enum: ['active', 'ended'] },
    end: { anyOf: [{ $ref: '#/components/schemas/End' }, { type: 'string' }] },
    parent: { $ref: `#/components/schemas/${name}` },
  },
  required: ['id', 'status'],
  additionalProperties: false,
})

/** An API of one operation, whose body and answer have the same schema. */
const document = (): Json => ({
  security: [{ apiKey: [] }],
  paths: {
    '/records': {
      post: {
        operationId: 'postRecords',
        parameters: [
          { $ref: '#/components/parameters/Key' },
          { name: 'page', in: 'query', schema: { type: 'string' } },
        ],
        requestBody: {
          required: false,
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Sent' } } },
        },
        responses: {
          201: {
            description: 'Success',
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Record' } } },
          },
          409: { description: 'Conflict: `already_exists`, `in_use`' },
        },
      },
    },
  },
  components: {
    schemas: {
      Record: record('Record'),
      Sent: {
        ...record('Sent'),
        properties: {
          ...record('Sent').properties,
          name: { type: 'string', maxLength: 200 },
          tags: { type: 'array', items: { type: 'string' } },
          count: { type: 'number', minimum: 0 },
        },
      },
      End: { type: 'object', properties: { at: { type: 'string' } }, required: ['at'] },
    },
    parameters: { Key: { name: 'key', in: 'header', required: false, schema: { type: 'string', maxLength: 255 } } },
  },
})

/** What a change of that API is told to break. */
function changesBy(change: (api: { document: Json; operation: Json; sent: Json; record: Json }) => void): string[] {
  const after = document()
  const { Sent: sent, Record: record } = after.components.schemas
  change({ document: after, operation: after.paths['/records'].post, sent, record })
  return apiChanges(document(), after)
}

type Change = Parameters<typeof changesBy>[0]

const BREAKING: [string, Change, string][] = [
  ['a path', ({ document: all }) => delete all.paths['/records'], 'POST /records: is gone'],
  ['a method', ({ document: all }) => delete all.paths['/records'].post, 'POST /records: is gone'],
  ['an operation id', ({ operation }) => (operation.operationId = 'makeRecord'), 'POST /records: another operationId'],
  ['a way to call', ({ operation }) => (operation.security = [{ token: [] }]), '{"apiKey":[]} is no longer enough'],
  ['a parameter', ({ operation }) => operation.parameters.pop(), 'POST /records query page: is gone'],
  ['a parameter required', ({ operation }) => (operation.parameters[1].required = true), 'query page: is required now'],
  [
    'a referenced one',
    ({ document: all }) => (all.components.parameters.Key.schema.maxLength = 9),
    'header key: lower max',
  ],
  [
    'the body required',
    ({ operation }) => (operation.requestBody.required = true),
    'POST /records body: is required now',
  ],
  ['a content type', ({ operation }) => (operation.requestBody.content = {}), 'body: application/json is gone'],
  ['a status', ({ operation }) => delete operation.responses[201], 'POST /records 201: is gone'],
  [
    'an error code',
    ({ operation }) => (operation.responses[409].description = '`in_use`'),
    '409 already_exists: is gone',
  ],
  ['a field sent', ({ sent }) => delete sent.properties.email, 'POST /records body.email: is gone'],
  ['a field newly required', ({ sent }) => sent.required.push('name'), 'POST /records body.name: is required now'],
  [
    'a new required field',
    ({ sent }) => {
      sent.properties.fresh = { type: 'string' }
      sent.required.push('fresh')
    },
    'body.fresh: is required now',
  ],
  ['a value sent', ({ sent }) => (sent.properties.status.enum = ['active']), 'body.status: value "ended" is gone'],
  ['values instead of text', ({ sent }) => (sent.properties.name.enum = ['a']), 'body.name: accepts some values only'],
  ['a type sent', ({ sent }) => (sent.properties.email.type = 'string'), 'body.email: null is no longer accepted'],
  ['a number to an integer', ({ sent }) => (sent.properties.count.type = 'integer'), 'number is no longer accepted'],
  ['an upper limit', ({ sent }) => (sent.properties.name.maxLength = 100), 'body.name: lower maxLength'],
  ['a lower limit', ({ sent }) => (sent.properties.count.minimum = 1), 'body.count: higher minimum'],
  ['a new limit', ({ sent }) => (sent.properties.tags.maxItems = 5), 'body.tags: lower maxItems'],
  ['a pattern', ({ sent }) => (sent.properties.name.pattern = '^a'), 'body.name: another pattern'],
  ['items', ({ sent }) => (sent.properties.tags.items.maxLength = 5), 'body.tags[]: lower maxLength'],
  ['unique items', ({ sent }) => (sent.properties.tags.uniqueItems = true), 'body.tags: unique items only'],
  ['an alternative sent', ({ sent }) => sent.properties.end.anyOf.pop(), 'body.end: alternative 1 is gone'],
  ['a field answered', ({ record }) => delete record.properties.email, 'POST /records 201.email: is gone'],
  ['a field now optional', ({ record }) => record.required.pop(), 'POST /records 201.status: may be absent now'],
  ['null in an answer', ({ record }) => (record.properties.id.type = ['string', 'null']), '201.id: null was never'],
  [
    'null as an alternative',
    ({ record }) => record.properties.end.anyOf.push({ type: 'null' }),
    '201.end: null was never',
  ],
  ['a type answered', ({ record }) => (record.properties.id = { type: 'number' }), '201.id: number was never answered'],
  ['any type answered', ({ record }) => (record.properties.id = {}), '201.id: any other type was never answered'],
  ['a value answered', ({ record }) => record.properties.status.enum.pop(), '201.status: value "ended" is gone'],
  ['a format answered', ({ record }) => delete record.properties.email.format, '201.email: another format'],
]

const HARMLESS: [string, Change][] = [
  ['a path', ({ document: all }) => (all.paths['/more'] = all.paths['/records'])],
  ['a status and an error code', ({ operation }) => (operation.responses[410] = { description: 'Gone: `ended`' })],
  ['an optional parameter', ({ operation }) => operation.parameters.push({ name: 'q', in: 'query', schema: {} })],
  ['a way to call', ({ operation }) => (operation.security = [{ apiKey: [] }, { token: [] }])],
  ['a field sent', ({ sent }) => (sent.properties.fresh = { type: 'string' })],
  ['a wider limit', ({ sent }) => (sent.properties.name.maxLength = 500)],
  ['a field that need not be sent', ({ sent }) => sent.required.pop()],
  [
    'a value and a type sent',
    ({ sent }) => {
      sent.properties.status.enum.push('paused')
      sent.properties.name.type = ['string', 'null']
    },
  ],
  [
    'a field answered',
    ({ record }) => {
      record.properties.fresh = { type: 'string' }
      record.required.push('fresh')
    },
  ],
  ['a value answered', ({ record }) => record.properties.status.enum.push('paused')],
  ['an alternative answered', ({ record }) => record.properties.end.anyOf.push({ type: 'object', properties: {} })],
  ['a description', ({ operation }) => (operation.description = 'Another.')],
]

describe('what breaks a client is found', () => {
  test.each(BREAKING)('%s', (_, change, told) => {
    const found = changesBy(change)
    expect(found.join('\n')).toContain(told)
    expect(found).toHaveLength(1)
  })
})

describe('an addition breaks nobody', () => {
  test.each(HARMLESS)('%s', (_, change) => expect(changesBy(change)).toEqual([]))
})

test('the API of an earlier commit has what these documents are made of', () => {
  const before = JSON.parse(readFixture('f109ad7', 'openapi.json.gz'))
  expect(apiChanges(before, before)).toEqual([])
  expect(apiChanges(before, { ...before, paths: {} }).length).toBeGreaterThan(100)
})

test('openapi.json removes and narrows nothing, unless it is listed', () => {
  const check = fileURLToPath(new URL('../../scripts/check-api.ts', import.meta.url))
  expect(() => execFileSync(process.execPath, [check], { encoding: 'utf8', stdio: 'pipe' })).not.toThrow()
})
