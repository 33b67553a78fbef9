import { invalid } from './errors.ts'

export type Metadata = Record<string, string>

const KEYS_MAX = 50
const BYTES_MAX = 16 * 1024

function checked(metadata: Metadata): Metadata {
  if (Object.keys(metadata).length > KEYS_MAX)
    throw invalid('metadata', `Must have at most ${KEYS_MAX} keys.`, 'too_many')
  if (Buffer.byteLength(JSON.stringify(metadata)) > BYTES_MAX)
    throw invalid('metadata', `Must be at most ${BYTES_MAX} bytes as JSON.`, 'too_large')
  return metadata
}

/** A new record's metadata. @throws validation_failed past 50 keys or 16 KiB */
export function mergeMetadata(current: Metadata, added: Metadata | undefined): Metadata {
  return added === undefined ? current : checked({ ...current, ...added })
}

/** Merges a change into the metadata, key by key; null removes a key. @throws validation_failed past 50 keys or 16 KiB */
export function changeMetadata(current: Metadata, change: Record<string, string | null> | undefined): Metadata {
  if (change === undefined) return current
  const merged = Object.entries({ ...current, ...change }).filter(
    (entry): entry is [string, string] => entry[1] !== null,
  )
  return checked(Object.fromEntries(merged))
}
