import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { codeOf, files, type SourceFile } from './source-graph.ts'

const MIGRATIONS = join(import.meta.dirname, '../../migrations')

/** One slice owns each table and alone writes it. The delivery room owns its tables as one. */
const TABLES: Record<string, readonly string[]> = {
  delegation: [
    'agent_tokens',
    'approval_assertions',
    'approvals',
    'delegated_sessions',
    'denials',
    'used_proofs',
    'wallet_recipients',
    'wallet_spending',
  ],
  delivery: [
    'attempts',
    'deliveries',
    'deliveries_done',
    'event_keys',
    'event_types',
    'feed',
    'feed_heads',
    'lanes',
    'portal_links',
    'subscribers',
    'webhook_alerts',
    'webhook_minutes',
    'webhooks',
    'workers',
  ],
  'identity/email-sign-in': ['email_challenges'],
  'identity/email-recovery': ['email_recoveries'],
  'identity/emails': ['email_templates', 'emails'],
  'identity/guests': ['guests'],
  'identity/foreign-tokens': ['used_tokens'],
  'identity/id-tokens': ['id_token_keys'],
  'identity/identities': ['identities'],
  'identity/messenger': ['messenger_payloads'],
  'identity/mfa': ['mfa_factors', 'recovery_codes'],
  'identity/passkeys': ['passkeys'],
  'identity/sessions': ['server_verifications', 'sessions'],
  'identity/sign-in': ['sign_in_codes'],
  'identity/users': ['erasures', 'user_counts', 'users'],
  'insight/analytics': ['analytics_active_users', 'analytics_daily'],
  'insight/audit': ['audit_counts', 'audit_entries', 'audit_heads'],
  'keys/key-generations': ['key_generations'],
  'operations/dashboard': ['dashboard_links', 'dashboard_sessions'],
  'operations/members': [
    'member_challenges',
    'member_codes',
    'member_identities',
    'member_passkeys',
    'member_sign_in',
    'members',
  ],
  'operations/transfer': ['imports'],
  platform: [
    'accepted_restores',
    'record_keys',
    'audit_only_entries',
    'auth_epoch',
    'challenges',
    'events',
    'feed_cursors',
    'idempotency_keys',
    'identity_keys',
    'installation',
    'jobs',
    'outbox',
    'revoked_sessions',
    'signing_keys',
    'counter_increments',
  ],
  'tenancy/api-keys': ['api_keys'],
  'tenancy/apps': ['app_issuers', 'app_logos', 'app_providers', 'apps', 'relying_parties'],
  'tenancy/billing': ['processor_events', 'subscriptions', 'usage_meters'],
  'tenancy/custom-domains': ['custom_domains'],
  'tenancy/tenant': ['tenants'],
  'wallets/custody': ['encryption_keys', 'key_shares', 'resharings'],
  'wallets/ledger': [
    'ledger_chain',
    'ledger_contracts',
    'ledger_heads',
    'ledger_stakes',
    'ledger_templates',
    'ledger_updates',
  ],
  'wallets/onboarding': ['wallet_onboardings'],
  'wallets/tokens': ['token_cursors', 'token_holdings', 'token_offers', 'token_views'],
  'wallets/transactions': ['transactions'],
  'wallets/wallets': ['wallets'],
  'wallets/x402': ['payment_settlements'],
}

/** Who else writes a table, and why its owner has no function for it. */
const FOREIGN_WRITES: Record<string, string> = {
  'api_keys ← platform': 'the authenticator stores in batches when keys were last used',
  'audit_only_entries ← insight/audit': 'takes the entries into the chain',
  'events ← delivery': 'events of webhook tests; retention',
  'outbox ← delivery': 'the fan-out takes what was published',
  'attempts ← identity/users': 'the erasure of a user blanks what receivers answered',
  'events ← identity/users': 'the erasure of a user blanks the bodies that name them',
  'imports ← identity/users': 'an import of users keeps its progress beside that of tenants',
  'analytics_daily ← operations/seed': 'a past that no API can write',
  'api_keys ← operations/seed': 'a past that no API can write',
  'users ← operations/seed': 'a past that no API can write',
  'tenants ← platform': 'a tenant’s proof key is made at its first use',
  'tenants ← wallets/ledger': 'marks that the chain of updates has begun',
}

const AUTHENTICATION = 'who is calling is found in one statement, before anything else'
const ONE_STATEMENT = 'a check or a lock in the statement that does the work: one round trip'
const FIGURES = 'figures for operators'
const ENDED = 'what the log says was ended is held against the rows: `halfkey records verify`'
const LISTED = 'a record says which rows of others belong to it: `halfkey records` holds the list against them'

/** Who reads a table of others, and why. */
const FOREIGN_READS: Record<string, string> = {
  'app_issuers ← identity/identities': 'an identity of an issuer that is not trusted is no way in',
  'app_providers ← identity/identities': 'an account at a provider that the app has no more is no way in',
  'apps ← identity/identities': 'an address or external wallet is no way in where the app has no such sign-in',
  'apps ← identity/id-tokens': ONE_STATEMENT,
  'apps ← identity/passkeys': ONE_STATEMENT,
  'apps ← identity/sessions': ONE_STATEMENT,
  'apps ← operations/dashboard': 'a member chooses among their apps',
  'apps ← operations/doctor': FIGURES,
  'apps ← operations/seed': 'finds the app that samples go to',
  'apps ← platform': AUTHENTICATION,
  'apps ← tenancy/billing': 'return URLs are held against the origins of the apps',
  'apps ← tenancy/custom-domains': 'related origins are those of the apps',
  'audit_counts ← operations/doctor': FIGURES,
  'api_keys ← insight/audit': ENDED,
  'app_issuers ← insight/audit': ENDED,
  'app_providers ← insight/audit': ENDED,
  'apps ← insight/audit': ENDED,
  'delegated_sessions ← insight/audit': ENDED,
  'identities ← insight/audit': ENDED,
  'members ← insight/audit': ENDED,
  'passkeys ← insight/audit': ENDED,
  'sessions ← insight/audit': ENDED,
  'users ← insight/audit': ENDED,
  'wallet_recipients ← insight/audit': ENDED,
  'wallets ← insight/audit': ENDED,
  'api_keys ← operations/dashboard': 'a dashboard session stands for its key',
  'challenges ← identity/passkeys': ONE_STATEMENT,
  'custom_domains ← platform': AUTHENTICATION,
  'custom_domains ← tenancy/billing': 'return URLs may lie on verified domains',
  'delegated_sessions ← wallets/wallets': LISTED,
  'wallet_recipients ← wallets/wallets': LISTED,
  'deliveries ← identity/users': 'an erasure waits for deliveries that are under way',
  'deliveries ← operations/doctor': FIGURES,
  'deliveries ← platform': FIGURES,
  'deliveries_done ← identity/users': 'an erasure blanks dead letters',
  'deliveries_done ← operations/doctor': FIGURES,
  'email_recoveries ← platform': LISTED,
  'events ← insight/analytics': 'counters are filled again from the feed',
  'events ← insight/audit': 'entries name the events they are made of',
  'feed ← insight/audit': 'events that the log has passed are held against its entries',
  'feed_cursors ← insight/audit': 'how far the log has passed the events',
  'feed ← insight/analytics': 'counters are filled again from the feed',
  'feed ← platform': 'followers read the feed',
  'feed_cursors ← delivery': 'an event is kept until every follower has read it',
  'feed_heads ← insight/analytics': 'counters are filled again from the feed',
  'feed_heads ← platform': 'followers read the feed',
  'guests ← delegation': ONE_STATEMENT,
  'guests ← identity/identities': ONE_STATEMENT,
  'guests ← identity/passkeys': ONE_STATEMENT,
  'guests ← identity/sessions': ONE_STATEMENT,
  'guests ← identity/users': ONE_STATEMENT,
  'guests ← platform': AUTHENTICATION,
  'identities ← identity/email-sign-in': 'whether anybody was ever in an account',
  'identities ← platform': LISTED,
  'imports ← operations/doctor': FIGURES,
  'installation ← operations/doctor': FIGURES,
  'lanes ← platform': FIGURES,
  'members ← operations/dashboard': 'a dashboard session stands for its member',
  'mfa_factors ← platform': LISTED,
  'outbox ← identity/users': 'an erasure waits for deliveries that are under way',
  'outbox ← insight/analytics': 'counters are filled again from the feed',
  'passkeys ← identity/identities': 'the last way to sign in stays',
  'passkeys ← identity/sessions': ONE_STATEMENT,
  'passkeys ← identity/email-sign-in': 'whether anybody was ever in an account',
  'passkeys ← platform': LISTED,
  'passkeys ← tenancy/custom-domains': 'the plan for a domain counts the passkeys of each relying party',
  'relying_parties ← tenancy/custom-domains': 'related origins of a relying party are those of its tenant',
  'sessions ← identity/sign-in': 'a code stands for a session',
  'sessions ← platform': AUTHENTICATION,
  'tenants ← insight/audit': 'a new tenant’s log may be empty',
  'tenants ← operations/dashboard': 'operators choose a tenant',
  'tenants ← operations/members': 'changes of a tenant’s members wait for each other',
  'tenants ← tenancy/api-keys': 'revocations of one tenant wait for each other',
  'tenants ← tenancy/apps': 'the default app stands with the tenant',
  'tenants ← tenancy/billing': 'the plan of a tenant beside its use',
  'tenants ← tenancy/custom-domains': 'the first tenant owns the relying party of the service itself',
  'token_cursors ← platform': FIGURES,
  'token_views ← platform': FIGURES,
  'transactions ← delegation': ONE_STATEMENT,
  'transactions ← wallets/ledger': 'what was answered with an update proves that there was one',
  'user_counts ← tenancy/billing': 'the meter of users is their count',
  'users ← delegation': ONE_STATEMENT,
  'users ← identity/id-tokens': ONE_STATEMENT,
  'users ← identity/identities': ONE_STATEMENT,
  'wallets ← identity/email-sign-in': 'whether anybody was ever in an account',
  'users ← identity/email-sign-in': 'an address is looked up and its user locked',
  'users ← identity/passkeys': ONE_STATEMENT,
  'users ← identity/sessions': ONE_STATEMENT,
  'users ← platform': AUTHENTICATION,
  'users ← tenancy/apps': 'an app that has users is not deleted',
  'wallets ← delegation': ONE_STATEMENT,
  'wallets ← operations/transfer': 'an import holds keys of shares against the wallets',
  'wallets ← wallets/custody': ONE_STATEMENT,
  'wallets ← wallets/tokens': ONE_STATEMENT,
  'webhook_alerts ← platform': FIGURES,
  'webhooks ← operations/doctor': FIGURES,
  'workers ← operations/health': 'readiness asks for a live worker',
  'workers ← platform': FIGURES,
}

const migrations = globSync('*.sql', { cwd: MIGRATIONS })
  .sort()
  .map((name) => readFileSync(join(MIGRATIONS, name), 'utf8'))
  .join('\n')
const created = [...migrations.matchAll(/^create (?:unlogged )?table (?:if not exists )?([a-z_]+)/gm)]
const renamed = new Map(
  [...migrations.matchAll(/^alter table ([a-z_]+) rename to ([a-z_]+)/gm)].map(([, from, to]) => [from, to]),
)
const declared = new Set(created.map(([, table]) => renamed.get(table) ?? (table as string)))

const ownerOf = new Map(Object.entries(TABLES).flatMap(([slice, tables]) => tables.map((table) => [table, slice])))
/** A statement's verb and table, in its text or in a call of `insertion` or `update` of `platform/db/rows.ts`. */
const STATEMENT =
  /(?<!for (?:no key )?)\b(insert\s+into|insertion|update|delete\s+from|truncate|from|join)(?:\s+(?:only\s+)?|\(\s*')([a-z_]+)\b/g
const sliceOf = ({ room, slice }: SourceFile) => (room === 'delivery' && slice !== 'delivery/events' ? room : slice)

/** Every `table ← slice` in which a slice touches a table of another slice. */
function touched(verbs: RegExp): string[] {
  const found = new Set<string>()
  for (const file of files)
    for (const [, verb, table] of codeOf(file).matchAll(STATEMENT)) {
      const owner = ownerOf.get(table as string)
      const from = file.room === 'delivery' ? 'delivery' : sliceOf(file)
      if (owner !== undefined && owner !== from && verbs.test(verb as string)) found.add(`${table} ← ${from}`)
    }
  return [...found].sort()
}

test('every table has one owner', () => {
  expect([...ownerOf.keys()].sort()).toEqual([...declared].filter((table) => table !== 'migrations').sort())
  expect(ownerOf.size).toBe(Object.values(TABLES).flat().length)
})

test('a call that writes a row names its table', () => {
  const unnamed = /\b(?:insertion|update)\((?!\s*'[a-z_]+',)/
  const writers = files.filter(({ imports }) => imports.some(({ target }) => target === 'platform/db/rows.ts'))
  expect(writers.filter((file) => unnamed.test(codeOf(file)))).toEqual([])
})

test('only the owner writes a table, but for the writes that are listed with a reason', () => {
  expect(touched(/insert|update|delete|truncate/)).toEqual(Object.keys(FOREIGN_WRITES).sort())
})

test('who reads a table of another slice is listed with a reason', () => {
  const writers = Object.keys(FOREIGN_WRITES)
  expect(touched(/from|join/).filter((pair) => !writers.includes(pair))).toEqual(Object.keys(FOREIGN_READS).sort())
})
