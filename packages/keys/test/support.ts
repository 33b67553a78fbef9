import { createPublicKey, verify } from 'node:crypto'
import * as keys from '../src/index.ts'

export const SIGNERS = { threshold: 2, total: 3 } as const
export const MESSAGE = keys.utf8('the message that is signed')

/** The refusal that something ends in; anything else, success included, fails the test. */
export function refusal(run: () => unknown): keys.ShareError {
  let result: unknown
  try {
    result = run()
  } catch (error) {
    if (error instanceof keys.ShareError) return error
    throw error
  }
  throw new Error(`This was not refused, and gave ${JSON.stringify(result)}.`)
}

/** The same of a promise. */
export async function refusalOf(promise: Promise<unknown>): Promise<keys.ShareError> {
  const outcome = await promise.then(
    (result) => ({ result }),
    (error: unknown) => ({ error }),
  )
  return refusal(() => {
    if ('error' in outcome) throw outcome.error
    return outcome.result
  })
}

/** All ways in which one bit of some bytes can be wrong. */
export function* flips(bytes: Uint8Array): Generator<Uint8Array<ArrayBuffer>> {
  for (let bit = 0; bit < bytes.length * 8; bit += 1) {
    const flipped = new Uint8Array(bytes)
    flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7))
    yield flipped
  }
}

/** Whether OpenSSL, which knows nothing of thresholds, takes it for a plain Ed25519 signature. */
export function isPlainEd25519(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean {
  const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), publicKey])
  return verify(null, message, createPublicKey({ key: der, format: 'der', type: 'spki' }), signature)
}

/** Draws nonces for some shares, and says who signs what. */
export function begin(sharing: keys.Sharing, shares: readonly keys.Share[], message: Uint8Array = MESSAGE) {
  const drawn = shares.map((share) => ({ share, ...keys.commitNonces(share) }))
  const signing: keys.Signing = { sharing, commitments: drawn.map(({ commitments }) => commitments), message }
  const sign = () => drawn.map(({ share, nonces }) => keys.signShare(signing, share, nonces))
  return { drawn, signing, sign }
}

/** A whole threshold signature. */
export function signTogether(sharing: keys.Sharing, shares: readonly keys.Share[], message = MESSAGE): Uint8Array {
  const { signing, sign } = begin(sharing, shares, message)
  return keys.aggregate(signing, sign())
}

/** Everybody's first and second round of key generation. */
export function generate(signers: Pick<keys.Sharing, 'threshold' | 'total'> = SIGNERS) {
  const parties = Array.from({ length: signers.total }, (_, at) => keys.beginDkg(at + 1, signers))
  const stateOf = (index: number) => (parties[index - 1] as (typeof parties)[number]).state
  const othersOf = (index: number) => parties.map(({ round1 }) => round1).filter((said) => said.index !== index)
  const subshares = parties.flatMap(({ state }) => keys.dealSubshares(state, othersOf(state.index)))
  const partsOf = (index: number) => subshares.filter(({ to }) => to === index)
  const finish = (index: number) => keys.finishDkg(stateOf(index), othersOf(index), partsOf(index))
  return { parties, stateOf, othersOf, partsOf, finish }
}

/** Everything that a resharing's dealers say. */
export function deal(resharing: keys.Resharing, shares: readonly keys.Share[]) {
  const dealt = shares.map((share) => keys.dealReshare(resharing, share))
  return { dealings: dealt.map(({ dealing }) => dealing), subshares: dealt.flatMap(({ subshares }) => subshares) }
}

/** The shares with these indices. */
export const pick = (shares: readonly keys.Share[], ...indices: number[]) =>
  indices.map((index) => shares.find((share) => share.index === index) as keys.Share)
