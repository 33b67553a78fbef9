/** What the users and servers of an earlier commit must still be able to do, and what is still sent to them. */
import { createHash, createHmac } from 'node:crypto'
import { deserializeCredential, PasskeysCredentialsMemoryRepository } from 'nid-webauthn-emulator'
import { generate } from 'otplib'
import { expect } from 'vitest'
import {
  executeShared,
  fromHex,
  loadHeldShare,
  openProtected,
  readHeldShare,
  releaseKey,
  signWithScalar,
  toHex,
  transactionDigest,
} from '../../../keys/src/index.ts'
import { createClient, verifyWebhook } from '../../../sdk/src/index.ts'
import { logIn, newAuthenticator } from '../harness/authenticator.ts'
import { call, eventually } from '../harness/harness.ts'
import type { Receiver } from '../harness/receiver.ts'
import type { Held } from './fixture.ts'
import { transferCommand } from './payments.ts'
import type { Served } from './serve.ts'

const clientOf = ({ url }: Served, apiKey: string, options: object = {}) =>
  createClient({ baseUrl: url, apiKey, ...options })

/** API keys open what they opened, and no more. */
export async function useKeys({ url }: Served, held: Held): Promise<void> {
  const status = async (method: string, path: string, key: string) =>
    (await call(url, method, `/v1${path}`, { key, ...(method === 'POST' ? { body: {} } : {}) })).status
  expect(await status('GET', '/tenant', held.admin)).toBe(200)
  expect(await status('GET', '/users', held.narrow)).toBe(200)
  expect(await status('POST', '/users', held.narrow)).toBe(403)
  expect(await status('GET', '/users', held.publishable)).toBe(403)
  expect(await status('GET', '/users', held.revoked)).toBe(401)
}

function signIn({ url }: Served, { publishable }: Held, { email, credential }: { email: string; credential: string }) {
  const credentialsRepository = new PasskeysCredentialsMemoryRepository()
  credentialsRepository.saveCredential(deserializeCredential(credential))
  return logIn({ url, key: publishable }, newAuthenticator({ credentialsRepository }), { email })
}

/** Users sign in by passkey, second factor and messenger, and are who they were. */
export async function signInAll(service: Served, held: Held): Promise<void> {
  const ada = await signIn(service, held, held.ada)
  expect(ada).toMatchObject({ isNewUser: false, user: { id: held.ada.userId, email: held.ada.email } })

  const bob = await signIn(service, held, held.bob)
  expect(bob.user.id).toBe(held.bob.userId)
  const { mfa } = clientOf(service, held.publishable, { accessToken: bob.accessToken })
  // A step later than the code that the factor was set up by.
  const epoch = Math.floor(service.deps.now().getTime() / 1000) + 30
  const code = await generate({ secret: held.bob.totpSecret, epoch })
  expect(await mfa.verify({ challengeId: (await mfa.challenge()).challengeId, code })).toMatchObject({ verified: true })
  const recoveryCode = held.bob.recoveryCodes[0] as string
  const answered = await mfa.verify({ challengeId: (await mfa.challenge()).challengeId, recoveryCode })
  expect(answered).toMatchObject({ verified: true })

  const authDate = Math.floor(service.deps.now().getTime() / 1000)
  const fields = { auth_date: authDate, first_name: 'Eve', id: held.eve.messengerId }
  const text = Object.entries(fields).map(([name, value]) => `${name}=${value}`)
  const key = createHash('sha256').update(held.eve.botToken).digest()
  const hash = createHmac('sha256', key).update(text.sort().join('\n')).digest('hex')
  const eve = await clientOf(service, held.admin).auth.messenger.verify({ ...fields, hash })
  expect(eve).toMatchObject({ isNewUser: false, user: { id: held.eve.userId } })
}

/** Delegated sessions execute on wallets of every custody, and what they spent before counts. */
export async function useSessions(service: Served, held: Held): Promise<void> {
  const delegate = ({ token: delegateToken }: { token: string }) =>
    clientOf(service, held.publishable, { delegateToken })
  const { carol, dan, sam } = held
  const agent = delegate(carol.session).delegatedSessions
  const pay = (amount: string) =>
    agent.execute(carol.session.id, { commands: [transferCommand(carol.session.contractId, amount)] })
  await expect(pay('7.01')).rejects.toMatchObject({ code: 'spend_limit_exceeded' })
  expect(await pay('7')).toMatchObject({ status: 'completed', remaining: { spend: [{ remaining: '0' }] } })

  const shared = await executeShared(delegate(dan.session), {
    sessionId: dan.session.id,
    held: readHeldShare(dan.device),
    commands: [transferCommand(dan.session.contractId, '8')],
  })
  expect(shared).toMatchObject({ status: 'completed', remaining: { spend: [{ remaining: '0' }] } })

  const own = delegate(sam.session).delegatedSessions
  const commands = [transferCommand(sam.session.contractId, '1')]
  const asked = await own.execute(sam.session.id, { commands })
  expect(asked.status).toBe('signature_required')
  const { id: signingRequestId, preparedTransaction } = asked.signingRequest as NonNullable<typeof asked.signingRequest>
  const digest = await transactionDigest(new Uint8Array(Buffer.from(preparedTransaction, 'base64')))
  const signature = toHex(signWithScalar(digest, fromHex(sam.scalar)))
  expect(await own.execute(sam.session.id, { signingRequestId, signature })).toMatchObject({ status: 'completed' })
}

/** The stored share opens for its passkey, and the service's share makes the key together with one of the user's. */
export async function openShares(service: Served, held: Held, accessToken: string): Promise<void> {
  const { walletId, passkey, device: written } = held.dan
  const mine = clientOf(service, held.publishable, { accessToken })
  const device = readHeldShare(written)
  const { publicKey } = device
  const stored = await loadHeldShare(mine, { walletId, publicKey, index: device.share.index }, (ciphertext, context) =>
    openProtected(ciphertext, context, { credentialId: passkey.credentialId, prfOutput: fromHex(passkey.prfOutput) }),
  )
  expect(toHex(stored.share.scalar)).toBe(toHex(device.share.scalar))
  const scalar = await releaseKey(mine, readHeldShare(held.dan.recovery))
  expect(signWithScalar(new Uint8Array([1]), scalar)).toHaveLength(64)
}

/** Leads the webhooks to a receiver of today: the one that the fixture was made with is gone. */
export async function redirect(service: Served, held: Held, receiver: Receiver): Promise<void> {
  for (const [name, { id }] of Object.entries(held.webhooks))
    await clientOf(service, held.admin).webhooks.update(id, { url: `${receiver.url}/${name}` })
}

/** What was pending is delivered with its event id, signed by the webhook's secret; a dead letter can be sent again. */
export async function deliverAll(service: Served, held: Held, receiver: Receiver): Promise<void> {
  const { works, late, fails } = held.webhooks
  const pending = await receiver.until('the delivery that had failed once', ({ path }) => path === '/late')
  expect(pending.event.id).toBe(held.pending.eventId)
  await verifyWebhook(pending.body, pending.headers, late.secret)
  const unsent = await receiver.until(
    'the event that nothing had been sent of',
    ({ path, event }) => path === '/works' && event.data.userId === held.unsentUserId,
  )
  await verifyWebhook(unsent.body, unsent.headers, works.secret)
  const { deliveries } = clientOf(service, held.admin).webhooks
  expect(await deliveries.get(fails.id, held.deadLetter.id)).toMatchObject({ status: 'dead_letter' })
  await deliveries.retry(fails.id, held.deadLetter.id)
  const again = await receiver.until('the dead letter', ({ path }) => path === '/fails')
  expect(again.event.id).toBe(held.deadLetter.eventId)
  await verifyWebhook(again.body, again.headers, fails.secret)
  await eventually('the end of the delivery', async () => {
    return (await deliveries.get(fails.id, held.deadLetter.id)).status === 'succeeded'
  })
}
