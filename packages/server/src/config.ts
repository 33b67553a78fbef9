import { resolve } from 'node:path'
import type { Config } from './platform/config.ts'
import { apiKeyType } from './platform/security/api-key.ts'
import { kinds, type Setting, setting } from './platform/settings.ts'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

/** Every environment variable that the service reads. The documentation's table is this one. */
export const SETTINGS = {
  env: setting(
    'HALFKEY_ENV',
    'development',
    kinds.oneOf('development', 'production'),
    'Production refuses unsafe settings; development allows loopback receivers and origins over http.',
  ),
  role: setting(
    'HALFKEY_ROLE',
    'all',
    kinds.oneOf('all', 'api', 'worker'),
    'What this process does: answer requests (api), deliver events (worker), or both.',
  ),
  host: setting('HOST', '127.0.0.1', kinds.text, 'The address to listen on.'),
  port: setting('PORT', '8080', kinds.whole(0, 65_535), 'The port to listen on; 0 picks a free one.'),
  publicUrl: setting(
    'HALFKEY_PUBLIC_URL',
    '',
    (text) => (text === '' ? null : kinds.url(text)),
    'Where users reach the service; http://localhost:<PORT> when not set.',
  ),
  databaseUrl: setting(
    'DATABASE_URL',
    '',
    kinds.nullableText,
    'PostgreSQL 15 or later; when not set, an embedded PostgreSQL in HALFKEY_DATA_DIR.',
    { secret: true },
  ),
  databaseConnections: setting(
    'HALFKEY_DATABASE_CONNECTIONS',
    '40',
    kinds.whole(4, 500),
    'The most connections that this process opens.',
  ),
  dataDir: setting(
    'HALFKEY_DATA_DIR',
    './.halfkey',
    (text) => resolve(text),
    'Where the embedded database and the development key file lie.',
  ),
  kekFile: setting(
    'HALFKEY_KEK_FILE',
    '',
    kinds.nullableText,
    'The file with the key-encryption key: 32 bytes as base64, mode 0600; during a rotation several, one a line. In development one is made in HALFKEY_DATA_DIR.',
  ),
  adminKey: setting(
    'HALFKEY_ADMIN_KEY',
    '',
    kinds.nullableText,
    "The first tenant's admin key, read at the first start only; `halfkey keys generate` makes one.",
    { secret: true },
  ),
  insecureDev: setting(
    'HALFKEY_INSECURE_DEV',
    '0',
    kinds.flag,
    'Lets development mode listen on an address other than loopback, and answer to any Host.',
  ),
  rateLimits: setting('HALFKEY_RATE_LIMITS', 'on', kinds.flag, 'off turns all rate limits off.'),
  rateLimitSecret: setting(
    'HALFKEY_RATE_LIMIT_SECRET',
    '1000/2000',
    kinds.rate,
    'For each secret key: requests a second / at once.',
  ),
  rateLimitPublishable: setting(
    'HALFKEY_RATE_LIMIT_PUBLISHABLE',
    '20/100',
    kinds.rate,
    'For each publishable key and client address: requests a second / at once.',
  ),
  rateLimitSignIn: setting(
    'HALFKEY_RATE_LIMIT_SIGN_IN',
    '5/60',
    kinds.rate,
    'For each client address, sign-in, MFA and recovery calls: a second / at once.',
  ),
  rateLimitAccount: setting(
    'HALFKEY_RATE_LIMIT_ACCOUNT',
    '1/20',
    kinds.rate,
    'For each account, sign-in, MFA and recovery calls: a second / at once.',
  ),
  trustedProxies: setting(
    'HALFKEY_TRUSTED_PROXIES',
    '',
    kinds.ranges,
    'Addresses or CIDRs whose X-Forwarded-For counts, separated by commas.',
  ),
  egressAllow: setting(
    'HALFKEY_EGRESS_ALLOW',
    '',
    kinds.rangesOrHosts,
    'CIDRs or host names that webhooks may reach although private or over http, separated by commas.',
  ),
  dnsServers: setting(
    'HALFKEY_DNS_SERVERS',
    '',
    kinds.servers,
    "DNS servers (address:port) instead of the system's, separated by commas.",
  ),
  webhooksPerTenant: setting(
    'HALFKEY_WEBHOOKS_PER_TENANT',
    '20000',
    kinds.whole(1, 1_000_000),
    'How many webhooks a tenant may have.',
  ),
  webhookRetryDelays: setting(
    'HALFKEY_WEBHOOK_RETRY_DELAYS',
    '1m,5m,30m,2h,24h',
    kinds.durations,
    'How long to wait before each retry of a delivery.',
  ),
  webhookTimeoutMs: setting(
    'HALFKEY_WEBHOOK_TIMEOUT',
    '30s',
    kinds.duration(100, 30_000),
    'How long a receiver may take to answer, at most 30s.',
  ),
  webhookConcurrency: setting(
    'HALFKEY_WEBHOOK_CONCURRENCY',
    '8',
    kinds.whole(1, 100),
    'How many deliveries to one webhook run at once.',
  ),
  webhookDisableAfterMs: setting(
    'HALFKEY_WEBHOOK_DISABLE_AFTER',
    '5d',
    kinds.duration(1_000, 365 * DAY_MS),
    'A webhook that has failed everything for so long is disabled.',
  ),
  retentionMs: setting(
    'HALFKEY_RETENTION',
    '30d',
    kinds.duration(MINUTE_MS, 3_650 * DAY_MS),
    'How long events and finished deliveries are kept.',
  ),
  deadLetterRetentionMs: setting(
    'HALFKEY_DEAD_LETTER_RETENTION',
    '90d',
    kinds.duration(MINUTE_MS, 3_650 * DAY_MS),
    'How long dead letters are kept.',
  ),
  metricsPort: setting(
    'HALFKEY_METRICS_PORT',
    '',
    (text) => (text === '' ? null : kinds.whole(0, 65_535)(text)),
    'A port of its own for /metrics, on HOST.',
  ),
  metricsToken: setting(
    'HALFKEY_METRICS_TOKEN',
    '',
    kinds.nullableText,
    'The bearer token for /metrics, on either port. Without it the main port answers on loopback only, in development only.',
    { secret: true },
  ),
  redisUrl: setting(
    'REDIS_URL',
    '',
    kinds.nullableText,
    'A Redis that all processes of the service share, for rate limits that hold across them; each keeps its own when not set.',
    { secret: true },
  ),
  domainTarget: setting(
    'HALFKEY_DOMAIN_TARGET',
    '',
    kinds.nullableHost,
    "The host name that custom domains are to point at; HALFKEY_PUBLIC_URL's host when not set.",
  ),
  stripeSecretKey: setting(
    'HALFKEY_STRIPE_SECRET_KEY',
    '',
    kinds.nullableText,
    "Stripe's secret (or restricted) key; billing is off without it.",
    { secret: true },
  ),
  stripeWebhookSecret: setting(
    'HALFKEY_STRIPE_WEBHOOK_SECRET',
    '',
    kinds.nullableText,
    "The signing secret (whsec_…) of Stripe's endpoint for /processor-events/stripe.",
    { secret: true },
  ),
  stripePrices: setting(
    'HALFKEY_STRIPE_PRICES',
    '',
    kinds.pairs,
    "Stripe's price of each plan that can be bought: pro=price_…,scale=price_….",
  ),
  stripeApi: setting('HALFKEY_STRIPE_API', 'https://api.stripe.com', kinds.url, "Where Stripe's API is."),
  otlpEndpoint: setting(
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    '',
    (text) => (text === '' ? null : kinds.url(text)),
    'Where OpenTelemetry traces go (OTLP over HTTP); none are made when not set.',
  ),
  traceRatio: setting(
    'OTEL_TRACES_SAMPLER_ARG',
    '1',
    kinds.ratio,
    'The part of requests that are traced, 0 to 1, where the caller has not decided.',
  ),
  logLevel: setting(
    'HALFKEY_LOG_LEVEL',
    'info',
    kinds.oneOf('debug', 'info', 'warn', 'error', 'silent'),
    'What is logged, as JSON lines on standard error.',
  ),
  drainMs: setting(
    'HALFKEY_DRAIN',
    '1s',
    kinds.duration(0, 60_000),
    'How long a stopping process answers on while /readyz already fails.',
  ),
} satisfies Record<string, Setting<unknown>>

/** Everything that is wrong with the configuration, at once. */
export class ConfigError extends Error {
  readonly problems: readonly string[]
  constructor(problems: readonly string[]) {
    super(`invalid configuration: ${problems.join('; ')}`)
    this.problems = problems
  }
}

const LOOPBACK_HOSTS = new Set(['127.0.0.1', 'localhost', '::1'])

/** What holds between settings. In production every unsafe one is refused by name. */
function contradictions(config: Config): string[] {
  const problems: string[] = []
  if (config.adminKey !== null && apiKeyType(config.adminKey) !== 'secret') {
    problems.push('HALFKEY_ADMIN_KEY must be a key made by `halfkey keys generate`')
  }
  if (config.databaseUrl !== null && !/^postgres(ql)?:\/\//.test(config.databaseUrl)) {
    problems.push('DATABASE_URL must start with postgres:// or postgresql://')
  }
  if (config.redisUrl !== null && !/^rediss?:$/.test(URL.parse(config.redisUrl)?.protocol ?? ''))
    problems.push('REDIS_URL must be a URL that starts with redis:// or rediss://')
  if (config.deadLetterRetentionMs < config.retentionMs) {
    problems.push('HALFKEY_DEAD_LETTER_RETENTION must not be shorter than HALFKEY_RETENTION')
  }
  if (config.stripeSecretKey !== null && config.stripeWebhookSecret === null)
    problems.push(
      'HALFKEY_STRIPE_WEBHOOK_SECRET must be set with HALFKEY_STRIPE_SECRET_KEY: without it nobody could tell whose events come in',
    )
  if (config.env === 'development') {
    if (!LOOPBACK_HOSTS.has(config.host) && !config.insecureDev) {
      problems.push(
        `HOST must be a loopback address in development, not ${config.host}: set HALFKEY_ENV=production, or HALFKEY_INSECURE_DEV=1 if you know who can reach it`,
      )
    }
    return problems
  }
  if (config.insecureDev) problems.push('HALFKEY_INSECURE_DEV must not be set in production')
  if (config.kekFile === null)
    problems.push(
      'HALFKEY_KEK_FILE must be set in production: (umask 077; openssl rand -base64 32 > kek.key) makes one',
    )
  if (config.databaseUrl === null && config.defaults.includes('dataDir')) {
    problems.push(
      'DATABASE_URL or HALFKEY_DATA_DIR must be set in production, so that the data lies where you mean it to',
    )
  }
  if (config.publicUrl?.startsWith('http://')) problems.push('HALFKEY_PUBLIC_URL must be https in production')
  if (!config.rateLimits) problems.push('HALFKEY_RATE_LIMITS must not be off in production')
  return problems
}

/** What commands read that call a running service; one that is started beside them may have them in its environment too. */
export const CLIENT_VARIABLES = {
  url: 'HALFKEY_URL',
  key: 'HALFKEY_KEY',
  webhookSecret: 'HALFKEY_WEBHOOK_SECRET',
} as const

/** Those variables' values; null for what is not set. */
export function readClientVariables(
  env: Record<string, string | undefined> = process.env,
): Record<keyof typeof CLIENT_VARIABLES, string | null> {
  const value = (name: string) => env[name]?.trim() || null
  const { url, key, webhookSecret } = CLIENT_VARIABLES
  return { url: value(url), key: value(key), webhookSecret: value(webhookSecret) }
}

/** What could be read of the environment, where what is wrong has its default, and everything that is wrong with it. */
export function inspectConfig(env: Record<string, string | undefined> = process.env): {
  config: Config
  problems: string[]
} {
  const problems: string[] = []
  const defaults: string[] = []
  const values: Record<string, unknown> = {}
  for (const [name, each] of Object.entries(SETTINGS) as [string, Setting<unknown>][]) {
    const given = env[each.env]
    if (given === undefined || given === '') defaults.push(name)
    try {
      values[name] = each.parse(given === undefined || given === '' ? (each.default ?? '') : given)
    } catch (error) {
      problems.push(`${each.env} must be ${(error as Error).message}${each.secret ? '' : `, not "${given}"`}`)
      // The default stands in for it, so that what else is wrong is told too.
      values[name] = each.parse(each.default ?? '')
    }
  }
  const known = new Set<string>([
    ...Object.values(SETTINGS).map((each) => each.env),
    ...Object.values(CLIENT_VARIABLES),
  ])
  const unknown = Object.keys(env).filter((name) => name.startsWith('HALFKEY_') && !known.has(name))
  const config = { ...values, defaults, unknown } as unknown as Config
  problems.push(...contradictions(config))
  config.kekFile ??= resolve(config.dataDir, 'kek.key')
  return { config, problems }
}

/** Reads the environment; no other file does. @throws ConfigError naming every problem */
export function loadConfig(env: Record<string, string | undefined> = process.env): Config {
  const { config, problems } = inspectConfig(env)
  if (problems.length > 0) throw new ConfigError(problems)
  return config
}

/** The configuration as lines for people: secrets masked, defaults marked. */
export function describeConfig(config: Config): string[] {
  return Object.entries(SETTINGS).map(([name, each]) => {
    const value = config[name as keyof typeof SETTINGS]
    const isDefault = config.defaults.includes(name)
    const shown =
      value === null || value === '' || (Array.isArray(value) && value.length === 0)
        ? '-'
        : each.secret
          ? '(set, hidden)'
          : show(name, value)
    return `${each.env.padEnd(32)} ${shown}${isDefault ? '  (default)' : ''}`
  })
}

function show(name: string, value: unknown): string {
  if (typeof value === 'boolean') return value ? 'on' : 'off'
  if (value instanceof Map) return [...value].map(([key, each]) => `${key}=${each}`).join(',') || '-'
  if (Array.isArray(value))
    return value.map((entry) => (typeof entry === 'number' ? `${entry / 1000}s` : String(entry))).join(',')
  if (typeof value === 'object' && value !== null && 'perSecond' in value) {
    const { perSecond, burst } = value as { perSecond: number; burst: number }
    return `${perSecond}/s, ${burst} at once`
  }
  return name.endsWith('Ms') ? `${Number(value) / 1000}s` : String(value)
}
