import { argon2Sync, createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import * as keys from '../src/index.ts'
import { flips, refusal, refusalOf, SIGNERS } from './support.ts'

type PasskeyCiphertext = Extract<keys.ClientCiphertext, { alg: typeof keys.PRF_ALG }>
type PasswordCiphertext = Extract<keys.ClientCiphertext, { alg: typeof keys.PASSWORD_ALG }>

const { sharing, shares } = keys.dealShares(SIGNERS)
const share = shares[1] as keys.Share
const wallet = { walletId: 'wal_1', generation: 1, publicKey: keys.toHex(sharing.commitments[0] as Uint8Array) }
const context: keys.ProtectionContext = { ...wallet, index: 2 }

const passkey = (name: string): keys.NewPasskey => ({
  credentialId: keys.toBase64Url(keys.utf8(`credential of ${name}`)),
  rpId: 'example.com',
  prfSalt: keys.newPrfSalt(),
  prfOutput: crypto.getRandomValues(new Uint8Array(32)),
})
const laptop = passkey('laptop')
const phone = passkey('phone')
const password = { password: 'correct horse battery staple' }

const byPasskey = (await keys.protectShare(share, wallet, laptop)) as PasskeyCiphertext
const byPassword = (await keys.protectShare(share, wallet, password)) as PasswordCiphertext

const bytesOf = (text: string) => Buffer.from(text, 'base64url')
const closed = async (ciphertext: unknown, by: keys.PasskeySecret | keys.Password = laptop, of = context) =>
  expect((await refusalOf(keys.openProtected(ciphertext as keys.ClientCiphertext, of, by))).code).toBe('seal_invalid')
/** Every text of the same length that differs in one bit of what it stands for, or in one character. */
function* changes(text: string): Generator<string> {
  for (const bytes of flips(keys.fromBase64Url(text))) yield keys.toBase64Url(bytes)
  for (let at = 0; at < text.length; at += 1)
    yield `${text.slice(0, at)}${text[at] === 'A' ? 'B' : 'A'}${text.slice(at + 1)}`
}

describe('a share protected by a passkey', () => {
  test('opens with that passkey', async () => {
    expect(await keys.openProtected(byPasskey, context, laptop)).toEqual(share)
    const { credentialId, prfOutput } = laptop
    expect(
      await keys.openProtected(JSON.parse(JSON.stringify(byPasskey)), context, { credentialId, prfOutput }),
    ).toEqual(share)
  })

  test('reveals nothing of the share, and has a new data key each time', async () => {
    const again = await keys.protectShare(share, wallet, laptop)
    expect(again.ct).not.toBe(byPasskey.ct)
    expect(JSON.stringify(byPasskey)).not.toContain(keys.toBase64Url(share.scalar))
    expect(byPasskey).toMatchObject({ v: 1, alg: 'prf-hkdf-sha256-aes256gcm', wraps: [{ rpId: 'example.com' }] })
    expect(Object.keys(byPasskey).sort()).toEqual(['alg', 'ct', 'iv', 'v', 'wraps'])
    expect(Object.keys(byPasskey.wraps[0] ?? {}).sort()).toEqual(['credentialId', 'prfSalt', 'rpId', 'wrappedDek'])
  })

  test('has the documented format, as another implementation reads it', () => {
    const [{ credentialId, rpId, prfSalt, wrappedDek }] = byPasskey.wraps as [keys.PasskeyWrap]
    const { publicKey } = wallet
    const info = `halfkey/v1/share-prf{"credentialId":"${credentialId}","generation":1,"index":2,"publicKey":"${publicKey}","rpId":"example.com","walletId":"wal_1"}`
    const kek = Buffer.from(hkdfSync('sha256', laptop.prfOutput, bytesOf(prfSalt), info, 32))
    const open = (key: Buffer, iv: Buffer, ct: Buffer, aad: string) => {
      const decipher = createDecipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(aad)).setAuthTag(ct.subarray(-16))
      return Buffer.concat([decipher.update(ct.subarray(0, -16)), decipher.final()])
    }
    const dek = open(
      kek,
      bytesOf(wrappedDek).subarray(0, 12),
      bytesOf(wrappedDek).subarray(12),
      `{"credentialId":"${credentialId}","generation":1,"index":2,"prfSalt":"${prfSalt}","publicKey":"${publicKey}","purpose":"halfkey/v1/share-dek","rpId":"${rpId}","walletId":"wal_1"}`,
    )
    const aad = `{"generation":1,"index":2,"publicKey":"${publicKey}","purpose":"halfkey/v1/protected-share","walletId":"wal_1"}`
    expect(open(dek, bytesOf(byPasskey.iv), bytesOf(byPasskey.ct), aad)).toEqual(Buffer.from(share.scalar))
  })

  test('does not open with one changed bit or character', async () => {
    const [wrap] = byPasskey.wraps as [keys.PasskeyWrap]
    let refused = 0
    for (const name of ['iv', 'ct'] as const)
      for (const text of changes(byPasskey[name])) {
        await closed({ ...byPasskey, [name]: text })
        refused += 1
      }
    for (const name of ['credentialId', 'prfSalt', 'wrappedDek'] as const)
      for (const text of changes(wrap[name])) {
        const wraps = [{ ...wrap, [name]: text }]
        await closed({ ...byPasskey, wraps })
        // Not by its name alone: even asked for by the changed one.
        if (name === 'credentialId') await closed({ ...byPasskey, wraps }, { ...laptop, credentialId: text })
        refused += 1
      }
    expect(refused).toBeGreaterThan((12 + 48 + 32 + 60) * 8)
    for (const rpId of ['example.con', 'example.com.', 'xample.com', '', 'a'.repeat(300)])
      await closed({ ...byPasskey, wraps: [{ ...wrap, rpId }] })
  })

  test('does not open for another secret, passkey, share, generation, wallet or key', async () => {
    for (const prfOutput of flips(laptop.prfOutput)) await closed(byPasskey, { ...laptop, prfOutput })
    for (const length of [0, 31, 33]) await closed(byPasskey, { ...laptop, prfOutput: new Uint8Array(length) })
    await closed(byPasskey, phone)
    await closed(byPasskey, { ...phone, credentialId: laptop.credentialId })
    await closed(byPasskey, password)
    for (const other of [
      { ...context, index: 1 },
      { ...context, index: 3 },
      { ...context, generation: 2 },
      { ...context, walletId: 'wal_2' },
      { ...context, publicKey: '00'.repeat(32) },
      { ...context, publicKey: context.publicKey.toUpperCase() },
    ])
      await closed(byPasskey, laptop, other)
  })

  test('is bound to its share also by the inner encryption: the data key alone does not open it for another wallet', async () => {
    // Whoever knows both passkeys' secrets re-wraps one wallet's data key for another wallet: the share's own seal holds.
    const other = (await keys.protectShare(share, { ...wallet, walletId: 'wal_2' }, laptop)) as PasskeyCiphertext
    await closed({ ...other, wraps: byPasskey.wraps })
    await closed({ ...byPasskey, wraps: other.wraps }, laptop, { ...context, walletId: 'wal_2' })
  })
})

describe('wraps', () => {
  test('are added for a second passkey without a change of the ciphertext, and both passkeys open it', async () => {
    const both = await keys.addWrap(byPasskey, context, { openBy: laptop, newBy: phone })
    expect([both.iv, both.ct]).toEqual([byPasskey.iv, byPasskey.ct])
    expect(both.wraps[0]).toEqual(byPasskey.wraps[0])
    expect(byPasskey.wraps).toHaveLength(1)
    for (const by of [laptop, phone]) expect(await keys.openProtected(both, context, by)).toEqual(share)
    await closed(byPasskey, phone)
    const third = passkey('key')
    const all = await keys.addWrap(both, context, { openBy: phone, newBy: third })
    for (const by of [laptop, phone, third]) expect(await keys.openProtected(all, context, by)).toEqual(share)
  })

  test('can be added only by a passkey that opens the share', async () => {
    const add = (ciphertext: keys.ClientCiphertext, openBy: keys.PasskeySecret, of = context) =>
      refusalOf(keys.addWrap(ciphertext, of, { openBy, newBy: phone }))
    expect((await add(byPasskey, phone)).code).toBe('seal_invalid')
    expect((await add(byPasskey, { ...laptop, prfOutput: phone.prfOutput })).code).toBe('seal_invalid')
    expect((await add(byPasskey, laptop, { ...context, index: 1 })).code).toBe('seal_invalid')
    const [ct] = changes(byPasskey.ct)
    expect((await add({ ...byPasskey, ct: ct as string }, laptop)).code).toBe('seal_invalid')
    expect((await add(byPassword, laptop)).code).toBe('share_invalid')
    const again = await refusalOf(keys.addWrap(byPasskey, context, { openBy: laptop, newBy: { ...phone, ...laptop } }))
    expect(again.code).toBe('share_invalid')
  })

  test('are removed by passkey, which then opens nothing; the last one cannot be removed', async () => {
    const both = await keys.addWrap(byPasskey, context, { openBy: laptop, newBy: phone })
    const left = keys.removeWrap(both, laptop.credentialId)
    expect(await keys.openProtected(left, context, phone)).toEqual(share)
    await closed(left, laptop)
    expect(both.wraps).toHaveLength(2)
    expect(refusal(() => keys.removeWrap(left, phone.credentialId)).code).toBe('share_invalid')
    expect(refusal(() => keys.removeWrap(left, laptop.credentialId)).code).toBe('share_invalid')
    expect(refusal(() => keys.removeWrap(byPassword, laptop.credentialId)).code).toBe('share_invalid')
  })

  test('are limited in number, with one for each passkey', async () => {
    let ciphertext: keys.ClientCiphertext = byPasskey
    for (let n = 1; n < keys.WRAPS_MAX; n += 1)
      ciphertext = await keys.addWrap(ciphertext, context, { openBy: laptop, newBy: passkey(`${n}`) })
    expect(ciphertext.wraps).toHaveLength(keys.WRAPS_MAX)
    const more = await refusalOf(keys.addWrap(ciphertext, context, { openBy: laptop, newBy: phone }))
    expect(more.code).toBe('share_invalid')
    const [wrap] = byPasskey.wraps as [keys.PasskeyWrap]
    await closed({ ...byPasskey, wraps: [wrap, wrap] })
    await closed({
      ...byPasskey,
      wraps: Array.from({ length: 21 }, (_, n) => ({ ...wrap, credentialId: keys.toBase64Url(keys.utf8(`${n}`)) })),
    })
  })
})

describe('a share protected by a password', () => {
  test('opens with that password, in any Unicode form', async () => {
    expect(await keys.openProtected(byPassword, context, password)).toEqual(share)
    const composed = (await keys.protectShare(share, wallet, { password: 'Ångström ﬁn ende' })) as PasswordCiphertext
    expect(await keys.openProtected(composed, context, { password: 'A\u030angstro\u0308m fin ende' })).toEqual(share)
  })

  test('costs 64 MiB and three passes for each guess', () => {
    expect(byPassword).toMatchObject({
      v: 1,
      alg: 'argon2id-aes256gcm',
      wraps: [{ memoryKiB: 65_536, iterations: 3, parallelism: 1 }],
    })
    expect(byPassword.wraps).toHaveLength(1)
  })

  test('has the documented format, as another implementation reads it', () => {
    const [{ salt, wrappedDek }] = byPassword.wraps as [keys.PasswordWrap]
    const cost = { memory: 65_536, passes: 3, parallelism: 1, tagLength: 32 }
    const kek = argon2Sync('argon2id', { message: password.password, nonce: bytesOf(salt), ...cost })
    const wrapped = bytesOf(wrappedDek)
    const decipher = createDecipheriv('aes-256-gcm', kek, wrapped.subarray(0, 12))
      .setAAD(
        Buffer.from(
          `{"generation":1,"index":2,"iterations":3,"memoryKiB":65536,"parallelism":1,"publicKey":"${wallet.publicKey}","purpose":"halfkey/v1/share-dek","salt":"${salt}","walletId":"wal_1"}`,
        ),
      )
      .setAuthTag(wrapped.subarray(-16))
    const dek = Buffer.concat([decipher.update(wrapped.subarray(12, -16)), decipher.final()])
    const aad = `{"generation":1,"index":2,"publicKey":"${wallet.publicKey}","purpose":"halfkey/v1/protected-share","walletId":"wal_1"}`
    const cipher = createCipheriv('aes-256-gcm', dek, bytesOf(byPassword.iv)).setAAD(Buffer.from(aad))
    const ct = Buffer.concat([cipher.update(share.scalar), cipher.final(), cipher.getAuthTag()])
    expect(ct.toString('base64url')).toBe(byPassword.ct)
  })

  test('does not open for another password, share or secret, or with a changed salt, key or share', async () => {
    const [wrap] = byPassword.wraps as [keys.PasswordWrap]
    const change = (text: string, bit: number) =>
      keys.toBase64Url([...flips(keys.fromBase64Url(text))][bit] as Uint8Array)
    await closed(byPassword, { password: `${password.password} ` })
    await closed(byPassword, password, { ...context, generation: 2 })
    await closed(byPassword, laptop)
    await closed({ ...byPassword, wraps: [{ ...wrap, salt: change(wrap.salt, 0) }] }, password)
    await closed({ ...byPassword, wraps: [{ ...wrap, wrappedDek: change(wrap.wrappedDek, 479) }] }, password)
    await closed({ ...byPassword, wraps: [{ ...wrap, iterations: 4 }] }, password)
    await closed({ ...byPassword, ct: change(byPassword.ct, 100) }, password)
    await closed({ ...byPassword, iv: change(byPassword.iv, 95) }, password)
  })

  test('with a cost below the minimum or above the maximum is refused before any work', async () => {
    const [wrap] = byPassword.wraps as [keys.PasswordWrap]
    const began = process.cpuUsage()
    for (const cost of [
      { memoryKiB: 65_535 },
      { memoryKiB: 8 },
      { memoryKiB: 0 },
      { memoryKiB: -65_536 },
      { memoryKiB: 262_145 },
      { memoryKiB: 2 ** 31 },
      { memoryKiB: 65_536.5 },
      { memoryKiB: Number.NaN },
      { memoryKiB: '65536' },
      { iterations: 2 },
      { iterations: 0 },
      { iterations: 11 },
      { iterations: 2 ** 32 },
      { parallelism: 0 },
      { parallelism: 5 },
      { parallelism: 2 ** 24 },
    ])
      await closed({ ...byPassword, wraps: [{ ...wrap, ...cost }] }, password)
    // One argon2id takes longer than all of these.
    const { user, system } = process.cpuUsage(began)
    expect((user + system) / 1_000).toBeLessThan(500)
  })

  test('needs a password', async () => {
    for (const short of ['', 'x', 'elevenchars', '👍'.repeat(6)])
      expect((await refusalOf(keys.protectShare(share, wallet, { password: short }))).code).toBe('share_invalid')
  })
})

describe('an invalid protected share', () => {
  const [passkeyWrap] = byPasskey.wraps as [keys.PasskeyWrap]
  const [passwordWrap] = byPassword.wraps as [keys.PasswordWrap]

  test.each([
    ['nothing', undefined],
    ['null', null],
    ['a text', 'ct'],
    ['an empty object', {}],
    ['another version', { ...byPasskey, v: 2 }],
    ['a version in quotes', { ...byPasskey, v: '1' }],
    ['an unknown algorithm', { ...byPasskey, alg: 'none' }],
    ['the other algorithm', { ...byPasskey, alg: keys.PASSWORD_ALG }],
    ['the other algorithm, of a password', { ...byPassword, alg: keys.PRF_ALG }],
    ['no wraps', { ...byPasskey, wraps: [] }],
    ['wraps that are none', { ...byPasskey, wraps: [null] }],
    ['wraps that are no list', { ...byPasskey, wraps: passkeyWrap }],
    ['two passwords', { ...byPassword, wraps: [passwordWrap, { ...passwordWrap }] }],
    ['no nonce', { ...byPasskey, iv: '' }],
    ['a short nonce', { ...byPasskey, iv: byPasskey.iv.slice(0, -2) }],
    ['a ciphertext with padding', { ...byPasskey, iv: `${byPasskey.iv}==` }],
    ['a ciphertext that is too long', { ...byPasskey, ct: byPasskey.ct.repeat(2) }],
    ['a ciphertext that is no text', { ...byPasskey, ct: 7 }],
    ['a wrap with too short a salt', { ...byPasskey, wraps: [{ ...passkeyWrap, prfSalt: 'AAAA' }] }],
    [
      'a wrap with too long a credential id',
      { ...byPasskey, wraps: [{ ...passkeyWrap, credentialId: 'A'.repeat(1368) }] },
    ],
    ['a megabyte of text', { ...byPasskey, wraps: [{ ...passkeyWrap, wrappedDek: 'A'.repeat(2 ** 20) }] }],
  ])('%s: refused', async (_, ciphertext) => {
    expect(refusal(() => keys.checkCiphertext(ciphertext)).code).toBe('seal_invalid')
    await closed(ciphertext)
    await closed(ciphertext, password)
  })

  test('a valid protected share is accepted', () => {
    expect(() => keys.checkCiphertext(byPasskey)).not.toThrow()
    expect(() => keys.checkCiphertext(byPassword)).not.toThrow()
  })
})

describe('protecting', () => {
  test('an invalid share or context is refused', async () => {
    for (const wrong of [
      { index: 0, scalar: share.scalar },
      { index: 16, scalar: share.scalar },
      { index: 1.5, scalar: share.scalar },
      { index: 1, scalar: new Uint8Array(32) },
      { index: 1, scalar: new Uint8Array(31).fill(1) },
      { index: 1, scalar: new Uint8Array(32).fill(255) },
    ])
      expect((await refusalOf(keys.protectShare(wrong, wallet, laptop))).code).toBe('share_invalid')
    for (const wrong of [
      { ...wallet, generation: -1 },
      { ...wallet, generation: 1.5 },
      { ...wallet, publicKey: 'xyz' },
      { ...wallet, publicKey: wallet.publicKey.toUpperCase() },
    ])
      expect((await refusalOf(keys.protectShare(share, wrong, laptop))).code).toBe('share_invalid')
  })

  test('with an invalid passkey is refused', async () => {
    for (const wrong of [
      { ...laptop, prfOutput: new Uint8Array(31) },
      { ...laptop, prfOutput: new Uint8Array(0) },
      { ...laptop, prfSalt: 'AAAA' },
      { ...laptop, credentialId: '' },
      { ...laptop, credentialId: 'a+b/' },
      { ...laptop, rpId: '' },
    ])
      expect((await refusalOf(keys.protectShare(share, wallet, wrong))).code).toBe('seal_invalid')
  })

  test('does not change the share or the passkey’s secret', async () => {
    const before = [keys.toHex(share.scalar), keys.toHex(laptop.prfOutput)]
    await keys.openProtected(await keys.protectShare(share, wallet, laptop), context, laptop)
    expect([keys.toHex(share.scalar), keys.toHex(laptop.prfOutput)]).toEqual(before)
  })
})
