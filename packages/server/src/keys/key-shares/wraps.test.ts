import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newAuthenticator, register, signUp } from '../../../test/harness/authenticator.ts'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService } from '../../../test/harness/harness.ts'
import { statusCounts } from '../../identity/guests/guests.fixture.ts'
import { newTestApp } from '../../identity/passkeys/test-app.fixture.ts'
import { eventsOf, type Person, personOf } from '../../identity/sessions/sessions.fixture.ts'
import {
  newCredentialId,
  newSharedWallet,
  newSplitWallet,
  type PrfWrap,
  passkeyProtected,
  passwordProtected,
  protectedShare,
  type SplitWallet,
  sealedShare,
  storeShare,
} from './key-shares.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const replace = (of: SplitWallet, body: object): Promise<Answer> =>
  of.person.call('PATCH', `/mpc/shares/${of.walletId}`, { body })

/** The wraps that share 2 has by now. */
async function wrapsOf(of: SplitWallet): Promise<string[]> {
  const { shares } = (await of.person.get(`/mpc/shares/${of.walletId}`)).body.data
  const share = shares.find(({ index }: { index: number }) => index === 2)
  return share.clientCiphertext.wraps.map(({ credentialId }: PrfWrap) => credentialId)
}

/** A shared wallet whose share 2 is kept under these passkeys. */
async function wrapped(credentialIds: readonly string[], of?: SplitWallet) {
  const wallet = of ?? (await newSharedWallet(service, await service.newTenant()))
  const box = passkeyProtected(wallet.share(2).scalar, credentialIds)
  await storeShare(wallet.person, protectedShare(wallet, 2, { clientCiphertext: box.clientCiphertext }))
  return { of: wallet, ...box }
}

describe('the wraps of a share', () => {
  test('are replaced: a passkey more, one less, and each of those that stay opens it', async () => {
    const [first, second] = [newCredentialId(), newCredentialId()]
    const { of, clientCiphertext, wrap, open } = await wrapped([first])
    const before = (await of.person.get(`/mpc/shares/${of.walletId}`)).body.data.shares[1]
    const both = [...clientCiphertext.wraps, wrap(second)]
    const answer = await replace(of, { index: 2, wraps: both })
    expect(answer.status, answer.text).toBe(200)
    const { clientCiphertext: _, sealed: __, ...metadata } = before
    expect(answer.body.data).toEqual({ ...metadata, updatedAt: expect.any(String) })
    const [, share] = (await of.person.get(`/mpc/shares/${of.walletId}`)).body.data.shares
    expect(share.clientCiphertext).toEqual({ ...clientCiphertext, wraps: both })
    for (const each of share.clientCiphertext.wraps)
      expect(new Uint8Array(open(share.clientCiphertext, each))).toEqual(of.share(2).scalar)
    expect((await replace(of, { index: 2, generation: 1, wraps: [wrap(second)] })).status).toBe(200)
    expect(await wrapsOf(of)).toEqual([second])
    const stored = await eventsOf(service, of.tenant, 'key_share.stored')
    const data = { walletId: of.walletId, userId: of.person.userId, holder: 'device', index: 2, generation: 1 }
    expect(stored).toEqual([data, data, data])
  })

  test('are never none, and one of them is of a passkey that is known', async () => {
    const first = newCredentialId()
    const { of, wrap } = await wrapped([first])
    expectError(await replace(of, { index: 2, wraps: [] }), 409, 'share_would_be_lost')
    expectError(await replace(of, { index: 2, wraps: [wrap(newCredentialId())] }), 409, 'share_would_be_lost')
    expect(await wrapsOf(of)).toEqual([first])
  })

  test('are of a passkey each, in bounds, and of a share that passkeys protect', async () => {
    const first = newCredentialId()
    const { of, wrap } = await wrapped([first])
    const { wraps: byPassword } = passwordProtected(of.share(2).scalar)
    const wrong: [object, string][] = [
      [{ index: 2, wraps: [wrap(first), wrap(first)] }, 'wraps.1.credentialId'],
      [{ index: 2, wraps: byPassword }, 'wraps.0.credentialId'],
      [{ index: 2, wraps: [{ ...wrap(first), prfSalt: undefined }] }, 'wraps.0.prfSalt'],
      [{ index: 2, wraps: Array.from({ length: 21 }, () => wrap(newCredentialId())) }, 'wraps'],
      [{ index: 2 }, 'wraps'],
      [{ wraps: [wrap(first)] }, 'index'],
      [{ index: 0, wraps: [wrap(first)] }, 'index'],
      [{ index: 1, wraps: [wrap(first)] }, 'index'],
      [{ index: 3, wraps: [wrap(first)] }, 'index'],
      [{ index: 2, wraps: [wrap(first)], ct: 'AAAA' }, 'ct'],
    ]
    for (const [body, field] of wrong)
      expect(
        expectRefusal(await replace(of, body), 'validation_failed').map((detail) => detail.field),
        JSON.stringify(body),
      ).toContain(field)
    for (const body of [
      { index: 4, wraps: [wrap(first)] },
      { index: 2, generation: 2, wraps: [wrap(first)] },
    ]) {
      const answer = await replace(of, body)
      expectError(answer, 404, 'not_found')
      expect(answer.body.details[0].field).toBe('index')
    }
    const split = await newSplitWallet(service, of.tenant)
    await storeShare(split.person, await sealedShare(split, 1))
    expect(expectRefusal(await replace(split, { index: 1, wraps: [wrap(first)] }), 'validation_failed')[0].field).toBe(
      'index',
    )
    expect(await wrapsOf(of)).toEqual([first])
  })
})

/** A user with passkeys, and what removes one of them. */
async function withPasskeys(count: number) {
  const app = await newTestApp(service)
  const ada = await signUp(app.browser)
  const headers = { authorization: `Bearer ${ada.accessToken}` }
  for (let n = 1; n < count; n += 1)
    expect((await register(app.browser, {}, { headers, authenticator: newAuthenticator() })).status).toBe(200)
  const person: Person = personOf(service.url, app.browser.key, { userId: ada.user.id, appId: app.tenant.appId }, ada)
  const passkeys: { id: string; credentialId: string }[] = (await person.get('/auth/passkeys')).body.data
  const remove = (credentialId: string) =>
    person.delete(`/auth/passkeys/${passkeys.find((each) => each.credentialId === credentialId)?.id}`)
  const of = await newSharedWallet(service, app.tenant, { person })
  return { of, remove, credentialIds: passkeys.map(({ credentialId }) => credentialId) }
}

describe('a passkey', () => {
  test('that alone opens a kept share stays, whoever asks', async () => {
    const { of, remove, credentialIds } = await withPasskeys(2)
    const [first = '', second = ''] = credentialIds
    const { wrap } = await wrapped([first], of)
    expectError(await remove(first), 409, 'share_would_be_lost')
    const headers = { 'x-user-id': of.person.userId }
    const passkeys = (await of.person.get('/auth/passkeys')).body.data
    const { id } = passkeys.find((each: { credentialId: string }) => each.credentialId === first)
    expectError(await of.tenant.delete(`/auth/passkeys/${id}`, { headers }), 409, 'share_would_be_lost')
    expect((await of.person.get('/auth/passkeys')).body.total).toBe(2)
    expect(await eventsOf(service, of.tenant, 'passkey.removed')).toEqual([])
    expect((await replace(of, { index: 2, wraps: [wrap(first), wrap(second)] })).status).toBe(200)
    expect((await remove(first)).status).toBe(200)
    expect(await wrapsOf(of)).toEqual([second])
  })

  test('takes its wraps along, so that the last of two that open a share stays', async () => {
    const { of, remove, credentialIds } = await withPasskeys(3)
    const [first = '', second = '', third = ''] = credentialIds
    await wrapped([first, second], of)
    expect((await remove(first)).status).toBe(200)
    expectError(await remove(second), 409, 'share_would_be_lost')
    expect((await remove(third)).status).toBe(200)
    expect(await wrapsOf(of)).toEqual([second])
  })

  test('is free once the share is deleted', async () => {
    const { of, remove, credentialIds } = await withPasskeys(2)
    const [first = ''] = credentialIds
    await wrapped([first], of)
    expectError(await remove(first), 409, 'share_would_be_lost')
    expect((await of.person.delete(`/mpc/shares/${of.walletId}`)).status).toBe(200)
    expect((await remove(first)).status).toBe(200)
  })

  test('is recognised however its id is spelled, and another user’s share does not hold it', async () => {
    const { of, remove, credentialIds } = await withPasskeys(2)
    const [first = '', second = ''] = credentialIds
    // The last character holds bits that stand for nothing.
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    const last = alphabet.indexOf(first.at(-1) as string)
    const spelled = `${first.slice(0, -1)}${alphabet[last + 1]}`
    expect(Buffer.from(spelled, 'base64url').equals(Buffer.from(first, 'base64url'))).toBe(true)
    await wrapped([spelled], of)
    expectError(await remove(first), 409, 'share_would_be_lost')
    await wrapped([second], await newSharedWallet(service, of.tenant))
    expect((await remove(second)).status).toBe(200)
  })

  test('and another one, removed at once by twenty calls, leave one of the two', async () => {
    for (let round = 0; round < 3; round += 1) {
      const { of, remove, credentialIds } = await withPasskeys(3)
      const [first = '', second = ''] = credentialIds
      await wrapped([first, second], of)
      const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => remove(n % 2 === 0 ? first : second)))
      const { 200: removed, '404 not_found': gone, '409 share_would_be_lost': kept } = statusCounts(answers)
      expect([removed, (gone ?? 0) + (kept ?? 0)]).toEqual([1, 19])
      const left = await wrapsOf(of)
      expect(left).toHaveLength(1)
      const still = (await of.person.get('/auth/passkeys')).body.data.map(
        (each: { credentialId: string }) => each.credentialId,
      )
      expect(still).toContain(left[0])
    }
  })

  test('removed while the wraps are being reduced to it leaves a passkey that opens the share', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { of, remove, credentialIds } = await withPasskeys(3)
      const [first = '', second = ''] = credentialIds
      const { wrap } = await wrapped([first, second], of)
      const [patched, removed] = await Promise.all([replace(of, { index: 2, wraps: [wrap(first)] }), remove(first)])
      expect([patched.status, removed.status].sort()).toEqual([200, 409])
      const left = await wrapsOf(of)
      expect(left).toEqual([patched.status === 200 ? first : second])
      const still = (await of.person.get('/auth/passkeys')).body.data.map(
        (each: { credentialId: string }) => each.credentialId,
      )
      expect(still).toContain(left[0])
    }
  })
})
