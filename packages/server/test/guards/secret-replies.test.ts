import { expect, test } from 'vitest'
import { z } from 'zod'
import { entrancesOf, routes } from '../../src/app.ts'
import type { Config } from '../../src/platform/config.ts'
import type { Route } from '../../src/platform/http/route.ts'

/** How fields are called that may hold something of use to whoever reads it. */
const MAY_BE_SECRET =
  /(token|secret|password|codes?|links?|urls?|uri|keys?|shares?|challenge|challengeid|nonce|seed|proof|signature|svg|cookie|ticket)$/i

/** Fields with such a name that open nothing, by name alone or for one endpoint, with the reason. */
const OPENS_NOTHING: Readonly<Record<string, string>> = {
  authUrl: 'a page of the app',
  allowedRedirectUrls: 'pages of the app, which everybody visits',
  callbackUrl: 'where providers send browsers',
  emailCode: 'whether members sign in by email',
  signInUrl: 'the page on which members sign in',
  challenge: 'the digest of a document: only the passkey makes something of it',
  challengeId: 'names a challenge, which counts for the session that asked, together with a proof',
  'code DELETE /apps/:id': 'of a test address: a setting of the app',
  'code DELETE /apps/:id/logo': 'of a test address: a setting of the app',
  'code GET /apps': 'of a test address: a setting of the app',
  'code GET /apps/:id': 'of a test address: a setting of the app',
  'code PATCH /apps/:id': 'of a test address: a setting of the app',
  'code POST /apps': 'of a test address: a setting of the app',
  'code POST /apps/:id/logo': 'of a test address: a setting of the app',
  'code POST /delegated-sessions/:id/execute': 'of a denial',
  'code POST /wallets/:id/transfer-offers/:offerId/accept': 'of a denial',
  'code POST /wallets/:id/transfer-offers/:offerId/reject': 'of a denial',
  'code POST /wallets/:id/transfer-offers/:offerId/withdraw': 'of a denial',
  'code POST /policies/simulate': 'of a denial',
  'code POST /policies/validate': 'of a warning',
  'code GET /agent-requests/:id': 'of a warning',
  'code GET /custom-domains/:id/plan': 'of a step',
  'code GET /delegated-sessions/:id/denials': 'of a denial',
  'code GET /delegated-sessions/me/transactions': 'of an error',
  'code GET /delegated-sessions/me/transactions/:id': 'of an error',
  'code GET /denials': 'of a denial',
  'code GET /jobs/:id': 'of an error',
  'code GET /transactions': 'of an error',
  'code GET /transactions/:id': 'of an error',
  'code GET /users/bulk/:id': 'of an error',
  'code POST /users/bulk': 'of an error',
  'code POST /webhooks/:id/deliveries/bulk': 'of an error',
  'code POST /webhooks/:id/recover': 'of an error',
  heldByKey: 'the `orderingKey` of another delivery',
  jwksUri: 'public keys of an issuer',
  'key GET /billing/usage': 'names what is metered',
  'keys GET /mpc/config': 'public keys',
  'link GET /approvals': 'of a page that asks for the owner’s passkey',
  'link GET /approvals/:id': 'of a page that asks for the owner’s passkey',
  'link GET /delegated-sessions/me/transactions/:id': 'of a page that asks for the owner’s passkey',
  'link POST /approvals/:id/approve': 'of a page that asks for the owner’s passkey',
  'link POST /approvals/:id/deny': 'of a page that asks for the owner’s passkey',
  'link POST /delegated-sessions/:id/execute': 'of a page that asks for the owner’s passkey',
  'link POST /wallets/:id/transfer-offers/:offerId/accept': 'of a page that asks for the owner’s passkey',
  'link POST /wallets/:id/transfer-offers/:offerId/reject': 'of a page that asks for the owner’s passkey',
  'link POST /wallets/:id/transfer-offers/:offerId/withdraw': 'of a page that asks for the owner’s passkey',
  logoUrl: 'a picture',
  'nonce GET /approvals/:id': 'a part of the document that the owner approves',
  passkey: 'settings of passkeys',
  passkeys: 'how many there are',
  privacyUrl: 'a page of the app, which everybody visits',
  publicKey: 'public',
  queueUrl: 'where a queue is; to write there needs a key',
  reachesKey: 'whether a way to sign in reaches the key',
  serverSignatureShare: 'a part of one signature over one digest; worthless without the other part',
  'shares GET /wallets/:id/custody': 'who holds which, without what is in it',
  'signature GET /mpc/config': 'over public keys',
  statusCode: 'of HTTP',
  supportUrl: 'a page of the app, which everybody visits',
  termsUrl: 'a page of the app, which everybody visits',
  testCodes: 'fixed codes of made-up addresses: settings of the app, in clear there, and not for viewers and support',
  tokenUrl: 'where a receiver gives out tokens',
  'url GET /apps': 'of the app’s server that is asked before sign-ins; its secret is never shown again',
  'url POST /apps': 'of the app’s server that is asked before sign-ins; its secret is never shown again',
  'url GET /apps/:id': 'of the app’s server that is asked before sign-ins; its secret is never shown again',
  'url PATCH /apps/:id': 'of the app’s server that is asked before sign-ins; its secret is never shown again',
  'url DELETE /apps/:id': 'of the app’s server that is asked before sign-ins; its secret is never shown again',
  'url POST /apps/:id/logo': 'of the app’s server that is asked before sign-ins; its secret is never shown again',
  'url DELETE /apps/:id/logo': 'of the app’s server that is asked before sign-ins; its secret is never shown again',
  'url GET /webhooks': 'of a receiver; its secret is never shown again',
  'url GET /webhooks/:id': 'of a receiver; its secret is never shown again',
  'url PATCH /webhooks/:id': 'of a receiver; its secret is never shown again',
  'url DELETE /webhooks/:id': 'of a receiver; its secret is never shown again',
  verifyingShare: 'public',
  webhookUrl: 'of a receiver',
}

const EVERY_ROUTE = [
  ...new Set([...routes, ...entrancesOf({ env: 'development' } as Config).flatMap((entrance) => entrance.routes)]),
]

const nameOf = ({ method, path }: Route) => `${method} ${path}`

/** The names of all fields in a schema, however deep. */
function* fieldsOf(schema: unknown): Generator<string> {
  if (typeof schema !== 'object' || schema === null) return
  for (const [keyword, inner] of Object.entries(schema)) {
    if (keyword === 'properties') yield* Object.keys(inner)
    yield* fieldsOf(inner)
  }
}

/** The fields of an endpoint's answer that may be secret by their name. */
function suspectsOf({ reply }: Route): string[] {
  const fields = new Set(fieldsOf(z.toJSONSchema(reply.schema, { unrepresentable: 'any', io: 'output' })))
  return [...fields].filter((field) => MAY_BE_SECRET.test(field))
}

test.for(EVERY_ROUTE.filter(({ secret }) => secret !== true).map((route) => [nameOf(route), route] as const))(
  '%s is marked as secret, or each field that may be one opens nothing, and the reason is written down',
  ([name, route]) => {
    const unexplained = suspectsOf(route).filter(
      (field) => OPENS_NOTHING[field] === undefined && OPENS_NOTHING[`${field} ${name}`] === undefined,
    )
    expect(unexplained, `set \`secret: true\` on ${name}, or say in OPENS_NOTHING why nobody gains by it`).toEqual([])
  },
)

test('nothing is explained that is not there', () => {
  const open = EVERY_ROUTE.filter(({ secret }) => secret !== true)
  const there = open.flatMap((route) => suspectsOf(route).flatMap((field) => [field, `${field} ${nameOf(route)}`]))
  expect(Object.keys(OPENS_NOTHING).filter((name) => !there.includes(name))).toEqual([])
})

test('endpoints that give out tokens, keys and links are marked', () => {
  const secret = EVERY_ROUTE.filter((route) => route.secret).map(nameOf)
  for (const name of ['POST /auth/refresh', 'POST /api-keys', 'POST /delegated-sessions', 'POST /members'])
    expect(secret).toContain(name)
})
