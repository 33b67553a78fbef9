import { transfer } from '../../../src/delegation/delegated.fixture.ts'
import { proofFor } from '../../../src/delegation/proofs/proofs.fixture.ts'
import { exchangeBody } from '../../../src/identity/foreign-tokens/issuer.fixture.ts'
import { type Authenticator, loginOptions, loginVerify } from '../../harness/authenticator.ts'
import { cookieOf, ownHeaders, postSession } from '../../harness/dashboard-page.ts'
import { type Answer, type CallOptions, call, type Service } from '../../harness/harness.ts'
import { PUBLIC_URL, type Stage } from './stage.ts'

/** What came of a walk. */
export interface Walked {
  /** What the attacker got that was not theirs, in words. */
  gained: string[]
  /** Whether a call was refused as one that depends on a changed record. */
  refused: boolean
}

/** One path that an attacker takes, with what they gain if it is open. @returns null if it is closed */
type Path = (walk: Walk) => Promise<string | null>

interface Walk {
  stage: Stage
  api(method: string, path: string, options: CallOptions): Promise<Answer>
  /** What needs no key. */
  outside(path: string, method?: string, options?: CallOptions): Promise<Answer>
  page(options: { authenticator: Authenticator; email?: string }): Promise<Answer>
  service: Service
}

const isOpen = ({ status }: Answer) => status >= 200 && status < 300

const execute =
  (
    of: (stage: Stage) => { session: Stage['spent']; token?: string; holding: string; amount: string; what: string },
  ): Path =>
  async ({ stage, api }) => {
    const { session, token = session.token, holding, amount, what } = of(stage)
    const answer = await api('POST', `/delegated-sessions/${session.id}/execute`, {
      key: stage.shopKey,
      headers: { authorization: `Bearer ${token}` },
      body: { commands: [transfer(holding, amount)] },
    })
    return isOpen(answer) ? what : null
  }

/** Calls as the attacker in the shop, for what is the victim's. */
const asEve =
  (method: string, path: (stage: Stage) => string, what: string, body?: (stage: Stage) => object): Path =>
  async ({ stage, api }) => {
    const options = { key: stage.shopKey, headers: stage.eve.person.bearer, ...(body && { body: body(stage) }) }
    const answer = await api(method, path(stage), options)
    return isOpen(answer) && !isOwn(answer, stage) ? what : null
  }

/** Whether an answer is about what is the attacker's. */
const isOwn = ({ text }: Answer, { victim, shared }: Stage) =>
  ![victim.userId, victim.walletId, victim.party, shared.walletId].some((id) => text.includes(id))

const asOwner =
  (method: string, path: (stage: Stage) => string, what: string): Path =>
  async ({ stage, api }) =>
    isOpen(await api(method, path(stage), { key: stage.own.key })) ? what : null

const signIn =
  (of: (stage: Stage) => { authenticator: Authenticator; email?: string; isMine?: string }, what: string): Path =>
  async ({ stage, page }) => {
    const { isMine, ...by } = of(stage)
    const answer = await page(by)
    return isOpen(answer) && answer.body.data.user.id !== isMine ? what : null
  }

const PATHS: Path[] = [
  execute((s) => ({ session: s.spent, holding: s.eveHolding, amount: '1', what: 'more than the cap' })),
  execute((s) => ({ session: s.spent, holding: s.holding, amount: '1', what: 'tokens of the victim' })),
  execute((s) => ({ session: s.revoked, holding: s.holding, amount: '1', what: 'a revoked session' })),
  execute((s) => ({ session: s.frozen, holding: s.frozenHolding, amount: '1', what: 'a frozen wallet' })),
  execute((s) => ({
    session: s.victimSession,
    token: s.spent.token,
    holding: s.holding,
    amount: '1',
    what: "the victim's session by another token",
  })),
  async ({ stage, api }) => {
    const answer = await api('POST', `/delegated-sessions/${stage.closed.session.id}/query`, {
      key: stage.shopKey,
      headers: { authorization: `Bearer ${stage.closed.session.token}` },
      body: {},
    })
    return isOpen(answer) ? 'a session of a suspended user' : null
  },
  async ({ stage, api, service }) => {
    const { session, key } = stage.features.bound
    const path = `/delegated-sessions/${session.id}/query`
    const asked = (headers: Record<string, string>) => api('POST', path, { key: stage.shopKey, headers, body: {} })
    const iat = Math.floor(service.deps.now().getTime() / 1000)
    const proven = { key, token: session.token, method: 'POST', url: `${service.url}/v1${path}`, body: '{}' }
    const dpop = await proofFor(proven, { claims: { iat } })
    const answers = [
      await asked({ authorization: `Bearer ${session.token}` }),
      await asked({ authorization: `DPoP ${session.token}`, dpop }),
    ]
    return answers.some(isOpen) ? 'a bound session by its token alone' : null
  },
  signIn((s) => ({ authenticator: s.eve.authenticator, isMine: s.eve.userId }), 'a sign-in as somebody else'),
  signIn((s) => ({ authenticator: s.eve.authenticator, email: 'ada@example.com' }), 'a sign-in as the victim'),
  signIn((s) => ({ authenticator: s.removed }), 'a sign-in by a removed passkey'),
  signIn((s) => ({ authenticator: s.closed.authenticator }), 'a sign-in of a suspended user'),
  async ({ stage, api }) => {
    const body = { refreshToken: stage.stolen.refreshToken }
    return isOpen(await api('POST', '/auth/refresh', { key: stage.shopKey, body })) ? 'a revoked sign-in' : null
  },
  async ({ stage, api }) => {
    const body = { refreshToken: stage.eve.person.refreshToken }
    const answer = await api('POST', '/auth/refresh', { key: stage.shopKey, body })
    if (!isOpen(answer)) return null
    const claims = JSON.parse(Buffer.from(answer.body.data.accessToken.split('.')[1], 'base64url').toString())
    return claims.sub === stage.eve.userId ? null : 'tokens of somebody else'
  },
  asEve('GET', (s) => `/mpc/shares/${s.shared.walletId}`, "the victim's shares"),
  asEve(
    'POST',
    () => '/mpc/challenge',
    'a challenge for the share of the victim',
    (s) => ({
      walletId: s.shared.walletId,
      purpose: 'release',
    }),
  ),
  asEve('GET', () => '/users/me/wallet', "the victim's wallet"),
  asEve('GET', () => '/auth/passkeys', "the victim's passkeys"),
  asEve('GET', (s) => `/delegated-sessions/${s.victimSession.id}`, "the victim's delegated session"),
  asOwner('GET', (s) => `/users/${s.victim.userId}`, "the victim, by another tenant's key"),
  asOwner('GET', (s) => `/wallets/${s.victim.walletId}`, "the victim's wallet, by another tenant's key"),
  asOwner('POST', (s) => `/wallets/${s.victim.walletId}/freeze`, "a freeze by another tenant's key"),
  async ({ stage, api }) => (isOpen(await api('GET', '/users', { key: stage.revokedKey })) ? 'a revoked key' : null),
  async ({ stage, api }) => (isOpen(await api('GET', '/users', { key: stage.shopKey })) ? 'a secret key' : null),
  async ({ stage, service }) => {
    const opened = await postSession(service, { link: stage.link }, { origin: PUBLIC_URL })
    if (!isOpen(opened)) return null
    const headers = { ...ownHeaders(service), origin: PUBLIC_URL, cookie: cookieOf(opened) }
    const listed = await call(service.url, 'GET', `/dashboard/api/users/${stage.victim.userId}`, { headers })
    return isOpen(listed) || opened.body.data.role === 'operator' ? 'the dashboard of another tenant' : null
  },
]

const shopPost =
  (
    path: string,
    body: (stage: Stage) => object | Promise<object>,
    gain: (data: Answer['body'], stage: Stage) => string | null,
  ): Path =>
  async ({ stage, api }) => {
    const answer = await api('POST', path, { key: stage.shopKey, body: await body(stage) })
    return isOpen(answer) ? gain(answer.body.data, stage) : null
  }

/** Paths through approvals, budgets, issuers, emails, codes, guests and keys that are being made. */
const FEATURE_PATHS: Path[] = [
  async ({ stage, api }) => {
    const { session, holding, commands } = stage.features.asking
    // The one that waits, again, and another one above the limit.
    for (const body of [{ commandId: 'order-1', commands }, { commands: [transfer(holding, '7')] }]) {
      const answer = await api('POST', `/delegated-sessions/${session.id}/execute`, { ...session.by, body })
      if (isOpen(answer) && answer.body.data.status === 'completed') return 'a payment that its owner did not approve'
    }
    return null
  },
  async ({ stage, api }) => {
    const { approvalId, owner, session } = stage.features.asking
    const asked = await api('GET', `/approvals/${approvalId}`, {
      key: session.by.key ?? null,
      headers: owner.person.bearer,
    })
    if (!isOpen(asked)) return null
    // The attacker's authenticator, as if it were the owner's.
    let credential: object
    try {
      credential = stage.eve.authenticator.get(asked.body.data.publicKey)
    } catch {
      return null
    }
    const options = { key: session.by.key ?? null, headers: owner.person.bearer, body: { credential } }
    const answer = await api('POST', `/approvals/${approvalId}/approve`, options)
    return isOpen(answer) ? 'an approval by another authenticator' : null
  },
  asEve('GET', (s) => `/approvals/${s.features.asking.approvalId}`, "somebody else's approval"),
  async ({ stage, api }) => {
    const { session, holding } = stage.features.budget
    const body = { commands: [transfer(holding, '1')] }
    const answer = await api('POST', `/delegated-sessions/${session.id}/execute`, { ...session.by, body })
    return isOpen(answer) ? 'more than the budget' : null
  },
  async ({ stage, api }) => {
    const { issuer, subject } = stage.features
    const iat = Math.floor(stage.endedAt.getTime() / 1000)
    const token = await issuer.token({ claims: { sub: subject, jti: 'two', iat, exp: iat + 300 } })
    const answer = await api('POST', '/auth/token/exchange', { key: stage.shopKey, body: exchangeBody(token) })
    return isOpen(answer) && answer.body.data.user.id === stage.victim.userId
      ? 'a sign-in by an issuer that is trusted no more'
      : null
  },
  shopPost(
    '/auth/email/verify',
    ({ features }) => features.mail,
    ({ user }, { victim }) => (user.id === victim.userId ? "a sign-in as the victim by the attacker's email" : null),
  ),
  shopPost(
    '/auth/exchange',
    ({ features }) => {
      const { code, codeVerifier, redirectUri } = features.handOver
      return { code, codeVerifier, redirectUri }
    },
    ({ user }, { eve }) => (user.id === eve.userId ? null : "somebody else's session by a code"),
  ),
  shopPost(
    '/auth/refresh',
    ({ features }) => features.guest,
    () => 'a guest whose time was ended',
  ),
  async ({ stage, api }) => {
    const body = { audience: 'https://eve.example.com' }
    const answer = await api('POST', '/auth/id-token', { key: stage.shopKey, headers: stage.eve.person.bearer, body })
    return isOpen(answer) ? 'an ID token for an audience that the shop does not name' : null
  },
  async ({ stage, outside }) => {
    const { own, renew, lost } = stage.features.agents
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    const granted = async (given: Record<string, string>) => {
      const raw = new URLSearchParams(given).toString()
      const answer = await outside(`/oauth/${stage.shop.appId}/token`, 'POST', { raw, headers })
      return isOpen(answer) ? (answer.body.authorization_details[0].delegatedSessionId as string) : null
    }
    if ((await granted(lost)) !== null) return 'an agent that its user disconnected'
    return [null, own.sessionId].includes(await granted(renew))
      ? null
      : "somebody else's session by a token of an agent"
  },
  async ({ stage, outside }) => {
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'wallet_status', arguments: {} } }
    const headers = {
      accept: 'application/json, text/event-stream',
      authorization: `Bearer ${stage.features.agents.own.access}`,
      'mcp-protocol-version': '2025-06-18',
    }
    const answer = await outside(`/mcp/${stage.shop.appId}`, 'POST', { body, headers })
    return answer.text.includes(stage.victim.party) ? "somebody else's wallet by a token of an agent" : null
  },
  async ({ stage, outside }) => {
    const answer = await outside(`/apps/${stage.shop.appId}/.well-known/jwks.json`)
    const kids: string[] = isOpen(answer) ? answer.body.keys.map(({ kid }: { kid: string }) => kid) : []
    return kids.includes(stage.ownKid) ? "ID tokens of the shop by another tenant's key" : null
  },
  asEve('GET', (s) => `/mpc/dkg/${s.features.dkgId}`, "somebody else's key that is being made"),
]

/** Walks every path. */
export async function walk(service: Service, stage: Stage): Promise<Walked> {
  const answers: Answer[] = []
  const api = async (method: string, path: string, options: CallOptions) => {
    const answer = await call(service.url, method, `/v1${path}`, options)
    answers.push(answer)
    return answer
  }
  const outside = async (path: string, method = 'GET', options: CallOptions = {}) => {
    const answer = await call(service.url, method, path, options)
    answers.push(answer)
    return answer
  }
  const page = async ({ authenticator, email }: { authenticator: Authenticator; email?: string }) => {
    const by = { url: service.url, key: stage.shopKey }
    try {
      const asked = await loginOptions(by, email === undefined ? {} : { email })
      const answer = await loginVerify(by, asked.challengeId, authenticator.get(asked.publicKey))
      answers.push(answer)
      return answer
    } catch (error) {
      // The options were refused, or the authenticator has no passkey among them.
      const refused = { status: 500, text: String(error), body: {}, headers: new Headers() }
      answers.push(refused)
      return refused
    }
  }
  const gained: string[] = []
  for (const path of [...PATHS, ...FEATURE_PATHS]) {
    const gain = await path({ stage, api, outside, page, service })
    if (gain !== null) gained.push(gain)
  }
  return { gained, refused: answers.some(({ text }) => text.includes('record_tampered')) }
}
