import { Resolver } from 'node:dns/promises'
import ipaddr from 'ipaddr.js'
import { type Config, publicUrl } from '../../platform/config.ts'
import { createEgress, EgressRefused } from '../../platform/egress/egress.ts'
import { redact } from '../../platform/observability/log.ts'
import { type Finding, firstOfEach, ok, problem, warning } from './finding.ts'

const DNS_TIMEOUT_MS = 2_000
const SERVERS_MAX = 16
/** Reserved for examples (RFC 2606): any answer, "no such name" too, shows that the server answers. */
const NAME_TO_ASK = 'example.com'
const ANSWERED = new Set(['ENOTFOUND', 'ENODATA'])

/** Null when the server answered, whatever it said; else what went wrong. */
async function ask(server: string, name: string): Promise<{ failure: string | null; exists: boolean }> {
  const resolver = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: 1 })
  resolver.setServers([server])
  const timer = setTimeout(() => resolver.cancel(), 2 * DNS_TIMEOUT_MS)
  try {
    // A name may have addresses of the other family alone.
    await resolver.resolve4(name).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENODATA') throw error
      return resolver.resolve6(name)
    })
    return { failure: null, exists: true }
  } catch (error) {
    const code = String((error as NodeJS.ErrnoException).code)
    return { failure: ANSWERED.has(code) ? null : code, exists: false }
  } finally {
    clearTimeout(timer)
  }
}

/** Whether each configured resolver answers, asked by itself: the service falls back from one to the next, and so would hide it. */
export async function checkDns(config: Config): Promise<Finding[]> {
  const own = config.dnsServers.length > 0
  const servers = (own ? config.dnsServers : new Resolver().getServers()).slice(0, SERVERS_MAX)
  const host = new URL(publicUrl(config)).hostname
  const isName = !ipaddr.isValid(host.replace(/^\[(.*)\]$/, '$1')) && !/(^|\.)localhost$/.test(host)
  const name = isName ? host : NAME_TO_ASK
  const answers = await Promise.all(servers.map(async (server) => ({ server, ...(await ask(server, name)) })))
  const fix = own
    ? "export HALFKEY_DNS_SERVERS=…   # servers that respond; or unset it to use the system's servers"
    : 'cat /etc/resolv.conf   # or set other servers: export HALFKEY_DNS_SERVERS=192.0.2.53'
  const findings = answers.map(({ server, failure }) => {
    if (failure === null) return ok('dns', `${server} responds.`)
    const seen = `The DNS server ${server} did not resolve ${name} (${failure}).`
    return answers.every((each) => each.failure !== null) && own
      ? problem('dns', `${seen} No DNS server works, so webhooks to host names cannot be delivered.`, fix)
      : warning('dns', seen, fix)
  })
  if (servers.length === 0) findings.push(warning('dns', 'No DNS server is configured.', fix))
  const reached = answers.filter((each) => each.failure === null)
  if (isName && reached.length > 0 && reached.every((each) => !each.exists))
    findings.push(
      warning(
        'public_url.dns',
        `${host}, the public URL's host, has no address in DNS.`,
        `dig +short ${host}   # add an A record for the name, or only an AAAA record if you intend that`,
      ),
    )
  return findings
}

/** Wider than this an entry of HALFKEY_EGRESS_ALLOW opens a whole network. */
const PREFIX_MIN = { ipv4: 16, ipv6: 48 }

function tooWide(entry: string): Finding[] {
  if (!entry.includes('/')) return []
  const [network, prefix] = ipaddr.parseCIDR(entry)
  const fix = 'export HALFKEY_EGRESS_ALLOW=10.1.2.3/32,hooks.internal   # only the receivers'
  return firstOfEach([
    problem(
      'egress.allow',
      prefix === 0 && `HALFKEY_EGRESS_ALLOW opens every address (${entry}): a webhook can reach anything.`,
      fix,
    ),
    warning(
      'egress.allow',
      prefix < PREFIX_MIN[network.kind()] && `HALFKEY_EGRESS_ALLOW opens all of ${entry} to any webhook.`,
      fix,
    ),
  ])
}

/** Addresses that no webhook may reach unless the operator says so; the last is one that nothing opens. */
const INSIDE = ['127.0.0.1', '10.0.0.1', '172.16.0.1', '192.168.0.1', '[::1]', '[fd00::1]', '169.254.169.254']

const isLoopback = (address: string) => address === '127.0.0.1' || address === '[::1]'

/** Whether the guard that delivers webhooks lets a call into this machine or a private network. In development this machine is open. */
export async function checkEgress(config: Config): Promise<Finding[]> {
  const inDevelopment = config.env === 'development'
  const guard = createEgress({ allow: config.egressAllow, allowLoopback: inDevelopment, dnsServers: config.dnsServers })
  const isOpen = (address: string) =>
    guard.assertAllowed(`https://${address}/`).then(
      () => true,
      (error: unknown) => !(error instanceof EgressRefused),
    )
  const opened = await Promise.all(INSIDE.map(isOpen)).finally(() => guard.close())
  const open = INSIDE.filter((address, at) => opened[at] && !(inDevelopment && isLoopback(address)))
  const fix = 'unset HALFKEY_EGRESS_ALLOW   # or list only the receivers: 10.1.2.3/32,hooks.internal'
  const guarded = firstOfEach([
    problem(
      'egress',
      open.includes('169.254.169.254') && 'Webhooks can reach cloud metadata: report this as a security vulnerability.',
      fix,
    ),
    warning('egress', open.length > 0 && `HALFKEY_EGRESS_ALLOW lets webhooks reach ${open.join(', ')}.`, fix),
    ok(
      'egress',
      inDevelopment
        ? 'Webhooks can reach this machine, because HALFKEY_ENV is development. They cannot reach private networks.'
        : 'Webhooks cannot reach private networks or this machine.',
    ),
  ])
  return [...guarded, ...config.egressAllow.flatMap(tooWide)]
}

const REDIS_TIMEOUT_MS = 3_000

/** Whether the Redis that rate limits are shared by answers. */
export async function checkRedis(config: Config): Promise<Finding[]> {
  if (config.redisUrl === null) return []
  const { createClient } = await import('@redis/client')
  const fix = 'redis-cli -u "$REDIS_URL" ping   # until it responds, each process limits by itself'
  let client: ReturnType<typeof createClient> | undefined
  try {
    client = createClient({
      url: config.redisUrl,
      socket: { connectTimeout: REDIS_TIMEOUT_MS, reconnectStrategy: false },
      disableOfflineQueue: true,
    })
    client.on('error', () => {})
    await client.connect()
    await client.withAbortSignal(AbortSignal.timeout(REDIS_TIMEOUT_MS)).ping()
    return [ok('redis', 'Redis responds: rate limits hold across processes.')]
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return [warning('redis', `Redis does not respond (${redact(code ?? message)}).`, fix)]
  } finally {
    client?.destroy()
  }
}
