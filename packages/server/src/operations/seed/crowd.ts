import { generateKeyPairSync, sign } from 'node:crypto'
import { Secret, TOTP } from 'otpauth'
import type { GuestWithTokens } from '../../identity/guests/schema.ts'
import type { User } from '../../identity/users/schema.ts'
import type { Dripped } from '../../wallets/faucet/schema.ts'
import type { Wallet } from '../../wallets/wallets/schema.ts'
import type { Api } from './api.ts'
import { createSamplePasskey, type SamplePasskey } from './authenticator.ts'
import { marked } from './mark.ts'
import { makeDevice, makePerson } from './people.ts'
import type { Sample, SampleApp, Seeding } from './sample.ts'

/** A sample user. */
export interface Member {
  user: User
  app: SampleApp
}

/** A sample user with a wallet that the service signs for, and what is in it. */
export interface Holder extends Member {
  wallet: Wallet
  /** Calls for the user, by a server. */
  api: Api
  holding: Dripped
}

/** Every seventh user has a passkey, and no more of them: sign-ins are limited for each address. */
const PASSKEY_EVERY = 7
const PASSKEYS_MAX = 12
const GUESTS = 6

/** Creates users of both apps: three in ten are the courier's. */
export async function makeUsers({ api, dice, progress }: Seeding, sample: Sample, count: number): Promise<Member[]> {
  progress.begin('Users', count)
  const members: Member[] = []
  for (let index = 0; index < count; index += 1) {
    const app = index % 10 > 6 ? sample.courier : sample.shop
    const person = makePerson(dice, index)
    const body = { ...person, appId: app.id, metadata: marked(person.metadata) }
    members.push({ app, user: await api.post<User>('/users', body) })
    progress.add(1)
  }
  return members
}

/** Somebody who is signed in by a passkey. */
export interface SignedInMember extends Member {
  /** By the publishable key and the user's own access token. */
  own: Api
}

interface Challenge<PublicKey> {
  challengeId: string
  publicKey: PublicKey
}

/** Where the page would be. Apps without allowed origins take any on loopback. */
function pageOrigin(rpId: string): string {
  return rpId === 'localhost' || rpId.startsWith('127.') ? `http://${rpId}:3000` : `https://${rpId}`
}

async function signInAgain(browser: Api, passkey: SamplePasskey): Promise<string> {
  const asked = await browser.get<Challenge<{ challenge: string; rpId: string }>>('/auth/passkey/login-options')
  const credential = passkey.get(asked.publicKey)
  const { sessionId } = await browser.post<{ sessionId: string }>('/auth/passkey/login-verify', {
    challengeId: asked.challengeId,
    credential,
  })
  return sessionId
}

/** Gives a user a passkey of a device of theirs, and signs them in by it. */
async function addPasskey({ api, dice }: Seeding, { user, app }: Member): Promise<SignedInMember> {
  const device = makeDevice(dice)
  const origin = pageOrigin(app.rpId)
  const passkey = createSamplePasskey(origin)
  const asServer = api.as({ 'x-user-id': user.id })
  const asked = await asServer.post<Challenge<Parameters<SamplePasskey['create']>[0]>>('/auth/passkey/register-options')
  const browser = app.browser.as({ 'user-agent': device.userAgent, origin })
  const { accessToken } = await browser.post<{ accessToken: string }>('/auth/passkey/register-verify', {
    challengeId: asked.challengeId,
    credential: passkey.create(asked.publicKey),
    deviceName: device.name,
  })
  const own = browser.as({ authorization: `Bearer ${accessToken}` })
  if (dice.chance(0.5)) await signInAgain(browser, passkey)
  // Somebody signed out a device they had lost.
  if (dice.chance(0.25)) await own.delete(`/auth/sessions/${await signInAgain(browser, passkey)}`)
  return { user, app, own }
}

/** Sign-ins by passkeys, really made and really verified. */
export async function makeSignIns(seeding: Seeding, members: readonly Member[]): Promise<SignedInMember[]> {
  const chosen = members.filter((_, index) => index % PASSKEY_EVERY === 2).slice(0, PASSKEYS_MAX)
  seeding.progress.begin('Passkeys and sign-ins', chosen.length)
  const signedIn: SignedInMember[] = []
  for (const member of chosen) {
    const { app } = member
    if (!pageOrigin(app.rpId).startsWith('http:'))
      await seeding.api.patch(`/apps/${app.id}`, { allowedOrigins: [pageOrigin(app.rpId)] })
    signedIn.push(await addPasskey(seeding, member))
    seeding.progress.add(1)
  }
  return signedIn
}

async function enrol({ own }: SignedInMember): Promise<void> {
  const { secret } = await own.post<{ secret: string }>('/mfa/setup')
  await own.post('/mfa/verify-setup', { code: new TOTP({ secret: Secret.fromBase32(secret) }).generate() })
}

/** A wallet whose key is its owner's alone: here it is thrown away, for what it holds is worth nothing. */
async function makeOwnWallet({ own }: SignedInMember): Promise<Wallet> {
  const { publicKey: key, privateKey } = generateKeyPairSync('ed25519')
  const publicKey = key.export({ type: 'spki', format: 'der' }).subarray(-32).toString('hex')
  const about = { custody: 'self_custody', publicKey }
  const { challengeId, message } = await own.post<{ challengeId: string; message: string }>(
    '/users/me/wallet/challenge',
    about,
  )
  const proof = sign(null, Buffer.from(message), privateKey).toString('hex')
  return own.post<Wallet>('/users/me/wallet', { ...about, challengeId, proof })
}

/** A wallet whose key service and user made together, and nobody has. */
async function makeSharedWallet({ own }: SignedInMember): Promise<Wallet> {
  const { createSharedWallet } = await import('../../platform/security/threshold/threshold.ts')
  type Calls = Parameters<typeof createSharedWallet<Wallet>>[0]
  const mpc: Pick<Calls['mpc'], 'config' | 'startDkg' | 'dkgRound2' | 'confirmDkg'> = {
    config: () => own.get('/mpc/config'),
    startDkg: (body) => own.post('/mpc/dkg', body),
    dkgRound2: (id, body) => own.post(`/mpc/dkg/${id}/round2`, body),
    confirmDkg: (id, body) => own.post(`/mpc/dkg/${id}/confirm`, body),
  }
  // Making a wallet takes these calls alone.
  const { wallet } = await createSharedWallet<Wallet>({ mpc } as Calls)
  return wallet
}

const SYMBOL = 'USDX'

async function makeHolder({ api: server, dice }: Seeding, { user, app }: Member): Promise<Holder> {
  const api = server.as({ 'x-user-id': user.id })
  const wallet = await api.post<Wallet>('/users/me/wallet', {})
  const drip = (symbol: string, amount: string) =>
    server.post<Dripped>('/dev/faucet', { userId: user.id, symbol, amount })
  const holding = await drip(SYMBOL, `${50 + dice.below(450)}.${10 + dice.below(90)}`)
  if (dice.chance(0.25)) await drip('LOYALTY', String(10 * (1 + dice.below(90))))
  return { user, app, wallet, api, holding }
}

/** The wallets: a few of each custody among those who are signed in, and embedded ones for two thirds of the others. */
export async function makeWallets(
  seeding: Seeding,
  members: readonly Member[],
  signedIn: readonly SignedInMember[],
): Promise<{ holders: Holder[]; others: Wallet[] }> {
  const others: Wallet[] = []
  const [first, second, third, fourth] = signedIn
  const special = [first, second, third].filter((one) => one !== undefined)
  const owners = members.filter(({ user }, index) => index % 3 !== 1 && !special.some((one) => one.user.id === user.id))
  seeding.progress.begin('Wallets', owners.length + special.length)
  for (const [one, make] of [
    [first, makeOwnWallet],
    [second, makeSharedWallet],
    [third, makeOwnWallet],
  ] as const) {
    if (one === undefined) continue
    others.push(await make(one))
    seeding.progress.add(1)
  }
  if (fourth !== undefined) await enrol(fourth)
  const holders: Holder[] = []
  for (const member of owners) {
    holders.push(await makeHolder(seeding, member))
    seeding.progress.add(1)
  }
  return { holders, others }
}

/** Guests of the shop: some became users, one has ended. @returns how many guests there are, and how many became users */
export async function makeGuests({ api, dice, progress }: Seeding, { shop }: Sample, from: number) {
  progress.begin('Guests', GUESTS)
  let converted = 0
  for (let index = 0; index < GUESTS; index += 1) {
    const body = {
      appId: shop.id,
      ttlMinutes: 1_440 * (1 + dice.below(20)),
      metadata: marked({ basket: String(dice.below(9)) }),
    }
    const guest = await api.post<GuestWithTokens>('/guests', body)
    if (index % 3 === 1) {
      const { metadata, ...person } = makePerson(dice, from + index)
      await api.post(`/guests/${guest.id}/convert`, { ...person, metadata: marked(metadata) })
      converted += 1
    } else if (index % 3 === 2 && index > 3) await api.delete(`/guests/${guest.id}`)
    progress.add(1)
  }
  return { guests: GUESTS, converted }
}
