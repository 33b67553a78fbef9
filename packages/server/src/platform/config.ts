/** So many requests a second on average, and so many at once. */
export interface Rate {
  perSecond: number
  burst: number
}

/** The validated configuration. Each field's variable, default and meaning stand in `src/config.ts`. */
export interface Config {
  env: 'development' | 'production'
  role: 'all' | 'api' | 'worker'
  host: string
  port: number
  publicUrl: string | null
  databaseUrl: string | null
  databaseConnections: number
  dataDir: string
  /** Resolved: in development the default lies in the data folder. */
  kekFile: string | null
  adminKey: string | null
  insecureDev: boolean
  rateLimits: boolean
  rateLimitSecret: Rate
  rateLimitPublishable: Rate
  rateLimitSignIn: Rate
  rateLimitAccount: Rate
  trustedProxies: string[]
  egressAllow: string[]
  dnsServers: string[]
  webhooksPerTenant: number
  webhookRetryDelays: number[]
  webhookTimeoutMs: number
  webhookConcurrency: number
  webhookDisableAfterMs: number
  retentionMs: number
  deadLetterRetentionMs: number
  metricsPort: number | null
  metricsToken: string | null
  /** Rate limits are shared by all processes that name the same Redis; null keeps them in each process's memory. */
  redisUrl: string | null
  /** The host name that custom domains point at; null for the public URL's. */
  domainTarget: string | null
  stripeSecretKey: string | null
  stripeWebhookSecret: string | null
  /** Stripe's price of each plan that can be bought. */
  stripePrices: ReadonlyMap<string, string>
  stripeApi: string
  otlpEndpoint: string | null
  /** The part of requests that are traced, 0 to 1. */
  traceRatio: number
  logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent'
  drainMs: number
  /** Names of the fields that were not set. */
  defaults: string[]
  /** Variables that look like ours and are none. */
  unknown: string[]
}

/** Where users reach the service, without a trailing slash. */
export function publicUrl(config: Config): string {
  return config.publicUrl ?? `http://localhost:${config.port}`
}
