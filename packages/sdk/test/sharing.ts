import { randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import {
  beginDkg,
  createSharedWallet,
  dealShares,
  executeShared,
  joinShares,
  loadHeldShare,
  newEncryptionKey,
  openProtected,
  protectionContext,
  protectShare,
  publicKeyOf,
  releaseKey,
  reshare,
  SHARED_SIGNERS,
  signWithScalar,
  storeHeldShare,
  sweep,
  toHex,
  utf8,
} from '../../keys/src/index.ts'
import type { HalfkeyClient } from '../src/client.ts'
import { transfer, upTo } from './delegating.ts'
import type { ClientOf } from './sign-in.ts'

/** Makes a key with the service, pays with it, shares it anew and has it given out. */
export async function useSharedKeys(
  client: HalfkeyClient,
  clientOf: ClientOf,
  delegateOf: (delegateToken: string) => HalfkeyClient,
): Promise<void> {
  const guest = await client.guests.create()
  const mine = clientOf(guest.accessToken)
  await useKeyGenerations(mine)
  const { wallet, device, recovery } = await createSharedWallet(mine)
  expect(wallet).toMatchObject({ custody: 'shared', keyOrigin: 'dkg', status: 'ready', publicKey: device.publicKey })
  const dripped = await client.dev.faucet({ userId: guest.userId, symbol: 'USDX', amount: '5' })
  const { id: sessionId, token } = await mine.delegatedSessions.create({ policy: upTo('5', dripped) })
  const commands = [transfer(dripped.contractId, '2')]
  const paid = await executeShared(delegateOf(token), { sessionId, held: device, commands })
  expect(paid).toMatchObject({ status: 'completed', signingRequest: null })

  const fresh = await reshare(mine, [recovery], () => {})
  await expect(reshare(mine, [device], () => {})).rejects.toMatchObject({ name: expect.stringMatching(/Error/) })
  expect(await client.wallets.custody(wallet.id)).toMatchObject({ generation: 2, serviceAlone: false, userAlone: true })
  const scalar = await releaseKey(mine, fresh.device)
  expect(toHex(publicKeyOf(scalar))).toBe(wallet.publicKey)
  expect((await client.wallets.custody(wallet.id)).exportedAt).not.toBeNull()
  const receiver = `carol::1220${'ca'.repeat(32)}`
  await client.dev.faucet({ userId: guest.userId, symbol: 'EURX', amount: '7' })
  await expect(sweep(mine, { key: fresh.device.share.scalar, receiver, delegateOf })).rejects.toMatchObject({
    code: 'share_invalid',
  })
  const swept = await sweep(mine, { key: scalar, receiver, delegateOf })
  expect(swept).toMatchObject([{ status: 'completed' }])
  expect(await sweep(mine, { key: scalar, receiver, delegateOf })).toEqual([])
}

/** Begins to generate a key, looks at it and leaves it. */
async function useKeyGenerations(mine: HalfkeyClient): Promise<void> {
  const holders = [
    { index: 2, holder: 'device' as const },
    { index: 3, holder: 'recovery' as const },
  ]
  const participants = await Promise.all(
    holders.map(async (each) => ({ ...each, encryptionKey: toHex((await newEncryptionKey()).publicKey) })),
  )
  const round1 = holders.map(({ index }) => {
    const { commitments, proofOfKnowledge } = beginDkg(index, SHARED_SIGNERS).round1
    return { index, commitments: commitments.map(toHex), proofOfKnowledge: toHex(proofOfKnowledge) }
  })
  const { dkgId } = await mine.mpc.startDkg({ participants, round1 })
  expect((await mine.mpc.getDkg(dkgId)).status).toBe('round1')
  expect((await mine.mpc.cancelDkg(dkgId)).status).toBe('canceled')
}

/** Keeps a share of a key of the user's own, protected by a passkey; opens, changes and destroys it. */
export async function useKeyShares(client: HalfkeyClient, clientOf: ClientOf): Promise<void> {
  const mine = clientOf((await client.guests.create()).accessToken)
  const { sharing, shares } = dealShares({ threshold: 2, total: 3 })
  const [, second, third] = shares as [(typeof shares)[0], (typeof shares)[0], (typeof shares)[0]]
  const publicKey = toHex(sharing.commitments[0] as Uint8Array)
  const scalar = joinShares(sharing, [second, third])
  const { challengeId, message } = await mine.wallet.challenge({ custody: 'self_custody', publicKey })
  const proof = toHex(signWithScalar(utf8(message), scalar))
  const wallet = await mine.wallet.create({ custody: 'self_custody', publicKey, challengeId, proof })

  const held = { walletId: wallet.id, publicKey, generation: 1, holder: 'device' as const, share: second, sharing }
  const passkey = { credentialId: randomBytes(16).toString('base64url'), prfOutput: new Uint8Array(randomBytes(32)) }
  const by = { ...passkey, rpId: 'localhost', prfSalt: randomBytes(32).toString('base64url') }
  const ciphertext = await protectShare(second, protectionContext(held), by)
  await storeHeldShare(mine, wallet, held, ciphertext)
  const of = { walletId: wallet.id, publicKey, index: 2 }
  const again = await loadHeldShare(mine, of, (stored, context) => openProtected(stored, context, passkey))
  expect(toHex(again.share.scalar)).toBe(toHex(second.scalar))
  if (ciphertext.alg === 'argon2id-aes256gcm') throw new Error('protected by a password')
  const { wraps } = ciphertext
  await expect(mine.mpc.replaceWraps(wallet.id, { index: 2, wraps: [] })).rejects.toMatchObject({
    code: 'share_would_be_lost',
  })
  expect((await mine.mpc.replaceWraps(wallet.id, { index: 2, wraps })).stored).toBe(true)
  expect(await mine.mpc.deleteShares(wallet.id)).toMatchObject({ deleted: 1, threshold: 2 })
  await expect(mine.mpc.getShares(wallet.id)).rejects.toMatchObject({ code: 'not_found' })
}
