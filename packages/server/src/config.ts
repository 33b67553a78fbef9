import { resolve } from 'node:path'
import { type Config, SETTINGS } from './platform/config.ts'
import { readConnection } from './platform/db/connection.ts'
import { readFloorAddress } from './platform/floor/address.ts'
import { apiKeyType } from './platform/security/api-key.ts'
import type { Setting } from './platform/settings.ts'

/** All problems of the configuration. */
export class ConfigError extends Error {
  readonly problems: readonly string[]
  constructor(problems: readonly string[]) {
    super(`invalid configuration: ${problems.join('; ')}`)
    this.problems = problems
  }
}

const LOOPBACK_HOSTS = new Set(['127.0.0.1', 'localhost', '::1'])

/** What is wrong with the addresses of the database. */
function wrongUrls({
  databaseUrl,
  databaseDirectUrl,
  databaseReplicaUrl,
}: Config): [broken: boolean, problem: string][] {
  const urls = {
    DATABASE_URL: databaseUrl,
    DATABASE_DIRECT_URL: databaseDirectUrl,
    DATABASE_REPLICA_URL: databaseReplicaUrl,
  }
  return Object.entries(urls).flatMap(([name, url]) => {
    if (url === null) return []
    if (!/^postgres(ql)?:\/\//.test(url))
      return [[true, `${name} must start with postgres:// or postgresql://`] as const]
    try {
      readConnection(url)
      return []
    } catch (error) {
      return [[true, `${name} must ${(error as Error).message}`]]
    }
  })
}

const isKeptByS3 = ({ floor }: Config) => floor !== null && readFloorAddress(floor).kind === 's3'

/** Rules between settings. Production refuses every unsafe setting by name. */
function contradictions(config: Config): string[] {
  const inProduction = config.env === 'production'
  const rules: [broken: boolean, problem: string][] = [
    [
      config.adminKey !== null && apiKeyType(config.adminKey) !== 'secret',
      'HALFKEY_ADMIN_KEY must be a key printed by `halfkey keys generate`',
    ],
    ...wrongUrls(config),
    [
      config.databaseUrl === null && config.databaseDirectUrl !== null,
      'DATABASE_DIRECT_URL must be set together with DATABASE_URL',
    ],
    [
      config.databaseUrl === null && config.databaseReplicaUrl !== null,
      'DATABASE_REPLICA_URL must be set together with DATABASE_URL',
    ],
    [
      config.databaseReplicaUrl?.split('/')[2]?.includes(',') ?? false,
      'DATABASE_REPLICA_URL must name one host: a standby',
    ],
    [
      config.redisUrl !== null && !/^rediss?:$/.test(URL.parse(config.redisUrl)?.protocol ?? ''),
      'REDIS_URL must be a URL that starts with redis:// or rediss://',
    ],
    [
      config.egressProxyResolves && config.egressProxy === null,
      'HALFKEY_EGRESS_PROXY_RESOLVES needs HALFKEY_EGRESS_PROXY',
    ],
    [
      config.mcpFetch && config.egressProxyResolves,
      'HALFKEY_MCP_FETCH must be off with HALFKEY_EGRESS_PROXY_RESOLVES: the addresses that agents choose could not be checked',
    ],
    [
      config.deadLetterRetentionMs < config.retentionMs,
      'HALFKEY_DEAD_LETTER_RETENTION must not be shorter than HALFKEY_RETENTION',
    ],
    [
      config.stripeSecretKey !== null && config.stripeWebhookSecret === null,
      "HALFKEY_STRIPE_WEBHOOK_SECRET must be set together with HALFKEY_STRIPE_SECRET_KEY: without it, Stripe's events cannot be verified",
    ],
    [
      isKeptByS3(config) && config.floorCredentialsFile === null,
      'HALFKEY_FLOOR_CREDENTIALS_FILE must be set together with an HALFKEY_FLOOR that starts with s3:',
    ],
    [config.smtp !== null && config.mailFrom === null, 'HALFKEY_MAIL_FROM must be set together with HALFKEY_SMTP_URL'],
    [
      !inProduction && !LOOPBACK_HOSTS.has(config.host) && !config.insecureDev,
      `HOST must be a loopback address in development, not ${config.host}: set HALFKEY_ENV=production, or HALFKEY_INSECURE_DEV=1 if you know who can reach this machine`,
    ],
    [inProduction && config.insecureDev, 'HALFKEY_INSECURE_DEV must not be set in production'],
    [
      inProduction && config.kekFile === null && config.kek === null,
      'HALFKEY_KEK_FILE must be set in production. Create the file with: (umask 077; openssl rand -base64 32 > kek.key)',
    ],
    [
      inProduction && config.databaseUrl === null && config.defaults.includes('dataDir'),
      'DATABASE_URL or HALFKEY_DATA_DIR must be set in production, so that the data is stored where you expect it',
    ],
    [
      inProduction && config.publicUrl?.startsWith('http://') === true,
      'HALFKEY_PUBLIC_URL must be https in production',
    ],
    [inProduction && !config.rateLimits, 'HALFKEY_RATE_LIMITS must not be off in production'],
  ]
  return rules.filter(([broken]) => broken).map(([, problem]) => problem)
}

/** Variables for commands that call a running service. The service itself may have them in its environment too. */
export const CLIENT_VARIABLES = {
  url: 'HALFKEY_URL',
  key: 'HALFKEY_KEY',
  pin: 'HALFKEY_PIN',
  webhookSecret: 'HALFKEY_WEBHOOK_SECRET',
} as const

/** The values of those variables; null if not set. */
export function readClientVariables(
  env: Record<string, string | undefined> = process.env,
): Record<keyof typeof CLIENT_VARIABLES, string | null> {
  const value = (name: string) => env[name]?.trim() || null
  const { url, key, pin, webhookSecret } = CLIENT_VARIABLES
  return { url: value(url), key: value(key), pin: value(pin), webhookSecret: value(webhookSecret) }
}

/** Reads the environment. An invalid setting gets its default, and all problems are listed. */
export function inspectConfig(env: Record<string, string | undefined> = process.env): {
  config: Config
  problems: string[]
} {
  const problems: string[] = []
  const defaults: string[] = []
  const values: Record<string, unknown> = {}
  for (const [name, each] of Object.entries<Setting<unknown>>(SETTINGS)) {
    const given = env[each.env] || undefined
    if (given === undefined) defaults.push(name)
    try {
      values[name] = each.parse(given ?? each.default ?? '')
    } catch (error) {
      problems.push(`${each.env} must be ${(error as Error).message}${each.secret ? '' : `, not "${given}"`}`)
      // The default replaces it, so that the other problems are reported too.
      values[name] = each.parse(each.default ?? '')
    }
  }
  const known = new Set<string>([
    ...Object.values(SETTINGS).map((each) => each.env),
    ...Object.values(CLIENT_VARIABLES),
  ])
  const unknown = Object.keys(env).filter((name) => name.startsWith('HALFKEY_') && !known.has(name))
  const config = { ...values, defaults, unknown } as unknown as Config
  const file = config.kek?.startsWith('file:') === true ? config.kek.slice('file:'.length) : null
  if (file !== null) {
    if (config.kekFile !== null && config.kekFile !== file)
      problems.push('HALFKEY_KEK and HALFKEY_KEK_FILE must not name different files')
    config.kekFile = file
    config.kek = null
  }
  problems.push(...contradictions(config))
  config.kekFile ??= resolve(config.dataDir, 'kek.key')
  return { config, problems }
}

/** Reads the environment. No other file does. @throws ConfigError naming every problem */
export function loadConfig(env: Record<string, string | undefined> = process.env): Config {
  const { config, problems } = inspectConfig(env)
  if (problems.length > 0) throw new ConfigError(problems)
  return config
}

const isCheckout = import.meta.url.endsWith('.ts')

/** How people run `halfkey` here: with npm in a checkout, with npx, or installed. */
export function programName({ npm_lifecycle_event: script, npm_command: command } = process.env): string {
  if (command === 'exec') return 'npx halfkey'
  return isCheckout && script !== undefined ? 'npm run halfkey --' : 'halfkey'
}

/** A setting as shown to people, with secrets hidden. */
export interface ShownSetting {
  /** The environment variable. */
  name: string
  /** Null when nothing is set. */
  value: string | null
  isDefault: boolean
  /** Its purpose. */
  doc: string
}

/** Every setting with its value. */
export function describeConfig(config: Config): ShownSetting[] {
  return Object.entries<Setting<unknown>>(SETTINGS).map(([name, { env, doc, secret }]) => {
    const value = config[name as keyof typeof SETTINGS]
    const isEmpty = value === null || value === '' || (Array.isArray(value) && value.length === 0)
    return {
      name: env,
      value: isEmpty ? null : secret ? '(hidden)' : show(name, value),
      isDefault: config.defaults.includes(name),
      doc,
    }
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
