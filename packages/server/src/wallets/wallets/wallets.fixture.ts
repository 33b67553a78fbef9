import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { expect } from 'vitest'
import type { Answer } from '../../../test/harness/harness.ts'
import type { Person } from '../../identity/sessions/sessions.fixture.ts'

/** A key that a user keeps. */
export interface WalletKey {
  /** Raw, hex. */
  publicKey: string
  /** Ed25519 over the bytes; of text, the UTF-8 ones. */
  sign(message: string | Buffer): Buffer
}

/** Raw, hex, of a public key. */
const rawHex = (key: KeyObject) => key.export({ type: 'spki', format: 'der' }).subarray(-32).toString('hex')

/** A new Ed25519 key. */
export function newWalletKey(): WalletKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  return { publicKey: rawHex(publicKey), sign: (message) => sign(null, Buffer.from(message), privateKey) }
}

/** Who calls: a person's session, or a server that acts for one. */
export type Actor = Pick<Person, 'post'>

/** A challenge for a key. */
export async function challengeFor(
  actor: Actor,
  key: Pick<WalletKey, 'publicKey'>,
): Promise<{ challengeId: string; message: string; expiresAt: string }> {
  const body = { custody: 'self_custody', publicKey: key.publicKey }
  const answer = await actor.post('/users/me/wallet/challenge', body)
  expect(answer.status, answer.text).toBe(201)
  return answer.body.data
}

/** A body with the right answer to a new challenge. */
export async function proven(actor: Actor, key: WalletKey): Promise<Record<string, string>> {
  const { challengeId, message } = await challengeFor(actor, key)
  const proof = key.sign(message).toString('hex')
  return { custody: 'self_custody', publicKey: key.publicKey, challengeId, proof }
}

/** Creates a wallet, embedded unless `body` says otherwise. */
export async function newWallet(actor: Actor, body: object = {}): Promise<Answer['body']> {
  const answer = await actor.post('/users/me/wallet', body)
  expect(answer.status, answer.text).toBe(201)
  return answer.body.data
}
