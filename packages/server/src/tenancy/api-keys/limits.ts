import type { ErrorDetail } from '../../platform/http/errors.ts'
import { invalid } from '../../platform/http/errors.ts'
import { type Metadata, mergeMetadata } from '../../platform/http/metadata.ts'
import type { Caller } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { allows, type KeyType } from '../../platform/security/api-key.ts'
import { canonicalRange, rangesWithin } from './addresses.ts'
import type { CreateApiKey } from './schema.ts'

/** The limits of a key. If one of them is wider than another key's, the key is wider. */
export interface KeyLimits {
  scopes: readonly string[]
  appId: Id<'app'> | null
  allowedIps: readonly string[]
  expiresAt: Date | null
}

/** The checked and normalized input for a new key. */
export interface WantedKey extends KeyLimits {
  name: string
  type: KeyType
  metadata: Metadata
}

function readRanges(entries: readonly string[]): string[] {
  const ranges = entries.map((entry, index) => {
    try {
      return canonicalRange(entry)
    } catch (error) {
      throw invalid(`allowedIps.${index}`, `Must be ${(error as Error).message}.`)
    }
  })
  const repeated = ranges.findIndex((range, index) => ranges.indexOf(range) !== index)
  if (repeated !== -1) throw invalid(`allowedIps.${repeated}`, 'Is already in the list.', 'repeated')
  return ranges
}

function readExpiry(text: string | null | undefined, now: Date): Date | null {
  if (text === null || text === undefined) return null
  const at = new Date(text)
  // The Date parser reads the 30th of February as a day in March.
  if (Number.isNaN(at.getTime()) || at.toISOString().slice(0, 19) !== text.slice(0, 19))
    throw invalid('expiresAt', 'Must be an existing date and time.')
  if (at <= now) throw invalid('expiresAt', 'Must be in the future.', 'in_the_past')
  return at
}

function readScopes(input: CreateApiKey): string[] {
  const scopes = input.scopes ?? []
  if (input.type === 'publishable' && scopes.length > 0)
    throw invalid('scopes', 'A publishable key has no scopes.', 'not_allowed')
  if (input.type === 'secret' && scopes.length === 0)
    throw invalid('scopes', 'A secret key needs at least one scope.', 'required')
  return scopes
}

/**
 * Checks what the schema cannot. `boundTo` is the app of the key that makes the call, and the default for `appId`.
 * Does not check whether the app exists. @throws validation_failed
 */
export function readKey(input: CreateApiKey, boundTo: Id<'app'> | null, now: Date): WantedKey {
  const scopes = readScopes(input)
  const appId = (input.appId === undefined ? boundTo : input.appId) as Id<'app'> | null
  if (input.type === 'publishable' && appId === null)
    throw invalid('appId', 'A publishable key must be bound to an app: send its appId.', 'required')
  return {
    name: input.name.trim().normalize('NFC'),
    type: input.type,
    scopes,
    appId,
    allowedIps: readRanges(input.allowedIps ?? []),
    expiresAt: readExpiry(input.expiresAt, now),
    metadata: mergeMetadata({}, input.metadata),
  }
}

/** The limits in which a key would be wider than the key that makes the call. Empty if there are none. */
export function widerThan(caller: Caller, wanted: KeyLimits): ErrorDetail[] {
  const details: ErrorDetail[] = []
  const wider = (field: string, message: string) => details.push({ field, code: 'wider_than_own', message })
  for (const scope of wanted.scopes)
    if (!allows(caller.scopes, scope)) wider('scopes', `Your own key does not have the scope ${scope}.`)
  if (caller.appId !== null && wanted.appId === null) wider('appId', 'Your own key is bound to an app.')
  if (caller.expiresAtMs !== null && (wanted.expiresAt === null || wanted.expiresAt.getTime() > caller.expiresAtMs)) {
    wider('expiresAt', `Your own key expires at ${new Date(caller.expiresAtMs).toISOString()}.`)
  }
  if (!rangesWithin(wanted.allowedIps, caller.allowedIps))
    wider('allowedIps', `Your own key works from ${caller.allowedIps.join(', ')} only.`)
  return details
}
