import { describe, expect, test } from 'vitest'
import * as keys from '../src/index.ts'
import { flips, refusalOf } from './support.ts'

const context: keys.SealContext = { walletId: 'wal_1', generation: 1, index: 2, holder: 'device', challengeId: null }
const of = { purpose: 'read-share', context } as const
const share = keys.utf8('thirty-two bytes of a share ....')

const recipient = await keys.newEncryptionKey()
const sealed = await keys.sealTo(recipient.publicKey, of, share)

describe('a box', () => {
  test('opens for its recipient, purpose and context', async () => {
    expect(await keys.openSealed(recipient.privateKey, of, sealed)).toEqual(share)
    expect(sealed.enc).toHaveLength(32)
    expect(sealed.ct).toHaveLength(share.length + 16)
  })

  test('opens whatever the order of the context’s fields', async () => {
    const backwards = Object.fromEntries(Object.entries(context).reverse())
    expect(await keys.openSealed(recipient.privateKey, { ...of, context: backwards }, sealed)).toEqual(share)
  })

  test('is different each time', async () => {
    const again = await keys.sealTo(recipient.publicKey, of, share)
    expect(keys.toHex(again.enc)).not.toBe(keys.toHex(sealed.enc))
    expect(keys.toHex(again.ct)).not.toBe(keys.toHex(sealed.ct))
  })

  test('can hold nothing, or a megabyte', async () => {
    for (const plaintext of [new Uint8Array(0), new Uint8Array(2 ** 20).fill(7)])
      expect(
        await keys.openSealed(recipient.privateKey, of, await keys.sealTo(recipient.publicKey, of, plaintext)),
      ).toEqual(plaintext)
  })

  test('with a single flipped bit does not open', async () => {
    let refused = 0
    for (const enc of flips(sealed.enc)) {
      expect((await refusalOf(keys.openSealed(recipient.privateKey, of, { ...sealed, enc }))).code).toBe('seal_invalid')
      refused += 1
    }
    for (const ct of flips(sealed.ct)) {
      expect((await refusalOf(keys.openSealed(recipient.privateKey, of, { ...sealed, ct }))).code).toBe('seal_invalid')
      refused += 1
    }
    expect(refused).toBe((32 + 48) * 8)
  })

  test('that is cut, extended or emptied does not open', async () => {
    const { enc, ct } = sealed
    const longer = (bytes: Uint8Array) => new Uint8Array([...bytes, 0])
    for (const wrong of [
      { enc, ct: ct.subarray(1) },
      { enc, ct: ct.subarray(0, -1) },
      { enc, ct: longer(ct) },
      { enc, ct: new Uint8Array(0) },
      { enc: enc.subarray(1), ct },
      { enc: longer(enc), ct },
      { enc: new Uint8Array(0), ct },
      { enc: new Uint8Array(32), ct },
    ])
      expect((await refusalOf(keys.openSealed(recipient.privateKey, of, wrong))).code).toBe('seal_invalid')
  })

  test('does not open for another key, purpose or context', async () => {
    const other = await keys.newEncryptionKey()
    expect((await refusalOf(keys.openSealed(other.privateKey, of, sealed))).code).toBe('seal_invalid')
    for (const purpose of ['store-share', 'dkg-subshare', 'reshare-subshare', 'recover'] as const)
      expect((await refusalOf(keys.openSealed(recipient.privateKey, { purpose, context }, sealed))).code).toBe(
        'seal_invalid',
      )
    for (const changed of [
      {},
      { ...context, walletId: 'wal_2' },
      { ...context, generation: 2 },
      { ...context, index: 3 },
      { ...context, index: '2' },
      { ...context, challengeId: '' },
      { ...context, more: 1 },
    ])
      expect((await refusalOf(keys.openSealed(recipient.privateKey, { ...of, context: changed }, sealed))).code).toBe(
        'seal_invalid',
      )
  })

  test('does not open with an invalid private key', async () => {
    for (const length of [0, 31, 33])
      expect((await refusalOf(keys.openSealed(new Uint8Array(length).fill(1), of, sealed))).code).toBe('seal_invalid')
  })
})

describe('sealing', () => {
  test('to an invalid key, or to a point of small order, which gives everybody the same secret, is refused', async () => {
    const small = [
      '0000000000000000000000000000000000000000000000000000000000000000',
      '0100000000000000000000000000000000000000000000000000000000000000',
      'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
      'e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800',
      '5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157',
    ].map(keys.fromHex)
    for (const wrong of [...small, new Uint8Array(0), new Uint8Array(31).fill(9), new Uint8Array(33).fill(9)])
      expect((await refusalOf(keys.sealTo(wrong, of, share))).code).toBe('seal_invalid')
  })
})
