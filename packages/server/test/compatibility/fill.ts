/** Fills a tenant through the API, for make-fixtures.ts: something of everything that a later version has to keep. */
import { createHash, createHmac, randomBytes } from 'node:crypto'
import {
  type PasskeyDiscoverableCredential,
  PasskeysCredentialsMemoryRepository,
  serializeCredential,
} from 'nid-webauthn-emulator'
import { generate } from 'otplib'
import {
  createSharedWallet,
  dealShares,
  executeShared,
  joinShares,
  protectionContext,
  protectShare,
  publicKeyOf,
  signWithScalar,
  storeHeldShare,
  toHex,
  utf8,
  writeHeldShare,
} from '../../../keys/src/index.ts'
import { createClient, type HalfkeyClient } from '../../../sdk/src/index.ts'
import { newAuthenticator, register } from '../harness/authenticator.ts'
import type { DnsServer } from '../harness/dns-server.ts'
import type { Held } from './fixture.ts'
import { transferCommand, upTo } from './payments.ts'

/** Where the service is and who fills it. */
export interface Target {
  url: string
  admin: string
  dns: DnsServer
  receiverUrl: string
}

type People = Pick<Held, 'publishable' | 'ada' | 'bob' | 'eve' | 'carol' | 'dan' | 'sam'>

/** Clients of the same tenant for each kind of caller. */
function clientsOf({ url, admin }: Target, publishable: string) {
  const as = (options: object) => createClient({ baseUrl: url, apiKey: admin, trustOnFirstUse: true, ...options })
  return {
    server: as({}),
    /** A server that acts for a user. */
    actingFor: (userId: string) => as({ userId }),
    /** A user's browser. */
    browser: (accessToken: string) => as({ apiKey: publishable, accessToken }),
    delegate: (delegateToken: string) => as({ apiKey: publishable, delegateToken }),
  }
}

type Clients = ReturnType<typeof clientsOf>

/** Signs a new user up by a passkey. */
async function signUp({ url }: Target, publishable: string, email: string) {
  const credentialsRepository = new PasskeysCredentialsMemoryRepository()
  const authenticator = newAuthenticator({ credentialsRepository })
  const by = { url, key: publishable }
  const { status, text, body } = await register(by, { email }, { authenticator, deviceName: 'Laptop' })
  if (status !== 200) throw new Error(text)
  const [credential] = credentialsRepository.loadCredentials() as [PasskeyDiscoverableCredential]
  return { ...body.data, credential: serializeCredential(credential) }
}

async function enrol(bob: HalfkeyClient): Promise<Pick<Held['bob'], 'totpSecret' | 'recoveryCodes'>> {
  const { secret } = await bob.mfa.setUp()
  const { recoveryCodes } = await bob.mfa.verifySetUp({ code: await generate({ secret }) })
  return { totpSecret: secret, recoveryCodes }
}

async function signInByMessenger(server: HalfkeyClient, appId: string): Promise<Held['eve']> {
  const botToken = `110201543:AA${randomBytes(24).toString('base64url')}`
  await server.apps.update(appId, { messenger: { botUsername: 'shop_login_bot', botToken } })
  const fields = { auth_date: Math.floor(Date.now() / 1000), first_name: 'Eve', id: 4242 }
  const text = Object.entries(fields).map(([name, value]) => `${name}=${value}`)
  const key = createHash('sha256').update(botToken).digest()
  const hash = createHmac('sha256', key).update(text.sort().join('\n')).digest('hex')
  const { user } = await server.auth.messenger.verify({ ...fields, hash })
  return { userId: user.id, botToken, messengerId: fields.id }
}

/** An embedded wallet whose sessions have spent, been refused, ended and written contracts of the tenant's template. */
async function makeCarol({ server, actingFor, delegate }: Clients): Promise<Held['carol']> {
  const user = await server.users.create({ email: 'carol@example.com', name: 'Carol', metadata: { plan: 'gold' } })
  const mine = actingFor(user.id)
  const wallet = await mine.wallet.create()
  const dripped = await server.dev.faucet({ userId: user.id, symbol: 'USDX', amount: '100' })
  const { id, token } = await mine.delegatedSessions.create({ name: 'Agent', policy: upTo('10', dripped) })
  const agent = delegate(token).delegatedSessions
  const paid = await agent.execute(id, { commandId: 'order-1', commands: [transferCommand(dripped.contractId, '3')] })
  const left = paid.effects.find(({ type, arguments: held }) => type === 'created' && held.owner === wallet.partyId)
  const contractId = left?.contractId as string
  await agent.execute(id, { commands: [transferCommand(contractId, '50')] }).catch(() => {})
  const ended = await mine.delegatedSessions.create({ name: 'Old phone', policy: upTo('5', dripped) })
  await mine.delegatedSessions.revoke(ended.id)
  await server.templates.create({
    templateId: 'Shop:Voucher',
    fields: { issuer: { type: 'party' }, owner: { type: 'party' }, value: { type: 'amount' } },
    signatories: ['owner'],
    observers: ['issuer'],
    choices: { Redeem: { controllers: ['owner'] } },
  })
  const printer = await mine.delegatedSessions.create({
    maxUses: 1,
    policy: { allow: [{ templateId: 'Shop:Voucher' }] },
  })
  const voucher = { issuer: dripped.issuer, owner: wallet.partyId, value: '12.5' }
  const commands = [{ create: { templateId: 'Shop:Voucher', arguments: voucher } }]
  await delegate(printer.token).delegatedSessions.execute(printer.id, { commands })
  return { userId: user.id, session: { id, token, contractId } }
}

/** A guest's shared wallet, whose device share is stored under a passkey, too. */
async function makeDan({ server, browser, delegate }: Clients): Promise<Held['dan']> {
  const guest = await server.guests.create()
  const mine = browser(guest.accessToken)
  const { wallet, device, recovery } = await createSharedWallet(mine)
  const passkey = { credentialId: randomBytes(16).toString('base64url'), prfOutput: new Uint8Array(randomBytes(32)) }
  const by = { ...passkey, rpId: 'localhost', prfSalt: randomBytes(32).toString('base64url') }
  await storeHeldShare(mine, wallet, device, await protectShare(device.share, protectionContext(device), by))
  const dripped = await server.dev.faucet({ userId: guest.userId, symbol: 'USDX', amount: '20' })
  const { id, token } = await mine.delegatedSessions.create({ policy: upTo('10', dripped) })
  const commands = [transferCommand(dripped.contractId, '2')]
  const paid = await executeShared(delegate(token), { sessionId: id, held: device, commands })
  const left = paid.effects.find(({ type, arguments: held }) => type === 'created' && held.owner === wallet.partyId)
  return {
    userId: guest.userId,
    refreshToken: guest.refreshToken,
    walletId: wallet.id,
    device: writeHeldShare(device),
    recovery: writeHeldShare(recovery),
    passkey: { credentialId: passkey.credentialId, prfOutput: toHex(passkey.prfOutput) },
    session: { id, token, contractId: left?.contractId as string },
  }
}

/** A wallet whose key its user keeps. */
async function makeSam({ server, browser }: Clients): Promise<Held['sam']> {
  const guest = await server.guests.create()
  const mine = browser(guest.accessToken)
  const { sharing, shares } = dealShares({ threshold: 2, total: 3 })
  const scalar = joinShares(sharing, shares.slice(1))
  const publicKey = toHex(publicKeyOf(scalar))
  const { challengeId, message } = await mine.wallet.challenge({ custody: 'self_custody', publicKey })
  const proof = toHex(signWithScalar(utf8(message), scalar))
  await mine.wallet.create({ custody: 'self_custody', publicKey, challengeId, proof })
  await server.guests.convert(guest.id, { email: 'sam@example.com' })
  const dripped = await server.dev.faucet({ userId: guest.userId, symbol: 'USDX', amount: '5' })
  const { id, token } = await mine.delegatedSessions.create({ policy: upTo('5', dripped) })
  return { userId: guest.userId, scalar: toHex(scalar), session: { id, token, contractId: dripped.contractId } }
}

/** Users who sign in in every way, with wallets of every kind. */
async function makePeople(target: Target, publishable: string, appId: string): Promise<People> {
  const clients = clientsOf(target, publishable)
  const ada = await signUp(target, publishable, 'ada@example.com')
  const bob = await signUp(target, publishable, 'bob@example.com')
  return {
    publishable,
    ada: {
      userId: ada.user.id,
      email: 'ada@example.com',
      refreshToken: ada.refreshToken,
      credential: ada.credential,
    },
    bob: {
      userId: bob.user.id,
      email: 'bob@example.com',
      credential: bob.credential,
      ...(await enrol(clients.browser(bob.accessToken))),
    },
    eve: await signInByMessenger(clients.server, appId),
    carol: await makeCarol(clients),
    dan: await makeDan(clients),
    sam: await makeSam(clients),
  }
}

/** Records in the states that only their end brings about. */
async function makeEnded({ server, actingFor }: Clients): Promise<void> {
  await server.guests.expire((await server.guests.create()).id)
  await server.guests.create({ ttlMinutes: 60 })
  const frozen = await server.users.create({ name: 'Frida' })
  await server.wallets.freeze((await actingFor(frozen.id).wallet.create()).id)
  const gone = await server.users.create({ email: 'gone@example.com' })
  await server.users.delete(gone.id)
  await server.users.update((await server.users.create({ externalId: 'crm-7' })).id, { status: 'suspended' })
}

async function makeDomains({ customDomains }: HalfkeyClient, dns: DnsServer): Promise<void> {
  await customDomains.create({ domain: 'pending.example.com' })
  const { domain, verification } = await customDomains.create({ domain: 'id.example.com' })
  dns.set(verification.name, [{ type: 'TXT', text: verification.value }])
  await customDomains.verify(domain)
}

/** Fills the tenant. A process that delivers must run; what has to wait for deliveries is the caller's. */
export async function fill(target: Target) {
  const { server } = clientsOf(target, '')
  const { settings } = await server.tenant.get()
  const appId = settings.defaultAppId
  const { id: webAppId } = await server.apps.create({ name: 'Second', metadata: { team: 'blue' } })
  const { key: publishable } = await server.apiKeys.create({ name: 'Browser', type: 'publishable', appId })
  const narrow = await server.apiKeys.create({
    name: 'Report',
    type: 'secret',
    appId: webAppId,
    scopes: ['users:read'],
  })
  const old = await server.apiKeys.create({ name: 'Old', type: 'secret', scopes: ['users:write'] })
  await server.apiKeys.revoke(old.id)
  const hook = async (path: string, events: ('user.*' | 'app.created')[]) => {
    const { id, secret } = await server.webhooks.create({ url: `${target.receiverUrl}/${path}`, events })
    return { id, secret }
  }
  const webhooks = { works: await hook('works', ['user.*']), fails: await hook('fails', ['app.created']) }
  const people = await makePeople(target, publishable, appId)
  const clients = clientsOf(target, publishable)
  await makeEnded(clients)
  await makeDomains(server, target.dns)
  const { id: spareAppId } = await server.apps.create({ name: 'Spare' })
  return { appId, spareAppId, narrow: narrow.key, revoked: old.key, webhooks, ...people }
}
