import { approve, ask, asking, type Owner } from '../../../src/delegation/approvals/approvals.fixture.ts'
import { stage as newApprovers } from '../../../src/delegation/approvals/approvers/approvers.fixture.ts'
import { amply, budget, putBudgets } from '../../../src/delegation/budgets/budgets.fixture.ts'
import {
  type ConnectedAgent,
  connectable,
  connected,
  refreshOf,
  startClients,
} from '../../../src/delegation/connect/connect.fixture.ts'
import {
  everything,
  expectStatus,
  newSession,
  type Session,
  type SignedIn,
  signedIn,
  transfer,
} from '../../../src/delegation/delegated.fixture.ts'
import { type BoundSession, newBound, type TestKey } from '../../../src/delegation/proofs/proofs.fixture.ts'
import { codeIn } from '../../../src/identity/email-sign-in/email.fixture.ts'
import { startIssuer, type TestIssuer, trust } from '../../../src/identity/foreign-tokens/issuer.fixture.ts'
import { newGuest } from '../../../src/identity/guests/guests.fixture.ts'
import { idTokenOf } from '../../../src/identity/id-tokens/id-tokens.fixture.ts'
import { newShop, widget } from '../../../src/identity/messenger/messenger.fixture.ts'
import { answerWith, codeNow, enrol } from '../../../src/identity/mfa/mfa.fixture.ts'
import { addProvider, newPkce, type Pkce, REDIRECT } from '../../../src/identity/providers/provider.fixture.ts'
import { publishableKey, signInAs } from '../../../src/identity/sessions/sessions.fixture.ts'
import { handOver } from '../../../src/identity/sign-in/service.ts'
import { beginDkg } from '../../../src/keys/key-generations/key-generations.fixture.ts'
import type { SplitWallet } from '../../../src/keys/key-shares/key-shares.fixture.ts'
import { start as beginResharing } from '../../../src/keys/recovery/recovery.fixture.ts'
import { acceptRestore } from '../../../src/operations/restore/service.ts'
import { publicUrl } from '../../../src/platform/config.ts'
import type { Id } from '../../../src/platform/ids.ts'
import type { Ledger } from '../../../src/platform/ports/ledger.ts'
import { onboardWallets } from '../../../src/wallets/onboarding/onboarding.ts'
import { newRemoteLedger } from '../../../src/wallets/onboarding/remote-ledger.fixture.ts'
import { newWallet, newWalletKey } from '../../../src/wallets/wallets/wallets.fixture.ts'
import { newAuthenticator, register } from '../../harness/authenticator.ts'
import { newLink, postSession } from '../../harness/dashboard-page.ts'
import { expectError } from '../../harness/envelope.ts'
import { eventually, type Service, type Tenant } from '../../harness/harness.ts'
import { startReceiver } from '../../harness/receiver.ts'
import { startSmtpServer } from '../../harness/smtp-server.ts'
import { addMembers } from './members.ts'

/** What the attacker has of features, each before and after the copy that they keep. */
export interface Features {
  /** A session of an owner's, who approves each payment above 5. Its delegate is the attacker. */
  asking: { tenant: Tenant; owner: Owner; session: Session; holding: string; approvalId: string; commands: object[] }
  /** A session whose own cap is out of the way, of a wallet whose budget is used up. */
  budget: { session: Session; holding: string }
  /** A session of the victim's that is bound to a key. The attacker has its token, and a key that a session of theirs is bound to. */
  bound: { session: BoundSession; key: TestKey }
  /** An issuer that the attacker has, with an account of the victim's, which the shop trusts no more. */
  issuer: TestIssuer
  subject: string
  /** A code by email for an address of the attacker's, and the one that hands a session of theirs over. */
  mail: { challengeId: string; code: string }
  handOver: { code: string; redirectUri: string } & Pkce
  /** Agents that the attacker's client was connected as: by the attacker, and by somebody who disconnected it. */
  agents: { own: ConnectedAgent; renew: Record<string, string>; lost: Record<string, string> }
  /** A guest of the attacker's whose time was ended. */
  guest: { refreshToken: string }
  /** The victim's key that is being made. */
  dkgId: string
  /** Ends what the stage has outside of the service. */
  close(): Promise<void>
}

const MAIL = 'eve-by-mail@example.com'

type Mail = Awaited<ReturnType<typeof startMail>>

/** What a stage of all these features starts its service with. */
export async function startMail() {
  const smtp = await startSmtpServer()
  return { smtp, settings: { HALFKEY_SMTP_URL: smtp.url, HALFKEY_MAIL_FROM: 'no-reply@halfkey.example' } }
}

/** An operator's word that an earlier state is the present one. It ends everything, so it comes first. */
export async function acceptFirst(service: Service): Promise<void> {
  const { signingKeys } = service.deps
  const before = (await signingKeys.current()).id
  await acceptRestore(service.deps, { always: true, apiKeys: 'keep' })
  await eventually('the new key signs', async () => (await signingKeys.current()).id !== before)
}

/** A self-custody wallet on a ledger beyond a network, which waits for its owner's signature. */
async function awaitOnboarding(service: Service, tenant: Tenant): Promise<void> {
  const embedded = service.deps.ledgers.get('embedded') as Ledger
  const before = service.deps.ledgers
  service.deps.ledgers = new Map([...before, ['remote', newRemoteLedger(embedded)]])
  const person = await signInAs(service, tenant)
  const key = newWalletKey()
  const body = { custody: 'self_custody', publicKey: key.publicKey, ledger: 'remote' }
  const asked = expectStatus(await person.post('/users/me/wallet/challenge', body), 201)
  await newWallet(person, { ...body, challengeId: asked.challengeId, proof: key.sign(asked.message).toString('hex') })
  await onboardWallets(service.deps)
  service.deps.ledgers = before
}

/** A recovery by email that waits, of somebody with a confirmed address and a passkey. */
async function awaitRecovery(service: Service, shop: Tenant, smtp: Mail['smtp']): Promise<void> {
  const caller = { url: service.url, key: await publishableKey(shop) }
  const email = 'lost@example.com'
  const prove = async (path: string, purpose: object) => {
    const { challengeId } = expectStatus(await shop.post('/auth/email/start', { email, ...purpose }, caller), 200)
    const code = codeIn(await smtp.next(email))
    return expectStatus(await shop.post(path, { challengeId, code }, caller), 200)
  }
  const { accessToken } = await prove('/auth/email/verify', {})
  const headers = { authorization: `Bearer ${accessToken}` }
  expectStatus(await register(caller, {}, { authenticator: newAuthenticator(), headers }), 200)
  await prove('/auth/email/recovery', { purpose: 'recovery' })
}

/** Rows that no path depends on, and that anybody could still change. */
async function fillTheRest(service: Service, shop: Tenant): Promise<() => Promise<void>> {
  const receiver = await startReceiver()
  const refusing = await startReceiver((_, response) => void response.writeHead(500).end())
  for (const { url } of [receiver, refusing])
    expectStatus(await shop.post('/webhooks', { url, events: ['user.created'] }), 201)
  const subscriber = expectStatus(await shop.post('/subscribers', { externalId: 'customer-1' }), 201)
  expectStatus(await shop.post(`/subscribers/${subscriber.id}/portal-link`, {}), 201)
  expectStatus(await shop.post('/event-types', { name: 'order.paid' }), 201)
  expectStatus(await shop.post('/events', { type: 'order.paid', data: {}, idempotencyKey: 'order-1' }), 201)
  const template = {
    templateId: 'Shop:Voucher',
    fields: { issuer: { type: 'party' }, owner: { type: 'party' }, value: { type: 'amount' } },
    signatories: ['owner'],
    observers: ['issuer'],
    choices: { Redeem: { controllers: ['owner'] } },
  }
  expectStatus(await shop.post('/templates', template), 201)
  expectStatus(await shop.post('/custom-domains', { domain: 'id.shop.example' }), 201)
  const keyed = { headers: { 'idempotency-key': 'once' } }
  expectStatus(await shop.post('/users', { email: 'bob@example.com' }, keyed), 201)
  const own = await newShop(service)
  const fields = { auth_date: own.date(), first_name: 'Eve', id: 4242 }
  expectStatus(await own.verify(widget(own.token, fields)), 200)
  await receiver.count('deliveries', 1)
  await refusing.count('refusals', 1)
  return async () => {
    await receiver.close()
    await refusing.close()
  }
}

/** Sets the features up. Call what it returns once the attacker has their copy: it ends what the attacker would like to have again. */
export async function setFeatures(
  service: Service,
  shop: Tenant,
  {
    smtp,
    victim,
    eve,
    shared,
  }: {
    smtp: Mail['smtp']
    victim: SignedIn
    eve: SignedIn
    shared: SplitWallet
  },
  asked: Awaited<ReturnType<typeof setApproval>>,
): Promise<{ features: Features; end(): Promise<void> }> {
  const key = await publishableKey(shop)
  const app = {
    name: 'Shop',
    email: { enabled: true },
    emailRecovery: { enabled: true },
    agents: { connect: true },
    allowedRedirectUrls: [REDIRECT],
  }
  expectStatus(await shop.patch(`/apps/${shop.appId}`, app), 200)
  const issuer = await startIssuer(service)
  const issuerId = await trust(shop, issuer)
  const subject = 'the-victim'
  const token = await issuer.token({ claims: { sub: subject, jti: 'one' } })
  const link = { subject_token: token, subject_token_type: 'urn:ietf:params:oauth:token-type:jwt' }
  expectStatus(await victim.person.post('/auth/identities', link), 201)
  await addProvider(shop, issuer.url)
  const started = expectStatus(await shop.post('/auth/email/start', { email: MAIL }, { key }), 200)
  const mail = { challengeId: started.challengeId, code: codeIn(await smtp.next(MAIL)) }
  expectStatus(await eve.person.post('/auth/email/start', { email: `new-${MAIL}`, purpose: 'change' }), 200)
  const pkce = newPkce()
  const { code } = await handOver(service.deps, {
    tenant_id: shop.tenantId as Id<'ten'>,
    app_id: shop.appId as Id<'app'>,
    session_id: eve.person.sessionId as Id<'ses'>,
    redirect_uri: REDIRECT,
    code_challenge: pkce.codeChallenge,
  })
  const rich = await signedIn(service, shop)
  expectStatus(await putBudgets(service, shop, rich, [budget(rich, '5')]), 200)
  const spending = await newSession(service, shop, rich, { policy: everything(amply(rich)) })
  const clients = await startClients()
  const byEve = connectable(service, clients, { tenant: shop, ada: eve })
  const byRich = { ...byEve, ada: rich }
  const [own, disconnected] = [await connected(byEve), await connected(byRich)]
  const [spent, holding] = [await rich.receive('5'), await rich.receive('1')]
  const bound = await newBound(service, shop, { holder: victim })
  const theirs = await newBound(service, shop, { holder: eve })
  const iat = Math.floor(service.deps.now().getTime() / 1000)
  expectStatus(await theirs.query({ claims: { iat } }), 200)
  const guest = await newGuest(shop)
  const dkg = await beginDkg(await signInAs(service, shop))
  await beginResharing(shared as never, [1, 2])
  const server = {
    get: (path: string) => shop.get(path, rich.asUser),
    post: (path: string, body?: unknown) => shop.post(path, body, rich.asUser),
    delete: (path: string) => shop.delete(path, rich.asUser),
  }
  const { secret } = await enrol(service, rich.person)
  expectStatus(await answerWith(server as never, { code: await codeNow(service, secret, 1) }), 200)
  await awaitOnboarding(service, shop)
  const opened = await postSession(
    service,
    { link: await newLink(service, shop.tenantId) },
    { origin: publicUrl(service.deps.config) },
  )
  expectStatus(opened, 200)
  await awaitRecovery(service, shop, smtp)
  await addMembers(service, shop, smtp)
  const entry = { recipient: victim.party, label: 'Ada' }
  expectStatus(await eve.person.post(`/wallets/${eve.walletId}/recipients`, entry), 201)
  await idTokenOf(eve.person)
  const closeRest = await fillTheRest(service, shop)
  return {
    features: {
      ...asked,
      budget: { session: spending, holding },
      bound: { session: bound, key: theirs.key },
      issuer,
      subject,
      mail,
      handOver: { code, redirectUri: REDIRECT, ...pkce },
      agents: { own, renew: refreshOf(byEve, own.refresh), lost: refreshOf(byRich, disconnected.refresh) },
      guest: { refreshToken: guest.refreshToken },
      dkgId: dkg.dkgId,
      async close() {
        await closeRest()
        await issuer.close()
        clients.stop()
        await smtp.close()
      },
    },
    async end() {
      expectStatus(await spending.execute({ commands: [transfer(spent, '5')] }), 200)
      expectError(await spending.execute({ commands: [transfer(holding, '1')] }), 403, 'budget_exceeded')
      expectStatus(await shop.delete(`/apps/${shop.appId}/issuers/${issuerId}`), 200)
      expectStatus(await shop.delete(`/delegated-sessions/${disconnected.sessionId}`), 200)
      expectStatus(await shop.delete(`/guests/${guest.id}`), 200)
    },
  }
}

/** A payment that waits for its owner. It takes a day, so it comes before everybody else signs in. */
export async function setApproval(service: Service): Promise<Pick<Features, 'asking'>> {
  // One of two has approved.
  const several = await newApprovers(service)
  const { approval } = await ask(several.session, several.owner)
  expectStatus(await approve(several.approvers[0], approval.id), 200)
  const { tenant, owner, session } = await asking(service)
  const waiting = await ask(session, owner)
  const holding = await owner.receive('7')
  return { asking: { tenant, owner, session, holding, approvalId: waiting.approval.id, commands: waiting.commands } }
}
