import ipaddr from 'ipaddr.js'
import { SETTINGS } from '../../config.ts'
import { type Config, publicUrl } from '../../platform/config.ts'
import { type Finding, note, ok, problem, warning } from './finding.ts'

/** Edits that turn one word into the other (Levenshtein); both are short. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (let i = 1; i <= one.length; i += 1) {
    const next = [i]
    for (let j = 1; j <= other.length; j += 1) {
      const replaced = (row[j - 1] as number) + (one[i - 1] === other[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[j] as number) + 1, (next[j - 1] as number) + 1))
    }
    row = next
  }
  return row[other.length] as number
}

const NAME_CHARS_MAX = 100
/** Part of a name's length that may be mistyped. */
const TYPOS_MAX = 0.3

function meant(name: string): string | undefined {
  if (name.length > NAME_CHARS_MAX) return undefined
  const [best] = Object.values(SETTINGS)
    .map(({ env }) => ({ env, edits: distance(name, env) }))
    .sort((a, b) => a.edits - b.edits)
  return best !== undefined && best.edits <= name.length * TYPOS_MAX ? best.env : undefined
}

function unknownVariable(name: string): Finding {
  const guess = meant(name)
  return warning(
    'configuration.unknown',
    `${name} is set, and nothing reads it.${guess === undefined ? '' : ` Did you mean ${guess}?`}`,
    guess === undefined
      ? `unset ${name}   # docs/operating.md lists every variable`
      : `export ${guess}="$${name}"; unset ${name}`,
  )
}

/** The environment: everything that is wrong with it, and what is odd. */
export function checkConfiguration(config: Config, problems: readonly string[]): Finding[] {
  const set = Object.keys(SETTINGS).length - config.defaults.length
  const findings = problems.map((each) =>
    problem(
      'configuration',
      `${each}.`,
      `Correct ${each.split(' ', 1)[0]} in the service's environment: docs/operating.md, "Settings".`,
    ),
  )
  if (problems.length === 0) findings.push(ok('configuration', `${set} settings are set, the others have defaults.`))
  findings.push(...config.unknown.map(unknownVariable))
  if (config.env === 'development')
    findings.push(
      note(
        'configuration.environment',
        'Development mode: loopback receivers, origins over http and the faucet are open.',
        'export HALFKEY_ENV=production   # before anybody else can reach it',
      ),
    )
  if (!config.rateLimits)
    findings.push(warning('configuration.rate_limits', 'All rate limits are off.', 'unset HALFKEY_RATE_LIMITS'))
  if (config.trustedProxies.some((range) => /\/0$/.test(range)))
    findings.push(
      problem(
        'configuration.trusted_proxies',
        'HALFKEY_TRUSTED_PROXIES trusts every address: any client can choose the address it is limited and logged by.',
        'export HALFKEY_TRUSTED_PROXIES=10.0.0.5   # the addresses of your proxies alone',
      ),
    )
  return findings
}

const isLoopback = (host: string) =>
  ['localhost', '127.0.0.1', '::1', '[::1]'].includes(host) || host.endsWith('.localhost')

/** Where users reach the service, and who can read its metrics. */
export function checkExposure(config: Config): Finding[] {
  const url = new URL(publicUrl(config))
  const findings: Finding[] = []
  if (config.publicUrl === null && config.env === 'production')
    findings.push(
      warning(
        'public_url',
        `HALFKEY_PUBLIC_URL is not set: tokens name ${url.origin} as their issuer, and passkeys belong to ${url.hostname}.`,
        'export HALFKEY_PUBLIC_URL=https://wallets.example.com   # the same for every process, before the first sign-in',
      ),
    )
  else if (url.protocol !== 'https:' && !isLoopback(url.hostname))
    findings.push(
      problem(
        'public_url',
        `${url.origin} is not https: passkeys do not work there, and tokens travel in clear.`,
        `export HALFKEY_PUBLIC_URL=https://${url.hostname}`,
      ),
    )
  else if (ipaddr.isValid(url.hostname.replace(/^\[(.*)\]$/, '$1')) && !isLoopback(url.hostname))
    findings.push(
      problem(
        'public_url',
        `${url.hostname} is an address: passkeys need a name.`,
        'export HALFKEY_PUBLIC_URL=https://wallets.example.com',
      ),
    )
  else findings.push(ok('public_url', `${url.origin}.`))
  findings.push(checkMetrics(config))
  return findings
}

function checkMetrics({ env, host, metricsPort, metricsToken }: Config): Finding {
  if (metricsToken !== null)
    return metricsToken.length >= 16
      ? ok('metrics', 'Metrics ask for a token.')
      : warning('metrics', 'HALFKEY_METRICS_TOKEN is short enough to be guessed.', NEW_TOKEN)
  if (metricsPort !== null && !isLoopback(host))
    return warning('metrics', `Metrics are open to everybody who reaches port ${metricsPort} of ${host}.`, NEW_TOKEN)
  if (metricsPort === null && env === 'production')
    return note('metrics', 'Nobody can read the metrics: there is neither a token nor a port for them.', NEW_TOKEN)
  return ok('metrics', 'Metrics are readable on loopback alone.')
}

const NEW_TOKEN = 'export HALFKEY_METRICS_TOKEN="$(openssl rand -hex 24)"   # and give it to Prometheus'

/** Stripe's settings by their form: nothing is asked of Stripe. */
export function checkStripe(config: Config): Finding[] {
  const { stripeSecretKey: key, stripeWebhookSecret: secret, stripePrices, stripeApi, env } = config
  if (key === null) return []
  const findings: Finding[] = []
  if (!/^(sk|rk)_(test|live)_\w{8,}$/.test(key))
    findings.push(
      problem(
        'stripe.key',
        "HALFKEY_STRIPE_SECRET_KEY is not of the form of Stripe's secret or restricted keys (sk_…, rk_…).",
        'export HALFKEY_STRIPE_SECRET_KEY=rk_live_…   # dashboard.stripe.com, Developers, API keys',
      ),
    )
  else if (key.includes('_test_') && env === 'production')
    findings.push(
      warning(
        'stripe.key',
        'A test key in production: nobody is charged.',
        'export HALFKEY_STRIPE_SECRET_KEY=rk_live_…',
      ),
    )
  if (secret !== null && !/^whsec_\S{8,}$/.test(secret))
    findings.push(
      problem(
        'stripe.webhook_secret',
        'HALFKEY_STRIPE_WEBHOOK_SECRET does not begin with whsec_: events of Stripe will all be refused.',
        'export HALFKEY_STRIPE_WEBHOOK_SECRET=whsec_…   # dashboard.stripe.com, Developers, Webhooks, the endpoint',
      ),
    )
  const odd = [...stripePrices].filter(([, price]) => !/^price_\w+$/.test(price)).map(([plan]) => plan)
  if (odd.length > 0 || stripePrices.size === 0)
    findings.push(
      warning(
        'stripe.prices',
        stripePrices.size === 0 ? 'No plan can be bought.' : `Not the form of a price's id: ${odd.join(', ')}.`,
        'export HALFKEY_STRIPE_PRICES=pro=price_…,scale=price_…',
      ),
    )
  if (new URL(stripeApi).host !== 'api.stripe.com')
    findings.push(note('stripe.api', `Stripe's API is asked at ${stripeApi}.`, 'unset HALFKEY_STRIPE_API'))
  return findings.length > 0 ? findings : [ok('stripe', "Key, webhook secret and prices have Stripe's form.")]
}
