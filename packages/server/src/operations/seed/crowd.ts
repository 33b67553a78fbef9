import { generateKeyPairSync, sign } from 'node:crypto'
import { Secret, TOTP } from 'otpauth'
import type { Dripped, HalfkeyClient, User, Wallet } from '../../../../sdk/src/index.ts'
import { createSamplePasskey, type SamplePasskey } from './authenticator.ts'
import { marked } from './mark.ts'
import { DEVICES, makePerson } from './people.ts'
import { makeEach, type Sample, type SampleApp, type Seeding } from './sample.ts'

/** A sample user. */
export interface Member {
  user: User
  app: SampleApp
  /** Calls for the user, by a server. */
  api: HalfkeyClient
}

/** A sample user with a wallet that the service signs for, and what is in it. */
export interface Holder extends Member {
  wallet: Wallet
  holding: Dripped
}

/** Every seventh user has a passkey, and no more of them: sign-ins are limited for each address. */
const PASSKEY_EVERY = 7
const PASSKEYS_MAX = 12
const GUESTS = 6

/** Creates users of both apps: three in ten are the courier's. */
export function makeUsers(seeding: Seeding, sample: Sample, count: number): Promise<Member[]> {
  const { api, connect, dice } = seeding
  return makeEach(seeding, 'Users', Array.from({ length: count }), async (_, index) => {
    const app = index % 10 > 6 ? sample.courier : sample.shop
    const person = makePerson(dice, index)
    const user = await api.users.create({ ...person, appId: app.id, metadata: marked(person.metadata) })
    return { app, user, api: connect({ userId: user.id }) }
  })
}

/** A user who is signed in by a passkey. */
export interface SignedInMember extends Member {
  /** By the publishable key and the user's own access token. */
  own: HalfkeyClient
}

async function signInAgain({ auth: { passkeys } }: HalfkeyClient, passkey: SamplePasskey): Promise<string> {
  const { challengeId, publicKey } = await passkeys.loginOptions()
  return (await passkeys.loginVerify({ challengeId, credential: passkey.get(publicKey) })).sessionId
}

/** Gives a user a passkey on one of their devices, and signs them in by it. */
async function addPasskey({ connect, dice }: Seeding, member: Member): Promise<SignedInMember> {
  const { app, api } = member
  const { name: deviceName, userAgent } = dice.pick(DEVICES)
  const passkey = createSamplePasskey(app.origin)
  const { challengeId, publicKey } = await api.auth.passkeys.registerOptions()
  const page = { apiKey: app.webKey, headers: { 'user-agent': userAgent, origin: app.origin } }
  const browser = connect(page)
  const answer = { challengeId, credential: passkey.create(publicKey), deviceName }
  const { accessToken } = await browser.auth.passkeys.registerVerify(answer)
  const own = connect({ ...page, accessToken })
  if (dice.chance(0.5)) await signInAgain(browser, passkey)
  // The user signs out a device that they lost.
  if (dice.chance(0.25)) await own.auth.sessions.end(await signInAgain(browser, passkey))
  return { ...member, own }
}

/** Signs users in with passkeys, which the service really verifies. */
export function makeSignIns(seeding: Seeding, members: readonly Member[]): Promise<SignedInMember[]> {
  const chosen = members.filter((_, index) => index % PASSKEY_EVERY === 2).slice(0, PASSKEYS_MAX)
  return makeEach(seeding, 'Passkeys and sign-ins', chosen, (member) => addPasskey(seeding, member))
}

async function enrol({ own }: SignedInMember): Promise<void> {
  const { secret } = await own.mfa.setUp()
  await own.mfa.verifySetUp({ code: new TOTP({ secret: Secret.fromBase32(secret) }).generate() })
}

/** A wallet whose key only its owner has. The key is discarded, because the wallet's contents are worthless. */
async function makeOwnWallet({ own }: SignedInMember): Promise<Wallet> {
  const { publicKey: key, privateKey } = generateKeyPairSync('ed25519')
  const publicKey = key.export({ type: 'spki', format: 'der' }).subarray(-32).toString('hex')
  const about = { custody: 'self_custody' as const, publicKey }
  const { challengeId, message } = await own.wallet.challenge(about)
  const proof = sign(null, Buffer.from(message), privateKey).toString('hex')
  return own.wallet.create({ ...about, challengeId, proof })
}

/** A wallet whose key the service and the user generated together. */
async function makeSharedWallet({ own }: SignedInMember): Promise<Wallet> {
  const { createSharedWallet } = await import('../../platform/security/threshold/threshold.ts')
  return (await createSharedWallet(own)).wallet
}

/** Actions of the first users who are signed in, one for each user. */
const OWN_WALLETS = [makeOwnWallet, makeSharedWallet, makeOwnWallet]

const SYMBOL = 'USDX'

async function makeHolder({ api: server, dice }: Seeding, member: Member): Promise<Holder> {
  const wallet = await member.api.wallet.create()
  const drip = (symbol: string, amount: string) => server.dev.faucet({ userId: member.user.id, symbol, amount })
  const holding = await drip(SYMBOL, `${50 + dice.below(450)}.${10 + dice.below(90)}`)
  if (dice.chance(0.25)) await drip('LOYALTY', String(10 * (1 + dice.below(90))))
  return { ...member, wallet, holding }
}

/** The wallets: a few whose users hold the key, or a share of it, and embedded ones for two thirds of the others. */
export async function makeWallets(seeding: Seeding, members: readonly Member[], signedIn: readonly SignedInMember[]) {
  const special = signedIn.slice(0, OWN_WALLETS.length)
  const next = signedIn[OWN_WALLETS.length]
  if (next !== undefined) await enrol(next)
  const others = await makeEach(seeding, 'Wallets by their users', special, (member, index) =>
    (OWN_WALLETS[index] as typeof makeOwnWallet)(member),
  )
  const isSpecial = ({ user }: Member) => special.some((one) => one.user === user)
  const owners = members.filter((member, index) => index % 3 !== 1 && !isSpecial(member))
  const holders = await makeEach(seeding, 'Wallets', owners, (member) => makeHolder(seeding, member))
  return { holders, others }
}

/** Guests of the shop: some became users, one has ended. @returns how many guests there are, and how many became users */
export async function makeGuests(seeding: Seeding, { shop }: Sample, from: number) {
  const { api, dice } = seeding
  const fates = await makeEach(seeding, 'Guests', Array.from({ length: GUESTS }), async (_, index) => {
    const ttlMinutes = 1_440 * (1 + dice.below(20))
    const metadata = marked({ basket: String(dice.below(9)) })
    const { id } = await api.guests.create({ appId: shop.id, ttlMinutes, metadata })
    if (index === GUESTS - 1) await api.guests.expire(id)
    if (index % 3 !== 1) return 'guest'
    const person = makePerson(dice, from + index)
    await api.guests.convert(id, { ...person, metadata: marked(person.metadata) })
    return 'user'
  })
  return { guests: GUESTS, converted: fates.filter((fate) => fate === 'user').length }
}
