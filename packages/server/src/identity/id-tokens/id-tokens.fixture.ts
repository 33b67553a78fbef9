import { createRemoteJWKSet, type JSONWebKeySet, type JWTPayload, type JWTVerifyOptions, jwtVerify } from 'jose'
import { type Answer, call, type Service, type Tenant } from '../../../test/harness/harness.ts'
import { publicUrl } from '../../platform/config.ts'
import type { Person } from '../sessions/sessions.fixture.ts'

/** The issuer of an app, as its record says it too. */
export const issuerOf = (service: Service, appId: string) => `${publicUrl(service.deps.config)}/apps/${appId}`

/** What a verifier of an app reads below the issuer, over the address where the service listens. */
export const readPublic = (service: Service, appId: string, name: 'openid-configuration' | 'jwks.json') =>
  call(service.url, 'GET', `/apps/${appId}/.well-known/${name}`)

/** An ID token of a person; fails the test if there is none. */
export async function idTokenOf(person: Person, body: object = {}): Promise<string> {
  const answer = await person.post('/auth/id-token', body)
  if (answer.status !== 200) throw new Error(`no ID token: ${answer.text}`)
  return answer.body.data.idToken
}

/** What a verifier of an app finds in a token. It knows the app's issuer and keys, and refuses everything else. */
export async function verified(
  service: Service,
  appId: string,
  token: string,
  options: JWTVerifyOptions = {},
): Promise<JWTPayload> {
  const keys = createRemoteJWKSet(new URL(`${service.url}/apps/${appId}/.well-known/jwks.json`))
  const { payload } = await jwtVerify(token, keys, {
    issuer: issuerOf(service, appId),
    audience: appId,
    algorithms: ['RS256'],
    currentDate: service.deps.now(),
    ...options,
  })
  return payload
}

/** The `kid`s that an app publishes. */
export async function kidsOf(service: Service, appId: string): Promise<(string | undefined)[]> {
  const { body }: { body: JSONWebKeySet } = await readPublic(service, appId, 'jwks.json')
  return body.keys.map(({ kid }) => kid)
}

/** One of the three parts of a token, read without checking anything. */
export const partOf = (token: string, index: 0 | 1) =>
  JSON.parse(Buffer.from(token.split('.')[index] as string, 'base64url').toString())

/** Changes settings of an app; fails the test if they are refused. */
export async function setOpenId(tenant: Tenant, openid: object, appId = tenant.appId): Promise<Answer> {
  const answer = await tenant.patch(`/apps/${appId}`, { openid })
  if (answer.status !== 200) throw new Error(`refused: ${answer.text}`)
  return answer
}
