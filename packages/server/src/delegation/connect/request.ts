import type { Deps } from '../../platform/deps.ts'
import { HttpError } from '../../platform/http/errors.ts'
import { parseJson } from '../../platform/http/json.ts'
import { validator } from '../../platform/http/schema.ts'
import { checkPolicy } from '../policy/policy.ts'
import { findClient } from './client-metadata.ts'
import { type AgentDetails, AgentDetails as DetailsSchema } from './connect-schema.ts'
import { readParameters } from './parameters.ts'
import { type Connectable, DETAILS_TYPE, resourceOf } from './place.ts'
import { namesRedirect, redirectProblem } from './redirect.ts'

const STATE_CHARS_MAX = 2_000
/** RFC 6749, appendix A.5. */
const STATE = /^[\x20-\x7e]*$/
/** The base64url of a SHA-256 (RFC 7636, section 4.2). */
const CHALLENGE = /^[A-Za-z0-9_-]{43}$/

/** A request for authorization as it is stored: nothing of it comes back from the page. */
export interface AskedConnection {
  clientId: string
  clientName: string | null
  redirectUri: string
  state: string | null
  codeChallenge: string
  /** Null if the client asked for nothing in particular. */
  details: AgentDetails[number] | null
}

/** With what is stored of the secret in its link. */
export interface StoredConnection extends AskedConnection {
  secretHash: string
}

/** What a request cannot be answered for, in words for the person in front of the page. */
export interface Problem {
  problem: string
}

function readDetails(text: string | undefined): AskedConnection['details'] | Problem {
  if (text === undefined) return null
  const bytes = Buffer.from(text)
  let value: unknown
  try {
    value = parseJson(bytes)
  } catch (error) {
    if (!(error instanceof HttpError)) throw error
    return { problem: 'authorization_details is not valid JSON.' }
  }
  const [wrong] = validator(DetailsSchema)(value, bytes.length)
  if (wrong !== undefined)
    return {
      problem: `authorization_details is not a list with one entry of the type ${DETAILS_TYPE}: ${wrong.field}: ${wrong.message}`,
    }
  const [details] = value as AgentDetails
  if (details === undefined) return null
  const [refused] = checkPolicy(details.policy)
  return refused === undefined ? details : { problem: `authorization_details: ${refused.field}: ${refused.message}` }
}

/** What is wrong with the parameters that every request has alike; null for nothing. */
function formProblem(deps: Deps, appId: string, given: ReadonlyMap<string, string>): string | null {
  if (given.get('response_type') !== 'code') return 'response_type must be code.'
  if ((given.get('response_mode') ?? 'query') !== 'query') return 'response_mode must be query, or absent.'
  if (given.has('request') || given.has('request_uri')) return 'request and request_uri are not supported.'
  if (!CHALLENGE.test(given.get('code_challenge') ?? '') || given.get('code_challenge_method') !== 'S256')
    return 'code_challenge is required, with code_challenge_method=S256 (PKCE, RFC 7636).'
  if (given.get('resource') !== resourceOf(deps, appId))
    return `resource must be ${resourceOf(deps, appId)} (RFC 8707).`
  const state = given.get('state') ?? ''
  if (state.length > STATE_CHARS_MAX) return `state has more than ${STATE_CHARS_MAX} characters.`
  if (!STATE.test(state)) return 'state has characters that are not printable ASCII (RFC 6749, appendix A.5).'
  return null
}

/**
 * Reads the query of a request for authorization, and what the client says of itself. Nobody is redirected for a request that is not
 * valid: anybody can be a client, so that would be an open redirector (RFC 9700, section 4.11).
 */
export async function readRequest(
  deps: Deps,
  { appId }: Pick<Connectable, 'appId'>,
  queryText: string,
): Promise<AskedConnection | Problem> {
  const given = readParameters(queryText)
  if ('problem' in given) return given
  const form = formProblem(deps, appId, given)
  if (form !== null) return { problem: form }
  const details = readDetails(given.get('authorization_details'))
  if (details !== null && 'problem' in details) return details
  const redirectUri = given.get('redirect_uri') ?? ''
  const misplaced = redirectProblem(redirectUri)
  if (misplaced !== null) return { problem: `redirect_uri is not valid. ${misplaced}` }
  const clientId = given.get('client_id') ?? ''
  const found = await findClient(deps, clientId)
  if ('problem' in found) return { problem: `client_id is not valid: ${found.problem}.` }
  if (!namesRedirect(found.client.redirectUris, redirectUri))
    return { problem: 'redirect_uri is not one of those that the client names.' }
  return {
    clientId,
    clientName: found.client.name,
    redirectUri,
    state: given.get('state') ?? null,
    codeChallenge: given.get('code_challenge') ?? '',
    details,
  }
}
