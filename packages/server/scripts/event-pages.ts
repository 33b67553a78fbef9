import { EVENT_CATALOGUE, type EventKind, type EventType } from '../src/platform/events/event-catalogue.ts'

/** When each kind is emitted: what has to happen, and what does not emit it. */
export const WHEN: Record<EventType, string> = {
  'user.created':
    'By `POST /users`, a sign-up with a passkey or a first sign-in by messenger, email or provider, the first token of an issuer that creates users, the conversion of a guest, and `halfkey users import --events`. A guest is no user yet. Once a user is erased, what is sent of this event has an empty `email`.',
  'user.updated': 'By `PATCH /users/:id` that changes something. `changed` names the fields, never their values.',
  'user.deleted':
    'By `DELETE /users/:id`, in the transaction that erases the user. Users that go together with their app have no event each.',
  'user.recovery_requested':
    'By `POST /auth/email/recovery` with the first code. Tell the user by every channel that you have: whoever asked may only read their mailbox.',
  'user.recovery_reminder':
    'Thirteen hours before the wait ends, or as soon as a worker runs again. If fewer than twelve are left then, the end moves.',
  'user.recovery_canceled':
    'By `POST /auth/email/recovery/cancel`, the link in an email, a passkey that the user shows or adds, another address, a suspension, or `expired` when nobody came for it. `by` says which.',
  'user.recovery_completed':
    'By `POST /auth/passkey/register-verify` with the challenge of a recovery, together with `passkey.registered`.',
  'user.signed_in':
    'By a passkey, a messenger, a token of a trusted issuer (`exchange`), an account at a sign-in provider (`provider`), an external wallet (`wallet`) or a sign-up that signs in at once. A refreshed session is no sign-in.',
  'wallet.created': 'When a wallet is recorded, whatever its custody.',
  'wallet.ready': 'When its party is on the ledger: on the embedded ledger together with `wallet.created`.',
  'wallet.signature_required':
    'When a ledger that is reached over a network has prepared the party of a `shared` or `self_custody` wallet, and again each time that nobody has signed until `expiresAt`. Sign at `/wallets/:id/onboarding`.',
  'wallet.failed': 'When the ledger refuses the party for good.',
  'wallet.frozen':
    'By `POST /wallets/:id/freeze`, and when a guest session ends unconverted. A second time emits nothing.',
  'guest.created': 'By `POST /guests`, or the hosted page’s “continue as guest”.',
  'guest.converted': 'By `POST /guests/:id/convert`, together with `user.created`.',
  'guest.expired': 'When its time has passed, or by `DELETE /guests/:id` and `POST /guests/cleanup`.',
  'passkey.registered': 'At sign-up with a passkey, and when a user adds one.',
  'passkey.removed': 'By `DELETE /auth/passkeys/:id`. Erasing a user tells `user.deleted` instead.',
  'identity.linked':
    'By `POST /auth/identities`, `POST /auth/providers/:id/link` and `POST /auth/wallet/link`, and together with `user.created` when the first token of an issuer or the first sign-in by a provider or an external wallet creates a user. `issuer` is null for a messenger and an external wallet.',
  'identity.unlinked': 'By `DELETE /auth/identities/:id`. Erasing a user tells `user.deleted` instead.',
  'session.revoked': 'By a log-out, `DELETE /auth/sessions/:id`, a suspension, or a code that was exchanged twice.',
  'session.reuse_detected':
    'When a refresh token comes again after its successor was used, or after 30 seconds. Somebody has a copy: tell the user.',
  'mfa.enabled': 'By `POST /mfa/verify-setup`.',
  'mfa.disabled': 'By `DELETE /mfa`.',
  'mfa.locked': 'At the fifth wrong code in a row.',
  'mfa.recovery_code_used':
    'When a recovery code takes the place of a code. `recoveryCodesRemaining` says how many are left.',
  'delegated_session.created':
    'By `POST /delegated-sessions`. `boundKeyThumbprint` is null if the token is enough to use the session.',
  'delegated_session.revoked':
    'By `DELETE /delegated-sessions/:id`, and when what it stands on ends: the user is suspended, the key given out.',
  'delegated_session.expired': 'When `expiresAt` has passed, within seconds.',
  'delegated_session.exhausted': 'By the completed transaction that was the last of `maxUses`.',
  'delegated_session.denied':
    'When `execute` is refused by the policy, at most once a minute for each session and rule. Dry runs emit nothing.',
  'agent.connected':
    'When the client exchanges its code for its first tokens, after the user confirmed. `delegated_session.created` is emitted before, when the user confirms. `clientId` is the address of the client’s document. `name` is the name of the session: the name that the client gives itself, which nobody has checked, and the host of that address.',
  'approval.requested':
    'When a rule of `requireApproval` asks for the owner, or for `approvers`. Show them `link`, which holds no secret. Caps and budgets are held until they decide.',
  'approval.approved':
    'By `POST /approvals/:id/approve` of one of several approvers. `approvedBy` has all whose approvals count now. After the last one, `approval.granted` follows.',
  'approval.granted':
    'By `POST /approvals/:id/approve` of the owner or the last approver, together with `tx.completed`. `passkeyId` is null where there are several approvers.',
  'approval.denied': 'By `POST /approvals/:id/deny`, of the owner or any approver. What was held is free again.',
  'approval.expired': 'When nobody decided until `expiresAt`. What was held is free again.',
  'approval.canceled':
    'When the session was revoked or all sessions were: the worker releases what was held, a moment after the revocation.',
  'recipient.added':
    'By `POST /wallets/:id/recipients`. The entry counts from `countsFrom`. If the owner does not know of it, remove it before then.',
  'recipient.removed': 'By `DELETE /wallets/:id/recipients/:recipientId`, of the owner or a server.',
  'budget.updated': 'By `PUT /wallets/:id/budgets`. `by` says whether the owner or a server set them.',
  'budget.exceeded':
    'When `execute` is refused by a budget, at most once a minute for each session and budget, beside `delegated_session.denied`.',
  'tx.submitted': 'When a signed transaction is handed to the ledger.',
  'tx.completed': 'When the ledger has it for good. `operations` says what was done, `updateId` and `offset` where.',
  'tx.completed_late':
    'When a ledger that is reached over a network executes what it had given up, together with `tx.completed`. What it took of the caps is charged again, even beyond them. Never on the embedded ledger.',
  'tx.failed': 'When it is certain that it did not and will not happen. What it reserved is free again.',
  'token.received':
    'When the holdings of a token grow by a transaction, by what came less what went: change, merging and locking are no receipts. `locked` is the part of `amount` that somebody’s lock holds: credit only the rest. Unlocking tells nothing. After the ledger was read again, `updateId`, `offset` and `recordedAt` are null, and the amount is the difference.',
  'token.transfer_offered':
    'When the contract of a transfer in two steps appears on the ledger, once for each wallet that is its sender or receiver. `direction` is `incoming` for the receiver and `outgoing` for the sender. `updateId`, `offset` and `recordedAt` are null if Halfkey found the offer while it read the ledger again.',
  'token.transfer_settled':
    'When the offer ends. `outcome` is `accepted`, `rejected`, `withdrawn`, `expired` (two minutes after `executeBefore`, by the ledger’s clock) or `ended` (the offer is gone, and Halfkey cannot find out how). After `expired` or `ended`, a second event follows if the offer is accepted, rejected or withdrawn later.',
  'key_share.stored': 'By `POST /mpc/shares`, and by a resharing that is confirmed.',
  'key_share.retrieved': 'When a stored share is read or handed out, also when a resharing begins.',
  'key_share.deleted': 'When shares are destroyed, by their owner or because a resharing has made them worthless.',
  'key.recovered': 'By `POST /mpc/recover`, when it has completed. `mode` says what was done with the shares.',
  'api_key.created': 'By `POST /api-keys`.',
  'api_key.rotated': 'By `POST /api-keys/:id/rotate`.',
  'api_key.revoked': 'By `DELETE /api-keys/:id`. A key that expires emits nothing.',
  'app.created': 'By `POST /apps`.',
  'app.updated':
    'By `PATCH /apps/:id` that changes something, and when the logo, the trusted issuers or the sign-in providers change. `changed` names the settings.',
  'app.deleted': 'By `DELETE /apps/:id`. With `?force=true` its users went too.',
  'custom_domain.verified': 'When the record is found for the first time, or again after a failure.',
  'custom_domain.failed': 'When the daily look has not found it for 72 hours. The domain counts no more from then on.',
  'custom_domain.removed': 'By `DELETE /custom-domains`.',
  'tenant.updated': 'By `PATCH /tenant` that changes something.',
  'record.tampered':
    'When a record is read whose MAC is wrong or missing, or which is older than one that this process has seen. At most once a minute for each record and process. `record` is its kind, `recordId` its id. Look who can write to the database: only Halfkey’s own role needs to.',
  'webhook.test': 'By `POST /webhooks/:id/test`, to that webhook alone. It is not in the feed.',
  'webhook.disabled': 'When every delivery has failed for five days. The other webhooks get it.',
  'webhook.failing':
    'When 50, 75, 90 or 100 percent (`threshold`) of the attempts in the last 15 minutes failed, of at least 20, each once until `webhook.recovered`. Thresholds that are reached at the same time are one event, with the highest. The other webhooks get it. Tests and deliveries of these two events do not count.',
  'webhook.recovered':
    'When fewer than 25 percent of at least 20 attempts in the last 15 minutes failed, or none of fewer. `threshold` is the highest that was reported. The other webhooks get it.',
  'webhook.delivery_dead_lettered':
    'When the last retry has failed. Deliveries of events about webhooks emit none: those would breed without end.',
  'billing.plan_changed': 'When the payment processor says that another plan is being paid for.',
  'usage.threshold_reached': 'Once for each meter, threshold and period.',
}

const HEADER =
  '<!-- Generated by packages/server/scripts/generate.ts from platform/events/event-catalogue.ts and scripts/event-pages.ts. Do not edit: change those. -->\n\n'

/** As it is delivered; the id and the time are the event's own. */
function delivered(type: string, { data }: EventKind): string {
  const event = {
    id: 'evt_01jb2m7x9kq4t8v6w0r3s5y1zq',
    type,
    created_at: '2026-11-21T08:30:00.000Z',
    api_version: '2026-11-01',
    data,
  }
  return JSON.stringify(event, null, 2)
}

function kind([type, of]: [string, EventKind]): string {
  return `### ${type}\n\n${of.description} ${WHEN[type as EventType]}\n\n\`\`\`json\n${delivered(type, of)}\n\`\`\``
}

/** The guide that lists every kind of event with its payload. */
export function eventCatalogue(): string {
  const kinds = Object.entries<EventKind>(EVENT_CATALOGUE)
  const families = [...new Set(kinds.map(([type]) => type.split('.')[0] as string))]
  const of = (family: string) => kinds.filter(([type]) => type.startsWith(`${family}.`))
  const anchor = (type: string) => type.replaceAll('.', '')
  const contents = families.map(
    (family) =>
      `| \`${family}.*\` | ${of(family)
        .map(([type]) => `[${type}](#${anchor(type)})`)
        .join(', ')} |`,
  )
  return `${HEADER}# Event catalogue

${kinds.length} kinds of events. A webhook subscribes to kinds (\`user.created\`), families (\`user.*\`) or everything (\`*\`);
[webhooks](webhooks.md) says how they arrive and how to verify them. \`GET /v1/webhooks/event-types\` answers this list for programs.
[Your own events](own-events.md) are types that you define yourself.

Each is written in the transaction of what it tells about: no change without its event, no event without its change. The body is
the one below for every webhook and every attempt, byte for byte, on one line. New fields may be added to \`data\` under the same
\`api_version\`; none is taken away. An id that is absent is \`null\`.

| family | kinds |
| --- | --- |
${contents.join('\n')}

${families
  .map(
    (family) =>
      `## ${family}\n\n${of(family)
        .map((one) => kind(one))
        .join('\n\n')}`,
  )
  .join('\n\n')}
`
}
