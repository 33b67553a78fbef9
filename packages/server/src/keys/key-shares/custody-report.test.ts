import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { newApp, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { newWallet } from '../../wallets/wallets/wallets.fixture.ts'
import {
  newSharedWallet,
  newSplitWallet,
  passwordProtected,
  protectedShare,
  sealedShare,
  storeShare,
} from './key-shares.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

async function reportOf(tenant: Tenant, walletId: string) {
  const answer = await tenant.get(`/wallets/${walletId}/custody`)
  expect(answer.status, answer.text).toBe(200)
  return answer.body.data
}

// biome-ignore lint/suspicious/noExplicitAny: as it came over the wire
const signers = (report: any): string[] => report.canSign.map(({ who }: { who: string }) => who)

test('with an embedded wallet the service signs, alone', async () => {
  const tenant = await service.newTenant()
  const wallet = await newWallet(await signInAs(service, tenant))
  expect(await reportOf(tenant, wallet.id)).toEqual({
    walletId: wallet.id,
    custody: 'embedded',
    keyOrigin: null,
    publicKey: wallet.publicKey,
    status: 'ready',
    generation: null,
    threshold: null,
    total: null,
    exportedAt: null,
    shares: [],
    canSign: [{ who: 'service', how: expect.any(String) }],
    canSignIn: [],
    serviceAlone: true,
    userAlone: false,
    generationsDestroyed: 0,
  })
})

test('with a shared wallet both sign together, the user by the other two shares, and never the service alone', async () => {
  const tenant = await service.newTenant()
  const of = await newSharedWallet(service, tenant)
  expect(await reportOf(tenant, of.walletId)).toEqual({
    walletId: of.walletId,
    custody: 'shared',
    keyOrigin: 'client_dealt',
    publicKey: of.wallet.publicKey,
    status: 'ready',
    generation: 1,
    threshold: 2,
    total: 3,
    exportedAt: null,
    shares: [
      { index: 1, holder: 'server', protection: 'service', status: 'active', stored: true, openableBy: 'service' },
      { index: 2, holder: 'device', protection: 'client', status: 'active', stored: false, openableBy: 'holder' },
      { index: 3, holder: 'recovery', protection: 'client', status: 'active', stored: false, openableBy: 'holder' },
    ],
    canSign: [
      { who: 'service_and_user', how: 'Share 1 of the service with share 2 or 3 of the user.' },
      { who: 'user', how: 'Shares 2 and 3, combined without the service.' },
      { who: 'user', how: expect.stringContaining('client that split the key') },
    ],
    canSignIn: [],
    serviceAlone: false,
    userAlone: true,
    generationsDestroyed: 0,
  })
  await storeShare(of.person, protectedShare(of, 2))
  expect((await reportOf(tenant, of.walletId)).shares[1]).toMatchObject({ stored: true, openableBy: 'user' })
  // As `POST /mpc/recover` notes it.
  await service.sql('update wallets set exported_at = now() where id = $1', [of.walletId])
  await service.recode()
  const exported = await reportOf(tenant, of.walletId)
  expect(exported.exportedAt).toMatch(/Z$/)
  expect(signers(exported)).toEqual(['service_and_user', 'user', 'anyone_with_export', 'user'])
})

test('with a key that nobody had whole, the user is alone only with both other shares', async () => {
  const tenant = await service.newTenant()
  const of = await newSharedWallet(service, tenant, { proofs: [2] })
  // As distributed key generation leaves it, but for a share that is not known.
  await service.sql(`update wallets set key_origin = 'dkg' where id = $1`, [of.walletId])
  await service.recode()
  const report = await reportOf(tenant, of.walletId)
  expect(report.canSign).toEqual([{ who: 'service_and_user', how: 'Share 1 of the service with share 2 of the user.' }])
  expect([report.serviceAlone, report.userAlone]).toEqual([false, false])
  await storeShare(of.person, protectedShare(of, 3))
  expect((await reportOf(tenant, of.walletId)).userAlone).toBe(true)
  expect((await of.person.delete(`/mpc/shares/${of.walletId}`)).status).toBe(200)
  const after = await reportOf(tenant, of.walletId)
  expect(after).toMatchObject({
    shares: [],
    canSign: [{ who: 'user', how: 'Shares 2 and 3, if their holders have kept them: the records were deleted.' }],
    canSignIn: [],
    serviceAlone: false,
    userAlone: true,
    generationsDestroyed: 1,
  })
})

test('with a key in self-custody its user signs, whatever is kept for them', async () => {
  const tenant = await service.newTenant()
  const of = await newSplitWallet(service, tenant)
  expect(await reportOf(tenant, of.walletId)).toMatchObject({
    custody: 'self_custody',
    generation: null,
    threshold: null,
    shares: [],
    canSign: [{ who: 'user' }],
    canSignIn: [],
    serviceAlone: false,
    userAlone: true,
  })
  await storeShare(of.person, await sealedShare(of, 1))
  await storeShare(of.person, protectedShare(of, 3))
  const report = await reportOf(tenant, of.walletId)
  expect(report).toMatchObject({ generation: 1, threshold: 2, total: 3, serviceAlone: false })
  expect(report.canSign).toEqual([
    { who: 'user', how: expect.any(String) },
    { who: 'user', how: expect.stringContaining('1, 3') },
  ])
  const other = await newSplitWallet(service, tenant)
  const clientCiphertext = passwordProtected(other.share(2).scalar)
  await storeShare(other.person, protectedShare(other, 2, { clientCiphertext }))
  expect((await reportOf(tenant, other.walletId)).shares).toEqual([
    { index: 2, holder: 'device', protection: 'client', status: 'active', stored: true, openableBy: 'password' },
  ])
})

test('is told of a frozen wallet too, and of none that is another tenant’s or app’s', async () => {
  const tenant = await service.newTenant()
  const { walletId } = await newSharedWallet(service, tenant)
  expect((await tenant.post(`/wallets/${walletId}/freeze`)).status).toBe(200)
  expect((await reportOf(tenant, walletId)).status).toBe('frozen')
  const other = await service.newTenant()
  const bound = await tenant.newKey({ scopes: ['wallets:read'], appId: await newApp(tenant) })
  expectError(await other.get(`/wallets/${walletId}/custody`), 404, 'not_found')
  expectError(await tenant.get(`/wallets/${walletId}/custody`, { key: bound }), 404, 'not_found')
  expectError(await tenant.get('/wallets/wal_01jb2m7x9kq4t8v6w0r3s5y1zc/custody'), 404, 'not_found')
  const narrow = await tenant.newKey({ scopes: ['users:read'] })
  expectError(await tenant.get(`/wallets/${walletId}/custody`, { key: narrow }), 403, 'insufficient_scope')
})
