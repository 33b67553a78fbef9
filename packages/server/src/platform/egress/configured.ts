import type { Config } from '../config.ts'
import { createEgress, type Egress } from './egress.ts'

/** The guard with the operator's settings. */
export function openEgress(config: Config): Egress {
  return createEgress({
    allow: config.egressAllow,
    allowLoopback: config.env === 'development',
    dnsServers: config.dnsServers,
    proxy: config.egressProxy,
    proxyResolves: config.egressProxyResolves,
  })
}
