import { describe, expect, test } from 'vitest'
import * as keys from '../src/index.ts'
import { flips, generate, refusal, SIGNERS } from './support.ts'

const { sharing, shares } = keys.dealShares(SIGNERS)
const [share, other] = shares as [keys.Share, keys.Share]
const verifyingShare = keys.verifyingShareOf(sharing, 1)
const subject: keys.Subject = {
  tenantId: 'ten_1',
  appId: 'app_1',
  userId: 'usr_1',
  walletId: 'wal_1',
  generation: 1,
  challengeId: 'chl_1',
}
const details = { index: 1, set: [1, 2], recipientKey: 'ab' }
const proof = keys.prove(share.scalar, 'release-share', subject, details)

describe('a proof of knowledge of a share', () => {
  test('is valid for its verifying share, purpose, subject and details', () => {
    expect(proof).toHaveLength(64)
    expect(keys.isProof(proof, verifyingShare, 'release-share', subject, details)).toBe(true)
    const backwards = Object.fromEntries(Object.entries(details).reverse())
    expect(keys.isProof(proof, verifyingShare, 'release-share', subject, backwards)).toBe(true)
  })

  test('is not valid for another share, purpose, subject or details', () => {
    expect(keys.isProof(proof, keys.verifyingShareOf(sharing, 2), 'release-share', subject, details)).toBe(false)
    for (const purpose of [
      'store-share',
      'create-wallet',
      'dkg-confirm',
      'combine-shares',
      'reshare-dealing',
      'reshare-confirm',
    ] as const)
      expect(keys.isProof(proof, verifyingShare, purpose, subject, details)).toBe(false)
    for (const [name, value] of Object.entries({ ...subject, walletId: null, challengeId: null, generation: 2 }))
      expect(
        keys.isProof(
          proof,
          verifyingShare,
          'release-share',
          { ...subject, [name]: value === subject[name as 'userId'] ? 'x' : value },
          details,
        ),
        name,
      ).toBe(false)
    for (const changed of [{}, { ...details, index: 2 }, { ...details, set: [2, 1] }, { ...details, more: null }])
      expect(keys.isProof(proof, verifyingShare, 'release-share', subject, changed)).toBe(false)
  })

  test('with a single flipped bit is not valid', () => {
    for (const wrong of flips(proof))
      expect(keys.isProof(wrong, verifyingShare, 'release-share', subject, details)).toBe(false)
    expect(keys.isProof(new Uint8Array(0), verifyingShare, 'release-share', subject, details)).toBe(false)
  })

  test('can be made only with the share', () => {
    const others = keys.prove(other.scalar, 'release-share', subject, details)
    expect(keys.isProof(others, verifyingShare, 'release-share', subject, details)).toBe(false)
    expect(refusal(() => keys.prove(new Uint8Array(32), 'release-share', subject, details)).code).toBe('share_invalid')
  })

  test('cannot change its purpose with a detail of that name', () => {
    const purpose = 'halfkey/v1/release-share'
    const forged = keys.prove(share.scalar, 'store-share', subject, { ...details, purpose })
    expect(keys.isProof(forged, verifyingShare, 'release-share', subject, details)).toBe(false)
  })
})

describe('the transcript of key generation', () => {
  const { parties } = generate()
  const round1 = parties.map((party) => party.round1)
  const participants = [1, 2, 3].map((index) => ({
    index,
    holder: keys.INDEX_HOLDER[index] as keys.Holder,
    encryptionKey: `0${index}`.repeat(32),
  }))
  const transcript = keys.toHex(keys.dkgTranscript(subject, participants, round1))

  test('does not depend on the order of the messages', () => {
    expect(keys.toHex(keys.dkgTranscript(subject, [...participants].reverse(), [...round1].reverse()))).toBe(transcript)
    expect(transcript).toMatch(/^[0-9a-f]{64}$/)
  })

  test('is different if either side saw anything else', () => {
    const [first, ...rest] = round1 as [keys.DkgRound1, ...keys.DkgRound1[]]
    const again = keys.beginDkg(1, SIGNERS).round1
    const [one, two, three] = participants as [keys.Participant, keys.Participant, keys.Participant]
    const seen = [
      keys.dkgTranscript({ ...subject, challengeId: 'chl_2' }, participants, round1),
      keys.dkgTranscript(subject, participants, [again, ...rest]),
      keys.dkgTranscript(subject, participants, [{ ...first, proofOfKnowledge: again.proofOfKnowledge }, ...rest]),
      keys.dkgTranscript(subject, participants, rest),
      keys.dkgTranscript(subject, [{ ...one, encryptionKey: two.encryptionKey }, two, three], round1),
      keys.dkgTranscript(subject, [one, { ...two, holder: 'recovery' }, three], round1),
      keys.dkgTranscript(subject, [one, two], round1),
    ].map(keys.toHex)
    expect(new Set([transcript, ...seen]).size).toBe(seen.length + 1)
  })

  test('is not a transcript of resharing', () => {
    const reshared = keys.reshareTranscript(subject, { set: [1, 2], participants, dealings: [] })
    expect(keys.toHex(reshared)).not.toBe(transcript)
  })
})

describe('the transcript of resharing', () => {
  const resharing = { old: sharing, set: [1, 2], signers: SIGNERS }
  const dealings = [share, other].map((each) => keys.dealReshare(resharing, each).dealing)
  const of = { set: [1, 2], participants: [], dealings }
  const transcript = keys.toHex(keys.reshareTranscript(subject, of))

  test('does not depend on the order, and is different for anything else', () => {
    const backwards = { ...of, set: [2, 1], dealings: [...dealings].reverse() }
    expect(keys.toHex(keys.reshareTranscript(subject, backwards))).toBe(transcript)
    const [first, second] = dealings as [keys.Dealing, keys.Dealing]
    for (const changed of [
      { ...of, set: [1, 3] },
      { ...of, dealings: [first] },
      { ...of, dealings: [{ ...first, from: 3 }, second] },
      { ...of, dealings: [keys.dealReshare(resharing, share).dealing, second] },
    ])
      expect(keys.toHex(keys.reshareTranscript(subject, changed))).not.toBe(transcript)
    expect(keys.toHex(keys.reshareTranscript({ ...subject, generation: 2 }, of))).not.toBe(transcript)
  })
})

test('HOLDER_INDEX and INDEX_HOLDER agree', () => {
  for (const [holder, index] of Object.entries(keys.HOLDER_INDEX)) expect(keys.INDEX_HOLDER[index]).toBe(holder)
  expect(Object.keys(keys.INDEX_HOLDER)).toHaveLength(keys.SHARED_SIGNERS.total)
})

test('a fingerprint is the SHA-256 of canonical JSON (RFC 8785)', () => {
  // printf '{"a":[1,null],"b":"x"}' | sha256sum
  expect(keys.fingerprintOf({ b: 'x', a: [1, null] })).toBe(keys.fingerprintOf({ a: [1, null], b: 'x' }))
  expect(keys.fingerprintOf({ b: 'x', a: [1, null] })).toMatch(/^[0-9a-f]{64}$/)
})
