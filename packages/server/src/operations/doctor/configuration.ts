import ipaddr from 'ipaddr.js'
import { type Config, publicUrl, SETTINGS } from '../../platform/config.ts'
import { type Finding, firstOfEach, note, ok, problem, warning } from './finding.ts'

const pairsOf = (name: string) => Array.from(name, (_, at) => name.slice(at, at + 2))

/** Part of their pairs of letters that two names share when one is taken for the other. */
const ALIKE_MIN = 0.8

function meant(name: string): string | undefined {
  const pairs = new Set(pairsOf(name))
  const alike = (env: string) =>
    (2 * pairsOf(env).filter((pair) => pairs.has(pair)).length) / (name.length + env.length)
  const [best = ''] = Object.values(SETTINGS)
    .map(({ env }) => env)
    .sort((a, b) => alike(b) - alike(a))
  return alike(best) >= ALIKE_MIN ? best : undefined
}

function unknownVariable(name: string): Finding {
  const guess = meant(name)
  return warning(
    'configuration.unknown',
    `${name} is set, but Halfkey does not read it.${guess === undefined ? '' : ` Did you mean ${guess}?`}`,
    guess === undefined
      ? `unset ${name}   # docs/operating.md lists every variable`
      : `export ${guess}="$${name}"; unset ${name}`,
  )
}

/** Checks the environment for errors and unusual settings. */
export function checkConfiguration(config: Config, problems: readonly string[]): Finding[] {
  const set = Object.keys(SETTINGS).length - config.defaults.length
  const mistakes = problems.map((each) =>
    problem(
      'configuration',
      `${each}.`,
      `Correct ${each.split(' ', 1)[0]} in the service's environment: docs/operating.md, "Settings".`,
    ),
  )
  const odd = firstOfEach([
    ok('configuration', problems.length === 0 && `${set} settings are set. The others have their defaults.`),
    note(
      'configuration.environment',
      config.env === 'development' && 'Development mode: loopback receivers, http origins and the faucet are allowed.',
      'export HALFKEY_ENV=production   # before anybody else can reach the service',
    ),
    warning('configuration.rate_limits', !config.rateLimits && 'All rate limits are off.', 'unset HALFKEY_RATE_LIMITS'),
    problem(
      'configuration.trusted_proxies',
      config.trustedProxies.some((range) => range.endsWith('/0')) &&
        'HALFKEY_TRUSTED_PROXIES trusts every address: any client can choose the address that limits and logs use for it.',
      'export HALFKEY_TRUSTED_PROXIES=10.0.0.5   # only the addresses of your proxies',
    ),
  ])
  return [...mistakes, ...config.unknown.map(unknownVariable), ...odd]
}

const isLoopback = (host: string) =>
  ['localhost', '127.0.0.1', '::1', '[::1]'].includes(host) || host.endsWith('.localhost')

const NEW_TOKEN = 'export HALFKEY_METRICS_TOKEN="$(openssl rand -hex 24)"   # and give it to Prometheus'

/** Checks the public URL, access to metrics, and the target of traces. */
export function checkExposure(config: Config): Finding[] {
  const { env, host, metricsPort: port, metricsToken: token, otlpEndpoint, traceRatio } = config
  const { origin, hostname, protocol } = new URL(publicUrl(config))
  const isAway = !isLoopback(hostname)
  return firstOfEach([
    warning(
      'public_url',
      config.publicUrl === null &&
        env === 'production' &&
        `HALFKEY_PUBLIC_URL is not set, so tokens name ${origin} as their issuer, and passkeys belong to ${hostname}.`,
      'export HALFKEY_PUBLIC_URL=https://wallets.example.com   # the same for every process, before the first sign-in',
    ),
    problem(
      'public_url',
      isAway &&
        protocol !== 'https:' &&
        `${origin} is not https: passkeys do not work there, and tokens are sent unencrypted.`,
      `export HALFKEY_PUBLIC_URL=https://${hostname}`,
    ),
    problem(
      'public_url',
      isAway &&
        ipaddr.isValid(hostname.replace(/^\[(.*)\]$/, '$1')) &&
        `${hostname} is an IP address: passkeys need a host name.`,
      'export HALFKEY_PUBLIC_URL=https://wallets.example.com',
    ),
    ok('public_url', `${origin}.`),
    ok('metrics', token !== null && token.length >= 16 && 'Metrics require a token.'),
    warning('metrics', token !== null && 'HALFKEY_METRICS_TOKEN is so short that it can be guessed.', NEW_TOKEN),
    warning(
      'metrics',
      port !== null && !isLoopback(host) && `Everybody who reaches port ${port} of ${host} can read the metrics.`,
      NEW_TOKEN,
    ),
    note(
      'metrics',
      port === null &&
        env === 'production' &&
        'Nobody can read the metrics: neither a token nor a port is set for them.',
      NEW_TOKEN,
    ),
    ok('metrics', 'Metrics are readable on loopback only.'),
    note(
      'traces',
      otlpEndpoint !== null && `${traceRatio * 100} % of requests are traced to ${new URL(otlpEndpoint).origin}.`,
      null,
    ),
  ])
}

/** Checks the form of Stripe's settings, without calling Stripe. */
export function checkStripe(config: Config): Finding[] {
  const { stripeSecretKey: key, stripeWebhookSecret: secret, stripePrices: prices, stripeApi, env } = config
  if (key === null) return []
  const odd = [...prices].filter(([, price]) => !/^price_\w+$/.test(price)).map(([plan]) => plan)
  const newPrices = 'export HALFKEY_STRIPE_PRICES=pro=price_…,scale=price_…'
  const findings = firstOfEach([
    problem(
      'stripe.key',
      !/^(sk|rk)_(test|live)_\w{8,}$/.test(key) &&
        'HALFKEY_STRIPE_SECRET_KEY does not look like a secret or restricted key of Stripe (sk_…, rk_…).',
      'export HALFKEY_STRIPE_SECRET_KEY=rk_live_…   # dashboard.stripe.com, Developers, API keys',
    ),
    warning(
      'stripe.key',
      key.includes('_test_') && env === 'production' && 'A test key in production: nobody is charged.',
      'export HALFKEY_STRIPE_SECRET_KEY=rk_live_…',
    ),
    problem(
      'stripe.webhook_secret',
      secret !== null &&
        !/^whsec_\S{8,}$/.test(secret) &&
        "HALFKEY_STRIPE_WEBHOOK_SECRET does not begin with whsec_: all of Stripe's events will be refused.",
      'export HALFKEY_STRIPE_WEBHOOK_SECRET=whsec_…   # dashboard.stripe.com, Developers, Webhooks, the endpoint',
    ),
    warning('stripe.prices', prices.size === 0 && 'No plan is on sale.', newPrices),
    warning('stripe.prices', odd.length > 0 && `These do not look like price ids: ${odd.join(', ')}.`, newPrices),
    note(
      'stripe.api',
      new URL(stripeApi).host !== 'api.stripe.com' && `HALFKEY_STRIPE_API points to ${stripeApi}, not to Stripe.`,
      'unset HALFKEY_STRIPE_API',
    ),
  ])
  return findings.length > 0 ? findings : [ok('stripe', 'Key, webhook secret and prices look valid.')]
}
