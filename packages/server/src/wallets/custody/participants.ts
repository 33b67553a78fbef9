import { invalid } from '../../platform/http/errors.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { encryptionKeyBytes, sealToClient } from './encryption-key.ts'
import type { SealedToClient } from './schema.ts'

const { server, device, recovery } = threshold.HOLDER_INDEX

/** Whether entries are of exactly these indices (ascending), each once. */
export function hasExactly(indices: readonly number[], entries: readonly { index: number }[]): boolean {
  const found = entries.map(({ index }) => index).sort((a, b) => a - b)
  return found.length === indices.length && found.every((index, at) => index === indices[at])
}

/**
 * The client's participants in a key generation or a resharing, by index, their keys in hex.
 * @throws validation_failed (names `participants`)
 */
export async function readParticipants(
  participants: readonly threshold.Participant[],
  purpose: threshold.SealPurpose,
): Promise<(threshold.Participant & { holder: 'device' | 'recovery' })[]> {
  const isHolder = ({ index, holder }: threshold.Participant) => threshold.HOLDER_INDEX[holder] === index
  if (!hasExactly([device, recovery], participants) || !participants.every(isHolder))
    throw invalid('participants', 'Must be index 2 with holder device, and index 3 with holder recovery.')
  const read = participants.map(({ index, holder, encryptionKey }) => ({
    index,
    holder: holder as 'device' | 'recovery',
    encryptionKey: encryptionKeyBytes(encryptionKey).toString('hex'),
  }))
  // A trial seal: an unusable key found later would waste the secrets that were created for it.
  for (const [at, { encryptionKey }] of read.entries()) {
    const about = { purpose, context: {}, field: `participants.${at}.encryptionKey` }
    await sealToClient(Buffer.from(encryptionKey, 'hex'), about, Buffer.alloc(0))
  }
  return read.sort((a, b) => a.index - b.index)
}

/** The service's subshares, each sealed to its participant. */
export async function sealSubshares(
  purpose: threshold.SealPurpose,
  subject: threshold.Subject,
  participants: readonly { index: number; encryptionKey: string }[],
  subshares: readonly threshold.Subshare[],
): Promise<({ to: number } & SealedToClient)[]> {
  return Promise.all(
    participants.map(async ({ index: to, encryptionKey: recipientKey }) => {
      const subshare = subshares.find((one) => one.to === to)
      if (subshare === undefined) throw new Error(`no subshare for ${to}`)
      const context = threshold.subshareContext(subject, { from: server, to, recipientKey })
      const about = { purpose, context, field: 'participants' }
      return { to, ...(await sealToClient(Buffer.from(recipientKey, 'hex'), about, subshare.scalar)) }
    }),
  )
}
