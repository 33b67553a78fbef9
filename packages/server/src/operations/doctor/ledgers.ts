import type { Config } from '../../platform/config.ts'
import { LedgerSettingsError } from '../../platform/ports/ledger-settings-error.ts'
import { inspectLedgers, readLedgers } from '../../wallets/ledger/configured.ts'
import { type Finding, ok, problem } from './finding.ts'

/** Whether each participant of HALFKEY_LEDGERS answers, is the one that is expected, and can be used. */
export async function checkLedgers(config: Config): Promise<Finding[]> {
  try {
    const inspected = await inspectLedgers(await readLedgers(config))
    return inspected.map(({ name, url, version, problem: wrong }) =>
      wrong === null
        ? ok(`ledgers.${name}`, `The participant at ${url} responds. Its version is ${version}.`)
        : problem(
            `ledgers.${name}`,
            `The participant at ${url} cannot be used. ${wrong}`,
            `curl ${url}/v2/version   # is it running, and is its settings file right?`,
          ),
    )
  } catch (error) {
    if (!(error instanceof LedgerSettingsError)) throw error
    return [problem('ledgers', error.message, 'halfkey doctor   # again, after docs/ledgers/canton.md#settings')]
  }
}
