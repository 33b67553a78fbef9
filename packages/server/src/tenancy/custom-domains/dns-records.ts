import { Resolver } from 'node:dns/promises'
import type { Config } from '../../platform/config.ts'

/** All that a look-up may take, whatever the name servers do; a caller is promised an answer within 5 s. */
const LOOKUP_MS_MAX = 4_500
/** Of the first try; c-ares waits twice as long for the second. */
const TRY_MS = 1_200
const TRIES = 2
/** Each holds a socket. */
const RUNNING_MAX = 256
/** Of them for one owner: whose name servers are slow keeps nobody else waiting. */
const RUNNING_MAX_OF_OWNER = 25

/** The name servers gave no answer that says anything of the record: SERVFAIL, REFUSED, nonsense, silence. */
export class DnsUnavailable extends Error {}
/** Too many look-ups run; this one was not begun. */
export class DnsBusy extends Error {}

/** Looks up records of names that customers name. */
export interface DnsRecords {
  /**
   * The texts at a name, each record's pieces put together, aliases followed; none where there is no such name or record.
   * One octet is one character. Whoever asks for a name that is being looked up gets that answer.
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
  // One of its own for each look-up: a resolver remembers answers, and who has just put a record there asks for what is
  // there now. And it can be cancelled alone.
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
    if (total >= RUNNING_MAX || own >= RUNNING_MAX_OF_OWNER) throw new DnsBusy('too many DNS look-ups')
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

/** The process's own, which asks the configured name servers or else the system's. */
export function dnsRecords(config: Config): DnsRecords {
  let records = byProcess.get(config)
  if (records === undefined) {
    records = createDnsRecords(config.dnsServers)
    byProcess.set(config, records)
  }
  return records
}
