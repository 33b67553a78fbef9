import { Resolver } from 'node:dns/promises'
import type { Config } from '../../platform/config.ts'

/** The longest duration of a lookup. Callers are promised a response within 5 s. */
const LOOKUP_MS_MAX = 4_500
/** Time-out of the first try. c-ares waits twice as long for the second. */
const TRY_MS = 1_200
const TRIES = 2
/** The limit of concurrent lookups, because each holds a socket. */
const RUNNING_MAX = 256
/** The limit for one owner, so that slow name servers of one owner do not delay the others. */
const RUNNING_MAX_OF_OWNER = 25

/** The name servers gave no usable answer: SERVFAIL, REFUSED, a malformed one, or none. */
export class DnsUnavailable extends Error {}
/** Too many lookups are running. This one was not started. */
export class DnsBusy extends Error {}

/** Looks up records of names that customers choose. */
export interface DnsRecords {
  /**
   * The texts at a name. Joins each record's pieces and follows aliases. Empty if the name or record does not exist. One
   * octet is one character. Concurrent calls for the same name share one lookup.
   * @throws DnsUnavailable, DnsBusy
   */
  texts(name: string, owner: string): Promise<string[]>
}

function codeOf(error: unknown): string {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined
  if (typeof code !== 'string') throw error
  return code
}

async function lookUpTexts(servers: readonly string[], name: string): Promise<string[]> {
  // A new resolver for each lookup: a resolver caches answers, and a customer who has just set a record needs the current
  // one. It can also be cancelled separately.
  const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES })
  if (servers.length > 0) resolver.setServers(servers)
  const timer = setTimeout(() => resolver.cancel(), LOOKUP_MS_MAX)
  try {
    return (await resolver.resolveTxt(name)).map((pieces) => pieces.join(''))
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOTFOUND' || code === 'ENODATA') return []
    throw new DnsUnavailable(code === 'ECANCELLED' ? 'ETIMEOUT' : code)
  } finally {
    clearTimeout(timer)
  }
}

function createDnsRecords(servers: readonly string[]): DnsRecords {
  const flying = new Map<string, Promise<string[]>>()
  const running = new Map<string, number>()
  let total = 0

  async function counted(name: string, owner: string): Promise<string[]> {
    const own = running.get(owner) ?? 0
    if (total >= RUNNING_MAX || own >= RUNNING_MAX_OF_OWNER) throw new DnsBusy('too many DNS lookups')
    total += 1
    running.set(owner, own + 1)
    try {
      return await lookUpTexts(servers, name)
    } finally {
      total -= 1
      const left = (running.get(owner) ?? 1) - 1
      if (left === 0) running.delete(owner)
      else running.set(owner, left)
    }
  }

  return {
    texts(name, owner) {
      const known = flying.get(name)
      if (known !== undefined) return known
      const lookup = counted(name, owner).finally(() => flying.delete(name))
      flying.set(name, lookup)
      return lookup
    },
  }
}

const byProcess = new WeakMap<Config, DnsRecords>()

/** The instance of this process. It uses the configured name servers or, without any, the system's. */
export function dnsRecords(config: Config): DnsRecords {
  let records = byProcess.get(config)
  if (records === undefined) {
    records = createDnsRecords(config.dnsServers)
    byProcess.set(config, records)
  }
  return records
}
