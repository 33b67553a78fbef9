import { resolve } from 'node:path'
import { floorAddress } from './floor/address.ts'
import { signerAddresses } from './security/signers/signers.ts'
import { kinds, type Setting } from './settings.ts'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

/** Every environment variable that the service reads. The documentation's table is generated from it. */
export const SETTINGS = {
  env: {
    env: 'HALFKEY_ENV',
    default: 'development',
    parse: kinds.oneOf('development', 'production'),
    doc: 'Production refuses unsafe settings; development allows loopback receivers and origins over http.',
  },
  role: {
    env: 'HALFKEY_ROLE',
    default: 'all',
    parse: kinds.oneOf('all', 'api', 'worker'),
    doc: 'What this process does: answer requests (api), deliver events (worker), or both (all).',
  },
  host: { env: 'HOST', default: '127.0.0.1', parse: kinds.text, doc: 'The address to listen on.' },
  port: {
    env: 'PORT',
    default: '8080',
    parse: kinds.whole(0, 65_535),
    doc: 'The port to listen on. 0 picks a free port.',
  },
  publicUrl: {
    env: 'HALFKEY_PUBLIC_URL',
    parse: kinds.orNull(kinds.url),
    doc: 'The address where users reach the service. Default: http://localhost:<PORT>.',
  },
  databaseUrl: {
    env: 'DATABASE_URL',
    secret: true,
    parse: kinds.orNull(kinds.text),
    doc: 'The URL of a PostgreSQL 15 or later, or of a pooler in front of it. It may name several hosts: of these, the one that takes writes is used. If it is not set, Halfkey runs an embedded PostgreSQL in HALFKEY_DATA_DIR.',
  },
  databaseDirectUrl: {
    env: 'DATABASE_DIRECT_URL',
    secret: true,
    parse: kinds.orNull(kinds.text),
    doc: 'The URL of the same database without the pooler, for migrations, notifications and locks. Set it if DATABASE_URL leads to a pooler in transaction mode.',
  },
  databaseReplicaUrl: {
    env: 'DATABASE_REPLICA_URL',
    secret: true,
    parse: kinds.orNull(kinds.text),
    doc: 'The URL of a streaming standby of the same database. Lists, analytics and the audit log are read there while it keeps up.',
  },
  databaseConnections: {
    env: 'HALFKEY_DATABASE_CONNECTIONS',
    default: '40',
    // Below, the pools of the engine, the probes and the keys leave none for requests.
    parse: kinds.whole(8, 500),
    doc: 'The maximum number of database connections of this process, from 8. A worker opens one more, to listen for notifications. With DATABASE_REPLICA_URL, at most as many go to the standby.',
  },
  migrate: {
    env: 'HALFKEY_MIGRATE',
    default: 'on',
    parse: kinds.flag,
    doc: 'Apply missing migrations at each start. With `off`, a start needs a database that `halfkey migrate` of this release has updated.',
  },
  dataDir: {
    env: 'HALFKEY_DATA_DIR',
    default: './.halfkey',
    parse: (text) => resolve(text),
    doc: 'The folder of the embedded database and the development key file.',
  },
  kekFile: {
    env: 'HALFKEY_KEK_FILE',
    parse: kinds.orNull(kinds.text),
    doc: 'The file with the key-encryption key: 32 bytes as base64, mode 0600, or 0640 if root owns the file and the service runs as another user. During a rotation it holds several keys, one per line. Development creates one in HALFKEY_DATA_DIR.',
  },
  kek: {
    env: 'HALFKEY_KEK',
    parse: kinds.orNull(kinds.text),
    doc: 'The key service that wraps the keys of HALFKEY_KEK_FILE: awskms:<region>/<key>, vault:<mount>/<key> or pkcs11:<RFC 7512 URI>; or file:<path>, which is another way to set HALFKEY_KEK_FILE. With a key service, a missing key file is created.',
  },
  kekLifetimeMs: {
    env: 'HALFKEY_KEK_LIFETIME',
    parse: kinds.orNull(kinds.duration(10_000, 30 * DAY_MS)),
    doc: 'How long a process uses a key until the key service must unwrap it again. Not set: as long as the process runs.',
  },
  signers: {
    env: 'HALFKEY_SIGNERS',
    parse: kinds.orNull(signerAddresses),
    doc: 'Ed25519 keys that stay in a hardware module: `<use>:pkcs11:<RFC 7512 URI>`, separated by spaces. A use is `token` (access tokens), `identity` (what clients pin) or `checkpoint` (checkpoints of audit logs). See [Signing in a hardware module](key-services.md#signing-in-a-hardware-module).',
  },
  records: {
    env: 'HALFKEY_RECORDS',
    default: 'marked',
    parse: kinds.oneOf('marked', 'enforced'),
    doc: 'When records without a MAC are refused: `enforced` always, `marked` if the file HALFKEY_KEK_FILE with `.records` at its end exists. A new installation and `halfkey records enforce` write that file. Set `enforced` where they cannot write there. See [Tamper-proof records](operating.md#tamper-proof-records).',
  },
  floor: {
    env: 'HALFKEY_FLOOR',
    parse: kinds.orNull(floorAddress),
    doc: 'Where processes keep the floor, which shows that the database went back to an earlier state: the absolute path of a file, s3:https://<host>/<bucket>/<key>?region=<region>, an https URL for GET and PUT, or off. Default: the file HALFKEY_KEK_FILE with `.floor` at its end. See [The floor](operating.md#the-floor).',
  },
  floorCredentialsFile: {
    env: 'HALFKEY_FLOOR_CREDENTIALS_FILE',
    parse: kinds.orNull(kinds.text),
    doc: 'A file with what HALFKEY_FLOOR needs: `<access key id>:<secret access key>` for s3:, a bearer token for a URL.',
  },
  ledgers: {
    env: 'HALFKEY_LEDGERS',
    default: 'embedded',
    parse: kinds.ledgers,
    doc: 'The ledgers of wallets, separated by commas: `embedded`, and `canton:<path>` with the settings of a Canton participant ([Canton](ledgers/canton.md)). The first is for new wallets that name none. The embedded ledger is always there.',
  },
  adminKey: {
    env: 'HALFKEY_ADMIN_KEY',
    secret: true,
    parse: kinds.orNull(kinds.text),
    doc: "The first tenant's admin key, read at the first start only. `halfkey keys generate` prints one.",
  },
  insecureDev: {
    env: 'HALFKEY_INSECURE_DEV',
    default: '0',
    parse: kinds.flag,
    doc: 'Lets development mode listen on addresses other than loopback and accept any Host header.',
  },
  rateLimits: { env: 'HALFKEY_RATE_LIMITS', default: 'on', parse: kinds.flag, doc: '`off` turns off all rate limits.' },
  rateLimitSecret: {
    env: 'HALFKEY_RATE_LIMIT_SECRET',
    default: '1000/2000',
    parse: kinds.rate,
    doc: 'The limit of each secret key: requests per second / burst.',
  },
  rateLimitPublishable: {
    env: 'HALFKEY_RATE_LIMIT_PUBLISHABLE',
    default: '20/100',
    parse: kinds.rate,
    doc: 'The limit of each publishable key and client address: requests per second / burst.',
  },
  rateLimitSignIn: {
    env: 'HALFKEY_RATE_LIMIT_SIGN_IN',
    default: '5/60',
    parse: kinds.rate,
    doc: 'The limit of sign-in, MFA and recovery calls of each client address: calls per second / burst.',
  },
  rateLimitAccount: {
    env: 'HALFKEY_RATE_LIMIT_ACCOUNT',
    default: '1/20',
    parse: kinds.rate,
    doc: 'The limit of sign-in, MFA and recovery calls of each account: calls per second / burst.',
  },
  trustedProxies: {
    env: 'HALFKEY_TRUSTED_PROXIES',
    parse: kinds.ranges,
    doc: 'Addresses or CIDRs of proxies whose X-Forwarded-For is trusted, separated by commas.',
  },
  egressAllow: {
    env: 'HALFKEY_EGRESS_ALLOW',
    parse: kinds.rangesOrHosts,
    doc: 'CIDRs or host names that webhooks, except those of subscribers, may reach even if they are private or use http, separated by commas.',
  },
  egressProxy: {
    env: 'HALFKEY_EGRESS_PROXY',
    secret: true,
    parse: kinds.orNull(kinds.proxy),
    doc: 'A forward proxy that all webhook calls go through: http://user:password@host:port.',
  },
  egressProxyResolves: {
    env: 'HALFKEY_EGRESS_PROXY_RESOLVES',
    default: 'off',
    parse: kinds.flag,
    doc: 'The forward proxy resolves host names, and decides which addresses it reaches.',
  },
  mcpFetch: {
    env: 'HALFKEY_MCP_FETCH',
    default: 'off',
    parse: kinds.flag,
    doc: 'Agents at /mcp have the tool x402_fetch, with which this service sends requests to public addresses that they choose.',
  },
  dnsServers: {
    env: 'HALFKEY_DNS_SERVERS',
    parse: kinds.servers,
    doc: "DNS servers (address:port) to use instead of the system's, separated by commas.",
  },
  webhooksPerTenant: {
    env: 'HALFKEY_WEBHOOKS_PER_TENANT',
    default: '20000',
    parse: kinds.whole(1, 1_000_000),
    doc: 'The maximum number of webhooks of a tenant, without those of its subscribers (20 for each).',
  },
  webhookRetryDelays: {
    env: 'HALFKEY_WEBHOOK_RETRY_DELAYS',
    default: '1m,5m,30m,2h,24h',
    parse: kinds.durations,
    doc: 'How long to wait before each retry of a delivery.',
  },
  webhookTimeoutMs: {
    env: 'HALFKEY_WEBHOOK_TIMEOUT',
    default: '30s',
    parse: kinds.duration(100, 30_000),
    doc: 'How long a receiver may take to respond, at most 30s.',
  },
  webhookConcurrency: {
    env: 'HALFKEY_WEBHOOK_CONCURRENCY',
    default: '8',
    parse: kinds.whole(1, 100),
    doc: 'How many deliveries to one webhook run at once, until it answers fast or fails.',
  },
  webhookConcurrencyMax: {
    env: 'HALFKEY_WEBHOOK_CONCURRENCY_MAX',
    default: '32',
    parse: kinds.whole(1, 100),
    doc: 'How many deliveries to a webhook that answers fast may run at once.',
  },
  webhookDisableAfterMs: {
    env: 'HALFKEY_WEBHOOK_DISABLE_AFTER',
    default: '5d',
    parse: kinds.duration(1_000, 365 * DAY_MS),
    doc: 'A webhook is disabled after all its deliveries have failed for this long.',
  },
  retentionMs: {
    env: 'HALFKEY_RETENTION',
    default: '30d',
    parse: kinds.duration(MINUTE_MS, 3_650 * DAY_MS),
    doc: 'How long events and finished deliveries are kept.',
  },
  deadLetterRetentionMs: {
    env: 'HALFKEY_DEAD_LETTER_RETENTION',
    default: '90d',
    parse: kinds.duration(MINUTE_MS, 3_650 * DAY_MS),
    doc: 'How long dead letters are kept.',
  },
  metricsPort: {
    env: 'HALFKEY_METRICS_PORT',
    parse: kinds.orNull(kinds.whole(0, 65_535)),
    doc: 'A separate port for /metrics, on HOST.',
  },
  metricsToken: {
    env: 'HALFKEY_METRICS_TOKEN',
    secret: true,
    parse: kinds.orNull(kinds.text),
    doc: 'The bearer token for /metrics, on either port. Without it, the main port serves metrics in development only, on loopback only.',
  },
  redisUrl: {
    env: 'REDIS_URL',
    secret: true,
    parse: kinds.orNull(kinds.text),
    doc: 'A Redis that all processes share, so that rate limits hold across them. Without it, each process limits separately.',
  },
  domainTarget: {
    env: 'HALFKEY_DOMAIN_TARGET',
    parse: kinds.orNull(kinds.host),
    doc: 'The host name that custom domains must point at. Default: the host of HALFKEY_PUBLIC_URL.',
  },
  smtp: {
    env: 'HALFKEY_SMTP_URL',
    secret: true,
    parse: kinds.orNull(kinds.mailServer),
    doc: 'The mail server that sends emails: smtp://user:password@host:587 (with STARTTLS) or smtps://…:465. Without it, development shows emails at /dev/mail, and production sends none.',
  },
  mailFrom: {
    env: 'HALFKEY_MAIL_FROM',
    parse: kinds.orNull(kinds.mailAddress),
    doc: "The address that emails come from. The app's name is shown beside it.",
  },
  testCodes: {
    env: 'HALFKEY_TEST_CODES',
    default: 'off',
    parse: kinds.flag,
    doc: "Accepts the fixed codes of apps' test addresses in production too.",
  },
  stripeSecretKey: {
    env: 'HALFKEY_STRIPE_SECRET_KEY',
    secret: true,
    parse: kinds.orNull(kinds.text),
    doc: "Stripe's secret (or restricted) key. Without it, billing is off.",
  },
  stripeWebhookSecret: {
    env: 'HALFKEY_STRIPE_WEBHOOK_SECRET',
    secret: true,
    parse: kinds.orNull(kinds.text),
    doc: "The signing secret (whsec_…) of Stripe's endpoint for /processor-events/stripe.",
  },
  stripePrices: {
    env: 'HALFKEY_STRIPE_PRICES',
    parse: kinds.pairs,
    doc: "Stripe's price id for each plan on sale: pro=price_…,scale=price_….",
  },
  stripeApi: {
    env: 'HALFKEY_STRIPE_API',
    default: 'https://api.stripe.com',
    parse: kinds.url,
    doc: "The address of Stripe's API.",
  },
  otlpEndpoint: {
    env: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    parse: kinds.orNull(kinds.url),
    doc: 'Where to send OpenTelemetry traces (OTLP over HTTP). Without it, no traces are recorded.',
  },
  traceRatio: {
    env: 'OTEL_TRACES_SAMPLER_ARG',
    default: '1',
    parse: kinds.ratio,
    doc: 'The fraction of requests to trace, 0 to 1, if the caller has not decided.',
  },
  logLevel: {
    env: 'HALFKEY_LOG_LEVEL',
    default: 'info',
    parse: kinds.oneOf('debug', 'info', 'warn', 'error', 'silent'),
    doc: 'The lowest level that is logged, as JSON lines on standard error.',
  },
  drainMs: {
    env: 'HALFKEY_DRAIN',
    default: '1s',
    parse: kinds.duration(0, 60_000),
    doc: 'How long a stopping process keeps answering requests while /readyz already fails. The whole stop takes ten seconds at most.',
  },
} satisfies Record<string, Setting<unknown>>

type Values = { [Name in keyof typeof SETTINGS]: ReturnType<(typeof SETTINGS)[Name]['parse']> }

/** The validated configuration. */
export interface Config extends Values {
  /** Names of the fields that were not set. */
  defaults: string[]
  /** Variables that begin with HALFKEY_ and are not read. */
  unknown: string[]
}

/** Requests per second on average, and in a burst. */
export type Rate = Config['rateLimitSecret']

/** The address where users reach the service, without a trailing slash. */
export function publicUrl(config: Config): string {
  return config.publicUrl ?? `http://localhost:${config.port}`
}
