/** An event type: when it is sent, and an example of its `data`. A test event carries the same example. */
export interface EventKind {
  description: string
  data: Record<string, unknown>
}

const user = 'usr_01jb2m7x9kq4t8v6w0r3s5y1za'
const approver = 'usr_01jb2m7x9kq4t8v6w0r3s5y1zx'
const app = 'app_01jb2m7x9kq4t8v6w0r3s5y1zb'
const wallet = 'wal_01jb2m7x9kq4t8v6w0r3s5y1zc'
const guest = 'gst_01jb2m7x9kq4t8v6w0r3s5y1zd'
const session = 'ses_01jb2m7x9kq4t8v6w0r3s5y1ze'
const passkey = 'pky_01jb2m7x9kq4t8v6w0r3s5y1zf'
const identity = 'idn_01jb2m7x9kq4t8v6w0r3s5y1zs'
const recovery = 'rcv_01jb2m7x9kq4t8v6w0r3s5y1zw'
const delegated = 'dse_01jb2m7x9kq4t8v6w0r3s5y1zg'
const transaction = 'tx_01jb2m7x9kq4t8v6w0r3s5y1zh'
const approval = 'apr_01jb2m7x9kq4t8v6w0r3s5y1zh'
const apiKey = 'key_01jb2m7x9kq4t8v6w0r3s5y1zj'
const webhook = 'wh_01jb2m7x9kq4t8v6w0r3s5y1zk'
const delivery = 'dlv_01jb2m7x9kq4t8v6w0r3s5y1zm'
const domain = 'dom_01jb2m7x9kq4t8v6w0r3s5y1zn'
const tenant = 'ten_01jb2m7x9kq4t8v6w0r3s5y1zp'
const party = `${user}::1220123087e6bf66d225d047e6af8b0944bc50cc470cb46afd9515a558bf55605441`
const contract = `00${'5c'.repeat(32)}`
const asset = { issuer: party, symbol: 'USDX' }
const at = '2026-11-21T08:30:00.000Z'

const transactionData = {
  transactionId: transaction,
  commandId: 'order-1042',
  userId: user,
  walletId: wallet,
  partyId: party,
  delegatedSessionId: delegated,
  ledger: 'embedded',
}
const completedData = {
  ...transactionData,
  updateId: '1220f00d',
  offset: 42,
  completedAt: at,
  operations: [{ type: 'exercise', templateId: 'Token:Holding', choice: 'Transfer', contractId: contract }],
}
const shareData = { walletId: wallet, userId: user, holder: 'device', index: 2, generation: 1 }
const keyData = { apiKeyId: apiKey, name: 'Backend', type: 'secret', scopes: ['users:write'], appId: null }
const delegatedData = { delegatedSessionId: delegated, userId: user, walletId: wallet }

const recoveryData = { userId: user, recoveryId: recovery, availableAt: at }

const approvalData = {
  approvalId: approval,
  transactionId: transaction,
  commandId: 'order-1042',
  delegatedSessionId: delegated,
  userId: user,
  walletId: wallet,
  rule: 'requireApproval[0]',
  costs: [{ asset, amount: '7' }],
  recipients: [party],
  approvers: [{ users: [user, approver], threshold: 2 }],
  expiresAt: at,
}

const recipientData = {
  recipientId: 'rcp_01jb2m7x9kq4t8v6w0r3s5y1zk',
  walletId: wallet,
  userId: user,
  recipient: party,
}

const offerData = {
  offerId: 'ofr_01jb2m7x9kq4t8v6w0r3s5y1zt',
  walletId: wallet,
  userId: user,
  partyId: party,
  ledger: 'canton',
  direction: 'incoming',
  contractId: contract,
  sender: `bob::1220${'b0'.repeat(32)}`,
  receiver: party,
  instrument: { admin: `dso::1220${'d5'.repeat(32)}`, id: 'Amulet' },
  amount: '12.5',
  executeBefore: '2026-11-22T08:30:00.000Z',
  updateId: `1220${'ab'.repeat(32)}`,
  offset: 42,
  recordedAt: at,
}

/** Every event type. A webhook can subscribe to all of them. */
export const EVENT_CATALOGUE = {
  'user.created': {
    description: 'A user was created, or a guest became one.',
    data: { userId: user, email: 'ada@example.com', partyId: party },
  },
  'user.updated': { description: "A user's record was changed.", data: { userId: user, changed: ['name'] } },
  'user.deleted': { description: 'A user was deleted.', data: { userId: user } },
  'user.recovery_requested': {
    description:
      'Somebody who reads the mailbox of a user asked for a new passkey of the account. It can be canceled until `availableAt`.',
    data: recoveryData,
  },
  'user.recovery_reminder': {
    description: 'The wait of a recovery by email is almost over. It can be canceled until `availableAt`.',
    data: recoveryData,
  },
  'user.recovery_canceled': {
    description: 'A recovery by email ended without a new passkey.',
    data: { userId: user, recoveryId: recovery, by: 'session' },
  },
  'user.recovery_completed': {
    description: 'A recovery by email ended with a new passkey. The sessions that the user had before have ended.',
    data: { userId: user, recoveryId: recovery, passkeyId: passkey },
  },
  'user.signed_in': { description: 'A user signed in.', data: { userId: user, method: 'passkey', sessionId: session } },
  'wallet.created': {
    description: 'A wallet was created.',
    data: { walletId: wallet, userId: user, custody: 'embedded', ledger: 'embedded' },
  },
  'wallet.ready': {
    description: 'A wallet is ready to use: its party is on the ledger.',
    data: { walletId: wallet, userId: user },
  },
  'wallet.signature_required': {
    description: "A wallet's key has to sign before its party is on the ledger.",
    data: { walletId: wallet, userId: user, expiresAt: at },
  },
  'wallet.failed': {
    description: "A wallet's party could not be allocated.",
    data: { walletId: wallet, userId: user, error: 'participant refused the party' },
  },
  'wallet.frozen': { description: 'A wallet was frozen.', data: { walletId: wallet, userId: user } },
  'guest.created': { description: 'A guest session started.', data: { guestId: guest, userId: user, partyId: party } },
  'guest.converted': {
    description: 'A guest became a user. Id, party and wallet stay the same.',
    data: { guestId: guest, userId: user },
  },
  'guest.expired': {
    description: 'A guest session expired before the guest became a user.',
    data: { guestId: guest, userId: user },
  },
  'passkey.registered': { description: 'A passkey was registered.', data: { passkeyId: passkey, userId: user } },
  'passkey.removed': { description: 'A passkey was removed.', data: { passkeyId: passkey, userId: user } },
  'identity.linked': {
    description: 'An account elsewhere became an identity of a user.',
    data: { identityId: identity, userId: user, provider: 'issuer', issuer: 'https://login.example.com/' },
  },
  'identity.unlinked': {
    description: 'An identity was removed from its user.',
    data: { identityId: identity, userId: user, provider: 'issuer', issuer: 'https://login.example.com/' },
  },
  'session.revoked': { description: "A user's session was revoked.", data: { sessionId: session, userId: user } },
  'session.reuse_detected': {
    description: 'A refresh token was used twice, so its session was revoked.',
    data: { sessionId: session, userId: user },
  },
  'mfa.enabled': { description: 'A user enrolled a second factor.', data: { userId: user } },
  'mfa.disabled': { description: 'A user disabled the second factor.', data: { userId: user } },
  'mfa.locked': {
    description: 'Verification was locked for a while, after too many wrong codes.',
    data: { userId: user, lockedUntil: at },
  },
  'mfa.recovery_code_used': {
    description: 'A recovery code was used.',
    data: { userId: user, recoveryCodesRemaining: 9 },
  },
  'delegated_session.created': {
    description: 'A delegated session was created.',
    data: { ...delegatedData, boundKeyThumbprint: null },
  },
  'delegated_session.revoked': { description: 'A delegated session was revoked.', data: delegatedData },
  'delegated_session.expired': { description: 'A delegated session expired.', data: delegatedData },
  'delegated_session.exhausted': {
    description: 'A delegated session reached its maximum number of uses.',
    data: delegatedData,
  },
  'delegated_session.denied': {
    description: 'A policy denied a transaction (at most one event per minute, session and rule).',
    data: {
      ...delegatedData,
      rule: 'allow',
      code: 'policy_denied',
      message: 'No rule of the policy allows command 0: exercise Token:Holding Split.',
    },
  },
  'agent.connected': {
    description: 'A user connected an agent by OAuth.',
    data: {
      ...delegatedData,
      clientId: 'https://agent.example.com/client.json',
      name: 'agent.example.com (Shopping agent)',
    },
  },
  'approval.requested': {
    description:
      "A delegated session asks its wallet's owner, or the approvers of its policy, to approve a transaction.",
    data: { ...approvalData, link: `https://auth.example.com/approve?app=${app}&id=${approval}` },
  },
  'approval.approved': {
    description: 'One of several approvers approved a transaction.',
    data: { ...approvalData, approverId: user, passkeyId: passkey, approvedBy: [user] },
  },
  'approval.granted': {
    description: 'A transaction was approved by all who were asked, and was executed.',
    data: { ...approvalData, passkeyId: null, approvedBy: [user, approver] },
  },
  'approval.denied': {
    description: "A wallet's owner or an approver refused a transaction.",
    data: { ...approvalData, reason: 'I did not order this.', deniedBy: approver },
  },
  'approval.expired': {
    description: 'A transaction was not approved in time.',
    data: approvalData,
  },
  'approval.canceled': {
    description: 'A delegated session ended before its request was decided.',
    data: approvalData,
  },
  'recipient.added': {
    description: "A wallet's owner added a party to the address book.",
    data: { ...recipientData, countsFrom: at },
  },
  'recipient.removed': {
    description: "A party was removed from a wallet's address book.",
    data: recipientData,
  },
  'budget.updated': {
    description: "A wallet's budgets were changed.",
    data: {
      walletId: wallet,
      userId: user,
      by: 'owner',
      budgets: [{ asset, amount: '100', window: 'rolling_24h', recipient: null, templateId: null }],
    },
  },
  'budget.exceeded': {
    description:
      'A transaction was denied because it would have exceeded a budget of its wallet (at most one event per minute, session and budget).',
    data: {
      ...delegatedData,
      budget: 'budgets[0]',
      message: "This would spend 8 USDX; 7 are left of the wallet's budgets[0].",
      asset,
      window: 'rolling_24h',
      recipient: null,
      templateId: null,
      setBy: 'owner',
      spent: '93',
      remaining: '7',
      resetsAt: at,
      limit: '100',
      asked: '8',
    },
  },
  'tx.submitted': { description: 'A transaction was submitted to the ledger.', data: transactionData },
  'tx.completed': { description: 'A transaction is final on the ledger.', data: completedData },
  'tx.completed_late': {
    description: 'A transaction that had been reported as failed is final on the ledger after all.',
    data: completedData,
  },
  'tx.failed': {
    description: 'A transaction failed. It did not take effect.',
    data: { ...transactionData, error: 'A contract was used up already.', code: 'contract_archived' },
  },
  'token.received': {
    description: 'A wallet received tokens, on a ledger whose tokens are followed.',
    data: {
      walletId: wallet,
      userId: user,
      partyId: party,
      ledger: 'canton',
      instrument: { admin: `dso::1220${'d5'.repeat(32)}`, id: 'Amulet' },
      amount: '12.5',
      locked: '0',
      updateId: `1220${'ab'.repeat(32)}`,
      offset: 42,
      recordedAt: at,
    },
  },
  'token.transfer_offered': {
    description: 'A transfer of tokens was offered to a wallet or by it, on a ledger whose tokens Halfkey follows.',
    data: offerData,
  },
  'token.transfer_settled': {
    description: 'A transfer of tokens that was offered to a wallet or by it has ended.',
    data: { ...offerData, outcome: 'accepted' },
  },
  'key_share.stored': { description: 'A key share was stored.', data: shareData },
  'key_share.retrieved': { description: 'A key share was read.', data: shareData },
  'key_share.deleted': {
    description: 'Key shares were destroyed.',
    data: { walletId: wallet, userId: user, deleted: 1 },
  },
  'key.recovered': {
    description: 'A key was recovered from its shares.',
    data: { walletId: wallet, userId: user, mode: 'release' },
  },
  'api_key.created': { description: 'An API key was created.', data: keyData },
  'api_key.rotated': { description: 'An API key got a new value.', data: keyData },
  'api_key.revoked': { description: 'An API key was revoked.', data: keyData },
  'app.created': { description: 'An app was created.', data: { appId: app, name: 'Shop' } },
  'app.updated': {
    description: "An app's settings were changed.",
    data: { appId: app, name: 'Shop', changed: ['allowedOrigins'] },
  },
  'app.deleted': { description: 'An app was deleted.', data: { appId: app, name: 'Shop' } },
  'custom_domain.verified': {
    description: 'A custom domain was verified.',
    data: { domainId: domain, domain: 'login.example.com' },
  },
  'custom_domain.failed': {
    description: "A custom domain's DNS record has been missing for 72 hours.",
    data: { domainId: domain, domain: 'login.example.com' },
  },
  'custom_domain.removed': {
    description: 'A custom domain was removed.',
    data: { domainId: domain, domain: 'login.example.com' },
  },
  'tenant.updated': {
    description: "The tenant's settings were changed.",
    data: { tenantId: tenant, changed: ['name'] },
  },
  'record.tampered': {
    description: 'A stored record was changed by something other than Halfkey, and was refused.',
    data: { record: 'delegated_session', recordId: delegated },
  },
  'webhook.test': {
    description: 'A test event, sent on request to one webhook.',
    data: { webhookId: webhook, message: 'This is a test event.' },
  },
  'webhook.disabled': {
    description: 'A webhook failed for too long and was disabled.',
    data: {
      webhookId: webhook,
      url: 'https://example.com/hook',
      reason: 'Every delivery has failed since 2026-11-16T08:30:00.000Z.',
    },
  },
  'webhook.failing': {
    description: 'Many of the recent attempts of a webhook failed.',
    data: {
      webhookId: webhook,
      host: 'example.com',
      threshold: 75,
      windowMinutes: 15,
      attempts: 40,
      failed: 31,
      failureRate: 0.775,
    },
  },
  'webhook.recovered': {
    description: 'A webhook that was reported as failing works again.',
    data: {
      webhookId: webhook,
      host: 'example.com',
      threshold: 75,
      windowMinutes: 15,
      attempts: 50,
      failed: 4,
      failureRate: 0.08,
      failingSince: at,
    },
  },
  'webhook.delivery_dead_lettered': {
    description: 'A delivery failed and has no retries left.',
    data: {
      webhookId: webhook,
      deliveryId: delivery,
      eventId: 'evt_01jb2m7x9kq4t8v6w0r3s5y1zq',
      eventType: 'user.created',
    },
  },
  'billing.plan_changed': { description: "The tenant's plan changed.", data: { from: 'free', to: 'pro' } },
  'usage.threshold_reached': {
    description: 'The use of a quota reached 80 or 100 percent.',
    data: { meter: 'users', used: 8000, limit: 10000, percent: 80 },
  },
} as const satisfies Record<string, EventKind>

export type EventType = keyof typeof EVENT_CATALOGUE

/** Whether Halfkey itself emits events of this type; the other types are published by teams. */
export const isCatalogued = (type: string): type is EventType => Object.hasOwn(EVENT_CATALOGUE, type)

/** Every event type, in the catalogue's order. */
export const EVENT_TYPES = Object.keys(EVENT_CATALOGUE) as EventType[]
