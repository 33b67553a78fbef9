import { z } from 'zod'
import { COMMON_ERRORS } from './errors.ts'
import type { Route, UserUse } from './route.ts'
import { inlined, type JsonSchema, jsonSchema } from './schema.ts'

const ErrorEnvelope = z
  .object({
    error: z.string().meta({ description: 'A message for people. It may change.' }),
    code: z
      .string()
      .meta({ description: 'The error code, for programs. It never changes.', example: 'validation_failed' }),
    details: z.array(
      z.looseObject({
        field: z.string().optional(),
        code: z.string(),
        message: z.string(),
        docs: z.string().meta({
          format: 'uri',
          description: "The page that explains the error's `code`.",
          example: 'https://wallets.example.com/docs/errors/validation_failed',
        }),
      }),
    ),
  })
  .meta({ id: 'Error' })

/** Codes that any call may meet, by status. */
const EVERYWHERE: Record<string, string[]> = {
  400: ['validation_failed', 'malformed_json', 'malformed_request', 'payload_too_large', 'unsupported_media_type'],
  401: ['api_key_missing', 'api_key_invalid'],
  403: ['insufficient_scope', 'key_type_not_allowed', 'origin_not_allowed', 'ip_not_allowed'],
  429: ['rate_limited'],
  500: ['internal_error', 'key_service_unavailable'],
}

const STATUS_TEXT: Record<string, string> = {
  400: 'Bad request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not found',
  409: 'Conflict',
  410: 'Gone',
  429: 'Rate limited',
  500: 'Internal server error',
}

/** Moves a schema's named parts to the document's components and points at them there. */
function hoist(schema: JsonSchema, components: Record<string, JsonSchema>): JsonSchema {
  const { $defs, ...root } = schema
  for (const [name, part] of Object.entries(($defs ?? {}) as Record<string, JsonSchema>)) {
    const { id: _, ...rest } = part
    components[name] ??= JSON.parse(JSON.stringify(rest).replaceAll('#/$defs/', '#/components/schemas/'))
  }
  const { id, ...rest } = root as JsonSchema & { id?: string }
  const moved = JSON.parse(JSON.stringify(rest).replaceAll('#/$defs/', '#/components/schemas/')) as JsonSchema
  if (id === undefined) return moved
  components[id] ??= moved
  return { $ref: `#/components/schemas/${id}` }
}

function operationId(route: Route): string {
  const words = route.path
    .split(/[/:-]/)
    .filter((word) => word !== '')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
  return route.method.toLowerCase() + words.join('')
}

const ACCESS_TOKEN = { apiKey: [], accessToken: [] }
const DELEGATE_TOKEN = { apiKey: [], delegateToken: [] }
const BOUND_TOKEN = { apiKey: [], boundToken: [], proof: [] }

/** The tokens that may accompany the key. A server may omit them. */
function securityOf({ callers }: Route): object[] | undefined {
  if (callers.kind !== 'both' || callers.user === 'ignored') return undefined
  if (callers.user === 'delegate') return [DELEGATE_TOKEN, BOUND_TOKEN, { apiKey: [] }]
  if (callers.user === 'delegate_only') return [DELEGATE_TOKEN, BOUND_TOKEN]
  if (callers.user === 'owner_or_delegate') return [ACCESS_TOKEN, DELEGATE_TOKEN, BOUND_TOKEN, { apiKey: [] }]
  return [ACCESS_TOKEN, { apiKey: [] }]
}

function parameters(route: Route, components: Record<string, JsonSchema>): JsonSchema[] {
  const inPath = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
  const query = route.query === undefined ? {} : hoist(jsonSchema(route.query, 'input'), components)
  const { properties = {}, required = [] } = query as { properties?: Record<string, JsonSchema>; required?: string[] }
  const inQuery = Object.entries(properties).map(([name, schema]) => {
    const { description, ...rest } = schema
    return {
      name,
      in: 'query',
      required: required.includes(name),
      ...(description === undefined ? {} : { description }),
      schema: rest,
    }
  })
  const idempotency =
    route.method === 'POST' || route.method === 'PATCH' ? [{ $ref: '#/components/parameters/IdempotencyKey' }] : []
  const actAs =
    route.callers.kind === 'both' && (route.callers.user === 'required' || route.callers.user === 'optional')
      ? [{ $ref: '#/components/parameters/UserId' }]
      : []
  return [...inPath, ...inQuery, ...actAs, ...idempotency]
}

/** What an endpoint may be refused with: the codes by status. */
export function errorCodes(
  route: Route,
  table: Readonly<Record<string, readonly [number, string]>>,
): Record<string, string[]> {
  const codes: Record<string, string[]> = structuredClone(EVERYWHERE)
  if (route.path.includes(':') || route.body !== undefined) codes[404] = ['not_found']
  if (route.method === 'POST' || route.method === 'PATCH')
    codes[409] = ['idempotency_conflict', 'idempotency_in_progress']
  for (const code of new Set([...callerErrors(route), ...(route.errors ?? [])])) {
    const of = String(table[code]?.[0] ?? 400)
    codes[of] = [...new Set([...(codes[of] ?? []), code])]
  }
  return codes
}

function responses(
  route: Route,
  components: Record<string, JsonSchema>,
  table: Readonly<Record<string, readonly [number, string]>>,
): JsonSchema {
  const status = String(route.status ?? 200)
  const errors = Object.entries(errorCodes(route, table)).map(([of, all]) => [
    of,
    {
      description: `${STATUS_TEXT[of]}: ${all.map((code) => `\`${code}\``).join(', ')}`,
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
    },
  ])
  const success = {
    description: 'Success',
    content: {
      'application/json': { schema: hoist(jsonSchema(route.reply.schema, 'output'), components) },
      ...(route.reply.kind === 'list' ? { 'text/csv': { schema: { type: 'string' } } } : {}),
    },
  }
  return { [status]: success, ...Object.fromEntries(errors) }
}

function requestBody(schema: z.ZodType, components: Record<string, JsonSchema>): JsonSchema {
  const shape = jsonSchema(schema, 'input')
  // Where every field may be absent, so may the body. A named schema is a reference, whose target knows.
  const { required = [] } = inlined(shape) as { required?: string[] }
  return { required: required.length > 0, content: { 'application/json': { schema: hoist(shape, components) } } }
}

const TAGS: Record<string, string> = {
  auth: 'Sign-in',
  mfa: 'MFA',
  'api-keys': 'API keys',
  healthz: 'Health',
  readyz: 'Health',
  dev: 'Development',
  x402: 'Payments (x402)',
}

function tagOf(route: Route): string {
  if (/\/wallet(\/|$)/.test(route.path)) return 'Wallets'
  const family = route.path.split('/')[1] as string
  return TAGS[family] ?? family.charAt(0).toUpperCase() + family.slice(1).replaceAll('-', ' ')
}

const FOR_WHOM: Record<UserUse, string> = {
  required:
    'Acts for a user: send their access token as `Authorization: Bearer`, or, from a server, their id as `x-user-id` (scope `users:act_as`).',
  optional:
    'May act for a user: send their access token as `Authorization: Bearer`, or, from a server, their id as `x-user-id` (scope `users:act_as`).',
  own_guest: "A publishable key also needs the guest's access token as `Authorization: Bearer`.",
  ignored: '',
  delegate:
    "Acts for a delegated session: send the session's token (`dst_…`) as `Authorization: Bearer`, or, if it is bound to a key, as `Authorization: DPoP` with a proof. A secret key needs no token if the session allows `serverExecute`.",
  delegate_only:
    "Acts for a delegated session: send the session's token (`dst_…`) as `Authorization: Bearer`, or, if it is bound to a key, as `Authorization: DPoP` with a proof.",
  owner_or_delegate:
    "A publishable key also needs the owner's access token, or the session's token (`dst_…`), as `Authorization: Bearer` (`DPoP` for a bound session).",
}

function access({ callers }: Route): string {
  if (callers.kind === 'any') return 'Any valid key.'
  if (callers.kind === 'subscriber') return 'The token of a portal link.'
  if (callers.kind === 'both')
    return `Publishable key, or secret key with the scope \`${callers.scope}\`. ${FOR_WHOM[callers.user]}`.trimEnd()
  return `Secret key with the scope \`${callers.scope}\`${callers.tenantWide ? ', not bound to an app' : ''}.`
}

/** Codes beyond those that any call may meet, from who may call it. */
function callerErrors({ callers }: Route): string[] {
  if (callers.kind !== 'both' || callers.user === 'ignored') return []
  const proof = ['dpop_proof_invalid', 'dpop_proof_required']
  if (callers.user === 'delegate' || callers.user === 'delegate_only')
    return ['session_missing', 'session_invalid', ...proof]
  const session = ['session_invalid', 'session_expired', 'session_revoked', 'user_suspended', 'guest_expired']
  if (callers.user === 'owner_or_delegate') return [...session, ...proof]
  return callers.user === 'required' ? ['session_missing', ...session] : session
}

/** The API in OpenAPI 3.1, out of the route tables and the slices' error tables. */
export function openApiDocument(
  routes: readonly Route[],
  errors: Readonly<Record<string, readonly [number, string]>>,
  version: string,
): JsonSchema {
  const components: Record<string, JsonSchema> = {}
  const paths: Record<string, JsonSchema> = {}
  const table = { ...COMMON_ERRORS, ...errors }
  hoist(jsonSchema(ErrorEnvelope, 'output'), components)
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}')
    const body = route.body === undefined ? {} : { requestBody: requestBody(route.body, components) }
    const security = securityOf(route)
    const operation = {
      operationId: operationId(route),
      tags: [tagOf(route)],
      summary: route.summary,
      description: [route.description, access(route)].filter(Boolean).join('\n\n'),
      ...(security === undefined ? {} : { security }),
      parameters: parameters(route, components),
      ...body,
      responses: responses(route, components, table),
    }
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Halfkey API',
      version,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      description: 'Identity, wallets, delegated sessions and signed webhooks, self-hosted.',
    },
    servers: [{ url: '/v1' }],
    security: [{ apiKey: [] }],
    paths,
    components: {
      schemas: Object.fromEntries(Object.entries(components).sort(([a], [b]) => (a < b ? -1 : 1))),
      securitySchemes: {
        apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
        accessToken: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
        delegateToken: { type: 'http', scheme: 'bearer', bearerFormat: 'dst_…' },
        boundToken: {
          type: 'http',
          scheme: 'dpop',
          description: 'The token of a delegated session that is bound to a key (RFC 9449).',
        },
        proof: {
          type: 'apiKey',
          in: 'header',
          name: 'DPoP',
          description:
            'A proof by that key, new for every request: a JWT of the type `dpop+jwt` with `htm`, `htu`, `iat`, `jti`, `ath` and, with a body, `bodyHash`.',
        },
      },
      parameters: {
        UserId: {
          name: 'x-user-id',
          in: 'header',
          required: false,
          description:
            'The id of the user that a secret key acts for. Use it from a server, instead of an access token.',
          schema: { type: 'string' },
        },
        IdempotencyKey: {
          name: 'Idempotency-Key',
          in: 'header',
          required: false,
          description:
            'At most 255 characters. If you repeat the request within 24 hours with the same key and body, you get the first response again.',
          schema: { type: 'string', maxLength: 255 },
        },
      },
    },
  }
}
