import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6
interface Range {
  base: Address
  bits: number
}

const bitsOf = (address: Address) => (address.kind() === 'ipv4' ? 32 : 128)

/** Strict: no zones and no octal, hexadecimal or shortened IPv4, because programs read them differently. */
function parseAddress(text: string): Address | null {
  if (text.includes('%')) return null
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text)
  return text.includes(':') && ipaddr.IPv6.isValid(text) ? ipaddr.IPv6.parse(text) : null
}

function parseRange(text: string): Range | null {
  const [baseText, bitsText, ...rest] = text.split('/')
  const base = parseAddress(baseText ?? '')
  if (base === null || rest.length > 0) return null
  if (bitsText === undefined) return { base, bits: bitsOf(base) }
  if (!/^(0|[1-9]\d{0,2})$/.test(bitsText) || Number(bitsText) > bitsOf(base)) return null
  return { base, bits: Number(bitsText) }
}

/**
 * An address or CIDR in its canonical form, which requests are matched with and which reveals duplicates.
 * @throws Error whose message completes "Must be …"
 */
export function canonicalRange(text: string): string {
  const range = parseRange(text)
  if (range === null) throw new Error('an address or a CIDR such as 203.0.113.0/24')
  const { base, bits } = range
  // The address of an IPv4 client is always seen as IPv4.
  if (base instanceof ipaddr.IPv6 && base.isIPv4MappedAddress())
    throw new Error(`written as IPv4: ${base.toIPv4Address()}`)
  if (!text.includes('/')) return base.toString()
  const network = `${base.kind() === 'ipv4' ? ipaddr.IPv4.networkAddressFromCIDR(text) : ipaddr.IPv6.networkAddressFromCIDR(text)}/${bits}`
  const canonical = `${base}/${bits}`
  if (network !== canonical) throw new Error(`a network's first address: ${network}`)
  return canonical
}

function within(inner: Range, outer: Range): boolean {
  return inner.base.kind() === outer.base.kind() && inner.bits >= outer.bits && inner.base.match(outer.base, outer.bits)
}

/** Whether `outer` contains every address of `inner`. An empty list means all addresses. */
export function rangesWithin(inner: readonly string[], outer: readonly string[]): boolean {
  if (outer.length === 0) return true
  if (inner.length === 0) return false
  const allowed = outer.map(parseRange)
  return inner.every((text) => {
    const range = parseRange(text)
    return range !== null && allowed.some((other) => other !== null && within(range, other))
  })
}
