import {
  everything,
  expectStatus,
  newSession,
  ownSession,
  type Session,
  type SignedIn,
  signedIn,
  transfer,
  transfers,
} from '../../../src/delegation/delegated.fixture.ts'
import { idTokenOf, partOf } from '../../../src/identity/id-tokens/id-tokens.fixture.ts'
import { enrol } from '../../../src/identity/mfa/mfa.fixture.ts'
import { type Person, personOf, publishableKey, signInAs } from '../../../src/identity/sessions/sessions.fixture.ts'
import { newSharedWallet, type SplitWallet } from '../../../src/keys/key-shares/key-shares.fixture.ts'
import { type Authenticator, newAuthenticator, register, signUp } from '../../harness/authenticator.ts'
import { newLink } from '../../harness/dashboard-page.ts'
import { eventually, type Service, type Tenant } from '../../harness/harness.ts'
import { acceptFirst, type Features, setApproval, setFeatures, type startMail } from './features.ts'

/** What the attacker knows and has: accounts of their own, and what was taken from them or others before. */
export interface Stage {
  /** Of the victims; the attacker is a user in it. */
  shop: Tenant
  /** The attacker's own tenant. */
  own: Tenant
  /** A key of the shop that the attacker had, and that was revoked. */
  revokedKey: string
  shopKey: string
  /** The victim: a user with a passkey, a second factor, a wallet with tokens and a delegated session. */
  victim: SignedIn
  holding: string
  victimSession: Session
  /** The victim's user with a shared wallet. */
  shared: SplitWallet
  /** Suspended, with the attacker's authenticator: an account of theirs that was closed. */
  closed: { userId: string; authenticator: Authenticator; session: Session }
  /** The attacker in the shop: with a passkey, a wallet of 10, and a session whose cap of 1 is spent. */
  eve: SignedIn & { authenticator: Authenticator }
  eveHolding: string
  spent: Session
  /** A session of the victim's that the attacker was the delegate of, and that was revoked. */
  revoked: Session
  /** A session of the victim's whose refresh token the attacker has, and that was revoked. */
  stolen: Person
  /** An authenticator whose passkey the victim removed. */
  removed: Authenticator
  /** A session of a wallet that is frozen. */
  frozen: Session
  frozenHolding: string
  /** A link to the dashboard of the attacker's tenant. */
  link: string
  /** The key of ID tokens of the attacker's tenant. */
  ownKid: string
  features: Features
  /** What its clock said at the end: an attack that takes longer than a token lives would prove nothing. */
  endedAt: Date
}

/** Under which the service is reached, whatever port it has. */
export const PUBLIC_URL = 'http://localhost:8080'

type Mail = Awaited<ReturnType<typeof startMail>>

/** Runs between two states of the stage: the attacker copied the database then. */
export type Copy = () => Promise<void>

async function signedUp(service: Service, tenant: Tenant, email: string) {
  const authenticator = newAuthenticator()
  const key = await publishableKey(tenant)
  const made = await signUp({ url: service.url, key }, { email }, { authenticator })
  const person = personOf(service.url, key, { userId: made.user.id, appId: tenant.appId }, made)
  return { person, authenticator }
}

async function withWallet(service: Service, tenant: Tenant, person: Person): Promise<SignedIn> {
  return signedIn(service, tenant, { userId: person.userId })
}

/** Sets everything up in a service that does all work, and lets what follows the events catch up. */
export async function setStage(service: Service, copy: Copy, { smtp }: Pick<Mail, 'smtp'>): Promise<Stage> {
  await acceptFirst(service)
  const asked = await setApproval(service)
  const [shop, own] = [await service.newTenant(), await service.newTenant()]
  const up = (email: string) => signedUp(service, shop, email)
  const [ada, mallory, suspended] = [
    await up('ada@example.com'),
    await up('eve@example.com'),
    await up('x@example.com'),
  ]
  const victim = await withWallet(service, shop, ada.person)
  const eve = { ...(await withWallet(service, shop, mallory.person)), authenticator: mallory.authenticator }
  const closedUser = await withWallet(service, shop, suspended.person)
  const held = await signedIn(service, shop)
  const [holding, eveHolding, frozenHolding] = [
    await victim.receive('1000'),
    await eve.receive('10'),
    await held.receive('100'),
  ]
  const removed = newAuthenticator()
  const caller = { url: service.url, key: ada.person.key }
  expectStatus(await register(caller, {}, { authenticator: removed, headers: ada.person.bearer }), 200)
  const revokedKey = await shop.newKey({ scopes: ['*'] })
  const keys = expectStatus(await shop.get('/api-keys?page_size=100'), 200) as { id: string; last4: string }[]
  const stage = {
    shop,
    own,
    revokedKey,
    shopKey: await publishableKey(shop),
    victim: { ...victim, person: ada.person },
    holding,
    victimSession: await newSession(service, shop, victim, { policy: transfers(victim, '5') }),
    shared: await newSharedWallet(service, shop),
    closed: {
      userId: closedUser.userId,
      authenticator: suspended.authenticator,
      session: await newSession(service, shop, closedUser, { policy: everything() }),
    },
    eve: { ...eve, person: mallory.person },
    eveHolding,
    spent: await ownSession(service, eve, { policy: transfers(eve, '1') }),
    revoked: await newSession(service, shop, victim, { policy: transfers(victim, '5') }),
    stolen: await signInAs(service, shop, { userId: victim.userId }),
    removed,
    frozen: await newSession(service, shop, held, { policy: transfers(held, '5') }),
    frozenHolding,
    link: await newLink(service, own.tenantId),
  }
  const another = await signInAs(service, own)
  await withWallet(service, own, another)
  await enrol(service, ada.person)
  const ownKid = partOf(await idTokenOf(another), 0).kid as string
  const { features, end } = await setFeatures(service, shop, { ...stage, smtp }, asked)
  // From here on the attacker's copy is an older state.
  await copy()
  await end()
  expectStatus(await stage.spent.execute({ commands: [transfer(eveHolding, '1')] }), 200)
  const [left] = await service.sql<{ id: string }>(
    `select contract_id as id from ledger_contracts where archived_offset is null and arguments ->> 'owner' = $1`,
    [eve.party],
  )
  stage.eveHolding = left?.id as string
  expectStatus(await shop.delete(`/delegated-sessions/${stage.revoked.id}`), 200)
  expectStatus(await stage.stolen.delete(`/auth/sessions/${stage.stolen.sessionId}`), 200)
  expectStatus(await shop.post(`/wallets/${held.walletId}/freeze`), 200)
  expectStatus(await shop.patch(`/users/${closedUser.userId}`, { status: 'suspended' }), 200)
  const lost = keys.find(({ last4 }) => revokedKey.endsWith(last4))
  expectStatus(await shop.delete(`/api-keys/${lost?.id}`), 200)
  const passkeys = expectStatus(await shop.get('/auth/passkeys', victim.asUser), 200) as { id: string }[]
  expectStatus(await shop.delete(`/auth/passkeys/${passkeys[0]?.id}`, victim.asUser), 200)
  await settled(service, [shop, own])
  return { ...stage, ownKid, features, endedAt: service.deps.now() }
}

/** Waits until the audit log and the ledger's chain have taken everything in. */
async function settled(service: Service, tenants: readonly Tenant[]): Promise<void> {
  for (const { tenantId } of tenants)
    await eventually('the ledger is in its chain', async () => {
      const [row] = await service.sql<{ behind: boolean }>(
        `select (select count(*) from ledger_updates where tenant_id = $1) > (select count(*) from ledger_chain where tenant_id = $1) as behind`,
        [tenantId],
      )
      return row?.behind === false
    })
  await eventually('the audit log has every event', async () => {
    const rows = await service.sql('select from outbox limit 1')
    return rows.length === 0
  })
}
