// Which addresses a customer's URL may lead to. Everything here is decided from the address and the operator's list alone.
import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Cidr = [network: Address, prefixLength: number]

/**
 * The guard said no. The message is public text for the customer: it names the rule, never an address that a name
 * resolved to nor anything that answered inside.
 */
export class EgressRefused extends Error {
  override name = 'EgressRefused'
}

/** How an address may be reached: not at all, by https: only (it is public), or by http: too (the operator listed it). */
export type Verdict = 'refused' | 'https' | 'any'

// Cloud metadata services give credentials to every caller, so no list allows them.
// AWS, Azure, GCP, DigitalOcean, Oracle (169.254.169.254), AWS ECS and EKS, Azure wire server, Alibaba, Oracle classic.
const METADATA_ADDRESSES = new Set(
  [
    '169.254.169.254',
    '169.254.170.2',
    '169.254.170.23',
    '168.63.129.16',
    '100.100.100.200',
    '192.0.0.192',
    'fd00:ec2::254',
    'fd00:ec2::23',
    'fd20:ce::254',
  ].map((address) => ipaddr.parse(address).toNormalizedString()),
)

const METADATA_HOSTS = new Set([
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'metadata.azure.internal',
  'metadata.azure.com',
  'metadata.tencentyun.com',
  'metadata.platformequinix.com',
  'metadata.packet.net',
  'instance-data',
  'instance-data.ec2.internal',
  'rancher-metadata',
])

/** Ranges that name no single reachable host, or hide one that can't be read back (Teredo): no list opens them. */
const NEVER = new Set(['unspecified', 'broadcast', 'multicast', 'teredo'])
/** What a host entry of the operator's list opens. */
const OPENED_BY_HOST = new Set(['private', 'uniqueLocal', 'carrierGradeNat', 'loopback'])

const GLOBAL_UNICAST_V6 = ipaddr.IPv6.parse('2000::')
const HOST_NAME = /^(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/

/** True for a lower-case DNS name without its trailing dot; underscores are let through, as receivers exist that use them. */
export function isHostName(name: string): boolean {
  return HOST_NAME.test(name)
}

/** True for names under which clouds serve credentials. `name` is lower case, without a trailing dot. */
export function isMetadataHost(name: string): boolean {
  return METADATA_HOSTS.has(name)
}

/** The operator's rules, parsed once. Entries as in `HALFKEY_EGRESS_ALLOW`: a CIDR, an address, or a host name. */
export class AddressPolicy {
  readonly #cidrs: Cidr[] = []
  readonly #hosts = new Set<string>()
  readonly #allowLoopback: boolean

  /** @throws Error naming an entry that is neither a CIDR, an address nor a host name. */
  constructor(allow: string[], allowLoopback: boolean) {
    this.#allowLoopback = allowLoopback
    for (const raw of allow) {
      const entry = raw.trim().toLowerCase().replace(/\.$/, '')
      const cidr = parseCidr(entry)
      if (cidr) this.#cidrs.push(cidr)
      // A name of digits and dots alone is a mistyped address: as a host it would silently open nothing.
      else if (isHostName(entry) && !/^[\d.]+$/.test(entry)) this.#hosts.add(entry)
      else throw new Error(`egress allow list: ${JSON.stringify(raw)} is neither a CIDR nor a host name`)
    }
  }

  /** True when this exact name is listed. `name` is lower case, without a trailing dot. */
  listsHost(name: string): boolean {
    return this.#hosts.has(name)
  }

  /** True when some address may be reached by http:, so that an http: URL can't be refused before its name is resolved. */
  get opensPlaintext(): boolean {
    return this.#allowLoopback || this.#cidrs.length > 0
  }

  /** Judges a canonical address (no brackets). `hostListed`: its name is on the operator's list. Unreadable is refused. */
  judge(address: string, hostListed: boolean): Verdict {
    if (!ipaddr.isValid(address)) return 'refused'
    return this.#judge(ipaddr.parse(address), hostListed)
  }

  #judge(address: Address, hostListed: boolean): Verdict {
    if (address instanceof ipaddr.IPv6 && address.zoneId !== undefined) return 'refused'
    if (METADATA_ADDRESSES.has(address.toNormalizedString())) return 'refused'
    const range: string = address.range()
    if (NEVER.has(range)) return 'refused'
    const listed = this.#cidrs.some((cidr) => contains(cidr, address))
    // An address that carries an IPv4 address inside leads to that one: it must be fine by itself as well.
    const embedded = embeddedIPv4(address, range)
    if (embedded) return listed && this.#judge(embedded, hostListed) !== 'refused' ? 'any' : 'refused'
    if (range === 'linkLocal') {
      // 0.0.0.0/0 or a wide mistake must not open link-local; only an entry that lies inside it says that it is meant.
      return this.#cidrs.some((cidr) => contains(cidr, address) && isInsideLinkLocal(cidr)) ? 'any' : 'refused'
    }
    if (listed) return 'any'
    if (range === 'loopback' && this.#allowLoopback) return 'any'
    if (hostListed && (OPENED_BY_HOST.has(range) || isPublic(address, range))) return 'any'
    return isPublic(address, range) ? 'https' : 'refused'
  }
}

function isPublic(address: Address, range: string): boolean {
  if (range !== 'unicast') return false
  // ipaddr.js calls everything it has no name for unicast; IANA has assigned only 2000::/3 so far.
  return address instanceof ipaddr.IPv4 || address.match(GLOBAL_UNICAST_V6, 3)
}

function contains([network, prefixLength]: Cidr, address: Address): boolean {
  return network.kind() === address.kind() && address.match(network, prefixLength)
}

function isInsideLinkLocal([network, prefixLength]: Cidr): boolean {
  return network.range() === 'linkLocal' && prefixLength >= (network.kind() === 'ipv4' ? 16 : 10)
}

/** The IPv4 address that an IPv6 address of a transition scheme stands for: mapped, compatible, SIIT, NAT64, 6to4. */
function embeddedIPv4(address: Address, range: string): ipaddr.IPv4 | null {
  if (address instanceof ipaddr.IPv4) return null
  const parts = address.parts
  const compatible = range !== 'loopback' && parts.slice(0, 6).every((part) => part === 0)
  if (range === '6to4') return ipv4From(parts[1], parts[2])
  if (compatible || range === 'ipv4Mapped' || range === 'rfc6145' || range === 'rfc6052') {
    return ipv4From(parts[6], parts[7])
  }
  return null
}

function ipv4From(high = 0, low = 0): ipaddr.IPv4 {
  return new ipaddr.IPv4([high >> 8, high & 0xff, low >> 8, low & 0xff])
}

function parseCidr(entry: string): Cidr | null {
  const text = entry.replace(/^\[(.*)\]/, '$1')
  if (ipaddr.IPv4.isValidCIDRFourPartDecimal(text) || ipaddr.IPv6.isValidCIDR(text)) return ipaddr.parseCIDR(text)
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return [ipaddr.IPv4.parse(text), 32]
  if (ipaddr.IPv6.isValid(text)) return [ipaddr.IPv6.parse(text), 128]
  return null
}
