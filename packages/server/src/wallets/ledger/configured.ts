import type { Config } from '../../platform/config.ts'
import type { Egress } from '../../platform/egress/egress.ts'
import type { Ledger } from '../../platform/ports/ledger.ts'
import { LedgerSettingsError } from '../../platform/ports/ledger-settings-error.ts'
import type { KeyProvider } from '../../platform/security/key-provider.ts'
import type { CantonSettings } from './canton/settings.ts'
import { createEmbeddedLedger } from './embedded/embedded-ledger.ts'

// Without a participant, nothing of its adapter is even loaded.

/** A ledger that is configured. */
export type ConfiguredLedger = 'embedded' | CantonSettings

const nameOf = (ledger: ConfiguredLedger) => (ledger === 'embedded' ? ledger : ledger.name)

async function readEntry(entry: string): Promise<ConfiguredLedger> {
  if (entry === 'embedded') return entry
  const { readCantonSettings } = await import('./canton/settings.ts')
  try {
    return readCantonSettings(entry.slice(entry.indexOf(':') + 1))
  } catch (error) {
    if (error instanceof LedgerSettingsError) throw new LedgerSettingsError(`HALFKEY_LEDGERS: ${error.message}`)
    throw error
  }
}

/**
 * Reads HALFKEY_LEDGERS and the files that it names. The embedded ledger is always there: last, if it is not named.
 * @throws LedgerSettingsError
 */
export async function readLedgers({ ledgers }: Pick<Config, 'ledgers'>): Promise<ConfiguredLedger[]> {
  const all: ConfiguredLedger[] = []
  for (const entry of ledgers) all.push(await readEntry(entry))
  if (!all.includes('embedded')) all.push('embedded')
  const names = all.map(nameOf)
  const twice = names.find((name, at) => names.indexOf(name) !== at)
  if (twice !== undefined)
    throw new LedgerSettingsError(
      `HALFKEY_LEDGERS: two ledgers have the name ${twice}. Set "name" in one of their files.`,
    )
  return all
}

/** The ledgers by name; the first is for new wallets that name none. @throws LedgerSettingsError */
export async function openLedgers(
  configured: readonly ConfiguredLedger[],
  parts: { keys: KeyProvider; now: () => Date; egress: Egress },
): Promise<Map<string, Ledger>> {
  const ledgers = new Map<string, Ledger>()
  for (const each of configured) {
    if (each === 'embedded') ledgers.set(each, createEmbeddedLedger(parts))
    else {
      const { createCantonLedger } = await import('./canton/canton-ledger.ts')
      ledgers.set(each.name, createCantonLedger(each, parts))
    }
  }
  return ledgers
}

/** What the doctor says about a participant. */
interface InspectedLedger {
  name: string
  url: string
  version: string | null
  /** Null if it can be used. */
  problem: string | null
}

/** Asks each participant. @throws LedgerSettingsError */
export async function inspectLedgers(configured: readonly ConfiguredLedger[]): Promise<InspectedLedger[]> {
  const inspect = async (settings: CantonSettings) => {
    const [{ inspectParticipant }, { createParticipant }] = await Promise.all([
      import('./canton/inspect-participant.ts'),
      import('./canton/participant.ts'),
    ])
    const { name, url } = settings
    return { name, url, ...(await inspectParticipant(settings, createParticipant(settings))) }
  }
  return Promise.all(configured.flatMap((each) => (each === 'embedded' ? [] : [inspect(each)])))
}
