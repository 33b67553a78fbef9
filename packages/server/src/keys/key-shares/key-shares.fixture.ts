import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import type { Answer, Service, Tenant } from '../../../test/harness/harness.ts'
import { type Person, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import * as keys from '../../platform/security/threshold/threshold.ts'
import type { KeyShare } from '../../wallets/custody/schema.ts'

export type Holder = keys.Holder

/** A scalar as it could stand in a dump or a log: hex, base64, base64url. */
export const spellingsOf = (scalar: Uint8Array): string[] => {
  const bytes = Buffer.from(scalar)
  const base64 = bytes.toString('base64').replace(/=+$/, '')
  return [bytes.toString('hex'), bytes.toString('hex').toUpperCase(), base64, bytes.toString('base64url')]
}

/** A user's wallet whose key is split, with all that a client knows of it. */
export interface SplitWallet {
  tenant: Tenant
  person: Person
  walletId: string
  // biome-ignore lint/suspicious/noExplicitAny: as it came over the wire
  wallet: any
  /** Raw. */
  publicKey: Uint8Array
  sharing: keys.Sharing
  /** By index − 1. */
  shares: keys.Share[]
  /** The whole key, which no service ever sees. */
  scalar: Uint8Array
  /** What seals and proofs are bound to. */
  subject(more?: { generation?: number; challengeId?: string | null }): keys.Subject
  /** The share at an index. */
  share(index: number): keys.Share
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
export const hexOf = (points: readonly Uint8Array[]) => points.map(hex)

/** What somebody's seals and proofs are bound to. */
export const subjectOf = (
  tenant: Pick<Tenant, 'tenantId'>,
  person: Pick<Person, 'appId' | 'userId'>,
  walletId: string | null,
  more: { generation?: number; challengeId?: string | null } = {},
): keys.Subject => ({
  tenantId: tenant.tenantId,
  appId: person.appId,
  userId: person.userId,
  walletId,
  generation: more.generation ?? 1,
  challengeId: more.challengeId ?? null,
})

/** The service's key to seal to, as a client reads it. */
async function serviceKey(who: Pick<Person, 'get'>): Promise<{ kid: string; publicKey: string }> {
  const answer = await who.get('/mpc/config')
  expect(answer.status, answer.text).toBe(200)
  return answer.body.data.keys[0]
}

/** Seals bytes to the service; `contextOf` gets the key sealed to, in hex. */
export async function sealToService(
  who: Pick<Person, 'get'>,
  purpose: keys.SealPurpose,
  contextOf: (recipientKey: string) => keys.SealContext,
  plaintext: Uint8Array,
): Promise<{ kid: string; enc: string; ct: string }> {
  const { kid, publicKey } = await serviceKey(who)
  const context = contextOf(publicKey)
  const { enc, ct } = await keys.sealTo(Buffer.from(publicKey, 'hex'), { purpose, context }, plaintext)
  return { kid, enc: keys.toBase64Url(enc), ct: keys.toBase64Url(ct) }
}

/** A key pair of a client's to receive by. */
export async function newRecipient() {
  const { publicKey, privateKey } = await keys.newEncryptionKey()
  return {
    /** Hex. */
    publicKey: hex(publicKey),
    /** Opens what the service sealed to it. @throws ShareError */
    open: (purpose: keys.SealPurpose, context: keys.SealContext, sealed: { enc: string; ct: string }) =>
      keys.openSealed(
        privateKey,
        { purpose, context },
        { enc: keys.fromBase64Url(sealed.enc), ct: keys.fromBase64Url(sealed.ct) },
      ),
  }
}

/** A key as a client splits it. */
export function deal(signers: { threshold: number; total: number } = keys.SHARED_SIGNERS) {
  const scalar = keys.scalarOfSeed(randomBytes(32))
  return { scalar, publicKey: keys.publicKeyOf(scalar), ...keys.dealShares(signers, scalar) }
}

export type Dealt = ReturnType<typeof deal>

/** A challenge for a key, answered. */
async function answered(person: Person, custody: 'shared' | 'self_custody', { publicKey, scalar }: Dealt) {
  const asked = await person.post('/users/me/wallet/challenge', { custody, publicKey: hex(publicKey) })
  expect(asked.status, asked.text).toBe(201)
  const { challengeId, message } = asked.body.data as { challengeId: string; message: string }
  const proof = hex(keys.signWithScalar(keys.utf8(message), scalar))
  return { custody, publicKey: hex(publicKey), challengeId, proof }
}

/** The body of `POST /users/me/wallet` for a key that the client has dealt. `proofs`: of which shares. */
export async function dealtWallet(tenant: Tenant, person: Person, dealt: Dealt, proofs: readonly number[] = [2, 3]) {
  const body = await answered(person, 'shared', dealt)
  const { publicKey, challengeId } = body
  const subject = subjectOf(tenant, person, null, { challengeId })
  const context = (recipientKey: string) => keys.shareContext(subject, { index: 1, holder: 'server', recipientKey })
  const [first] = dealt.shares as [keys.Share]
  return {
    ...body,
    commitments: hexOf(dealt.sharing.commitments),
    sealed: await sealToService(person, 'store-share', context, first.scalar),
    proofs: proofs.map((index) => {
      const { scalar } = dealt.shares[index - 1] as keys.Share
      return { index, proof: hex(keys.prove(scalar, 'create-wallet', subject, { index, publicKey })) }
    }),
  }
}

function splitWallet(tenant: Tenant, person: Person, dealt: Dealt, answer: Answer): SplitWallet {
  expect(answer.status, answer.text).toBe(201)
  const wallet = answer.body.data
  return {
    tenant,
    person,
    wallet,
    walletId: wallet.id,
    publicKey: dealt.publicKey,
    sharing: dealt.sharing,
    shares: dealt.shares,
    scalar: dealt.scalar,
    subject: (more) => subjectOf(tenant, person, wallet.id, more),
    share: (index) => dealt.shares[index - 1] as keys.Share,
  }
}

interface Whose {
  person?: Person
  dealt?: Dealt
}

/** A new `shared` wallet, split by its user's client; ready, shares 2 and 3 proven but not stored. */
export async function newSharedWallet(
  service: Pick<Service, 'deps' | 'url'>,
  tenant: Tenant,
  { person, dealt = deal(), proofs = [2, 3] }: Whose & { proofs?: readonly number[] } = {},
): Promise<SplitWallet> {
  const owner = person ?? (await signInAs(service, tenant))
  const body = await dealtWallet(tenant, owner, dealt, proofs)
  return splitWallet(tenant, owner, dealt, await owner.post('/users/me/wallet', body))
}

/** A new `self_custody` wallet whose user has split the key for a backup; nothing of it is stored yet. */
export async function newSplitWallet(
  service: Pick<Service, 'deps' | 'url'>,
  tenant: Tenant,
  { person, dealt = deal() }: Whose = {},
): Promise<SplitWallet> {
  const owner = person ?? (await signInAs(service, tenant))
  const body = await answered(owner, 'self_custody', dealt)
  return splitWallet(tenant, owner, dealt, await owner.post('/users/me/wallet', body))
}

/** The default holder of each share. */
export const holderOf = (index: number): Holder => keys.INDEX_HOLDER[index] ?? 'recovery'

/** Which share a body of `POST /mpc/shares` is to be of, where it is not the obvious one. */
export interface ShareOptions {
  generation?: number
  holder?: Holder
  /** Another sharing's than the wallet's first. */
  dealt?: Pick<Dealt, 'sharing' | 'shares'>
}

const placeOf = (
  of: SplitWallet,
  index: number,
  { generation, holder = holderOf(index), dealt = of }: ShareOptions,
) => ({
  walletId: of.walletId,
  holder,
  index,
  threshold: dealt.sharing.threshold,
  total: dealt.sharing.total,
  ...(generation === undefined ? {} : { generation }),
  scheme: keys.SCHEME,
  curve: 'ed25519',
  commitments: hexOf(dealt.sharing.commitments),
})

const scalarAt = (of: SplitWallet, index: number, { dealt = of }: ShareOptions) =>
  (dealt.shares[index - 1] as keys.Share).scalar

/** The body that stores a share for the service to open. */
export async function sealedShare(of: SplitWallet, index: number, options: ShareOptions = {}) {
  const { holder = holderOf(index), generation } = options
  const subject = of.subject(generation === undefined ? {} : { generation })
  const context = (recipientKey: string) => keys.shareContext(subject, { index, holder, recipientKey })
  const sealed = await sealToService(of.person, 'store-share', context, scalarAt(of, index, options))
  return { ...placeOf(of, index, options), sealed }
}

const encrypt = (key: Buffer, plaintext: Uint8Array) => {
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', key, iv)
  return { iv, ct: Buffer.concat([cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]) }
}

const decrypt = (key: Buffer, iv: Buffer, ct: Buffer) => {
  const decipher = createDecipheriv('aes-256-gcm', key, iv)
  decipher.setAuthTag(ct.subarray(-16))
  return Buffer.concat([decipher.update(ct.subarray(0, -16)), decipher.final()])
}

/** A wrap of a share's data key, by what a passkey's PRF would give. */
export interface PrfWrap {
  credentialId: string
  rpId: string
  prfSalt: string
  wrappedDek: string
}

/** A share in a data key's ciphertext, which each passkey can open. */
export function passkeyProtected(scalar: Uint8Array, credentialIds: readonly string[] = [newCredentialId()]) {
  const dek = randomBytes(32)
  const prf = new Map<string, Buffer>()
  const wrap = (credentialId: string): PrfWrap => {
    const key = prf.get(credentialId) ?? randomBytes(32)
    prf.set(credentialId, key)
    const { iv, ct } = encrypt(key, dek)
    const wrappedDek = Buffer.concat([iv, ct]).toString('base64url')
    return { credentialId, rpId: 'localhost', prfSalt: randomBytes(32).toString('base64url'), wrappedDek }
  }
  const { iv, ct } = encrypt(dek, scalar)
  const clientCiphertext = {
    v: 1,
    alg: 'prf-hkdf-sha256-aes256gcm',
    iv: iv.toString('base64url'),
    ct: ct.toString('base64url'),
    wraps: credentialIds.map(wrap),
  }
  return {
    clientCiphertext,
    wrap,
    /** The share again, by the passkey of this wrap. */
    open(stored: { iv: string; ct: string }, { credentialId, wrappedDek }: PrfWrap): Buffer {
      const wrapped = Buffer.from(wrappedDek, 'base64url')
      const key = decrypt(prf.get(credentialId) as Buffer, wrapped.subarray(0, 12), wrapped.subarray(12))
      return decrypt(key, Buffer.from(stored.iv, 'base64url'), Buffer.from(stored.ct, 'base64url'))
    },
  }
}

/** An id as an authenticator makes one. */
export const newCredentialId = () => randomBytes(16).toString('base64url')

/** A share that a password protects, which could be guessed. The key stands in for what Argon2id would give. */
export function passwordProtected(scalar: Uint8Array, more: object = {}) {
  const { iv, ct } = encrypt(randomBytes(32), scalar)
  const wrap = { memoryKiB: 65_536, iterations: 3, parallelism: 1, wrappedDek: randomBytes(60).toString('base64url') }
  return {
    v: 1,
    alg: 'argon2id-aes256gcm',
    iv: iv.toString('base64url'),
    ct: ct.toString('base64url'),
    wraps: [{ salt: randomBytes(16).toString('base64url'), ...wrap, ...more }],
  }
}

/** The body that stores a share encrypted by the client, by default with one passkey. */
export function protectedShare(
  of: SplitWallet,
  index: number,
  options: ShareOptions & { clientCiphertext?: object } = {},
) {
  const { holder = holderOf(index), generation } = options
  const scalar = scalarAt(of, index, options)
  const clientCiphertext = options.clientCiphertext ?? passkeyProtected(scalar).clientCiphertext
  const subject = of.subject(generation === undefined ? {} : { generation })
  const details = { index, holder, ciphertext: keys.fingerprintOf(clientCiphertext) }
  return {
    ...placeOf(of, index, options),
    clientCiphertext,
    proof: hex(keys.prove(scalar, 'store-share', subject, details)),
  }
}

/** Stores a share. */
export async function storeShare(who: Pick<Person, 'post'>, body: object): Promise<KeyShare> {
  const answer = await who.post('/mpc/shares', body)
  expect(answer.status, answer.text).toBe(201)
  return answer.body.data
}
